"""OrdinalMISVC: MISVC for two classes, its objective, and what it predicts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import VotingClassifier
from sklearn.metrics import get_scorer
from sklearn.preprocessing import StandardScaler

from milearn import Bags
from milearn.datasets import make_affinity, make_bags
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import InstanceTransformer
from milearn.svm import MISVC, OrdinalMISVC
from tests.toys import OFTEN_CONSTANT


def graded(n_bags=60, n_classes=4, seed=0):
    X, values = make_affinity(n_bags, 8, n_relevant=4, bag_size=(1, 4), random_state=seed)
    return X, np.digitize(values, np.quantile(values, np.arange(1, n_classes) / n_classes))


@pytest.mark.parametrize("C", [0.1, 3.0])
def test_two_classes_are_misvc(C):
    X, y = make_bags(n_bags=50, n_features=8, flip_y=0.1, random_state=1)
    ours = OrdinalMISVC(C, init="mean", tol=1e-9).fit(X, y)
    theirs = MISVC(C, kernel="linear", init="mean", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.objective_, theirs.objective_, rtol=1e-7)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.thresholds_, -theirs.intercept_, atol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    # Instances may tie.
    scores = ours.instance_latent_function(X)
    np.testing.assert_allclose(scores[ours.witnesses_], scores[theirs.witnesses_], atol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_the_objective_is_that_of_the_docstring(shift):
    X, y = graded()
    X = X.with_instances(X.instances + shift)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(y))
    model = OrdinalMISVC(0.5, class_weight={2: 3.0}).fit(X, y, sample_weight=weights)
    costs = 0.5 * weights * np.where(y == 2, 3.0, 1.0)
    w = model.coef_[0]
    value = 0.5 * w @ w
    for block, label, cost in zip(X, y, costs, strict=True):
        for t, threshold in enumerate(model.thresholds_):
            side = 1 if label > t else -1
            value += cost * max(0.0, 1 - side * ((block @ w).max() - threshold))
    # Thresholds of far features lose digits.
    np.testing.assert_allclose(model.objective_, value, rtol=1e-7 if not shift else 1e-4)
    assert model.converged_


def test_predictions_are_intervals_of_the_score():
    X, y = graded()
    model = OrdinalMISVC(10.0).fit(X, y)
    assert (np.diff(model.thresholds_) > 0).all()
    scores = model.latent_function(X)
    predicted = model.predict(X)
    np.testing.assert_array_equal(predicted, np.searchsorted(model.thresholds_, scores))
    values = model.decision_function(X)
    assert values.shape == (60, 4)
    np.testing.assert_array_equal(model.classes_[values.argmax(axis=1)], predicted)
    expected = [[sum(f - b for b in model.thresholds_[:k]) for k in range(4)] for f in scores]
    np.testing.assert_allclose(values, expected, atol=1e-12)
    of_instances = model.instance_latent_function(X)
    np.testing.assert_allclose(np.maximum.reduceat(of_instances, X.offsets[:-1]), scores)
    np.testing.assert_array_equal(model.witness(X), model.witnesses_)
    np.testing.assert_allclose(of_instances[model.witnesses_], scores)
    assert model.instance_decision_function(X).shape == (X.n_instances, 4)
    # A mistake costs more if it is farther away.
    assert np.abs(predicted - y).mean() < 0.5


def test_categories_give_the_order():
    X, y = graded(n_classes=3)
    names = np.array(["low", "mid", "high"])
    model = OrdinalMISVC(categories=names).fit(X, names[y])
    plain = OrdinalMISVC().fit(X, y)
    assert model.categories_.tolist() == names.tolist()
    np.testing.assert_allclose(model.objective_, plain.objective_)
    np.testing.assert_array_equal(model.predict(X), names[plain.predict(X)])
    # Classes that do not occur have no threshold.
    more = OrdinalMISVC(categories=[0, 7, 1, 2]).fit(X, y)
    assert more.categories_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="y contains the class 2, which is not in categories"):
        OrdinalMISVC(categories=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="categories contains a class twice"):
        OrdinalMISVC(categories=[0, 1, 1, 2]).fit(X, y)


@pytest.mark.parametrize("names", [["low", "high"], ["low", "mid", "high"]])
def test_decision_values_are_in_the_order_of_sorted_classes(names):
    """The convention of scikit-learn, on which scorers and meta-estimators rely."""
    X, y = graded(n_bags=40, n_classes=len(names))
    words, scorer = np.array(names)[y], get_scorer("roc_auc")
    model, plain = OrdinalMISVC(categories=names).fit(X, words), OrdinalMISVC().fit(X, y)
    assert model.classes_.tolist() == sorted(names)
    values = plain.decision_function(X)
    instances = plain.instance_decision_function(X)
    if len(names) == 2:
        values, instances = -values, -instances
        np.testing.assert_allclose(scorer(model, X, words), scorer(plain, X, y))
    else:
        order = np.argsort(names)
        values, instances = values[:, order], instances[:, order]
    np.testing.assert_allclose(model.decision_function(X), values)
    np.testing.assert_allclose(model.instance_decision_function(X), instances)
    np.testing.assert_array_equal(model.witness(X), plain.witness(X))
    chosen = np.array(names)[plain.predict_instances(X)]
    np.testing.assert_array_equal(model.predict_instances(X), chosen)


def test_categories_inside_of_stacking_are_numbers():
    X, y = graded(n_bags=30, n_classes=3)
    words = np.array(["low", "mid", "high"])[y]
    with pytest.raises(ValueError, match="y contains the class 0, which is not in categories"):
        VotingClassifier([("one", OrdinalMISVC(categories=["low", "mid", "high"]))]).fit(X, words)
    voting = VotingClassifier([("one", OrdinalMISVC(categories=[1, 2, 0]))]).fit(X, words)
    expected = OrdinalMISVC(categories=["low", "mid", "high"]).fit(X, words).predict(X)
    np.testing.assert_array_equal(voting.predict(X), expected)


def test_starts():
    X, y = graded()
    auto, mean = (OrdinalMISVC(init=init).fit(X, y) for init in ("auto", "mean"))
    assert auto.objective_ <= mean.objective_
    rows = auto.witnesses_
    again = OrdinalMISVC(init=rows).fit(X, y)
    np.testing.assert_allclose(again.objective_, auto.objective_, rtol=1e-6)
    weights = np.r_[np.zeros(5), np.ones(55)]
    part = OrdinalMISVC(init=rows).fit(X, y, sample_weight=weights)
    alone = OrdinalMISVC(init=rows[5:] - X.offsets[5]).fit(X[5:], y[5:])
    np.testing.assert_allclose(part.objective_, alone.objective_)


def test_a_step_that_starts_at_its_exact_solution_keeps_the_bound():
    # The last step of this fit starts at its solution, whose value is one rounding lower than that
    # of the exact solution, and the gap was that of the start.
    # Bags of 2 to 5 patients by the highest disease progression after a year, as four grades.
    data, rng = load_diabetes(), np.random.default_rng(1)
    sizes = rng.integers(2, 6, size=150)
    sizes = sizes[np.cumsum(sizes) <= len(data.data)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    chosen = rng.permutation(len(data.data))[: offsets[-1]]
    values = np.maximum.reduceat(data.target[chosen], offsets[:-1])
    X, y = (
        Bags(data.data[chosen], offsets),
        np.digitize(values, np.quantile(values, [0.25, 0.5, 0.75])),
    )
    train = list(StratifiedBagKFold(5, shuffle=True, random_state=1).split(X, y))[4][0]
    bags = InstanceTransformer(StandardScaler()).fit_transform(X[train])
    part = next(StratifiedBagKFold(3).split(bags, y[train]))[0]
    model = OrdinalMISVC(1.0).fit(bags[part], y[train][part])
    assert model.dual_gap_ <= 1e-6 * model.objective_


@pytest.mark.parametrize(
    ("C", "seed", "n_features"), [(10.0, 59, 3), (10.0, 132, 3), (1.0, 118, 2)]
)
@OFTEN_CONSTANT
def test_witnesses_of_ties_are_those_of_the_last_convex_problem(C, seed, n_features):
    # Another fit from the highest instances, of which many tie, would find a lower objective.
    rng = np.random.RandomState(seed)
    blocks = [
        rng.randint(-1, 2, size=(rng.randint(1, 5), n_features)).astype(float) for _ in range(14)
    ]
    y = np.arange(14) % 3
    model = OrdinalMISVC(C=C).fit(blocks, y)
    again = OrdinalMISVC(C=C, init=model.witnesses_).fit(blocks, y)
    assert again.objective_ >= model.objective_ * (1 - 1e-6)
    tops = model.instance_latent_function(blocks)[model.witnesses_]
    np.testing.assert_allclose(tops, model.latent_function(blocks), atol=1e-6)
