"""The exact solution for the active rows of an approximate one.

Once it is known which rows have multipliers, which groups spend their whole cost, and so which rows
of a group are equally high, the optimality conditions are one linear system. Its solution shows
where the sets are wrong, and the projections of the smoothed problem give the next ones (the
primal-dual active set iteration of Hintermueller, Ito & Kunisch, SIAM J. Optim. 13, 2002). From a
few correct digits it reaches all of them in a few systems with a row for each free multiplier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dgetrf, dgetrs

if TYPE_CHECKING:
    from .groups import GroupProblem

__all__ = ["exact_solution"]

# Ridge of singular systems, as a fraction of the largest diagonal entry; refinement removes it.
_RIDGE = 1e-11
_REFINEMENTS = 3
# Eigenvalue of the products of rows that counts as zero.
_RANK = 1e-12


def exact_solution(
    problem: GroupProblem,
    point: tuple[np.ndarray, np.ndarray],
    proportions: np.ndarray,
    h: float,
    *,
    max_systems: int = 6,
    most_free: int = 600,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The best w, v and proportions that fulfil the optimality conditions of some active rows.

    Where more rows are at their limits than there are variables, sets may go in circles although w
    has all digits.

    Parameters
    ----------
    problem : GroupProblem
    point, proportions : (w, v) and proportions of an approximate solution
    h : float
        Smoothing of the projections that update the sets.
    max_systems : int
        Maximum number of linear systems.
    most_free : int
        Maximum number of free multipliers, and at most four times that of the variables.

    Returns
    -------
    w, v, proportions, or None if there are too many free multipliers or a system is singular.
    """
    (w, v), most = point, min(most_free, 4 * (len(point[0]) + len(point[1])) + 10)
    a, full = problem.maximiser(problem.values(w, v), (h, proportions))
    best, lowest = None, np.inf
    for _ in range(max_systems):
        active = a > 0
        free = np.flatnonzero(active & ~_alone_and_full(problem, active, full))
        solved = _stationary(problem, (a, v), free, full) if len(free) <= most else None
        if solved is None:
            break
        alpha, v = solved
        w = -np.asarray(problem.Z.T @ alpha)
        a, values = alpha / problem.row_costs, problem.values(w, v)
        there, now_full = problem.maximiser(values, (h, a))
        objective = problem.objective(w, values)
        if objective < lowest:
            best, lowest = (w, v, there), objective
        if np.array_equal(there > 0, active) and np.array_equal(now_full, full):
            break
        a, full = there, now_full
    return best


def _alone_and_full(problem: GroupProblem, active: np.ndarray, full: np.ndarray) -> np.ndarray:
    """Rows that spend the whole cost of their group alone."""
    counts = np.add.reduceat(active, problem.offsets[:-1], dtype=np.intp)
    alone: np.ndarray = active & (full & (counts == 1))[problem.owner]
    return alone


def _stationary(
    problem: GroupProblem, point: tuple[np.ndarray, np.ndarray], free: np.ndarray, full: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Multipliers and v where free rows of a group are equally high, or zero unless it is full."""
    (a, v), owner, n = point, problem.owner[free], len(free)
    alpha = np.where(a > 0, problem.row_costs, 0.0)
    if n == 0:
        return alpha, v
    alpha[free] = 0.0
    shared = np.unique(owner[full[owner]])
    equal = (owner[:, None] == shared).astype(np.float64)
    # What no free row determines of v stays as it is.
    basis = _row_space(problem.free[free], equal)
    E = problem.free @ basis
    rows: Any = problem.Z[free]
    if not sparse.issparse(rows):
        rows = rows.astype(np.float64, copy=False)
    products = rows @ rows.T
    k = E.shape[1]
    system = np.zeros((n + k + len(shared),) * 2)
    system[:n, :n] = products.toarray() if sparse.issparse(products) else products
    squared = owner >= problem.n_plain
    if squared.any():
        same = (owner[:, None] == owner) & squared
        system[:n, :n] += same / (2.0 * problem.costs[owner])
    system[:n, n : n + k] = -E[free]
    system[:n, n + k :] = equal
    system[n:, :n] = system[:n, n:].T
    heights = np.broadcast_to(problem.c, len(a))[free] + problem.free[free] @ v
    target = np.r_[
        heights - np.asarray(rows @ (problem.Z.T @ alpha)), E.T @ alpha, problem.costs[shared]
    ]
    unknown = np.r_[problem.row_costs[free] * a[free], np.zeros(k + len(shared))]
    ridge = np.r_[np.ones(n), np.full(k + len(shared), -1.0)]
    ridge *= _RIDGE * float(np.diagonal(system).max())
    factors, pivots, info = dgetrf(system + np.diag(ridge), overwrite_a=True)
    if info != 0:
        return None
    for _ in range(_REFINEMENTS):
        unknown += dgetrs(factors, pivots, target - system @ unknown)[0]
        if not np.isfinite(unknown).all():
            return None
    alpha[free] = unknown[:n]
    return alpha, v + basis @ unknown[n : n + k]


def _row_space(E: np.ndarray, equal: np.ndarray) -> np.ndarray:
    """Directions of v that change the heights of rows, or their differences in some groups."""
    means = (equal.T @ E) / np.maximum(equal.sum(axis=0), 1.0)[:, None]
    values, vectors = np.linalg.eigh((E - equal @ means).T @ (E - equal @ means))
    basis: np.ndarray = vectors[:, values > _RANK * max(1.0, float(values.max(initial=0.0)))]
    return basis
