"""Systems that are positive definite but for rounding, against exact solutions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn._solvers.common.newton.direction import GroupPart, newton_direction, solve_positive
from milearn.exceptions import SolverError


def test_where_the_ridge_is_rounding_the_solution_descends_and_is_right_in_the_rows():
    rng = np.random.default_rng(1)
    A = 1e9 * rng.normal(size=(3, 6))
    system, values = A.T @ A + np.eye(6), rng.normal(size=3)
    assert np.linalg.eigvalsh(system)[0] < 0.0  # one up to rounding
    found = solve_positive(system, A.T @ values)
    np.testing.assert_allclose(A @ found, values, rtol=1e-6)
    target = rng.normal(size=6)
    found = solve_positive(system, target)
    assert 0.0 < found @ target <= 1.1 * target @ target


def test_entries_that_are_differences_may_have_lost_all_digits():
    """The rounding error is that of the largest entry."""
    system = np.diag([1e20, -1e4, 0.0])
    target = np.array([1.0, 2.0, 3.0])
    assert 0.0 < solve_positive(system, target) @ target < np.inf


def test_a_system_that_is_far_from_positive_definite_is_an_error():
    with pytest.raises(SolverError, match="not positive definite: scale the features"):
        solve_positive(np.diag([1.0, -2.0]), np.ones(2))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("size", [1.0, 1e9, 1e12])
def test_few_rows_give_the_solution_of_the_whole_system(size, kind):
    rng = np.random.default_rng(2)
    A = size * rng.normal(size=(3, 7))
    A[2] = A[1]  # rows that occur twice
    ridge = rng.uniform(0.5, 2.0, 7)
    rows = GroupPart(np.arange(3), np.ones(3), np.arange(3), np.zeros(3))
    # By the exact inverse on the rows' span, in the metric of the ridge.
    root = np.sqrt(ridge)
    _, s, Vt = np.linalg.svd(A / root, full_matrices=False)
    s[s < 1e-9 * s[0]] = 0.0
    for target in (rng.normal(size=7), A.T @ rng.normal(size=3) / size):
        found = -newton_direction(kind(A), np.zeros((3, 0)), [rows], target, ridge)
        t = target / root
        exact = (t - Vt.T @ ((s**2 / (1.0 + s**2)) * (Vt @ t))) / root
        # The ridge of large rows is rounding, which is replaced by more: the direction is shorter.
        assert 0.0 < found @ target <= (1.0 + 1e-6) * (exact @ target)
        if size == 1.0:
            np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-12)
    # Of a target in the span of the rows nothing is left to the ridge but rounding.
    inside = A @ (Vt[:2].T @ (Vt[:2] @ t / (1.0 + s[:2] ** 2)) / root)
    np.testing.assert_allclose(A @ found, inside, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_ridge_of_free_variables_may_be_tiny(kind):
    rng = np.random.default_rng(0)
    X, E, rows = rng.normal(size=(30, 60)), rng.normal(size=(30, 2)), np.arange(2, 22)
    starts, share = np.arange(0, 20, 4), np.array([0.0, 0.25, 0.25, 0.0, 0.1])
    parts = [GroupPart(rows, np.repeat(rng.uniform(1, 9, size=5), 4), starts, share)]
    gradient, ridge = rng.normal(size=62), np.r_[np.full(60, 2.0), 1e-14, 1e-13]
    system = np.diag(ridge)
    for part in parts:
        system += sum(part.squared(X, E, blocks) for blocks in part.blocks(62))
    found = newton_direction(kind(X), E, parts, gradient, ridge)
    np.testing.assert_allclose(found, -np.linalg.solve(system, gradient), rtol=1e-9, atol=1e-10)
