"""Held inner products against products, and directions with them against directions without."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn._solvers.common.newton.direction import Rows, newton_direction
from milearn._solvers.common.newton.inner_products import InnerProducts
from milearn._solvers.common.row_stack import RowStack


@pytest.mark.parametrize("kind", [np.asarray, lambda X: RowStack([X.astype(np.float32)])])
def test_rows_are_held_and_dropped_for_lack_of_room(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 7)).astype(np.float32).astype(float)
    products = InnerProducts(kind(X), most=12)
    for size in (3, 5, 12, 1, 12, 9, 4):
        rows = np.sort(rng.choice(40, size, replace=False))
        places = products.places(rows)
        own, y, z = X[rows], rng.normal(size=size), rng.normal(size=7)
        np.testing.assert_allclose(products.kernel(places), own @ own.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(products.scores(places, z), own @ z, rtol=1e-12, atol=1e-12)
        total = products.weighted_sum(places, y)
        np.testing.assert_allclose(total, own.T @ y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("varied", [False, True])
def test_directions_with_held_products_are_those_without(varied):
    rng = np.random.default_rng(0)
    X, E = rng.normal(size=(90, 60)), rng.choice([-1.0, 1.0], size=(90, 1))
    products, ridge = InnerProducts(X, most=50), np.full(61, 2.0)
    ridge[-1] = 0.1
    if varied:
        ridge[3] = 5.0
    for size in (20, 30, 45, 70):
        rows = np.sort(rng.choice(90, size, replace=False))
        starts = np.arange(0, size, 5)
        parts = [
            Rows(
                rows, np.repeat(rng.uniform(1, 9, size=len(starts)), 5), starts, 0.2 * (starts > 9)
            )
        ]
        gradient = rng.normal(size=61)
        found = newton_direction((X, E), parts, gradient, ridge, None, products)
        expected = newton_direction((X, E), parts, gradient, ridge)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    few = products.places(np.arange(5))
    assert len(few) == 5


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_ridge_of_free_variables_may_be_tiny(kind):
    rng = np.random.default_rng(0)
    X, E, rows = rng.normal(size=(30, 60)), rng.normal(size=(30, 2)), np.arange(2, 22)
    starts, share = np.arange(0, 20, 4), np.array([0.0, 0.25, 0.25, 0.0, 0.1])
    part = Rows(rows, np.repeat(rng.uniform(1, 9, size=5), 4), starts, share)
    gradient, ridge = rng.normal(size=62), np.r_[np.full(60, 2.0), 1e-14, 1e-13]
    system = np.diag(ridge)
    part.add_to(system, X, E)
    expected = -np.linalg.solve(system, gradient)
    for products in (None, None if kind is sparse.csr_array else InnerProducts(X)):
        found = newton_direction((kind(X), E), [part], gradient, ridge, None, products)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
