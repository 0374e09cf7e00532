"""Cox's partial likelihood of group maxima with a linear term, and its smoothing.

    min_w  1/2 |w|^2 + C [ G(f) - m.w ],    f_g = max_{r in g} z_r.w

with G of :mod:`.likelihood`, which is convex and does not decrease. m.w, at most the weighted sum
of the f_g of events, stands for their scores. The maxima are smoothed by h > 0
around proportions q,

    f_g(u) = max_{p >= 0, sum p = 1}  p.u - h/2 |p - q|^2,

which lowers them by at most h. For any scores x, the slopes s of G in x, and proportions p,

    -1/2 |C (m - sum_g s_g sum_{r in g} p_r z_r)|^2 - C G*(s)

is a value of the dual, hence a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import stacked
from ..._bags.segments import segment_argmax
from ..common.cccp import rounding_scale
from ..common.newton import GroupPart, NewtonSolution, Part, project, runs, solve
from .likelihood import PartialLikelihood

Matrix = Any  # an ndarray or a CSR matrix

# A Newton round ends when its residuals cost less than a tenth of the gap, or for fine gaps this
# fraction of the value: between kinks the problem is smooth, and one more step has all digits.
_FINE, _RESIDUALS = 1e-5, 1e-14
# First h, alone and around proportions of a similar problem.
_SMOOTHING, _WARM_SMOOTHING = 0.5, 0.05


@dataclass(frozen=True)
class _Dual:
    """A point of the dual: proportions of the rows, and the scores at which slopes are taken."""

    proportions: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True)
class _Smoothed:
    """The maximisers p, and the smoothed maxima as the scores of a dual point."""

    values: np.ndarray
    h: float
    proportions: _Dual


class RiskProblem:
    """A :class:`..common.newton.engine.Problem`; all its values are above ``cost`` times L.lowest.

    Parameters
    ----------
    rows : matrix of shape (n_rows, n_features), consecutive for each group
    offsets : ndarray of shape (n_groups + 1,)
    linear : ndarray of shape (n_features,), the m
    likelihood : PartialLikelihood of the groups
    C : float
    """

    def __init__(
        self,
        rows: Matrix,
        offsets: np.ndarray,
        linear: np.ndarray,
        likelihood: PartialLikelihood,
        C: float,
    ) -> None:
        self.offsets, self.linear, self.likelihood, self.C = offsets, linear, likelihood, C
        # C times the weight of all events.
        self.cost = C * likelihood.n_events
        # The rows in float64, and m over the weight of all events, which is of their size.
        mean = linear / likelihood.n_events
        if sparse.issparse(rows):
            below = sparse.csr_array(mean[None])
            self.Z: Matrix = stacked([rows.astype(np.float64, copy=False), below])
        else:
            self.Z = np.empty((rows.shape[0] + 1, rows.shape[1]))
            self.Z[:-1], self.Z[-1] = rows, mean
        # The group of each row but the last. There are no variables without a norm.
        self.owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        self.free = np.zeros((self.Z.shape[0], 0))

    def values(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Scores of all rows."""
        return np.asarray(self.Z @ w)

    change = values

    def losses(self, values: np.ndarray, scores: np.ndarray | None = None) -> float:
        """The losses at scores of the groups, by default their maxima."""
        if scores is None:
            scores = np.maximum.reduceat(values[:-1], self.offsets[:-1])
        given = self.likelihood
        return self.C * (given.log_sums(scores) - given.lowest) - self.cost * float(values[-1])

    # -- smoothing -------------------------------------------------------------------------------

    def smoothed(self, values: np.ndarray, h: float, centre: _Dual) -> _Smoothed:
        """The maximisers around the proportions of a dual point."""
        u, q = values[:-1], centre.proportions
        p, _ = project(u + h * q, *runs(self.owner), h, bounded=False)
        moved = np.add.reduceat(p * u - 0.5 * h * (p - q) ** 2, self.offsets[:-1])
        return _Smoothed(values, h, _Dual(p, moved))

    def smoothed_losses(self, at: _Smoothed) -> tuple[float, float]:
        """The smoothed losses, and their difference to the losses at the maximisers."""
        value = self.losses(at.values, at.proportions.scores)
        return value, self.losses(at.values) - value

    def coefficients(self, proportions: _Dual) -> np.ndarray:
        """Slope of the smoothed losses in each row."""
        slopes = self.likelihood.slopes(proportions.scores)
        found = self.C * slopes[self.owner] * proportions.proportions
        return np.append(found, -self.cost)

    def curvature(self, at: _Smoothed) -> list[Part | GroupPart]:
        """Second derivative: that of G in mixtures of rows, and that of the smoothed maxima."""
        p, given = at.proportions.proportions, self.likelihood
        rows, n = np.flatnonzero(p > 0), len(self.offsets) - 1
        group = self.owner[rows]
        bounds = np.searchsorted(group, np.arange(n + 1))
        mixtures = sparse.csr_array((p[rows], rows, bounds), shape=(n, self.Z.shape[0]))
        parts: list[Part | GroupPart] = [
            Part(mixtures, given.curvature(at.proportions.scores, self.C))
        ]
        # A single active row stays the maximum. Without a slope, the maximum does not count.
        slopes = self.C * given.slopes(at.proportions.scores)
        counts = np.diff(bounds)
        kept = ((counts > 1) & (slopes > 0))[group]
        if kept.any():
            rows, group = rows[kept], group[kept]
            starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
            share = 1.0 / counts[group[starts]]
            parts.append(GroupPart(rows, slopes[group] / at.h, starts, share))
        return parts

    # -- the dual --------------------------------------------------------------------------------

    def dual_value(self, proportions: _Dual) -> float:
        """The dual objective."""
        normal = np.asarray(self.Z.T @ self.coefficients(proportions))
        scores, given = proportions.scores, self.likelihood
        conjugate = float(given.slopes(scores) @ scores) - given.log_sums(scores)
        return -0.5 * float(normal @ normal) - self.C * (conjugate + given.lowest)

    # -- solution --------------------------------------------------------------------------------

    def first(self, known: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Proportions from those of known rows; a new group takes its highest row."""
        found = known.copy()
        sums = np.add.reduceat(found, self.offsets[:-1])
        new = sums <= 0
        found[segment_argmax(values[:-1], self.offsets)[new]] = 1.0
        found /= np.repeat(np.where(new, 1.0, sums), np.diff(self.offsets))
        return found

    def solve(
        self,
        start: tuple[np.ndarray, np.ndarray],
        gap_tol: float,
        proportions: np.ndarray | None = None,
    ) -> NewtonSolution:
        """Solve to a relative duality gap of ``gap_tol``.

        Parameters
        ----------
        start : tuple of w and an empty array
        gap_tol : float
        proportions : ndarray of shape (n_rows,), default=None
            Of a similar problem, see :meth:`first`.
        """
        u = self.values(*start)
        known = self.first(np.zeros(len(self.owner)), u) if proportions is None else proportions
        scale = rounding_scale(np.array([self.cost]))
        found = solve(
            self,
            *start,
            _Dual(known, np.maximum.reduceat(u[:-1], self.offsets[:-1])),
            lambda best: best.objective - best.lower_bound <= gap_tol * max(best.objective, scale),
            smoothing=_SMOOTHING if proportions is None else _WARM_SMOOTHING,
            precision=0.1 * gap_tol if gap_tol > _FINE else _RESIDUALS,
        )
        return replace(found, proportions=found.proportions.proportions)
