"""Runs of a solver over several problems and several starts of each, and warnings about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import numpy as np
from joblib import delayed, effective_n_jobs
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning

from .._bags import Bags
from .._bags.distinct import instance_ranks
from .._bags.names import bag_text
from .._bags.threads import Parallel, working_threads
from .._compat import FitTask
from .._solvers.common.cccp import RELATIVE_TIE
from .warn import warn_user

# Settings of estimators with which fits seldom end in a constant.
_AGAINST_CONSTANTS = {
    "class_weight": "balanced",
    "init": "auto",
    "variant": "sbmil",
    "kernel": "rbf",
}


class MultiStart:
    """Loop over problems and starts: jobs, progress, reports, and the best start of each problem.

    Parameters
    ----------
    estimator : estimator instance
        The estimator whose callbacks are called. ``verbose`` and ``n_jobs`` are read, and reports
        contain its name. :func:`joblib.parallel_config` applies if ``n_jobs`` is None or missing.
    max_iter : int or None
        Maximum number of steps of a run, for progress bars; None if unknown.

    Attributes
    ----------
    start_objectives : ndarray of shape (n_starts,), or (n_problems, n_starts) for several problems
        Objectives of all starts, after :meth:`best`.
    """

    def __init__(self, estimator: Any, max_iter: int | None) -> None:
        self.estimator, self.name = estimator, type(estimator).__name__
        self.n_jobs, self.max_iter = getattr(estimator, "n_jobs", None), max_iter

    def n_threads(self, n_runs: int) -> int:
        """Threads of each run: jobs that are left over by the runs."""
        return max(1, effective_n_jobs(self.n_jobs) // n_runs)

    def best(
        self,
        solve: Callable[..., Any],
        problems: Sequence[Sequence[tuple[Any, ...]]],
        gap_tol: float | None = None,
        **data: Any,
    ) -> tuple[list[Any], FitTask]:
        """Solve every problem from each of its starts and keep the lowest objective of each.

        Runs with more empty clusters (``n_empty``) than others lose. The first start that reached
        the objective up to rounding is kept.

        Parameters
        ----------
        solve : callable
            ``solve(*arguments, on_iteration)`` returns a result with ``objective``;
            ``on_iteration(iteration, objective, **facts)`` reports a step and returns True if a
            callback asks to stop.
        problems : sequence of sequences of tuples
            The arguments of each start of each problem.
        gap_tol : float, default=None
            Relative duality gap above which a result has not converged.
        **data
            ``X``, ``y`` and ``sample_weight``, for callbacks that score.

        Returns
        -------
        results : list
            The best result of each problem.
        task : FitTask
            The task of ``fit``, which has to be ended when the estimator is fitted.
        """
        runs = list(chain.from_iterable(problems))
        parallel = len(runs) > 1 and effective_n_jobs(self.n_jobs) > 1
        n_threads = self.n_threads(len(runs))
        task = self.estimator._start_task(len(runs), parallel=parallel, **data)
        title = f"[{self.name}] run {{}}/{len(runs)}" if self.estimator.verbose else ""
        results: Any = []
        for number, run in enumerate(runs):
            # In sequence, the part of a run begins after the run before it.
            part = task.part("run", self.max_iter, task_id=number if parallel else None)
            solved = delayed(_run) if parallel else _run
            results.append(solved(solve, run, part, title.format(number + 1), n_threads))
        if parallel:
            results = Parallel(n_jobs=self.n_jobs, pre_dispatch="all")(results)
        results = iter(results)
        best, objectives = [], []
        for starts in problems:
            group = [*islice(results, len(starts))]
            values = np.array([*map(attrgetter("objective"), group)])
            empty = np.zeros(len(group))
            if hasattr(group[0], "n_empty"):
                empty = np.array([*map(attrgetter("n_empty"), group)])
            full = np.where(empty == empty.min(), values, np.inf)
            near = full <= full.min() + RELATIVE_TIE * abs(full.min())
            best.append(group[int(np.argmax(near))])
            if "callback" in map(attrgetter("stopped"), group):
                best[-1].stopped = "callback"
            objectives.append(values)
        if gap_tol is not None:
            judge_gaps(best, gap_tol)
        self.start_objectives = objectives[0] if len(problems) == 1 else np.array(objectives)
        return best, task


def _run(
    solve: Callable[..., Any], arguments: tuple[Any, ...], task: FitTask, title: str, n_threads: int
) -> Any:
    with working_threads(n_threads):
        result = solve(*arguments, partial(_report, task, title))
    task.end()
    return result


def _report(task: FitTask, title: str, iteration: int, objective: float, **facts: float) -> bool:
    """A step of a run, for callbacks and, with a ``title``, as a line of ``verbose``."""
    if title:
        more = "".join(f", {name} {value:.6g}" for name, value in facts.items())
        # Write the line with its newline, so that lines of several threads do not mix.
        line = f"{title}, iteration {iteration}: objective {objective:.6g}{more}\n"
        print(line, end="", flush=True)
    return task.step()


def drawn_rows(
    offsets: np.ndarray, rng: np.random.RandomState, bags: Any = slice(None)
) -> np.ndarray:
    """A random row of the instances of each bag, or of each of some ``bags``."""
    return np.asarray(offsets[:-1][bags] + rng.randint(0, np.diff(offsets)[bags]))


def given_rows(init: Any, bags: Bags) -> np.ndarray:
    """The parameter ``init`` of an estimator as one row of the instances of each bag.

    Raises
    ------
    ValueError
        If it is not one row of each bag.
    """
    rows, offsets = np.asarray(init), bags.offsets
    if rows.shape != (len(bags),) or rows.dtype.kind not in "iu":
        raise ValueError(
            f"init has shape {rows.shape} and type {rows.dtype}: give {len(bags)} integers, one "
            "row of X.instances per bag."
        )
    outside = (rows < offsets[:-1]) | (rows >= offsets[1:])
    if outside.any():
        bag = int(np.argmax(outside))
        raise ValueError(
            f"init[{bag}] = {rows[bag]} is not a row of {bag_text(bags, bag)}: its rows are "
            f"{offsets[bag]} to {offsets[bag + 1] - 1}."
        )
    return rows


def attributes_of(results: Sequence[Any], *names: str, **renamed: str) -> dict[str, Any]:
    """Fitted attributes from attributes of the results; ``renamed`` maps fitted names to these.

    Each is a scalar for one problem, and an array for several. Sequences (histories) become an
    array for one problem and a list of arrays for several.
    """
    fitted: dict[str, Any] = {}
    for name in (*names, *renamed):
        found: Any = [*map(attrgetter(renamed.get(name, name)), results)]
        several = len(found) > 1
        if isinstance(found[0], list):
            found = [*map(np.array, found)]
        elif several:
            found = np.array(found)
        fitted[f"{name}_"] = found if several else found[0]
    return fitted


def relative_gap(result: Any) -> float:
    """Duality gap relative to the objective, or to ``objective_scale`` if that is larger.

    An objective may be zero up to rounding; the gap is then compared with the size of the terms
    that were summed.
    """
    scale = max(abs(result.objective), getattr(result, "objective_scale", 0.0), 1e-300)
    return float(result.dual_gap / scale)


def judge_gaps(results: Sequence[Any], gap_tol: float) -> None:
    """A result whose relative duality gap is above ``gap_tol`` has not converged."""
    for result in results:
        if not result.stopped and relative_gap(result) > gap_tol:
            result.stopped = "gap"


def warn_of_stops(name: str, results: Sequence[Any], max_iter: int, remedy: str = "") -> None:
    """Warn if a run stopped before convergence, or a step missed its precision."""
    stopped, n_passes = [*map(attrgetter("stopped"), results)], 0
    if "max_passes" in stopped:
        n_passes = max(each.n_passes for each in results if each.stopped == "max_passes")
    for reason, where, why in (
        ("max_iter", f" at max_iter={max_iter}", f": {remedy or 'raise max_iter or tol'}"),
        (
            "max_passes",
            f" after {n_passes} passes over the instances,",
            ": scale the features, lower C, or raise tol",
        ),
        ("callback", "", " because a callback asked for it"),
    ):
        if count := stopped.count(reason):
            warn_user(
                f"{name} stopped{where} before convergence in {count} of {len(results)} "
                f"problem(s){why}.",
                ConvergenceWarning,
            )
    if "gap" in stopped:
        gap = max(relative_gap(result) for result in results if result.stopped == "gap")
        warn_user(
            f"A convex step of {name} was solved to a relative duality gap of {gap:.1e} "
            "only: scale the features, lower C, or raise tol.",
            ConvergenceWarning,
        )


def warn_of_constants(estimator: Any, bags: Bags, targets: np.ndarray, scores: np.ndarray) -> None:
    """Warn if the scores of all training bags, one column per problem, are the same.

    They have to be if their targets or instances are the same. Estimators with ``_may_be_constant``
    belong to others that leave constants out.
    """
    varied, scores = float(np.ptp(targets)), scores.reshape(len(scores), -1)
    if varied == 0.0 or getattr(estimator, "_may_be_constant", False):
        return
    # Scores that should be zero are rounding: compare them with a margin, or with values.
    size = np.maximum(np.abs(scores).max(axis=0), varied)
    n_constant = int((np.ptp(scores, axis=0) <= RELATIVE_TIE * size).sum())
    if n_constant and np.ptp(instance_ranks(bags)) > 0.0:
        warn_user(
            f"{type(estimator).__name__} found a constant, which gives all bags the same score, "
            f"in {n_constant} of {scores.shape[1]} problem(s): {_remedy_for(estimator, targets)}.",
            UserWarning,
        )


def _remedy_for(estimator: Any, targets: np.ndarray) -> str:
    """What makes a constant cost more: at those of rare classes or values, C is a mere factor."""
    given = estimator.get_params(deep=False)
    if given.get("class_weight") is None and np.ptp(np.unique(targets, return_counts=True)[1]) == 0:
        given.pop("class_weight", None)
    found = [
        f'{name}="{value}"'
        for name, value in _AGAINST_CONSTANTS.items()
        if name in given and not (isinstance(given[name], str) and given[name] == value)
    ]
    if found:
        return f"try {' or '.join(found)}"
    return f"raise C or take MI{'Regressor' if is_regressor(estimator) else 'Classifier'}"
