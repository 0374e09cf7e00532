"""MISVC by passes over the instances: the same model as by the dual, for many more instances."""

from __future__ import annotations

import functools
import pickle
import signal

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from milearn import Bags
from milearn._solvers.common.descent import RowLimits
from milearn._solvers.svm import mi_svm_rows, starts
from milearn.datasets import load_bags, make_bags, save_bags
from milearn.svm import MISVC, MISVR, SDPMIL, CoupledMISVC, CoupledMISVR, InstanceMISVC
from tests.common.objectives import stated_objective
from tests.toys import two_level_bags

SLACKS = ["bag", "instance"]


def products(left, right):
    """The linear kernel as a callable, which goes to the dual."""
    return np.asarray((left @ right.T).toarray() if sparse.issparse(left) else left @ right.T)


def linear(**parameters):
    return MISVC(kernel="linear", C=1.0, **parameters)


@pytest.mark.parametrize("slack", SLACKS)
def test_primal_and_dual_are_the_same_model(slack):
    bags, y = make_bags(160, 6, bag_size=(2, 8), flip_y=0.1, random_state=1)
    start = bags.offsets[:-1]
    dual = MISVC(1.0, kernel=products, slack=slack, init=start).fit(bags, y)
    primal = linear(slack=slack, init=start).fit(bags, y)
    assert primal.objective_ == pytest.approx(dual.objective_, rel=1e-3)
    assert 0 <= primal.dual_gap_ <= 5e-4 * primal.objective_
    assert primal.converged_
    assert primal.n_passes_ >= primal.n_iter_
    np.testing.assert_allclose(
        primal.decision_function(bags), dual.decision_function(bags), atol=0.05
    )
    assert not hasattr(primal, "dual_coef_")
    again = pickle.loads(pickle.dumps(primal))
    np.testing.assert_array_equal(again.decision_function(bags), primal.decision_function(bags))


OTHERS = [
    CoupledMISVC(1.0, kernel="linear"),
    CoupledMISVC(1.0, kernel="linear", loss="l2", bag_kernel="mean_set"),
    MISVR(C=1.0, kernel="linear"),
    CoupledMISVR(C=1.0, kernel="linear", loss="epsilon_insensitive", bag_kernel="set"),
    InstanceMISVC(1.0, kernel="linear", init="bag"),
]


def values_of_bags(model, bags, y):
    """What a model is fitted to: classes, or the highest value of a linear function."""
    if "SVC" in type(model).__name__:
        return y
    rng = np.random.default_rng(0)
    top = np.maximum.reduceat(bags.instances @ rng.normal(size=bags.shape[1]), bags.offsets[:-1])
    return 10.0 + top + 0.3 * rng.normal(size=len(bags))


@pytest.mark.parametrize("model", OTHERS, ids=repr)
def test_other_models_are_the_same_by_passes(model):
    bags, y = make_bags(60, 6, bag_size=(2, 8), flip_y=0.1, random_state=1)
    y = values_of_bags(model, bags, y)
    if "init" in model.get_params() and model.init == "auto":
        model = clone(model).set_params(init=bags.offsets[:-1])
    dual = clone(model).set_params(kernel=products).fit(bags, y)
    primal = clone(model).fit(bags, y)
    assert primal.converged_
    assert primal.objective_ == pytest.approx(dual.objective_, rel=1e-4)
    assert 0 <= primal.dual_gap_ <= 1e-5 * primal.objective_
    assert primal.n_passes_ > primal.n_iter_
    assert not hasattr(primal, "gamma_")
    for method in ("predict", "predict_instances"):
        expected = getattr(dual, method)(bags)
        np.testing.assert_allclose(getattr(primal, method)(bags), expected, atol=0.02)
    np.testing.assert_array_equal(primal.witnesses_, primal.witness(bags))
    if hasattr(dual, "tube_half_width_"):
        assert primal.tube_half_width_ == pytest.approx(dual.tube_half_width_, abs=1e-2)
    again = pickle.loads(pickle.dumps(primal))
    np.testing.assert_array_equal(again.predict(bags), primal.predict(bags))
    refitted = primal.set_params(kernel=products).fit(bags, y)
    assert not hasattr(refitted, "n_passes_")


@pytest.mark.parametrize("model", OTHERS, ids=repr)
def test_other_models_read_instances_as_they_are_stored(model, tmp_path):
    bags, y = make_bags(60, 6, bag_size=(2, 8), random_state=2)
    y = values_of_bags(model, bags, y)
    plain = clone(model).fit(bags, y)
    single = bags.with_instances(bags.instances.astype(np.float32))
    save_bags(tmp_path / "bags", single, y, format="npy-folder")
    mapped = load_bags(tmp_path / "bags", mmap=True).data
    from_file = clone(model).fit(mapped, y)
    assert from_file.objective_ == pytest.approx(plain.objective_, rel=1e-3)
    np.testing.assert_allclose(from_file.predict(mapped), plain.predict(bags), atol=0.02)


@pytest.mark.parametrize("model", [MISVC(1.0), InstanceMISVC(1.0, init="bag")], ids=repr)
def test_as_many_landmarks_as_instances_are_the_kernel(model):
    bags, y = make_bags(40, 6, bag_size=(2, 8), flip_y=0.05, random_state=4)
    start = {"init": bags.offsets[:-1]} if isinstance(model, MISVC) else {}
    dual = clone(model).set_params(**start).fit(bags, y)
    rows = clone(model).set_params(n_components=10**4, random_state=0, **start).fit(bags, y)
    assert rows.objective_ == pytest.approx(dual.objective_, rel=1e-4)
    assert rows.support_vectors_.shape == bags.instances.shape
    np.testing.assert_allclose(
        rows.decision_function(bags), dual.decision_function(bags), atol=0.02
    )
    assert rows.gamma_ == dual.gamma_
    assert rows.n_passes_ > 1


LINEAR = [
    MISVC(1.0, kernel="linear"),
    InstanceMISVC(1.0, kernel="linear"),
    MISVR(kernel="linear"),
    CoupledMISVC(1.0, kernel="linear"),
    CoupledMISVC(1.0, kernel="linear", coupling=0.0),
    CoupledMISVR(kernel="linear"),
]


@pytest.mark.parametrize("model", LINEAR, ids=repr)
def test_fitted_attributes_do_not_depend_on_the_size_of_the_data(model):
    known = []
    for n_bags, n_features in ((20, 4), (200, 4), (20, 200)):
        bags, y = make_bags(n_bags, n_features, bag_size=(1, 5), random_state=0)
        fitted = clone(model).fit(bags, y)
        known.append({name for name in vars(fitted) if name.endswith("_")})
        assert fitted.coef_.shape == (1, n_features)
        assert fitted.n_passes_ > 0
        # Instances that tie differ by rounding.
        of_instances = "predict_instances" if is_regressor(fitted) else "instance_decision_function"
        scores = getattr(fitted, of_instances)(bags)
        highest = scores[fitted.witness(bags)]
        np.testing.assert_allclose(scores[fitted.witnesses_], highest, rtol=1e-9, atol=1e-12)
    assert known[0] == known[1] == known[2]
    assert {"coef_", "intercept_", "n_passes_"} <= known[0]
    assert not {"support_", "dual_coef_", "support_vectors_", "gamma_"} & known[0]


def test_few_large_bags_take_no_time_by_instance():
    # Trx protein: 123 bags of 137 x 9. The dual over kernel values takes minutes.
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(123 * 137, 9)), np.arange(124) * 137)
    y = (rng.random(123) < 0.2).astype(int)
    model = MISVC(1.0 / 9.0, kernel="linear", slack="instance").fit(bags, y)
    assert model.converged_
    assert 0 < model.n_passes_ < 100


def test_labels_of_a_small_problem_in_single_precision_are_solved_as_precisely():
    bags, y = make_bags(120, 20, bag_size=(2, 8), flip_y=0.05, random_state=0)
    single = bags.with_instances(bags.instances.astype(np.float32))
    same = bags.with_instances(single.instances.astype(np.float64))
    model = InstanceMISVC(C=10.0, kernel="linear", init="mean")
    expected = clone(model).fit(same, y)
    model.fit(single, y)
    assert model.n_passes_ > 0
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-11)
    assert model.dual_gap_ <= 1e-9 * model.objective_


def test_instances_are_read_as_they_are_stored(tmp_path):
    bags, y = make_bags(300, 8, bag_size=20, random_state=3)
    whole = linear().fit(bags, y)
    expected = whole.decision_function(bags)
    for dtype in (np.float32, np.float16):
        stored = bags.with_instances(bags.instances.astype(dtype))
        model = linear().fit(stored, y)
        assert model.n_passes_ <= 40
        assert not hasattr(model, "gamma_")
        assert model.objective_ == pytest.approx(whole.objective_, rel=5e-3)
        np.testing.assert_allclose(model.decision_function(stored), expected, atol=0.2)
        save_bags(tmp_path / dtype.__name__, stored, y, format="npy-folder")
        mapped = load_bags(tmp_path / dtype.__name__, mmap=True).data
        from_file = linear().fit(mapped, y)
        np.testing.assert_allclose(from_file.coef_, model.coef_)
        np.testing.assert_allclose(
            from_file.decision_function(mapped), model.decision_function(stored)
        )
    wide = make_bags(10, 60, bag_size=2, random_state=0)[0]
    stored = wide.with_instances(wide.instances.astype(np.float16))
    assert linear().fit(stored, np.arange(10) % 2).coef_.dtype == np.float64


view_of_block = mi_svm_rows._view_of_block


class _Fails:
    """Something in the place of a pass that happens in the n-th of them."""

    def __init__(self, number, happens):
        self.left, self.happens = number, happens

    def __call__(self, *arguments, **named):
        self.left -= 1
        if self.left == 0:
            self.happens()
        return view_of_block(*arguments, **named)


def _raise():
    raise KeyboardInterrupt


def _signal():
    # A shell starts what runs in the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "happens"), [(1, _signal), (2, _raise), (4, _signal)])
def test_an_interrupt_in_a_pass_leaves_the_fit_before_it(number, happens, monkeypatch):
    bags, y = make_bags(80, 6, bag_size=(2, 8), flip_y=0.1, random_state=1)
    model = linear().fit(bags[:30], y[:30])
    before, scores = dict(vars(model)), model.decision_function(bags)
    fresh = linear()
    with monkeypatch.context() as patched:
        for each in (model, fresh):
            patched.setattr(mi_svm_rows, "_view_of_block", _Fails(number, happens))
            with pytest.raises(KeyboardInterrupt):
                each.fit(bags, y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(model.decision_function(bags), scores)
    with pytest.raises(NotFittedError):
        fresh.predict(bags)
    again = fresh.fit(bags, y)
    assert again.converged_
    np.testing.assert_array_equal(again.coef_, model.fit(bags, y).coef_)


def test_whatever_stops_a_fit_is_named_and_leaves_a_whole_new_one(monkeypatch):
    bags, y = make_bags(160, 6, bag_size=(2, 8), flip_y=0.1, random_state=2)
    model = linear(init="mean")
    expected = model.fit(bags[:50], y[:50]).objective_

    def stopped(message, **parameters):
        model.set_params(**{"max_iter": 100, "tol": 1e-6, **parameters})
        with pytest.warns(ConvergenceWarning, match=message):
            model.fit(bags, y)
        assert not model.converged_
        assert model.objective_ != expected
        assert len(model.objective_history_) == model.n_iter_
        scores = model.decision_function(bags)
        positive = y == 1
        value = 0.5 * (model.coef_**2).sum() + np.maximum(0, 1 - scores[positive]).sum()
        value += np.maximum(0, 1 + scores[~positive]).sum()
        assert model.objective_ == pytest.approx(value, rel=1e-9)

    stopped("stopped at max_iter=1 before convergence", max_iter=1)
    solve = functools.partial(starts.solve_mi_svm_rows, limits=RowLimits(all_rows=0))

    def with_callback(source, loss, slack, start, options):
        asked = options.watched_by(lambda iteration, objective: iteration == 2)
        return solve(source, loss, slack, start, asked)

    monkeypatch.setattr("milearn.svm._mi_svm.solve_mi_svm_rows", with_callback)
    stopped("because a callback asked for it")
    assert model.n_iter_ == 2
    monkeypatch.setattr(
        "milearn.svm._mi_svm.solve_mi_svm_rows", functools.partial(solve, max_passes=4)
    )
    stopped(r"stopped after \d passes over the instances")
    assert model.n_iter_ < 100


@pytest.mark.parametrize("Model", [MISVC, InstanceMISVC, SDPMIL], ids=lambda each: each.__name__)
def test_the_objective_is_that_of_the_weights_for_features_of_any_size(Model):
    bags, y = two_level_bags(n_bags=14, shift=0.5)
    large = bags.with_instances(1e8 * bags.instances)
    model = Model(kernel="linear").fit(large, y)
    value, rounding = stated_objective(model, large, y)
    assert model.objective_ > 1.0
    assert model.objective_ == pytest.approx(value, rel=1e-6, abs=rounding)
    assert model.dual_gap_ <= 1e-3 * model.objective_
