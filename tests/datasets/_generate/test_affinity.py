"""Artificial molecules."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from milearn._bags.segments import segment_max
from milearn.datasets import make_affinity


def test_the_best_shape_decides_and_values_stay_in_their_range():
    X, y, values = make_affinity(200, random_state=0, return_instance_values=True)
    assert X.shape == (200, 30)
    assert set(X.sizes) == {3, 4, 5}
    assert y == pytest.approx(segment_max(values, X.offsets))
    assert values.min() > 0
    assert values.max() <= 1
    assert 0.1 < np.std(y) < 0.5


def test_values_depend_on_relevant_features_alone():
    X, _, values = make_affinity(
        300, 12, n_relevant=4, n_scales=4, random_state=1, return_instance_values=True
    )
    again, _, same = make_affinity(
        300, 12, n_relevant=4, n_scales=4, random_state=1, return_instance_values=True
    )
    assert np.array_equal(X.instances, again.instances)
    assert np.array_equal(values, same)
    relevant = LinearRegression().fit(X.instances[:, :4], values).score(X.instances[:, :4], values)
    rest = LinearRegression().fit(X.instances[:, 4:], values).score(X.instances[:, 4:], values)
    assert relevant > 0.5
    assert rest < 0.05
    # The first scale factor is four times the last.
    coef = np.abs(LinearRegression().fit(X.instances[:, :4], values).coef_)
    assert coef[0] > coef[3]
