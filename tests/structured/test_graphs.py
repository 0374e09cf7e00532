"""Graphs of links and of distances, against loops; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn.metrics import bag_distances
from milearn.structured import homophily, knn_bag_graph, link_graph
from tests.bags import random_bags


def naive_links(pairs, n, kind):
    linked = {(int(p), int(q)) for p, q in pairs.T if p != q}
    out = {p: [q for source, q in linked if source == p] for p in range(n)}
    into = {q: [p for p, target in linked if target == q] for q in range(n)}
    graph = np.zeros((n, n))
    for p in range(n):
        for q in range(n):
            if p == q:
                continue
            if kind == "direct":
                graph[p, q] = (p, q) in linked
            elif kind == "cocitation":
                graph[p, q] = sum(1 / len(out[r]) for r in range(n) if p in out[r] and q in out[r])
            else:
                graph[p, q] = sum(
                    1 / len(into[r]) for r in range(n) if p in into[r] and q in into[r]
                )
    return graph


@pytest.mark.parametrize("kind", ["direct", "cocitation", "coupling"])
@pytest.mark.parametrize("seed", range(4))
def test_link_graph_equals_loops(seed, kind):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 9, size=(2, 25))  # loops and repeated links among them
    graph = link_graph(pairs, 9, kind=kind)
    np.testing.assert_allclose(graph.toarray(), naive_links(pairs, 9, kind), atol=1e-14)
    assert graph.diagonal().max() == 0
    assert (graph.data > 0).all()


@pytest.mark.parametrize("kind", ["direct", "cocitation", "coupling"])
def test_link_graph_of_a_matrix_counts_its_pattern_alone(kind):
    pairs = np.array([[0, 0, 3, 2], [1, 2, 2, 2]])
    matrix = sparse.coo_array(([2.0, 7.0, 0.5, 1.0], (pairs[0], pairs[1])), shape=(4, 4))
    expected = link_graph(pairs, 4, kind=kind).toarray()
    np.testing.assert_array_equal(link_graph(matrix, kind=kind).toarray(), expected)


def test_link_graph_of_no_links():
    assert link_graph([[], []], 3).nnz == 0
    assert link_graph(np.zeros((2, 0), dtype=int), 3, kind="cocitation").shape == (3, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"links": [[0], [1]]}, "n is missing"),
        ({"links": [[0, 1], [1, 2]], "n": 2}, "Link 1 goes from 1 to 2 but there are 2 nodes"),
        ({"links": [[0, 1, 2]], "n": 3}, "two rows of integers"),
        ({"links": sparse.csr_array((2, 3))}, "an adjacency matrix must be square"),
        ({"links": sparse.csr_array((2, 2)), "n": 3}, "n=3 but links is a matrix of 2"),
    ],
)
def test_link_graph_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        link_graph(**arguments)


@pytest.mark.parametrize("weighted", [False, True])
def test_homophily_equals_a_loop(weighted):
    rng = np.random.default_rng(1)
    graph = rng.random((12, 12)) * (rng.random((12, 12)) < 0.2)
    graph[:, 4] = graph[4, :] = 0.0  # a node without links has no fraction
    y = np.array([0, 1, 2, None] * 3, dtype=object)
    same, total = np.zeros(12), np.zeros(12)
    for p in range(12):
        for q in range(12):
            if p != q and y[p] is not None and y[q] is not None:
                counts = graph[p, q] if weighted else float(graph[p, q] > 0)
                total[[p, q]] += counts
                same[[p, q]] += counts * (y[p] == y[q])
    linked = total > 0
    assert linked.sum() < 9
    of_links = pytest.approx(same.sum() / total.sum(), rel=1e-13)
    by_node = homophily(graph, y, weighted=weighted, average="node")
    assert by_node == pytest.approx(np.mean(same[linked] / total[linked]), rel=1e-13)
    marked = np.array([-1 if label is None else label for label in y])
    floats = np.array([np.nan if label is None else label for label in y], dtype=float)
    for given, unlabeled in ((y, None), (marked, -1), (floats, None)):
        csr = sparse.csr_array(graph)
        assert homophily(csr, given, weighted=weighted, unlabeled=unlabeled) == of_links


def test_a_group_of_all_with_all_hides_the_other_nodes():
    y = np.array([1] * 20 + [0, 1] * 5)
    graph = np.zeros((30, 30))
    graph[:20, :20] = 1.0
    graph[np.arange(20, 30, 2), np.arange(21, 30, 2)] = 1.0  # pairs of both classes
    assert homophily(graph, y) == pytest.approx(380 / 385)
    assert homophily(graph, y, average="node") == pytest.approx(20 / 30)


def test_homophily_without_links_is_not_a_number():
    assert np.isnan(homophily(np.zeros((3, 3)), [0, 1, 1]))
    assert np.isnan(homophily(np.eye(3), [0, 1, 1]))
    assert np.isnan(homophily(np.ones((2, 2)), [0.0, np.nan]))


def test_homophily_refuses_what_is_no_graph():
    with pytest.raises(ValueError, match=r"graph has the weight -1\.0 between 0 and 1"):
        homophily([[0, -1.0], [0, 0]], [0, 1])
    with pytest.raises(ValueError, match="one class per node"):
        homophily(np.eye(2), [[0, 1], [1, 0]])


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("metric", ["min", "max", "mean"])
def test_knn_graph_equals_a_loop(metric, mutual):
    bags = random_bags(0, 15, 2, 3)
    distances = bag_distances(bags, metric=metric)
    n = len(bags)
    near = np.zeros((n, n), dtype=bool)
    for p in range(n):
        others = sorted((q for q in range(n) if q != p), key=lambda q, p=p: distances[p, q])
        near[p, others[:3]] = True
    expected = near & near.T if mutual else near | near.T
    graph = knn_bag_graph(bags, n_neighbors=3, metric=metric, mutual=mutual)
    np.testing.assert_array_equal(graph.toarray(), expected)
    given = knn_bag_graph(distances, n_neighbors=3, metric="precomputed", mutual=mutual)
    np.testing.assert_array_equal(given.toarray(), expected)
    called = knn_bag_graph(bags, 3, metric=lambda b: bag_distances(b, metric=metric), mutual=mutual)
    np.testing.assert_array_equal(called.toarray(), expected)


def test_knn_graph_of_a_kernel_is_that_of_its_distances():
    bags = random_bags(1, 15, 2, 3)
    means = np.array([block.mean(axis=0) for block in bags])
    graph = knn_bag_graph(bags, 2, kernel=lambda b: np.array([m.mean(0) for m in b]) @ means.T)
    single = knn_bag_graph(means, 2)
    np.testing.assert_array_equal(graph.toarray(), single.toarray())


def test_knn_graph_does_not_let_order_choose_between_equals():
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    order = np.array([2, 0, 3, 1])
    graph = knn_bag_graph(corners, 1).toarray()
    assert (graph.sum(axis=1) == 2).all()  # each corner has two nearest ones
    np.testing.assert_array_equal(
        knn_bag_graph(corners[order], 1).toarray(), graph[np.ix_(order, order)]
    )


def test_knn_graph_of_few_bags():
    assert knn_bag_graph([[[0.0]]]).shape == (1, 1)
    assert knn_bag_graph([[[0.0]], [[1.0]], [[3.0]]], n_neighbors=9).nnz == 6


def test_knn_graph_refuses():
    bags = random_bags(0, 15, 2, 3)
    with pytest.raises(ValueError, match=r"metric returned shape \(2, 2\) for 15 bags"):
        knn_bag_graph(bags, metric=lambda b: np.eye(2))
    with pytest.raises(ValueError, match="not finite"):
        knn_bag_graph(np.full((3, 3), np.nan), metric="precomputed")


def test_given_distances_are_not_written_into():
    distances = bag_distances(random_bags(0, 15, 2, 3))
    before = distances.copy()
    knn_bag_graph(distances, metric="precomputed")
    np.testing.assert_array_equal(distances, before)
