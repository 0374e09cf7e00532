"""Newton's method for half a squared norm and a sum of group maxima, over rows held in memory.

    min_{w,v}  1/2 |w|^2 + q.w + p.v + sum_g C_g max(0, max_{r in g} u_r),   u_r = c_r + z_r.w + e_r.v

Row r belongs to one group; v are a few variables without a norm (an intercept, the width of a
tube). A hinge is a group of one row. The support function of the simplex is smoothed by h,

    phi_h(u) = max_{a >= 0, sum a <= 1}  a.u - h/2 |a|^2,

whose maximiser is a projection onto the simplex and whose second derivative is that projection's:
the identity on the rows above zero, minus their mean where the sum is one. Newton's method meets
the minimum of the smoothed problem in a few steps, h is lowered by factors from the solution
before, and alpha = C a is feasible in the dual of the problem without smoothing,

    max_alpha  c.alpha - 1/2 |q + Z'alpha|^2,   alpha >= 0,  sum_{r in g} alpha_r <= C_g,  p + E'alpha = 0,

so that the gap between the two is known at every step and says when h is small enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

__all__ = ["GroupProblem", "GroupSolution", "project_groups", "solve_groups"]

# Above this many columns the Newton system is solved by conjugate gradients.
_DENSE_COLUMNS = 2500
_FIRST_SMOOTHING = 0.5
_FACTOR = 0.2
_MIN_SMOOTHING = 1e-7
_MAX_STEPS = 60
# Curvature of a free variable where no row has any, as a share of all costs.
_FREE_RIDGE = 1e-4


@dataclass(frozen=True)
class GroupProblem:
    """The rows and groups of a problem.

    Attributes
    ----------
    Z : ndarray or CSR of shape (n_rows, n_columns)
        Rows of a group follow each other.
    E : ndarray of shape (n_rows, n_free)
    c : ndarray of shape (n_rows,)
    offsets : ndarray of shape (n_groups + 1,)
    costs : ndarray of shape (n_groups,), above zero
    q : ndarray of shape (n_columns,), linear term of w
    p : ndarray of shape (n_free,), linear term of v
    constant : float
        Added to the objective.
    lower : ndarray of shape (n_free,)
        Lower bounds of v; -inf for none.
    """

    Z: Any
    E: np.ndarray
    c: np.ndarray
    offsets: np.ndarray
    costs: np.ndarray
    q: np.ndarray
    p: np.ndarray
    constant: float = 0.0

    def values(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """u of every row."""
        return self.c + np.asarray(self.Z @ w) + self.E @ v


@dataclass(frozen=True)
class GroupSolution:
    """A point with its certificate.

    Attributes
    ----------
    w, v : ndarray
    alpha : ndarray of shape (n_rows,), feasible in the dual up to ``p + E'alpha = 0``
    objective, lower_bound : float
    n_steps : int
    smoothing : float
    """

    w: np.ndarray
    v: np.ndarray
    alpha: np.ndarray
    objective: float
    lower_bound: float
    n_steps: int
    smoothing: float


def project_groups(u: np.ndarray, offsets: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Maximiser of a.u - h/2 |a|^2 over a >= 0, sum a <= 1, for every group.

    Returns
    -------
    a : ndarray of shape (n_rows,)
    full : ndarray of shape (n_groups,) of bool
        Whether the sum of the group is one.
    """
    a = np.maximum(u, 0.0) / h
    n_groups = len(offsets) - 1
    if len(a) == n_groups:
        full = a >= 1.0
        return np.minimum(a, 1.0), full
    sums = np.add.reduceat(a, offsets[:-1])
    full = sums >= 1.0
    if not full.any():
        return a, full
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(n_groups), sizes)
    top = np.maximum.reduceat(u, offsets[:-1])
    # Rows further than h below the top of their group get nothing.
    rows = np.flatnonzero(full[owner] & (u > top[owner] - h))
    if len(rows) == 0:  # sums of one to rounding, all at the bound
        return a, full
    order = rows[np.lexsort((-u[rows], owner[rows]))]
    group = owner[order]
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    lengths = np.diff(np.r_[starts, len(order)])
    rank = np.arange(len(order)) - np.repeat(starts, lengths) + 1
    sorted_u = u[order]
    total = np.cumsum(sorted_u)
    before = np.repeat(total[starts] - sorted_u[starts], lengths)
    threshold = (total - before - h) / rank
    kept = sorted_u > threshold
    # The last kept row of a group gives its threshold.
    counts = np.add.reduceat(kept, starts)
    tau = threshold[starts + counts - 1]
    a[full[owner]] = 0.0
    a[order] = np.maximum(0.0, sorted_u - np.repeat(tau, lengths)) / h
    return a, full


def _smoothed(problem: GroupProblem, u: np.ndarray, h: float) -> tuple[float, np.ndarray, np.ndarray]:
    a, full = project_groups(u, problem.offsets, h)
    row_values = a * (u - 0.5 * h * a)
    if len(problem.costs) == len(a):
        value = float(problem.costs @ row_values)
    else:
        value = float(problem.costs @ np.add.reduceat(row_values, problem.offsets[:-1]))
    return value, a, full


def _row_costs(problem: GroupProblem) -> np.ndarray:
    return np.repeat(problem.costs, np.diff(problem.offsets))


def exact_value(problem: GroupProblem, w: np.ndarray, u: np.ndarray, v: np.ndarray) -> float:
    """The objective without smoothing."""
    top = u if len(u) == len(problem.costs) else np.maximum.reduceat(u, problem.offsets[:-1])
    linear = float(problem.q @ w + problem.p @ v) + problem.constant
    return 0.5 * float(w @ w) + linear + float(problem.costs @ np.maximum(top, 0.0))


def _dual_value(problem: GroupProblem, alpha: np.ndarray) -> float:
    normal = problem.q + np.asarray(problem.Z.T @ alpha)
    return float(problem.c @ alpha) - 0.5 * float(normal @ normal) + problem.constant


def balanced(problem: GroupProblem, alpha: np.ndarray) -> np.ndarray:
    """alpha with p + E'alpha = 0 where there is one free variable: the larger side is scaled down."""
    if problem.E.shape[1] != 1:
        return alpha
    e = problem.E[:, 0] * alpha
    up, down = float(e[e > 0].sum()), float(-e[e < 0].sum())
    level = float(problem.p[0])
    # up - down + level = 0 wanted; only scaling down keeps the bounds.
    alpha = alpha.copy()
    if up + level > down and up > 0:
        alpha[e > 0] *= max(0.0, (down - level) / up)
    elif down > 0:
        alpha[e < 0] *= max(0.0, (up + level) / down)
    return alpha


def solve_groups(
    problem: GroupProblem,
    start: tuple[np.ndarray, np.ndarray],
    *,
    gap_tol: float,
    smoothing: float | None = None,
) -> GroupSolution:
    """Solve to a relative duality gap of ``gap_tol``.

    Parameters
    ----------
    problem : GroupProblem
    start : tuple of ndarray, (w, v)
    gap_tol : float
    smoothing : float, default=None
        First h; that of a neighbouring solution saves the way down to it.
    """
    w, v = (part.astype(np.float64, copy=True) for part in start)
    h = _FIRST_SMOOTHING if smoothing is None else smoothing
    costs = _row_costs(problem)
    u = problem.values(w, v)
    n_steps = 0
    best: GroupSolution | None = None
    while True:
        w, v, u, a, steps = _newton(problem, w, v, u, costs, h, 0.1 * gap_tol)
        n_steps += steps
        alpha = balanced(problem, costs * a)
        objective = exact_value(problem, w, u, v)
        bound = _dual_value(problem, alpha)
        if best is not None:
            bound_best = max(bound, best.lower_bound)
        else:
            bound_best = bound
        if best is None or objective <= best.objective:
            best = GroupSolution(w, v, alpha, objective, bound_best, n_steps, h)
        else:
            best = replace(best, lower_bound=bound_best, n_steps=n_steps, smoothing=h, alpha=alpha if bound >= best.lower_bound else best.alpha)
        if best.objective - best.lower_bound <= gap_tol * max(abs(best.objective), 1e-300) or h <= _MIN_SMOOTHING:
            return best
        wanted = 0.5 * gap_tol * abs(best.objective) / (best.objective - best.lower_bound)
        h *= min(0.5, max(0.05, wanted))


def _newton(
    problem: GroupProblem,
    w: np.ndarray,
    v: np.ndarray,
    u: np.ndarray,
    costs: np.ndarray,
    h: float,
    precision: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Minimise the smoothed problem; returns the point, its u and a, and the number of steps."""
    if problem.E.shape[1] == 1:
        shift = _free_shift(problem, u, costs, h)
        v, u = v + shift, u + problem.E[:, 0] * shift
    value, a, full = _smoothed(problem, u, h)
    value += 0.5 * float(w @ w) + float(problem.q @ w + problem.p @ v)
    steps = 0
    while steps < _MAX_STEPS:
        steps += 1
        weighted = costs * a
        gradient = np.r_[
            w + problem.q + np.asarray(problem.Z.T @ weighted),
            problem.p + problem.E.T @ weighted,
        ]
        step = _direction(problem, a, full, costs, h, gradient)
        slope = float(step @ gradient)
        # What the residuals of stationarity cost the dual value.
        d = len(w)
        missing = 0.5 * float(gradient[:d] @ gradient[:d]) + float(np.abs(gradient[d:]).sum())
        size = max(abs(value + problem.constant), 1e-300)
        # The smoothing costs a bound as much as it lowers the value: no need to be much better.
        smoothed_away = exact_value(problem, w, u, v) - value - problem.constant
        if missing <= max(precision * size, 0.1 * smoothed_away) or slope >= 0:
            break
        dw, dv = step[: len(w)], step[len(w) :]
        du = np.asarray(problem.Z @ dw) + problem.E @ dv
        t = _line_search(problem, (w, dw), (u, du), costs, h, slope, float(problem.q @ dw + problem.p @ dv))
        w, v, u = w + t * dw, v + t * dv, u + t * du
        before = value
        value, a, full = _smoothed(problem, u, h)
        value += 0.5 * float(w @ w) + float(problem.q @ w + problem.p @ v)
        if before - value <= 1e-13 * max(abs(value), 1e-300):
            break
    return w, v, u, a, steps


def _free_shift(problem: GroupProblem, u: np.ndarray, costs: np.ndarray, h: float) -> float:
    """Change of the one free variable that minimises the smoothed problem with w held."""
    e = problem.E[:, 0]

    def slope_at(t: float) -> float:
        a, _ = project_groups(u + t * e, problem.offsets, h)
        return float(problem.p[0]) + float((costs * a) @ e)

    small = 1e-3 * float(problem.costs.max())
    slope = slope_at(0.0)
    if abs(slope) <= small:
        return 0.0
    direction = -np.sign(slope)
    low, high = 0.0, direction
    for _ in range(60):
        if slope_at(high) * slope <= 0:
            break
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        found = slope_at(middle)
        if abs(found) <= small:
            return middle
        if found * slope > 0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _line_search(
    problem: GroupProblem,
    point: tuple[np.ndarray, np.ndarray],
    values: tuple[np.ndarray, np.ndarray],
    costs: np.ndarray,
    h: float,
    slope: float,
    linear: float,
) -> float:
    """Step length where the slope along the direction is nearly zero: a root of what rises."""
    (w, dw), (u, du) = point, values
    ww, wd = float(dw @ dw), float(w @ dw)

    def slope_at(t: float) -> float:
        a, _ = project_groups(u + t * du, problem.offsets, h)
        return wd + t * ww + linear + float((costs * a) @ du)

    small = 0.4 * abs(slope)
    low, low_slope, high = 0.0, slope, 1.0
    high_slope = slope_at(high)
    while high_slope < -small and high < 64.0:
        low, low_slope, high = high, high_slope, 2.0 * high
        high_slope = slope_at(high)
    if abs(high_slope) <= small:
        return high
    for _ in range(12):
        if high_slope <= low_slope:
            break
        t = low - low_slope * (high - low) / (high_slope - low_slope)
        t = min(max(t, low + 0.05 * (high - low)), high - 0.05 * (high - low))
        found = slope_at(t)
        if abs(found) <= small:
            return t
        if found < 0:
            low, low_slope = t, found
            high_slope *= 0.5
        else:
            high, high_slope = t, found
            low_slope *= 0.5
    return low if low > 0 else high


def _direction(
    problem: GroupProblem,
    a: np.ndarray,
    full: np.ndarray,
    costs: np.ndarray,
    h: float,
    gradient: np.ndarray,
) -> np.ndarray:
    """Newton's direction of the smoothed problem."""
    rows, starts, centred = _curved_rows(problem, a, full)
    n_free = problem.E.shape[1]
    dim = problem.Z.shape[1] + n_free
    ridge = np.ones(dim)
    # Free variables have no norm of their own; where no row curves them a small one stands in.
    ridge[dim - n_free :] = _FREE_RIDGE * float(problem.costs.sum())
    root = np.sqrt(costs[rows] / h)
    Zr, Er = problem.Z[rows], problem.E[rows]
    if sparse.issparse(Zr) and dim > _DENSE_COLUMNS:
        if len(centred):
            mean = _centring(len(rows), starts, centred)
            Zr, Er = mean @ Zr, mean @ Er
        return _by_conjugate_gradients(Zr, Er, root**2, ridge, gradient)
    A = np.empty((len(rows), dim))
    A[:, : dim - n_free] = Zr.toarray() if sparse.issparse(Zr) else Zr
    A[:, dim - n_free :] = Er
    if len(centred):
        lengths = np.diff(np.r_[starts, len(rows)])
        means = np.add.reduceat(A, starts, axis=0) / lengths[:, None]
        shift = np.zeros_like(means)
        shift[centred] = means[centred]
        A -= np.repeat(shift, lengths, axis=0)
    A *= root[:, None]
    if len(A) < dim:
        # Woodbury: the system is as large as the rows that curve.
        scaled = A / ridge
        small = scaled @ A.T
        small[np.diag_indices_from(small)] += 1.0
        inner = cho_solve(cho_factor(small, check_finite=False), scaled @ gradient)
        return np.asarray(scaled.T @ inner - gradient / ridge)
    H = A.T @ A
    H[np.diag_indices(dim)] += ridge
    return np.asarray(-cho_solve(cho_factor(H, check_finite=False), gradient))


def _curved_rows(
    problem: GroupProblem, a: np.ndarray, full: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with curvature, where each group begins among them, and groups that lose their mean."""
    nothing = np.zeros(0, dtype=np.intp)
    if len(problem.costs) == len(a):
        return np.flatnonzero((a > 0) & ~full), nothing, nothing
    sizes = np.diff(problem.offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    active = a > 0
    counts = np.add.reduceat(active, problem.offsets[:-1], dtype=np.intp)
    # The one row of a group at its bound stays there.
    rows = np.flatnonzero(active & ~(full & (counts == 1))[owner])
    if len(rows) == 0:
        return rows, nothing, nothing
    group = owner[rows]
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    return rows, starts, np.flatnonzero(full[group[starts]])


def _centring(n: int, starts: np.ndarray, centred: np.ndarray) -> Any:
    """The matrix that takes the mean of each centred group from its rows."""
    lengths = np.diff(np.r_[starts, n])
    owner = np.repeat(np.arange(len(starts)), lengths)
    inside = np.zeros(len(starts))
    inside[centred] = 1.0
    members = sparse.csr_array(
        (np.ones(n), np.arange(n), np.r_[starts, n]), shape=(len(starts), n)
    )
    return sparse.eye_array(n, format="csr") - sparse.csr_array(
        (inside[owner], (np.arange(n), owner)), shape=(n, len(starts))
    ) @ (sparse.diags_array(1.0 / lengths) @ members)


def _by_conjugate_gradients(
    Zr: Any, Er: np.ndarray, weights: np.ndarray, ridge: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    dim, d = len(ridge), Zr.shape[1]

    def product(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        inner = weights * (np.asarray(Zr @ x[:d]) + Er @ x[d:])
        return ridge * x + np.r_[np.asarray(Zr.T @ inner), Er.T @ inner]

    diagonal = ridge.copy()
    diagonal[:d] += np.asarray(Zr.multiply(Zr).T @ weights).ravel()
    diagonal[d:] += (Er**2).T @ weights
    operator = LinearOperator((dim, dim), matvec=product, dtype=np.float64)
    preconditioner = LinearOperator((dim, dim), matvec=lambda x: x.ravel() / diagonal, dtype=np.float64)
    found, _ = cg(operator, -gradient, rtol=1e-3, maxiter=200, M=preconditioner)
    return found
