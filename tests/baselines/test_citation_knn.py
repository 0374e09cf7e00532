"""CitationKNN against a loop that counts ranks as the paper defines them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context

from milearn.baselines import CitationKNN
from tests.toys import two_level_bags


def nearest(a, b):
    return min(np.linalg.norm(x - z) for x in a for z in b)


def counted(training, y, queries, n_references, n_citers, n_classes):
    """Votes by sorting the neighbours of each bag."""
    votes = np.zeros((len(queries), n_classes))
    for number, query in enumerate(queries):
        distances = [nearest(query, bag) for bag in training]
        for place in np.argsort(distances)[:n_references]:
            votes[number, y[place]] += 1
        for place, bag in enumerate(training):
            others = [nearest(bag, other) for k, other in enumerate(training) if k != place]
            ranked = sorted([*others, distances[place]])
            if ranked.index(distances[place]) < n_citers:
                votes[number, y[place]] += 1
    return votes


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("n_references", "n_citers"), [(2, 4), (1, 0), (3, 1), (2, 40)])
def test_votes_are_those_of_the_loop(n_classes, n_references, n_citers):
    bags, y = two_level_bags(n_bags=26, n_classes=n_classes)
    training, queries = bags[:20], bags[20:]
    model = CitationKNN(n_references, n_citers=n_citers).fit(training, y[:20])
    votes = counted(list(training), y, list(queries), n_references, n_citers, n_classes)
    expected = votes / votes.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(queries), expected, atol=1e-12)
    np.testing.assert_array_equal(model.predict(queries), expected.argmax(axis=1))


def test_bags_at_one_distance_vote_together():
    X = np.array([[0.0], [2.0], [2.0], [9.0]])
    model = CitationKNN(n_references=1, n_citers=0).fit(X, [0, 1, 0, 1])
    np.testing.assert_array_equal(model.predict_proba([[2.0], [1.0]]), [[0.5, 0.5], [2 / 3, 1 / 3]])
    # The first is a tie, which speaks against the positive class.
    assert model.predict([[2.0]]) == [0]
    turned = CitationKNN(n_references=1, n_citers=0, pos_label=0).fit(X, [0, 1, 0, 1])
    assert turned.predict([[2.0]]) == [1]


def test_more_references_than_bags_are_refused():
    bags, y = two_level_bags(n_bags=4)
    with pytest.raises(ValueError, match="n_references=5 but there are 4 bags: ask for at most"):
        CitationKNN(n_references=5).fit(bags, y)


def test_drawn_bags_are_the_neighbours():
    bags, y = two_level_bags(n_bags=30)
    model = CitationKNN(n_prototypes=12, random_state=0).fit(bags[:20], y[:20])
    assert len(model.bags_) == len(model.radius_) == 12
    rows = {row.tobytes(): bag for bag, row in enumerate(bags.instances[bags.offsets[:20]])}
    drawn = [rows[row.tobytes()] for row in model.bags_.instances[model.bags_.offsets[:-1]]]
    expected = CitationKNN().fit(bags[drawn], y[drawn])
    np.testing.assert_array_equal(model.predict_proba(bags), expected.predict_proba(bags))
    every = CitationKNN(n_prototypes=20).fit(bags[:20], y[:20])
    known = CitationKNN(n_prototypes=None).fit(bags[:20], y[:20])
    np.testing.assert_array_equal(every.predict_proba(bags), known.predict_proba(bags))


def test_blocks_of_bags_are_predicted_as_one():
    bags, y = two_level_bags(n_bags=30)
    model = CitationKNN().fit(bags, y)
    whole = model.predict_proba(bags)
    with config_context(working_memory=24 * 30 * 7 / 2**20):
        np.testing.assert_allclose(model.predict_proba(bags), whole, atol=1e-12)
