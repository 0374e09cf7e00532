"""Newton's method for half a squared norm and a sum of group maxima, over rows held in memory.

    min_{w,v}  1/2 |w|^2 + sum_g C_g max(0, max_{r in g} u_r),   u_r = c_r + z_r.w + e_r.v

Row r belongs to one group; v are variables without a norm: the intercept, the width of a tube. A
hinge is a group of one row. The maximum is smoothed by h > 0 around proportions p,

    phi(u) = max_{a >= 0, sum a <= 1}  a.u - h/2 |a - p|^2,

whose maximiser a is the projection of p + u / h onto the simplex. Its second derivative is that of
the projection: the identity on the rows with a > 0, less their mean where a sums to one. Newton's
method meets the minimum of the smoothed problem in some steps; then its a is the next p. That is
the proximal point method on the dual of the problem without smoothing,

    max_alpha  c.alpha - 1/2 |Z'alpha|^2,   alpha >= 0,  sum_{r in g} alpha_r <= C_g,  E'alpha = 0,

with alpha = C a, in which h need not become small: systems stay well conditioned, and the
proportions of a neighbouring problem are as good a start as its w. The distance of the two values
is known after every round and says when it is small enough.

The last groups may cost the square of their maximum instead,

    C_g max(0, max_r u_r)^2 = max_{alpha >= 0}  alpha.u - (sum alpha)^2 / (4 C_g),

where the sum of a is not bounded but loses its square over four in phi and in the dual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

__all__ = ["GroupProblem", "GroupSolution", "project_groups", "solve_groups"]

Matrix = Any  # an ndarray, a CSR matrix or a RowStack

_FIRST_SMOOTHING = 0.5
_MIN_SMOOTHING = 1e-7
# Of the smoothing of a round, that of the next; and after one that was not finished.
_LOWERED, _RAISED = 0.5, 10.0
# Of a round, and of all.
_MAX_STEPS, _MAX_STEPS_IN_ALL = 25, 1000
# A round ends when what its residuals cost is this share of what smoothing costs.
_INNER = 0.3
# Given proportions are a start where the relative gap there is at most this, and their first h.
_WARM_GAP, _WARM_SMOOTHING = 10.0, 0.05
# Curvature of the intercept where no row has any, as a share of all costs.
_INTERCEPT_RIDGE = 1e-4
# Above this number of columns the Newton system of sparse rows is solved by conjugate gradients.
_DENSE_COLUMNS = 2500
# Numbers in the rows by which the system is summed up.
_CHUNK_NUMBERS = 2**20
# Their residual, as a share of the gradient.
_ROUGH_DIRECTION = 0.05
# Slope along a direction at which its line search ends, as a share of that at its beginning.
_LINE_SEARCH = 0.4
# Slope of a free variable at which it is left to Newton's method, as a share of all costs.
_SHIFTED = 1e-3


@dataclass(frozen=True)
class GroupProblem:
    """The rows and groups of a problem.

    Attributes
    ----------
    Z : ndarray, CSR or RowStack of shape (n_rows, n_columns)
        Rows of a group follow each other.
    e : ndarray of shape (n_rows,) or (n_rows, n_free)
        Coefficients of the variables without a norm. The dual point of a certificate is scaled to
        fulfil one equation after the other: those of a later column may not be undone by that.
    offsets : ndarray of shape (n_groups + 1,)
    costs : ndarray of shape (n_groups,), the C_g, above zero
    c : float or ndarray of shape (n_rows,)
    n_squared : int
        How many of the last groups cost the square of their maximum.
    """

    Z: Matrix
    e: np.ndarray
    offsets: np.ndarray
    costs: np.ndarray
    c: float | np.ndarray = 1.0
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
        return np.asarray(self.c + self.Z @ w + self.free @ np.atleast_1d(v))

    def objective(self, w: np.ndarray, u: np.ndarray) -> float:
        """The objective without smoothing."""
        top = u if len(u) == len(self.costs) else np.maximum.reduceat(u, self.offsets[:-1])
        losses = np.maximum(top, 0.0)
        if self.n_squared:
            losses[self.n_plain :] **= 2
        return 0.5 * float(w @ w) + float(self.costs @ losses)

    def smoothed(
        self, norm2: float, a: np.ndarray, u: np.ndarray, smoothing: tuple[float, np.ndarray]
    ) -> float:
        """The smoothed objective, given the squared norm of w and the maximiser."""
        h, p = smoothing
        value = 0.5 * norm2 + float(self.row_costs @ (a * u - 0.5 * h * (a - p) ** 2))
        if self.n_squared:
            value -= 0.25 * float(self.costs[self.n_plain :] @ self._squared_sums(a) ** 2)
        return value

    def dual_value(self, alpha: np.ndarray) -> float:
        """The dual objective."""
        normal = np.asarray(self.Z.T @ alpha)
        value = float(np.sum(self.c * alpha)) - 0.5 * float(normal @ normal)
        if self.n_squared:
            value -= 0.25 * float(
                (1.0 / self.costs[self.n_plain :]) @ self._squared_sums(alpha) ** 2
            )
        return value

    def balanced(self, alpha: np.ndarray) -> np.ndarray:
        """alpha with E'alpha = 0: the heavier side is scaled down, which keeps the bounds."""
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
        # Rows below zero get nothing, for no threshold is negative.
        rows = np.flatnonzero(u[:first] > 0)
        if len(rows):
            group = self.owner[rows]
            a[rows], starts, at_bound = _projected(u[rows], group, h)
            full[group[starts]] = at_bound
        if self.n_squared:
            offsets = self.offsets[self.n_plain :] - first
            a[first:] = _squared_maximiser(u[first:], offsets, h)
        return a, full

    def _squared_sums(self, a: np.ndarray) -> np.ndarray:
        """Sums of a over the groups that are squared."""
        first = self.offsets[self.n_plain]
        sums = np.add.reduceat(a[first:], self.offsets[self.n_plain : -1] - first)
        return np.asarray(sums)


@dataclass(frozen=True)
class GroupSolution:
    """A point and its certificate.

    Attributes
    ----------
    w : ndarray of shape (n_columns,)
    v : float, or ndarray of shape (n_free,) where ``e`` has two dimensions
    objective, lower_bound : float
    smoothing : float
        The last h.
    proportions : ndarray of shape (n_rows,)
        The last a. With those of its rows a neighbouring problem may start.
    n_steps : int
        Newton steps.
    """

    w: np.ndarray
    v: Any
    objective: float
    lower_bound: float
    smoothing: float
    proportions: np.ndarray
    n_steps: int


def project_groups(u: np.ndarray, offsets: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Maximiser of a.u - h/2 |a|^2 over a >= 0, sum a <= 1, of every group.

    Returns
    -------
    a : ndarray of shape (n_rows,)
    full : ndarray of shape (n_groups,) of bool
        Whether the sum of the group is one.
    """
    problem = GroupProblem(np.zeros((len(u), 0)), u, offsets, np.ones(len(offsets) - 1))
    return problem.maximiser(u, (h, np.zeros(len(u))))


def _runs(group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of equal numbers start, and their lengths; of one number at least."""
    first = np.empty(len(group), dtype=bool)
    first[0] = True
    np.not_equal(group[1:], group[:-1], out=first[1:])
    starts = first.nonzero()[0]
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = len(group) - starts[-1]
    return starts, lengths


def _projected(
    u: np.ndarray, group: np.ndarray, h: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for values above zero with the group of each; where groups start, and fullness."""
    a = u / h
    starts, lengths = _runs(group)
    full = np.add.reduceat(a, starts) >= 1.0
    a[starts[full & (lengths == 1)]] = 1.0
    several = full & (lengths > 1)
    rows = np.flatnonzero(np.repeat(several, lengths))
    if len(rows) == 0:
        return a, starts, full
    order = rows[np.lexsort((-u[rows], group[rows]))]
    lengths = lengths[several]
    firsts = np.cumsum(lengths) - lengths
    rank = np.arange(len(order)) - np.repeat(firsts, lengths) + 1
    ordered = u[order]
    total = np.cumsum(ordered)
    before = np.repeat(total[firsts] - ordered[firsts], lengths)
    threshold = (total - before - h) / rank
    # The last row above its threshold gives that of its group.
    counts = np.add.reduceat(ordered > threshold, firsts, dtype=np.intp)
    chosen = threshold[firsts + np.maximum(counts, 1) - 1]
    a[order] = np.maximum(0.0, ordered - np.repeat(chosen, lengths)) / h
    return a, starts, full


def _squared_maximiser(u: np.ndarray, offsets: np.ndarray, h: float) -> np.ndarray:
    """Maximiser of a.u - h/2 |a|^2 - (sum a)^2 / 4 over a >= 0, of every group.

    a = max(0, u - s / 2) / h with s its sum: of the k highest rows, s = sum u / (h + k / 2).
    """
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-u, owner))
    ordered = u[order]
    rank = np.arange(len(u)) - np.repeat(offsets[:-1], sizes) + 1
    total = np.cumsum(ordered)
    before = np.repeat(total[offsets[:-1]] - ordered[offsets[:-1]], sizes)
    threshold = 0.5 * (total - before) / (h + 0.5 * rank)
    # The last row above its threshold gives that of its group; a threshold is never negative.
    counts = np.add.reduceat(ordered > threshold, offsets[:-1], dtype=np.intp)
    chosen = np.maximum(threshold[offsets[:-1] + np.maximum(counts, 1) - 1], 0.0)
    return np.asarray(np.maximum(0.0, u - chosen[owner]) / h)


def solve_groups(
    problem: GroupProblem,
    w: np.ndarray,
    v: float | np.ndarray,
    *,
    gap_tol: float,
    smoothing: float = _FIRST_SMOOTHING,
    proportions: np.ndarray | None = None,
) -> GroupSolution:
    """Solve to a relative duality gap of ``gap_tol``.

    Parameters
    ----------
    problem : GroupProblem
    w, v : where to start
    gap_tol : float
    smoothing : float
        First h.
    proportions : ndarray of shape (n_rows,), default=None
        Those of a neighbouring problem, which fulfil the bounds; used where they are near.

    Returns
    -------
    GroupSolution
        Its gap is above ``gap_tol`` only where neither the smallest h nor many steps sufficed.
    """
    single = problem.e.ndim == 1
    free = np.atleast_1d(np.asarray(v, dtype=np.float64))
    u = problem.values(w, free)
    h, p, bound = smoothing, np.zeros(len(u)), -np.inf
    if proportions is not None:
        value = problem.objective(w, u)
        given = problem.dual_value(problem.balanced(problem.row_costs * proportions))
        if value - given <= _WARM_GAP * abs(value):
            h, p, bound = min(h, _WARM_SMOOTHING), proportions, given
    if bound == -np.inf:
        free, u = _shifted(problem, (free, u), (h, p))
    point, n_steps = (w, free, u), 0
    best = GroupSolution(w, free, problem.objective(w, u), bound, h, p, 0)
    while True:
        point, p, steps = _newton(problem, point, (h, p), 0.1 * gap_tol)
        n_steps += steps
        w, free, u = point
        objective = problem.objective(w, u)
        bound = max(bound, problem.dual_value(problem.balanced(problem.row_costs * p)))
        if objective > best.objective:
            w, free, objective = best.w, best.v, best.objective
        best = GroupSolution(w, free, objective, bound, h, p, n_steps)
        closed = objective - bound <= gap_tol * abs(objective)
        if closed or h <= _MIN_SMOOTHING or n_steps > _MAX_STEPS_IN_ALL:
            return replace(best, v=float(free[0])) if single else best
        # A round that took all its steps was too hard: the next one starts where it ended.
        h = h * _LOWERED if steps < _MAX_STEPS else min(_FIRST_SMOOTHING, _RAISED * h)


Point = tuple[np.ndarray, np.ndarray, np.ndarray]
Smoothing = tuple[float, np.ndarray]


def _newton(
    problem: GroupProblem, point: Point, smoothing: Smoothing, precision: float
) -> tuple[Point, np.ndarray, int]:
    """Minimise the smoothed problem; returns w, v and u, a, and the number of steps."""
    w, v, u = point
    costs, free, dim = problem.row_costs, problem.free, len(w)
    a, full = problem.maximiser(u, smoothing)
    value = problem.smoothed(float(w @ w), a, u, smoothing)
    steps = 0
    while steps < _MAX_STEPS:
        alpha = costs * a
        gradient = np.append(w + np.asarray(problem.Z.T @ alpha), free.T @ alpha)
        # What the residuals of stationarity take from the dual value.
        missing = 0.5 * float(gradient[:dim] @ gradient[:dim]) + float(np.abs(gradient[dim:]).sum())
        smoothed_away = problem.objective(w, u) - value
        if missing <= max(precision * abs(value), _INNER * smoothed_away):
            break
        steps += 1
        direction = _direction(problem, (a, full), costs, smoothing[0], gradient)
        slope = float(direction @ gradient)
        if slope >= 0:
            break
        du = np.asarray(problem.Z @ direction[:dim]) + free @ direction[dim:]
        t = _step_length(problem, (w, u), (direction[:dim], du), smoothing, slope)
        w, v, u = w + t * direction[:dim], v + t * direction[dim:], u + t * du
        a, full = problem.maximiser(u, smoothing)
        before, value = value, problem.smoothed(float(w @ w), a, u, smoothing)
        if before - value <= 1e-13 * abs(value):
            break
    return (w, v, u), a, steps


def _shifted(
    problem: GroupProblem, start: tuple[np.ndarray, np.ndarray], smoothing: Smoothing
) -> tuple[np.ndarray, np.ndarray]:
    """v and u with each free variable where the smoothed problem is lowest along it."""
    v, u = start
    small = _SHIFTED * float(problem.costs.sum())
    for column, e in enumerate(problem.free.T):
        shift = _best_shift(problem, (u, e), smoothing, small)
        v, u = v + shift * (np.arange(len(v)) == column), u + shift * e
    return v, u


def _best_shift(
    problem: GroupProblem,
    line: tuple[np.ndarray, np.ndarray],
    smoothing: Smoothing,
    small: float,
) -> float:
    """Change of a free variable that minimises the smoothed problem, by bisection.

    ``line`` are the values of all rows and the coefficients of the variable.
    """
    (u, e), costs = line, problem.row_costs

    def slope_at(t: float) -> float:
        a, _ = problem.maximiser(u + t * e, smoothing)
        return float((costs * a) @ e)

    slope = slope_at(0.0)
    if abs(slope) <= small:
        return 0.0
    low, high = 0.0, -float(np.sign(slope))
    for _ in range(60):
        if slope_at(high) * slope <= 0:
            break
        low, high = high, 2.0 * high
    middle = 0.5 * (low + high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        found = slope_at(middle)
        if abs(found) <= small:
            break
        if found * slope > 0:
            low = middle
        else:
            high = middle
    return middle


def _step_length(
    problem: GroupProblem,
    point: tuple[np.ndarray, np.ndarray],
    direction: tuple[np.ndarray, np.ndarray],
    smoothing: Smoothing,
    slope: float,
) -> float:
    """Where the slope along the direction, which rises, is nearly zero."""
    (w, u), (dw, du) = point, direction
    costs = problem.row_costs
    curvature, level = float(dw @ dw), float(w @ dw)

    def slope_at(t: float) -> float:
        a, _ = problem.maximiser(u + t * du, smoothing)
        return level + t * curvature + float((costs * a) @ du)

    # A point whose slope has not turned positive is below the beginning by convexity.
    small = _LINE_SEARCH * abs(slope)
    low, low_slope, high = 0.0, slope, 1.0
    high_slope = slope_at(high)
    while high_slope < 0 and high < 64.0:
        low, low_slope, high = high, high_slope, 2.0 * high
        if -low_slope <= small:
            return low
        high_slope = slope_at(high)
    for number in range(80):
        t = 0.5 * (low + high)
        if number % 2 == 0 and high_slope > low_slope:
            false = low - low_slope * (high - low) / (high_slope - low_slope)
            t = min(max(false, low + 0.01 * (high - low)), high - 0.01 * (high - low))
        found = slope_at(t)
        if found > 0:
            high, high_slope = t, found
            continue
        low, low_slope = t, found
        if -low_slope <= small:
            break
    return low


def _direction(
    problem: GroupProblem,
    projection: tuple[np.ndarray, np.ndarray],
    costs: np.ndarray,
    h: float,
    gradient: np.ndarray,
) -> np.ndarray:
    """Newton's direction of the smoothed problem, for w and v."""
    rows, starts, centred, proportions = _curved_rows(problem, *projection, h)
    dim, n_columns = len(gradient), problem.Z.shape[1]
    ridge = np.ones(dim)
    ridge[n_columns:] = _INTERCEPT_RIDGE * float(problem.costs.sum())
    if len(rows) == 0:
        return -gradient / ridge
    curvature = costs[rows] / h
    e = problem.free[rows]
    lengths = np.diff(np.r_[starts, len(rows)])
    share = np.zeros(len(starts))
    share[centred] = proportions / lengths[centred]
    if sparse.issparse(problem.Z) and dim > _DENSE_COLUMNS:
        Z = problem.Z[rows]
        return _by_conjugate_gradients((Z, e), (starts, share), curvature, ridge, gradient)

    def factor(first: int, last: int, groups: slice) -> np.ndarray:
        """Some rows less the share of the mean of their groups, times the root of the curvature."""
        A = np.empty((last - first, dim))
        Z = problem.Z[rows[first:last]]
        A[:, :n_columns] = Z.toarray() if sparse.issparse(Z) else Z
        A[:, n_columns:] = e[first:last]
        if share[groups].any():
            sums = np.add.reduceat(A, starts[groups] - first, axis=0)
            A -= np.repeat(sums * share[groups, None], lengths[groups], axis=0)
        A *= np.sqrt(curvature[first:last])[:, None]
        return A

    if len(rows) < dim:
        # Woodbury's identity: the system is as large as the rows with curvature.
        A = factor(0, len(rows), slice(0, len(starts)))
        scaled = A / ridge
        small = scaled @ A.T
        small[np.diag_indices_from(small)] += 1.0
        inner = cho_solve(cho_factor(small, check_finite=False), scaled @ gradient)
        return np.asarray(scaled.T @ inner - gradient / ridge)
    system = np.diag(ridge)
    for first, last, groups in _chunks(len(rows), starts, max(dim, _CHUNK_NUMBERS // dim)):
        A = factor(first, last, groups)
        system += A.T @ A
    return np.asarray(-cho_solve(cho_factor(system, check_finite=False), gradient))


def _chunks(n_rows: int, starts: np.ndarray, most: int) -> Iterator[tuple[int, int, slice]]:
    """First and last row, and groups, of parts of whole groups with about as many rows."""
    if len(starts) == 0:
        for first in range(0, n_rows, most):
            yield first, min(first + most, n_rows), slice(0, 0)
        return
    group = 0
    while group < len(starts):
        first = int(starts[group])
        last_group = max(group + 1, int(np.searchsorted(starts, first + most)))
        last = n_rows if last_group == len(starts) else int(starts[last_group])
        yield first, last, slice(group, last_group)
        group = last_group


def _curved_rows(
    problem: GroupProblem, a: np.ndarray, full: np.ndarray, h: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows with curvature, where each group begins among them, and groups that lose their mean.

    The last array is the share of the mean that each of these loses: all of it where the sum of
    the group is at its bound, and for the square of k rows g with (1 - g)^2 = 2 h / (k + 2 h).
    """
    nothing = np.zeros(0, dtype=np.intp)
    if problem.singles:
        return np.flatnonzero((a > 0) & ~full), nothing, nothing, np.zeros(0)
    rows = np.flatnonzero(a > 0)
    group = problem.owner[rows]
    counts = np.bincount(group, minlength=len(full))
    # The one active row of a full group stays at its bound.
    rows = rows[~(full & (counts == 1))[group]]
    if len(rows) == 0:
        return rows, nothing, nothing, np.zeros(0)
    group = problem.owner[rows]
    starts, _ = _runs(group)
    group = group[starts]
    squared = group >= problem.n_plain
    proportions = np.where(squared, 1.0 - np.sqrt(2.0 * h / (counts[group] + 2.0 * h)), 1.0)
    centred = np.flatnonzero(full[group] | squared)
    return rows, starts, centred, proportions[centred]


def _by_conjugate_gradients(
    rows: tuple[Matrix, np.ndarray],
    groups: tuple[np.ndarray, np.ndarray],
    curvature: np.ndarray,
    ridge: np.ndarray,
    gradient: np.ndarray,
) -> np.ndarray:
    """Newton's direction; ``groups`` begin at rows, and lose a share of their mean."""
    (Z, e), n = rows, rows[0].shape[1]
    starts, weights = groups
    lengths = np.diff(np.r_[starts, len(curvature)])

    def centred(values: np.ndarray) -> np.ndarray:
        if not weights.any():
            return values
        return np.asarray(values - np.repeat(weights * np.add.reduceat(values, starts), lengths))

    def product(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        inner = centred(curvature * centred(np.asarray(Z @ x[:n]) + e @ x[n:]))
        return np.asarray(ridge * x + np.append(np.asarray(Z.T @ inner), e.T @ inner))

    # Without means: a diagonal from above.
    squares = sparse.csr_array((Z.data**2, Z.indices, Z.indptr), shape=Z.shape)
    diagonal = ridge + np.append(np.asarray(squares.T @ curvature), (e * e).T @ curvature)
    shape = (len(ridge), len(ridge))
    system = LinearOperator(shape, matvec=product, dtype=np.float64)
    scaling = LinearOperator(shape, matvec=lambda x: x.ravel() / diagonal, dtype=np.float64)
    # A rough direction will do: the line search follows it as far as it descends.
    found, _ = cg(system, -gradient, rtol=_ROUGH_DIRECTION, maxiter=100, M=scaling)
    return np.asarray(found)
