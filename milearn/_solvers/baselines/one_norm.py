r"""The 1-norm support vector machine as a linear program whose columns are generated.

    min_{w, b, xi}  sum_k |w_k| + sum_i c_i xi_i
    s. t.           y_i (<w, s_i> + b) + xi_i >= 1,  xi_i >= 0

Its dual is max sum_i a_i with |sum_i a_i y_i s_ik| <= 1 for every feature k, sum_i a_i y_i = 0 and
0 <= a_i <= c_i. The program starts without features. MILES has a feature for each training
instance, of which only a few are needed: between the Newton steps of an interior point method, the
features are added whose constraint is violated most. Multipliers that are scaled to be feasible for
all features give the lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from ..common.cccp import optimal_intercept
from ..common.soft_margin_lp import SoftMarginLP

_MAX_STEPS = 200
# Newton steps without progress of the gap after which rounding is the reason.
_PATIENCE = 25
_PROGRESS = 0.95
_FEATURES_PER_STEP = 50
# The barrier parameter as a fraction of the gap over all features.
_AHEAD = 0.1
# Relative gap at which the search ends.
_TOL = 1e-10
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
    # Number of Newton steps.
    n_iter: int


def solve_one_norm(rows: np.ndarray, signs: np.ndarray, costs: np.ndarray) -> OneNormSolution:
    """Solve the program above over all features, unless rounding ends the search.

    Parameters
    ----------
    rows : ndarray of shape (n_bags, n_features)
    signs : ndarray of shape (n_bags,), of -1 and 1
    costs : ndarray of shape (n_bags,), above zero
    """
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
        scores = signs * master.back(alpha)
        b = optimal_intercept(scores, signs, costs)
        value = alpha.sum() + float(costs @ np.maximum(0.0, 1.0 - signs * (scores + b)))
        if value <= best:
            # The weights with smaller products vanish at the optimum.
            weights = np.where(alpha > s, directions * alpha, 0.0)
            coef = np.bincount(features, weights, rows.shape[1]).astype(np.float64)
            best = value
        gap = best - bound
        waited = 0 if gap < _PROGRESS * least else waited + 1
        least = min(least, gap)
        if gap <= _TOL * max(1.0, best) or waited > _PATIENCE or n_iter >= _MAX_STEPS:
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
    scores = rows @ coef
    intercept = optimal_intercept(scores, signs, costs)
    slack = np.maximum(0.0, 1.0 - signs * (scores + intercept))
    objective = float(np.abs(coef).sum() + costs @ slack)
    return OneNormSolution(coef, intercept, objective, bound, n_iter)


def _balanced(y: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Multipliers of which those of the heavier class are lowered, so that the sums are equal."""
    sums = np.array([y[signs < 0].sum(), y[signs > 0].sum()])
    return np.asarray(y * (sums.min() / sums)[(signs > 0).astype(np.intp)])
