"""Bounds of disjunctive programs by column and row generation (Andrews & Hofmann, Algorithm 1).

Lower bounds come from the relaxation: learners with a positive score (9) are added until there are
none, then violated reductions by score (10), and so on. Upper bounds are values of the program (5)
at the weights of the relaxation and of linear programs with one fixed witness per bag.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linprog

from .budget import BoostingOptions, Budget
from .interior import InteriorSearch, InteriorStart
from .learners import WeakLearner
from .pools import CachingPool, LearnerPool
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
_REDUCTIONS_PER_ROUND = 100
# Relative gap above which rounding ends the search for reductions.
_TOO_ROUGH = 1e-2
# With reductions, learners have a column for each combination of disjuncts.
_COLUMNS_PER_LEARNER = 4
_LEARNERS_PER_STEP, _COLUMNS_PER_STEP = 50, 25


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
    # Lower bound at the root, which is the value of the linear program if that is solved.
    relaxation_value: float
    # Reason of an early stop: "time_limit", "callback", "work", "size", "n_estimators",
    # "max_nodes", "rounding", or empty.
    stopped: str
    # Objective and lower bound after each round, and the number of rounds.
    objective_history: list[float]
    lower_bound_history: list[float]
    n_iter: int
    n_learners: int
    n_active_margins: int
    n_nodes: int = 1
    n_reductions: int = 0
    n_active_reductions: int = 0

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
    solver = _Solver(problem, pool, budget, options)
    if not pool.exact:
        # Learners are generated first. The bounds are then those over all of them.
        cache = solver.pool = CachingPool(pool)
        solver.root()
        solver.pool = cache.fixed()
    return solver.solve()


class _Solver:
    """The search for bounds of one problem.

    Attributes
    ----------
    best : Incumbent
    lower : float
        Lower bound so far.
    history : list of (objective, lower bound)
    """

    def __init__(
        self,
        problem: DisjunctiveProblem,
        pool: LearnerPool,
        budget: Budget,
        options: BoostingOptions,
    ) -> None:
        self.problem, self.pool = problem, pool
        self.budget = budget
        self.options = replace(options, tol=max(options.tol, _LEAST_TOL))
        self.tol = min(_SOLVED, self.options.tol)
        self.best, self.lower = Incumbent(problem), 0.0
        self.objectives: list[float] = []
        self.bounds: list[float] = []

    def solve(self) -> DPResult:
        """Upper bounds by witnesses, then the relaxation with reductions, then branching."""
        search, options, stopped, n_nodes = self.root(), self.options, "", 1
        first = search.result()
        self._note_search(search)
        if search.gap > options.tol * search.value:
            stopped = "n_estimators" if search.full else "rounding"
        elif self.problem.members and self._large(search):
            stopped = "size"
        elif self.problem.members:
            search = self._reduced(search)
        relaxation_value = self.lower
        if options.branch and self.problem.members:
            n_nodes, stopped = self._branch(first)
        active, relaxation = search.active(), search.relaxation
        return DPResult(
            learners=self.best.learners,
            H=self.best.H,
            alpha=self.best.alpha,
            objective=self.best.objective,
            lower_bound=min(self.lower, self.best.objective),
            relaxation_value=relaxation_value,
            stopped=self.budget.cut or stopped,
            objective_history=self.objectives,
            lower_bound_history=self.bounds,
            n_iter=len(self.bounds),
            n_learners=len(search.result().learners),
            n_active_margins=int(active[relaxation.margin_rows].sum()),
            n_nodes=n_nodes,
            n_reductions=relaxation.n_reductions,
            n_active_reductions=int(active[relaxation.reductions].sum()),
        )

    def root(self) -> InteriorSearch:
        """The relaxation without reductions, and good weights for fixed witnesses."""
        search = self._search(Relaxation(self.problem))
        if self.problem.members:
            # The alternation comes first, so that there is a good model if the budget ends.
            self._alternate(self._run(search, _ROUGH_TOL))
        self._run(search, self.tol)
        if self.problem.members:
            self._to_vertex()
        return search

    def _search(self, relaxation: Relaxation, start: InteriorStart | None = None) -> InteriorSearch:
        most, at_once = self.options.n_estimators, _LEARNERS_PER_STEP
        if relaxation.splits:
            most, at_once = _COLUMNS_PER_LEARNER * most, _COLUMNS_PER_STEP
        return InteriorSearch(relaxation, self.pool, most, start, at_once)

    def _large(self, search: InteriorSearch) -> bool:
        n_entries = len(search.learners) * len(search.relaxation.costs)
        return n_entries > self.options.large_entries

    def _run(self, search: InteriorSearch, tol: float, cutoff: float = np.inf) -> InteriorStart:
        """Run a search unless the budget ends it or its bound reaches ``cutoff``."""

        def exhausted() -> bool:
            if self._large(search):
                n_columns, n_rows = search.master.G.shape
                self.budget.spend(n_columns * n_columns * n_rows, self.options.max_products)
            return self.budget.stops() or search.bound >= cutoff

        found = search.run(tol, exhausted)
        if tol <= self.tol and cutoff == np.inf and not search.n_fixed:
            # Weights that vanish at the optimum become much smaller than others.
            search.finish(_FINISHED, exhausted)
            found = search.result()
        rough = bool(self.budget.cut) or (not search.n_fixed and tol > self.tol)
        self.best.offer(found.learners, found.H, found.inside if rough else found.alpha)
        return found

    def _note(self, lower: float, **facts: float) -> None:
        """Store and report the bounds."""
        self.lower = lower
        self.objectives.append(self.best.objective)
        self.bounds.append(min(lower, self.best.objective))
        self.budget.report(self.best.objective, lower_bound=self.bounds[-1], **facts)

    def _note_search(self, search: InteriorSearch) -> None:
        lower, n_reductions = max(self.lower, search.bound), search.relaxation.n_reductions
        self._note(lower, n_learners=len(search.learners), n_reductions=n_reductions)

    def _alternate(self, near: InteriorStart) -> None:
        """Alternate between witnesses and the linear program with fixed witnesses.

        The first witnesses are those of a rough interior solution of the relaxation, which is close
        to many good weights. At last they are those of the incumbent. F has few values, so that
        points of a bag often tie: the alternation ends when neither the first nor the last of them
        have a lower value.
        """
        problem = self.problem
        for tol in (_ROUGH_TOL, _WITNESS_TOL):
            least, chosen = np.inf, near
            while not self.budget.stops():
                near = self._fixed(problem.witnesses(near.scores), near, tol)
                value = problem.value(near.alpha, near.scores)
                if value >= least * (1.0 - _SAME_VALUE):
                    break
                least, chosen = value, near
            near = chosen
        scores, seen = near.scores, set[bytes]()
        while not self.budget.stops():
            tied = [problem.witnesses(scores, last=last) for last in (False, True)]
            fresh = [each for each in tied if np.concatenate(each).tobytes() not in seen]
            if not fresh:
                return
            seen.add(np.concatenate(fresh[0]).tobytes())
            near = self._fixed(fresh[0], near, self.tol)
            scores = weighted_sums(self.best.alpha, self.best.H)

    def _fixed(self, witnesses: list[np.ndarray], near: InteriorStart, tol: float) -> InteriorStart:
        """Solve the program with fixed witnesses."""
        fixed = self.problem.restricted(witnesses)
        return self._run(self._search(Relaxation(fixed), near), tol)

    def _to_vertex(self) -> None:
        """Move the best weights to a vertex: where weights tie, an interior point has all of them.

        The weights are the multipliers of the dual of the program with fixed witnesses.
        """
        best = self.best
        scores = weighted_sums(best.alpha, best.H)
        fixed = self.problem.restricted(self.problem.witnesses(scores))
        n, r = len(best.alpha), len(fixed.costs)
        if 0 < n * r <= self.options.large_entries:
            bounds = np.column_stack([np.zeros(r), fixed.costs])
            given = fixed.signed(best.H), np.ones(n), None, None, bounds
            found = linprog(np.full(r, -1.0), *given, method="highs-ds")
            if found.status == 0:
                best.offer(best.learners, best.H, -found.ineqlin.marginals, worse=_SOLVED)

    def _reduced(self, search: InteriorSearch) -> InteriorSearch:
        """Add violated reductions to the relaxation until there are none, or the gap is closed."""
        tol, most = self.options.tol, self.options.max_rows
        while self.best.objective - self.lower > tol * self.lower:
            room = min(_REDUCTIONS_PER_ROUND, most - search.relaxation.n_reductions)
            relaxation = search.tightened(tol, room)
            if relaxation is None or self.budget.stops():
                break
            found = search.result()
            search = self._search(relaxation, replace(found, y=relaxation.lifted(found.y)))
            self._run(search, max(self.tol, tol))
            self._note_search(search)
            if search.gap > _TOO_ROUGH * search.value:
                # The solution is too rough to tell which reductions it violates.
                break
        return search

    # -- branch and bound on the disjunctions ------------------------------------------------------
    # A node allows some points of each bag. One of its children allows only one point of a bag, and
    # the other one all other points.

    def _branch(self, root: InteriorStart) -> tuple[int, str]:
        """Close the gap, and return the number of nodes and the reason of an early stop."""
        problem, best, tol = self.problem, self.best, self.options.tol
        count = itertools.count()
        open_nodes = [_Node(self.lower, next(count), problem.members, root)]
        n_nodes, stopped, closed = 1, "", np.inf
        while open_nodes:
            # Bounds are computed to a relative tolerance of tol.
            if open_nodes[0].lower_bound >= best.objective * (1.0 - 2.0 * tol):
                break
            if self.budget.stops() or n_nodes >= self.options.max_nodes:
                stopped = "max_nodes"
                break
            node = heapq.heappop(open_nodes)
            bag, point = _choice(problem, node.members, node.solution.scores)
            if bag < 0:
                # Every bag has one point and cannot be divided. The gap is due to an early stop of
                # the linear program.
                closed = min(closed, node.lower_bound)
                full = len(node.solution.learners) >= self.options.n_estimators
                stopped = "n_estimators" if full else "rounding"
                continue
            members = node.members[bag]
            for allowed in (np.array([point]), members[members != point]):
                child = [allowed if k == bag else block for k, block in enumerate(node.members)]
                relaxation = Relaxation(replace(problem, members=child))
                search = self._search(relaxation, node.solution)
                solution = self._run(search, self.tol, best.objective)
                n_nodes += 1
                lower = max(node.lower_bound, search.bound)
                if lower < best.objective:
                    heapq.heappush(open_nodes, _Node(lower, next(count), child, solution))
            lowest = open_nodes[0].lower_bound if open_nodes else np.inf
            lower = min(lowest, closed, best.objective)
            self._note(lower, n_learners=len(node.solution.learners), n_nodes=n_nodes)
        return n_nodes, stopped


@dataclass(order=True)
class _Node:
    """A subproblem; nodes are ordered by their bounds."""

    lower_bound: float
    number: int
    members: list[np.ndarray] = field(compare=False)
    solution: InteriorStart = field(compare=False)


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


class Incumbent:
    """The best weights found for (5) with their learners and columns; initially none."""

    def __init__(self, problem: DisjunctiveProblem) -> None:
        self.problem = problem
        self.learners: list[WeakLearner] = []
        self.H = np.zeros((0, problem.n_points), dtype=np.int8)
        self.alpha = np.zeros(0)
        self.objective = problem.value(self.alpha, np.zeros(problem.n_points))

    def offer(
        self,
        learners: list[WeakLearner],
        H: np.ndarray,
        alpha: np.ndarray,
        worse: float = -_SAME_OBJECTIVE,
    ) -> None:
        """Scale weights optimally; store them if they are better, or ``worse`` by a fraction."""
        used = np.flatnonzero(alpha)
        alpha, H = alpha[used], H[used]
        scores = weighted_sums(alpha, H)
        value, factor = self.problem.value(alpha, scores), 1.0
        best = self.problem.best_factor(alpha, scores)
        scaled = self.problem.value(best * alpha, best * scores)
        if scaled < value * (1.0 - _SAME_OBJECTIVE):
            value, factor = scaled, best
        if value < self.objective * (1.0 + worse):
            self.objective, self.alpha = value, factor * alpha
            self.learners, self.H = [learners[k] for k in used], H
