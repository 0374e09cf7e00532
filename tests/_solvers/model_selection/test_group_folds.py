"""Assignments of groups to folds: equal to enumeration, and bounds that hold."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from milearn._solvers.model_selection.group_folds import (
    InfeasibleFoldsError,
    assign_groups,
    deviation_of,
    division_bound,
)
from milearn.exceptions import SolverError


def enumerated(table, weights, n_folds, required):
    """Smallest deviation of all assignments, by its definition; infinite without a feasible one."""
    best = np.inf
    totals = table.sum(axis=0)
    for choice in product(range(n_folds), repeat=len(table) - 1):
        counts = np.zeros((n_folds, table.shape[1]))
        for row, fold in zip(table, (0, *choice), strict=True):
            counts[fold] += row
        if (counts[:, required] > 0).all():
            proportions = np.abs(counts / totals - 1 / n_folds).sum(axis=0)
            best = min(best, float(proportions @ weights) / 2)
    return best


@pytest.mark.parametrize("n_folds", [2, 3])
@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_equal_to_enumeration(seed, n_columns, n_folds):
    rng = np.random.default_rng(seed)
    # Sizes with a heavy tail, so that the best folds are often far from equal.
    table = np.floor(rng.lognormal(1, 1.2, size=(7, n_columns))).astype(int)
    table[0] += 1
    weights = rng.uniform(0.2, 1, size=n_columns)
    required = np.arange(n_columns) < 1
    expected = enumerated(table, weights, n_folds, required)
    settings = {"required": required, "time_limit": None}
    if np.isinf(expected):
        with pytest.raises(InfeasibleFoldsError):
            assign_groups(table, weights, n_folds, start=None, **settings)
        return
    without = assign_groups(table, weights, n_folds, start=None, **settings)
    start = without.folds[::-1] if (table[:, 0] > 0).all() else without.folds
    for found in (without, assign_groups(table, weights, n_folds, start=start, **settings)):
        assert found.is_optimal
        np.testing.assert_allclose(found.deviation, expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.bound, expected, rtol=0, atol=1e-7)
        np.testing.assert_allclose(
            deviation_of(table, weights, n_folds, found.folds), expected, rtol=0, atol=1e-9
        )


def test_the_bound_of_division_is_attained_by_single_bags():
    table = np.repeat(np.eye(2, dtype=int), [7, 11], axis=0)
    weights = np.array([0.5, 0.5])
    found = assign_groups(
        table, weights, 4, start=None, required=np.array([True, True]), time_limit=None
    )
    expected = enumerated(np.ones((7, 1), int), np.ones(1), 4, np.array([True])) / 2
    expected += 0.5 * (3 * 0.25 + 1 * 0.75) / (2 * 11)
    np.testing.assert_allclose(found.deviation, expected)
    np.testing.assert_allclose(division_bound(table, weights, 4), expected)


def test_time_is_limited_and_the_start_is_kept_or_improved():
    rng = np.random.default_rng(3)
    table = np.floor(rng.lognormal(3, 1.0, size=(40, 4))).astype(int) + 1
    weights, required = np.full(4, 0.25), np.ones(4, dtype=bool)
    start = np.arange(40) % 5
    found = assign_groups(table, weights, 5, start=start, required=required, time_limit=0.0)
    assert found.deviation < deviation_of(table, weights, 5, start)
    assert division_bound(table, weights, 5) <= found.bound < found.deviation
    assert not found.is_optimal
    with pytest.raises(SolverError, match="No assignment to folds was found within"):
        assign_groups(table, weights, 5, start=None, required=required, time_limit=0.0)
