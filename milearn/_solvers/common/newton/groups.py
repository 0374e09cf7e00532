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
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.segments import segment_argmax
from ...._bags.threads import one_blas_thread
from ..cccp import rounding_scale
from .direction import Limits, Part, Rows
from .engine import (
    FIRST_SMOOTHING,
    WARM_SMOOTHING,
    NewtonSolution,
    scores,
    search,
    solve,
    weighted_sum,
)
from .simplex import project, runs

Matrix = Any  # an ndarray or a CSR matrix

# Given proportions are used as a start up to this relative gap.
_WARM_GAP = 10.0
# Line searches along a free variable end at this slope, as a fraction of all costs.
_SHIFTED = 1e-3


@dataclass(frozen=True)
class _Smoothed:
    """The maximisers a of phi, and the groups whose sum is at its upper bound."""

    values: np.ndarray
    h: float
    centre: np.ndarray
    proportions: np.ndarray
    full: np.ndarray


@dataclass(frozen=True)
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

    @property
    def singles(self) -> bool:
        """Whether every group has one row and none is squared."""
        return len(self.e) == len(self.costs) and self.n_squared == 0

    @property
    def free(self) -> np.ndarray:
        """The coefficients ``e`` with two dimensions."""
        return self.e.reshape(len(self.e), -1)

    @property
    def n_plain(self) -> int:
        """Number of groups without a square."""
        return len(self.costs) - self.n_squared

    @cached_property
    def owner(self) -> np.ndarray:
        """The group of each row."""
        return np.repeat(np.arange(len(self.costs)), np.diff(self.offsets))

    @cached_property
    def row_costs(self) -> np.ndarray:
        """The cost of each row's group."""
        return np.asarray(self.costs[self.owner])

    def values(self, w: np.ndarray, v: float | np.ndarray) -> np.ndarray:
        """u of every row."""
        return np.asarray(self.c + scores(self.Z, w) + self.free @ np.atleast_1d(v))

    @cached_property
    def cost(self) -> float:
        """The sum of all costs."""
        return float(self.costs.sum())

    def change(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Change of u along a direction."""
        return np.asarray(scores(self.Z, w) + self.free @ v)

    def moved(self, values: np.ndarray, t: float, change: np.ndarray) -> np.ndarray:
        """u after t times a change."""
        return np.asarray(values + t * change)

    def objective(self, w: np.ndarray, u: np.ndarray) -> float:
        """The objective without smoothing."""
        return 0.5 * float(w @ w) + self.losses(u)

    def losses(self, u: np.ndarray) -> float:
        """The sum of the losses without smoothing."""
        top = u if len(u) == len(self.costs) else np.maximum.reduceat(u, self.offsets[:-1])
        losses = np.maximum(top, 0.0)
        if self.n_squared:
            losses[self.n_plain :] **= 2
        return float(self.costs @ losses)

    # -- smoothing -------------------------------------------------------------------------------

    def smoothed(self, u: np.ndarray, h: float, centre: np.ndarray) -> _Smoothed:
        """The maximisers around proportions."""
        a, full = self.maximiser(u, (h, centre))
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

    def slope(self, at: _Smoothed, change: np.ndarray) -> float:
        """Slope of the smoothed losses along a change."""
        return float((self.row_costs * at.proportions) @ change)

    def curvature(self, at: _Smoothed) -> list[Part]:
        """Second derivative of the smoothed losses, as for projections onto the simplex.

        It is the identity on the rows with a > 0, minus their mean if a sums to one. For the square
        of k rows, the fraction g of the mean satisfies (1 - g)^2 = 2 h / (k + 2 h).
        """
        a, full, h = at.proportions, at.full, at.h
        nothing = np.zeros(0, dtype=np.intp)
        if self.singles:
            rows = np.flatnonzero((a > 0) & ~full)
            return [Rows(rows, self.row_costs[rows] / h, nothing, np.zeros(0))]
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
        return [Rows(rows, self.row_costs[rows] / h, starts, share)]

    # -- the dual --------------------------------------------------------------------------------

    def dual_value(self, proportions: np.ndarray) -> float:
        """The dual objective at alpha = C a, scaled to E'alpha = 0."""
        alpha = self.balanced(self.row_costs * proportions)
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

    def maximiser(
        self, u: np.ndarray, smoothing: tuple[float, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The a of phi of every group, and whether its sum is at its bound."""
        h, p = smoothing
        u = u + h * p
        if len(u) == len(self.costs) and not self.n_squared:
            a = u / h
            return np.clip(a, 0.0, 1.0), a >= 1.0
        a, full = np.zeros(len(u)), np.zeros(len(self.costs), dtype=bool)
        first = self.offsets[self.n_plain]
        # Negative rows get zero, because thresholds are not negative.
        rows = np.flatnonzero(u[:first] > 0)
        if len(rows):
            group = self.owner[rows]
            a[rows], starts, at_bound = project(u[rows], group, h)
            full[group[starts]] = at_bound
        if self.n_squared:
            offsets = self.offsets[self.n_plain :] - first
            a[first:] = _squared_maximiser(u[first:], offsets, h)
        return a, full

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
        start: tuple[np.ndarray, np.ndarray],
        gap_tol: float,
        proportions: np.ndarray | None = None,
    ) -> NewtonSolution:
        """See :func:`solve_groups`."""
        return solve_groups(self, *start, gap_tol=gap_tol, proportions=proportions)

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


def first_smoothing(
    problem: GroupProblem, *, share: float = 0.01, most: float = 50.0, at_once: int = 2**20
) -> float:
    """First h: the usual one or, for rows of large norm, a share of the median of C |z|^2.

    If C |z|^2 is large, the multipliers are small fractions of their costs where groups can be
    separated, and with a small h only rows within a tiny distance of the margin have curvature:
    Newton's method would then find them a few at a time.

    Parameters
    ----------
    problem : GroupProblem
    share : float
    most : float
        Largest h, in units of the margin.
    at_once : int
        Numbers of the rows that are squared at once.
    """
    squares = _squared_norms(problem.Z, at_once)
    level = share * float(np.median(problem.row_costs * squares))
    return min(max(FIRST_SMOOTHING, level), max(FIRST_SMOOTHING, most))


def _squared_norms(Z: Matrix, at_once: int) -> np.ndarray:
    """Sum of the squares of each row."""
    n, d = Z.shape
    squares, step = np.empty(n), max(1, at_once // max(1, d))
    for first in range(0, n, step):
        rows = Z[first : first + step]
        if sparse.issparse(rows):
            squares[first : first + step] = rows.power(2).sum(axis=1)
        else:
            squares[first : first + step] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return squares


@one_blas_thread()
def solve_groups(
    problem: GroupProblem,
    w: np.ndarray,
    v: float | np.ndarray,
    *,
    gap_tol: float,
    smoothing: float | None = None,
    proportions: np.ndarray | None = None,
    limits: Limits | None = None,
    fine: float = 1e-4,
    digits: float = 1e-15,
    more_rounds: int = 12,
) -> NewtonSolution:
    """Solve to a relative duality gap of ``gap_tol``.

    Parameters
    ----------
    problem : GroupProblem
    w, v : where to start
    gap_tol : float
    smoothing : float, default=None
        First h; by default, :func:`first_smoothing`.
    proportions : ndarray of shape (n_rows,), default=None
        Proportions of a similar problem that satisfy the bounds; only used if their gap is small.
    limits : Limits, default=None
    fine, digits, more_rounds : float, float, int
        Up to a ``gap_tol`` of ``fine`` some more rounds follow to a gap of ``digits``, so that rows
        tie at the solution where they tie at the optimum. These are a few steps, because the rows
        with curvature are known by then.

    Returns
    -------
    NewtonSolution
        ``v`` is a float if ``problem.e`` has one dimension. The gap exceeds ``gap_tol`` only if
        it was not reached at the smallest h or within the maximum number of steps.
    """
    free = np.atleast_1d(np.asarray(v, dtype=np.float64))
    u = problem.values(w, free)
    centre, most = None, first_smoothing(problem)
    smoothing = most if smoothing is None else smoothing
    if proportions is not None:
        value = problem.objective(w, u)
        if value - problem.dual_value(proportions) <= _WARM_GAP * abs(value):
            warm = most * WARM_SMOOTHING / FIRST_SMOOTHING
            smoothing, centre = min(smoothing, warm), proportions
    if centre is None:
        centre = np.zeros(len(u))
        free = _shifted(problem, (free, u), (smoothing, centre))
    scale = rounding_scale(problem.costs)
    more = more_rounds if gap_tol <= fine else 0

    def ended(best: NewtonSolution) -> bool:
        nonlocal more
        size = max(abs(best.objective), scale)
        if best.gap > gap_tol * size:
            return False
        more -= 1
        return more < 0 or best.gap <= digits * size

    found = solve(
        problem,
        (w, free),
        centre,
        ended,
        smoothing=smoothing,
        precision=0.1 * (digits if more else gap_tol),
        limits=limits,
    )
    v = float(found.v[0]) if problem.e.ndim == 1 else found.v
    # Exact solutions have bounds above their objective by rounding.
    return replace(found, v=v, lower_bound=min(found.lower_bound, found.objective))


def _shifted(
    problem: GroupProblem, start: tuple[np.ndarray, np.ndarray], smoothing: tuple[float, np.ndarray]
) -> np.ndarray:
    """Minimise the smoothed problem along each free variable in turn."""
    v, u = start
    v = v.copy()
    small = _SHIFTED * problem.cost
    for column, e in enumerate(problem.free.T):
        slope = problem.slope(problem.smoothed(u, *smoothing), e)
        if abs(slope) <= small:
            continue
        change = -np.sign(slope) * e

        def slope_at(t: float, u: np.ndarray = u, change: np.ndarray = change) -> tuple[float, Any]:
            return problem.slope(problem.smoothed(u + t * change, *smoothing), change), None

        t, _ = search(slope_at, -abs(slope), None, small, furthest=2.0**60)
        v[column] -= t * np.sign(slope)
        u = u + t * change
    return v
