"""One fit of an automatic estimator: candidates prepared and scored within a time budget."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone, is_regressor

from .._bags import Bags
from .._bags.distinct import MergedBags
from .._compat import FitTask
from ..svm._bag_svm import bag_rows, plan_of, random_landmarks
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
    ScoreFunction,
    Training,
)
from ._folds import Folds
from ._plan import size_plan

__all__ = ["INSTANCE", "Run"]

INSTANCE = "instance"

# Ratio of the times of a fit on all training bags and on a subset of them.
_WHOLE_FIT = 1.5


class Run:
    """A fit on merged bags: candidates, time, messages of ``verbose`` and skipped steps.

    Parameters
    ----------
    estimator : MIClassifier or MIRegressor
        Its parameters ``time_limit``, ``n_jobs`` and ``verbose`` are read.
    task : FitTask
    merged : MergedBags
    targets : ndarray of shape (n_merged,)
        Class numbers or values.
    n_columns : int
        Columns of scores.
    seed : int

    Attributes
    ----------
    size : SizePlan
    training : Training
    skipped : list of str
        Skipped steps and the reasons.
    """

    def __init__(
        self,
        estimator: Any,
        task: FitTask,
        merged: MergedBags,
        targets: np.ndarray,
        n_columns: int,
        seed: int,
    ) -> None:
        self.name, self.task = type(estimator).__name__, task
        self.budget, self.n_jobs = estimator.time_limit, estimator.n_jobs
        self.verbose = bool(estimator.verbose)
        self.merged, self.seed = merged, seed
        self.size = size_plan(merged.bags)
        self.training = Training(
            targets, n_columns, is_regressor(estimator), merged.weights, self.size.cost
        )
        self.skipped = list(self.size.notes)
        self.start, self.stopped = time.perf_counter(), False

    def fitted(self, way: str, scores: dict[str, Any], function: ScoreFunction) -> dict[str, Any]:
        """The fitted attributes of both estimators, after fitting a model on all bags."""
        self._step(f"{way!r} fitted on all bags")
        return {
            "paradigm_": way,
            "scores_": scores,
            "skipped_": self.skipped,
            "n_bags_": len(self.merged.bags),
            "_function": function,
        }

    # -- time ------------------------------------------------------------------------------

    @property
    def _elapsed(self) -> float:
        return time.perf_counter() - self.start

    def _step(self, what: str) -> None:
        """Report a completed step."""
        if self.verbose:
            print(f"[{self.name}] {self._elapsed:.1f} s: {what}", flush=True)
        self.stopped = self.task.step() or self.stopped

    def _allows(self, seconds: float) -> bool:
        """Whether at least ``seconds`` remain, and no callback requested to stop."""
        return not self.stopped and (self.budget is None or self._elapsed + seconds <= self.budget)

    def _skip(self, what: str) -> None:
        """Record a skipped step."""
        reason = "a callback asked to stop" if self.stopped else f"time_limit={self.budget} s"
        self.skipped.append(f"{what} ({reason})")
        if self.verbose:
            print(f"[{self.name}] left out: {self.skipped[-1]}", flush=True)

    # -- candidates ------------------------------------------------------------------------

    def bag_candidate(self, kernels: tuple[str, ...]) -> BagCandidate:
        """The average of kernels, learnt on the distinct bags or on landmarks among them."""
        merged, size = self.merged, self.size
        plan = plan_of(list(kernels), "auto", 1.0, size.text)
        distinct = merged.distinct
        if size.n_components is not None and size.n_components < len(merged.distinct_positions):
            distinct = merged.bags[random_landmarks(merged, size.n_components, self.seed)]
        distinct = as_kind(distinct, size.text)
        if self.budget is not None or effective_n_jobs(self.n_jobs) == 1:
            average, matrix = self._one_by_one(plan, distinct)
        else:
            average, matrix = learn_average(plan, distinct, self.n_jobs, self.seed)
            self._step("bag kernels learnt")
        return BagCandidate(*bag_rows(average, matrix, merged), self.training)

    def _one_by_one(self, plan: Any, bags: Bags) -> tuple[KernelAverage, np.ndarray]:
        found: list[Any] = []
        took = 0.0
        for number, scaling in enumerate(plan.scalings):
            # Use half of the time: folds and the final fit follow.
            if found and not self._allows(took + self._elapsed):
                self._skip(f"scaling {number + 1} of {len(plan.scalings)}")
                continue
            begun = self._elapsed
            found.append(learn_scaled(plan, scaling, bags, self.n_jobs, self.seed))
            took = self._elapsed - begun
            self._step(f"bag kernels learnt over scaling {number + 1} of {len(plan.scalings)}")
        return combined(plan, found)

    def instance_candidate(self, kind: type) -> InstanceCandidate:
        """MISVC or CoupledMISVR on scaled instances."""
        size = self.size
        model = kind(C=size.cost, kernel=size.instance_kernel, random_state=self.seed)
        distinct = as_kind(self.merged.distinct, size.text)
        scale = Scaling.of(distinct, size.text, clone(default_scalings()[0]))
        return InstanceCandidate(model, scale, scale(self.merged.bags), self.training)

    # -- scores ----------------------------------------------------------------------------

    def fold_scores(
        self, candidates: dict[str, Candidate], folds: Folds
    ) -> dict[str, list[np.ndarray]]:
        """Scores of the test bags of each fold, by name.

        If the time is not sufficient, candidates are skipped or have fewer folds. The first
        candidate has at least one fold, if there are folds.
        """
        found: dict[str, list[np.ndarray]] = {}
        for name, candidate in candidates.items():
            if self.budget is not None:
                scores = self._within_budget(name, candidate, folds, needed=not found)
            elif self.stopped and found:
                self._skip(f"{name!r}")
                continue
            else:
                scores = Parallel(n_jobs=self.n_jobs)(
                    delayed(candidate.fold)(train, test) for train, test in folds
                )
                self._step(f"{name!r} scored on {len(folds)} fold(s)")
            if scores:
                found[name] = scores
        return found

    def _within_budget(
        self, name: str, candidate: Candidate, folds: Folds, *, needed: bool
    ) -> list[np.ndarray]:
        scores: list[np.ndarray] = []
        took = 0.0
        for number, fold in enumerate(folds):
            if not self._allows(took * (1 + _WHOLE_FIT)) and (scores or not needed):
                break
            begun = self._elapsed
            scores.append(candidate.fold(*fold))
            took = self._elapsed - begun
            self._step(f"{name!r} scored on fold {number + 1} of {len(folds)}")
        if not needed and not (scores and self._allows(took * _WHOLE_FIT)):
            self._skip(f"{name!r}")
            return []
        if len(scores) < len(folds):
            self._skip(f"inner folds {len(scores) + 1} to {len(folds)} of {name!r}")
        return scores
