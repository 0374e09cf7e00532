"""Naive counterparts of what the solvers of the ensembles do."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog


def all_columns(X):
    """Every stump on the rows of X as a column of -1 and 1, and the constants."""
    columns = [np.ones(len(X)), -np.ones(len(X))]
    for values in X.T:
        for cut in np.unique(values)[1:]:
            columns += [np.where(values >= cut, 1.0, -1.0), np.where(values >= cut, -1.0, 1.0)]
    return np.array(columns)


def solved(c, A, b, equal=None):
    """min c'z over Az >= b, Ez = e, z >= 0."""
    E, e = (None, None) if equal is None else equal
    found = linprog(c, A_ub=-A, b_ub=-b, A_eq=E, b_eq=e, method="highs")
    assert found.status == 0, found.message
    return found.fun


def enumerated(problem, H):
    """Minimum of (5) over the learners H: one linear program for each choice of witnesses."""
    r = len(problem.points)
    signed, best = problem.signs[:, None] * H[:, problem.points].T, np.inf
    cost = np.r_[np.ones(len(H)), problem.costs, problem.member_costs]
    slack = np.eye(r + len(problem.members))
    for choice in itertools.product(*problem.members):
        rows = np.hstack([np.vstack([signed, H[:, list(choice)].T]), slack])
        best = min(best, solved(cost, rows, np.ones(len(slack))))
    return best


def value_of_own_learners(model, X, y, C, weights):
    """The linear program over the learners of a fitted DPBoost with its witnesses, by SciPy."""
    witnesses = model.witnesses_[y == 1]
    negative = np.flatnonzero(y[X.bag_index] == 0)
    rows, signs = (
        np.r_[witnesses, negative],
        np.repeat([1.0, -1.0], [len(witnesses), len(negative)]),
    )
    costs = C * weights[X.bag_index[rows]]
    H = np.array([each.predict(X.instances[rows]) for each in model.learners_])
    A = np.hstack([signs[:, None] * H.reshape(-1, len(rows)).T, np.eye(len(rows))])
    return solved(np.r_[np.ones(len(H)), costs], A, np.ones(len(rows)))
