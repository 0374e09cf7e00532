"""Bounds of disjunctive programs by column and row generation (Andrews & Hofmann, Algorithm 1).

Lower bounds come from the relaxation; upper bounds are values of the program (5) itself: at the
weights of the relaxation, and at those of the linear programs that fix one witness per bag.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .branch_and_bound import BoundHistory, branch_and_bound
from .column_generation import (
    BoostingOptions,
    Budget,
    Incumbent,
    Relaxed,
    interior_settings,
    relax,
)
from .interior import interior_start, soft_prices
from .learners import WeakLearner
from .pools import CachingPool, LearnerPool
from .problem import DisjunctiveProblem
from .relaxation import Relaxation

__all__ = ["DPResult", "solve_disjunctive"]

# Relative gaps to which programs of fixed witnesses are solved, first those whose witnesses are
# still far from what they will be, and the change of their value that ends the alternation.
_ROUGH_TOL = 0.1
_WITNESS_TOL = 1e-4
_SAME_VALUE = 1e-4
# The alternation also ends where the next program cannot be lower by more than this share.
_SAME_BOUND = 1e-6


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
    stopped : {"", "time_limit", "callback", "max_learners", "max_rows", "max_nodes"}
        What ended it early.
    n_iter, n_nodes, n_learners, n_reductions, n_active_reductions, n_active_margins : int
    objective_history, lower_bound_history : list of float
    """

    learners: list[WeakLearner]
    H: np.ndarray
    alpha: np.ndarray
    objective: float
    lower_bound: float
    relaxation_value: float
    stopped: str
    n_iter: int
    n_nodes: int
    n_learners: int
    n_reductions: int
    n_active_reductions: int
    n_active_margins: int
    objective_history: list[float]
    lower_bound_history: list[float]

    @property
    def converged(self) -> bool:
        """Whether it ended by itself."""
        return not self.stopped

    @property
    def optimality_gap(self) -> float:
        """Distance between the bounds."""
        return self.objective - self.lower_bound


def solve_disjunctive(
    problem: DisjunctiveProblem, pool: LearnerPool, budget: Budget, options: BoostingOptions
) -> DPResult:
    """Bounds of (5) and the best weights found.

    Parameters
    ----------
    problem : DisjunctiveProblem
    pool : LearnerPool
    budget : Budget
    options : BoostingOptions
    """
    best, history = Incumbent(problem), BoundHistory()

    def note(relaxation: Relaxation, bound: float) -> None:
        best.offer(relaxation)
        history.append(best.objective, bound)
        budget.report(
            best.objective,
            lower_bound=bound,
            n_learners=len(relaxation.learners),
            n_reductions=relaxation.n_reductions,
        )

    cache = None if pool.exact else CachingPool(pool)
    pool = pool if cache is None else cache
    root = relax(problem, pool, budget, options, on_round=note)
    if not history.objective:
        note(root.relaxation, root.lower_bound)
    lower, n_nodes = root.lower_bound, 1
    if problem.members and options.select:
        _improve_by_witnesses(best, root, pool, budget, options)
        history.append(best.objective, lower)
    if cache is not None and problem.members:
        # A bound for all learners that were generated needs the program of all of them.
        pool = cache.fixed()
        root = relax(problem, pool, budget, options, start=root.learners, on_round=note)
        lower = root.lower_bound
    stopped = root.stopped
    if options.branch and problem.members:
        lower, n_nodes, stopped = branch_and_bound(best, root, pool, budget, options, history)
    relaxation = root.relaxation
    return DPResult(
        learners=best.learners,
        H=best.H,
        alpha=best.alpha,
        objective=best.objective,
        lower_bound=min(lower, best.objective),
        relaxation_value=root.value,
        stopped=stopped,
        n_iter=len(history.objective),
        n_nodes=n_nodes,
        n_learners=len(relaxation.learners),
        n_reductions=relaxation.n_reductions,
        n_active_reductions=relaxation.n_active_reductions,
        n_active_margins=relaxation.n_active_margins,
        objective_history=history.objective,
        lower_bound_history=history.lower_bound,
    )


def _improve_by_witnesses(
    best: Incumbent,
    root: Relaxed,
    pool: LearnerPool,
    budget: Budget,
    options: BoostingOptions,
) -> None:
    """Alternate between witnesses and the linear program of fixed witnesses."""
    problem = best.problem
    seen: set[bytes] = set()
    solved = _from_rough_solution(best, root, pool, budget, options, seen)
    while not budget.exhausted():
        witnesses = problem.witnesses(solved.relaxation.scores)
        key = np.concatenate(witnesses).tobytes()
        if key in seen:
            return
        seen.add(key)
        fixed = problem.restricted(witnesses)
        if pool.exact and _promised(solved, fixed, pool) >= best.objective * (1.0 - _SAME_BOUND):
            return
        # Programs of fixed witnesses differ in a few rows: the last solution is near the next.
        near = None if solved.relaxation.problem.members else solved.interior
        start = solved.learners if near is None else near
        solved = relax(fixed, pool, budget, options, start=start)
        if solved.stopped == "time_limit":
            return
        improved = best.offer(solved.relaxation)
        if not improved and len(seen) > 1:
            return


def _promised(solved: Relaxed, fixed: DisjunctiveProblem, pool: LearnerPool) -> float:
    """A lower bound of a program of fixed witnesses by the multipliers of the one before.

    Where the witnesses that changed are of bags without a multiplier, it is the value before.
    """
    relaxation = solved.relaxation
    if len(relaxation.problem.points) != len(fixed.points):
        return 0.0
    y = np.maximum(0.0, relaxation.margin_multipliers(relaxation.result.y))
    best, _, _ = pool.price(soft_prices(fixed, y), np.inf, 1)
    return float(y.sum()) / max(1.0, best)


def _from_rough_solution(
    best: Incumbent,
    root: Relaxed,
    pool: LearnerPool,
    budget: Budget,
    options: BoostingOptions,
    seen: set[bytes],
) -> Relaxed:
    """The same at interior solutions, from the first good one of a large relaxation.

    There the highest point of a bag is the highest of many good weights, whereas a vertex of the
    relaxation leaves it to chance; values came out lower by 1 to 6 %. Only the last of these
    programs is solved exactly.
    """
    near = root.interior.rough if root.interior is not None else None
    if near is None:
        return root
    problem = best.problem
    chosen = None
    for tol in (_ROUGH_TOL, _WITNESS_TOL):
        least = np.inf
        while not budget.exhausted():
            witnesses = problem.witnesses(near.scores)
            settings = interior_settings(options, tol)
            fixed = problem.restricted(witnesses)
            near = interior_start(fixed, pool, near, settings, budget.exhausted)
            value = problem.value(near.alpha, near.scores)
            if value >= least * (1.0 - _SAME_VALUE):
                break
            least, chosen = value, near
            seen.add(np.concatenate(witnesses).tobytes())
    if chosen is None:
        return root
    solved = relax(chosen.problem, pool, budget, options, start=chosen)
    best.offer(solved.relaxation)
    return solved
