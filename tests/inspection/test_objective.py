"""History, bound and gap of fitted models, as they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from benchmarks.common.generators import make_ambiguous_plane
from milearn import MISVC, DPBoost
from milearn.inspection import ObjectiveDisplay
from milearn.preprocessing import InstanceTransformer
from tests.toys import two_level_bags


def band(collection):
    return {float(y) for path in collection.get_paths() for y in path.vertices[:, 1]}


def test_the_history_is_drawn_step_by_step():
    X, y, *_ = two_level_bags(n_bags=30, seed=1)
    model = make_pipeline(InstanceTransformer(), MISVC(kernel="linear")).fit(X, y)
    display = ObjectiveDisplay.from_estimator(model)
    history = model[-1].objective_history_
    np.testing.assert_array_equal(display.line_.get_ydata(), history)
    np.testing.assert_array_equal(display.line_.get_xdata(), np.arange(1, len(history) + 1))
    assert display.bound_ is None
    assert display.gap_band_ is None
    title = display.ax_.get_title(loc="left")
    assert title == f"MISVC: dual gap of the last convex step {model[-1].dual_gap_:.1g}"


def test_the_band_lies_between_bound_and_objective():
    X, y = make_ambiguous_plane(12, random_state=1)
    model = DPBoost(estimator="rbf").fit(X, y)
    display = ObjectiveDisplay.from_estimator(model)
    assert display.bound_.get_ydata()[-1] == model.lower_bound_
    assert band(display.gap_band_) == {model.lower_bound_, model.objective_}
    gap = f"optimality gap {model.optimality_gap_:.3g}"
    assert gap in display.ax_.get_title(loc="left")


def test_values_of_ones_own_and_a_bound_that_is_missing():
    display = ObjectiveDisplay(history=[5.0, 3.0, 4.0], lower_bound=1.0).plot()
    assert display.objective == 3.0
    assert band(display.gap_band_) == {1.0, 3.0}
    np.testing.assert_array_equal(display.bound_.get_ydata(), [1.0, 1.0, 1.0])
    assert ObjectiveDisplay(history=[5.0], lower_bound=-np.inf).plot().bound_ is None
    one = ObjectiveDisplay(history=[5.0], lower_bound_history=[2.0]).plot()
    assert list(one.bound_.get_xdata()) == [0.5, 1.5]


def test_of_three_classes_one_is_named():
    X, y, *_ = two_level_bags(n_bags=30, n_classes=3, seed=1)
    model = MISVC(kernel="linear").fit(X, y)
    with pytest.raises(ValueError, match="3 binary problems"):
        ObjectiveDisplay.from_estimator(model)
    display = ObjectiveDisplay.from_estimator(model, class_label=model.classes_[2])
    np.testing.assert_array_equal(display.line_.get_ydata(), model.objective_history_[2])


def test_models_without_a_history_say_so():
    with pytest.raises(TypeError, match="MISVC has no objective_history_: fit it first"):
        ObjectiveDisplay.from_estimator(MISVC())
    with pytest.raises(ValueError, match="one value per step"):
        ObjectiveDisplay(history=[]).plot()
