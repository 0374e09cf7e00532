"""BAMIC against loops and enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from milearn import BAMIC, Bags
from milearn._kernels import memory
from milearn._solvers.cluster.k_medoids import k_medoids, spread_medoids
from milearn.metrics import bag_distances, clustering_accuracy


def groups_of_bags(n_bags=30, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 3
    sizes = rng.integers(1, 5, size=n_bags)
    centres = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    instances = np.repeat(centres[y], sizes, axis=0) + rng.normal(size=(sizes.sum(), 2))
    return Bags(instances, np.concatenate([[0], np.cumsum(sizes)])), y


def one_run(distances, medoids):
    """The algorithm as the paper states it, one start, one item at a time."""
    medoids, k = list(medoids), len(medoids)
    while True:
        labels = [int(np.argmin([distances[i, m] for m in medoids])) for i in range(len(distances))]
        new = []
        for p in range(k):
            members = [i for i, label in enumerate(labels) if label == p]
            sums = [sum(distances[i, j] for j in members) for i in members]
            # Of two members each is as central as the other: the medoid stays.
            stays = sums[members.index(medoids[p])] <= min(sums) * (1 + 1e-12)
            new.append(medoids[p] if stays else members[int(np.argmin(sums))])
        if new == medoids:
            return labels, sum(distances[i, medoids[label]] for i, label in enumerate(labels))
        medoids = new


def test_all_starts_side_by_side_equal_one_after_another():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        distances = cdist(points := rng.normal(size=(40, 2)), points)
        starts = np.array([rng.choice(40, 4, replace=False) for _ in range(6)])
        runs = [one_run(distances, start) for start in starts]
        for start, (labels, value) in zip(starts, runs, strict=True):
            alone = k_medoids(distances, start[None], max_iter=100)
            assert alone.objective == pytest.approx(value, rel=1e-12)
            np.testing.assert_array_equal(alone.labels, labels)
        best = k_medoids(distances, starts, max_iter=100)
        assert best.objective == pytest.approx(min(value for _, value in runs), rel=1e-12)
        assert np.diff(best.history).max(initial=0.0) <= 1e-12
        assert best.history[-1] == best.objective
        assert best.stopped == ""


def test_starts_reach_the_best_medoids_of_few_items():
    points = np.random.default_rng(1).normal(size=(12, 2))
    distances = cdist(points, points)
    expected = min(distances[list(m)].min(axis=0).sum() for m in combinations(range(12), 3))
    model = BAMIC(3, n_init=200, random_state=0).fit(points)
    assert model.objective_ == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("metric", ["min", "max", "mean"])
@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_groups_are_found(metric, init):
    X, y = groups_of_bags()
    model = BAMIC(3, metric=metric, init=init, random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    distances = bag_distances(X, metric=metric)
    assert model.objective_ == pytest.approx(distances[:, model.medoids_].min(axis=1).sum())
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    for position, bag in zip(model.medoids_, model.medoid_bags_, strict=True):
        np.testing.assert_array_equal(bag, X[int(position)])
    new, y_new = groups_of_bags(seed=1)
    assert clustering_accuracy(y_new, model.predict(new)) == 1.0


def test_medoids_of_a_sample_are_those_of_its_bags_and_all_bags_are_assigned():
    X, y = groups_of_bags(90)
    model = BAMIC(3, max_samples=25, init="k-means++", random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    near = np.array([[mean_hausdorff(bag, X[int(m)]) for m in model.medoids_] for bag in X])
    np.testing.assert_array_equal(model.labels_, near.argmin(axis=1))
    assert model.objective_ == pytest.approx(near.min(axis=1).sum())
    # Fewer distances are summed in the runs.
    assert model.objective_history_[-1] < 0.5 * model.objective_
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    every = BAMIC(3, init="k-means++", random_state=0).fit(X)
    assert every.objective_ <= model.objective_ < 1.2 * every.objective_


def mean_hausdorff(a, b):
    between = cdist(a, b)
    return (between.min(axis=1).sum() + between.min(axis=0).sum()) / sum(between.shape)


def test_given_medoids_and_one_bag_per_cluster_are_in_every_sample():
    X, y = groups_of_bags()
    for max_samples in (None, 1):
        model = BAMIC(3, init=[2, 1, 0], n_init=1, max_samples=max_samples, random_state=0).fit(X)
        np.testing.assert_array_equal(model.labels_, 2 - y)
    assert len(set(BAMIC(4, max_samples=1, random_state=0).fit(X).medoids_)) == 4
    same = BAMIC(3, max_samples=4, random_state=0).fit([np.ones((2, 2))] * 9)
    assert set(same.labels_) == {0, 1, 2}


def test_identical_bags_leave_no_cluster_empty():
    model = BAMIC(3, random_state=0).fit([np.ones((2, 2))] * 5)
    assert set(model.labels_) == {0, 1, 2}
    assert model.objective_ == 0.0
    assert model.converged_
    rng = np.random.RandomState(0)
    assert len(set(spread_medoids(np.zeros((5, 5)), 4, rng))) == 4


def test_a_start_that_is_cut_short_says_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    message = "BAMIC stopped at max_iter=1 before convergence"
    with pytest.warns(ConvergenceWarning, match=message):
        model = BAMIC(5, n_init=1, max_iter=1, random_state=0).fit(X)
    nearest = cdist(X, X)[:, model.medoids_]
    np.testing.assert_array_equal(model.labels_, nearest.argmin(axis=1))
    assert model.objective_ == pytest.approx(nearest.min(axis=1).sum())


def test_what_is_refused():
    X, _ = groups_of_bags(6)
    with pytest.raises(ValueError, match=r"^n_clusters=7 but there are 6 bags"):
        BAMIC(7).fit(X)
    with pytest.raises(ValueError, match=r"^init has shape \(2,\) and type int64: give 3 integers"):
        BAMIC(3, init=[0, 1]).fit(X)
    with pytest.raises(ValueError, match=r"^init holds positions outside of 0 to 5"):
        BAMIC(2, init=[0, 6]).fit(X)
    with pytest.raises(ValueError, match=r"^init names a bag twice"):
        BAMIC(2, init=[1, 1]).fit(X)


def test_of_equal_minima_the_first_start_wins_whatever_rounding_says():
    # Both medoids are as good, but 0.1 + 0.2 + 0.3 comes out above 0.3 + 0.2 + 0.1.
    distances = np.array(
        [[0.0, 0.1, 0.2, 0.3], [0.1, 0.0, 1.0, 0.2], [0.2, 1.0, 0.0, 0.1], [0.3, 0.2, 0.1, 0.0]]
    )
    sums = distances.sum(axis=1)
    assert 0.0 < sums[0] - sums[3] < 1e-15
    for starts in ([[0], [3]], [[3], [0]]):
        found = k_medoids(distances, np.array(starts), max_iter=10)
        assert found.medoids.tolist() == starts[0]


def test_distances_that_do_not_fit_are_refused_before_they_are_computed(monkeypatch):
    X, _ = groups_of_bags(400)
    model = BAMIC(3, n_init=1, random_state=0).fit(X)
    monkeypatch.setattr(memory, "available_memory", lambda: 8.0 * len(X) ** 2 - 1)
    with pytest.raises(MemoryError, match="are available"):
        BAMIC(3).fit(X)
    with pytest.raises(MemoryError, match="are available"):
        model.fit(X)
    monkeypatch.undo()
    np.testing.assert_array_equal(model.predict(X), model.labels_)
