"""Coefficients and scores against C."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from milearn import MISVC
from milearn.inspection import RegularizationPathDisplay
from milearn.preprocessing import InstanceTransformer
from tests.toys import two_level_bags

RANGE = [0.01, 0.1, 1.0]


@pytest.fixture(scope="module")
def data():
    X, y, *_ = two_level_bags(n_bags=24, seed=1)
    return X, y


def test_each_line_is_a_coefficient_over_the_values(data):
    X, y = data
    pipeline = make_pipeline(InstanceTransformer(), MISVC(kernel="linear"))
    display = RegularizationPathDisplay.from_estimator(
        pipeline, X, y, param_range=RANGE, n_labels=2
    )
    scaled = InstanceTransformer().fit_transform(X)
    expected = [MISVC(kernel="linear", C=C).fit(scaled, y).coef_[0] for C in RANGE]
    np.testing.assert_allclose(
        np.transpose([line.get_ydata() for line in display.lines_]), expected
    )
    assert display.ax_.get_xscale() == "log"
    named = [line.get_label() for line in display.lines_ if line.get_label()[0] != "_"]
    largest = np.argsort(-np.abs(expected[-1]))[:2]
    assert sorted(named) == sorted(f"feature {feature}" for feature in largest)
    assert not hasattr(pipeline[-1], "coef_")


def test_of_many_features_those_with_the_largest_coefficients_are_drawn():
    coefs = np.random.default_rng(0).normal(size=(3, 1000))
    coefs[0, 17] = 99.0  # large at the beginning of the path alone
    coefs[:, 18] = 0.0
    display = RegularizationPathDisplay(param_name="C", param_range=RANGE, coefs=coefs).plot()
    largest = np.sort(np.argsort(-np.abs(coefs).max(axis=0))[:200])
    assert len(display.lines_) == len(display.features_) == 200
    assert 17 in display.features_
    assert 18 not in display.features_
    named = np.argsort(-np.abs(coefs[-1]))[:5]
    assert set(named) <= set(display.features_)
    assert len(np.setdiff1d(largest, display.features_)) <= 5  # made room for the named
    for line, feature in zip(display.lines_, display.features_, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), coefs[:, feature])
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts[-1] == "the largest 200\nof 1,000 features"
    assert sorted(texts[:-1]) == sorted(f"feature {feature}" for feature in named)


def test_scores_of_a_search_at_the_best_of_the_other_parameters(data):
    X, y = data
    grid = {"C": [1.0, 0.01], "slack": ["bag", "instance"]}
    search = GridSearchCV(MISVC(kernel="linear"), grid, cv=3, scoring="roc_auc").fit(X, y)
    display = RegularizationPathDisplay.from_search(search)
    means = {
        (params["C"], params["slack"]): mean
        for params, mean in zip(
            search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
        )
    }
    slack = search.best_params_["slack"]
    (line,) = display.lines_
    np.testing.assert_allclose(line.get_xdata(), [0.01, 1.0])
    np.testing.assert_allclose(line.get_ydata(), [means[0.01, slack], means[1.0, slack]])
    assert display.best_line_.get_xdata()[0] == search.best_params_["C"]
    assert display.ax_.get_ylabel() == "roc auc"


def test_the_band_is_one_deviation_wide():
    scores = np.array([[0.5, 0.7], [0.9, 0.9]])
    display = RegularizationPathDisplay(
        param_name="C", param_range=[1.0, 10.0], scores=scores
    ).plot()
    corners = {(float(x), round(float(y), 9)) for x, y in display.band_.get_paths()[0].vertices}
    assert corners == {(1.0, 0.5), (1.0, 0.7), (10.0, 0.9)}
    assert display.best == 10.0
    undefined = {"param_range": [1.0, 10.0], "scores": [[np.nan, 0.9], [0.1, 0.3]]}
    assert RegularizationPathDisplay(param_name="C", **undefined).best == 10.0


@pytest.mark.parametrize("values", [[1.0, 0.1], [0.0, 1.0], []])
def test_values_rise_above_zero(data, values):
    with pytest.raises(ValueError, match="param_range must"):
        RegularizationPathDisplay.from_estimator(MISVC(), *data, param_range=values)


def test_what_has_no_path_says_so(data):
    with pytest.raises(TypeError, match="MISVC has no coef_"):
        RegularizationPathDisplay.from_estimator(MISVC(kernel="rbf"), *data, param_range=[1.0])
    with pytest.raises(TypeError, match="fit a search first"):
        RegularizationPathDisplay.from_search(MISVC())
    with pytest.raises(ValueError, match=r"shape \(2, n_splits\)"):
        RegularizationPathDisplay(param_name="C", param_range=[1.0, 2.0], scores=[[1.0]])
