"""Generation of learners and reductions for one relaxation, within a budget.

Learners with a positive score (9) of Andrews & Hofmann (2003) are added until there are none. Then
violated reductions are added by score (10). Both steps are repeated until no reduction is violated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .interior import InteriorSearch, InteriorStart
from .learners import WeakLearner
from .pools import LearnerPool
from .problem import DisjunctiveProblem, fresh_columns, weighted_sums
from .relaxation import Relaxation

# Number of learners per round; with one, many similar programs would be solved.
_LEARNERS_PER_ROUND = 20
# Below this gap rounding adds useless learners, and the start of the simplex method is good enough.
INTERIOR_TOL = 1e-6
# Weight of the centre in the multipliers at which learners are priced.
_CENTER_SHARE = 0.5
_COPIES_PER_ROUND = 500
_REDUCTIONS_PER_ROUND = 100
# If there are more learners than this number plus this multiple of those with weight, learners
# without weight are removed whose score is this far below 1.
_PRUNE_ABOVE = 20
_PRUNE_SHARE = 1.5
_PRUNE_MARGIN = 1e-3
# Relative difference up to which objectives count as equal. The first solution is then kept, so
# that the choice does not depend on rounding.
_SAME_OBJECTIVE = 1e-9

# Learners and their columns (n_learners, n_points).
LearnerSet = tuple[list[WeakLearner], np.ndarray]


@dataclass(frozen=True)
class BoostingOptions:
    """Limits and tolerances of the search for learners, reductions and nodes."""

    # Tolerance for scores above 1 and for violations of reductions.
    tol: float = 1e-6
    # Maximum number of learners in the program, and of reductions.
    n_estimators: int = 1000
    max_rows: int = 100
    # Whether to branch on the disjunctions until the relative gap of the bounds is ``2 * tol``.
    branch: bool = False
    # Maximum number of nodes of the search tree.
    max_nodes: int = 1000
    # Whether to fix the witnesses of the relaxation and solve the remaining linear program, and to
    # repeat this as long as the value decreases.
    select: bool = True
    # If an interior solution has more coefficients of learners in rows than this, it is the result:
    # there is no simplex method, and no reductions. Not used with ``branch``.
    simplex_entries: int = 2**21
    # Above this number of coefficients, the products of all Newton steps of a fit are limited.
    max_products: int = 3 * 2**37


def auto_learners(n_rows: int, products: int = 2**31) -> int:
    """The number of learners for ``n_estimators="auto"``, between 50 and 1,000.

    The cost of a Newton step is the number of rows times the square of the number of learners. It
    is limited to ``products``.
    """
    return int(np.clip(np.sqrt(products / max(1, n_rows)), 50, 1000))


class Budget:
    """Rule for an early stop: after a number of seconds, or by a callback.

    Parameters
    ----------
    time_limit : float, default=None
        Seconds from now.
    on_iteration : callable, default=None
        ``on_iteration(iteration, objective, **facts)`` is called at every report; it returns True
        to stop.
    clock : callable, default=time.monotonic
        Returns the time in seconds.

    Attributes
    ----------
    reason : {"", "time_limit", "callback", "work"}
        Reason why the budget is exhausted.
    cut : str
        The reason, if work was skipped because of it.
    spent : int
        Products of numbers so far.
    """

    def __init__(
        self,
        time_limit: float | None = None,
        on_iteration: Callable[..., bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._end = np.inf if time_limit is None else clock() + time_limit
        self._on_iteration = on_iteration
        self._n_reports = 0
        self.reason = ""
        self.cut = ""
        self.spent = 0

    def remaining(self) -> float:
        """Remaining seconds."""
        return max(0.0, self._end - self._clock()) if np.isfinite(self._end) else np.inf

    def exhausted(self) -> bool:
        """Whether no more work is allowed."""
        if not self.reason and self.remaining() <= 0.0:
            self.reason = "time_limit"
        return bool(self.reason)

    def spend(self, products: int, limit: int) -> None:
        """Add products of numbers; beyond the limit the budget is exhausted."""
        self.spent += products
        if self.spent > limit and not self.reason:
            self.reason = "work"

    def stops(self) -> bool:
        """Whether remaining work has to be skipped; if so, the reason is stored in ``cut``."""
        if self.exhausted():
            self.cut = self.reason
        return bool(self.cut)

    def ran_out(self) -> str:
        """Record that the time limit interrupted a program, and return the reason."""
        self.reason = self.cut = self.reason or "time_limit"
        return self.cut

    def report(self, objective: float, **facts: float) -> None:
        """Report an iteration to the callback, which may ask to stop."""
        self._n_reports += 1
        if self._on_iteration is None:
            return
        if self._on_iteration(self._n_reports, objective, **facts) and not self.reason:
            self.reason = "callback"


@dataclass
class Relaxed:
    """A relaxation that was solved, perhaps with an early stop.

    ``lower_bound`` holds for all learners of an exact pool, otherwise for the generated ones.
    ``stopped`` is empty if no learners are missing, and no reductions up to ``max_rows``.
    ``interior`` is the start of the simplex method.
    """

    relaxation: Relaxation
    value: float
    lower_bound: float
    violation: float
    stopped: str
    interior: InteriorStart | None = None

    @property
    def learners(self) -> LearnerSet:
        """The learners of the program, as a start for another program."""
        return self.relaxation.learners, self.relaxation.H


def relax(
    problem: DisjunctiveProblem,
    pool: LearnerPool,
    budget: Budget,
    options: BoostingOptions,
    *,
    start: LearnerSet | InteriorStart | None = None,
    warm: InteriorStart | None = None,
    cutoff: float = np.inf,
    on_round: Callable[[Relaxation, float], object] | None = None,
) -> Relaxed:
    """Solve the relaxation of a program by generation of learners and reductions.

    Parameters
    ----------
    problem : DisjunctiveProblem
    pool : LearnerPool
    budget : Budget
    options : BoostingOptions
    start : (learners, columns) or InteriorStart, default=None
        First learners, or a solution of a program with the same rows.
    warm : InteriorStart, default=None
        The interior solution of this program, if it is known.
    cutoff : float, default=inf
        Stop if the lower bound exceeds this value, because the caller has a better solution.
    on_round : callable, default=None
        Called with the relaxation and the lower bound after each round of learners.
    """
    search = interior_search(problem, pool, options, start) if warm is None else None
    if search is not None:
        warm = search.run(INTERIOR_TOL, budget.stops)
    relaxation = _begun(problem, start, warm)
    bound = 0.0 if warm is None else warm.bound
    violation, stopped = np.inf, ""
    if not relaxation.solve(budget.remaining):
        if bound == 0.0:
            # There is no solution yet; a program without learners is trivial.
            relaxation = Relaxation(problem)
            relaxation.solve()
        value = relaxation.value if bound > 0.0 else 0.0
        return Relaxed(relaxation, value, bound, violation, budget.ran_out(), warm)
    while True:
        stopped, found = _generate_columns(relaxation, pool, budget, options)
        value = relaxation.value
        bound = max(bound, found)
        if on_round is not None:
            on_round(relaxation, bound)
        if stopped or bound >= cutoff:
            break
        room = min(_REDUCTIONS_PER_ROUND, options.max_rows - relaxation.n_reductions)
        allowed = 0 if budget.exhausted() else max(0, room)
        added, violation = relaxation.separate(options.tol, allowed)
        if not added:
            # The maximum number of reductions is part of the relaxation, not an early stop.
            if violation > options.tol and room > 0 and budget.stops():
                stopped = budget.cut
            break
        if not relaxation.solve(budget.remaining):
            stopped = budget.ran_out()
            break
    return Relaxed(relaxation, value, bound, violation, stopped, warm)


class _CenteredPrices:
    """Dual prices between those of the last solution and the best feasible ones so far.

    A vertex of the restricted program is far from the final dual solution and changes strongly from
    round to round. Halfway to the *centre*, a point that is feasible for all learners, prices
    change slowly. A learner that improves the program there also cuts off the vertex, because the
    centre does not violate its constraint (in-out separation, Ben-Ameur & Neto 2007).
    """

    def __init__(self, relaxation: Relaxation, exact: bool) -> None:
        self.relaxation = relaxation
        self.exact = exact
        self.bound = 0.0
        self._center: np.ndarray | None = None

    def at(self, share: float) -> tuple[np.ndarray, float]:
        """The point with the weight ``share`` of the centre, and its value."""
        y, value = self.relaxation.result.y, self.relaxation.value
        if share == 0.0 or self._center is None:
            return y, value
        mixed = (1.0 - share) * y
        # Rows of copies that were added later have no multiplier in the centre.
        mixed[: len(self._center)] += share * self._center
        return mixed, share * self.bound + (1.0 - share) * value

    def learn(self, y: np.ndarray, value: float, score: float) -> None:
        """Make the point divided by its best score the centre if its value is better."""
        scale = max(1.0, score) if self.exact else 1.0
        if value / scale > self.bound:
            self.bound, self._center = value / scale, y / scale


def interior_search(
    problem: DisjunctiveProblem,
    pool: LearnerPool,
    options: BoostingOptions,
    start: LearnerSet | InteriorStart | None = None,
) -> InteriorSearch | None:
    """The search for learners at interior prices, which requires an exact pool; else None."""
    return InteriorSearch(problem, pool, options.n_estimators, start) if pool.exact else None


def _begun(
    problem: DisjunctiveProblem,
    start: LearnerSet | InteriorStart | None,
    warm: InteriorStart | None,
) -> Relaxation:
    """The program with its first learners."""
    if warm is None:
        relaxation = Relaxation(problem)
        if isinstance(start, tuple) and len(start[0]):
            relaxation.add_learners(list(start[0]), start[1])
        return relaxation
    relaxation = Relaxation(problem)
    relaxation.add_learners(warm.learners, warm.H)
    relaxation.adopt(warm.alpha, warm.y, warm.used, warm.free_rows, warm.slack_rows)
    return relaxation


def _generate_columns(
    relaxation: Relaxation, pool: LearnerPool, budget: Budget, options: BoostingOptions
) -> tuple[str, float]:
    """Add columns until none improves the program; return the early stop and the lower bound."""
    # Small enough that all copies that are left out change the value by less than tol.
    copy_tol = 0.1 * options.tol / max(1, len(relaxation.bags))
    prices = _CenteredPrices(relaxation, pool.exact)
    last = np.inf
    while True:
        y, value = prices.at(_CENTER_SHARE if pool.exact else 0.0)
        found = relaxation.dual_prices(y)
        best, learners, columns = pool.price(found, 1.0 + options.tol, _LEARNERS_PER_ROUND)
        prices.learn(y, value, best)
        fresh = fresh_columns({each.tobytes() for each in relaxation.H}, columns)
        at_vertex = y is relaxation.result.y
        own = found if at_vertex else relaxation.dual_prices()
        if not len(fresh) and not at_vertex:
            best, learners, columns = pool.price(own, 1.0 + options.tol, _LEARNERS_PER_ROUND)
            prices.learn(relaxation.result.y, relaxation.value, best)
            fresh = fresh_columns({each.tobytes() for each in relaxation.H}, columns)
            found = own
        n_copies = relaxation.add_copies(own, copy_tol, _COPIES_PER_ROUND)
        room = options.n_estimators - len(relaxation.learners)
        stopped = "n_estimators" if len(fresh) and room <= 0 else ""
        if not n_copies and (stopped or not len(fresh)):
            return stopped, prices.bound
        if budget.stops():
            return budget.cut, prices.bound
        progress = relaxation.value < last - options.tol * max(1.0, relaxation.value)
        used = np.count_nonzero(relaxation.alpha)
        if progress and len(relaxation.learners) > _PRUNE_ABOVE + _PRUNE_SHARE * used:
            # Only after progress, so that no learner is added and removed in a cycle.
            relaxation.prune_learners(own, _PRUNE_MARGIN)
            last = relaxation.value
        if len(fresh) and room > 0:
            fresh = fresh[:room]
            relaxation.add_learners([learners[k] for k in fresh], columns[fresh], found)
        if not relaxation.solve(budget.remaining):
            return budget.ran_out(), prices.bound


class Incumbent:
    """The best weights found for (5) with their learners and columns; initially none."""

    def __init__(self, problem: DisjunctiveProblem) -> None:
        self.problem = problem
        self.learners: list[WeakLearner] = []
        self.H = np.zeros((0, problem.n_points), dtype=np.int8)
        self.alpha = np.zeros(0)
        self.objective = problem.value(self.alpha, np.zeros(problem.n_points))

    def offer(self, learners: list[WeakLearner], H: np.ndarray, alpha: np.ndarray) -> bool:
        """Scale weights optimally, store them if they are better, and return whether they are."""
        used = np.flatnonzero(alpha)
        alpha, H = alpha[used], H[used]
        scores = weighted_sums(alpha, H)
        value, factor = self.problem.value(alpha, scores), 1.0
        best = self.problem.best_factor(alpha, scores)
        scaled = self.problem.value(best * alpha, best * scores)
        if scaled < value * (1.0 - _SAME_OBJECTIVE):
            value, factor = scaled, best
        if value >= self.objective * (1.0 - _SAME_OBJECTIVE):
            return False
        self.objective, self.alpha = value, factor * alpha
        self.learners, self.H = [learners[k] for k in used], H
        return True
