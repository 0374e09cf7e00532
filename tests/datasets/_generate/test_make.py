"""Generated bags obey their rule."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import issparse

from milearn.datasets import load_digit_bags, make_affinity, make_bags


def bag_max(scores, X):
    return np.maximum.reduceat(scores, X.offsets[:-1])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rule", ["any", "all"])
def test_labels_follow_the_rule(sparse, rule):
    n_concepts = 1 if rule == "any" else 3
    X, y, witness = make_bags(
        60, 30, n_concepts=n_concepts, concept_rule=rule, witness_rate=0.3, n_distractors=2,
        poison_rate=0.5, sparse=sparse, random_state=3, return_instance_labels=True,
    )  # fmt: skip
    assert X.shape == (60, 30)
    assert issparse(X.instances) == sparse
    assert y.sum() == 30
    assert witness.shape == (X.n_instances,)
    held = np.add.reduceat(witness, X.offsets[:-1])
    if rule == "any":
        assert_array_equal(held > 0, y == 1)
        assert abs(held[y == 1].sum() / X.sizes[y == 1].sum() - 0.3) < 0.06
    else:
        assert (held[y == 1] >= 3).all()
        assert (held[y == 0] >= 3).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_concepts_stand_where_they_are_told(sparse):
    centers = np.zeros((1, 12))
    centers[0, [2, 5]] = 30.0
    X, y = make_bags(40, 12, concept_centers=centers, sparse=sparse, random_state=0)
    values = X.instances.toarray() if sparse else X.instances
    near = values[:, [2, 5]].min(axis=1) > 20
    assert_array_equal(bag_max(near.astype(int), X), y)


def test_same_seed_same_bags():
    for sparse in (False, True):
        a, ya = make_bags(10, sparse=sparse, random_state=7)
        b, yb = make_bags(10, sparse=sparse, random_state=7)
        c, _ = make_bags(10, sparse=sparse, random_state=8)
        dense = [m.instances.toarray() if sparse else m.instances for m in (a, b, c)]
        assert_array_equal(dense[0], dense[1])
        assert_array_equal(ya, yb)
        assert dense[0].shape != dense[2].shape or (dense[0] != dense[2]).any()


def test_sizes():
    assert set(make_bags(30, bag_size=4, random_state=0)[0].sizes) == {4}
    sizes = make_bags(300, bag_size=(2, 5), random_state=0)[0].sizes
    assert set(sizes) == {2, 3, 4, 5}
    sizes = make_bags(500, bag_size=6.0, random_state=0)[0].sizes
    assert sizes.min() >= 1
    assert abs(sizes.mean() - 6) < 0.4
    assert abs(sizes.var() - 5) < 1.2  # Poisson of mean 5, and one


def test_poison_stands_in_negative_bags_only():
    X, y = make_bags(40, poison_rate=1.0, concept_distance=50.0, witness_rate=0.0, random_state=0)
    far = np.linalg.norm(X.instances, axis=1) > 20
    assert_array_equal(np.add.reduceat(far.astype(int), X.offsets[:-1]), np.ones(40))
    _, _, witness = make_bags(
        40, poison_rate=1.0, concept_distance=50.0, witness_rate=0.0, random_state=0,
        return_instance_labels=True,
    )  # fmt: skip
    assert_array_equal(bag_max(witness, X), y)


def test_label_noise_and_balance():
    clean = make_bags(50, positive_fraction=0.2, random_state=0)[1]
    noisy = make_bags(50, positive_fraction=0.2, flip_y=0.1, random_state=0)[1]
    assert clean.sum() == 10
    assert (clean != noisy).sum() == 5


@pytest.mark.parametrize(
    ("make", "given", "sentence"),
    [
        (make_bags, {"n_bags": 0}, "n_bags == 0, must be >= 1."),
        (make_bags, {"density": 0}, "density == 0, must be > 0."),
        (make_bags, {"concept_rule": "some"}, "concept_rule='some' is unknown; choose one of any"),
        (make_bags, {"bag_size": (5, 2)}, "bag_size=(5, 2) is out of range; it must be a number"),
        (make_bags, {"bag_size": 0.5}, "bag_size == 0.5, must be >= 1."),
        (make_bags, {"concept_centers": [[1, 2]]}, "could not broadcast input array from shape"),
        (make_bags, {"bag_size": 2, "n_concepts": 3, "concept_rule": "all"},
         "bag_size=2 is out of range; it must be a number >= 3, so that there is room for the"),
        (make_bags, {"n_concepts": 1, "concept_rule": "all"},
         "concept_rule='all' asks for several concepts; raise n_concepts, or choose 'any'."),
        (make_affinity, {"n_features": 3}, "n_features == 3, must be >= 16."),
    ],
)  # fmt: skip
def test_bad_parameters(make, given, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        make(**given)


def test_digit_bags():
    digits = load_digit_bags(random_state=1)
    X, y = digits.data, digits.target
    assert X.shape == (200, 64)
    assert y.sum() == 100
    assert (X.sizes.min(), X.sizes.max()) == (4, 10)
    assert X.instances.max() == 1.0
    assert_array_equal(digits.instance_labels, digits.instance_digits == 9)
    assert_array_equal(np.add.reduceat(digits.instance_labels, X.offsets[:-1]), y)
    # No image stands in two bags: nothing leaks from training to test.
    assert len(set(digits.instance_index)) == X.n_instances
    again, target = load_digit_bags(random_state=1, return_X_y=True)
    assert_array_equal(again.instances, X.instances)
    assert_array_equal(target, y)
    assert load_digit_bags(20, scale=False).data.instances.max() == 16.0


def test_digit_bags_witness_rate_and_limits():
    digits = load_digit_bags(60, digit=3, bag_size=6, witness_rate=0.5, positive_fraction=0.25)
    held = np.add.reduceat(digits.instance_labels, digits.data.offsets[:-1])
    assert digits.target.sum() == 15
    assert 2 < held[digits.target == 1].mean() < 5
    with pytest.raises(ValueError, match=r"larger sample than population when .*replace"):
        load_digit_bags(400, positive_fraction=0.1)
    with pytest.raises(ValueError, match=r"^digit=10 is not a digit; choose 0 to 9\.$"):
        load_digit_bags(digit=10)
    assert len(load_digit_bags(400, replace=True).data) == 400
