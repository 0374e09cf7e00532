"""Starts of M3IC from k-means, without the warnings of k-means about equal points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans

from milearn._solvers.cluster.initial_weights import k_means_weights


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("n_distinct", [1, 2, 3])
def test_fewer_distinct_points_than_clusters_share_centres(form, n_distinct):
    # A warning is an error here: k-means gives one when it is asked for more than there are.
    points = np.repeat(np.eye(4)[:n_distinct] + 0.5, 5, axis=0)
    starts = k_means_weights(form(points), 4, 3, np.random.RandomState(0))
    assert len(starts) == 3
    for start in starts:
        assert start.shape == (4, 4)
        assert len(np.unique(start.round(6), axis=0)) == n_distinct
        np.testing.assert_allclose(start.mean(axis=0), 0.0, atol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_points_that_differ_by_rounding_are_one(form):
    points = 1e6 + np.zeros((6, 2))
    points[3:] *= 1.0 + 4e-16
    assert len(np.unique(points, axis=0)) == 2
    (start,) = k_means_weights(form(points), 2, 1, np.random.RandomState(0))
    assert (start == 0).all()


def test_centres_are_those_of_k_means():
    points = np.random.default_rng(0).normal(size=(30, 3))
    seed = np.random.RandomState(7).randint(2**31 - 1)
    centres = KMeans(4, n_init=1, random_state=seed).fit(points).cluster_centers_
    (start,) = k_means_weights(points, 4, 1, np.random.RandomState(7))
    np.testing.assert_array_equal(start, centres - centres.mean(axis=0))
