"""Spatial graphs of instances against a loop over pairs; what is refused."""

from __future__ import annotations

import tracemalloc

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from milearn import Bags
from milearn.structured import spatial_graph


def placed(positions, sizes):
    positions = np.asarray(positions)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    features = np.arange(2.0 * len(positions)).reshape(-1, 2)
    return Bags(features, offsets, instance_data={"coords": positions})


def naive(bags, k, radius):
    """Distances between the instances that are joined, NaN for the others."""
    positions, n = bags.instance_data.to_numpy(), bags.n_instances
    near = np.zeros((n, n), dtype=bool)
    distance = np.zeros((n, n))
    for i in range(n):
        mates = [j for j in range(n) if j != i and bags.bag_index[j] == bags.bag_index[i]]
        for j in mates:
            distance[i, j] = np.sqrt(((positions[i] - positions[j]) ** 2).sum())
        reach = np.inf if radius is None else radius
        if k is not None and mates:
            nearest = sorted(distance[i, j] for j in mates)[min(k, len(mates)) - 1]
            reach = min(reach, nearest * (1 + 1e-9))
        for j in mates:
            near[i, j] = distance[i, j] <= reach
    return np.where(near | near.T, distance, np.nan)


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    # A small grid: ties and instances at one place are the rule.
    grid=st.integers(1, 4),
    k=st.sampled_from([None, 1, 2, 4, 50]),
    radius=st.sampled_from([None, 0.5, 1.0, 1.5, 10.0]),
    seed=st.integers(0, 99),
)
def test_equals_a_loop_over_pairs(sizes, grid, k, radius, seed):
    hypothesis.assume(k is not None or radius is not None)
    rng = np.random.default_rng(seed)
    bags = placed(rng.integers(0, grid, size=(sum(sizes), 2)), sizes)
    graph = spatial_graph(bags, k, radius)
    expected = naive(bags, k, radius)
    np.testing.assert_array_equal(graph.toarray(), ~np.isnan(expected))
    own = bags.bag_index
    rows, columns = graph.nonzero()
    assert (own[rows] == own[columns]).all()
    # The bags one by one give the same: no bag changes the graph of another.
    blocks = [spatial_graph(bags[[at]], k, radius).toarray() for at in range(len(bags))]
    for at, block in enumerate(blocks):
        first, last = bags.offsets[at : at + 2]
        np.testing.assert_array_equal(graph.toarray()[first:last, first:last], block)


@pytest.mark.parametrize("dimensions", [1, 3])
def test_positions_of_any_dimension(dimensions):
    rng = np.random.default_rng(1)
    positions = rng.normal(size=(30, dimensions))
    bags = placed(positions[:, 0] if dimensions == 1 else positions, [10, 15, 5])
    graph = spatial_graph(bags, k=3)
    np.testing.assert_array_equal(graph.toarray(), ~np.isnan(naive(bags, 3, None)))


def test_weights():
    bags = placed(np.random.default_rng(2).normal(size=(25, 2)), [12, 12, 1])
    distances = naive(bags, 4, None)
    linked = ~np.isnan(distances)
    gaussian = spatial_graph(bags, k=4, weights="gaussian").toarray()
    expected = np.zeros_like(distances)
    for bag in range(2):
        own = np.ix_(bags.bag_index == bag, bags.bag_index == bag)
        scale = np.nanmedian(distances[own])
        expected[own] = np.nan_to_num(np.exp(-0.5 * (distances[own] / scale) ** 2))
    np.testing.assert_allclose(gaussian, expected, rtol=1e-12)
    np.testing.assert_array_equal(gaussian, gaussian.T)
    own = spatial_graph(bags, k=4, weights=lambda d: 1 / (1 + d)).toarray()
    np.testing.assert_allclose(own[linked], 1 / (1 + distances[linked]), rtol=1e-12)
    assert (own[~linked] == 0).all()
    together = placed(np.zeros((4, 2)), [4])
    np.testing.assert_array_equal(
        spatial_graph(together, k=1, weights="gaussian").toarray(), 1 - np.eye(4)
    )


def test_bags_of_one_instance_and_no_bags_have_no_links():
    assert spatial_graph(placed(np.zeros((3, 2)), [1, 1, 1]), k=2).nnz == 0
    assert spatial_graph(placed(np.zeros((3, 2)), [1, 1, 1]), radius=2.0).nnz == 0
    empty = Bags(np.empty((0, 2)), [0], instance_data={"coords": np.empty((0, 2))})
    assert spatial_graph(empty, k=1).shape == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({}, ValueError, "k and radius are both None"),
        ({"radius": 0}, ValueError, "radius=0 must be a number above 0"),
        ({"k": 1, "weights": lambda d: d[:0]}, ValueError, "one weight per distance"),
        ({"k": 1, "coords": "place"}, ValueError, "instance_data has no column 'place'"),
    ],
)
def test_refuses(arguments, error, match):
    bags = placed(np.arange(6).reshape(3, 2), [3])
    with pytest.raises(error, match=match):
        spatial_graph(bags, **arguments)


def test_refuses_positions_that_are_none():
    with pytest.raises(TypeError, match="bags is list"):
        spatial_graph([[[1.0]]], k=1)
    with pytest.raises(ValueError, match=r"of instance 2 in bag 1 is not finite"):
        spatial_graph(placed([[0, 0], [0, 1], [np.inf, 0]], [2, 1]), k=1)
    with pytest.raises(ValueError, match=r"instance_data\['coords'\] holds text"):
        spatial_graph(placed([["a"], ["b"]], [2]), k=1)


def test_instances_at_one_position_take_no_memory_of_python_objects():
    bags = Bags(np.zeros((500, 1)), [0, 500], instance_data={"coords": np.zeros((500, 2))})
    spatial_graph(bags[:1], k=1)
    tracemalloc.start()
    graph = spatial_graph(bags, k=5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.nnz == 500 * 499
    assert peak < 80 * graph.nnz


def test_thousands_of_instances_at_one_position_are_refused():
    # Coordinates left at zero: 3,000 instances took 947 MB.
    bags = Bags(np.zeros((3000, 1)), [0, 3000], instance_data={"coords": np.zeros((3000, 2))})
    with pytest.raises(ValueError, match="3000 of them are as near as the last one: give positio"):
        spatial_graph(bags, k=5)
    grid = np.stack(np.meshgrid(np.arange(60.0), np.arange(50.0)), axis=-1).reshape(-1, 2)
    placed = Bags(np.zeros((3000, 1)), [0, 3000], instance_data={"coords": grid})
    assert spatial_graph(placed, k=5).nnz < 8 * 3000
