r"""The loss of the relaxation of instance selection, as a function of the margins.

With the names of :mod:`.relaxation` and h_i = [1 - m_i]_+ for the margin m_i = y_i f(x_i), the
best l_i at given h_i and e_i is max(h_i, s/2 - e_i), at a cost of

    c_i ( 1/2 [h_i + e_i - s/2]_+^2 + (s-1)/2 e_i ) + constant,    h_i <= s.

What is left to minimise over is e, whose entries are filled up to one level v of the bag: e_i =
[v + s/2 - h_i]_+, with v >= 0 such that they sum to one (with "at least one", v >= (1-s)/2). Below
the level an instance costs 1/2 v^2, above it 1/2 (h_i - s/2)^2; a bag with enough room below level
zero costs nothing.

:class:`RelaxationLoss` has the Moreau envelope of this loss and of the hinge: with multipliers a_i
c_i from before and a stiffness t, it minimises over margins z

    loss(z) + sum_i c_i t/2 ( z_i - m_i + a_i / t )^2 .

The multipliers that follow from it are piecewise linear in x_i = 1 - m_i + a_i / t. In positive
bags

    h_i(v) = clip(x_i - v/t, 0, s)   gives   e_i(v) = [v + s/2 - h_i(v)]_+,  sum of e_i(v) = 1,

which is one increasing, piecewise linear equation a bag.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._bags.segments import segment_index, segment_sum
from .problem import RelaxationProblem

__all__ = ["Pieces", "RelaxationLoss"]

# The piece that an instance is on, by what its multiplier is as a share of its cost:
_NOTHING = 0  # 0
_WHOLE = 1  # 1, a negative instance inside the margin
_MARGIN = 2  # t x, on the margin: h = 0
_ABOVE = 3  # d (x - s/2) with d = t / (1 + t), above the level of its bag
_LIMIT = 4  # t (x - s), where h = s
_LEVEL = 5  # the level of its bag, which changes with the instances on this piece
_FLOOR = 6  # the least level
_MAX_LEVEL_STEPS = 100


@dataclass(frozen=True)
class Pieces:
    """The piece of every instance, and whether those of positive bags have e_i > 0."""

    codes: np.ndarray
    filled: np.ndarray

    def equal(self, other: Pieces) -> bool:
        """Whether all multipliers are the same linear function."""
        return np.array_equal(self.codes, other.codes) and np.array_equal(self.filled, other.filled)


class RelaxationLoss:
    """Multipliers of the envelope and their derivatives.

    Parameters
    ----------
    problem : RelaxationProblem
    unit : float
        What costs are counted in.
    """

    def __init__(self, problem: RelaxationProblem, unit: float) -> None:
        self.p, self.s = problem.n_positive, problem.slack_bound
        self.costs = problem.costs / unit
        self.bags = problem.bag_offsets
        self.bag = segment_index(self.bags)
        self.exactly_one = problem.exactly_one
        self.lowest = 0.0 if problem.exactly_one else max(0.0, 0.5 * (1.0 - self.s))
        self._levels = np.full(len(self.bags) - 1, self.lowest)

    def levels(self, x: np.ndarray, stiffness: float) -> tuple[np.ndarray, np.ndarray]:
        """Level of each bag, and whether it is the least: Newton's method, held in an interval.

        At the upper end, 1 + s/2, one instance alone takes more than there is to take.
        """
        low = np.full(len(self.bags) - 1, self.lowest)
        high = np.full_like(low, self.lowest + 1.0 + 0.5 * self.s)
        least = self._sums(x, low, stiffness)[0] >= 1.0
        levels = np.where(least, self.lowest, np.clip(self._levels, low, high))
        for _ in range(_MAX_LEVEL_STEPS):
            sums, slopes = self._sums(x, levels, stiffness)
            excess = np.where(least, 0.0, sums - 1.0)
            if np.abs(excess).max() <= 1e-14 * len(self.bag):
                break
            low = np.where(excess < 0, levels, low)
            high = np.where(excess > 0, levels, high)
            step = levels - excess / np.maximum(slopes, 1.0)
            inside = (step > low) & (step < high)
            levels = np.where(least, self.lowest, np.where(inside, step, 0.5 * (low + high)))
        self._levels = levels
        return levels, least

    def _sums(
        self, x: np.ndarray, levels: np.ndarray, stiffness: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of e over each bag at a level, and its derivative."""
        level = levels[self.bag]
        slack = x - level / stiffness
        eta = level + 0.5 * self.s - np.clip(slack, 0.0, self.s)
        slope = (eta > 0) * (1.0 + ((slack > 0) & (slack < self.s)) / stiffness)
        return segment_sum(np.maximum(0.0, eta), self.bags), segment_sum(slope, self.bags)

    def pieces(self, x: np.ndarray, stiffness: float) -> Pieces:
        """The piece that each instance is on."""
        p, s = self.p, self.s
        above, below = x[:p], stiffness * x[p:]
        levels, least = self.levels(above, stiffness)
        level = levels[self.bag]
        slack = above - level / stiffness
        filled = level + 0.5 * s > np.clip(slack, 0.0, s)
        force = stiffness / (1.0 + stiffness) * (above - 0.5 * s)
        alone = np.where(above - force / stiffness > s, _LIMIT, _ABOVE)
        at_level = np.where(least[self.bag], _FLOOR, _LEVEL)
        within = np.select(
            [slack >= s, slack >= 0, above > 0],
            [_LIMIT, np.where(level > 0, at_level, _NOTHING), _MARGIN],
            _NOTHING,
        )
        alone = np.where(above > 0.5 * s, alone, _NOTHING)
        negative = np.where(below <= 0, _NOTHING, np.where(below >= 1, _WHOLE, _MARGIN))
        codes = np.concatenate([np.where(filled, within, alone), negative]).astype(np.int8)
        return Pieces(codes, filled)

    def multipliers(self, x: np.ndarray, stiffness: float, pieces: Pieces) -> np.ndarray:
        """The linear functions of these pieces, which need not be those of ``x``."""
        codes, p, s = pieces.codes, self.p, self.s
        d = stiffness / (1.0 + stiffness)
        scaled = np.select(
            [codes == _MARGIN, codes == _ABOVE, codes == _LIMIT, codes == _WHOLE, codes == _FLOOR],
            [stiffness * x, d * (x - 0.5 * s), stiffness * (x - s), 1.0, self.lowest],
            0.0,
        )
        member, slopes = self._slopes(stiffness, pieces)
        # Each instance that has e_i > 0 takes v + s/2 - h_i of the one that there is.
        limit = codes[:p] == _LIMIT
        h = np.where(member, x[:p], np.where(limit, s, 0.0))
        left = 1.0 + segment_sum(np.where(pieces.filled, h - 0.5 * s, 0.0), self.bags)
        level = (left / slopes)[self.bag]
        scaled[:p][member] = level[member]
        return np.asarray(scaled * self.costs)

    def curvature(self, stiffness: float, pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """Weights of instances and vectors of positive bags whose outer products are added.

        Together the negative derivative of :meth:`multipliers` in the margins.
        """
        codes, p = pieces.codes, self.p
        own = np.select(
            [(codes == _MARGIN) | (codes == _LIMIT), codes == _ABOVE],
            [stiffness, stiffness / (1.0 + stiffness)],
            0.0,
        )
        member, slopes = self._slopes(stiffness, pieces)
        pull = np.where(member, np.sqrt(self.costs[:p] / slopes[self.bag]), 0.0)
        return own * self.costs, pull

    def _slopes(self, stiffness: float, pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """Who is at the level of its bag, and the derivative of the bag's sum of e by the level."""
        member = pieces.codes[: self.p] == _LEVEL
        slope = member / stiffness + np.where(pieces.filled, 1.0, 0.0)
        any_member = segment_sum(member.astype(np.intp), self.bags) > 0
        return member, np.where(any_member, segment_sum(slope, self.bags), 1.0)

    def slacks(self, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best l (up to s in positive bags) and e at given margins.

        Where a bag has room to spare e is in proportion to the room, s/2 - h_i.
        """
        p, s = self.p, self.s
        slacks = np.maximum(0.0, 1.0 - margins)
        above = np.minimum(slacks[:p], s)
        levels, least = self.levels(above, np.inf)
        room = np.maximum(0.0, levels[self.bag] + 0.5 * s - above)
        sums = segment_sum(room, self.bags)[self.bag]
        spare = least[self.bag] & (self.lowest == 0)
        eta = room / np.where(spare, sums, 1.0)
        slacks[:p] = np.minimum(s, np.maximum(above, 0.5 * s - eta))
        return slacks, eta
