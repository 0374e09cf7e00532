"""Bounds of disjunctive programs by column and row generation (Andrews & Hofmann, Algorithm 1).

Lower bounds come from the relaxation; upper bounds are values of the program (5) itself: at the
weights of the relaxation, and at those of the linear programs that fix one witness a bag.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .branch_and_bound import branch_and_bound
from .column_generation import (
    Incumbent,
    LearnerPool,
    Limits,
    relax,
)
from .problem import DisjunctiveProblem, Prices, score_columns
from .relaxation import Relaxation

__all__ = ["DPResult", "solve_disjunctive"]


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
    best = Incumbent(problem)
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
    best: Incumbent,
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
