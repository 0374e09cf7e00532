"""Bounds of disjunctive programs by column and row generation (Andrews & Hofmann, Algorithm 1).

Lower bounds come from the relaxation: learners with a positive score (9) are added until there are
none, then violated reductions by score (10), and so on. Upper bounds are values of the program (5)
at the weights of the relaxation and of linear programs with one fixed witness per bag. The last of
these programs has the learners and the witnesses that are returned, and they are a vertex of it.
Without ambiguous bags, the weights are the centre of the solutions of the linear program.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from .interior import InteriorSearch, InteriorStart
from .learners import WeakLearner
from .pools import GeneratedPool, LearnerPool
from .problem import DisjunctiveProblem, weighted_sums
from .relaxation import Relaxation

# Relative gap at which linear programs count as solved, if the tolerance is not smaller; rounding
# allows little less than the second one.
_SOLVED, _LEAST_TOL = 1e-6, 1e-7
# The same for the learners at the end.
_FINISHED = 1e-10
# Relative gaps of the programs with fixed witnesses, in the first and in the second alternation,
# and the relative change of their value at which an alternation stops.
_ROUGH_TOL = 0.1
_WITNESS_TOL = 1e-4
_SAME_VALUE = 1e-4
# Relative difference up to which objectives count as equal. The first solution is then kept, so
# that the choice does not depend on rounding.
_SAME_OBJECTIVE = 1e-9
# Relative gap above which rounding ends the search for reductions.
_TOO_ROUGH = 1e-2
_EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class BoostingOptions:
    """Limits and tolerances of the search for learners, reductions and nodes."""

    # Tolerance for scores above 1 and for violations of reductions.
    tol: float = 1e-6
    # Maximum number of learners in the program, and of reductions.
    n_estimators: int = 1000
    max_rows: int = 50
    # Whether to branch on the disjunctions until the relative gap of the bounds is ``2 * tol``.
    branch: bool = False
    # Maximum number of nodes of the search tree.
    max_nodes: int = 1000
    # Seconds until the search ends with what it has.
    time_limit: float | None = None
    # If there are more coefficients of learners in rows than this, no reductions are added, and the
    # products of numbers in all Newton steps of a fit are limited.
    large_entries: int = 2**21
    max_products: int = 3 * 2**37


def auto_learners(n_rows: int, products: int = 2**31) -> int:
    """The number of learners for ``n_estimators="auto"``, between 50 and 1,000.

    The cost of a Newton step is the number of rows times the square of the number of learners. It
    is limited to ``products``.
    """
    return int(np.clip(np.sqrt(products / max(1, n_rows)), 50, 1000))


@dataclass
class DPResult:
    """The best weights found for (5), and bounds."""

    # The learners with a weight above zero, their columns and their weights.
    learners: list[WeakLearner]
    H: np.ndarray
    alpha: np.ndarray
    # Value of (5), and its lower bounds: at the end, and at the root, where it is the value of the
    # linear program if that is solved.
    objective: float
    lower_bound: float = 0.0
    relaxation_value: float = 0.0
    # Reason of an early stop: "time_limit", "callback", "work", "size", "n_estimators",
    # "max_nodes", "rounding", or empty.
    stopped: str = ""
    # Objective and lower bound after each round.
    objective_history: list[float] = field(default_factory=list)
    lower_bound_history: list[float] = field(default_factory=list)
    n_generated: int = 0
    n_active_margins: int = 0
    n_nodes: int = 1
    n_reductions: int = 0
    n_active_reductions: int = 0
    n_iter: int = 0
    converged: bool = True
    optimality_gap: float = 0.0


def solve_disjunctive(
    problem: DisjunctiveProblem, on_iteration: Callable[..., bool] | None = None, **given: Any
) -> DPResult:
    """Upper bounds by witnesses, then the relaxation with reductions, then branching.

    Parameters
    ----------
    problem, on_iteration, **given
        See :class:`DisjunctiveSolver`.
    """
    solver = DisjunctiveSolver(problem, on_iteration, **given)
    best, options = solver.best, solver.options
    if not solver.pool.exact:
        # Learners are generated first. The bounds are then those over all of them.
        generated = solver.pool = GeneratedPool(solver.pool)
        solver.root()
        generated.exact = True
    search = solver.root()
    root = search.result()
    solver.note(root, search.bound, len(search.learners), n_reductions=0)
    if search.gap <= options.tol * search.value and problem.members:
        if solver.is_large(search):
            best.stopped = "size"
        else:
            search = solver.reduced(search)
    if search.gap > options.tol * search.value:
        best.stopped = "n_estimators" if search.full else "rounding"
    best.relaxation_value = best.lower_bound
    if options.branch and problem.members:
        best.stopped = solver.branch(root)
    # Rows whose multiplier is above zero at the optimum.
    relaxation, at = search.relaxation, search.master.at
    active, margins = at.y > at.v, np.r_[: len(problem.points), search.relaxation.margins]
    best.n_generated = len(search.result().learners)
    best.n_active_margins = int(active[margins].sum())
    best.n_reductions = len(relaxation.reductions)
    best.n_active_reductions = int(active[relaxation.reductions].sum())
    best.lower_bound = min(best.lower_bound, best.objective)
    best.stopped = solver.cut or best.stopped
    best.converged, best.n_iter = not best.stopped, len(best.objective_history)
    best.optimality_gap = best.objective - best.lower_bound
    return best


class DisjunctiveSolver:
    """The steps of the search for bounds of (5) and the best weights.

    Parameters
    ----------
    problem : DisjunctiveProblem
    on_iteration : callable, default=None
        ``on_iteration(iteration, objective, **facts)`` is called after every round; it returns
        True to stop.
    pool : LearnerPool
    options : BoostingOptions
    clock : callable, default=time.monotonic
        Returns the time in seconds.

    Attributes
    ----------
    best : DPResult
        At first without learners.
    cut : {"", "time_limit", "callback", "work"}
        The reason, if work was skipped.
    """

    def __init__(
        self,
        problem: DisjunctiveProblem,
        on_iteration: Callable[..., bool] | None = None,
        *,
        pool: LearnerPool,
        options: BoostingOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problem, self.pool = problem, pool
        self.options = replace(options, tol=max(options.tol, _LEAST_TOL))
        self.tol = min(_SOLVED, self.options.tol)
        empty = problem.value(np.zeros(0), np.zeros(problem.n_points))
        none = np.zeros((0, problem.n_points), dtype=np.int8)
        self.best = DPResult([], none, np.zeros(0), empty)
        self._on_iteration, self._clock = on_iteration, clock
        self._end = np.inf if options.time_limit is None else clock() + options.time_limit
        # The first reason to stop, which counts if there is more work, and products so far.
        self._reason, self.cut, self._spent = "", "", 0
        # Witnesses whose program was solved over all learners, and over the present ones.
        self._seen: set[bytes] = set()
        self._flat: set[bytes] = set()

    def stops(self) -> bool:
        """Whether remaining work has to be skipped; if so, the reason is stored in ``cut``."""
        if self._clock() >= self._end:
            self._reason = self._reason or "time_limit"
        self.cut = self._reason
        return bool(self.cut)

    def root(self) -> InteriorSearch:
        """The relaxation without reductions, and good weights for fixed witnesses."""
        self._seen.clear()
        search = self._search(Relaxation(self.problem))
        if self.problem.members:
            # The alternation comes first, so that there is a good model if the budget ends. Its
            # first witnesses are those of a rough interior solution of the relaxation, which is
            # close to many good weights.
            near = self._run(search, _ROUGH_TOL)
            for tol in (_ROUGH_TOL, _WITNESS_TOL):
                least, chosen = np.inf, near
                while not self.stops():
                    near = self._fixed(self.problem.witnesses(near.scores), near, tol)
                    value = self.problem.value(near.alpha, near.scores)
                    if value >= least * (1.0 - _SAME_VALUE):
                        break
                    least, chosen = value, near
                near = chosen
            self._settle(near)
        self._run(search, self.tol)
        return search

    def _search(self, relaxation: Relaxation, start: InteriorStart | None = None) -> InteriorSearch:
        return InteriorSearch(relaxation, self.pool, self.options.n_estimators, start)

    def is_large(self, search: InteriorSearch) -> bool:
        n_entries = len(search.learners) * len(search.relaxation.costs)
        return n_entries > self.options.large_entries

    def _run(self, search: InteriorSearch, tol: float, cutoff: float = np.inf) -> InteriorStart:
        """Run a search unless the budget ends it or its bound reaches ``cutoff``."""

        def exhausted() -> bool:
            if self.is_large(search):
                n_columns, n_rows = search.master.G.shape
                self._spent += n_columns * n_columns * n_rows
                if self._spent > self.options.max_products:
                    self._reason = self._reason or "work"
            return self.stops() or search.bound >= cutoff

        found = search.run(tol, exhausted)
        if tol <= self.tol and cutoff == np.inf and not search.n_fixed:
            # Weights that vanish at the optimum become much smaller than others.
            search.finish(_FINISHED, exhausted)
            found = search.result()
        rough = bool(self.cut) or (not search.n_fixed and tol > self.tol)
        self.offer(found.learners, found.H, found.inside if rough else found.alpha)
        return found

    def offer(self, learners: list[WeakLearner], H: np.ndarray, alpha: np.ndarray) -> None:
        """Scale weights optimally, and store them if they are better.

        Weights of the same value are better if they are those of fewer of the present learners.
        """
        best, used = self.best, np.flatnonzero(alpha)
        scores, factor = weighted_sums(alpha[used], H[used]), 1.0
        value, scale = self.problem.value(alpha, scores), self.problem.best_factor(alpha, scores)
        scaled = self.problem.value(scale * alpha, scale * scores)
        if scaled < value * (1.0 - _SAME_OBJECTIVE):
            value, factor = scaled, scale
        present = learners is best.learners
        worse = _SAME_OBJECTIVE if present and len(used) < len(learners) else -_SAME_OBJECTIVE
        if value < best.objective * (1.0 + worse):
            best.objective, best.alpha = value, factor * alpha[used]
            best.learners, best.H = [learners[k] for k in used], H[used]
            if not present:
                self._flat.clear()

    def note(self, near: InteriorStart, bound: float, n_learners: int, **facts: float) -> None:
        """Improve the weights from a solution, then store and report the bounds."""
        self._settle(near)
        best = self.best
        best.lower_bound, lower = bound, min(bound, best.objective)
        best.objective_history.append(best.objective)
        best.lower_bound_history.append(lower)
        facts = {"n_learners": n_learners, **facts, "lower_bound": lower}
        if self._on_iteration and self._on_iteration(
            len(best.objective_history), best.objective, **facts
        ):
            self._reason = self._reason or "callback"

    def _fixed(self, witnesses: list[np.ndarray], near: InteriorStart, tol: float) -> InteriorStart:
        """Solve the program with fixed witnesses."""
        relaxation = Relaxation(self.problem.restricted(witnesses))
        return self._run(self._search(relaxation, near), tol)

    def _settle(self, near: InteriorStart) -> None:
        """Solve programs with the witnesses of the best weights until none is lower.

        F has few values, so that points of a bag often tie. Neither the first nor the last of them
        have a lower value in the end, over all learners, and over those with a weight. There the
        weights are a vertex: where weights tie, an interior point has all of them.
        """
        problem, best = self.problem, self.best
        while problem.members:
            scores = weighted_sums(best.alpha, best.H)
            tied = [problem.witnesses(scores, last=last) for last in (False, True)]
            keys = [np.concatenate(each).tobytes() for each in tied]
            fresh = [k for k, key in enumerate(keys) if key not in self._seen]
            inside = [k for k, key in enumerate(keys) if key not in self._flat]
            if fresh and not self.stops():
                self._seen.add(keys[fresh[0]])
                near = self._fixed(tied[fresh[0]], near, self.tol)
            elif inside:
                self._flat.add(keys[inside[0]])
                self._to_vertex(problem.restricted(tied[inside[0]]))
            else:
                return

    def _to_vertex(self, fixed: DisjunctiveProblem) -> None:
        """Offer a vertex of the program of the present learners with fixed witnesses.

        The weights are the multipliers of its dual.
        """
        best, n, r = self.best, len(self.best.alpha), len(fixed.costs)
        if 0 < n * r <= self.options.large_entries:
            bounds = np.column_stack([np.zeros(r), fixed.costs])
            given = fixed.signed(best.H), np.ones(n), None, None, bounds
            found = linprog(np.full(r, -1.0), *given, method="highs-ds", options=_EXACT)
            if found.status == 0:
                self.offer(best.learners, best.H, np.maximum(0.0, -found.ineqlin.marginals))

    def reduced(self, search: InteriorSearch) -> InteriorSearch:
        """Add violated reductions to the relaxation until there are none, or the gap is closed."""
        tol, best = self.options.tol, self.best
        while best.objective - best.lower_bound > tol * best.lower_bound:
            limit = self.options.max_rows - len(search.relaxation.reductions)
            at, entries = search.master.at, search.master.G[search.n_fixed :]
            weights = np.where(at.alpha > at.s, at.alpha, 0.0)
            relaxation = search.relaxation.separated(search.H, entries, weights, tol, limit)
            if relaxation is None or self.stops():
                break
            search = self._search(relaxation, search.result())
            self._run(search, max(self.tol, tol))
            near, bound = search.result(), max(best.lower_bound, search.bound)
            n_reductions = len(search.relaxation.reductions)
            self.note(near, bound, len(search.learners), n_reductions=n_reductions)
            if search.gap > _TOO_ROUGH * search.value:
                # The solution is too rough to tell which reductions it violates.
                break
        return search

    def branch(self, root: InteriorStart) -> str:
        """Close the gap by branch and bound, and return the reason of an early stop.

        A node allows some points of each bag. One of its children allows only one point of a bag,
        and the other one all other points. Nodes are ordered by their bounds.
        """
        problem, best, options, count = self.problem, self.best, self.options, itertools.count()
        nodes = [(best.lower_bound, next(count), problem.members, root)]
        stopped, closed = "", np.inf
        # Bounds are computed to a relative tolerance of tol.
        while nodes and nodes[0][0] < best.objective * (1.0 - 2.0 * options.tol):
            if self.stops() or best.n_nodes >= options.max_nodes:
                return "max_nodes"
            bound, _, members, solution = heapq.heappop(nodes)
            # The bag with the largest loss and several points, and its highest point.
            scores = solution.scores
            lacking = [max(0.0, 1.0 - float(scores[block].max())) for block in members]
            several = np.array([len(block) > 1 for block in members])
            bag = int(np.argmax(np.where(several, problem.member_costs * lacking, -1.0)))
            point = members[bag][np.argmax(scores[members[bag]])]
            if not several[bag]:
                # Every bag has one point and cannot be divided. The gap is due to an early stop of
                # the linear program.
                closed = min(closed, bound)
                full = len(solution.learners) >= options.n_estimators
                stopped = "n_estimators" if full else "rounding"
                continue
            for allowed in (np.array([point]), members[bag][members[bag] != point]):
                child = [*members[:bag], allowed, *members[bag + 1 :]]
                search = self._search(Relaxation(replace(problem, members=child)), solution)
                found = self._run(search, self.tol, best.objective)
                best.n_nodes += 1
                lower = max(bound, search.bound)
                if lower < best.objective:
                    heapq.heappush(nodes, (lower, next(count), child, found))
            bound = min(closed, nodes[0][0] if nodes else np.inf)
            self.note(solution, bound, len(solution.learners), n_nodes=best.n_nodes)
        return stopped
