"""Bounds of disjunctive programs by column and row generation (Andrews & Hofmann, Algorithm 1).

Lower bounds come from the relaxation. Upper bounds are values of the program (5) at the weights of
the relaxation and of linear programs with one fixed witness per bag.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from .column_generation import (
    INTERIOR_TOL,
    BoostingOptions,
    Budget,
    Incumbent,
    LearnerSet,
    Relaxed,
    interior_search,
    relax,
)
from .interior import InteriorSearch, InteriorStart
from .learners import WeakLearner
from .pools import CachingPool, LearnerPool
from .problem import DisjunctiveProblem, weighted_sums
from .relaxation import Relaxation

# Relative gaps of the programs with fixed witnesses, in the first and in the second alternation,
# and the relative change of their value at which an alternation stops.
_ROUGH_TOL = 0.1
_WITNESS_TOL = 1e-4
_SAME_VALUE = 1e-4


@dataclass
class DPResult:
    """Outcome of :func:`solve_disjunctive`."""

    # The learners with a weight above zero, their columns and their weights.
    learners: list[WeakLearner]
    H: np.ndarray
    alpha: np.ndarray
    # Value of (5).
    objective: float
    lower_bound: float
    # Value of the linear program at the root.
    relaxation_value: float
    # Reason of an early stop: "time_limit", "callback", "work", "size", "n_estimators",
    # "max_nodes", or empty.
    stopped: str
    # Objective and lower bound after each round.
    history: list[tuple[float, float]]
    n_learners: int
    n_active_margins: int
    n_nodes: int = 1
    n_reductions: int = 0
    n_active_reductions: int = 0

    @property
    def n_iter(self) -> int:
        """Number of rounds."""
        return len(self.history)

    @property
    def objective_history(self) -> list[float]:
        """Objective after each round."""
        return [objective for objective, _ in self.history]

    @property
    def lower_bound_history(self) -> list[float]:
        """Lower bound after each round."""
        return [bound for _, bound in self.history]

    @property
    def converged(self) -> bool:
        """Whether the method did not stop early."""
        return not self.stopped

    @property
    def optimality_gap(self) -> float:
        """Difference between the bounds."""
        return self.objective - self.lower_bound


def solve_disjunctive(
    problem: DisjunctiveProblem, pool: LearnerPool, budget: Budget, options: BoostingOptions
) -> DPResult:
    """Compute bounds of (5) and the best weights found.

    Parameters
    ----------
    problem : DisjunctiveProblem
    pool : LearnerPool
    budget : Budget
    options : BoostingOptions
    """
    best = Incumbent(problem)
    history: list[tuple[float, float]] = []

    def note(relaxation: Relaxation, bound: float) -> None:
        best.offer(relaxation.learners, relaxation.H, relaxation.alpha)
        history.append((best.objective, bound))
        budget.report(
            best.objective,
            lower_bound=bound,
            n_learners=len(relaxation.learners),
            n_reductions=relaxation.n_reductions,
        )

    cache = None if pool.exact else CachingPool(pool)
    pool = pool if cache is None else cache
    select = bool(problem.members) and options.select
    warm, near = None, None
    search = interior_search(problem, pool, options)
    if search is not None:
        stops = partial(_offer_and_stop, best, search, budget, options)
        if select:
            near = _near_good_witnesses(best, search.run(_ROUGH_TOL, stops), pool, budget, options)
        warm = search.run(INTERIOR_TOL, stops)
        best.offer(warm.learners, warm.H, warm.inside)
        if not options.branch and len(warm.learners) * len(warm.y) > options.simplex_entries:
            return _from_interior(best, warm, budget, options)
    root = relax(problem, pool, budget, options, warm=warm, on_round=note)
    if not history:
        note(root.relaxation, root.lower_bound)
    lower, n_nodes = root.lower_bound, 1
    if select:
        _improve_by_witnesses(best, root, near, pool, budget, options)
        history.append((best.objective, lower))
    if cache is not None and problem.members:
        # A bound over all generated learners requires the program with all of them.
        pool = cache.fixed()
        root = relax(problem, pool, budget, options, start=root.learners, on_round=note)
        lower = root.lower_bound
    stopped = budget.cut or root.stopped
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
        history=history,
        n_learners=len(relaxation.learners),
        n_active_margins=relaxation.n_active_margins,
        n_nodes=n_nodes,
        n_reductions=relaxation.n_reductions,
        n_active_reductions=relaxation.n_active_reductions,
    )


def _from_interior(
    best: Incumbent, warm: InteriorStart, budget: Budget, options: BoostingOptions
) -> DPResult:
    """The result without the simplex method and without reductions."""
    budget.report(best.objective, lower_bound=warm.bound, n_learners=len(warm.learners))
    stopped = budget.cut
    if not stopped and warm.value - warm.bound > options.tol * max(1.0, warm.value):
        stopped = "n_estimators"
    if not stopped and best.problem.members:
        stopped = "size"
    bound = min(warm.bound, best.objective)
    return DPResult(
        learners=best.learners,
        H=best.H,
        alpha=best.alpha,
        objective=best.objective,
        lower_bound=bound,
        relaxation_value=warm.value,
        stopped=stopped,
        history=[(best.objective, bound)],
        n_learners=len(warm.learners),
        n_active_margins=int(np.count_nonzero(warm.free_rows | warm.slack_rows)),
    )


def _offer_and_stop(
    best: Incumbent, search: InteriorSearch, budget: Budget, options: BoostingOptions
) -> bool:
    """Store the weights of a search, and return whether the budget ends it."""
    best.offer(search.learners, search.H, search.master.at.alpha)
    return _spend_and_stop(search, budget, options)


def _spend_and_stop(search: InteriorSearch, budget: Budget, options: BoostingOptions) -> bool:
    """Count the next step of a search, and return whether the budget ends it."""
    n_learners, n_rows = search.master.G.shape
    if n_learners * n_rows > options.simplex_entries:
        budget.spend(n_learners * n_learners * n_rows, options.max_products)
    return budget.stops()


def _near_good_witnesses(
    best: Incumbent,
    near: InteriorStart,
    pool: LearnerPool,
    budget: Budget,
    options: BoostingOptions,
) -> InteriorStart | None:
    """Alternate between witnesses and interior solutions; return the last one that was lower.

    The first witnesses are those of a rough interior solution of the relaxation. It is close to
    many good weights, whereas the vertex found by the simplex method is arbitrary; the final values
    were lower by 1 to 6 %. The alternation comes before the solution of the relaxation, which takes
    longer, so that a good model exists if the budget ends the search.
    """
    chosen = None
    best.offer(near.learners, near.H, near.inside)
    for tol in (_ROUGH_TOL, _WITNESS_TOL):
        least = np.inf
        while not budget.stops():
            fixed = best.problem.restricted(best.problem.witnesses(near.scores))
            search = InteriorSearch(fixed, pool, options.n_estimators, near)
            near = search.run(tol, partial(_spend_and_stop, search, budget, options))
            best.offer(near.learners, near.H, near.inside)
            value = best.problem.value(near.alpha, near.scores)
            if value >= least * (1.0 - _SAME_VALUE):
                break
            least, chosen = value, near
    return chosen


def _improve_by_witnesses(
    best: Incumbent,
    root: Relaxed,
    near: InteriorStart | None,
    pool: LearnerPool,
    budget: Budget,
    options: BoostingOptions,
) -> None:
    """Alternate between witnesses and the linear program with fixed witnesses.

    The first witnesses are those of an interior solution, or of the relaxation, and the next ones
    those of the incumbent. F has few values, so that points of a bag often tie: the alternation
    ends when neither the first nor the last of them have a lower value.
    """
    scores = root.relaxation.scores if near is None else near.scores
    start = root.learners if near is None else near
    seen: set[bytes] = set()
    while not budget.stops():
        for last in (False, True):
            witnesses = best.problem.witnesses(scores, last=last)
            key = np.concatenate(witnesses).tobytes()
            if key not in seen:
                break
        else:
            return
        seen.add(key)
        solved = relax(best.problem.restricted(witnesses), pool, budget, options, start=start)
        best.offer(*solved.learners, solved.relaxation.alpha)
        if budget.cut:
            return
        # Consecutive programs differ only in a few rows: start from the last solution.
        scores, start = weighted_sums(best.alpha, best.H), solved.interior or solved.learners


# -- branch and bound on the disjunctions ------------------------------------------------------
# A node allows some points of each bag. One of its children allows only one point of a bag, which
# makes the bag a constraint with a sign (with reductions), and the other one all other points.


@dataclass(order=True)
class _Node:
    """A subproblem; nodes are ordered by their bounds."""

    lower_bound: float
    number: int
    members: list[np.ndarray] = field(compare=False)
    scores: np.ndarray = field(compare=False)
    learners: LearnerSet = field(compare=False)


def branch_and_bound(
    best: Incumbent,
    root: Relaxed,
    pool: LearnerPool,
    budget: Budget,
    options: BoostingOptions,
    history: list[tuple[float, float]],
) -> tuple[float, int, str]:
    """Close the gap of a disjunctive program whose relaxation has been solved.

    Returns
    -------
    lower_bound : float
        Lower bound of all open nodes, or the value of the incumbent.
    n_nodes : int
    stopped : str
    """
    problem, tol = best.problem, options.tol
    count = itertools.count()
    scores = root.relaxation.scores
    open_nodes = [_Node(root.lower_bound, next(count), problem.members, scores, root.learners)]
    n_nodes, stopped, closed = 1, "", np.inf
    while open_nodes:
        # Bounds are computed to a relative tolerance of tol.
        if open_nodes[0].lower_bound >= best.objective - 2.0 * tol * max(1.0, best.objective):
            break
        if budget.stops() or n_nodes >= options.max_nodes:
            stopped = budget.cut or "max_nodes"
            break
        node = heapq.heappop(open_nodes)
        bag, point = _choice(problem, node.members, node.scores)
        if bag < 0:
            # Every bag has one point and cannot be divided. The gap is due to an early stop of the
            # linear program.
            closed = min(closed, node.lower_bound)
            stopped = "n_estimators"
            continue
        members = node.members[bag]
        for allowed in (np.array([point]), members[members != point]):
            child = [allowed if k == bag else block for k, block in enumerate(node.members)]
            solved = relax(
                problem.restricted(child),
                pool,
                budget,
                options,
                start=node.learners,
                cutoff=best.objective,
                on_round=lambda found, _: best.offer(found.learners, found.H, found.alpha),
            )
            n_nodes += 1
            lower = max(node.lower_bound, solved.lower_bound)
            if lower < best.objective:
                scores = solved.relaxation.scores
                heapq.heappush(
                    open_nodes, _Node(lower, next(count), child, scores, solved.learners)
                )
        lowest = _lowest(open_nodes, closed, best.objective)
        history.append((best.objective, lowest))
        budget.report(
            best.objective,
            lower_bound=lowest,
            n_learners=len(node.learners[0]),
            n_nodes=n_nodes,
        )
    return _lowest(open_nodes, closed, best.objective), n_nodes, stopped


def _lowest(open_nodes: list[_Node], closed: float, objective: float) -> float:
    return min(open_nodes[0].lower_bound if open_nodes else np.inf, closed, objective)


def _choice(
    problem: DisjunctiveProblem, members: list[np.ndarray], scores: np.ndarray
) -> tuple[int, int]:
    """The bag with the largest loss and several points, and its highest point; -1 if none."""
    places = [k for k, block in enumerate(members) if len(block) > 1]
    if not places:
        return -1, -1
    short = [
        problem.member_costs[k] * max(0.0, 1.0 - float(scores[members[k]].max())) for k in places
    ]
    bag = places[int(np.argmax(short))]
    block = members[bag]
    return bag, int(block[int(np.argmax(scores[block]))])
