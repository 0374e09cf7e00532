"""SingleInstance against the inner estimator, fitted and pooled by hand."""

from __future__ import annotations

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
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import InstanceTransformer


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


def test_pos_label_turns_the_sign(bags, two):
    model = SingleInstance(logistic(), pos_label="no").fit(bags, two)
    single = model.instance_decision_function(bags)
    np.testing.assert_allclose(model.decision_function(bags), pooled(single, bags, "max", sign=-1))
    negative = model.predict_proba_instances(bags)[:, 0]
    np.testing.assert_allclose(model.predict_proba(bags)[:, 0], pooled(negative, bags, "max"))
    np.testing.assert_allclose(single[model.witness(bags)], model.decision_function(bags))


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


@pytest.mark.parametrize(
    ("model", "labels", "error", "sentence"),
    [
        (
            SingleInstance(pooling="median"),
            None,
            ValueError,
            "pooling='median' is unknown: use 'max' or 'mean'.",
        ),
        (
            SingleInstance(KMeans(2)),
            None,
            TypeError,
            "estimator=KMeans(n_clusters=2) is neither a classifier nor a regressor: pass an "
            "instance of one, such as SVC().",
        ),
        (
            SingleInstance(SVC),
            None,
            TypeError,
            "estimator=<class 'sklearn.svm._classes.SVC'> is neither a classifier nor a "
            "regressor: pass an instance of one, such as SVC().",
        ),
        (
            SingleInstance(Ridge(), pos_label=1),
            np.arange(40.0),
            ValueError,
            "pos_label=1 was given but Ridge is a regressor: remove it.",
        ),
        (
            SingleInstance(pos_label="perhaps"),
            None,
            ValueError,
            "pos_label='perhaps' is not a label in y: the labels are ['no', 'yes'].",
        ),
        (
            SingleInstance(),
            np.zeros(40, dtype=int),
            ValueError,
            "y holds one class only (0): a classifier needs bags of at least two classes.",
        ),
        (
            SingleInstance(make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo"))),
            np.arange(40) % 3,
            ValueError,
            "svc__decision_function_shape='ovo' scores pairs of classes, which cannot be pooled "
            "over a bag: use decision_function_shape='ovr'.",
        ),
    ],
)
def test_bad_parameters(bags, two, model, labels, error, sentence):
    with pytest.raises(error) as caught:
        model.fit(bags, two if labels is None else labels)
    assert str(caught.value) == sentence


def test_bad_weights(bags, two):
    with pytest.raises(TypeError) as caught:
        SingleInstance(KNeighborsClassifier()).fit(bags, two, sample_weight=np.ones(40))
    assert str(caught.value) == (
        "sample_weight was given but KNeighborsClassifier does not take it: leave it out, or use "
        "an estimator whose fit has it."
    )
    with pytest.raises(ValueError, match="class") as caught:
        SingleInstance().fit(bags, two, sample_weight=two == "no")
    assert str(caught.value) == (
        "sample_weight leaves bags of 1 class(es) ('no'): a classifier needs bags of at least two "
        "classes with a weight above zero."
    )


def test_real_data(data_dir):
    """SIL on Musk1, one pass of ten folds; measured 84.8 (max) and 90.1 (mean)."""
    with np.load(data_dir / "musk1.npz", allow_pickle=False) as stored:
        bags, y = Bags(stored["instances"], stored["bag_offsets"]), stored["y"]
    for pooling in ("max", "mean"):
        model = make_pipeline(InstanceTransformer(), SingleInstance(SVC(C=10), pooling=pooling))
        scores = cross_validate(model, bags, y, cv=StratifiedBagKFold(10))["test_score"]
        assert scores.mean() > 0.78
