r"""The regression that combines models by their scores of bags that they have not seen.

With the scores :math:`z_i` of :math:`m` models it minimises

.. math:: \sum_i w_i \ell(b + v^T z_i, t_i) + \lambda \| v - 1/m \|^2, \qquad v \ge 0,

by the logistic loss, whose targets may lie between 0 and 1, or by half the squared error. With few
bags the combination is near the mean of the models.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from ...exceptions import SolverError

PENALTY = 2.0
# Gradient at which the first method stops, and at most at the end, per weight of all bags.
_STOP, _RESIDUAL = 1e-8, 1e-9
_NEWTON_STEPS = 3


def stacked(
    columns: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    logistic: bool,
    penalty: float = PENALTY,
) -> tuple[np.ndarray, float]:
    """The coefficients v, which are not negative, and the constant b.

    Parameters
    ----------
    columns : ndarray of shape (n_bags, n_models)
        Scores.
    targets, weights : ndarray of shape (n_bags,)
    logistic : bool
        Whether the loss is logistic.
    penalty : float, default=2.0
        The number lambda of the problem.

    Returns
    -------
    coef : ndarray of shape (n_models,)
    constant : float

    Raises
    ------
    SolverError
        If the gradient at the end is too large.
    """
    equal, total = 1.0 / columns.shape[1], float(weights.sum())
    weights, penalty = weights / total, penalty / total
    rows = np.column_stack([columns, np.ones(len(columns))])
    ridge = np.append(np.full(columns.shape[1], 2.0 * penalty), 0.0)

    def objective(given: np.ndarray) -> tuple[float, np.ndarray]:
        away, values = given - equal, rows @ given
        losses, slopes = 0.5 * (values - targets) ** 2, values - targets
        if logistic:
            losses, slopes = np.logaddexp(0.0, values) - targets * values, expit(values) - targets
        gradient = (weights * slopes) @ rows + ridge * away
        return float(weights @ losses + 0.5 * ridge @ away**2), gradient

    start = np.append(np.full(columns.shape[1], equal), 0.0)
    bounds = [(0.0, None)] * columns.shape[1] + [(None, None)]
    options = {"ftol": 0.0, "gtol": _STOP, "maxiter": 1000}
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    ).x
    # Newton's method on the coefficients above zero: the order of the classes changes no digit.
    for _ in range(_NEWTON_STEPS):
        # A step may find that a coefficient was above zero by rounding only.
        free = np.append(found[:-1] > 0, True)
        shares = expit(rows @ found)
        curvature = weights * shares * (1 - shares) if logistic else weights
        system = (rows.T * curvature) @ rows + np.diag(ridge)
        found[free] -= np.linalg.solve(system[np.ix_(free, free)], objective(found)[1][free])
        found[:-1] = np.maximum(found[:-1], 0.0)
    gradient = objective(found)[1]
    gradient = np.where(np.append(found[:-1] > 0, True), gradient, np.minimum(gradient, 0.0))
    residual = float(np.abs(gradient).max()) / max(1.0, float(np.abs(columns).max()))
    if not residual <= _RESIDUAL:
        raise SolverError(f"The regression that combines models has the residual {residual:.1e}.")
    return found[:-1], float(found[-1])
