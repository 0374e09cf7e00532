r"""The 1-norm support vector machine as a linear program whose columns are generated.

    min_{w, b, xi}  sum_k |w_k| + sum_i c_i xi_i
    s. t.           y_i (<w, s_i> + b) + xi_i >= 1,  xi_i >= 0

Its dual is max sum_i a_i with |sum_i a_i y_i s_ik| <= 1 for every feature k, sum_i a_i y_i = 0 and
0 <= a_i <= c_i. The program starts without features. While multipliers violate the constraint of a
feature, the features with the largest violations are added, and the program is solved again from
its last basis. MILES has a feature for each training instance, of which only a few are needed. The
simplex method takes long with thousands of bags. For them, features are added between the Newton
steps of an interior point method. Multipliers that are scaled to be feasible for all features give
the lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from ..common.cccp import optimal_intercept
from ..common.lp import LPModel, LPResult
from ..common.soft_margin_lp import SoftMarginLP

_FEATURES_PER_ROUND = 30
_MAX_STEPS = 200
# Newton steps without progress of the gap after which rounding is the reason.
_PATIENCE = 25
_PROGRESS = 0.95
_FEATURES_PER_STEP = 50
# The barrier parameter as a fraction of the gap over all features.
_AHEAD = 0.1
# Features are idle if their weights are at most this fraction of the largest one, and their
# constraint has at least this slack. They are removed if they are a fifth of all.
_IDLE, _IDLE_SLACK, _IDLE_SHARE = 1e-3, 0.05, 0.2


@dataclass
class OneNormSolution:
    """Weights, intercept and bounds."""

    # Of shape (n_features,).
    coef: np.ndarray
    # The middle of the interval of optimal intercepts.
    intercept: float
    # Value of the program at the weights, and of its dual at the scaled multipliers.
    objective: float
    lower_bound: float
    # Number of linear programs that were solved, or of Newton steps.
    n_iter: int


def solve_one_norm(
    rows: np.ndarray,
    signs: np.ndarray,
    costs: np.ndarray,
    *,
    tol: float = 1e-7,
    simplex_bags: int = 500,
) -> OneNormSolution:
    """Solve the program above over all features.

    Parameters
    ----------
    rows : ndarray of shape (n_bags, n_features)
    signs : ndarray of shape (n_bags,), of -1 and 1
    costs : ndarray of shape (n_bags,), above zero
    tol : float, default=1e-7
        Largest absolute violation of a dual constraint.
    simplex_bags : int, default=500
        Number of bags up to which the simplex method is used; above, the interior point method with
        a relative gap of 1e-6.

    Raises
    ------
    milearn.exceptions.SolverError
        If a linear program is not solved.
    """
    n_bags, n_features = rows.shape
    if n_bags > simplex_bags:
        return _by_interior_points(rows, signs, costs)
    model = LPModel()
    slacks = model.add_columns(costs)
    intercept = model.add_columns([0.0], -np.inf)
    margins = model.add_rows(
        np.ones(n_bags),
        starts=2 * np.arange(n_bags),
        columns=np.column_stack([slacks, np.full(n_bags, intercept[0])]).ravel(),
        values=np.column_stack([np.ones(n_bags), signs]).ravel(),
    )
    features = np.zeros(0, dtype=np.intp)
    columns = np.zeros(0, dtype=np.int64)
    directions = np.zeros(0)
    n_iter = 0
    while True:
        result = _solved(model, primal=n_iter > 0)
        n_iter += 1
        multipliers = np.clip(result.y[margins], 0.0, costs)
        products = (multipliers * signs) @ rows
        violation = np.abs(products) - 1.0
        # A feature that is in the program satisfies its constraint up to the precision of HiGHS.
        violation[features[directions == np.sign(products[features])]] = -1.0
        order = np.argsort(-violation, kind="stable")[:_FEATURES_PER_ROUND]
        new = order[violation[order] > tol]
        if not len(new):
            break
        direction = np.sign(products[new])
        made = model.add_columns(
            np.ones(len(new)),
            starts=n_bags * np.arange(len(new)),
            rows=np.tile(margins, len(new)),
            values=(signs[:, None] * rows[:, new] * direction).T.ravel(),
        )
        features, columns = np.r_[features, new], np.r_[columns, made]
        directions = np.r_[directions, direction]
    coef = np.zeros(n_features)
    np.add.at(coef, features, directions * result.x[columns])
    bound = float(multipliers.sum() / max(1.0, np.abs(products).max(initial=0.0)))
    return _solution(rows, signs, costs, coef, bound, n_iter)


def _solution(
    rows: np.ndarray,
    signs: np.ndarray,
    costs: np.ndarray,
    coef: np.ndarray,
    lower_bound: float,
    n_iter: int,
) -> OneNormSolution:
    """The solution with the best intercept for its weights."""
    scores = rows @ coef
    intercept = optimal_intercept(scores, signs, costs)
    slack = np.maximum(0.0, 1.0 - signs * (scores + intercept))
    objective = float(np.abs(coef).sum() + costs @ slack)
    return OneNormSolution(coef, intercept, objective, lower_bound, n_iter)


def _solved(model: LPModel, primal: bool) -> LPResult:
    result = model.solve(primal=primal)
    assert result is not None  # there is no time limit
    return result


def _by_interior_points(
    rows: np.ndarray, signs: np.ndarray, costs: np.ndarray, tol: float = 1e-6
) -> OneNormSolution:
    """Weights of all features with a relative gap of ``tol``, unless rounding ends the search."""
    y = 0.5 * _balanced(costs, signs)
    y /= max(1.0, np.abs((y * signs) @ rows).max(initial=0.0))
    master = SoftMarginLP(costs, y, free=signs[None])
    features, directions = np.zeros(0, dtype=np.intp), np.zeros(0)
    coef: np.ndarray = np.zeros(rows.shape[1])
    best = np.inf
    bound, least, waited, n_iter = 0.0, np.inf, 0, 0
    while True:
        y = _balanced(np.clip(master.at.y, 0.0, costs), signs)
        products = (y * signs) @ rows
        violation = np.abs(products)
        bound = max(bound, float(y.sum()) / max(1.0, violation.max(initial=0.0)))
        violation[features[directions == np.sign(products[features])]] = 0.0
        order = np.argsort(-violation, kind="stable")[:_FEATURES_PER_STEP]
        new = order[violation[order] > 1.0]
        if len(new):
            features, directions = np.r_[features, new], np.r_[directions, np.sign(products[new])]
            master.add((signs[:, None] * rows[:, new] * np.sign(products[new])).T)
        alpha, s = master.at.alpha, master.at.s
        # Features are left out whose weight vanishes at the optimum, if that is not worse.
        for each in (alpha, np.where(alpha > s, alpha, 0.0)):
            scores = signs * master.back(each)
            b = optimal_intercept(scores, signs, costs)
            value = each.sum() + float(costs @ np.maximum(0.0, 1.0 - signs * (scores + b)))
            if value <= best * (1.0 + 1e-9):
                weights = directions * each
                coef = np.bincount(features, weights, rows.shape[1]).astype(np.float64)
                best = min(value, best)
        gap = best - bound
        waited = 0 if gap < _PROGRESS * least else waited + 1
        least = min(least, gap)
        if gap <= tol * max(1.0, best) or waited > _PATIENCE or n_iter >= _MAX_STEPS:
            break
        try:
            master.advance(_AHEAD * gap / master.at.size)
        except LinAlgError:  # the system is singular up to rounding
            break
        n_iter += 1
        alpha, s = master.at.alpha, master.at.s
        idle = (alpha <= _IDLE * s) & (s > _IDLE_SLACK)
        if idle.sum() > _IDLE_SHARE * len(idle):
            master.keep(~idle)
            features, directions = features[~idle], directions[~idle]
    return _solution(rows, signs, costs, coef, bound, n_iter)


def _balanced(y: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Multipliers of which those of the heavier class are lowered, so that the sums are equal."""
    sums = np.array([y[signs < 0].sum(), y[signs > 0].sum()])
    return np.asarray(y * (sums.min() / sums)[(signs > 0).astype(np.intp)])
