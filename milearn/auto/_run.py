"""One fit of an automatic estimator: candidates prepared and scored within a time budget."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from .._bags import Bags
from .._bags.distinct import MergedBags
from ..svm._bag_svm import bag_rows, drawn, plan_of
from ..svm._kernel_average import (
    KernelAverage,
    as_kind,
    combined,
    default_scalings,
    learn_average,
    learn_scaled,
)
from ._candidates import (
    BagCandidate,
    Candidate,
    InstanceCandidate,
    Scaling,
    Training,
)
from ._folds import Folds
from ._plan import SizePlan

__all__ = [
    "INSTANCE",
    "Progress",
    "bag_candidate",
    "fold_scores",
    "instance_candidate",
]

INSTANCE = "instance"

# Time of a fit on all training bags relative to that of one on a part of them.
_WHOLE_FIT = 1.5


class Progress:
    """Time, lines of ``verbose``, callbacks, and what was left out.

    Parameters
    ----------
    name : str
        The estimator's, for its lines.
    task : FitTask
    budget : float or None
        Seconds.
    verbose : bool
    """

    def __init__(self, name: str, task: Any, budget: float | None, verbose: bool) -> None:
        self.name, self.task, self.budget, self.verbose = name, task, budget, verbose
        self.start = time.perf_counter()
        self.skipped: list[str] = []
        self.stopped = False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    @property
    def limited(self) -> bool:
        """Whether steps are to be taken one by one, because one of them may be the last."""
        return self.budget is not None

    def step(self, what: str) -> None:
        """Report a step that is over."""
        if self.verbose:
            print(f"[{self.name}] {self.elapsed:.1f} s: {what}", flush=True)
        self.stopped = self.task.step() or self.stopped

    def allows(self, seconds: float) -> bool:
        """Whether so many seconds are left, and no callback asked to stop."""
        return not self.stopped and (self.budget is None or self.elapsed + seconds <= self.budget)

    def skip(self, what: str) -> None:
        """Note what was left out."""
        reason = "a callback asked to stop" if self.stopped else f"time_limit={self.budget} s"
        self.skipped.append(f"{what} ({reason})")
        if self.verbose:
            print(f"[{self.name}] left out: {self.skipped[-1]}", flush=True)


# -- candidates ------------------------------------------------------------------------------------


def bag_candidate(
    merged: MergedBags,
    training: Training,
    size: SizePlan,
    progress: Progress,
    n_jobs: int | None,
    seed: int,
    kernels: tuple[str, ...] | None = None,
) -> BagCandidate:
    """The average of kernels, learnt on the distinct bags or on landmarks among them.

    All kernels of the plan where ``kernels`` is None.
    """
    plan = plan_of(list(size.kernels if kernels is None else kernels), "auto", 1.0, size.text)
    distinct = merged.distinct
    if size.n_components is not None and size.n_components < len(merged.first):
        distinct = merged.bags[drawn(merged, size.n_components, seed)]
    distinct = as_kind(distinct, size.text)
    if progress.limited or effective_n_jobs(n_jobs) == 1:
        average, matrix = _one_by_one(plan, distinct, progress, n_jobs, seed)
    else:
        average, matrix = learn_average(plan, distinct, n_jobs, seed)
        progress.step("bag kernels learnt")
    return BagCandidate(*bag_rows(average, matrix, merged), training)


def _one_by_one(
    plan: Any, bags: Bags, progress: Progress, n_jobs: int | None, seed: int
) -> tuple[KernelAverage, np.ndarray]:
    found: list[Any] = []
    took = 0.0
    for number, scaling in enumerate(plan.scalings):
        # Half of the budget: folds and the last fit come after the kernels.
        if found and not progress.allows(took + progress.elapsed):
            progress.skip(f"scaling {number + 1} of {len(plan.scalings)}")
            continue
        begun = progress.elapsed
        found.append(learn_scaled(plan, scaling, bags, n_jobs, seed))
        took = progress.elapsed - begun
        progress.step(f"bag kernels learnt over scaling {number + 1} of {len(plan.scalings)}")
    return combined(plan, found)


def instance_candidate(
    merged: MergedBags, training: Training, size: SizePlan, model: Any
) -> InstanceCandidate:
    """An estimator of bags by their highest instance, on scaled instances."""
    distinct = as_kind(merged.distinct, size.text)
    scale = Scaling.of(distinct, size.text, clone(default_scalings()[0]))
    return InstanceCandidate(model, scale, scale(merged.bags), training)


# -- scores ----------------------------------------------------------------------------------------


def fold_scores(
    candidates: dict[str, Candidate], folds: Folds, progress: Progress, n_jobs: int | None
) -> dict[str, list[np.ndarray]]:
    """Scores of the test bags of each fold, by name.

    A candidate for which the time does not suffice is left out, or has fewer folds; the first one
    has at least one fold, where there are folds.

    Parameters
    ----------
    candidates : dict of Candidate
    folds : list of (train, test)
    progress : Progress
    n_jobs : int or None
    """
    found: dict[str, list[np.ndarray]] = {}
    for name, candidate in candidates.items():
        if progress.limited:
            scores = _within_budget(name, candidate, folds, progress, needed=not found)
        elif progress.stopped and found:
            progress.skip(f"{name!r}")
            continue
        else:
            scores = Parallel(n_jobs=n_jobs)(
                delayed(candidate.fold)(train, test) for train, test in folds
            )
            progress.step(f"{name!r} scored on {len(folds)} fold(s)")
        if scores:
            found[name] = scores
    return found


def _within_budget(
    name: str, candidate: Candidate, folds: Folds, progress: Progress, *, needed: bool
) -> list[np.ndarray]:
    scores: list[np.ndarray] = []
    took = 0.0
    for number, fold in enumerate(folds):
        if not progress.allows(took * (1 + _WHOLE_FIT)) and (scores or not needed):
            break
        begun = progress.elapsed
        scores.append(candidate.fold(*fold))
        took = progress.elapsed - begun
        progress.step(f"{name!r} scored on fold {number + 1} of {len(folds)}")
    if not needed and not (scores and progress.allows(took * _WHOLE_FIT)):
        progress.skip(f"{name!r}")
        return []
    if len(scores) < len(folds):
        progress.skip(f"inner folds {len(scores) + 1} to {len(folds)} of {name!r}")
    return scores
