r"""Support vector machines of sparse positive bags: hinges with a margin for each pattern.

    min_{w, b}  1/2 |w|^2 + sum_k c_k [m_k - s_k (<w, z_k> + b)]_+

where a pattern z_k is an instance or the mean of a bag's instances. The problem is solved in the
dual over a working set. Linear problems with at most as many features as instances are solved by
Newton's method in w.

stMIL adds sum_x c_x [1 - |f(x)|]_+ over instances of positive bags. The concave part of
[1 - |f|]_+ = max(1, |f|) - |f| is replaced by its tangent at the last f. The result is
[1 - s f]_+ + [-1 - s f]_+ with the sign s of f: two patterns with margins 1 and -1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..common.cccp import optimal_intercept, rounding_scale
from ..common.gram import Gram
from ..common.newton import GroupProblem
from .grouped_hinge import Patterns, solve_grouped_svm

Matrix = Any  # an ndarray or a CSR matrix

# Scores up to this size count as zero, compared with margins of one.
_ZERO = 1e-6


@dataclass
class MarginSolution:
    """A solution as a combination of instances."""

    # f(x) is sum_i beta_i k(x_i, x) + intercept, and <w, x> + intercept for a linear kernel.
    beta: np.ndarray
    w: np.ndarray | None
    # f of all instances without the intercept.
    scores: np.ndarray
    intercept: float
    objective: float
    # Duality gap of the last convex problem, relative to the objective or at least to this scale.
    dual_gap: float
    objective_scale: float
    # Number of convex problems.
    n_iter: int = 1
    stopped: str = ""


def sparse_patterns(
    offsets: np.ndarray, positive: np.ndarray, weights: np.ndarray, C: float
) -> Patterns:
    """The patterns of sMIL: means of positive bags, and instances of negative ones.

    A positive bag of n instances has the margin (2 - n) / n, the mean of one instance at 1 and all
    others at -1. The sum of costs is the same for both classes: C times the weights of the positive
    bags.
    """
    sizes = np.diff(offsets)
    inside = np.repeat(positive, sizes)
    bags, others = np.flatnonzero(positive), np.flatnonzero(~inside)
    negative = np.repeat(weights, sizes)[others]
    total = C * weights[bags].sum()
    return _ungrouped(
        np.concatenate([np.flatnonzero(inside), others]),
        np.concatenate([sizes[bags], np.ones(len(others), dtype=np.intp)]),
        np.concatenate([np.ones(len(bags)), -np.ones(len(others))]),
        np.concatenate([C * weights[bags], total * negative / negative.sum()]),
        np.concatenate([(2.0 - sizes[bags]) / sizes[bags], np.ones(len(others))]),
    )


def inherited_patterns(signs: np.ndarray, costs: np.ndarray) -> Patterns:
    """The patterns of an SVM: instances with signs and costs, and margins of one."""
    n = len(signs)
    return Patterns(np.arange(n), None, np.arange(n + 1), signs, costs)


def _ungrouped(
    rows: np.ndarray, sizes: np.ndarray, signs: np.ndarray, costs: np.ndarray, margins: np.ndarray
) -> Patterns:
    """Patterns in groups of one."""
    row_offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Patterns(rows, row_offsets, np.arange(len(signs) + 1), signs, costs, margins)


def solve_margins(gram: Gram, patterns: Patterns, *, tol: float) -> MarginSolution:
    """Solve the convex problem to a relative duality gap of ``tol``.

    Raises
    ------
    milearn.exceptions.SolverError
        If the dual problem is not solved.
    """
    points = gram.vectors()
    if points is not None and points.shape[1] <= points.shape[0]:
        return _by_newton(patterns, points, tol)
    found = solve_grouped_svm(gram, patterns, tol=tol)
    rows, coef = gram.expansion(found.rows, found.coef)
    return MarginSolution(
        beta=np.bincount(rows, coef, minlength=gram.n),
        w=None if points is None else np.asarray(points[found.rows].T @ found.coef),
        scores=found.scores,
        intercept=found.intercept,
        objective=found.objective,
        dual_gap=found.gap,
        objective_scale=rounding_scale(patterns.weights),
    )


def _by_newton(patterns: Patterns, points: Matrix, tol: float) -> MarginSolution:
    """Solve the problem in w."""
    signs, costs, n = patterns.signs, patterns.weights, patterns.n_patterns
    starts = np.arange(n + 1) if patterns.row_offsets is None else patterns.row_offsets
    proportions = np.repeat(1.0 / np.diff(starts), np.diff(starts))
    pooling = sparse.csr_array((proportions, patterns.rows, starts), shape=(n, points.shape[0]))
    rows = sparse.diags_array(-signs).tocsr() @ (pooling @ points)
    problem = GroupProblem(rows, -signs, np.arange(n + 1), costs, patterns.margins_of(np.arange(n)))
    found = problem.solve((np.zeros(points.shape[1]), 0.0), tol)
    scores = np.asarray(points @ found.w)
    values = patterns.scores(scores)
    intercept = optimal_intercept(values, signs, costs)
    hinge = np.maximum(0.0, 1.0 - signs * (values + intercept))
    objective = 0.5 * float(found.w @ found.w) + float(costs @ hinge)
    return MarginSolution(
        beta=pooling.T @ (signs * costs * found.proportions),
        w=found.w,
        scores=scores,
        intercept=intercept,
        objective=objective,
        dual_gap=objective - found.lower_bound,
        objective_scale=rounding_scale(costs),
    )


def solve_transductive(
    gram: Gram,
    patterns: Patterns,
    unsigned: tuple[np.ndarray, np.ndarray, np.ndarray],
    *,
    max_iter: int,
    tol: float,
) -> MarginSolution:
    """Minimise the problem with [1 - |f(x)|]_+ over unsigned instances, from their first signs.

    ``unsigned`` are the rows of the instances, their costs and their first signs.
    """
    rows, costs, signs = unsigned
    n = len(rows)
    assert patterns.row_offsets is not None
    assert patterns.margins is not None
    sizes = np.concatenate([np.diff(patterns.row_offsets), np.ones(2 * n, dtype=np.intp)])
    n_iter, converged = 0, False
    while n_iter < max_iter and not converged:
        extended = _ungrouped(
            np.concatenate([patterns.rows, rows, rows]),
            sizes,
            np.concatenate([patterns.signs, signs, signs]),
            np.concatenate([patterns.weights, costs, costs]),
            np.concatenate([patterns.margins, np.ones(n), -np.ones(n)]),
        )
        found = solve_margins(gram, extended, tol=tol)
        values = found.scores[rows] + found.intercept
        # Scores that are zero up to rounding do not change a sign.
        last, signs = signs, np.where(np.abs(values) > _ZERO, np.sign(values), signs)
        n_iter, converged = n_iter + 1, bool((signs == last).all())
    return replace(found, n_iter=n_iter, stopped="" if converged else "max_iter")
