"""Instance scores, and other methods of the last step, of any fitted estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from milearn import MISVC, MISVR
from milearn._bags.segments import segment_max, segment_mean
from milearn.baselines import SingleInstance, SparseMISVC
from milearn.datasets import make_bags
from milearn.inspection import cross_val_instance_scores, final_step, instance_scores
from milearn.preprocessing import BagStatistics, InstanceTransformer
from milearn.structured import MILSD
from milearn.survival import MICoxPH, survival_outcomes
from milearn.svm import InstanceMISVC, OrdinalMISVC
from tests.toys import LeastSquaresBags


@pytest.fixture(scope="module")
def data():
    return make_bags(n_bags=24, random_state=0)


def scaled(model):
    return make_pipeline(InstanceTransformer(StandardScaler()), model)


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: GridSearchCV(m, {"misvc__C": [1, 10]})])
def test_scores_of_a_pipeline_are_those_of_its_last_step(data, wrap):
    X, y = data
    model = wrap(scaled(MISVC(init="mean"))).fit(X, y)
    last, bags = final_step(model, X)
    assert type(last) is MISVC
    expected = last.instance_decision_function(bags)
    np.testing.assert_array_equal(instance_scores(model, X), expected)
    rows = last.witness(bags)
    np.testing.assert_allclose(expected[rows], model.decision_function(X))


@pytest.mark.parametrize("positive", ["tumour", "healthy"])
def test_scores_are_high_for_the_positive_class_whatever_its_name(data, positive):
    X, y = data
    other = {"tumour": "healthy", "healthy": "tumour"}[positive]
    names = np.where(y == 1, positive, other)
    scores = instance_scores(scaled(MISVC(pos_label=positive, init="mean")).fit(X, names), X)
    expected = instance_scores(scaled(MISVC(init="mean")).fit(X, y), X)
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    model = scaled(MISVC(pos_label=positive, init="mean")).fit(X, names)
    np.testing.assert_array_equal(instance_scores(model, X, class_label=other), -scores)


def test_three_classes_values_and_risks(data):
    X, y = data
    three = np.arange(24) % 3
    model = MISVC(kernel="linear", init="mean").fit(X, three)
    columns = model.instance_decision_function(X)
    np.testing.assert_array_equal(instance_scores(model, X, class_label=2), columns[:, 2])
    value = MISVR(kernel="linear").fit(X, y + 0.5)
    np.testing.assert_array_equal(instance_scores(value, X), value.predict_instances(X))
    outcomes = survival_outcomes(event=y == 1, time=1.0 + np.arange(24))
    cox = scaled(MICoxPH()).fit(X, outcomes)
    last, bags = final_step(cox, X)
    np.testing.assert_array_equal(instance_scores(cox, X), last.predict_instances(bags))
    assert last.predict_survival_function(bags).shape[0] == 24


def test_what_has_no_instance_scores_is_refused(data):
    X, y = data
    means = segment_mean(X.instances, X.offsets)
    with pytest.raises(TypeError, match=r"^LogisticRegression does not score instances: take"):
        instance_scores(LogisticRegression().fit(means, y), means)
    rows = make_pipeline(BagStatistics("mean"), LogisticRegression()).fit(X, y)
    last, matrix = final_step(rows, X)
    np.testing.assert_array_equal(last.predict(matrix), rows.predict(X))
    trees = RandomForestClassifier(2, random_state=0)
    last, _ = final_step(make_pipeline(BagStatistics("mean"), trees).fit(X, y), X)
    assert last is trees


@pytest.mark.parametrize(
    "model",
    [SVC(), RandomForestClassifier(2, random_state=0), LinearRegression(), MISVC(kernel="linear")],
)
def test_rows_of_other_statistics_or_models_are_refused_with_the_cause(data, model):
    X, y = data
    rows = make_pipeline(BagStatistics(("mean", "max")), StandardScaler(), model).fit(X, y)
    message = (
        rf"^A step before {type(model).__name__} makes one row of a bag, and the decisions are"
    )
    with pytest.raises(ValueError, match=message):
        instance_scores(rows, X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_linear_model_of_means_scores_instances(data, dtype):
    """By hand: weights over the spreads of the means, whose products are shares of the decision."""
    X, y = data
    X = X.with_instances(
        X.instances.astype(dtype), feature_names=[f"m{n}" for n in range(X.shape[1])]
    )
    names = np.where(y == 1, "ill", "well")
    model = make_pipeline(BagStatistics(("mean",)), StandardScaler(), LogisticRegression())
    _, scaler, last = (model.fit(X, names)[n] for n in range(3))
    by_hand = (X.instances - scaler.mean_) / scaler.scale_ @ last.coef_[0] + last.intercept_
    found = instance_scores(model, X)
    np.testing.assert_allclose(found, by_hand, atol=1e-5)
    shares = segment_mean(found, X.offsets)
    np.testing.assert_allclose(shares, model.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(instance_scores(model, X, class_label="ill"), -found)
    search = GridSearchCV(model, {"logisticregression__C": [1.0]}).fit(X, names)
    np.testing.assert_array_equal(instance_scores(search, X), found)
    three = model.fit(X, np.arange(24) % 3)
    column = instance_scores(three, X, class_label=2)
    np.testing.assert_allclose(
        segment_mean(column, X.offsets), three.decision_function(X)[:, 2], atol=1e-5
    )
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, names)
    inner = [instance_scores(each.estimator, X) for each in calibrated.calibrated_classifiers_]
    np.testing.assert_allclose(instance_scores(calibrated, X), np.mean(inner, axis=0))
    ridge = make_pipeline(
        InstanceTransformer(StandardScaler()), BagStatistics("mean"), Ridge()
    ).fit(X, y)
    np.testing.assert_allclose(
        segment_mean(instance_scores(ridge, X), X.offsets), ridge.predict(X), atol=1e-5
    )
    folds = cross_val_instance_scores(model, X, names, cv=3)
    assert folds.shape == found.shape


def test_scores_of_a_calibrated_classifier_are_means_of_its_models(data):
    X, y = data
    names = np.where(y == 1, "ill", "well")
    model = scaled(MISVC(kernel="linear", pos_label="ill", init="mean"))
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, names)
    inner = [each.estimator for each in calibrated.calibrated_classifiers_]
    expected = np.mean([instance_scores(each, X) for each in inner], axis=0)
    found = instance_scores(calibrated, X)
    np.testing.assert_allclose(found, expected)
    assert roc_auc_score(names == "ill", segment_max(found, X.offsets)) > 0.8
    frozen = CalibratedClassifierCV(FrozenEstimator(model.fit(X, names))).fit(X, names)
    np.testing.assert_array_equal(instance_scores(frozen, X), instance_scores(model, X))
    three = np.arange(24) % 3
    calibrated = CalibratedClassifierCV(LeastSquaresBags(), cv=2).fit(X, three)
    columns = [instance_scores(calibrated, X, class_label=label) for label in range(3)]
    predicted = calibrated.predict(X)[X.bag_index]
    np.testing.assert_array_equal(instance_scores(calibrated, X), np.choose(predicted, columns))


def test_inner_estimators_without_decision_function_and_ordered_classes(data):
    X, y = data
    trees = RandomForestClassifier(10, random_state=0)
    for pooling in ("max", "mean"):
        model = SingleInstance(trees, pooling=pooling, pos_label=0).fit(X, y)
        expected = 0.5 - model.predict_proba_instances(X)[:, 1]
        np.testing.assert_allclose(instance_scores(model, X), expected)
    grades = OrdinalMISVC(init="mean").fit(X, np.arange(24) % 3)
    np.testing.assert_array_equal(instance_scores(grades, X), grades.instance_latent_function(X))
    lowest = instance_scores(grades, X, class_label=0)
    np.testing.assert_array_equal(lowest, grades.instance_decision_function(X)[:, 0])


@pytest.mark.parametrize(
    "model",
    [
        MISVC(kernel="linear"),
        InstanceMISVC(kernel="linear"),
        SparseMISVC(kernel="linear"),
        MILSD(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_weights_and_decisions_belong_to_the_second_class_whatever_the_positive_one(data, model):
    X, y = data
    fitted = model.set_params(pos_label="ill").fit(X, np.where(y == 1, "ill", "well"))
    assert list(fitted.classes_) == ["ill", "well"]
    scores = X.instances @ fitted.coef_[0] + fitted.intercept_
    np.testing.assert_allclose(fitted.instance_decision_function(X), scores, atol=1e-9)
    np.testing.assert_allclose(instance_scores(fitted, X), -scores, atol=1e-9)
    decisions = fitted.decision_function(X)
    np.testing.assert_array_equal(fitted.predict(X) == "well", decisions > 0)


def test_positions_count_within_each_bag(data):
    X, y = data
    value = MISVR(kernel="linear").fit(X, y + 0.5)
    scores, positions = instance_scores(value, X, return_positions=True)
    assert positions.tolist() == [place for size in X.sizes for place in range(size)]
    highest = [np.argmax(scores[X.bag_index == bag]) for bag in range(len(X))]
    np.testing.assert_array_equal(positions[value.witness(X)], highest)


def test_scores_out_of_fold_are_those_of_the_model_of_the_fold(data):
    X, y = data
    names = np.where(y == 1, "ill", "well")
    model = scaled(LeastSquaresBags(pos_label="ill"))
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    found = cross_val_instance_scores(model, list(X), names, cv=cv)
    for train, test in cv.split(X, names):
        fitted = clone(model).fit(X[train], names[train])
        expected = instance_scores(fitted, X[test])
        np.testing.assert_array_equal(found[np.isin(X.bag_index, test)], expected)
    # The default is stratified, as cross_val_predict is for a classifier.
    predicted = cross_val_predict(model, X, names)
    scores = cross_val_instance_scores(model, X, names)
    np.testing.assert_array_equal(segment_max(scores, X.offsets) > 0, predicted == "ill")
    outcomes = survival_outcomes(event=y == 1, time=1.0 + np.arange(24))
    risks = cross_val_instance_scores(MICoxPH(), X, outcomes, cv=2)
    values = cross_val_predict(MICoxPH(), X, outcomes, cv=2)
    np.testing.assert_allclose(segment_max(risks, X.offsets), values)


def test_groups_and_weights_of_scores_out_of_fold_reach_splitter_and_fit(data):
    X, y = data
    groups, weights = np.arange(24) // 4, 1.0 + y
    model, cv = LeastSquaresBags(), GroupKFold(3)
    found = cross_val_instance_scores(
        model, X, y, groups=groups, cv=cv, params={"sample_weight": weights}
    )
    train, test = next(cv.split(X, y, groups))
    fitted = clone(model).fit(X[train], y[train], weights[train])
    expected = instance_scores(fitted, X[test])
    np.testing.assert_array_equal(found[np.isin(X.bag_index, test)], expected)
    with config_context(enable_metadata_routing=True):
        routed = cross_val_instance_scores(
            LeastSquaresBags().set_fit_request(sample_weight=True),
            X,
            y,
            cv=cv,
            params={"sample_weight": weights, "groups": groups},
        )
    np.testing.assert_array_equal(routed, found)


class _FirstBagDecides(LeastSquaresBags):
    """The positive class depends on the training bags, as that of MIClassifier does."""

    def fit(self, X, y):
        self.pos_label = y[0]
        return super().fit(X, y)


def test_folds_with_different_positive_classes_need_a_class_label(data):
    X, y = data
    names, model = np.where(y == y[0], "a", "b"), _FirstBagDecides()
    assert names[13] != names[0]
    cv = [(np.arange(13), np.arange(13, 24)), (np.arange(13, 24), np.arange(13))]
    with pytest.raises(
        ValueError,
        match=r"^The folds do not score the same class, .*of a and .*of b: .*class_label=",
    ):
        cross_val_instance_scores(model, X, names, cv=cv)
    named = cross_val_instance_scores(model, X, names, cv=cv, class_label="a")
    other = cross_val_instance_scores(model, X, names, cv=cv, class_label="b")
    np.testing.assert_array_equal(named, -other)
    with pytest.raises(ValueError, match="only works for partitions"):
        cross_val_instance_scores(model, X, names, cv=cv[:1])
