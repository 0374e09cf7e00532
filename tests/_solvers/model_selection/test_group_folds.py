"""Assignments of groups to folds that no exchange improves."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from milearn._solvers.model_selection.group_folds import exchanged


def deviation_of(table, weights, n_folds, folds):
    counts = np.array([table[folds == fold].sum(axis=0) for fold in range(n_folds)])
    return np.abs(counts / table.sum(axis=0) - 1 / n_folds).sum(axis=0) @ weights / 2


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
@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_no_move_and_no_exchange_lowers_the_deviation(seed, n_columns, n_folds):
    rng = np.random.default_rng(seed)
    # Sizes with a heavy tail, so that the best folds are often far from equal.
    table = np.floor(rng.lognormal(1, 1.2, size=(7, n_columns))).astype(int)
    table[:, 0] += 1
    weights, required = rng.uniform(0.2, 1, size=n_columns), np.arange(n_columns) < 1
    start = np.arange(7) % n_folds
    folds = exchanged(table, weights, start, required)
    found = deviation_of(table, weights, n_folds, folds)
    best = enumerated(table, weights, n_folds, required)
    assert best <= found + 1e-12
    assert found <= deviation_of(table, weights, n_folds, start)
    for group, other in product(range(7), range(7 + n_folds)):
        changed = folds.copy()
        changed[group] = folds[other] if other < 7 else other - 7
        if other < 7:
            changed[other] = folds[group]
        if len(set(changed)) == n_folds:
            assert deviation_of(table, weights, n_folds, changed) >= found - 1e-9


def test_single_bags_are_divided():
    table = np.repeat(np.eye(2, dtype=int), [7, 11], axis=0)
    weights, required = np.array([0.5, 0.5]), np.array([True, True])
    folds = exchanged(table, weights, np.arange(18) % 4, required)
    expected = enumerated(np.ones((7, 1), int), np.ones(1), 4, np.array([True])) / 2
    expected += 0.5 * (3 * 0.25 + 1 * 0.75) / (2 * 11)
    np.testing.assert_allclose(deviation_of(table, weights, 4, folds), expected)
