"""Naive counterparts of what the solvers of the ensembles do."""

from __future__ import annotations

import itertools

import highspy
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
    """Minimum of (5) over the learners H: one linear program for each choice of witnesses.

    The rows of all points of the bags are in one model; a choice frees those that are no witness.
    The best choice is solved again by SciPy, as a program of its own.
    """
    r, p = len(problem.points), len(problem.members)
    places = [(i, x) for i, block in enumerate(problem.members) for x in block]
    slack = np.zeros((len(places), p))
    slack[np.arange(len(places)), [i for i, _ in places]] = 1.0
    A = np.block(
        [
            [problem.signs[:, None] * H[:, problem.points].T, np.eye(r), np.zeros((r, p))],
            [H[:, [x for _, x in places]].T, np.zeros((len(places), r)), slack],
        ]
    )
    cost = np.r_[np.ones(len(H)), problem.costs, problem.member_costs]
    rows = [[r + k for k, (i, _) in enumerate(places) if i == bag] for bag in range(p)]
    n = len(cost)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.addVars(n, np.zeros(n), np.full(n, np.inf))
    highs.changeColsCost(n, np.arange(n, dtype=np.int32), cost)
    lower = np.r_[np.ones(r), np.full(len(places), -np.inf)]
    starts, index = n * np.arange(len(A)), np.tile(np.arange(n), len(A))
    highs.addRows(
        len(A),
        lower,
        np.full(len(A), np.inf),
        A.size,
        starts.astype(np.int32),
        index.astype(np.int32),
        A.ravel(),
    )
    best, witnesses, present = np.inf, None, ()
    for choice in itertools.product(*rows):
        for row in set(present) - set(choice):
            highs.changeRowBounds(row, -np.inf, np.inf)
        for row in set(choice) - set(present):
            highs.changeRowBounds(row, 1.0, np.inf)
        present = choice
        highs.run()
        assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        value = highs.getInfo().objective_function_value
        if value < best:
            best, witnesses = value, choice
    chosen = A[[*range(r), *witnesses]]
    again = solved(cost, chosen, np.ones(len(chosen)))
    assert abs(best - again) <= 1e-8 * max(1.0, again)
    return again
