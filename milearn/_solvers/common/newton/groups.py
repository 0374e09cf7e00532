"""Problems of half a squared norm and a sum of group maxima, and their smoothing.

    min_{w,v}  1/2 |w|^2 + sum_g C_g max(0, max_{r in g} u_r),   u_r = c_r + z_r.w + e_r.v

Each row r belongs to one group; v are variables without a norm, such as the intercept or the width
of a tube. A hinge is a group of one row. The maximum is smoothed by h > 0 around proportions p,

    phi(u) = max_{a >= 0, sum a <= 1}  a.u - h/2 |a - p|^2,

whose maximiser a is the projection of p + u / h onto the simplex. The dual of the problem without
smoothing is, with alpha = C a,

    max_alpha  c.alpha - 1/2 |Z'alpha|^2,   alpha >= 0,  sum_{r in g} alpha_r <= C_g,  E'alpha = 0.

The last groups may cost the square of their maximum instead,

    C_g max(0, max_r u_r)^2 = max_{alpha >= 0}  alpha.u - (sum alpha)^2 / (4 C_g),

where the sum of a is not bounded; a quarter of its square is subtracted in phi and in the dual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.segments import segment_argmax
from ..cccp import rounding_scale
from .direction import GroupPart
from .engine import FIRST_SMOOTHING, WARM_SMOOTHING, NewtonSolution, scores, solve, weighted_sum

Matrix = Any  # an ndarray or a CSR matrix

# Given proportions are used as a start up to this relative gap.
_WARM_GAP = 10.0
# Up to a gap of ``_FINE`` at most so many more rounds follow to a gap of ``_DIGITS``, so that rows
# tie at the solution where they tie at the optimum. These are a few steps, because the rows with
# curvature are known by then.
_FINE, _DIGITS, _MORE_ROUNDS = 1e-4, 1e-15, 12
# The first h is this share of the median of C |z|^2, up to a limit in units of the margin.
_SHARE, _MOST = 0.01, 50.0


@dataclass(frozen=True)
class _Smoothed:
    """The maximisers a of phi, and the groups whose sum is at its upper bound."""

    values: np.ndarray
    h: float
    centre: np.ndarray
    proportions: np.ndarray
    full: np.ndarray


@dataclass
class GroupProblem:
    """The rows and groups of a problem; the rows of a group are consecutive.

    The dual point of a certificate is scaled to fulfil the equations E'alpha = 0 one after another,
    so each step must preserve the equations of previous columns of ``e``.
    """

    Z: Matrix
    # Of shape (n_rows,) or (n_rows, n_free).
    e: np.ndarray
    offsets: np.ndarray
    # The C_g, above zero.
    costs: np.ndarray
    c: float | np.ndarray = 1.0
    # The last ``n_squared`` groups cost the square of their maximum.
    n_squared: int = 0
    # Z Z', if it is known.
    products: np.ndarray | None = None

    def __post_init__(self) -> None:
        # The coefficients ``e`` with two dimensions, and the sum of all costs.
        self.free, self.cost = self.e.reshape(len(self.e), -1), float(self.costs.sum())
        # The number of groups without a square.
        self.n_plain = len(self.costs) - self.n_squared
        # The group of each row, and its cost.
        self.owner = np.repeat(np.arange(len(self.costs)), np.diff(self.offsets))
        self.row_costs = np.asarray(self.costs[self.owner])

    def values(self, w: np.ndarray, v: float | np.ndarray) -> np.ndarray:
        """u of every row."""
        return np.asarray(self.c + scores(self.Z, w) + self.free @ np.atleast_1d(v))

    def change(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Change of u along a direction."""
        return np.asarray(scores(self.Z, w) + self.free @ v)

    def losses(self, u: np.ndarray) -> float:
        """The sum of the losses without smoothing."""
        losses = np.maximum(np.maximum.reduceat(u, self.offsets[:-1]), 0.0)
        if self.n_squared:
            losses[self.n_plain :] **= 2
        return float(self.costs @ losses)

    # -- smoothing -------------------------------------------------------------------------------

    def smoothed(self, u: np.ndarray, h: float, centre: np.ndarray) -> _Smoothed:
        """The maximisers around proportions."""
        moved, first = u + h * centre, self.offsets[self.n_plain]
        a, full = np.zeros(len(u)), np.zeros(len(self.costs), dtype=bool)
        # Negative rows get zero, because thresholds are not negative.
        rows = np.flatnonzero(moved[:first] > 0)
        if len(rows):
            group = self.owner[rows]
            starts, sizes = runs(group)
            a[rows], at_bound = project(moved[rows], starts, sizes, h)
            full[group[starts]] = at_bound
        if self.n_squared:
            a[first:] = _squared_maximiser(moved[first:], self.offsets[self.n_plain :] - first, h)
        return _Smoothed(u, h, centre, a, full)

    def smoothed_losses(self, at: _Smoothed) -> tuple[float, float]:
        """The smoothed losses, and their difference to the losses at the maximisers."""
        a, u = at.proportions, at.values
        value = float(self.row_costs @ (a * u - 0.5 * at.h * (a - at.centre) ** 2))
        if self.n_squared:
            value -= 0.25 * float(self.costs[self.n_plain :] @ self._squared_sums(a) ** 2)
        return value, self.losses(u) - value

    def coefficients(self, proportions: np.ndarray) -> np.ndarray:
        """Slope of the smoothed losses in each row."""
        return np.asarray(self.row_costs * proportions)

    def curvature(self, at: _Smoothed) -> list[GroupPart]:
        """Second derivative of the smoothed losses, as for projections onto the simplex.

        It is the identity on the rows with a > 0, minus their mean if a sums to one. For the square
        of k rows, the fraction g of the mean satisfies (1 - g)^2 = 2 h / (k + 2 h).
        """
        a, full, h = at.proportions, at.full, at.h
        rows = np.flatnonzero(a > 0)
        group = self.owner[rows]
        counts = np.bincount(group, minlength=len(full))
        # A single active row of a full group stays at its bound.
        rows = rows[~(full & (counts == 1))[group]]
        if len(rows) == 0:
            return []
        starts, sizes = runs(self.owner[rows])
        group = self.owner[rows][starts]
        of_square = 1.0 - np.sqrt(2.0 * h / (counts[group] + 2.0 * h))
        share = np.where(group >= self.n_plain, of_square, full[group]) / sizes
        return [GroupPart(rows, self.row_costs[rows] / h, starts, share)]

    # -- the dual --------------------------------------------------------------------------------

    def dual_value(self, proportions: np.ndarray) -> float:
        """The dual objective at alpha = C a, scaled to E'alpha = 0."""
        alpha = self.balanced(self.coefficients(proportions))
        normal = weighted_sum(self.Z, alpha)
        value = float(np.sum(self.c * alpha)) - 0.5 * float(normal @ normal)
        if self.n_squared:
            value -= 0.25 * float(
                (1.0 / self.costs[self.n_plain :]) @ self._squared_sums(alpha) ** 2
            )
        return value

    def balanced(self, alpha: np.ndarray) -> np.ndarray:
        """Scale down the heavier side of alpha such that E'alpha = 0; this preserves the bounds."""
        alpha = alpha.copy()
        for e in self.free.T:
            parts = e * alpha
            up, down = float(parts[parts > 0].sum()), float(-parts[parts < 0].sum())
            heavy = parts > 0 if up > down else parts < 0
            alpha[heavy] *= min(up, down) / max(up, down, 1e-300)
        return alpha

    # -- solution --------------------------------------------------------------------------------

    def first(self, known: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Proportions from those of known rows; a new active group has one for its highest row."""
        found = known.copy()
        sums = np.add.reduceat(found, self.offsets[:-1])
        top = segment_argmax(values, self.offsets)
        missing = (sums == 0) & (values[top] > 0)
        full = np.ones(len(sums))
        # Rows that entered a group must not increase its sum above the bound.
        plain = slice(0, self.n_plain)
        full[plain] = np.maximum(sums[plain], 1.0)
        found /= np.repeat(full, np.diff(self.offsets))
        found[top[missing]] = 1.0
        squared = np.flatnonzero(missing[self.n_plain :]) + self.n_plain
        found[top[squared]] = 2.0 * values[top[squared]]
        return found

    def solve(
        self,
        start: tuple[np.ndarray, Any],
        gap_tol: float,
        proportions: np.ndarray | None = None,
    ) -> NewtonSolution:
        """Solve to a relative duality gap of ``gap_tol``.

        Parameters
        ----------
        start : tuple of w and v
        gap_tol : float
        proportions : ndarray of shape (n_rows,), default=None
            Proportions of a similar problem that satisfy the bounds; only used if their gap is
            small.

        Returns
        -------
        NewtonSolution
            ``v`` is a float if ``e`` has one dimension. The gap exceeds ``gap_tol`` only if it was
            not reached at the smallest h or within the maximum number of steps.
        """
        w, free = start[0], np.atleast_1d(np.asarray(start[1], dtype=np.float64))
        centre, smoothing = np.zeros(len(self.owner)), self._first_smoothing()
        if proportions is not None:
            value = 0.5 * float(w @ w) + self.losses(self.values(w, free))
            if value - self.dual_value(proportions) <= _WARM_GAP * abs(value):
                # A rough solution is found in fewer steps at a large h.
                smoothing *= WARM_SMOOTHING / FIRST_SMOOTHING if gap_tol <= _FINE else 1.0
                centre = proportions
        scale = rounding_scale(self.costs)
        more = _MORE_ROUNDS if gap_tol <= _FINE else 0
        precision = 0.1 * (_DIGITS if more else gap_tol)

        def ended(best: NewtonSolution) -> bool:
            nonlocal more
            size = max(abs(best.objective), scale)
            if best.gap > gap_tol * size:
                return False
            more -= 1
            return more < 0 or best.gap <= _DIGITS * size

        found = solve(self, w, free, centre, ended, smoothing=smoothing, precision=precision)
        v = float(found.v[0]) if self.e.ndim == 1 else found.v
        # Exact solutions have bounds above their objective by rounding.
        return replace(found, v=v, lower_bound=min(found.lower_bound, found.objective))

    def _first_smoothing(self) -> float:
        """First h: the usual one or, for rows of large norm, a share of the median of C |z|^2.

        If C |z|^2 is large, the multipliers are small fractions of their costs where groups can be
        separated, and with a small h only rows within a tiny distance of the margin have curvature:
        Newton's method would then find them a few at a time.
        """
        if sparse.issparse(self.Z):
            squares = self.Z.power(2).sum(axis=1)
        else:
            squares = np.einsum("ij,ij->i", self.Z, self.Z, dtype=np.float64)
        level = _SHARE * float(np.median(self.row_costs * squares))
        return min(max(FIRST_SMOOTHING, level), max(FIRST_SMOOTHING, _MOST))

    def _squared_sums(self, a: np.ndarray) -> np.ndarray:
        """Sums of a over the squared groups."""
        first = self.offsets[self.n_plain]
        sums = np.add.reduceat(a[first:], self.offsets[self.n_plain : -1] - first)
        return np.asarray(sums)


def _squared_maximiser(u: np.ndarray, offsets: np.ndarray, h: float) -> np.ndarray:
    """Maximiser of a.u - h/2 |a|^2 - (sum a)^2 / 4 over a >= 0, for every group.

    a = max(0, u - s / 2) / h with the sum s of a. If the k highest rows are positive,
    s = sum u / (h + k / 2) over these rows.
    """
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-u, owner))
    ordered = u[order]
    rank = np.arange(len(u)) - np.repeat(offsets[:-1], sizes) + 1
    total = np.cumsum(ordered)
    before = np.repeat(total[offsets[:-1]] - ordered[offsets[:-1]], sizes)
    threshold = 0.5 * (total - before) / (h + 0.5 * rank)
    # The last row above its threshold determines that of its group. Thresholds are not negative.
    counts = np.add.reduceat(ordered > threshold, offsets[:-1], dtype=np.intp)
    chosen = np.maximum(threshold[offsets[:-1] + np.maximum(counts, 1) - 1], 0.0)
    return np.asarray(np.maximum(0.0, u - chosen[owner]) / h)


def runs(group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of runs of equal numbers, for at least one number."""
    first = np.empty(len(group), dtype=bool)
    first[0] = True
    np.not_equal(group[1:], group[:-1], out=first[1:])
    starts = first.nonzero()[0]
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = len(group) - starts[-1]
    return starts, lengths


def project(
    u: np.ndarray, starts: np.ndarray, lengths: np.ndarray, h: float, *, bounded: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Project u / h onto a >= 0 with group sums of at most one, for positive values u.

    Parameters
    ----------
    u : ndarray of shape (n_values,), above zero
    starts, lengths : ndarray of int of shape (n_groups,)
        Of the groups, see :func:`runs`.
    h : float
    bounded : bool
        Whether sums may be below one; otherwise each sum is exactly one.

    Returns
    -------
    a : ndarray of shape (n_values,)
    full : ndarray of bool of shape (n_groups,)
        Whether the sum is one.
    """
    a = u / h
    full = np.add.reduceat(a, starts) >= 1.0 if bounded else np.ones(len(starts), dtype=bool)
    a[starts[full & (lengths == 1)]] = 1.0
    several = full & (lengths > 1)
    rows = np.flatnonzero(np.repeat(several, lengths))
    if len(rows) == 0:
        return a, full
    # Values relative to the highest of their group, because those far from zero would lose the
    # digits of small differences. What is not less than h below has a proportion of zero.
    a[rows], sizes = 0.0, lengths[several]
    below = np.repeat(np.maximum.reduceat(u, starts)[several], sizes) - u[rows]
    near = below < h
    rows, below = rows[near], below[near]
    sizes = np.add.reduceat(near, np.cumsum(sizes) - sizes, dtype=np.intp)
    firsts = np.cumsum(sizes) - sizes
    order = np.lexsort((below, np.repeat(np.arange(len(sizes)), sizes)))
    rows, below = rows[order], below[order]
    rank = np.arange(len(rows)) - np.repeat(firsts, sizes) + 1
    total = np.cumsum(below)
    threshold = (h + total - np.repeat(total[firsts], sizes)) / rank
    # The last row within its threshold determines the threshold of its group.
    counts = np.add.reduceat(below < threshold, firsts, dtype=np.intp)
    chosen = threshold[firsts + np.maximum(counts, 1) - 1]
    values = np.maximum(0.0, np.repeat(chosen, sizes) - below)
    a[rows] = values / np.repeat(np.add.reduceat(values, firsts), sizes)
    return a, full
