"""The best matching of clusters to classes, against all matchings."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from milearn.metrics import clustering_accuracy


def test_equals_the_best_of_all_matchings():
    rng = np.random.default_rng(0)
    for n_classes, n_clusters in ((3, 3), (2, 4), (4, 2)):
        for _ in range(10):
            y, found = rng.integers(n_classes, size=25), rng.integers(n_clusters, size=25)
            # Classes -1, -2, ... are none: clusters matched with them are wrong.
            names = [*range(n_classes), *range(-1, -n_clusters - 1, -1)]
            expected = max(
                np.mean(np.array(names_of)[found] == y)
                for names_of in permutations(names, n_clusters)
            )
            assert clustering_accuracy(y, found) == pytest.approx(expected)


def test_names_do_not_matter():
    y = ["fox", "fox", "tiger", "elephant"]
    assert clustering_accuracy(y, [7, 7, 3, 5]) == 1.0
    assert clustering_accuracy(y, np.zeros(4)) == 0.5


def test_what_is_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clustering_accuracy([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="the accuracy is undefined for empty input"):
        clustering_accuracy([], [])
