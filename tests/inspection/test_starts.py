"""Objectives of several starts, and their display."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from milearn.cluster import M3IC
from milearn.datasets import make_bags
from milearn.inspection import StartsDisplay
from milearn.preprocessing import ClippedScaler
from milearn.structured import MILSD
from milearn.svm import MISVC, InstanceMISVC, OrdinalMISVC


@pytest.fixture(scope="module")
def noise():
    """Labels that mean nothing: many local minima."""
    bags, _ = make_bags(n_bags=24, random_state=0)
    return bags, np.random.default_rng(0).permutation(np.arange(24) % 2)


@pytest.mark.parametrize(
    "model",
    [
        MISVC(kernel="linear"),
        MISVC(C=10.0),
        InstanceMISVC(kernel="linear"),
        MILSD(),
        OrdinalMISVC(),
        M3IC(3),
    ],
    ids=repr,
)
def test_the_objective_is_the_lowest_of_the_starts(model, noise):
    bags, y = noise
    model.set_params(n_init=4, random_state=0).fit(bags, y)
    # OrdinalMISVC begins with the means and with a screen.
    assert model.start_objectives_.shape == (4 + isinstance(model, OrdinalMISVC),)
    assert model.objective_ == pytest.approx(model.start_objectives_.min(), rel=1e-9)
    assert np.ptp(model.start_objectives_) > 0


def test_one_row_per_class(noise):
    bags, y = noise
    y = (y + np.arange(24) % 2) % 3
    model = MISVC(kernel="linear", n_init=3, random_state=0).fit(bags, y)
    assert model.start_objectives_.shape == (3, 3)
    np.testing.assert_allclose(model.objective_, model.start_objectives_.min(axis=1), rtol=1e-9)
    with pytest.raises(ValueError, match="3 binary problems"):
        StartsDisplay.from_estimator(model)
    shown = StartsDisplay.from_estimator(model, class_label=2)
    np.testing.assert_array_equal(shown.objectives, np.sort(model.start_objectives_[2]))


def test_the_plot_counts_the_starts_near_the_lowest():
    shown = StartsDisplay(objectives=[3.0, 1.0, 1.005, 1.2], estimator_name="MISVC").plot()
    np.testing.assert_array_equal(shown.line_.get_ydata(), [1.0, 1.005, 1.2, 3.0])
    assert shown.n_near_ == 2
    assert shown.lowest_.get_ydata()[0] == 1.0
    assert shown.ax_.get_title(loc="left") == "MISVC: 2 of 4 starts within 1 %"
    assert StartsDisplay(objectives=[3.0, 1.0, 1.005, 1.2], tol=0.5).plot().n_near_ == 3


def test_models_in_pipelines_and_clear_errors(noise):
    bags, y = noise
    pipeline = make_pipeline(ClippedScaler(), MISVC(n_init=2, random_state=0)).fit(bags, y)
    assert len(StartsDisplay.from_estimator(pipeline).objectives) == 2
    with pytest.raises(TypeError, match="MISVC has no start_objectives_: fit it first"):
        StartsDisplay.from_estimator(MISVC())
    with pytest.raises(ValueError, match="one value per start"):
        StartsDisplay(objectives=[]).plot()
