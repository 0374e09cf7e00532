"""MISVC by passes over the instances: the same model as by the dual, for many more instances."""

from __future__ import annotations

import signal
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from milearn._solvers.common.descent import RowLimits
from milearn._solvers.svm import mi_svm_rows
from milearn.datasets import load_bags, make_bags, save_bags
from milearn.svm import MISVC, MISVR, SDPMIL, CoupledMISVC, CoupledMISVR, InstanceMISVC
from tests.common.objectives import stated_objective
from tests.toys import two_level_bags


def linear(**parameters):
    return MISVC(kernel="linear", C=1.0, **parameters)


MODELS = [
    linear(),
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


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_instances_are_read_as_they_are_stored(model, tmp_path):
    bags, y = make_bags(60, 6, bag_size=(2, 8), random_state=2)
    y = values_of_bags(model, bags, y)
    for dtype, rel in ((np.float32, 1e-6), (np.float16, 1e-6)):
        stored = bags.with_instances(bags.instances.astype(dtype))
        plain = clone(model).fit(stored.with_instances(stored.instances.astype(float)), y)
        save_bags(tmp_path / dtype.__name__, stored, y, format="npy-folder")
        mapped = load_bags(tmp_path / dtype.__name__, mmap=True).data
        from_file = clone(model).fit(mapped, y)
        assert from_file.objective_ == pytest.approx(plain.objective_, rel=rel)
        assert from_file.coef_.dtype == np.float64
        np.testing.assert_allclose(from_file.predict(mapped), plain.predict(bags), atol=0.02)


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
    for n_bags, n_features in ((20, 4), (100, 4), (20, 100)):
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


@pytest.mark.parametrize(("number", "happens"), [(1, _signal), (4, _raise)])
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


def test_passes_that_run_out_leave_a_whole_new_fit_with_a_warning(monkeypatch):
    bags, y = make_bags(160, 6, bag_size=(2, 8), flip_y=0.1, random_state=2)
    model = linear(init="mean", tol=1e-6)
    before = model.fit(bags[:50], y[:50]).objective_
    few = partial(mi_svm_rows.solve_mi_svm_rows, limits=RowLimits(all_rows=0), max_passes=4)
    monkeypatch.setattr("milearn.svm._misvc.solve_mi_svm_rows", few)
    with pytest.warns(ConvergenceWarning, match=r"stopped after \d passes over the instances"):
        model.fit(bags, y)
    assert not model.converged_
    assert model.objective_ != before
    assert len(model.objective_history_) == model.n_iter_ < 100
    value, rounding = stated_objective(model, bags, y)
    assert model.objective_ == pytest.approx(value, rel=1e-9, abs=rounding)


@pytest.mark.parametrize("Model", [MISVC, InstanceMISVC, SDPMIL], ids=lambda each: each.__name__)
def test_the_objective_is_that_of_the_weights_for_features_of_any_size(Model):
    bags, y = two_level_bags(n_bags=14, shift=0.5)
    large = bags.with_instances(1e8 * bags.instances)
    model = Model(kernel="linear").fit(large, y)
    value, rounding = stated_objective(model, large, y)
    assert model.objective_ > 1.0
    assert model.objective_ == pytest.approx(value, rel=1e-6, abs=rounding)
    assert model.dual_gap_ <= 1e-3 * model.objective_
