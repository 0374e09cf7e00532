r"""Support vector machines with a margin for each item, and those of sparse positive bags on them.

    min_{w, b}  1/2 |w|^2 + sum_k c_k [m_k - s_k (<w, z_k> + b)]_+

where an item z_k is an instance or the mean of a bag's instances. The dual is a quadratic program,

    max_a  <m, a> - 1/2 a'Qa,  Q_kl = s_k s_l <z_k, z_l>,  <s, a> = 0,  0 <= a <= c .

stMIL adds sum_x c_x [1 - |f(x)|]_+ over instances of positive bags. With
[1 - |f|]_+ = max(1, |f|) - |f| the concave part is replaced by its tangent at the last f, which
leaves [1 - s f]_+ + [-1 - s f]_+ with the sign s of f: two items with margins 1 and -1.

Of features of size 10^8 the multipliers cancel in w to more digits than double precision has, so
that the program is not solved or w is not what its multipliers stand for. With a linear kernel the
problem then goes to Newton's method in w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...exceptions import SolverError
from ..common.newton import GroupProblem, solve_groups
from ..common.piecewise import optimal_intercept
from ..common.qp import QPProblem, solve_qp
from ..common.rounding import rounding_scale

__all__ = [
    "Items",
    "MarginSolution",
    "inherited_items",
    "margin_solution",
    "margins_or_primal",
    "solve_margins",
    "solve_transductive",
    "sparse_items",
]

Matrix = Any  # an ndarray or a CSR matrix

# Above so many items the program is solved over those that count, found by their slacks.
_MAX_WHOLE = 1000
_FIRST = 300
# Relative gap of a solution by multipliers above which the primal is asked as well, and the gap
# that it is asked for.
_LOOSE_GAP, _PRIMAL_GAP = 1e-6, 1e-8


@dataclass(frozen=True)
class Items:
    """What the classifier is fitted to.

    Attributes
    ----------
    pooling : csr_array of shape (n_items, n_instances)
        Weights of the instances in each item.
    signs, margins, costs : ndarray of shape (n_items,)
    """

    pooling: sparse.csr_array
    signs: np.ndarray
    margins: np.ndarray
    costs: np.ndarray


@dataclass
class MarginSolution:
    """A solution as a combination of instances.

    Attributes
    ----------
    beta : ndarray of shape (n_instances,)
        f(x) is sum_i beta_i k(x_i, x) + intercept.
    w : ndarray of shape (n_features,) or None
        With a linear kernel, f(x) is <w, x> + intercept.
    scores : ndarray of shape (n_instances,)
        f of all instances, without the intercept.
    intercept : float
        The middle of the optimal ones.
    objective : float
    dual_gap : float
        Of the last convex problem.
    objective_scale : float
        What the gap is measured against where the objective is smaller.
    n_iter : int
        Number of quadratic programs.
    converged : bool
    """

    beta: np.ndarray
    w: np.ndarray | None
    scores: np.ndarray
    intercept: float
    objective: float
    dual_gap: float
    objective_scale: float
    n_iter: int = 1
    converged: bool = True


def sparse_items(offsets: np.ndarray, positive: np.ndarray, weights: np.ndarray, C: float) -> Items:
    """The items of sMIL: means of positive bags, and instances of negative ones.

    A positive bag of n instances has the margin (2 - n) / n: that of one instance at 1 and all
    others at -1. Both sides have the same sum of costs, C times the weights of the positive bags.
    """
    sizes = np.diff(offsets)
    instance_positive = np.repeat(positive, sizes)
    instance_weights = np.repeat(weights, sizes)
    bags, rows = np.flatnonzero(positive), np.flatnonzero(~instance_positive)
    members = np.flatnonzero(instance_positive)
    place = np.concatenate(
        [np.repeat(np.arange(len(bags)), sizes[bags]), len(bags) + np.arange(len(rows))]
    )
    entries = np.concatenate([np.repeat(1.0 / sizes[bags], sizes[bags]), np.ones(len(rows))])
    total = C * weights[bags].sum()
    negative = instance_weights[rows]
    return Items(
        pooling=sparse.csr_array(
            (entries, (place, np.concatenate([members, rows]))),
            shape=(len(bags) + len(rows), int(offsets[-1])),
        ),
        signs=np.concatenate([np.ones(len(bags)), -np.ones(len(rows))]),
        margins=np.concatenate([(2.0 - sizes[bags]) / sizes[bags], np.ones(len(rows))]),
        costs=np.concatenate([C * weights[bags], total * negative / negative.sum()]),
    )


def inherited_items(signs: np.ndarray, costs: np.ndarray) -> Items:
    """Each instance with a sign and a cost, and a margin of one: an SVM."""
    n = len(signs)
    return Items(sparse.eye_array(n, format="csr"), signs, np.ones(n), costs)


def solve_margins(
    gram: np.ndarray,
    items: Items,
    *,
    tol: float,
    points: Matrix | None = None,
) -> MarginSolution:
    """Solve the convex problem above.

    Parameters
    ----------
    gram : ndarray of shape (n_instances, n_instances)
    items : Items
    tol : float
        Precision of the quadratic program.
    points : ndarray or CSR of shape (n_instances, n_features), default=None
        The instances, where the kernel is linear.

    Raises
    ------
    milearn.exceptions.SolverError
        When the quadratic program is not solved, and the kernel is not linear.
    """

    def by_dual() -> MarginSolution:
        return margin_solution(gram, items, _multipliers(gram, items, tol=tol), points)

    return margins_or_primal(by_dual, items, points)


def margins_or_primal(
    dual: Callable[[], MarginSolution], items: Items, points: Matrix | None
) -> MarginSolution:
    """The solution by multipliers; of the linear kernel the better one of both, as needed."""
    if points is None:
        return dual()
    try:
        found = dual()
    except SolverError:
        return _by_newton(items, points)
    if found.dual_gap <= _LOOSE_GAP * max(abs(found.objective), found.objective_scale):
        return found
    other = _by_newton(items, points)
    return found if found.objective <= other.objective else other


def margin_solution(
    gram: np.ndarray, items: Items, multipliers: np.ndarray, points: Matrix | None
) -> MarginSolution:
    """The function that multipliers of the items stand for, and its certificate."""
    beta = items.pooling.T @ (items.signs * multipliers)
    if points is None:
        w, scores = None, gram @ beta
        norm2 = float(beta @ scores)
    else:
        w = np.asarray(points.T @ beta)
        scores = np.asarray(points @ w)
        norm2 = float(w @ w)
    intercept, objective = _value(items, scores, norm2)
    return MarginSolution(
        beta=beta,
        w=w,
        scores=scores,
        intercept=intercept,
        objective=objective,
        dual_gap=objective - float(items.margins @ multipliers - 0.5 * norm2),
        objective_scale=rounding_scale(items.costs),
    )


def _value(items: Items, scores: np.ndarray, norm2: float) -> tuple[float, float]:
    """The best intercept, and the objective with it."""
    signs, margins, costs = items.signs, items.margins, items.costs
    values = items.pooling @ scores
    intercept = optimal_intercept(values - signs * (margins - 1.0), signs, costs)
    slacks = margins - signs * (values + intercept)
    return intercept, 0.5 * norm2 + float(costs @ np.maximum(0.0, slacks))


def _by_newton(items: Items, points: Matrix) -> MarginSolution:
    """The problem in w, for the linear kernel."""
    used = np.flatnonzero(items.costs > 0)
    signs, costs = items.signs[used], items.costs[used]
    rows = sparse.diags_array(-signs).tocsr() @ (items.pooling[used] @ points)
    offsets = np.arange(len(used) + 1)
    problem = GroupProblem(rows, -signs, offsets, costs, items.margins[used])
    found = solve_groups(problem, np.zeros(points.shape[1]), 0.0, gap_tol=_PRIMAL_GAP)
    scores = np.asarray(points @ found.w)
    intercept, objective = _value(items, scores, float(found.w @ found.w))
    return MarginSolution(
        beta=items.pooling[used].T @ (signs * costs * found.proportions),
        w=found.w,
        scores=scores,
        intercept=intercept,
        objective=objective,
        dual_gap=objective - found.lower_bound,
        objective_scale=rounding_scale(items.costs),
    )


def _multipliers(gram: np.ndarray, items: Items, *, tol: float) -> np.ndarray:
    """Of each item, from a quadratic program over those that count."""
    signs, costs, margins = items.signs, items.costs, items.margins
    images = items.pooling @ gram  # of the items with all instances
    active = _first_active(items, images)
    while True:
        products = np.asarray(items.pooling @ images[active].T)  # of all items with the active ones
        own = signs[active]
        problem = QPProblem(
            own[:, None] * products[active] * own,
            -margins[active],
            A=own[None],
            b=np.zeros(1),
            lb=np.zeros(len(active)),
            ub=costs[active],
        )
        a = np.clip(solve_qp(problem, tol=tol).x, 0.0, costs[active])
        scores = products @ (own * a)
        norm = float((own * a) @ scores[active])
        intercept = optimal_intercept(scores - signs * (margins - 1.0), signs, costs)
        slacks = margins - signs * (scores + intercept)
        objective = 0.5 * norm + float(costs @ np.maximum(0.0, slacks))
        gap = objective - float(margins[active] @ a - 0.5 * norm)
        missing = np.setdiff1d(np.flatnonzero(slacks > 0.0), active)
        if not len(missing) or gap <= tol * objective:
            break
        worst = missing[np.argsort(-slacks[missing], kind="stable")[: max(_FIRST, len(active))]]
        active = np.sort(np.concatenate([active, worst]))
        if 2 * len(active) > len(signs):
            active = np.arange(len(signs))  # one more program, where parts would need several
    multipliers = np.zeros(len(signs))
    multipliers[active] = a
    return multipliers


def _first_active(items: Items, images: np.ndarray) -> np.ndarray:
    """The items of the first program: all of few ones, else all positive and some negative ones.

    Most instances of negative bags are far below their margin, and their multipliers are zero. The
    negative items taken are those most like the positive ones, less what they are like each other.
    """
    n = len(items.signs)
    if n <= _MAX_WHOLE:
        return np.arange(n)
    positive = items.signs > 0
    weights = np.where(positive, items.costs / items.costs[positive].sum(), 0.0)
    weights -= np.where(positive, 0.0, items.costs / items.costs[~positive].sum())
    likeness = np.asarray(items.pooling @ (weights @ images))
    order = np.argsort(np.where(positive, -np.inf, -likeness), kind="stable")
    return np.sort(order[: int(positive.sum()) + _FIRST])


def solve_transductive(
    gram: np.ndarray,
    items: Items,
    unsigned: tuple[np.ndarray, np.ndarray, np.ndarray],
    *,
    max_iter: int,
    **options: Any,
) -> MarginSolution:
    """Lower the problem with [1 - |f(x)|]_+ over unsigned instances, from their first signs.

    Parameters
    ----------
    gram, items
        As for :func:`solve_margins`.
    unsigned : (rows, costs, signs)
        The instances, their costs and first signs.
    max_iter : int
        Maximum number of quadratic programs.
    **options
        As for :func:`solve_margins`.
    """
    rows, costs, signs = unsigned
    n = len(rows)
    chosen = sparse.csr_array((np.ones(n), (np.arange(n), rows)), shape=(n, gram.shape[0]))
    pooling = sparse.csr_array(sparse.vstack([items.pooling, chosen, chosen]))
    n_iter, converged = 0, False
    while n_iter < max_iter and not converged:
        extended = Items(
            pooling,
            np.concatenate([items.signs, signs, signs]),
            np.concatenate([items.margins, np.ones(n), -np.ones(n)]),
            np.concatenate([items.costs, costs, costs]),
        )
        found = solve_margins(gram, extended, **options)
        last, signs = signs, np.where(found.scores[rows] + found.intercept > 0, 1.0, -1.0)
        n_iter, converged = n_iter + 1, bool((signs == last).all())
    found.n_iter, found.converged = n_iter, converged
    return found
