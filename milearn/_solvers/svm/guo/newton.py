"""Newton's method within the method of multipliers, for the relaxation of instance selection.

The relaxation is min 1/2 |w|^2 + loss(Z (w, b)) with the loss of :mod:`.loss` and the signed
rows Z of the instances. The method of multipliers (Rockafellar 1976) minimises the problem with the
envelope of the loss at the last multipliers, and then updates the multipliers. It converges
superlinearly if the stiffness t is increased. The envelope is piecewise quadratic and
differentiable, so each of these problems takes a few Newton steps with an exact line search (Li,
Sun & Toh 2018 for the lasso). A Newton system has one row for each instance that is on the margin
or above the level of its bag, and one for each bag, because only those multipliers change with the
margins.

When the stiffness is increased, many instances leave their piece and later return to it. The first
step after an increase is therefore taken on the last pieces, without a line search.

The engine of :mod:`milearn._solvers.common.newton` uses the same method with explicit features. For
1,375 instances with a kernel it would need products with a dense factor of 1,375 columns, while the
systems of this module only contain the kernel values of the active rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from ...._bags.segments import segment_min, segment_sum
from .loss import Pieces, RelaxationLoss
from .problem import RelaxationProblem
from .systems import NewtonSystem

__all__ = ["Found", "MultiplierMethod"]

# In units of the inverse of the largest square of an instance.
_STIFFNESS, _MAX_STIFFNESS = 10.0, 1e8
_GROWTH = 10.0
_MAX_PHASES = 20
_MAX_STEPS = 60
# Up to this stiffness the systems are solved to this relative residual.
_SOFT, _SYSTEM_TOL = 300.0, 1e-3
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


@dataclass
class Found:
    """A primal and dual point with its residuals, in units of the largest cost."""

    w: np.ndarray
    b: float
    slacks: np.ndarray
    eta: np.ndarray
    gap: float
    primal_residual: float
    dual_residual: float
    error: float


@dataclass
class _Point:
    """The vector (w, b) and the margins."""

    v: np.ndarray
    margins: np.ndarray


class MultiplierMethod:
    """The method of multipliers with Newton's method for w and b, in units of the largest cost."""

    def __init__(self, problem: RelaxationProblem, unit: float) -> None:
        self.problem = problem
        self.loss = RelaxationLoss(problem, unit)
        self.geometry = problem.geometry(unit)
        self.n_iter = 0
        self._size = self.geometry.scale**2
        self._system: tuple[float, Pieces, NewtonSystem] | None = None

    def run(self, tol: float) -> Found | None:
        """The first point with an error below ``tol``, otherwise the best one, or None."""
        n = len(self.problem.signs)
        scaled, stiffness = np.zeros(n), _STIFFNESS / self._size
        point = _Point(np.zeros(self.geometry.width + 1), np.zeros(n))
        pieces: Pieces | None = None
        best: Found | None = None
        waited = 0
        for _ in range(_MAX_PHASES):
            try:
                if pieces is not None:
                    point = self._predicted(point, scaled, stiffness, pieces)
                point, pieces, alpha, n_steps = self._minimized(point, scaled, stiffness)
            except LinAlgError:
                return best
            if not np.isfinite(alpha).all():
                return best
            change = np.abs(alpha / self.loss.costs - scaled).max() / stiffness
            scaled = alpha / self.loss.costs
            if change <= _MEASURED:
                found = self._measured(alpha, float(point.v[-1]))
                waited = 0 if best is None or found.error < 0.5 * best.error else waited + 1
                best = found if best is None or found.error < best.error else best
                if best.error <= tol or waited >= _PATIENCE or change <= _ROUNDING:
                    return best
            # Increase faster if the last subproblem took at most one step.
            stiffness = min(
                stiffness * _GROWTH ** (1 + (n_steps <= 1)), _MAX_STIFFNESS / self._size
            )
        return best

    def _predicted(
        self, point: _Point, scaled: np.ndarray, stiffness: float, pieces: Pieces
    ) -> _Point:
        x = 1.0 - point.margins + scaled / stiffness
        alpha = self.loss.multipliers(x, stiffness, pieces)
        right = self._right(point, alpha)
        return self._moved(point, self._direction(right, None, stiffness, pieces), 1.0)

    def _minimized(
        self, point: _Point, scaled: np.ndarray, stiffness: float
    ) -> tuple[_Point, Pieces, np.ndarray, int]:
        """The minimum of the envelope, its pieces and multipliers, and the number of steps."""
        geometry, last, size = self.geometry, None, np.inf
        n_steps = 0
        while True:
            x = 1.0 - point.margins + scaled / stiffness
            pieces = self.loss.pieces(x, stiffness)
            alpha = self.loss.multipliers(x, stiffness, pieces)
            right = self._right(point, alpha)
            image = geometry.rows_times(np.append(right[:-1], 0.0))
            square = geometry.inner(right[:-1], right[:-1], image)
            before, size = size, max(float(np.sqrt(max(0.0, square))), abs(float(right[-1])))
            change = np.abs(alpha / self.loss.costs - scaled).max() / stiffness
            same = last is not None and pieces.equal(last)
            # If the pieces have not changed, an exact step has reached the minimum up to rounding.
            rounded = same and size >= 0.1 * before and self._system_tol(stiffness) == 0
            if size <= min(_LOOSE, _PART * change) or rounded or n_steps == _MAX_STEPS:
                break
            last = pieces
            by = self._direction(right, image, stiffness, pieces)
            length = self._length(point, by, scaled, stiffness)
            if length == 0.0:
                break
            point = self._moved(point, by, length)
            n_steps += 1
        return point, pieces, alpha, n_steps

    def _right(self, point: _Point, alpha: np.ndarray) -> np.ndarray:
        """The negative gradient in (w, b)."""
        right = self.geometry.times_rows(alpha)
        right[:-1] -= point.v[:-1]
        return right

    def _direction(
        self, right: np.ndarray, image: np.ndarray | None, stiffness: float, pieces: Pieces
    ) -> _Point:
        self.n_iter += 1
        kept = self._system
        if kept is None or kept[0] != stiffness or not kept[1].equal(pieces):
            weights, vectors = self.loss.curvature(stiffness, pieces)
            tol = self._system_tol(stiffness)
            system = self.geometry.system(weights, vectors, self.loss.bags, tol)
            self._system = kept = stiffness, pieces, system
        step = kept[2](right, image)
        return _Point(step, self.geometry.rows_times(step))

    def _system_tol(self, stiffness: float) -> float:
        return _SYSTEM_TOL if stiffness * self._size <= _SOFT else 0.0

    @staticmethod
    def _moved(point: _Point, by: _Point, length: float) -> _Point:
        return _Point(point.v + length * by.v, point.margins + length * by.margins)

    def _length(self, point: _Point, by: _Point, scaled: np.ndarray, stiffness: float) -> float:
        """The step at which the slope along a direction is nearly zero; 0.0 without descent."""
        signs, w, dw = self.problem.signs, point.v[:-1], by.v[:-1]
        image = by.margins - by.v[-1] * signs
        start = self.geometry.inner(w, dw, image)
        square = self.geometry.inner(dw, dw, image)

        def slope(length: float) -> float:
            x = 1.0 - (point.margins + length * by.margins) + scaled / stiffness
            alpha = self.loss.multipliers(x, stiffness, self.loss.pieces(x, stiffness))
            return float(start + length * square - alpha @ by.margins)

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
        loss, geometry, problem = self.loss, self.geometry, self.problem
        p, s, c = loss.p, loss.s, loss.costs
        v = geometry.times_rows(alpha)
        balance, v[-1] = float(v[-1]), b
        margins = geometry.rows_times(v)
        slacks, eta = loss.slacks(margins)
        surplus = margins - 1.0 + slacks
        gradient = c.copy()
        gradient[:p] *= slacks[:p] + eta - 0.5 * s
        gradient -= alpha
        both = c[:p] * (slacks[:p] + eta - 0.5)
        nu = segment_min(both, loss.bags)
        dual = 0.0
        if not loss.exactly_one:
            dual, nu = max(0.0, -float(nu.min())), np.maximum(0.0, nu)
        sums = segment_sum(eta, loss.bags) - 1.0
        products = np.concatenate(
            [
                alpha * np.maximum(0.0, surplus),
                np.maximum(0.0, gradient) * slacks,
                np.maximum(0.0, -gradient[:p]) * (s - slacks[:p]),
                np.maximum(0.0, both - nu[loss.bag]) * eta,
                nu * sums,
            ]
        )
        short = sums if not loss.exactly_one else -np.abs(sums)
        primal = float(max(0.0, -surplus.min(), -short.min()))
        # The slacks of negative instances have no upper limit, whose multiplier would be negative.
        beyond = -float(gradient[p:].min()) if len(c) > p else 0.0
        residual = np.zeros(len(v))
        residual[-1] = balance
        dual = max(dual, beyond, geometry.residual(residual))
        gap = float(np.abs(products).sum())
        image = margins - b * problem.signs
        values = 0.5 * (slacks[:p] + eta) ** 2 - 0.5 * s * slacks[:p] - 0.5 * eta
        objective = float(
            0.5 * geometry.inner(v[:-1], v[:-1], image) + c[:p] @ values + c[p:] @ slacks[p:]
        )
        error = max(gap / (1.0 + abs(objective)), primal, dual)
        return Found(v[:-1], b, slacks, eta, gap, primal, dual, error if error == error else np.inf)
