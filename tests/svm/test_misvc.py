"""MI-SVM (``MISVC()``): its objective, its optimum by enumeration, what a user asks."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from milearn import Bags
from milearn._bags.segments import segment_max
from milearn.datasets import load_digit_bags, make_bags
from milearn.preprocessing import InstanceTransformer
from milearn.svm import MISVC, InstanceMISVC
from tests.bags import indefinite_kernel, labelled_bags
from tests.cases import every_pair
from tests.common.objectives import stated_objective
from tests.oracles import maximum_optimum, maximum_step
from tests.toys import OFTEN_CONSTANT

SLACKS = ["bag", "instance"]


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("seed", range(2))
def test_best_of_some_starts_is_the_optimum(seed, slack):
    bags, y = labelled_bags(seed)
    model = MISVC(C=2.0, kernel="linear", slack=slack, n_init=6, random_state=0).fit(bags, y)
    assert model.objective_ == pytest.approx(maximum_optimum(bags, y, 2.0, slack), rel=1e-6)


@pytest.mark.parametrize(
    ("seed", "slack", "init"), every_pair(range(3), SLACKS, ["mean", "random"])
)
@OFTEN_CONSTANT
def test_result_is_a_fixed_point(seed, slack, init):
    bags, y = labelled_bags(seed, n_negative=7)
    model = MISVC(C=1.0, kernel="linear", slack=slack, init=init, random_state=seed).fit(bags, y)
    assert model.converged_
    again = MISVC(C=1.0, kernel="linear", slack=slack, init=model.witnesses_).fit(bags, y)
    assert again.objective_ == pytest.approx(model.objective_, rel=1e-6)
    assert again.objective_history_[0] == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.parametrize(
    ("seed", "d", "slack"), [(3, 6, "instance"), (6, 6, "instance"), (2, 8, "bag"), (5, 8, "bag")]
)
@OFTEN_CONSTANT
def test_the_gap_belongs_to_the_witnesses_of_a_constant_model(seed, d, slack):
    """All instances tie, and with other witnesses the convex step has a lower value."""
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(4, 8, 36))]
    bags, y = Bags(rng.normal(size=(offsets[-1], d)), offsets), (np.arange(36) < 3) * 1
    model = MISVC(C=0.1, kernel="linear", slack=slack, init="mean").fit(bags, y)
    assert model.objective_ == pytest.approx(0.6, rel=1e-5)
    best = maximum_step(bags, y == 1, np.full(36, 0.1), slack, model.witnesses_[y == 1])
    assert model.objective_ - model.dual_gap_ <= best * (1 + 1e-6)


@pytest.mark.parametrize(
    ("C", "slack", "kernel"), every_pair([0.01, 1.0, 100.0], SLACKS, ["linear", "rbf"])
)
def test_objective_is_the_stated_one_and_never_rises(C, slack, kernel):
    bags, y = make_bags(n_bags=40, witness_rate=0.2, concept_distance=2.0, random_state=1)
    model = MISVC(C=C, slack=slack, kernel=kernel).fit(bags, y)
    value, rounding = stated_objective(model, bags, y)
    assert model.objective_ == pytest.approx(value, rel=1e-8, abs=rounding)
    assert model.objective_history_[-1] == model.objective_
    assert len(model.objective_history_) == model.n_iter_
    # Up to rounding, where a step leads to the same point.
    assert (np.diff(model.objective_history_) <= 1e-13 * model.objective_).all()
    assert abs(model.dual_gap_) <= 1e-6 * model.objective_


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("slack", SLACKS)
def test_history_never_rises_on_real_data(data_dir, slack, kernel):
    with np.load(data_dir / "musk1.npz") as file:
        instances = file["instances"].astype(np.float64) / 100.0
        bags, y = Bags(instances, file["bag_offsets"]), file["y"]
    model = MISVC(C=10.0, slack=slack, kernel=kernel).fit(bags, y)
    assert model.converged_
    assert (np.diff(model.objective_history_) <= 0).all()
    value, rounding = stated_objective(model, bags, y)
    assert model.objective_ == pytest.approx(value, rel=1e-7, abs=rounding)


def test_singletons_are_the_svm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, "b", "a")
    for slack in SLACKS:
        model = MISVC(C=0.7, slack=slack, gamma=0.2).fit(X, y)
        reference = SVC(C=0.7, gamma=0.2, tol=1e-8).fit(X, y)
        assert model.decision_function(X) == pytest.approx(reference.decision_function(X), abs=1e-4)


def test_a_callable_kernel_is_that_of_its_name():
    bags, y = make_bags(n_bags=40, n_features=5, random_state=0)
    named = MISVC(kernel="laplacian", gamma=0.2).fit(bags, y)
    called = MISVC(kernel=partial(laplacian_kernel, gamma=0.2)).fit(bags, y)
    scores = named.decision_function(bags)
    assert called.decision_function(bags) == pytest.approx(scores, abs=1e-6)
    auto, fifth = (MISVC(gamma=gamma).fit(bags, y).objective_ for gamma in ("auto", 0.2))
    assert auto == fifth


def test_an_indefinite_kernel_warns_and_stays_consistent():
    bags, y = make_bags(n_bags=30, n_features=4, random_state=0)

    model = MISVC(C=1.0, kernel=indefinite_kernel)
    with pytest.warns(UserWarning, match="is indefinite .* its negative part was dropped"):
        model.fit(bags, y)
    # The objective under the clipped matrix, from the scores on the training instances.
    gram_scores = model.instance_decision_function(bags)
    sign = np.where(y == 1, 1.0, -1.0)
    hinge = np.maximum(0, 1 - sign * segment_max(gram_scores, bags.offsets))
    dual = np.zeros(bags.n_instances)
    dual[model.support_] = model.dual_coef_[0]
    norm2 = dual @ (gram_scores - model.intercept_[0])
    assert model.objective_ == pytest.approx(0.5 * norm2 + hinge.sum(), rel=1e-6)


def test_one_versus_rest_is_one_fit_a_class():
    bags, _ = make_bags(n_bags=30, random_state=0)
    y = np.arange(30) % 3
    model = MISVC(gamma=0.1).fit(bags, y)
    scores = model.decision_function(bags)
    assert scores.shape == (30, 3)
    assert model.witnesses_.shape == (30, 3)
    for label in range(3):
        single = MISVC(gamma=0.1).fit(bags, y == label)
        assert scores[:, label] == pytest.approx(single.decision_function(bags), abs=1e-7)
        assert model.objective_[label] == pytest.approx(single.objective_)
    assert np.array_equal(model.predict(bags), np.argmax(scores, axis=1))


@pytest.mark.parametrize("slack", SLACKS)
def test_weights_of_classes_are_those_of_their_bags(slack):
    bags, y = make_bags(n_bags=24, concept_distance=2.0, random_state=3)
    by_class = MISVC(slack=slack, class_weight={1: 3.0}).fit(bags, y)
    by_bag = MISVC(slack=slack, gamma=by_class.gamma_).fit(
        bags, y, sample_weight=np.where(y == 1, 3.0, 1.0)
    )
    assert by_class.decision_function(bags) == pytest.approx(by_bag.decision_function(bags))
    value, rounding = stated_objective(by_class, bags, y)
    assert by_class.objective_ == pytest.approx(value, abs=rounding)


def test_wrong_parameters_are_named():
    bags, y = make_bags(n_bags=10, random_state=0)
    with pytest.raises(ValueError, match=r"init has shape \(3,\) and type int64: give 10 integers"):
        MISVC(init=[0, 1, 2]).fit(bags, y)
    outside = bags.offsets[:-1].copy()
    outside[4] = 0
    with pytest.raises(ValueError, match=r"init\[4\] = 0 is not a row of bag 4: its rows are"):
        MISVC(init=outside).fit(bags, y)
    with pytest.raises(ValueError, match="The kernel returned shape"):
        MISVC(kernel=lambda left, right: np.ones((2, 2))).fit(bags, y)


@pytest.mark.parametrize(
    "model",
    [
        MISVC(kernel="linear"),
        MISVC(kernel="linear", slack="instance"),
        InstanceMISVC(kernel="linear"),
        MISVC(kernel=linear_kernel),
        MISVC(kernel=linear_kernel, slack="instance"),
        MISVC(C=1.0, kernel=linear_kernel),
    ],
    ids=["bag", "instance", "labels", "bag, callable", "instance, callable", "C=1, callable"],
)
def test_order_and_arithmetic_do_not_choose_the_minimum(model):
    # Pixels that are lit in one image only: the first w stands on them, and everything ties.
    X, y = load_digit_bags(n_bags=70, random_state=0, return_X_y=True)
    X = InstanceTransformer(StandardScaler()).fit_transform(X)
    rng = np.random.default_rng(0)
    inside = np.concatenate([a + rng.permutation(b - a) for a, b in itertools.pairwise(X.offsets)])
    bags = rng.permutation(70)
    mixed = X.with_instances(X.instances[inside])[bags]
    values = [clone(model).fit(X, y).objective_, clone(model).fit(mixed, y[bags]).objective_]
    if model.C != 1:  # with C=1 and this tol, the first scores are precise to 1e-5 only
        values.append(clone(model).set_params(tol=1e-9).fit(X, y).objective_)
    assert values == pytest.approx([values[0]] * len(values), rel=1e-6)


def test_a_flat_start_does_not_leave_the_witnesses_to_rounding():
    # With one positive instance hidden among many negative ones the mean start ends at w = 0,
    # where every instance scores the same.
    rng = np.random.default_rng(0)
    sizes = np.full(20, 12)
    y = np.arange(20) % 2
    instances = rng.normal(size=(240, 3))
    instances[::12][y == 1] += [6.0, 0, 0]
    bags = Bags(instances, np.r_[0, np.cumsum(sizes)])
    model = MISVC(kernel="linear", C=0.001).fit(bags, y)
    order = np.concatenate([np.arange(11, -1, -1) + 12 * bag for bag in range(20)])
    turned = MISVC(kernel="linear", C=0.001).fit(bags.with_instances(instances[order]), y)
    assert turned.objective_ == pytest.approx(model.objective_, rel=1e-9)
    assert turned.coef_ == pytest.approx(model.coef_, abs=1e-9)
