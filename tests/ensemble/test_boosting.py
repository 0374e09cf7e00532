"""DPBoost and LPBoost as estimators: attributes, stages, stops."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.common.generators import make_ambiguous_plane
from milearn import Bags
from milearn._compat import HAS_CALLBACKS
from milearn._solvers.common.soft_margin_lp import SoftMarginLP
from milearn.datasets import make_bags
from milearn.ensemble import Ball, DPBoost, FittedClassifier, LPBoost, Stump
from milearn.exceptions import SolverError
from tests._solvers.ensemble.oracles import solved, value_of_own_learners
from tests.toys import Callback

LEARNERS = {
    "stump": "stump",
    "rbf": "rbf",
    "tree": DecisionTreeClassifier(max_depth=2, random_state=0),
}


@pytest.fixture(scope="module")
def bags():
    return make_bags(n_bags=20, n_features=4, bag_size=(1, 4), random_state=3)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("build", [DPBoost, LPBoost])
def test_stages_end_in_the_decision_function(bags, name, build):
    X, y = bags
    model = build(estimator=LEARNERS[name]).fit(X, y)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == len(model.alpha_) == len(model.learners_)
    assert (stages[-1] == model.decision_function(X)).all()
    assert (model.alpha_ > 0).all()
    assert (np.diff(model.alpha_) <= 0).all()
    kind = {"stump": Stump, "rbf": (Ball, Stump), "tree": (FittedClassifier, Stump)}[name]
    assert all(isinstance(learner, kind) for learner in model.learners_)
    assert model.lower_bound_ <= model.objective_
    if name == "rbf":
        assert not hasattr(model, "feature_importances_")
    else:
        assert model.feature_importances_.shape == (4,)
        assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_importances_name_the_feature_that_decides():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 5))
    model = LPBoost().fit(X, X[:, 3] > 0.2)
    assert np.argmax(model.feature_importances_) == 3
    assert model.feature_importances_[3] == 1.0


def test_stump_and_ball_are_what_the_documentation_says():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = LPBoost(C=10.0).fit(X, [0, 0, 1, 1])
    assert model.learners_ == [Stump(0, 1.5, 1)]
    assert model.objective_ == pytest.approx(1.0)
    ring = LPBoost(C=10.0, estimator="rbf").fit(X, [0, 1, 1, 0])
    (ball,) = [each for each in ring.learners_ if isinstance(each, Ball)][:1]
    inside = ((X - ball.center) ** 2).sum(axis=1) > ball.threshold
    assert set(np.where(inside, ball.sign, -ball.sign)) == {-1, 1}


def test_learners_can_be_used_by_themselves(bags):
    X, y = bags
    for learner in LEARNERS.values():
        model = DPBoost(estimator=learner).fit(X, y)
        columns = [each.predict(X.instances) for each in model.learners_]
        assert {value for column in columns for value in column} == {-1.0, 1.0}
        scores = model.instance_decision_function(X)
        np.testing.assert_allclose(model.alpha_ @ columns, scores, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_learners_cut_short_floats_as_doubles(dtype):
    """Between two neighbours of a type, a threshold rounded to this type is one of them."""
    X = np.linspace(1.0, 2.0, 41, dtype=dtype)
    X = np.unique(np.r_[X, np.nextafter(X, dtype(3.0))])[:, None]
    y = np.arange(len(X)) // 2 % 2
    y[::3] = 1 - y[::3]
    model = LPBoost(C=10.0).fit(Bags(X, np.arange(len(X) + 1)), y)
    scores = model.instance_decision_function(Bags(X, np.arange(len(X) + 1)))
    columns = [each.predict(X) for each in model.learners_]
    np.testing.assert_allclose(model.alpha_ @ columns, scores, atol=1e-12)


def test_balls_compare_by_value():
    ball = Ball(np.array([1.0, 2.0]), 0.5, 1)
    assert ball == Ball(np.array([1.0, 2.0]), 0.5, 1)
    assert ball != Ball(np.array([1.0, 3.0]), 0.5, 1)
    assert ball != Ball(np.array([1.0, 2.0]), 0.5, -1)
    assert ball != Stump(0, 0.5, 1)
    assert len({ball, Ball(np.array([1.0, 2.0]), 0.5, 1)}) == 1
    assert len(repr(Ball(np.zeros(10_000), 0.5, 1))) < 100


# -- stops -----------------------------------------------------------------------------------------


def overlapping_bags():
    rng = np.random.default_rng(0)
    return Bags.from_list([rng.normal(size=(3, 2)) for _ in range(12)]), np.arange(12) % 2


def noise(seed, most_bags, digits=1):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, most_bags))
    blocks = [np.round(rng.normal(size=(rng.integers(1, 6), 4)), digits) for _ in range(n)]
    return Bags.from_list(blocks), np.arange(n) % 2


def refitted(model, X, y):
    return model.decision_function(X), model.n_features_in_, vars(model).copy()


def test_one_estimator_of_many_warns():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPBoost(n_estimators=1).fit(*overlapping_bags())
    (warning,) = caught
    assert warning.category is ConvergenceWarning


class Stopper(Callback):
    """A callback that asks to stop at the first end of an iteration."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        return context.task_name == "iteration"


@pytest.mark.skipif(not HAS_CALLBACKS, reason="callbacks came with scikit-learn 1.9")
def test_a_stop_of_a_callback_is_named():
    X, y = overlapping_bags()
    model = DPBoost().set_callbacks(Stopper())
    with pytest.warns(ConvergenceWarning, match="by callback .*: a callback asked for it"):
        model.fit(X, y)
    assert not model.converged_
    full = DPBoost().fit(X, y)
    assert model.objective_ == full.objective_history_[0]
    assert model.lower_bound_ == full.lower_bound_history_[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SolverError])
def test_a_fit_that_is_broken_off_leaves_what_was_there(bags, monkeypatch, error):
    X, y = bags
    fresh, used = DPBoost(), DPBoost().fit(X[:, [0, 1]], y)
    before = refitted(used, X[:, [0, 1]], y)
    calls = []
    advance = SoftMarginLP.advance

    def broken(self, least_mu):
        calls.append(1)
        if len(calls) == 2:
            raise error("stop")
        return advance(self, least_mu)

    monkeypatch.setattr(SoftMarginLP, "advance", broken)
    for model in (fresh, used):
        calls.clear()
        with pytest.raises(error):
            model.fit(X, y)
        assert len(calls) == 2
    assert not [name for name in vars(fresh) if name.endswith("_")]
    assert vars(used) == before[2]
    assert (used.decision_function(X[:, [0, 1]]) == before[0]).all()


def large(build, **parameters):
    """An estimator for which every program is a large one."""

    class Large(build):
        def _options(self, n_estimators):
            return replace(super()._options(n_estimators), large_entries=0)

    return Large(**parameters)


def test_a_program_without_reductions_for_its_size_is_named():
    with pytest.warns(ConvergenceWarning, match="stopped early by size .*no reductions were tried"):
        model = large(DPBoost).fit(*overlapping_bags())
    assert not model.converged_
    assert model.n_reductions_ == 0


def test_the_maximum_number_of_reductions_is_no_early_stop():
    model = DPBoost().fit(*noise(4, 60))
    assert model.n_reductions_ == 50
    assert model.lower_bound_ < 0.9 * model.objective_
    assert model.converged_


def test_a_large_program_of_the_maximum_of_learners_is_solved():
    X, y = make_bags(n_bags=40, n_features=5, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped early by n_estimators"):
        model = large(LPBoost, n_estimators=15).fit(X, y)
    signs = np.repeat(np.where(y == model.classes_[1], 1.0, -1.0), X.sizes)
    H = signs * np.array([each.predict(X.instances) for each in model.learners_])
    costs = np.ones(len(H) + len(signs))
    optimum = solved(costs, np.hstack([H.T, np.eye(len(signs))]), np.ones(len(signs)))
    assert model.objective_ == pytest.approx(optimum, rel=1e-5)


@pytest.mark.parametrize("seed", [2, 8, 11])
def test_rounding_does_not_choose_the_objective(seed):
    """Other processors add in other orders; the cost of the second fit differs by as much."""
    X, y = noise(seed, 60)
    one, other = (DPBoost(C=C).fit(X, y).objective_ for C in (1.0, 1.0 + 2.0**-51))
    assert other == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize(("seed", "C"), [(25, 30.0), (64, 30.0)])
def test_no_program_with_fixed_witnesses_is_lower_where_instances_tie(seed, C):
    X, y = noise(seed, 30, digits=0)
    model = DPBoost(C=C).fit(X, y)
    blocks = [
        X.instances[[row] if label else slice(*X.offsets[bag : bag + 2])]
        for bag, (row, label) in enumerate(zip(model.witnesses_, y, strict=True))
    ]
    fixed = LPBoost(C=C).fit(Bags.from_list(blocks), y)
    assert fixed.objective_ >= model.objective_ * (1.0 - 1e-4)


def random_problem(seed):
    """Small problems, of which half have many ties."""
    rng = np.random.default_rng(seed)
    n, p = rng.integers(6, 14), rng.integers(1, 4)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 4, n))]
    Z = rng.normal(size=(offsets[-1], p))
    Z = np.round(Z, 0) if seed % 2 else Z
    y, C = rng.permutation(np.arange(n) % 2), 10.0 ** rng.integers(-1, 2)
    weights = rng.integers(1, 3, n).astype(float) if seed % 3 == 0 else np.ones(n)
    return Bags(Z, offsets), y, C, weights


# Seeds for which the end was no vertex, or depended on the units of the features, and others.
@pytest.mark.parametrize("seed", [5, 33, 45, 56, 122])
def test_the_end_is_a_vertex_whatever_the_units_of_features(seed):
    X, y, C, weights = random_problem(seed)
    model = DPBoost(C=C).fit(X, y, sample_weight=weights)
    own = value_of_own_learners(model, X, y, C, weights)
    assert own == pytest.approx(model.objective_, rel=1e-8)
    columns = [each.predict(X.instances) for each in model.learners_]
    assert np.linalg.matrix_rank(columns) == len(columns)
    for factor in (8.0, 0.25):
        # Powers of two are exact.
        scaled = X.with_instances(factor * X.instances)
        other = DPBoost(C=C).fit(scaled, y, sample_weight=weights)
        assert other.objective_ == model.objective_
        assert other.lower_bound_ == model.lower_bound_
    assert other.converged_ == model.converged_


def test_the_maximum_number_of_learners():
    X, y = overlapping_bags()
    full = DPBoost().fit(X, y)
    with pytest.warns(ConvergenceWarning, match="stopped early by n_estimators"):
        few = DPBoost(n_estimators=1).fit(X, y)
    assert not few.converged_
    assert few.n_generated_ == 1
    assert few.lower_bound_ <= full.objective_ <= few.objective_


def test_nodes_that_end_a_search_are_named():
    rng = np.random.default_rng(2)
    X = Bags.from_list([rng.normal(size=(4, 2)) for _ in range(12)])
    y = np.arange(12) % 2
    with pytest.warns(ConvergenceWarning, match="stopped early by max_nodes"):
        model = DPBoost(C=5.0, branch=True, max_nodes=3).fit(X, y)
    assert model.lower_bound_ < model.objective_
    assert model.n_nodes_ >= 3


@pytest.mark.parametrize(
    ("learner", "error", "message"),
    [
        ("tree", ValueError, "estimator='tree' is not 'stump'"),
        (DecisionTreeClassifier, TypeError, "instance of a classifier"),
        (3, TypeError, "instance of a classifier"),
        (KNeighborsClassifier(), TypeError, "whose fit takes sample_weight"),
    ],
)
def test_learners_that_cannot_serve_are_refused(bags, learner, error, message):
    with pytest.raises(error, match=message):
        DPBoost(estimator=learner).fit(*bags)


def test_importances_need_learners_that_have_them(bags):
    model = DPBoost(estimator=GaussianNB())
    with pytest.raises(AttributeError, match="has feature_importances_ only if"):
        _ = model.feature_importances_
    model.fit(*bags)
    with pytest.raises(AttributeError, match="has feature_importances_ only if"):
        _ = model.feature_importances_


@pytest.mark.parametrize("seed", [0, 6, 9])
def test_dense_and_sparse_features_give_the_same_model_to_the_last_digit(seed):
    """On noise, where the sums of equal learners differ by rounding alone."""
    rng = np.random.default_rng(seed)
    blocks = [np.round(rng.normal(size=(rng.integers(1, 6), 4)), 1) for _ in range(24)]
    X = Bags.from_list([block * (rng.random((1, 4)) < 0.7) for block in blocks])
    y = np.arange(24) % 2
    stored = X.with_instances(sparse.csr_array(X.instances))
    for build in (DPBoost, LPBoost):
        dense, csr = build().fit(X, y), build().fit(stored, y)
        assert dense.objective_ == csr.objective_
        assert dense.lower_bound_ == csr.lower_bound_
        assert dense.learners_ == csr.learners_


# -- the plane -------------------------------------------------------------------------------------


def test_boosting_finds_the_positive_instances_of_the_plane():
    X, y, labels = make_ambiguous_plane(20, random_state=1, return_instance_labels=True)
    ours = DPBoost(estimator="rbf").fit(X, y)
    naive = LPBoost(estimator="rbf").fit(X, y)
    right = np.mean((ours.instance_decision_function(X) > 0) == labels)
    wrong = np.mean((naive.instance_decision_function(X) > 0) == labels)
    assert right > 0.95
    assert wrong < 0.7
    # With all reductions the bound is the same.
    assert ours.objective_ == pytest.approx(2.0)
    assert 1.7 < ours.lower_bound_ < 2.0
    assert ours.n_reductions_ == 50
    assert ours.n_active_reductions_ <= ours.n_reductions_


def test_costs_that_buy_no_learner_give_the_empty_ensemble():
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(2, 3)) for _ in range(50)])
    y = np.arange(50) == 25
    model = DPBoost(C=0.001).fit(bags, y)
    assert len(model.alpha_) == 0
    # Every instance of a negative bag, and the positive bag, has a slack of 1.
    assert model.objective_ == pytest.approx(0.099)
    assert model.lower_bound_ == pytest.approx(0.099)


@pytest.mark.parametrize("n_estimators", [1, "auto"])
@pytest.mark.parametrize("C", [1e-8, 1e-3])
def test_a_large_program_of_small_costs_gives_the_empty_ensemble(C, n_estimators):
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(3, 3)) for _ in range(60)])
    y = np.arange(60) % 2
    for build, n_slacks in ((DPBoost, 120), (LPBoost, 180)):
        model = build(C=C, n_estimators=n_estimators).fit(bags, y)
        assert len(model.alpha_) == 0
        assert model.objective_ == pytest.approx(n_slacks * C)
        assert model.lower_bound_ == pytest.approx(n_slacks * C)


@pytest.mark.parametrize("estimator", ["stump", "rbf"])
def test_bins_limit_the_thresholds(bags, estimator):
    """With as many bins as distinct values nothing changes; with few, thresholds are few."""
    X, y = bags
    exact = LPBoost(estimator=estimator, n_prototypes=5, max_bins=None).fit(X, y)
    most = LPBoost(estimator=estimator, n_prototypes=5, max_bins=X.n_instances).fit(X, y)
    assert most.learners_ == exact.learners_
    np.testing.assert_array_equal(most.alpha_, exact.alpha_)
    few = LPBoost(estimator=estimator, n_prototypes=5, max_bins=2).fit(X, y)
    assert few.lower_bound_ >= exact.lower_bound_ * (1 - 1e-6)
    if estimator == "stump":
        cuts = {(each.feature, each.threshold) for each in few.learners_ if each.feature >= 0}
        assert len(cuts) == len({feature for feature, _ in cuts})
