"""SingleInstance against the inner estimator, fitted and pooled by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from milearn import Bags
from milearn.baselines import SingleInstance


def logistic(**params):
    # This solver needs no L-BFGS, of which the oldest scikit-learn and the newest SciPy warn.
    return LogisticRegression(solver="newton-cholesky", **params)


class Votes(ClassifierMixin, BaseEstimator):
    """A classifier that can do nothing but predict."""

    def fit(self, X, y):
        self.inner_ = GaussianNB().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)


@pytest.fixture
def bags() -> Bags:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 7, size=40)
    return Bags(rng.normal(size=(sizes.sum(), 3)), np.concatenate([[0], np.cumsum(sizes)]))


@pytest.fixture
def two(bags) -> np.ndarray:
    return np.where(np.maximum.reduceat(bags.instances[:, 0], bags.offsets[:-1]) > 1, "yes", "no")


@pytest.fixture
def three(bags) -> np.ndarray:
    means = np.add.reduceat(bags.instances, bags.offsets[:-1])
    return np.argmax(means, axis=1) * 10


def pooled(scores, bags, pooling, sign=1):
    pool = {"max": lambda v: sign * np.max(sign * v, axis=0), "mean": lambda v: v.mean(axis=0)}
    parts = np.split(scores, bags.offsets[1:-1])
    return np.array([pool[pooling](part) for part in parts])


@pytest.mark.parametrize("pooling", ["max", "mean"])
@pytest.mark.parametrize("inner", [SVC(), LinearSVC(random_state=0), logistic()])
def test_two_classes(bags, two, inner, pooling):
    model = SingleInstance(inner, pooling=pooling).fit(bags, two)
    expected = clone(inner).fit(bags.instances, two[bags.bag_index])
    scores = expected.decision_function(bags.instances)
    np.testing.assert_allclose(model.instance_decision_function(bags), scores)
    np.testing.assert_allclose(model.decision_function(bags), pooled(scores, bags, pooling))
    above = pooled(scores, bags, pooling) > 0
    np.testing.assert_array_equal(model.predict(bags), np.where(above, "yes", "no"))
    np.testing.assert_array_equal(model.predict_instances(bags), expected.predict(bags.instances))
    assert model.score(bags, two) == np.mean(model.predict(bags) == two)
    assert model.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_three_classes(bags, three, pooling):
    model = SingleInstance(SVC(), pooling=pooling).fit(bags, three)
    expected = SVC().fit(bags.instances, three[bags.bag_index])
    scores = pooled(expected.decision_function(bags.instances), bags, pooling)
    np.testing.assert_allclose(model.decision_function(bags), scores)
    np.testing.assert_array_equal(model.predict(bags), [0, 10, 20] @ np.eye(3)[scores.argmax(1)].T)


@pytest.mark.parametrize("pooling", ["max", "mean"])
@pytest.mark.parametrize("inner", [GaussianNB(), RandomForestClassifier(5, random_state=0)])
def test_probabilities(bags, two, three, inner, pooling):
    model = SingleInstance(inner, pooling=pooling).fit(bags, two)
    assert not hasattr(model, "decision_function")
    single = clone(inner).fit(bags.instances, two[bags.bag_index]).predict_proba(bags.instances)
    np.testing.assert_allclose(model.predict_proba_instances(bags), single)
    probabilities = model.predict_proba(bags)
    np.testing.assert_allclose(probabilities[:, 1], pooled(single[:, 1], bags, pooling))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(
        model.predict(bags), np.where(probabilities[:, 1] > 0.5, "yes", "no")
    )
    model.fit(bags, three)
    probabilities = model.predict_proba(bags)
    assert probabilities.shape == (40, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(bags), probabilities.argmax(axis=1) * 10)


def test_classes_alone_are_votes(bags, two, three):
    model = SingleInstance(Votes()).fit(bags, two)
    assert not hasattr(model, "decision_function")
    assert not hasattr(model, "predict_proba")
    votes = model.estimator_.predict(bags.instances) == "yes"
    np.testing.assert_array_equal(model.predict(bags) == "yes", pooled(votes, bags, "max"))
    model = SingleInstance(Votes(), pooling="mean").fit(bags, two)
    np.testing.assert_array_equal(model.predict(bags) == "yes", pooled(votes, bags, "mean") > 0.5)
    assert set(SingleInstance(Votes()).fit(bags, three).predict(bags)) <= {0, 10, 20}


@pytest.mark.parametrize("inner", [SVC(), GaussianNB(), Votes()])
@pytest.mark.parametrize("pos_label", [None, "no", "yes"])
def test_one_positive_instance_makes_a_bag_positive(bags, two, inner, pos_label):
    model = SingleInstance(inner, pos_label=pos_label).fit(bags, two)
    positive = "no" if pos_label == "no" else "yes"
    single = model.predict_instances(bags) == positive
    np.testing.assert_array_equal(model.predict(bags) == positive, pooled(single, bags, "max"))


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_regression(bags, pooling):
    y = np.random.default_rng(1).normal(size=40)
    model = SingleInstance(LinearRegression(), pooling=pooling).fit(bags, y)
    single = LinearRegression().fit(bags.instances, y[bags.bag_index]).predict(bags.instances)
    np.testing.assert_allclose(model.predict_instances(bags), single)
    np.testing.assert_allclose(model.predict(bags), pooled(single, bags, pooling))
    assert model.score(bags, y) == r2_score(y, model.predict(bags))
    assert is_regressor(model)
    assert not hasattr(model, "decision_function")
    assert not hasattr(model, "classes_")


def test_kind_follows_the_inner_estimator(bags, two):
    assert is_classifier(SingleInstance())
    assert is_classifier(SingleInstance(make_pipeline(StandardScaler(), SVC())))
    assert is_regressor(SingleInstance(Ridge()))
    model = SingleInstance(SVC()).fit(bags, two)
    model.set_params(estimator=Ridge()).fit(bags, np.arange(40))
    assert not hasattr(model, "classes_")


def test_sample_weight_through_cross_validation(bags, two):
    weights = np.linspace(1, 2, 40)
    plain = cross_validate(SingleInstance(), bags, two, params={"sample_weight": weights})
    with sklearn.config_context(enable_metadata_routing=True):
        model = SingleInstance(SVC().set_fit_request(sample_weight=True))
        model.set_score_request(sample_weight=False)
        routed = cross_validate(model, bags, two, params={"sample_weight": weights})
    np.testing.assert_array_equal(plain["test_score"], routed["test_score"])


OVO = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo"))


@pytest.mark.parametrize(
    ("model", "y", "weights", "message"),
    [
        (SingleInstance(pooling="median"), None, None, "pooling='median' is unknown; choose"),
        (SingleInstance(KMeans(2)), None, None, "estimator=KMeans(n_clusters=2) is neither a "),
        (SingleInstance(SVC), None, None, "pass an instance of one, such as SVC()."),
        (SingleInstance(Ridge(), pos_label=1), np.arange(40.0), None, "but Ridge is a regressor"),
        (
            SingleInstance(OVO),
            np.arange(40) % 3,
            None,
            "svc__decision_function_shape='ovo' scores ",
        ),
        (
            SingleInstance(KNeighborsClassifier()),
            None,
            np.ones(40),
            "KNeighborsClassifier.fit() got",
        ),
        (SingleInstance(), None, "no", "sample_weight leaves bags of 1 class(es) ('no'): a "),
    ],
)
def test_what_is_refused(bags, two, model, y, weights, message):
    weights = two == weights if isinstance(weights, str) else weights
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        model.fit(bags, two if y is None else y, sample_weight=weights)
