"""Starts of M3IC from k-means, without the warnings of k-means about equal points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans

from milearn._bags.blocks import ArraySource
from milearn._solvers.cluster.initial_weights import k_means_weights


def start_of(points, n_clusters, rounds=0, seed=0):
    """A start for bags of one instance each, which are the points."""
    source = ArraySource(points, np.arange(points.shape[0] + 1))
    return k_means_weights(source, points, n_clusters, np.random.RandomState(seed), rounds)


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("n_distinct", [1, 2, 3])
def test_fewer_distinct_points_than_clusters_share_centres(form, n_distinct):
    # A warning is an error here: k-means gives one when it is asked for more than there are.
    points = np.repeat(np.eye(4)[:n_distinct] + 0.5, 5, axis=0)
    for rounds in (0, 3):
        start = start_of(form(points), 4, rounds)
        assert start.shape == (4, 4)
        assert len(np.unique(start.round(6), axis=0)) == n_distinct
        np.testing.assert_allclose(start.mean(axis=0), 0.0, atol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_points_that_differ_by_rounding_are_one(form):
    points = 1e6 + np.zeros((6, 2))
    points[3:] *= 1.0 + 4e-16
    assert len(np.unique(points, axis=0)) == 2
    assert (start_of(form(points), 2) == 0).all()


def test_centres_are_those_of_k_means():
    points = np.random.default_rng(0).normal(size=(30, 3))
    seed = np.random.RandomState(7).randint(2**31 - 1)
    centres = KMeans(4, n_init=3, random_state=seed).fit(points).cluster_centers_
    start = start_of(points, 4, seed=7)
    np.testing.assert_allclose(start, centres - centres.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_start_is_the_mean_witnesses_of_clusters(form):
    # Instances are ten times a unit vector, which is the witness, or of small numbers.
    kinds = np.arange(12) % 3
    X = np.random.default_rng(0).random((48, 5))
    X[4 * np.arange(12) + 1] = 10.0 * np.eye(5)[kinds]
    source, points = ArraySource(form(X), np.arange(0, 49, 4)), np.eye(3)[kinds]
    start = k_means_weights(source, points, 3, np.random.RandomState(0), rounds=3)
    found = start[start.argmax(axis=0)[:3]]
    np.testing.assert_allclose(found, 10.0 * (np.eye(3, 5) - np.eye(3, 5).mean(axis=0)))
