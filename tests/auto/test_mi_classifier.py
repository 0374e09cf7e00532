"""MIClassifier: what it chooses, calibrates, leaves out and says; folds that know no order."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from scipy import sparse
from scipy.special import expit, logit
from sklearn.metrics import balanced_accuracy_score, brier_score_loss, roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from milearn import MISVC, Bags, MIRegressor
from milearn._bags.distinct import merge_bags
from milearn._bags.segments import segment_max
from milearn.auto._candidates import FitData
from milearn.auto._judgement import Judge, calibrated, probabilities
from milearn.auto._plan import SizeLimits, size_plan
from milearn.datasets import make_bags
from milearn.model_selection._inner import class_folds, value_folds
from milearn.preprocessing import ClippedScaler, InstanceTransformer
from milearn.svm import BagSVC
from tests.auto.test_ways import Only, TwoFolds, kernel_matrix, mean_of_folds
from tests.common.few_trees import FEW_TREES, AllFolds, MIClassifier
from tests.toys import Callback


def shifted_bags(n_bags=40, seed=0, size=6):
    """All instances of a positive bag lie a little higher: no single one tells."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    instances = rng.normal(size=(n_bags * size, 3)) + 0.8 * np.repeat(y, size)[:, None]
    return Bags(instances, np.arange(n_bags + 1) * size), y


def witness_bags(n_bags=40, seed=0):
    """One instance of a positive bag lies at (3, 3); extremes and means are those of all bags."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    corners = np.array([[3.0, -3.0], [-3.0, 3.0], [-3.0, -3.0]])
    blocks = []
    for label in y:
        block = rng.normal(size=(12, 8))
        block[:, :2] = corners[rng.integers(0, 3, 12)] + 0.7 * rng.normal(size=(12, 2))
        if label:
            block[rng.integers(0, 12), :2] = 3.0
        blocks.append(block)
    return Bags.from_list(blocks), y


@pytest.fixture(scope="module")
def average():
    bags, y = shifted_bags()
    return AllFolds(random_state=0).fit(bags, y), bags, y


@pytest.fixture(scope="module")
def instance():
    bags, y = witness_bags(30)
    return AllFolds(random_state=0).fit(bags, y), bags, y


# -- the choice ------------------------------------------------------------------------------------


def test_the_paradigm_follows_the_data(average, instance):
    for (model, _, _), good, bad in (
        (average, "average", "instance"),
        (instance, "instance", "average"),
    ):
        totals = {way: each["accuracy"] + each["roc_auc"] for way, each in model.scores_.items()}
        names = ["logistic", "logistic_statistics", "trees", "average", "linear", "share"]
        assert list(totals) == [*names, "instance", "combined"]
        assert totals[good] > totals[bad]
        assert model.paradigm_ == "combined"
        assert (model._function.weights > 0).all()
        assert model.skipped_ == []


def test_the_classifiers_are_those_that_are_documented():
    for name, (bags, y) in (("average", shifted_bags(24)), ("instance", witness_bags())):
        matrix = kernel_matrix(BagSVC().fit(bags, y), bags, y)
        scaled = ClippedScaler("standard", clip=3.0).fit_transform(bags)

        def fit(train, name=name, matrix=matrix, scaled=scaled, y=y):
            if name == "instance":
                return MISVC(C=10.0).fit(scaled[train], y[train]).decision_function(scaled)
            known = SVC(C=10.0, kernel="precomputed", tol=1e-8)
            known.fit(matrix[np.ix_(train, train)], y[train])
            return known.decision_function(matrix[:, train])

        model = Only(name).fit(bags, y)
        slope, constant = model._function.slopes[0, 0], model._function.constant[0]
        # Models of kernels between bags are fitted on all, and folds only calibrate them.
        scores = mean_of_folds(bags, y, fit) if name == "instance" else fit(np.arange(len(y)))
        expected = slope * scores + constant
        np.testing.assert_allclose(model.decision_function(bags), expected, rtol=1e-3, atol=1e-3)
    # The witnesses of positive bags are those of the mean of the models.
    scores = model.instance_decision_function(bags)
    highest = segment_max(scores, bags.offsets)
    np.testing.assert_allclose(scores[model.witness(bags)], highest)
    assert (np.abs(bags.instances[model.witness(bags)][y == 1, :2] - 3.0) < 0.1).all()


def test_scores_of_a_fold_are_those_of_an_svc_on_parts_of_one_matrix():
    bags, y = shifted_bags(20)
    model = Only("average").fit(bags, y)
    merged = merge_bags(bags, y, np.ones(20))
    matrix = BagSVC().fit(merged.bags, y[merged.positions])._rows(merged.bags)
    rng = np.random.RandomState(0)
    rng.randint(2**31 - 1)
    codes, scores, tested = y[merged.positions], [], []
    for train, test in class_folds(merged, codes, rng):
        svc = SVC(C=10.0, kernel="precomputed", tol=1e-8)
        svc.fit(matrix[np.ix_(train, train)], codes[train])
        scores.append(svc.decision_function(matrix[np.ix_(test, train)]))
        tested.append(test)
    area = roc_auc_score(codes[np.concatenate(tested)], np.concatenate(scores))
    assert model.scores_["average"]["roc_auc"] == pytest.approx(area)


def test_the_scores_are_those_of_bags_left_out():
    # Labels at random: scores of bags that were learnt from would be perfect.
    bags, _ = shifted_bags(40)
    y = np.random.default_rng(0).permutation(np.arange(40) % 2)
    model = TwoFolds(random_state=0).fit(bags, y)
    assert all(each["roc_auc"] < 0.75 for each in model.scores_.values())
    inside = model.predict_proba(bags)[:, 1]
    assert np.abs(inside - 0.5).max() < 0.45


# -- probabilities and thresholds ------------------------------------------------------------------


def test_probabilities_of_new_bags_are_calibrated():
    # Overlapping classes, so that certain statements would be wrong ones.
    bags, y = shifted_bags(140, seed=3, size=2)
    model = MIClassifier(random_state=0).fit(bags[:60], y[:60])
    stated = model.predict_proba(bags[60:])[:, 1]
    assert brier_score_loss(y[60:], stated) < 0.2  # 0.25 says nothing
    assert abs(stated.mean() - y[60:].mean()) < 0.1
    sure = np.abs(stated - 0.5) > 0.3
    right = (stated[sure] > 0.5) == (y[60:][sure] == 1)
    assert right.mean() > 0.8


def test_platt_by_weights_equals_its_own_likelihood():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 80)
    scores = codes + rng.normal(size=80)
    weights = rng.integers(1, 4, 80).astype(float)
    data = FitData(codes, 1, False, weights, 1.0)
    slope, constant = calibrated(scores[:, None], np.arange(80), data)
    positive = weights[codes == 1].sum()
    negative = weights[codes == 0].sum()
    target = np.where(codes == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))
    p = expit(scores * slope + constant)
    # At the maximum of the likelihood both derivatives are zero.
    assert abs(weights @ (p - target)) < 1e-3
    assert abs((weights * scores) @ (p - target)) < 1e-3
    # The same targets give the rate that the classes weigh the same against.
    rate = logit(np.average(target, weights=weights))
    np.testing.assert_allclose(Judge(data, "balanced_accuracy").shift, rate)
    assert (Judge(data, "accuracy").shift == 0.0).all()


def test_scores_that_know_nothing_state_the_rate():
    codes = np.array([0, 0, 0, 1] * 10)
    data, scores = FitData(codes, 1, False, np.ones(40), 1.0), -codes[:, None].astype(float)
    slope, constant = calibrated(scores, np.arange(40), data)
    assert slope[0] > 0
    # With balanced accuracy the threshold is the rate that constant log odds state.
    shift = Judge(data, "balanced_accuracy").shift
    assert np.abs(scores * slope + constant - shift).max() < 1e-5
    stated = probabilities(np.array([[-1.0], [0.0], [1.0]]) * slope + constant)[:, 1]
    np.testing.assert_allclose(stated, 0.25, atol=0.03)


def test_balanced_accuracy_moves_the_threshold_and_not_the_probabilities():
    bags, y = shifted_bags(200, seed=1, size=2)
    keep = np.flatnonzero((y == 0) | (np.arange(200) % 10 == 1))
    models = {
        scoring: Only("average", scoring=scoring).fit(bags[keep], y[keep])
        for scoring in ("accuracy", "balanced_accuracy", "roc_auc")
    }
    new, truth = shifted_bags(200, seed=2, size=2)
    reached = {
        scoring: balanced_accuracy_score(truth, model.predict(new))
        for scoring, model in models.items()
    }
    assert reached["balanced_accuracy"] > reached["accuracy"] + 0.05
    stated = [model.predict_proba(new) for model in models.values()]
    np.testing.assert_allclose(stated[0], stated[1])
    np.testing.assert_allclose(stated[0], stated[2])


# -- few bags, equal bags, groups ------------------------------------------------------------------


@pytest.mark.parametrize("n_positive", [1, 2])
def test_few_bags_of_a_class(n_positive):
    bags, y = shifted_bags(24)
    keep = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:n_positive]]
    model = MIClassifier(random_state=0).fit(bags[keep], y[keep])
    assert np.isfinite(model.predict_proba(bags)).all()
    assert bool(model.scores_) == (n_positive > 1)


def test_a_class_with_a_single_bag_among_many_is_reported():
    bags, _ = shifted_bags(60)
    with pytest.warns(UserWarning, match="A class has a single bag, which leaves no two inner"):
        model = MIClassifier(random_state=0).fit(bags, np.repeat([0, 1, 2], [57, 1, 2]))
    assert model.scores_ == {}


def test_values_whose_squares_overflow_are_refused():
    bags, y = shifted_bags(20)
    huge = bags.with_instances(bags.instances * 1e200)
    with pytest.raises(ValueError, match=r"values up to .*e\+200, whose squares overflow"):
        MIClassifier().fit(huge, y)


def test_groups_stay_together_in_inner_folds():
    bags, y = witness_bags(40)
    groups = np.arange(40) // 4
    merged = merge_bags(bags, y, np.ones(40), groups)
    codes = y[merged.positions]
    rng = np.random.RandomState(0)
    for folds in (class_folds(merged, codes, rng), value_folds(merged, rng)):
        assert len(folds) == 5
        for train, test in folds:
            assert not set(merged.groups[train]) & set(merged.groups[test])


@pytest.mark.parametrize("estimator", [MIClassifier, MIRegressor])
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.arange(10), "inconsistent numbers of samples"),
        ([None, *range(39)], "groups is missing for bag 0"),
        (np.zeros((40, 2)), "groups has 2 dim"),
    ],
)
def test_bad_groups_are_refused(estimator, groups, message):
    bags, y = shifted_bags()
    with pytest.raises(ValueError, match=message):
        estimator().fit(bags, y, groups=groups)


def test_groups_reach_the_folds_through_a_search():
    bags, y = witness_bags(40)
    groups = np.arange(40) // 4
    with sklearn.config_context(enable_metadata_routing=True):
        model = MIClassifier(time_limit=1e-9, random_state=0).set_fit_request(groups=True)
        pipeline = make_pipeline(InstanceTransformer(FunctionTransformer()), model)
        found = cross_validate(
            pipeline, bags, y, cv=2, params={"groups": groups}, return_estimator=True
        )
    assert all(each[-1].n_bags_ == 20 for each in found["estimator"])
    with pytest.warns(UserWarning, match="nothing was compared or calibrated"):
        alone = MIClassifier(random_state=0).fit(bags, y, groups=np.zeros(40))
    assert alone.scores_ == {}


# -- size, time, progress --------------------------------------------------------------------------


class Limited(MIClassifier):
    """With limits that small data exceed."""

    _size_limits = SizeLimits(
        pair_cost=1e3,
        exact_bags=50,
        bag_landmarks=20,
        instance_landmarks=2**25,
        test_bags=12,
        trees=10,
    )


def test_large_data_change_the_plan_and_say_so():
    bags, y = witness_bags(60)
    plan = size_plan(bags, Limited._size_limits)
    assert plan.kernels == ("mean", "minmax_laplacian", "statistics")
    assert (plan.n_components, plan.instance_kernel, plan.n_scored_folds) == (20, None, 1)
    model = Limited(random_state=0).fit(bags, y)
    assert len(model.skipped_) == 4
    assert model.skipped_[0].startswith("kernels set_median, mind, mind_rows, miles_rows")
    assert np.isfinite(model.predict_proba(bags)).all()
    assert {"linear", "trees", "share", "average", "logistic"} < set(model.scores_)
    assert model.scores_["average"]["roc_auc"] > 0.4


class LandmarkInstance(Only):
    _size_limits = SizeLimits(exact_instances=100, instance_landmarks=30)


def test_many_instances_have_landmarks():
    bags, y = make_bags(n_bags=30, random_state=0)
    model = LandmarkInstance("instance", pos_label=1).fit(bags, y)
    assert model.skipped_ == [
        f"RBF kernel values with more than 30 of {bags.n_instances} instances, and their other "
        "orientation"
    ]
    scaled = ClippedScaler("standard", clip=3.0).fit_transform(bags)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    # All folds have the landmarks of all bags, which approximate the kernel.
    features = model._function.functions[0].prepare(bags)
    assert features.shape[1] <= 30
    exact = rbf_kernel(scaled.instances, gamma=1 / (scaled.shape[1] * scaled.instances.var()))
    assert np.abs(features.instances @ features.instances.T - exact).mean() < 0.05

    def fit(train):
        known = MISVC(C=10.0, kernel="linear", random_state=seed)
        return known.fit(features[train], y[train]).decision_function(features)

    slope, constant = model._function.slopes[0, 0], model._function.constant[0]
    np.testing.assert_allclose(
        model.decision_function(bags),
        slope * mean_of_folds(bags, y, fit) + constant,
        rtol=1e-6,  # of a convex step, which ends at this gap wherever its rounding differs
    )


def test_no_instance_decides_where_no_model_of_one_predicts():
    class Few(MIClassifier):
        _size_limits = replace(FEW_TREES, test_bags=40)

        def _candidates(self, run, given):
            found = super()._candidates(run, given)
            return [way for way in found if way.name in ("trees", "share")]

    rng, y = np.random.default_rng(0), np.arange(40) % 2
    moved = rng.random((40, 40)) < np.where(y, 0.5, 0.2)[:, None]
    rows = rng.normal(size=(40, 40, 4))
    rows[..., 0] += 2.0 * moved
    model = Few(random_state=0).fit(Bags.from_list(list(rows)), y)
    assert model.deciding_class_ is None
    assert set(model.scores_) >= {"trees", "share"}


@pytest.mark.parametrize(("time_limit", "positive"), [(None, 1), (1e9, 0)])
def test_of_many_instances_only_the_orientation_of_the_linear_model_is_scored(
    time_limit, positive, capsys
):
    class Landmarks(MIClassifier):
        _size_limits = replace(FEW_TREES, exact_instances=100, instance_landmarks=30)

    bags, y = make_bags(n_bags=40, bag_size=(2, 5), random_state=0)  # one fold
    labels = y if positive else 1 - y
    model = Landmarks(time_limit=time_limit, verbose=True, random_state=0).fit(bags, labels)
    assert model.deciding_class_ == positive
    printed = capsys.readouterr().out
    scored = [line for line in printed.splitlines() if "'instance'" in line and "fold" in line]
    assert scored
    assert all(("lowest instance" in line) == (positive == 0) for line in scored)


def test_a_budget_leaves_out_what_it_tells(average, capsys):
    without, bags, y = average
    with pytest.warns(UserWarning, match="time_limit=1e-09 left out 'logistic_st.*'average'"):
        model = AllFolds(time_limit=1e-9, verbose=True, random_state=0).fit(bags, y)
    assert model.paradigm_ == "logistic"
    assert list(model.scores_) == ["logistic"]
    said = " ".join(model.skipped_)
    assert "'instance'" in said
    assert "'average' (time_limit=1e-09 s)" in said
    lines = capsys.readouterr().out.splitlines()
    numbers = [int(each) for line in lines for each in re.findall(r"scored on fold (\d)", line)]
    assert numbers == [1, 2, 3, 4, 5]
    enough = AllFolds(time_limit=1e9, random_state=0).fit(bags, y)
    assert enough.skipped_ == []
    np.testing.assert_allclose(enough.predict_proba(bags), without.predict_proba(bags))


def test_a_callback_may_stop_the_search():
    pytest.importorskip("sklearn.callback")

    class Stop(Callback):
        def on_fit_task_end(self, estimator, context):
            return context.parent is not None

    bags, y = shifted_bags(20)
    model = MIClassifier(random_state=0).set_callbacks(Stop()).fit(bags, y)
    assert list(model.scores_) == ["logistic"]
    assert any("a callback asked to stop" in each for each in model.skipped_)


def test_scores_that_are_equal_up_to_rounding_are_calibrated_without_a_warning():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(40, 3))
    X[X < 0.6] = 0.0
    y = (3 * rng.uniform(size=40)).astype(int)
    for seed in (82, 122, 222):  # a class has scores of -1, up to rounding
        model = MIClassifier(time_limit=1e-9, random_state=seed).fit(sparse.csr_array(X), y)
        assert np.isfinite(model.predict_proba(X)).all()
