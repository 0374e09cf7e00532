r"""The relaxation of instance selection with a kernel matrix, by the method of multipliers.

The relaxation of :mod:`.selection_relaxation` is min 1/2 |w|^2 + loss(margins) with w given by
coefficients of the signed instances. For h_i = [1 - m_i]_+ with the margin m_i = y_i f(x_i), the
best l_i is max(h_i, s/2 - e_i), with the cost

    c_i ( 1/2 [h_i + e_i - s/2]_+^2 + (s-1)/2 e_i ) + constant,    h_i <= s.

The minimum over e is given by a level v of each bag: e_i = [v + s/2 - h_i]_+, where v >= 0 is such
that they sum to one (with "at least one", v >= (1-s)/2). The cost of a bag is zero if the e_i at
level zero sum to at least one.

The method of multipliers (Rockafellar 1976) minimises the problem with the Moreau envelope of the
loss at the last multipliers, and then updates the multipliers. It converges superlinearly if the
stiffness of the envelope is increased. The envelope is piecewise quadratic and differentiable, so
each of these problems takes a few Newton steps. A Newton system has one row for each instance that
is on the margin or above the level of its bag, and one for each bag, because only those multipliers
change with the margins. With one thread and 950 instances this takes a twentieth of the time of an
interior point method on a factor of the kernel matrix, whose systems have a row for each instance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsymv

from ..._bags.segments import segment_index, segment_min, segment_sum

# In units of the inverse of the largest square of an instance.
_STIFFNESS, _MAX_STIFFNESS = 10.0, 1e8
_GROWTH = 10.0
_MAX_PHASES = 20
_MAX_STEPS = 60
_MAX_LEVEL_STEPS = 100
# A subproblem is solved to this fraction of the change of its multipliers, and at least to this
# gradient.
_PART, _LOOSE = 0.1, 0.1
# The line search stops if the slope is at most this fraction of the first slope.
_FLAT = 0.3
_MAX_TRIALS = 30
# The residuals are computed if the change of the margins is at most this large.
_MEASURED = 1e-5
_PATIENCE = 3
# Changes of the margins up to this size count as rounding.
_ROUNDING = 1e-12
# Instances may be left out of a system if they change it by less than this fraction.
_NEGLECTED = 1e-4
# Up to this weight, in units of the kernel, single precision is sufficient.
_SINGLE = 1e3

_Inverse = Callable[[np.ndarray], np.ndarray]


@dataclass
class Found:
    """A primal and dual point with its residuals, in units of the largest cost."""

    w: np.ndarray  # or coefficients of the signed instances
    b: float
    slacks: np.ndarray
    eta: np.ndarray
    gap: float
    primal_residual: float
    dual_residual: float
    error: float
    n_iter: int


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
    """The loss of the relaxation and its envelope, with costs in units of the largest one.

    Parameters
    ----------
    costs : ndarray of shape (n_instances,)
        Of the instances of positive bags, then of the others.
    bags : ndarray of shape (n_positive_bags + 1,)
    slack_bound : float
    exactly_one : bool
    """

    def __init__(
        self, costs: np.ndarray, bags: np.ndarray, slack_bound: float, exactly_one: bool
    ) -> None:
        self.p, self.s, self.costs = int(bags[-1]), slack_bound, costs
        self.bags, self.bag = bags, segment_index(bags)
        self.exactly_one = exactly_one
        self.lowest = 0.0 if exactly_one else max(0.0, 0.5 * (1.0 - slack_bound))
        self._levels = np.full(len(bags) - 1, self.lowest)

    def levels(self, x: np.ndarray, stiffness: float) -> tuple[np.ndarray, np.ndarray]:
        """Level of each bag, and whether it is the smallest.

        The sum of e_i = [v + s/2 - clip(x_i - v/t, 0, s)]_+ increases with the level v. The root of
        sum = 1 is found by safeguarded Newton's method. At the upper end of the interval the e_i of
        a single instance is above one.
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


@dataclass
class _Point:
    """Coefficients of the signed instances, the intercept, and the margins."""

    a: np.ndarray
    b: float
    margins: np.ndarray

    def moved(self, by: _Point, length: float) -> _Point:
        """The point after a step along a direction."""
        return _Point(
            self.a + length * by.a, self.b + length * by.b, self.margins + length * by.margins
        )


class MultiplierMethod:
    """The method of multipliers with Newton's method for the coefficients and the intercept.

    Parameters
    ----------
    kernel : ndarray of shape (n_instances, n_instances)
        In units of the largest cost, in the order of the loss.
    signs : ndarray of shape (n_instances,)
    loss : RelaxationLoss
    """

    def __init__(self, kernel: np.ndarray, signs: np.ndarray, loss: RelaxationLoss) -> None:
        self.loss, self.signs = loss, signs
        self.K = np.asfortranarray(kernel.T) * signs
        self.K *= signs[:, None]
        self._single: np.ndarray | None = None
        self._last: tuple[float, Pieces, sparse.csr_array, _Inverse] | None = None
        self.diagonal = np.maximum(0.0, np.diagonal(self.K))
        self.size = max(1.0, float(self.diagonal.max()))
        self.n_iter = 0

    def run(self, tol: float) -> Found | None:
        """The first point with an error below ``tol``, otherwise the best one, or None."""
        n = len(self.signs)
        scaled, stiffness = np.zeros(n), _STIFFNESS / self.size
        point = _Point(np.zeros(n), 0.0, np.zeros(n))
        pieces: Pieces | None = None
        best: Found | None = None
        waited = 0
        for _ in range(_MAX_PHASES):
            try:
                if pieces is not None:
                    x = 1.0 - point.margins + scaled / stiffness
                    alpha = self.loss.multipliers(x, stiffness, pieces)
                    point = point.moved(self._direction(point, alpha, stiffness, pieces), 1.0)
                point, pieces, alpha, n_steps = self._minimized(point, scaled, stiffness)
            except LinAlgError:
                return best
            if not np.isfinite(alpha).all():
                return best
            change = np.abs(alpha / self.loss.costs - scaled).max() / stiffness
            scaled = alpha / self.loss.costs
            if change <= _MEASURED:
                found = self._measured(alpha, point.b)
                waited = 0 if best is None or found.error < 0.5 * best.error else waited + 1
                best = found if best is None or found.error < best.error else best
                if best.error <= tol or waited >= _PATIENCE or change <= _ROUNDING:
                    return best
            # Increase faster if the last subproblem took at most one step.
            growth = _GROWTH ** (1 + (n_steps <= 1))
            stiffness = min(stiffness * growth, _MAX_STIFFNESS / self.size)
        return best

    def _minimized(
        self, point: _Point, scaled: np.ndarray, stiffness: float
    ) -> tuple[_Point, Pieces, np.ndarray, int]:
        """The minimum of the envelope, its pieces and multipliers, and the number of steps."""
        last, size, n_steps = None, np.inf, 0
        while True:
            x = 1.0 - point.margins + scaled / stiffness
            pieces = self.loss.pieces(x, stiffness)
            alpha = self.loss.multipliers(x, stiffness, pieces)
            right = alpha - point.a
            square = max(0.0, float(right @ self._times(right)))
            before, size = size, max(float(np.sqrt(square)), abs(float(self.signs @ alpha)))
            change = np.abs(alpha / self.loss.costs - scaled).max() / stiffness
            # If the pieces have not changed, an exact step has reached the minimum up to rounding.
            rounded = last is not None and pieces.equal(last) and size >= 0.1 * before
            if size <= min(_LOOSE, _PART * change) or rounded or n_steps == _MAX_STEPS:
                break
            last = pieces
            by = self._direction(point, alpha, stiffness, pieces)
            length = self._length(point, by, scaled, stiffness)
            if length == 0.0:
                break
            point = point.moved(by, length)
            n_steps += 1
        return point, pieces, alpha, n_steps

    def _direction(
        self, point: _Point, alpha: np.ndarray, stiffness: float, pieces: Pieces
    ) -> _Point:
        """The Newton step on these pieces, by Woodbury's formula.

        With the rows T of instances (the square root of their weight) and of bags (their vector),
        the system of the coefficients is I + T K T'. Only rows that are not negligible take part.
        """
        self.n_iter += 1
        last = self._last
        if last is None or last[0] != stiffness or not last[1].equal(pieces):
            system = self._system(*self.loss.curvature(stiffness, pieces))
            self._last = last = stiffness, pieces, *system
        _, _, T, inverse = last
        right, right_b = alpha - point.a, float(self.signs @ alpha)
        right_one = T @ self.signs
        u, solved_one = inverse(T @ self._times(right)), inverse(right_one)
        curvature = float(right_one @ solved_one)
        if curvature > 0:
            db = (right_b - float(right_one @ u)) / curvature
        else:
            # No row depends on the intercept: the line search determines the step.
            db = right_b / max(1.0, abs(right_b))
        da = right - T.T @ (u + db * solved_one)
        return _Point(da, db, self._times(da) + db * self.signs)

    def _system(
        self, weights: np.ndarray, vectors: np.ndarray
    ) -> tuple[sparse.csr_array, _Inverse]:
        """The rows T, and the inverse of I + T K T'."""
        share = weights * self.diagonal
        order = np.argsort(share, kind="stable")
        kept = np.sort(order[np.searchsorted(np.cumsum(share[order]), _NEGLECTED) :])
        kept = kept[weights[kept] > 0]
        members = np.flatnonzero(vectors)
        bags, rows = np.unique(self.loss.bag[members], return_inverse=True)
        T = sparse.csr_array(
            (
                np.concatenate([np.sqrt(weights[kept]), vectors[members]]),
                (
                    np.concatenate([np.arange(len(kept)), len(kept) + rows]),
                    np.concatenate([kept, members]),
                ),
            ),
            shape=(len(kept) + len(bags), len(self.signs)),
        )
        K = self.K
        if share[kept].max(initial=0.0) <= _SINGLE:
            if self._single is None:
                self._single = K.astype(np.float32)
            K = self._single
        narrow = T.astype(K.dtype)
        return T, _inverse_plus_one(narrow @ (narrow @ K.T).T)

    def _times(self, values: np.ndarray) -> np.ndarray:
        # Only one triangle of the matrix is read.
        return np.asarray(dsymv(1.0, self.K, values, lower=1))

    def _length(self, point: _Point, by: _Point, scaled: np.ndarray, stiffness: float) -> float:
        """The step at which the slope along a direction is nearly zero; 0.0 without descent."""
        image = by.margins - by.b * self.signs
        start, square = float(point.a @ image), float(by.a @ image)

        def slope(length: float) -> float:
            x = 1.0 - (point.margins + length * by.margins) + scaled / stiffness
            alpha = self.loss.multipliers(x, stiffness, self.loss.pieces(x, stiffness))
            return start + length * square - float(alpha @ by.margins)

        first = slope(0.0)
        if not first < 0:
            return 0.0
        low, high, length = (0.0, first), None, 1.0
        for trial in range(_MAX_TRIALS):
            at = slope(length)
            if abs(at) <= _FLAT * abs(first):
                return length
            if at < 0:
                low = (length, at)
            else:
                high = (length, at)
            if high is None:
                length *= 2.0
            elif trial % 3 == 2:
                length = 0.5 * (low[0] + high[0])
            else:
                length = (low[0] * high[1] - high[0] * low[1]) / (high[1] - low[1])
        return length

    def _measured(self, alpha: np.ndarray, b: float) -> Found:
        """The point given by the multipliers of the margins, and its residuals.

        These multipliers determine w and the multipliers of all other constraints.
        """
        loss, p, s, c = self.loss, self.loss.p, self.loss.s, self.loss.costs
        image = self._times(alpha)
        margins = image + b * self.signs
        slacks, eta = loss.slacks(margins)
        surplus = margins - 1.0 + slacks
        gradient = c.copy()
        gradient[:p] *= slacks[:p] + eta - 0.5 * s
        gradient -= alpha
        both = c[:p] * (slacks[:p] + eta - 0.5)
        nu = segment_min(both, loss.bags)
        dual = abs(float(self.signs @ alpha)) / np.sqrt(self.size)
        if not loss.exactly_one:
            dual, nu = max(dual, -float(nu.min())), np.maximum(0.0, nu)
        sums = segment_sum(eta, loss.bags) - 1.0
        products = [
            alpha * np.maximum(0.0, surplus),
            np.maximum(0.0, gradient) * slacks,
            np.maximum(0.0, -gradient[:p]) * (s - slacks[:p]),
            np.maximum(0.0, both - nu[loss.bag]) * eta,
            nu * sums,
        ]
        gap = float(np.abs(np.concatenate(products)).sum())
        short = sums if not loss.exactly_one else -np.abs(sums)
        primal = float(max(0.0, -surplus.min(), -short.min()))
        # The slacks of negative instances have no upper limit, whose multiplier would be negative.
        dual = max(dual, -float(gradient[p:].min(initial=0.0)))
        values = 0.5 * (slacks[:p] + eta) ** 2 - 0.5 * s * slacks[:p] - 0.5 * eta
        objective = float(0.5 * alpha @ image + c[:p] @ values + c[p:] @ slacks[p:])
        error = max(gap / (1.0 + abs(objective)), primal, dual)
        error = error if np.isfinite(error) else np.inf
        return Found(alpha, b, slacks, eta, gap, primal, dual, error, self.n_iter)


def _inverse_plus_one(matrix: np.ndarray) -> _Inverse:
    """The inverse of I plus a positive semidefinite matrix, which is overwritten."""
    if not len(matrix):
        return lambda right: right
    diagonal = np.einsum("ii->i", matrix)
    diagonal += 1.0
    try:
        factor = cho_factor(matrix, lower=True, check_finite=False)
    except LinAlgError:
        # Near convergence the ratio of weights may be 1e15.
        diagonal += 2.0 * np.finfo(matrix.dtype).eps ** 0.9 * diagonal.max()
        factor = cho_factor(matrix, lower=True, check_finite=False)

    def solve(right: np.ndarray) -> np.ndarray:
        right = right.astype(matrix.dtype, copy=False)
        return np.asarray(cho_solve(factor, right, check_finite=False), dtype=np.float64)

    return solve
