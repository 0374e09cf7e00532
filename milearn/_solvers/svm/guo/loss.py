r"""The loss of the relaxation of instance selection, as a function of the margins.

With the notation of :mod:`.relaxation` and h_i = [1 - m_i]_+ for the margin m_i = y_i f(x_i), the
best l_i for given h_i and e_i is max(h_i, s/2 - e_i), with the cost

    c_i ( 1/2 [h_i + e_i - s/2]_+^2 + (s-1)/2 e_i ) + constant,    h_i <= s.

The minimum over e is given by a level v of each bag: e_i = [v + s/2 - h_i]_+, where v >= 0 is such
that they sum to one (with "at least one", v >= (1-s)/2). The cost of an instance is 1/2 v^2 if
e_i > 0, and otherwise 1/2 (h_i - s/2)^2. The cost of a bag is zero if the e_i at level zero sum to
at least one.

:class:`RelaxationLoss` is the Moreau envelope of this loss and of the hinge. With the previous
multipliers a_i c_i and a stiffness t, it is the minimum over margins z of

    loss(z) + sum_i c_i t/2 ( z_i - m_i + a_i / t )^2 .

The new multipliers are piecewise linear in x_i = 1 - m_i + a_i / t. In positive bags the level v
solves the increasing, piecewise linear equation

    sum_i e_i(v) = 1,   e_i(v) = [v + s/2 - h_i(v)]_+,   h_i(v) = clip(x_i - v/t, 0, s).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ...._bags.segments import segment_index, segment_sum
from .problem import RelaxationProblem

__all__ = ["Piece", "Pieces", "RelaxationLoss"]

_MAX_LEVEL_STEPS = 100


class Piece(IntEnum):
    """The linear functions of x_i for a multiplier, as a fraction of its cost."""

    NOTHING = 0
    WHOLE = 1
    """1: a negative instance inside the margin."""
    MARGIN = 2
    """t x, on the margin: h = 0."""
    ABOVE = 3
    """d (x - s/2) with d = t / (1 + t): h is above the level, e = 0."""
    LIMIT = 4
    """t (x - s): h = s."""
    LOWEST = 5
    """The smallest possible level."""
    LEVEL = 6
    """The level of the bag, which depends on all instances on this piece."""


@dataclass(frozen=True)
class Pieces:
    """The piece of every instance, and whether those of positive bags have e_i > 0."""

    codes: np.ndarray
    filled: np.ndarray

    def equal(self, other: Pieces) -> bool:
        """Whether all multipliers are the same linear functions."""
        return np.array_equal(self.codes, other.codes) and np.array_equal(self.filled, other.filled)


class RelaxationLoss:
    """Multipliers of the envelope and their derivatives, in units of costs ``unit``."""

    def __init__(self, problem: RelaxationProblem, unit: float) -> None:
        self.p, self.s = problem.n_positive, problem.slack_bound
        self.costs = problem.costs / unit
        self.bags = problem.bag_offsets
        self.bag = segment_index(self.bags)
        self.exactly_one = problem.exactly_one
        self.lowest = 0.0 if problem.exactly_one else max(0.0, 0.5 * (1.0 - self.s))
        self._levels = np.full(len(self.bags) - 1, self.lowest)

    def levels(self, x: np.ndarray, stiffness: float) -> tuple[np.ndarray, np.ndarray]:
        """Level of each bag, and whether it is the smallest, by safeguarded Newton's method.

        At the upper end of the interval, 1 + s/2, the e_i of a single instance is above one.
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
        s, above, below = self.s, x[: self.p], stiffness * x[self.p :]
        levels, least = self.levels(above, stiffness)
        level = levels[self.bag]
        slack = above - level / stiffness
        filled = level + 0.5 * s > np.clip(slack, 0.0, s)
        inside = filled & (slack >= 0)
        # The first condition that holds determines the piece.
        of_bags = [
            (filled & (slack >= s), Piece.LIMIT),
            (inside & (level <= 0), Piece.NOTHING),
            (inside & least[self.bag], Piece.LOWEST),
            (inside, Piece.LEVEL),
            (filled & (above > 0), Piece.MARGIN),
            (filled | (above <= 0.5 * s), Piece.NOTHING),
            (above - (above - 0.5 * s) / (1.0 + stiffness) > s, Piece.LIMIT),
        ]
        of_negative = [(below <= 0, Piece.NOTHING), (below >= 1, Piece.WHOLE)]
        codes = [_first(of_bags, Piece.ABOVE), _first(of_negative, Piece.MARGIN)]
        return Pieces(np.concatenate(codes), filled)

    def _functions(self, stiffness: float) -> np.ndarray:
        """Slope, zero and constant of each piece except ``LEVEL``."""
        t, s = stiffness, self.s
        table = {
            Piece.NOTHING: (0.0, 0.0, 0.0),
            Piece.WHOLE: (0.0, 0.0, 1.0),
            Piece.MARGIN: (t, 0.0, 0.0),
            Piece.ABOVE: (t / (1.0 + t), 0.5 * s, 0.0),
            Piece.LIMIT: (t, s, 0.0),
            Piece.LOWEST: (0.0, 0.0, self.lowest),
            Piece.LEVEL: (0.0, 0.0, 0.0),
        }
        return np.array([table[piece] for piece in Piece]).T

    def multipliers(self, x: np.ndarray, stiffness: float, pieces: Pieces) -> np.ndarray:
        """Values of the linear functions of ``pieces``, which need not be the pieces of ``x``."""
        p = self.p
        slope, zero, constant = (each[pieces.codes] for each in self._functions(stiffness))
        scaled = slope * (x - zero) + constant
        member, slopes = self._slopes(stiffness, pieces)
        # The level is such that the e_i = v + s/2 - h_i that are above zero sum to one.
        h = np.where(member, x[:p], np.where(pieces.codes[:p] == Piece.LIMIT, self.s, 0.0))
        left = 1.0 + segment_sum(np.where(pieces.filled, h - 0.5 * self.s, 0.0), self.bags)
        scaled[:p][member] = (left / slopes)[self.bag][member]
        return np.asarray(scaled * self.costs)

    def curvature(self, stiffness: float, pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """The negative derivative of :meth:`multipliers` in the margins.

        It is the sum of a diagonal matrix with the weights of instances and of the outer products
        of vectors of positive bags.
        """
        slope = self._functions(stiffness)[0][pieces.codes]
        member, slopes = self._slopes(stiffness, pieces)
        vectors = np.where(member, np.sqrt(self.costs[: self.p] / slopes[self.bag]), 0.0)
        return slope * self.costs, vectors

    def _slopes(self, stiffness: float, pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """Instances at the level of their bag, and the derivative of each sum of e by the level."""
        member = pieces.codes[: self.p] == Piece.LEVEL
        slope = member / stiffness + np.where(pieces.filled, 1.0, 0.0)
        any_member = segment_sum(member.astype(np.intp), self.bags) > 0
        return member, np.where(any_member, segment_sum(slope, self.bags), 1.0)

    def slacks(self, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best l (up to s in positive bags) and e for given margins.

        If the [s/2 - h_i]_+ of a bag sum to more than one, e is proportional to them.
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


def _first(cases: list[tuple[np.ndarray, Piece]], default: Piece) -> np.ndarray:
    """The piece of the first condition that holds, in half the time of np.select."""
    codes = np.full(len(cases[0][0]), int(default))
    for condition, piece in reversed(cases):
        codes[condition] = int(piece)
    return codes
