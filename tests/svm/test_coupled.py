"""CoupledMISVC and CoupledMISVR: objective, limits, use."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.svm import SVC, NuSVR

from milearn import Bags
from milearn._bags.segments import segment_max
from milearn._kernels.bag import BAG_KERNELS
from milearn.datasets import make_affinity, make_bags
from milearn.metrics import bag_kernel
from milearn.svm import MISVR, CoupledMISVC, CoupledMISVR
from tests.bags import indefinite_kernel
from tests.oracles import highest_of, selections

LOSSES = ["l1", "l2", "epsilon_insensitive"]


def data(task, n_bags=30, seed=1):
    if task == "classification":
        return make_bags(n_bags=n_bags, bag_size=(1, 5), concept_distance=2.0, random_state=seed)
    return make_affinity(n_bags, 6, n_relevant=4, bag_size=(1, 4), random_state=seed)


def model(task, **parameters):
    return CoupledMISVC(**parameters) if task == "classification" else CoupledMISVR(**parameters)


def tube_value(targets, scores, nu, weights):
    """min over the width, by trying every kink; the intercept is in the scores."""
    gaps = np.abs(targets - scores)
    return min(
        nu * width * weights.sum() + weights @ np.maximum(0, gaps - width)
        for width in np.r_[0.0, gaps]
    )


def objective(fitted, bags, y, weights=None):
    """The problem of the docstring from predictions and the norm, which is read off them too."""
    weights = np.ones(len(bags)) if weights is None else weights
    if isinstance(fitted, CoupledMISVC):
        scores, values = fitted.decision_function(bags), fitted.instance_decision_function(bags)
        sign = np.where(y == fitted.classes_[1], 1.0, -1.0)
        loss = weights @ np.maximum(0.0, 1.0 - sign * scores)
    else:
        scores, values = fitted.predict(bags), fitted.predict_instances(bags)
        loss = tube_value(y, scores, fitted.nu, weights)
    gap = np.abs(scores - segment_max(values, bags.offsets))
    if fitted.loss == "epsilon_insensitive":
        gap = np.maximum(0.0, gap - fitted.epsilon)
    price = gap**2 if fitted.loss == "l2" else gap
    losses = fitted.C * (loss + fitted.coupling * (weights @ price))
    if fitted.kernel == "linear":
        return 0.5 * float(fitted.coef_[0] @ fitted.coef_[0]) + losses
    params = {"kernel": fitted.kernel, "gamma": fitted.gamma_}
    if fitted.bag_kernel == "minmax":
        gram = bag_kernel(fitted.support_vectors_, bag_kernel="set", **params)
    else:
        gram = bag_kernel(Bags.singletons(fitted.support_vectors_), bag_kernel="set", **params)
    norm2 = float(fitted.dual_coef_[0] @ gram @ fitted.dual_coef_[0])
    return 0.5 * norm2 + losses


@pytest.mark.parametrize("name", BAG_KERNELS)
@pytest.mark.parametrize(
    ("task", "loss", "kernel"),
    [
        (task, loss, ("rbf", "linear")[(i + j) % 2])
        for i, task in enumerate(["classification", "regression"])
        for j, loss in enumerate(LOSSES)
    ],
)
def test_objective_is_the_stated_one_and_never_rises(task, loss, name, kernel):
    bags, y = data(task)
    fitted = model(task, C=3.0, loss=loss, bag_kernel=name, kernel=kernel, coupling=0.5)
    fitted.fit(bags, y)
    assert fitted.objective_ == pytest.approx(objective(fitted, bags, y), rel=1e-6)
    assert fitted.objective_history_[-1] == fitted.objective_
    assert len(fitted.objective_history_) == fitted.n_iter_
    assert (np.diff(fitted.objective_history_) <= 0).all()
    assert abs(fitted.dual_gap_) <= 1e-6 * fitted.objective_
    assert fitted.converged_


@pytest.mark.parametrize("name", BAG_KERNELS)
def test_without_coupling_it_is_the_svm_with_the_bag_kernel(name):
    bags, y = data("classification")
    K = bag_kernel(bags, bag_kernel=name, gamma=0.1)
    ours = CoupledMISVC(C=2.0, coupling=0, bag_kernel=name, gamma=0.1).fit(bags, y)
    theirs = SVC(kernel="precomputed", C=2.0, tol=1e-12).fit(K, y)
    expected = theirs.decision_function(K)
    # libsvm's own margins are off by as much; relative to the largest score.
    assert ours.decision_function(bags) == pytest.approx(expected, abs=1e-6 * abs(expected).max())
    bags, y = data("regression")
    K = bag_kernel(bags, bag_kernel=name, gamma=0.1)
    ours = CoupledMISVR(C=2.0, nu=0.4, coupling=0, bag_kernel=name, gamma=0.1).fit(bags, y)
    theirs = NuSVR(kernel="precomputed", C=2.0, nu=0.4, tol=1e-12).fit(K, y)
    assert ours.predict(bags) == pytest.approx(theirs.predict(K), abs=1e-6)


@pytest.mark.parametrize("name", BAG_KERNELS)
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_without_coupling_on_kernels_of_low_rank(name, kernel):
    # There libsvm stops at its limit of precision: ours is never above it and hardly below.
    params = {"bag_kernel": name, "kernel": kernel, "gamma": 0.1}
    bags, y = data("classification")
    K = bag_kernel(bags, **params)
    ours = CoupledMISVC(C=2.0, coupling=0, **params).fit(bags, y)
    theirs = SVC(kernel="precomputed", C=2.0, tol=1e-12).fit(K, y)
    dual = np.zeros(len(bags))
    dual[theirs.support_] = theirs.dual_coef_[0]
    hinge = np.maximum(0, 1 - np.where(y == 1, 1, -1) * theirs.decision_function(K))
    value = 0.5 * dual @ K @ dual + 2.0 * hinge.sum()
    assert (1 - 1e-5) * value <= ours.objective_
    assert ours.objective_ - ours.dual_gap_ <= (1 + 1e-9) * value


def test_epsilon_zero_is_l1_and_a_wide_one_is_no_coupling():
    for task in ("classification", "regression"):
        bags, y = data(task)
        options = {"C": 2.0, "gamma": 0.1, "coupling": 0.5}
        l1 = model(task, **options).fit(bags, y)
        none = model(task, **{**options, "coupling": 0.0}).fit(bags, y)
        zero = model(task, loss="epsilon_insensitive", epsilon=0.0, **options).fit(bags, y)
        wide = model(task, loss="epsilon_insensitive", epsilon=50.0, **options).fit(bags, y)
        assert zero.objective_ == pytest.approx(l1.objective_, rel=1e-6)
        assert wide.objective_ == pytest.approx(none.objective_, rel=1e-6)


def test_strong_coupling_ties_bags_to_their_highest_instance():
    bags, y = data("regression")
    gaps = []
    for coupling in (0.0, 0.1, 1.0, 100.0):
        fitted = CoupledMISVR(C=10.0, coupling=coupling).fit(bags, y)
        highest = segment_max(fitted.predict_instances(bags), bags.offsets)
        gaps.append(np.abs(fitted.predict(bags) - highest).sum())
    assert gaps[0] > 0.1
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-4


def regression_optimum(bags, y, C, nu):
    """The hard maximum in regression by enumeration: below the tube one instance answers."""
    w, b, width = cp.Variable(bags.shape[1]), cp.Variable(), cp.Variable(nonneg=True)
    chosen = cp.Parameter(bags.shape)
    above = highest_of(bags.instances @ w, bags.offsets) + b - y - width
    losses = cp.sum(cp.pos(above)) + cp.sum(cp.pos(y - chosen @ w - b - width))
    cost = 0.5 * cp.sum_squares(w) + C * nu * len(y) * width + C * losses
    stated, best = cp.Problem(cp.Minimize(cost)), np.inf
    for choice in selections(bags, np.ones(len(bags))):
        chosen.value = bags.instances[list(choice)]
        best = min(best, stated.solve(solver=cp.CLARABEL))
    return best


@pytest.mark.parametrize("seed", range(2))
def test_hard_maximum_in_regression_reaches_the_optimum(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=6)
    bags = Bags(rng.normal(size=(sizes.sum(), 2)), np.r_[0, np.cumsum(sizes)])
    y = rng.normal(size=6)
    fitted = MISVR(kernel="linear", C=2.0, nu=0.4, n_init=6, random_state=0).fit(bags, y)
    assert fitted.objective_ == pytest.approx(regression_optimum(bags, y, 2.0, 0.4), rel=1e-6)
    assert fitted.predict(bags) == pytest.approx(
        segment_max(fitted.predict_instances(bags), bags.offsets)
    )


def test_an_indefinite_kernel_warns():
    bags, y = data("classification")
    fit = CoupledMISVC(kernel=indefinite_kernel, bag_kernel="mean_set").fit
    with pytest.warns(UserWarning, match="is indefinite .* its negative part was dropped"):
        fit(bags, y)


def test_a_small_cache_changes_nothing_until_it_is_too_small():
    bags, y = data("classification", n_bags=40)
    whole = CoupledMISVC(gamma=0.1).fit(bags, y)
    with config_context(working_memory=0.25):
        small = CoupledMISVC(gamma=0.1).fit(bags, y)
    assert small.decision_function(bags) == pytest.approx(whole.decision_function(bags), abs=1e-7)
    with (
        config_context(working_memory=0.01),
        pytest.raises(MemoryError, match=r"40 bags with \d+ instances take .*n_components="),
    ):
        CoupledMISVC().fit(bags, y)


def test_extremes_of_sparse_bags_stay_sparse_or_are_counted():
    text = sparse.csr_array(sparse.random(60, 20_000, density=4e-4, random_state=0, format="csr"))
    bags = Bags(text, np.arange(0, 61, 3))
    y = np.arange(20) % 2
    with config_context(working_memory=10):
        fitted = CoupledMISVC(bag_kernel="minmax").fit(bags, y)
    assert sparse.issparse(fitted.support_vectors_)
    dense = CoupledMISVC(bag_kernel="minmax").fit(bags.with_instances(text.toarray()), y)
    np.testing.assert_allclose(
        fitted.decision_function(bags), dense.decision_function(bags), atol=1e-6
    )
    with (
        config_context(working_memory=10),
        pytest.raises(MemoryError, match=r"raise it by sklearn\.set_config"),
    ):
        CoupledMISVC(bag_kernel="minmax", kernel="chi2").fit(bags, y)
