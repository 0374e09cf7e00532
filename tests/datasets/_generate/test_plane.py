"""The ambiguous bags in the plane."""

from __future__ import annotations

import numpy as np
import pytest

from milearn.datasets import make_ambiguous_plane, plane_side


def test_bags_are_what_was_asked_for():
    X, y, labels = make_ambiguous_plane(
        200, 101, ambiguity=3.0, margin=0.2, random_state=0, return_instance_labels=True
    )
    assert X.shape == (301, 2)
    assert (X.sizes[:200] >= 2).all()
    assert (X.sizes[200:] == 1).all()
    assert y[:200].all()
    assert y[200:].sum() == 50
    positives = np.add.reduceat(labels, X.offsets[:-1])
    assert (positives[:200] == 1).all()
    assert (positives[200:] == y[200:]).all()
    assert (plane_side(X.instances, margin=0.2) == 2 * labels - 1).all()
    assert (X.instances >= 0).all()
    assert (X.instances <= 1).all()
    # A Poisson number above 1: 3 (1 - e^-3) / (1 - 4 e^-3).
    expected = 3 * (1 - np.exp(-3)) / (1 - 4 * np.exp(-3))
    assert X.sizes[:200].mean() == pytest.approx(expected, abs=0.3)


def test_same_seed_same_bags_and_instances_in_any_place():
    X, y = make_ambiguous_plane(random_state=5)
    again, _ = make_ambiguous_plane(random_state=5)
    assert (X.instances == again.instances).all()
    assert len(y) == 40
    _, _, labels = make_ambiguous_plane(300, random_state=0, return_instance_labels=True)
    X, _ = make_ambiguous_plane(300, random_state=0)
    assert labels[X.offsets[:300]].mean() == pytest.approx(np.mean(1 / X.sizes[:300]), abs=0.08)


def test_sides_and_margin():
    x = np.linspace(0, 1, 11)
    curve = 0.5 + 0.25 * np.sin(2 * np.pi * x)
    for shift, side in ((0.051, 1), (0.049, 0), (-0.049, 0), (-0.051, -1)):
        assert (plane_side(np.column_stack([x, curve + shift])) == side).all()
