"""Column and row generation for disjunctive programs (Andrews & Hofmann, Algorithm 1).

Learners are added while one prices out by score (9); then violated reductions are added by score
(10), and so on until there is none. Lower bounds come from the relaxation; upper bounds are values
of the program (5) itself: at the weights of the relaxation, and at those of the linear programs
that fix one witness a bag.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ._disjunctive import DisjunctiveProblem, Prices, Relaxation, score_columns

__all__ = ["DPResult", "LearnerPool", "Limits", "relax", "solve_disjunctive"]

# Learners that are added at a time: one would mean many solutions of nearly the same program.
_LEARNERS_A_ROUND = 5
_TRANSFERS_A_ROUND = 500
_REDUCTIONS_A_ROUND = 100
# Learners without weight are taken out above this number, when their score is this far below 1.
_MANY, _POOR = 20, 1e-3


class LearnerPool(Protocol):
    """Where learners come from."""

    exact: bool  # whether ``price`` finds the best score of all

    def price(self, prices: Prices, limit: float, most: int) -> tuple[float, list[Any], np.ndarray]:
        """The best score found, and learners above a limit with their columns (k, n_points)."""
        ...


class _Recorded:
    """A pool that remembers what it gave, and its memory as an exact pool of its own."""

    exact = False

    def __init__(self, pool: LearnerPool) -> None:
        self._pool = pool
        self._memory: dict[bytes, tuple[Any, np.ndarray]] = {}

    def price(self, prices: Prices, limit: float, most: int) -> tuple[float, list[Any], np.ndarray]:
        best, learners, columns = self._pool.price(prices, limit, most)
        for learner, column in zip(learners, columns, strict=True):
            self._memory.setdefault(column.tobytes(), (learner, column))
        return best, learners, columns

    def frozen(self) -> _Frozen:
        kept = list(self._memory.values())
        return _Frozen([each[0] for each in kept], np.stack([each[1] for each in kept]))


class _Frozen:
    """The learners of a matrix."""

    exact = True

    def __init__(self, learners: list[Any], H: np.ndarray) -> None:
        self.learners = learners
        self.H = H

    def price(self, prices: Prices, limit: float, most: int) -> tuple[float, list[Any], np.ndarray]:
        scores = score_columns(prices, self.H)
        order = np.argsort(-scores, kind="stable")[:most]
        order = order[scores[order] > limit]
        return float(scores.max()), [self.learners[k] for k in order], self.H[order]


class Limits:
    """When to stop early: a deadline, and what a caller's report says."""

    def __init__(self, time_limit: float | None, report: Callable[..., bool] | None = None) -> None:
        self._end = np.inf if time_limit is None else time.monotonic() + time_limit
        self._report = report
        self.reason = ""

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic()) if np.isfinite(self._end) else np.inf

    def over(self) -> bool:
        if not self.reason and self.left <= 0.0:
            self.reason = "time_limit"
        return bool(self.reason)

    def tell(self, **facts: Any) -> None:
        if self._report is not None and self._report(**facts) and not self.reason:
            self.reason = "callback"


@dataclass
class Relaxed:
    """A relaxation as far as it was solved.

    ``lower_bound`` holds over all learners of an exact pool, else over those that were generated;
    ``stopped`` is empty where neither learners nor reductions are missing.
    """

    relaxation: Relaxation
    value: float
    lower_bound: float
    score: float
    violation: float
    stopped: str


@dataclass
class DPResult:
    """Outcome of :func:`solve_disjunctive`.

    Attributes
    ----------
    learners, H, alpha : the learners with weight, their columns, their weights
    objective : float, value of (5)
    lower_bound : float
    relaxation_value : float
        Value of the linear program at the root.
    converged : bool
    stopped : str
        What ended it early.
    n_iter, n_nodes, n_learners, n_reductions, n_active_reductions, n_active_margins : int
    objective_history, lower_bound_history : list of float
    """

    learners: list[Any]
    H: np.ndarray
    alpha: np.ndarray
    objective: float
    lower_bound: float
    relaxation_value: float
    converged: bool
    stopped: str
    n_iter: int
    n_nodes: int
    n_learners: int
    n_reductions: int
    n_active_reductions: int
    n_active_margins: int
    objective_history: list[float] = field(default_factory=list)
    lower_bound_history: list[float] = field(default_factory=list)


def relax(
    problem: DisjunctiveProblem,
    pool: LearnerPool,
    limits: Limits,
    *,
    tol: float,
    max_learners: int,
    max_rows: int,
    start: tuple[list[Any], np.ndarray] | None = None,
    cutoff: float = np.inf,
    on_round: Callable[[Relaxation, float], object] | None = None,
) -> Relaxed:
    """Solve the relaxation of a program by generation of learners and reductions.

    Parameters
    ----------
    problem : DisjunctiveProblem
    pool : LearnerPool
    limits : Limits
    tol : float
        Largest score above 1, and largest violation of a reduction, that are left.
    max_learners, max_rows : int
        Most learners in the program at a time, and most reductions.
    start : (learners, columns), default=None
        Learners to begin with.
    cutoff : float, default=inf
        A lower bound above this ends it: the caller has something better.
    on_round : callable, default=None
        Called with the relaxation and the lower bound whenever no learner prices out.
    """
    relaxation = Relaxation(problem)
    if start is not None and len(start[0]):
        relaxation.add_learners(list(start[0]), start[1])
    bound, score, violation, stopped = 0.0, np.inf, np.inf, ""
    if not relaxation.solve(limits.left):
        # Nothing is known but that costs are not negative; a program without learners is trivial.
        limits.over()
        relaxation = Relaxation(problem)
        relaxation.solve()
        return Relaxed(relaxation, 0.0, 0.0, score, violation, "time_limit")
    while True:
        stopped, score = _add_columns(relaxation, pool, limits, tol, max_learners)
        value = relaxation.value
        # The dual solution over the best score is feasible for every learner.
        bound = max(bound, value / max(1.0, score) if pool.exact else value)
        if on_round is not None:
            on_round(relaxation, bound)
        if stopped or bound >= cutoff:
            break
        room = min(_REDUCTIONS_A_ROUND, max_rows - relaxation.n_reductions)
        added, violation = relaxation.separate(tol, room)
        if not added:
            stopped = "max_rows" if violation > tol else ""
            break
        if not relaxation.solve(limits.left):
            limits.over()
            stopped = "time_limit"
            break
    return Relaxed(relaxation, value, bound, score, violation, stopped)


def _add_columns(
    relaxation: Relaxation, pool: LearnerPool, limits: Limits, tol: float, max_learners: int
) -> tuple[str, float]:
    """Add columns until none prices out; why it stopped before that, and the last best score."""
    # So fine that all the transfers that are left out are worth less than tol.
    fine = 0.1 * tol / max(1, len(relaxation.bags))
    last = np.inf
    while True:
        prices = relaxation.prices()
        value = relaxation.value
        if value < last - tol * max(1.0, value) and len(relaxation.learners) > _MANY:
            # Only after progress, so that no learner can come and go for ever.
            relaxation.prune_learners(prices, _POOR)
            last = value
        best, learners, columns = pool.price(prices, 1.0 + tol, _LEARNERS_A_ROUND)
        fresh = _new_columns(relaxation.H, columns)
        n_moved = relaxation.add_transfers(prices, fine, _TRANSFERS_A_ROUND)
        room = max_learners - len(relaxation.learners)
        stopped = "max_learners" if len(fresh) and room <= 0 else ""
        if not n_moved and (stopped or not len(fresh)):
            return stopped, best
        if limits.over():
            return limits.reason, best
        if len(fresh) and room > 0:
            fresh = fresh[:room]
            relaxation.add_learners([learners[k] for k in fresh], columns[fresh], prices)
        if not relaxation.solve(limits.left):
            limits.over()
            return "time_limit", best


def _new_columns(H: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Which columns are not among the rows of H, nor among those before."""
    known = {column.tobytes() for column in H}
    fresh = []
    for k, column in enumerate(np.ascontiguousarray(columns, dtype=np.int8)):
        key = column.tobytes()
        if key not in known:
            fresh.append(k)
            known.add(key)
    return np.array(fresh, dtype=np.intp)


class _Incumbent:
    """The best weights found for (5), with the columns that they belong to."""

    def __init__(self, problem: DisjunctiveProblem) -> None:
        self.problem = problem
        self.objective = np.inf
        self.learners: list[Any] = []
        self.H = np.zeros((0, problem.n_points), dtype=np.int8)
        self.alpha = np.zeros(0)

    def offer(self, relaxation: Relaxation) -> bool:
        alpha = relaxation.alpha
        value = self.problem.value(alpha, relaxation.scores)
        if value >= self.objective:
            return False
        used = np.flatnonzero(alpha)
        self.objective, self.alpha = value, alpha[used]
        self.learners, self.H = [relaxation.learners[k] for k in used], relaxation.H[used]
        return True


def solve_disjunctive(
    problem: DisjunctiveProblem,
    pool: LearnerPool,
    limits: Limits,
    *,
    tol: float = 1e-6,
    max_learners: int = 1000,
    max_rows: int = 10_000,
    branch: bool = False,
    max_nodes: int = 1000,
    select: bool = True,
) -> DPResult:
    """Bounds of (5) and the best weights found.

    Parameters
    ----------
    problem : DisjunctiveProblem
    pool : LearnerPool
    limits : Limits
    tol, max_learners, max_rows
        As for :func:`relax`.
    branch : bool, default=False
        Branch on the disjunctions until the bounds meet to ``tol``, relatively.
    max_nodes : int, default=1000
    select : bool, default=True
        Whether to fix the witnesses that the relaxation names and solve the linear program that
        is left, again and again while that lowers the value.
    """
    options: dict[str, Any] = {"tol": tol, "max_learners": max_learners, "max_rows": max_rows}
    best = _Incumbent(problem)
    if not pool.exact:
        pool = _Recorded(pool)
    history: list[float] = []
    bounds: list[float] = []

    def note(relaxation: Relaxation, bound: float) -> None:
        best.offer(relaxation)
        history.append(best.objective)
        bounds.append(bound)
        limits.tell(
            objective=best.objective,
            lower_bound=bound,
            n_learners=len(relaxation.learners),
            n_rows=relaxation.n_reductions,
        )

    root = relax(problem, pool, limits, on_round=note, **options)
    if not history:
        note(root.relaxation, root.lower_bound)
    stopped, lower, n_nodes = root.stopped, root.lower_bound, 1
    if problem.members and select:
        _descend(best, root.relaxation, pool, limits, options)
        history.append(best.objective)
        bounds.append(lower)
    if isinstance(pool, _Recorded) and problem.members:
        # A bound for all learners that were generated needs the program of all of them.
        pool = pool.frozen()
        start = root.relaxation.learners, root.relaxation.H
        root = relax(problem, pool, limits, start=start, on_round=note, **options)
        stopped, lower = root.stopped, root.lower_bound
    if branch and problem.members:
        from ._branch import branch_and_bound

        lower, n_nodes, stopped = branch_and_bound(
            best, root, pool, limits, max_nodes=max_nodes, history=history, bounds=bounds, **options
        )
    elif not stopped and not problem.members:
        lower = min(lower, best.objective)
    relaxation = root.relaxation
    return DPResult(
        learners=best.learners,
        H=best.H,
        alpha=best.alpha,
        objective=best.objective,
        lower_bound=min(lower, best.objective),
        relaxation_value=root.value,
        converged=not stopped,
        stopped=stopped,
        n_iter=len(history),
        n_nodes=n_nodes,
        n_learners=len(relaxation.learners),
        n_reductions=relaxation.n_reductions,
        n_active_reductions=relaxation.n_active_reductions,
        n_active_margins=relaxation.n_active_margins,
        objective_history=history,
        lower_bound_history=bounds,
    )


def _descend(
    best: _Incumbent,
    relaxation: Relaxation,
    pool: LearnerPool,
    limits: Limits,
    options: dict[str, Any],
) -> None:
    """Alternate between witnesses and the linear program of fixed witnesses."""
    problem = best.problem
    scores, start = relaxation.scores, (relaxation.learners, relaxation.H)
    seen: set[bytes] = set()
    while not limits.over():
        witnesses = problem.witnesses(scores)
        key = np.concatenate(witnesses).tobytes()
        if key in seen:
            return
        seen.add(key)
        solved = relax(problem.restricted(witnesses), pool, limits, start=start, **options)
        if solved.stopped == "time_limit":
            return
        improved = best.offer(solved.relaxation)
        if not improved and len(seen) > 1:
            return
        scores = solved.relaxation.scores
        start = solved.relaxation.learners, solved.relaxation.H
