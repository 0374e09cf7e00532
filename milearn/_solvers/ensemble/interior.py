"""Column generation at interior dual prices.

The program of a :class:`.relaxation.Relaxation` is

    min  sum_k alpha_k + a'beta + c'xi    s.t.  G'alpha + B'beta + xi - v = r,   all >= 0,
    max  r'y                              s.t.  G y + s = 1,  B y <= a,  0 <= y <= c,  s >= 0,

with a row of G for each learner, and few fixed columns B. Prices at its vertices find poor
learners, and many simplex steps are needed between them. In this module learners are priced at the
iterates of :mod:`..common.soft_margin_lp`, as in the primal-dual column generation of Gondzio,
Gonzalez-Brevis & Munari (2013), but with one Newton step between two pricings. New learners are
added to the iterate, and the barrier parameter is decreased no faster than the gap to the bound
over *all* learners. The iterates approach the centre of all optimal weights, which is unique, so
that the result does not depend on rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress

import numpy as np
from scipy.linalg import LinAlgError

from ..common.soft_margin_lp import BLOCK, SoftMarginLP
from .learners import WeakLearner
from .pools import LearnerPool
from .problem import DualPrices, comparable, weighted_sums
from .relaxation import Relaxation

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
# A learner is kept in the result if its weight is above this fraction of its slack.
_NEARLY = 1e-3
# Below this relative gap, two steps are taken if no learner was found.
_LATE_GAP = 1e-2
# Weight of multipliers in the middle of their bounds, and relative gap, at a restart.
_INSIDE = 0.1
_RESTART_GAP = 0.1
_LEARNERS_PER_STEP = 50
# With reductions, learners have a column for each combination of disjuncts.
_COLUMNS_PER_LEARNER = 4


@dataclass
class InteriorStart:
    """Learners with weights and multipliers: a result, and a start for another program."""

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

    @property
    def scores(self) -> np.ndarray:
        """F of every point."""
        return weighted_sums(self.alpha, self.H)


class InteriorSearch:
    """Search for learners and multipliers by interior steps; :meth:`run` can be called again.

    Parameters
    ----------
    relaxation : Relaxation
    pool : LearnerPool
        Bounds hold for all its learners if it is exact.
    max_learners : int
        Maximum number of learners in the program.
    start : InteriorStart, default=None
        A solution of another relaxation with the same points and bags.

    Attributes
    ----------
    bound, value, gap : float
        Lower bound over all learners, value at the iterate, and their difference.
    """

    def __init__(
        self,
        relaxation: Relaxation,
        pool: LearnerPool,
        max_learners: int,
        start: InteriorStart | None = None,
    ) -> None:
        self.relaxation, self.pool, costs = relaxation, pool, relaxation.costs
        self.n_fixed = len(relaxation.columns)
        self.max_learners = max_learners * (_COLUMNS_PER_LEARNER if self.n_fixed else 1)
        kind = np.float64 if len(costs) <= BLOCK else np.int8
        master = self.master = SoftMarginLP(costs, right=relaxation.right, dtype=kind)
        # In the order of the rows of the matrix, after those of the fixed columns. The keys tell
        # columns of the program apart: learners and their disjuncts.
        self.learners: dict[bytes, WeakLearner] = {}
        self.H = np.zeros((0, relaxation.problem.n_points), dtype=np.int8)
        at, self.bound, self.center = master.at, 0.0, master.at.y
        self.n_steps, self._waited, self._stuck = 0, 0, False
        self._least_gap, self._least_value = np.inf, np.inf
        # Multipliers that are feasible for all learners. There is no limit for their scores: there
        # is at least one learner, whatever the costs.
        prices, best, found, columns = self._priced(at.y, -np.inf)
        at.y = at.y / max(1.0, best)
        if start is not None:
            # The solution of a program that differs in a few rows.
            y = np.clip(relaxation.lifted(start.y), 0.0, costs)
            prices, best, found, columns = self._priced(y, 1.0 if start.learners else -np.inf)
            at.y = _INSIDE * at.y + (1.0 - _INSIDE) * y / max(1.0, best)
        at.t = costs - at.y
        master.add(relaxation.columns, relaxation.column_costs)
        if start is not None:
            self._add(start.learners, start.H, prices)
        self._add(found, columns, prices)
        if start is not None:
            # Weights of the first learners, and other variables such that products are similar.
            # Equations may be violated; the next Newton step restores them.
            mu = _RESTART_GAP * float(master.right @ at.y) / at.size
            at.s = np.maximum(master.column_costs - master.times(at.y), 0.1 * np.sqrt(mu))
            at.alpha = mu / at.s
            near = slice(self.n_fixed, self.n_fixed + len(start.alpha))
            at.alpha[near] = np.maximum(start.alpha, at.alpha[near])
            over = master.back(at.alpha) - master.right
            at.v, at.xi = np.maximum(over, mu / at.y), np.maximum(-over, mu / at.t)
        self._update()

    @property
    def full(self) -> bool:
        """Whether there is the maximum number of learners."""
        return len(self.learners) >= self.max_learners

    def run(self, tol: float, exhausted: Callable[[], bool]) -> InteriorStart:
        """Continue until the relative gap is at most ``tol``, unless rounding or time ends it."""
        master = self.master
        while self.gap > tol * self.value and not self._stuck and not exhausted():
            # With few features a pricing finds few learners: the value falls before the gap.
            falls = self._found and self.value < _FALLING * self._least_value
            falls = falls or self.gap < _PROGRESS * self._least_gap
            self._waited = 0 if falls else self._waited + 1
            self._least_gap = min(self._least_gap, self.gap)
            self._least_value = min(self._least_value, self.value)
            patience = _PATIENCE_WHEN_FULL if self.full else _PATIENCE
            self._stuck = self._waited > patience or self.n_steps >= _MAX_STEPS
            if self._stuck:
                break
            try:
                master.advance(_AHEAD * self.gap / master.at.size)
                if not self._found and self.gap <= _LATE_GAP * self.value:
                    # No learner was missing, so the gap depends only on the barrier parameter.
                    master.advance(_AHEAD * master.mu)
            except LinAlgError:
                self._stuck = True
                break
            self._drop_idle()
            self.n_steps += 1
            self._update()
        if self.full:
            # The gap over all learners stays open, and has kept the barrier parameter large.
            self.finish(tol, exhausted)
        return self.result()

    def finish(self, tol: float, exhausted: Callable[[], bool]) -> None:
        """Solve the program of the present learners to a relative gap, unless rounding ends it."""
        while self.master.at.gap() > tol * self.value:
            if self.n_steps >= _MAX_STEPS or exhausted():
                break
            try:
                self.master.advance(_AHEAD * self.master.mu)
            except LinAlgError:
                break
            self.n_steps += 1
        self._update(add=False)

    def _update(self, *, add: bool = True) -> None:
        """Update the value and the bound, and add the learners with high scores."""
        self.value = self.master.value()
        y = self.master.at.y
        prices, best, learners, columns = self._priced(y, 1.0)
        value, excess = self.relaxation.dual_value(y)
        scale = max(best, excess)
        if value / scale > self.bound:
            self.bound, self.center = value / scale, y / scale
        self.gap = self.value - self.bound
        self._found = add and self._add(learners, columns, prices)

    def _priced(
        self, y: np.ndarray, limit: float
    ) -> tuple[DualPrices, float, list[WeakLearner], np.ndarray]:
        """Prices at multipliers, and the learners with the best scores above a limit."""
        scores = None
        if not self.pool.exact:
            scores = weighted_sums(self.master.at.alpha[self.n_fixed :], self.H)
        prices = self.relaxation.prices(y, scores)
        room = max(0, min(_LEARNERS_PER_STEP, self.max_learners - len(self.learners)))
        return prices, *self.pool.price(prices, limit, room)

    def _add(self, learners: list[WeakLearner], columns: np.ndarray, prices: DualPrices) -> bool:
        """Add new learners, and return whether there were any."""
        entries, new = self.relaxation.entries(columns, prices), []
        keys = np.concatenate([columns, entries[:, self.relaxation.margins]], axis=1)
        for k, learner in enumerate(learners):
            key = keys[k].tobytes()
            if key not in self.learners:
                self.learners[key] = learner
                new.append(k)
        self.H = np.concatenate([self.H, columns[new]])
        self.master.add(entries[new])
        return bool(new)

    def _drop_idle(self) -> None:
        """Remove the learners that are not likely to be used, if there are many of them."""
        alpha, s = self.master.at.alpha[self.n_fixed :], self.master.at.s[self.n_fixed :]
        idle = (alpha < _IDLE * np.minimum(s, 10.0 * alpha.max())) & (s > _IDLE_SLACK)
        if self.full:
            # At the maximum number of learners, also remove those of little use.
            idle = (alpha < _LITTLE_USE * s) & (s > _LITTLE_USE)
        elif idle.sum() <= _IDLE_SHARE * len(self.learners):
            return
        # A Newton step needs a learner.
        idle[np.argmax(alpha / s)] = False
        if not idle.any():
            return
        self.master.keep(np.r_[np.ones(self.n_fixed, dtype=bool), ~idle])
        self.learners = dict(compress(self.learners.items(), ~idle))
        self.H = self.H[~idle]

    def result(self) -> InteriorStart:
        """The learners that may be needed, their weights, and the best multipliers."""
        alpha, s = self.master.at.alpha[self.n_fixed :], self.master.at.s[self.n_fixed :]
        kept = np.flatnonzero(alpha > _NEARLY * s)
        alpha, s = alpha[kept], s[kept]
        # A learner added in the last step has both equal, but for rounding.
        likely = np.where(comparable(alpha - s) > 0.0, alpha, 0.0)
        first = group = np.arange(len(kept))
        learners = [*self.learners.values()]
        if self.n_fixed:
            # A learner may have several columns.
            rows = np.unique(self.H[kept], axis=0, return_index=True, return_inverse=True)
            first, group = rows[1], rows[2].ravel()
        return InteriorStart(
            learners=[learners[k] for k in kept[first]],
            H=self.H[kept[first]],
            alpha=np.bincount(group, likely, len(first)),
            inside=np.bincount(group, alpha, len(first)),
            y=self.center,
        )
