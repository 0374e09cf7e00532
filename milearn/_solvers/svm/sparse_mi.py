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

from ..._bags.segments import pooling_matrix
from ..common.cccp import rounding_scale
from ..common.gram import Gram
from ..common.newton import GroupProblem
from .objectives import Groups
from .working_set import solve_step

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
) -> Groups:
    """The patterns of sMIL: means of positive bags, and instances of negative ones.

    A positive bag of n instances has the margin (2 - n) / n, the mean of one instance at 1 and all
    others at -1. The sum of costs is the same for both classes: C times the weights of the positive
    bags.
    """
    sizes = np.diff(offsets)
    bags, others = np.flatnonzero(positive), np.flatnonzero(~np.repeat(positive, sizes))
    negative = np.repeat(weights, sizes)[others]
    total, singles = C * weights[bags].sum(), sparse.eye_array(int(offsets[-1]), format="csr")
    return _ungrouped(
        sparse.vstack([pooling_matrix(offsets)[bags], singles[others]], format="csr"),
        np.concatenate([np.ones(len(bags)), -np.ones(len(others))]),
        np.concatenate([C * weights[bags], total * negative / negative.sum()]),
        np.concatenate([(2.0 - sizes[bags]) / sizes[bags], np.ones(len(others))]),
    )


def inherited_patterns(signs: np.ndarray, costs: np.ndarray) -> Groups:
    """The patterns of an SVM: instances with signs and costs, and margins of one."""
    n = len(signs)
    return _ungrouped(sparse.eye_array(n, format="csr"), signs, costs, np.ones(n))


def _ungrouped(P: Matrix, signs: np.ndarray, costs: np.ndarray, margins: np.ndarray) -> Groups:
    """Patterns in groups of one."""
    return Groups(P, np.arange(len(signs) + 1), signs, costs, margins)


def solve_margins(gram: Gram, patterns: Groups, *, tol: float) -> MarginSolution:
    """Solve the convex problem to a relative duality gap of ``tol``.

    Raises
    ------
    milearn.exceptions.SolverError
        If the dual problem is not solved.
    """
    points = gram.vectors()
    if points is not None and points.shape[1] <= points.shape[0]:
        return _by_newton(patterns, points, tol)
    found = solve_step(gram, patterns, tol=tol)
    return MarginSolution(
        beta=gram.expansion(found.coef),
        w=None if points is None else np.asarray(points.T @ found.coef),
        scores=found.scores,
        intercept=found.intercept,
        objective=found.objective,
        dual_gap=found.gap,
        objective_scale=rounding_scale(patterns.costs),
    )


def _by_newton(patterns: Groups, points: Matrix, tol: float) -> MarginSolution:
    """Solve the problem in w."""
    signs, costs = patterns.signs, patterns.costs
    rows = sparse.diags_array(-signs).tocsr() @ (patterns.P @ points)
    problem = GroupProblem(rows, -signs, patterns.offsets, costs, patterns.margins)
    found = problem.solve((np.zeros(points.shape[1]), 0.0), tol)
    scores = np.asarray(points @ found.w)
    objective, intercept = patterns.value(patterns.P @ scores, float(found.w @ found.w))
    return MarginSolution(
        beta=patterns.P.T @ (signs * costs * found.proportions),
        w=found.w,
        scores=scores,
        intercept=intercept,
        objective=objective,
        dual_gap=objective - found.lower_bound,
        objective_scale=rounding_scale(costs),
    )


def solve_transductive(
    gram: Gram,
    patterns: Groups,
    unsigned: tuple[np.ndarray, np.ndarray, np.ndarray],
    *,
    max_iter: int,
    tol: float,
) -> MarginSolution:
    """Minimise the problem with [1 - |f(x)|]_+ over unsigned instances, from their first signs.

    ``unsigned`` are the rows of the instances, their costs and their first signs.
    """
    rows, costs, signs = unsigned
    n, singles = len(rows), sparse.eye_array(gram.n, format="csr")[rows]
    P = sparse.vstack([patterns.P, singles, singles], format="csr")
    n_iter, converged = 0, False
    while n_iter < max_iter and not converged:
        extended = _ungrouped(
            P,
            np.concatenate([patterns.signs, signs, signs]),
            np.concatenate([patterns.costs, costs, costs]),
            np.concatenate([patterns.margins, np.ones(n), -np.ones(n)]),
        )
        found = solve_margins(gram, extended, tol=tol)
        values = found.scores[rows] + found.intercept
        # Scores that are zero up to rounding do not change a sign.
        last, signs = signs, np.where(np.abs(values) > _ZERO, np.sign(values), signs)
        n_iter, converged = n_iter + 1, bool((signs == last).all())
    return replace(found, n_iter=n_iter, stopped="" if converged else "max_iter")
