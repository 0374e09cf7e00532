"""Column generation at interior dual prices, for programs whose rows all have slacks.

A program (5) without ambiguous bags, and a relaxation without reductions, is

    min  sum_k alpha_k + c'xi    s.t.  G'alpha + xi - v = 1,    alpha, xi, v >= 0,
    max  sum_i y_i               s.t.  G y + s = 1,  0 <= y <= c,  s >= 0,

with a row of G for each learner: its signed values, and its maximum over each bag. Prices at its
vertices find poor learners, and many simplex steps are needed between them. In this module learners
are priced at the iterates of :mod:`..common.soft_margin_lp`, as in the
primal-dual column generation of Gondzio, Gonzalez-Brevis & Munari (2013), but with one Newton step
between two pricings. New learners are added to the iterate, and the barrier parameter is decreased
no faster than the gap to the bound over *all* learners. The
simplex method then starts close to the final basis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from ..common.soft_margin_lp import BLOCK, Point, SoftMarginLP
from .learners import WeakLearner
from .pools import LearnerPool, Priced
from .problem import (
    DisjunctiveProblem,
    DualPrices,
    WholeBags,
    comparable,
    fresh_columns,
    weighted_sums,
)

_MAX_STEPS = 300
# After this number of steps without progress, assume stagnation.
_PATIENCE = 40
# The same at the maximum number of learners.
_PATIENCE_WHEN_FULL = 10
_PROGRESS = 0.9
_FALLING = 0.999
# The barrier parameter as a fraction of the gap over all learners.
_AHEAD = 0.1
# Learners are idle if their weight is at most the first fraction of their slack and of ten times
# the largest weight, and their score is below 1 by the second number. They are removed if they are
# more than the third fraction of all learners.
_IDLE, _IDLE_SLACK, _IDLE_SHARE = 1e-4, 0.05, 0.2
_LITTLE_USE = 1e-2
# A learner is passed to the simplex method if its weight is above this fraction of its slack.
_NEARLY = 1e-3
# Below this relative gap, two steps are taken if no learner was found.
_LATE_GAP = 1e-2
# Weight of multipliers in the middle of their bounds, and relative gap, at a restart.
_INSIDE = 0.1
_RESTART_GAP = 0.1


def soft_entries(problem: DisjunctiveProblem, columns: np.ndarray) -> np.ndarray:
    """Coefficients of learners in the rows of points and of whole bags, (n_learners, n_rows)."""
    r = len(problem.points)
    entries = np.empty((len(columns), r + len(problem.members)), dtype=np.int8)
    entries[:, :r] = problem.signs.astype(np.int8) * columns[:, problem.points]
    entries[:, r:] = problem.highest(columns)
    return entries


def soft_prices(problem: DisjunctiveProblem, y: np.ndarray) -> DualPrices:
    """Multipliers of these rows as prices that score learners."""
    r = len(problem.points)
    linear = problem.linear_prices(y[:r])
    whole = WholeBags(*problem.flat_members, y[r:]) if problem.members else None
    return DualPrices(linear, [], np.zeros(problem.n_points), whole)


@dataclass
class InteriorStart:
    """Learners with weights and multipliers, for another program or for the simplex method."""

    # The learners whose weight may be above zero, and their columns.
    learners: list[WeakLearner]
    H: np.ndarray
    # Of shape (n_learners,). Weights, with zeros where the optimal weight is likely to be zero.
    alpha: np.ndarray
    # Of shape (n_learners,). The weights of the iterate, all above zero, which are better after an
    # early stop.
    inside: np.ndarray
    # Of shape (n_rows,). Multipliers that are feasible for all learners of the pool.
    y: np.ndarray
    # The dual value of these multipliers.
    bound: float
    # Masks of an estimate of the basis: learners with a weight, as many rows whose multiplier is
    # strictly between its bounds, and rows whose multiplier is at the upper bound.
    used: np.ndarray
    free_rows: np.ndarray
    slack_rows: np.ndarray
    # Number of Newton steps.
    n_steps: int
    # Value of the program at the weights of the iterate.
    value: float = np.inf

    @property
    def scores(self) -> np.ndarray:
        """F of every point."""
        return weighted_sums(self.alpha, self.H)


def _basis(at: Point, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the kept learners with a weight, and of rows with a multiplier between bounds.

    A basis has equal numbers of both. The least certain learners and rows are changed until this is
    so. If only rows were changed, the simplex method could take a hundred times as many steps.
    """
    used = at.alpha[kept] / at.s[kept]
    free = np.minimum(at.y / at.v, at.t / at.xi)
    # Learners without a weight and free rows are basic, as many in total as there are learners.
    basic = np.zeros(len(used) + len(free), dtype=bool)
    basic[np.argsort(np.r_[used, 1.0 / free], kind="stable")[: len(used)]] = True
    return ~basic[: len(used)], basic[len(used) :]


class InteriorSearch:
    """Search for learners and multipliers by interior steps; :meth:`run` can be called again.

    Parameters
    ----------
    problem : DisjunctiveProblem
        Each bag has one row.
    pool : LearnerPool
        It must be exact.
    max_learners : int
        Maximum number of learners in the program.
    start : InteriorStart, (learners, columns) or None
        A solution of a program with the same number of rows, or first learners.
    learners_per_step : int, default=50
        Maximum number of learners that are added per step.
    """

    def __init__(
        self,
        problem: DisjunctiveProblem,
        pool: LearnerPool,
        max_learners: int,
        start: InteriorStart | tuple[list[WeakLearner], np.ndarray] | None = None,
        learners_per_step: int = 50,
    ) -> None:
        self.problem, self.pool = problem, pool
        self.max_learners, self.learners_per_step = max_learners, learners_per_step
        costs = np.concatenate([problem.costs, problem.member_costs])
        self.master = SoftMarginLP(costs, dtype=np.float64 if len(costs) <= BLOCK else np.int8)
        # In the order of the rows of the matrix.
        self.learners: list[WeakLearner] = []
        self.H = np.zeros((0, problem.n_points), dtype=np.int8)
        self.bound, self.value, self.center = 0.0, np.inf, self.master.at.y
        self._known: set[bytes] = set()
        if start is None or isinstance(start, tuple):
            learners, H = start or ([], self.H)
            self._begin(learners, H, None)
        else:
            self._begin(start.learners, start.H, start)
        self.n_steps, self._waited, self._stuck = 0, 0, False
        self._least_gap, self._least_value = np.inf, np.inf
        self._update_gap()

    def run(self, tol: float, exhausted: Callable[[], bool]) -> InteriorStart:
        """Continue until the relative gap is at most ``tol``, unless rounding or time ends it."""
        while self.gap > tol * max(1.0, self.value) and not self._stuck and not exhausted():
            self._step()
        self._close_own_gap(tol, exhausted)
        return self._result()

    def _close_own_gap(self, tol: float, exhausted: Callable[[], bool]) -> None:
        """At the maximum number of learners, solve the program of these learners.

        The gap over all learners stays open, and has kept the barrier parameter large.
        """
        while not self._room() and self.master.at.gap() > tol * self.value:
            if self.n_steps >= _MAX_STEPS or exhausted():
                return
            try:
                self.master.advance(_AHEAD * self.master.mu)
            except LinAlgError:
                return
            self.n_steps += 1
            self.value = self._value()

    def _value(self) -> float:
        alpha, costs = self.master.at.alpha, self.master.costs
        return float(alpha.sum() + costs @ np.maximum(0.0, 1.0 - self.master.back(alpha)))

    def _update_gap(self) -> None:
        self.value = self._value()
        self._found = self._price()
        self.gap = self.value - self.bound

    def _step(self) -> None:
        # With few features a pricing finds few learners, and the value decreases before the gap.
        falling = self._found and self.value < _FALLING * self._least_value
        self._waited = 0 if self.gap < _PROGRESS * self._least_gap or falling else self._waited + 1
        self._least_gap = min(self._least_gap, self.gap)
        self._least_value = min(self._least_value, self.value)
        master = self.master
        try:
            patience = _PATIENCE if self._room() else _PATIENCE_WHEN_FULL
            if self._waited > patience or self.n_steps >= _MAX_STEPS:
                raise LinAlgError
            master.advance(_AHEAD * self.gap / master.at.size)
            if not self._found and self.gap <= _LATE_GAP * self.value:
                # No learner was missing, so the gap depends only on the barrier parameter.
                master.advance(_AHEAD * master.mu)
        except LinAlgError:
            self._stuck = True
            return
        self._drop_idle()
        self.n_steps += 1
        self._update_gap()

    def _begin(
        self, learners: list[WeakLearner], H: np.ndarray, near: InteriorStart | None
    ) -> None:
        """Start from given learners, with multipliers that are feasible for all learners.

        ``near`` is the solution of a program that differs in a few rows.
        """
        at, costs = self.master.at, self.master.costs
        # Without a limit: there is at least one learner, whatever the costs.
        best, found, columns = self._highest(at.y, -np.inf)
        at.y = at.y / max(1.0, best)
        if near is not None:
            y = np.clip(near.y, 0.0, costs)
            best, found, columns = self._highest(y, 1.0 if learners else -np.inf)
            at.y = _INSIDE * at.y + (1.0 - _INSIDE) * y / max(1.0, best)
        at.t = costs - at.y
        self._add(learners, H)
        self._add(found, columns)
        if near is not None:
            self._recenter(near.alpha)

    def _recenter(self, alpha: np.ndarray) -> None:
        """Set weights of the first learners, and other variables such that products are similar.

        Equations may be violated; the next Newton step restores them.
        """
        at = self.master.at
        mu = _RESTART_GAP * float(at.y.sum()) / at.size
        at.s = np.maximum(1.0 - self.master.times(at.y), 0.1 * np.sqrt(mu))
        at.alpha = mu / at.s
        at.alpha[: len(alpha)] = np.maximum(alpha, at.alpha[: len(alpha)])
        reached = self.master.back(at.alpha)
        at.v = np.maximum(reached - 1.0, mu / at.y)
        at.xi = np.maximum(1.0 - reached, mu / at.t)

    def _highest(self, y: np.ndarray, limit: float) -> Priced:
        return self.pool.price(soft_prices(self.problem, y), limit, self._room())

    def _room(self) -> int:
        left = self.max_learners - len(self.learners)
        return max(0, min(self.learners_per_step, left))

    def _price(self) -> bool:
        """Add learners at the current multipliers, update the bound, and return whether any."""
        y = self.master.at.y
        best, learners, columns = self._highest(y, 1.0)
        value = float(y.sum()) / max(1.0, best)
        if value > self.bound:
            self.bound, self.center = value, y / max(1.0, best)
        return self._add(learners, columns)

    def _add(self, learners: list[WeakLearner], columns: np.ndarray) -> bool:
        """Add new learners, and return whether there were any."""
        new = fresh_columns(self._known, columns)
        if len(new):
            self.learners += [learners[k] for k in new]
            self.H = np.concatenate([self.H, columns[new]])
            self.master.add(soft_entries(self.problem, columns[new]))
        return bool(len(new))

    def _drop_idle(self) -> None:
        """Remove the learners that are not likely to be used, if there are many of them."""
        at = self.master.at
        idle = (at.alpha < _IDLE * np.minimum(at.s, 10.0 * at.alpha.max())) & (at.s > _IDLE_SLACK)
        if self._room() == 0:
            # At the maximum number of learners, also remove those of little use.
            idle = (at.alpha < _LITTLE_USE * at.s) & (at.s > _LITTLE_USE)
        elif idle.sum() <= _IDLE_SHARE * len(self.learners):
            return
        # A Newton step needs a learner.
        idle[np.argmax(at.alpha / at.s)] = False
        if not idle.any():
            return
        kept = np.flatnonzero(~idle)
        self.master.keep(kept)
        self._known -= {self.H[k].tobytes() for k in np.flatnonzero(idle)}
        self.learners = [self.learners[k] for k in kept]
        self.H = self.H[kept]

    def _result(self) -> InteriorStart:
        at = self.master.at
        kept = np.flatnonzero(at.alpha > _NEARLY * at.s)
        used, free = _basis(at, kept)
        return InteriorStart(
            learners=[self.learners[k] for k in kept],
            H=self.H[kept],
            # A learner added in the last step has both equal, but for rounding.
            alpha=np.where(comparable(at.alpha - at.s) > 0.0, at.alpha, 0.0)[kept],
            inside=at.alpha[kept],
            y=self.center,
            bound=self.bound,
            used=used,
            free_rows=free,
            slack_rows=(at.xi > at.t) & ~free,
            n_steps=self.n_steps,
            value=self.value,
        )
