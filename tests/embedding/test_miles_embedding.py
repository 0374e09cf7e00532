"""MILESEmbedding against a loop over bags and prototypes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from milearn import Bags
from milearn.embedding import MILESEmbedding
from tests.toys import two_level_bags


def naive(bags, prototypes, gamma):
    return np.array(
        [
            [max(np.exp(-gamma * np.sum((x - z) ** 2)) for x in bag) for z in prototypes]
            for bag in bags
        ]
    )


def test_rows_are_those_of_the_loop():
    bags, _ = two_level_bags(n_bags=12)
    embedding = MILESEmbedding(gamma=0.3).fit(bags[:8])
    prototypes = bags.instances[embedding.prototype_rows_]
    assert sorted(embedding.prototype_rows_) == list(range(bags[:8].n_instances))
    expected = naive(bags, prototypes, 0.3)
    np.testing.assert_allclose(embedding.transform(bags), expected, rtol=1e-9, atol=1e-12)


def test_equal_instances_are_one_prototype_and_some_can_be_drawn():
    bags, _ = two_level_bags(n_bags=12)
    twice = Bags(
        np.tile(bags.instances, (2, 1)), np.r_[bags.offsets[:-1], bags.offsets + bags.n_instances]
    )
    once = MILESEmbedding().fit(bags)
    np.testing.assert_array_equal(once.prototypes_, MILESEmbedding().fit(twice).prototypes_)
    few = MILESEmbedding(n_prototypes=5, random_state=3).fit(bags)
    rows = few.transform(bags)
    assert rows.shape == (12, 5)
    places = [list(once.prototype_rows_).index(row) for row in few.prototype_rows_]
    np.testing.assert_allclose(rows, once.transform(bags)[:, places], rtol=1e-9)


def test_width_is_the_documented_one_and_a_classifier_follows():
    bags, y = two_level_bags()
    assert MILESEmbedding().fit(bags).gamma_ == pytest.approx(1 / (3 * bags.instances.var()))
    model = make_pipeline(MILESEmbedding(), LogisticRegression(C=100)).fit(bags, y)
    assert model.score(bags, y) > 0.9
