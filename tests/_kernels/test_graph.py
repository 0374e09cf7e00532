"""The miGraph kernel: degrees, cliques, and storage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn._kernels import memory
from milearn._kernels.learned import (
    degree_weights,
    graph_kernel,
    learn_bag_kernel,
    weighted_bags,
)


def test_a_clique_of_alike_instances_counts_as_one():
    # Three near each other and one far away: degrees 3, 3, 3, 1.
    X = np.array([[0.0], [0.1], [0.2], [9.0]])
    np.testing.assert_allclose(degree_weights(X, np.array([0, 4])), [1 / 6, 1 / 6, 1 / 6, 1 / 2])
    # In a bag of two both are linked, whatever their distance.
    np.testing.assert_allclose(degree_weights(X[2:], np.array([0, 1, 2])), 1.0)
    np.testing.assert_allclose(degree_weights(X[2:], np.array([0, 2])), 0.5)


def test_storage_and_blocks_make_no_difference(monkeypatch):
    rng = np.random.default_rng(1)
    X, offsets = rng.normal(size=(30, 4)), np.r_[0, 7, 8, 13, 30]
    X[rng.random(X.shape) < 0.4] = 0.0
    bags = weighted_bags(X, offsets, X.mean(axis=0))
    expected = graph_kernel(bags, bags, 3.0)
    thin = weighted_bags(sparse.csr_array(X), offsets, None)
    np.testing.assert_allclose(graph_kernel(thin, thin, 3.0), expected, rtol=1e-10)
    monkeypatch.setattr("milearn._kernels.pairs.block_shape", lambda: (10, 10))
    np.testing.assert_allclose(graph_kernel(bags, bags, 3.0), expected, rtol=1e-12)


@pytest.mark.parametrize("width", [0.5, 2.0])
def test_features_far_from_the_origin_lose_no_digits(width):
    rng = np.random.default_rng(2)
    X, offsets = rng.normal(size=(20, 3)), np.arange(0, 21, 4)
    _, train = learn_bag_kernel("graph", X, offsets, width=width)
    _, moved = learn_bag_kernel("graph", X + 2.0**20, offsets, width=width)
    np.testing.assert_allclose(moved, train, rtol=1e-6)


def test_bags_whose_pairs_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2.0**26)
    X, offsets = np.random.default_rng(0).normal(size=(3000, 2)), np.array([0, 5, 3000])
    with pytest.raises(MemoryError, match="graph kernel of bags of up to 2995 instances"):
        degree_weights(X, offsets)
