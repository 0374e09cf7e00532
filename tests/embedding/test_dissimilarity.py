"""BagDissimilarity against a loop over pairs of bags."""

from __future__ import annotations

import numpy as np
import pytest

from milearn.embedding import BagDissimilarity
from milearn.metrics import bag_distances
from tests.toys import two_level_bags


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_rows_are_means_of_smallest_distances(squared, directed):
    bags, _ = two_level_bags(n_bags=9)
    training = bags[:5]

    def one_way(a, b):
        power = 2 if squared else 1
        return np.mean([min(np.linalg.norm(x - z) ** power for z in b) for x in a])

    expected = [
        [one_way(a, b) if directed else (one_way(a, b) + one_way(b, a)) / 2 for b in training]
        for a in bags
    ]
    model = BagDissimilarity(directed=directed, squared=squared).fit(training)
    np.testing.assert_allclose(model.transform(bags), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", ["min", "max", "mean"])
def test_other_metrics_are_those_of_bag_distances(metric):
    bags, _ = two_level_bags(n_bags=9)
    model = BagDissimilarity(metric).fit(bags[:5])
    expected = bag_distances(bags, bags[:5], metric=metric)
    np.testing.assert_allclose(model.transform(bags), expected, rtol=1e-12)
    assert list(model.get_feature_names_out()) == [f"bagdissimilarity{k}" for k in range(5)]


def test_drawn_bags_are_the_columns():
    bags, _ = two_level_bags(n_bags=9)
    every = BagDissimilarity(n_prototypes=None).fit_transform(bags)
    model = BagDissimilarity(n_prototypes=4, random_state=0).fit(bags)
    drawn = model.prototype_positions_
    assert len(drawn) == len(set(drawn)) == len(model.bags_) == 4
    np.testing.assert_allclose(model.transform(bags), every[:, drawn], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(BagDissimilarity(n_prototypes=9).fit_transform(bags), every)
