"""Generation of learners and reductions for one relaxation, within limits.

Learners are added while one prices out by score (9) of Andrews & Hofmann (2003); then violated
reductions are added by score (10), and so on until there is none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .problem import DisjunctiveProblem, Prices
from .relaxation import Relaxation

__all__ = ["Incumbent", "LearnerPool", "Limits", "Relaxed", "relax"]

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


class Incumbent:
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
