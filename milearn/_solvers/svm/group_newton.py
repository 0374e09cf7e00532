"""Newton's method for half a squared norm and a sum of group maxima, over rows held in memory.

    min_{w,v}  1/2 |w|^2 + sum_g C_g max(0, max_{r in g} u_r),   u_r = c_r + z_r.w + e_r v

Row r belongs to one group; v is a variable without a norm, the intercept. A hinge is a group of
one row. The maximum is smoothed by h > 0,

    phi_h(u) = max_{a >= 0, sum a <= 1}  a.u - h/2 |a|^2,

whose maximiser a is a projection onto the simplex. Its second derivative is that of the projection:
the identity on the rows with a > 0, less their mean where a sums to one. Newton's method meets the
minimum of the smoothed problem in some steps, and h is lowered from solution to solution. With
alpha = C a, which is feasible in the dual of the problem without smoothing,

    max_alpha  c.alpha - 1/2 |Z'alpha|^2,   alpha >= 0,  sum_{r in g} alpha_r <= C_g,  e.alpha = 0,

the distance of the two values is known at every h and says when it is small enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

__all__ = ["GroupProblem", "GroupSolution", "project_groups", "solve_groups"]

Matrix = Any  # an ndarray or a CSR matrix

_FIRST_SMOOTHING = 0.5
_MIN_SMOOTHING = 1e-7
_MAX_STEPS = 60
# Curvature of the intercept where no row has any, as a share of all costs.
_INTERCEPT_RIDGE = 1e-4
# Above this number of columns the Newton system of sparse rows is solved by conjugate gradients.
_DENSE_COLUMNS = 2500
# Slope along a direction at which its line search ends, as a share of that at its beginning.
_LINE_SEARCH = 0.4


@dataclass(frozen=True)
class GroupProblem:
    """The rows and groups of a problem.

    Attributes
    ----------
    Z : ndarray or CSR of shape (n_rows, n_columns)
        Rows of a group follow each other.
    e : ndarray of shape (n_rows,)
    offsets : ndarray of shape (n_groups + 1,)
    costs : ndarray of shape (n_groups,), the C_g, above zero
    c : float, the same for all rows
    """

    Z: Matrix
    e: np.ndarray
    offsets: np.ndarray
    costs: np.ndarray
    c: float = 1.0

    @property
    def singles(self) -> bool:
        """Whether every group has one row."""
        return len(self.e) == len(self.costs)

    @property
    def row_costs(self) -> np.ndarray:
        """The cost of each row's group."""
        return np.repeat(self.costs, np.diff(self.offsets))

    def values(self, w: np.ndarray, v: float) -> np.ndarray:
        """u of every row."""
        return np.asarray(self.c + self.Z @ w + self.e * v)

    def objective(self, w: np.ndarray, u: np.ndarray) -> float:
        """The objective without smoothing."""
        top = u if self.singles else np.maximum.reduceat(u, self.offsets[:-1])
        return 0.5 * float(w @ w) + float(self.costs @ np.maximum(top, 0.0))

    def smoothed(self, w: np.ndarray, a: np.ndarray, u: np.ndarray, h: float) -> float:
        """The smoothed objective, given the maximiser."""
        return 0.5 * float(w @ w) + float(self.row_costs @ (a * (u - 0.5 * h * a)))

    def dual_value(self, alpha: np.ndarray) -> float:
        """The dual objective."""
        normal = np.asarray(self.Z.T @ alpha)
        return float(self.c * alpha.sum()) - 0.5 * float(normal @ normal)

    def balanced(self, alpha: np.ndarray) -> np.ndarray:
        """alpha with e.alpha = 0: the heavier side is scaled down, which keeps the bounds."""
        parts = self.e * alpha
        up, down = float(parts[parts > 0].sum()), float(-parts[parts < 0].sum())
        heavy = parts > 0 if up > down else parts < 0
        alpha = alpha.copy()
        alpha[heavy] *= min(up, down) / max(up, down, 1e-300)
        return alpha


@dataclass(frozen=True)
class GroupSolution:
    """A point and its certificate.

    Attributes
    ----------
    w : ndarray of shape (n_columns,)
    v : float
    objective, lower_bound : float
    smoothing : float
        The last h, from which a neighbouring problem may start.
    n_steps : int
        Newton steps.
    """

    w: np.ndarray
    v: float
    objective: float
    lower_bound: float
    smoothing: float
    n_steps: int


def project_groups(u: np.ndarray, offsets: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Maximiser of a.u - h/2 |a|^2 over a >= 0, sum a <= 1, of every group.

    Returns
    -------
    a : ndarray of shape (n_rows,)
    full : ndarray of shape (n_groups,) of bool
        Whether the sum of the group is one.
    """
    a = np.maximum(u, 0.0) / h
    n_groups = len(offsets) - 1
    if len(a) == n_groups:
        return np.minimum(a, 1.0), a >= 1.0
    full = np.add.reduceat(a, offsets[:-1]) >= 1.0
    if not full.any():
        return a, full
    owner = np.repeat(np.arange(n_groups), np.diff(offsets))
    top = np.maximum.reduceat(u, offsets[:-1])
    # Rows further than h below the top of their group get nothing.
    rows = np.flatnonzero(full[owner] & (u > top[owner] - h))
    order = rows[np.lexsort((-u[rows], owner[rows]))]
    group = owner[order]
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    lengths = np.diff(np.r_[starts, len(order)])
    rank = np.arange(len(order)) - np.repeat(starts, lengths) + 1
    ordered = u[order]
    total = np.cumsum(ordered)
    before = np.repeat(total[starts] - ordered[starts], lengths)
    threshold = (total - before - h) / rank
    # The last row above its threshold gives that of its group.
    counts = np.add.reduceat(ordered > threshold, starts, dtype=np.intp)
    chosen = threshold[starts + np.maximum(counts, 1) - 1]
    a[full[owner]] = 0.0
    a[order] = np.maximum(0.0, ordered - np.repeat(chosen, lengths)) / h
    return a, full


def solve_groups(
    problem: GroupProblem,
    w: np.ndarray,
    v: float,
    *,
    gap_tol: float,
    smoothing: float = _FIRST_SMOOTHING,
) -> GroupSolution:
    """Solve to a relative duality gap of ``gap_tol``.

    Parameters
    ----------
    problem : GroupProblem
    w, v : ndarray and float, where to start
    gap_tol : float
    smoothing : float
        First h.

    Returns
    -------
    GroupSolution
        Its gap is above ``gap_tol`` only where the smallest h did not suffice.
    """
    h, n_steps = smoothing, 0
    u = problem.values(w, v)
    bound = -np.inf
    best: GroupSolution | None = None
    while True:
        w, v, u, a, steps = _newton(problem, (w, v, u), h, 0.1 * gap_tol)
        n_steps += steps
        objective = problem.objective(w, u)
        bound = max(bound, problem.dual_value(problem.balanced(problem.row_costs * a)))
        if best is None or objective <= best.objective:
            best = GroupSolution(w, v, objective, bound, h, n_steps)
        else:
            best = GroupSolution(best.w, best.v, best.objective, bound, h, n_steps)
        gap, aim = best.objective - bound, gap_tol * abs(best.objective)
        if gap <= aim or h <= _MIN_SMOOTHING:
            return best
        h *= min(0.5, max(0.05, 0.5 * aim / gap))


def _newton(
    problem: GroupProblem,
    start: tuple[np.ndarray, float, np.ndarray],
    h: float,
    precision: float,
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray, int]:
    """Minimise the smoothed problem; returns w, v, u, a, and the number of steps."""
    w, v, u = start
    costs = problem.row_costs
    shift = _best_shift(problem, u, costs, h)
    v, u = v + shift, u + shift * problem.e
    a, full = project_groups(u, problem.offsets, h)
    value = problem.smoothed(w, a, u, h)
    steps = 0
    while steps < _MAX_STEPS:
        steps += 1
        alpha = costs * a
        gradient = np.append(w + np.asarray(problem.Z.T @ alpha), problem.e @ alpha)
        # What the residuals of stationarity take from the dual value.
        missing = 0.5 * float(gradient[:-1] @ gradient[:-1]) + abs(float(gradient[-1]))
        smoothed_away = problem.objective(w, u) - value
        if missing <= max(precision * abs(value), 0.1 * smoothed_away):
            break
        direction = _direction(problem, (a, full), costs, h, gradient)
        slope = float(direction @ gradient)
        if slope >= 0:
            break
        du = np.asarray(problem.Z @ direction[:-1]) + problem.e * direction[-1]
        t = _step_length(problem, (w, u), (direction[:-1], du), h, slope)
        w, v, u = w + t * direction[:-1], v + t * float(direction[-1]), u + t * du
        a, full = project_groups(u, problem.offsets, h)
        before, value = value, problem.smoothed(w, a, u, h)
        if before - value <= 1e-13 * abs(value):
            break
    return w, v, u, a, steps


def _best_shift(problem: GroupProblem, u: np.ndarray, costs: np.ndarray, h: float) -> float:
    """Change of v that minimises the smoothed problem with w held, by bisection."""

    def slope_at(t: float) -> float:
        a, _ = project_groups(u + t * problem.e, problem.offsets, h)
        return float((costs * a) @ problem.e)

    small = 1e-3 * float(problem.costs.max())
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
    h: float,
    slope: float,
) -> float:
    """Where the slope along the direction, which rises, is nearly zero."""
    (w, u), (dw, du) = point, direction
    costs = problem.row_costs
    curvature, level = float(dw @ dw), float(w @ dw)

    def slope_at(t: float) -> float:
        a, _ = project_groups(u + t * du, problem.offsets, h)
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
    rows, starts, centred = _curved_rows(problem, *projection)
    dim = len(gradient)
    ridge = np.ones(dim)
    ridge[-1] = _INTERCEPT_RIDGE * float(problem.costs.sum())
    if len(rows) == 0:
        return -gradient / ridge
    curvature = costs[rows] / h
    Z, e = problem.Z[rows], problem.e[rows]
    if sparse.issparse(Z) and dim > _DENSE_COLUMNS:
        if len(centred):
            centre = _centring(len(rows), starts, centred)
            Z, e = centre @ Z, centre @ e
        return _by_conjugate_gradients((Z, e), curvature, ridge, gradient)
    A = np.empty((len(rows), dim))
    A[:, :-1] = Z.toarray() if sparse.issparse(Z) else Z
    A[:, -1] = e
    if len(centred):
        lengths = np.diff(np.r_[starts, len(rows)])
        means = np.zeros((len(starts), dim))
        sums = np.add.reduceat(A, starts, axis=0)
        means[centred] = sums[centred] / lengths[centred, None]
        A -= np.repeat(means, lengths, axis=0)
    A *= np.sqrt(curvature)[:, None]
    if len(A) < dim:
        # Woodbury's identity: the system is as large as the rows with curvature.
        scaled = A / ridge
        small = scaled @ A.T
        small[np.diag_indices_from(small)] += 1.0
        inner = cho_solve(cho_factor(small, check_finite=False), scaled @ gradient)
        return np.asarray(scaled.T @ inner - gradient / ridge)
    system = A.T @ A
    system[np.diag_indices(dim)] += ridge
    return np.asarray(-cho_solve(cho_factor(system, check_finite=False), gradient))


def _curved_rows(
    problem: GroupProblem, a: np.ndarray, full: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with curvature, where each group begins among them, and groups that lose their mean."""
    nothing = np.zeros(0, dtype=np.intp)
    if problem.singles:
        return np.flatnonzero((a > 0) & ~full), nothing, nothing
    owner = np.repeat(np.arange(len(full)), np.diff(problem.offsets))
    active = a > 0
    counts = np.add.reduceat(active, problem.offsets[:-1], dtype=np.intp)
    # The one active row of a full group stays at its bound.
    rows = np.flatnonzero(active & ~(full & (counts == 1))[owner])
    if len(rows) == 0:
        return rows, nothing, nothing
    group = owner[rows]
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    return rows, starts, np.flatnonzero(full[group[starts]])


def _centring(n: int, starts: np.ndarray, centred: np.ndarray) -> Matrix:
    """The matrix that takes the mean of each centred group from its rows."""
    lengths = np.diff(np.r_[starts, n])
    inverse = np.zeros(len(starts))
    inverse[centred] = 1.0 / lengths[centred]
    owner = np.repeat(np.arange(len(starts)), lengths)
    members = sparse.csr_array((np.ones(n), np.arange(n), np.r_[starts, n]), shape=(len(starts), n))
    spread = sparse.csr_array((inverse[owner], owner, np.arange(n + 1)), shape=(n, len(starts)))
    centring: Matrix = sparse.eye_array(n, format="csr") - spread @ members
    return centring


def _by_conjugate_gradients(
    rows: tuple[Matrix, np.ndarray], curvature: np.ndarray, ridge: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    Z, e = rows

    def product(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        inner = curvature * (np.asarray(Z @ x[:-1]) + e * x[-1])
        return np.asarray(ridge * x + np.append(np.asarray(Z.T @ inner), e @ inner))

    diagonal = ridge + np.append(np.asarray(Z.multiply(Z).T @ curvature), (e * e) @ curvature)
    shape = (len(ridge), len(ridge))
    system = LinearOperator(shape, matvec=product, dtype=np.float64)
    scaling = LinearOperator(shape, matvec=lambda x: x.ravel() / diagonal, dtype=np.float64)
    # A rough direction will do: the line search follows it as far as it descends.
    found, _ = cg(system, -gradient, rtol=1e-2, maxiter=100, M=scaling)
    return np.asarray(found)
