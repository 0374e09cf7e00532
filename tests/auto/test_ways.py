"""The ways that are compared: needles, orientations, the cost of the linear one, trees, time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import rankdata
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score

from milearn import MISVC, Bags, auto
from milearn._bags.distinct import merge_bags
from milearn._bags.segments import segment_argmax, segment_max, segment_min
from milearn.auto._candidates import CandidateName, FitData
from milearn.auto._judgement import (
    Judge,
    calibrated,
    clearly_worse,
    judge_candidates,
    regressed,
    weights_of_folds,
)
from milearn.auto._plan import SizeLimits
from milearn.auto._run import Search
from milearn.datasets import make_bags
from milearn.model_selection._inner import class_folds, value_folds
from milearn.preprocessing import BagStatistics, ClippedScaler
from tests._solvers.common.test_screen import needles
from tests.common.few_trees import AllFolds, MIClassifier


class Only(auto.MIClassifier):
    """One way alone, in the orientations that it has."""

    def __init__(
        self, name="linear", scoring="accuracy", pos_label=None, neg_label=None, random_state=0
    ):
        labels = {"pos_label": pos_label, "neg_label": neg_label}
        super().__init__(scoring=scoring, random_state=random_state, **labels)
        self.name = name

    def _candidates(self, run, given):
        found = super()._candidates(run, given)
        return [way for way in found if way.name == self.name]


class TwoFolds(auto.MIClassifier):
    _size_limits = SizeLimits(trees=10, test_bags=24, n_parts=0)


class OnFewFolds(Only):
    _size_limits = SizeLimits(trees=10, test_bags=8)


def mean_of_folds(bags, y, fit, n_folds=None, folds_of=class_folds):
    """Scores by models of inner folds, each weighted by what it is worth on its unseen bags.

    ``fit`` has the positions of the training bags of a fold, and returns scores of all bags.
    """
    merged = merge_bags(bags, y, np.ones(len(bags)))
    rng = np.random.RandomState(0)
    rng.randint(2**31 - 1)
    given = (merged, y[merged.positions], rng) if folds_of is class_folds else (merged, rng)
    scores, weights = [], []
    for train, test in folds_of(*given)[:n_folds]:
        scores.append(fit(merged.positions[train]))
        unseen = merged.positions[test]
        r = max(0.0, np.corrcoef(y[unseen], rankdata(scores[-1][unseen]))[0, 1])
        weights.append(1.0 - np.exp(-0.5 * (len(unseen) - 1) * r**2))
    return np.average(scores, axis=0, weights=weights)


def kernel_matrix(fitted, bags, y):
    """Kernel values of the bags; those that a model returns are in the order of merged bags."""
    merged, matrix = merge_bags(bags, y, np.ones(len(bags))), np.empty((len(bags), len(bags)))
    matrix[:, merged.positions] = fitted._rows(bags)
    return matrix


@pytest.fixture(scope="module")
def rare():
    X, offsets, y, rows = needles(1, n_bags=120, size=30)
    place = np.zeros(len(X), dtype=bool)
    place[rows] = True
    bags = Bags(X, offsets)
    return bags[:60], y[:60], bags[60:], y[60:], place[offsets[60] :]


# -- needles and orientations ----------------------------------------------------------------------


def test_needles_are_found_whatever_the_order_of_the_labels(rare):
    train, y, new, truth, place = rare
    # Sorted by name, the class of the needles comes first; the other order gives the same model.
    labels, column = np.array(["none", "a few"]), 0
    model = TwoFolds(random_state=0).fit(train, labels[y])
    assert model.deciding_class_ == model.classes_[column] == "a few"
    assert roc_auc_score(truth, model.predict_proba(new)[:, column]) > 0.9
    assert model.score(new, labels[truth]) > 0.8
    # Scores are those of the second class, "none", of which the needles have the lowest.
    witness = segment_argmax(-model.instance_decision_function(new), new.offsets)
    assert place[witness][truth == 1].mean() > 0.8
    # The other ways do not see them.
    assert max(model.scores_[name]["roc_auc"] for name in ("average", "trees")) < 0.75


def test_a_given_label_is_the_only_orientation():
    bags, y = make_bags(n_bags=40, bag_size=(2, 5), random_state=0)
    free = OnFewFolds().fit(bags, y)
    right, wrong = (OnFewFolds(pos_label=label).fit(bags, y) for label in (1, 0))
    # The negative label of two leaves the other as the positive one.
    negative = OnFewFolds(neg_label=1).fit(bags, y)
    assert (free.deciding_class_, right.deciding_class_, wrong.deciding_class_) == (1, 1, 0)
    assert wrong.deciding_class_ == negative.deciding_class_
    assert wrong.neg_label_ == negative.neg_label_
    assert wrong.scores_ == negative.scores_
    assert free.scores_ == right.scores_
    assert wrong.scores_["linear"]["roc_auc"] < free.scores_["linear"]["roc_auc"] - 0.05


def test_the_linear_way_is_misvc_with_a_cost_for_the_norm_of_its_instances():
    bags, y = make_bags(n_bags=24, random_state=0)
    for labels, positive in ((y, 1), (1 - y, 0)):
        model = OnFewFolds().fit(bags, labels)
        assert model.paradigm_ == "linear"
        assert model.deciding_class_ == positive
        scaled = ClippedScaler("standard", clip=3.0).fit_transform(bags)
        norm = np.mean(np.sum(scaled.instances**2, axis=1))
        known = MISVC(C=10.0 / norm, kernel="linear", pos_label=positive)

        def fit(train, known=known, scaled=scaled, labels=labels):
            return known.fit(scaled[train], labels[train]).decision_function(scaled)

        function = model._function
        expected = function.slopes * mean_of_folds(bags, labels, fit, 2) + function.constant
        np.testing.assert_allclose(model.decision_function(bags), expected[0], rtol=1e-2, atol=1e-2)
    # The witness is the highest instance for either class, as scores belong to the second one.
    scores = model.instance_decision_function(bags)
    highest = segment_max(scores, bags.offsets)
    np.testing.assert_allclose(scores[model.witness(bags)], highest)


def test_a_way_that_is_clearly_worse_is_dropped():
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    folds = [(np.arange(0), part) for part in np.split(np.arange(100), 5)]

    def scores(spread, n):
        return [(y[test] + spread * rng.normal(size=20))[:, None] for _, test in folds[:n]]

    judge = Judge(FitData(y, 1, False, np.ones(100), 1.0), "accuracy")
    good, near, bad = CandidateName("trees"), CandidateName("linear", 1), CandidateName("linear", 0)
    scored = {good: scores(0.3, 1), near: scores(0.4, 1), bad: scores(9.0, 1)}
    assert clearly_worse(scored, folds, judge) == {bad}
    # Few test bags tell nothing.
    few = [(train, test[:10]) for train, test in folds]
    short = {way: [each[:10] for each in values] for way, values in scored.items()}
    assert clearly_worse(short, few, judge) == set()
    # Later candidates are compared on the folds that they have.
    late = CandidateName("instance", 1)
    scored |= {good: scores(0.3, 5), near: scores(0.4, 5), late: scores(9.0, 2)}
    assert clearly_worse(scored, folds, judge, {bad}) == {late}
    dropped = {bad, late}
    found = judge_candidates(scored, folds, judge, dropped)
    rows = np.arange(40)
    assert found["linear"].candidate == near
    assert found["instance"].dropped
    assert found["instance"].measures == judge(late, np.concatenate(scored[late]), rows).measures


@pytest.mark.parametrize("time_limit", [None, 1e9])
def test_the_wrong_orientation_is_scored_on_few_folds(time_limit, capsys):
    bags, y = make_bags(n_bags=100, random_state=0)
    model = Only()
    model.verbose, model.time_limit = True, time_limit
    model.fit(bags, y)
    printed = capsys.readouterr().out
    assert "'linear' scored on fold 5 of 5" in printed
    assert "'linear' by the lowest instance scored on fold 1 of 5" in printed
    assert "'linear' by the lowest instance scored on fold 5 of 5" not in printed
    assert model.skipped_ == []


def three_kinds(names, n_bags=42, seed=0):
    """Bags of background; those of the last two names have an instance in a direction of theirs."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 3
    instances = rng.normal(size=(n_bags, 6, 4))
    for kind in (1, 2):
        instances[y == kind, 0, kind] += 4.5
    return Bags(instances.reshape(-1, 4), np.arange(n_bags + 1) * 6), np.array(names)[y]


def test_a_class_without_instances_that_decide_is_found_whatever_its_name():
    scores = []
    for names in (("normal", "tumour", "ulcer"), ("normal", "cyst", "angioma")):
        bags, y = three_kinds(names)
        new, truth = three_kinds(names, seed=1)
        model = OnFewFolds().fit(bags, y)
        assert (model.neg_label_, model.deciding_class_) == ("normal", None)
        scores.append(model.score(new, truth))
        # The score of a normal bag is that of its least normal instance, others are highest ones;
        # those of several models do not have to be of the same instance.
        each = model.instance_decision_function(new)
        stated = model.decision_function(new)
        for code, name in enumerate(model.classes_):
            pooled = segment_min if name == "normal" else segment_max
            beyond = stated[:, code] - pooled(each[:, code], new.offsets)
            assert (beyond * (-1 if name == "normal" else 1)).min() > -1e-9
            assert (np.abs(beyond) < 1e-6).mean() > 0.5
    assert scores[0] == scores[1]
    other = OnFewFolds(neg_label="cyst").fit(bags, y)
    assert other.score(new, truth) < scores[1] - 0.05


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"neg_label": "c"}, "neg_label='c' is not a label in y"),
        ({"neg_label": "a", "pos_label": "a"}, "pos_label and neg_label are both 'a'"),
    ],
)
def test_bad_negative_labels_are_refused(settings, message):
    bags, y = make_bags(n_bags=20, random_state=0)
    with pytest.raises(ValueError, match=message):
        MIClassifier(**settings).fit(bags, np.array(["a", "b"])[y])


# -- trees -----------------------------------------------------------------------------------------


def test_trees_on_statistics_of_the_scaled_bags():
    bags, y = make_bags(n_bags=50, random_state=0)
    model = Only("trees").fit(bags, y)
    assert (model.paradigm_, model.deciding_class_) == ("trees", None)
    scaled = ClippedScaler("standard", clip=3.0).fit_transform(bags)
    rows = BagStatistics(("mean", "min", "max", "std")).fit_transform(scaled)
    seed = np.random.RandomState(0).randint(2**31 - 1)

    # It is fitted on all bags, folds only calibrate it.
    order = merge_bags(bags, y, np.ones(50)).positions
    forest = ExtraTreesClassifier(100, min_samples_leaf=2, random_state=seed)
    proportions = forest.fit(rows[order], y[order]).predict_proba(rows)[:, 1]
    scores = logit(np.clip(proportions, 0.005, 0.995))
    slope, constant = model._function.slopes[0, 0], model._function.constant[0]
    np.testing.assert_allclose(model.decision_function(bags), slope * scores + constant)
    alone = Bags.singletons(bags.instances)
    np.testing.assert_allclose(
        model.instance_decision_function(bags), model.decision_function(alone)
    )


# -- time ------------------------------------------------------------------------------------------


def test_after_the_time_limit_further_candidates_are_skipped(monkeypatch):
    now, score = [0.0], Search._score

    def slow(search, names, numbers):
        now[0] += 10.0 if len(numbers) else 0.0
        score(search, names, numbers)

    clock = SimpleNamespace(perf_counter=lambda: now[0])
    for module in ("_run", "_classifier"):
        monkeypatch.setattr(f"milearn.auto.{module}.time", clock)
    monkeypatch.setattr(Search, "_score", slow)
    bags, y = make_bags(n_bags=40, random_state=0)
    # Two of five folds of eight bags are not enough to drop a candidate, so each has two rounds.
    with pytest.warns(UserWarning, match="time_limit=30.0 left out .*'average'.*: raise it"):
        model = AllFolds(time_limit=30.0, random_state=0).fit(bags, y)
    assert set(model.scores_) - {"combined"} == {"logistic", "logistic_statistics"}
    assert "'trees' (time_limit=30.0 s)" in model.skipped_
    assert now == [40.0]


# -- the regression of models ----------------------------------------------------------------------


def test_several_classes_have_a_regression_each():
    rng, codes = np.random.default_rng(0), np.arange(60) % 3
    data = FitData(codes, 3, False, np.ones(60), 1.0)
    scores = [
        np.eye(3)[codes] * spread + rng.normal(size=(60, 3))
        for spread in ([2.0, 2.0, 0.0], [0.0, 2.0, 2.0])
    ]
    coef, constant = regressed(scores, np.arange(60), data)
    assert coef.shape == (2, 3)
    assert constant.shape == (3,)
    assert coef[0, 0] > coef[1, 0] + 0.1
    assert coef[1, 2] > coef[0, 2] + 0.1


def test_calibration_of_equal_targets_is_their_value():
    data = FitData(np.full(20, 3.0), 1, True, np.ones(20), 1.0)
    scores = np.random.default_rng(0).normal(size=(20, 1))
    slope, constant = calibrated(scores, np.arange(20), data)
    assert slope[0] > 0.0
    np.testing.assert_allclose(scores * slope + constant, 3.0, rtol=1e-9)


# -- models of folds -------------------------------------------------------------------------------


def test_a_fold_is_weighted_by_what_it_is_worth_on_its_bags():
    def worth(scores, truth):
        r = max(0.0, np.corrcoef(truth, rankdata(scores))[0, 1])
        return 1.0 - np.exp(-0.5 * (len(truth) - 1) * r**2)

    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 1, 1])
    tests = np.arange(4), np.arange(4, 8), np.array([8, 9]), np.arange(4)
    scores = [[0.0, 2.0, 1.0, 3.0], [0.0, 1.0, 2.0, 3.0], [0.0, 1.0], [3.0, 1.0, 2.0, 0.0]]
    folds = [(np.arange(0), test) for test in tests]
    data = FitData(y, 1, False, np.ones(10), 1.0)
    given = weights_of_folds([np.array(each)[:, None] for each in scores], folds, data)
    right, lesser, wrong = (worth(scores[k], y[tests[k]]) for k in (0, 1, 3))
    assert right > lesser > wrong == 0.0
    # The third fold has bags of one class, and tells nothing.
    expected = np.array([right, lesser, 0.0, wrong])
    np.testing.assert_allclose(given[:, 0], expected / expected.sum(), atol=1e-8)
    # Each class has weights of its own.
    several = FitData(np.array([0, 1, 2, 1]), 3, False, np.ones(4), 1.0)
    columns = np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 2.0, 2.0], [2.0, 1.0, 0.0]])
    given = weights_of_folds([columns, np.eye(4)[:, :3]], folds[:1] * 2, several)
    for code in range(3):
        truth = several.targets == code
        expected = np.array([worth(each[:, code], truth) for each in (columns, np.eye(4))])
        np.testing.assert_allclose(given[:, code], expected / expected.sum(), atol=1e-8)


@pytest.mark.parametrize(("n_rare", "n_folds"), [(300, 20), (150, 10), (30, 5)])
def test_of_many_bags_a_fold_tests_as_many_as_are_sufficient_of_each_class(n_rare, n_folds):
    rng, y = np.random.default_rng(0), (np.arange(600) < n_rare).astype(int)
    merged = merge_bags(Bags.singletons(rng.normal(size=(600, 1))), y, np.ones(600))
    codes = y[merged.positions]
    folds = class_folds(merged, codes, np.random.RandomState(0), 30)
    assert len(folds) == n_folds
    assert min(codes[test].sum() for _, test in folds) >= min(15, n_rare // 5)
    values = value_folds(merged, np.random.RandomState(0), 30)
    assert [len(test) for _, test in values] == [30] * 20


def test_groups_are_counted_where_bags_are_tested():
    rng, y = np.random.default_rng(0), np.arange(600) % 2
    merged = merge_bags(
        Bags.singletons(rng.normal(size=(600, 1))), y, np.ones(600), np.arange(600) // 30
    )
    codes = y[merged.positions]
    assert len(class_folds(merged, codes, np.random.RandomState(0), 30)) == 5
    assert len(value_folds(merged, np.random.RandomState(0), 30)) == 5


def test_a_constant_model_is_not_kept():
    rng, runs = np.random.default_rng(0), []
    y = (np.arange(60) % 10 == 0).astype(int)
    X = Bags(rng.normal(size=(180, 1)) + 2.0 * np.repeat(y, 3)[:, None], np.arange(61) * 3)

    class Constant(MIClassifier):
        def _candidates(self, run, given):
            # At this cost the zero vector is optimal.
            def linear(name):
                return run.instance_candidate(name, kernel="linear", C=1e-12)

            runs.append(run)
            run.linear_candidate = linear
            return super()._candidates(run, given)

    model = Constant(random_state=0).fit(X, y)
    assert {each.name for each in runs[0].dropped} == {"linear"}
    assert model.scores_["linear"]["roc_auc"] == 0.5
    assert roc_auc_score(y, model.decision_function(X)) > 0.9
