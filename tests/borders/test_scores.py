"""Scores of instances belong to one class, whatever was fitted, and axes name it."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC, Bags
from milearn._bags.segments import segment_argmax
from milearn.auto._candidates import CandidateName
from milearn.baselines import SequenceAbundanceClassifier, SingleInstance
from milearn.cluster import M3IC
from milearn.datasets import load_bags
from milearn.discriminant_analysis import ShareDiscriminant, ShareRegressor
from milearn.inspection import (
    BagScoresDisplay,
    InstanceScoresDisplay,
    ShareDisplay,
    WitnessDisplay,
    cross_val_instance_scores,
    instance_scores,
    share_report,
)
from milearn.preprocessing import InstanceTransformer
from milearn.svm import OrdinalMISVC
from milearn.utils import all_estimators
from tests.common.common_checks import SMALLER
from tests.common.few_trees import MIClassifier
from tests.inspection.conftest import no_screen  # noqa: F401
from tests.toys import OFTEN_CONSTANT

QUICK = {"time_limit": 1e-9, "random_state": 0}
SHARE = ShareDiscriminant(share=0.3, n_parts=0)

# -- a world in which the first class has the instances that decide --------------------------------


def world(deciding=0, n_bags=40, size=6, seed=0):
    """Bags, labels, and which instances are in one class only: two of each of its bags."""
    rng = np.random.default_rng(seed)
    y, needles = np.arange(n_bags) % 2, np.zeros((n_bags, size), dtype=bool)
    instances = rng.normal(size=(n_bags, size, 3))
    needles[y == deciding, :2] = True
    instances[needles] += [5.0, 0.0, 0.0]
    places = np.tile(np.stack([np.arange(size) // 2, np.arange(size) % 2], axis=1), (n_bags, 1))
    offsets = np.arange(n_bags + 1) * size
    X = Bags(instances.reshape(-1, 3), offsets, instance_data={"coords": places})
    return X, y, needles.ravel()


@pytest.fixture(scope="module")
def cells():
    return world()


@pytest.fixture(scope="module")
def automatic(cells):
    X, y, _ = cells
    return MIClassifier(random_state=0).fit(X, y)


def classifiers():
    named = [(name, kind(**SMALLER.get(name, {}))) for name, kind in all_estimators()]
    named = [each for each in named if is_classifier(each[1]) and hasattr(each[1], "witness")]
    return named + [("SingleInstance", SingleInstance())]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "model"), classifiers(), ids=lambda each: str(each)[:28])
def test_every_estimator_scores_the_same_class(name, model, cells):
    X, y, needles = cells
    if name == "MIClassifier":
        model = MIClassifier(**QUICK)
    model.fit(X, y)
    scores = instance_scores(model, X)
    np.testing.assert_allclose(scores, model.instance_decision_function(X))
    if name in ("BLRT", "BagSVC", "MIClassifier", "MILES", "ShareDiscriminant", "SingleInstance"):
        # Those that learn where class 0 decides: its instances have low scores of class 1.
        assert roc_auc_score(needles, scores) < 0.1
    highest = segment_argmax(scores, X.offsets)
    np.testing.assert_allclose(scores[model.witness(X)], scores[highest])


def test_musk_molecules(data_dir):
    X, y = load_bags(data_dir / "musk1.npz", return_X_y=True)
    model = MIClassifier(random_state=0).fit(X, y)
    scores = instance_scores(model, X)
    assert roc_auc_score(np.repeat(y, X.sizes), scores) > 0.9
    np.testing.assert_array_equal(model.witness(X), segment_argmax(scores, X.offsets))


def test_the_automatic_model_tells_which_class_decides(automatic, cells, capsys):
    X, y, needles = cells
    assert automatic.deciding_class_ == 0
    assert not hasattr(automatic, "pos_label_")
    of_deciding = instance_scores(automatic, X, class_label=automatic.deciding_class_)
    assert roc_auc_score(needles, of_deciding) > 0.95
    np.testing.assert_array_equal(of_deciding, -instance_scores(automatic, X))
    names = np.array(["tumour", "without"])[y]
    named = MIClassifier(verbose=True, random_state=0).fit(X, names)
    assert "one instance of class tumour decides" in capsys.readouterr().out
    assert named.deciding_class_ == "tumour"
    np.testing.assert_array_equal(named.decision_function(X), automatic.decision_function(X))
    np.testing.assert_array_equal(named.predict_proba(X), automatic.predict_proba(X))
    assert (named.predict(X) == names).all()


@pytest.mark.parametrize("given", [{"pos_label": 0}, {"neg_label": 1}])
def test_the_class_that_the_user_named_has_the_scores(given, cells):
    X, y, needles = cells
    model = MIClassifier(**QUICK, **given).fit(X, y)
    scores = instance_scores(model, X)
    assert roc_auc_score(needles, scores) > 0.95
    assert needles[model.witness(X)][y == 0].mean() > 0.9
    # scikit-learn's scorers still find the second class.
    assert roc_auc_score(y, model.decision_function(X)) > 0.95
    display = InstanceScoresDisplay.from_estimator(model, X, bag=0)
    assert display.ax_.get_ylabel() == "score of class 0"
    assert needles[display.witness]


def test_scores_stay_after_saving_slicing_and_a_refit(automatic, cells):
    X, y, _ = cells
    scores = instance_scores(automatic, X)
    for again in (pickle.loads(pickle.dumps(automatic)), copy.deepcopy(automatic)):
        np.testing.assert_array_equal(instance_scores(again, X), scores)
        np.testing.assert_array_equal(again.witness(X), automatic.witness(X))
    np.testing.assert_allclose(instance_scores(automatic, X[[3]]), scores[X.bag_index == 3])
    model = MIClassifier(pos_label=0, **QUICK).fit(X, y)
    model.set_params(pos_label=None)
    before = instance_scores(model, X)
    # What a parameter said at the fit counts, not what it says now.
    assert roc_auc_score(np.repeat(y, X.sizes), before) < 0.5
    assert roc_auc_score(np.repeat(y, X.sizes), instance_scores(model.fit(X, y), X)) > 0.5


def test_folds_score_the_same_class(cells):
    X, y, needles = cells
    scores = cross_val_instance_scores(MIClassifier(random_state=0), X, y, cv=2)
    assert roc_auc_score(needles, scores) < 0.05
    # Half of the bags have needles of class 0, and half of class 1: the folds find different ones.
    other, labels, _ = world(1, seed=1)
    both, of_both = Bags.concatenate([X, other]), np.concatenate([y, labels])
    folds = [(np.arange(40), np.arange(40, 80)), (np.arange(40, 80), np.arange(40))]
    found = cross_val_instance_scores(clone(SHARE), both, of_both, cv=folds)
    one, two = (clone(SHARE).fit(both[part], of_both[part]) for part, _ in folds)
    assert one.orientation_ == -two.orientation_
    expected = one.instance_decision_function(both[40:])
    np.testing.assert_allclose(found[both.offsets[40] :], expected)


def test_pipelines_searches_and_calibration_keep_the_class(cells):
    X, y, needles = cells
    steps = make_pipeline(InstanceTransformer(StandardScaler()), SHARE)
    search = GridSearchCV(steps, {"sharediscriminant__share": [0.1, 0.3]}, cv=2)
    for model in (
        steps,
        search,
        CalibratedClassifierCV(steps, cv=2),
        TunedThresholdClassifierCV(steps, cv=2),
    ):
        scores = instance_scores(model.fit(X, y), X)
        assert roc_auc_score(needles, scores) < 0.05
        assert InstanceScoresDisplay.from_estimator(model, X).ax_.get_ylabel() == "score of class 1"
    named = CalibratedClassifierCV(MISVC(pos_label=0, kernel="linear"), cv=2).fit(X, y)
    assert roc_auc_score(needles, instance_scores(named, X)) > 0.95


def test_a_regressor_shows_its_highest_instance(cells):
    X, y, _ = cells
    model = ShareRegressor(share=0.3, n_parts=0).fit(X, y.astype(float))
    assert model.orientation_ == -1
    scores = instance_scores(model, X)
    np.testing.assert_array_equal(model.witness(X), segment_argmax(scores, X.offsets))


# -- names on the axes -----------------------------------------------------------------------------


def labels_of_displays(model, X, y, **options):
    bars = InstanceScoresDisplay.from_estimator(model, X, **options)
    heat = InstanceScoresDisplay.from_estimator(model, X, coordinates="coords", **options)
    many = WitnessDisplay.from_estimator(model, X, y, **options)
    thumbs = WitnessDisplay.from_estimator(model, X, instance_shape=(1, 3), max_bags=2, **options)
    titles = {each.ax_.get_title(loc="left").removeprefix("highest ") for each in (many, thumbs)}
    return {bars.ax_.get_ylabel(), heat.colorbar_.ax.get_ylabel()} | titles


def test_every_axis_names_its_class(cells):
    X, y, _ = cells
    model = MISVC(kernel="linear").fit(X, 1 - y)
    assert labels_of_displays(model, X, y) == {"score of class 1"}
    assert labels_of_displays(model, X, y, class_label=0) == {"score of class 0"}
    named = MISVC(kernel="linear", pos_label="cancer").fit(X, np.array(["cancer", "normal"])[y])
    assert labels_of_displays(named, X, y) == {"score of cancer"}
    assert labels_of_displays(named, X, y, class_label="normal") == {"score of normal"}
    logical = MISVC(kernel="linear").fit(X, y == 0)
    assert labels_of_displays(logical, X, y) == {"score of class True"}


def test_scores_of_bags_have_the_same_class(cells):
    X, y, _ = cells
    for kind, options in (("score", {}), ("probability", {"response_method": "predict_proba"})):
        share = clone(SHARE).fit(X, y)
        shown = BagScoresDisplay.from_estimator(share, X, y, **options)
        assert shown.ax_.get_xlabel() == f"{kind} of class 1"
    named = MISVC(kernel="linear", pos_label="cancer").fit(X, np.array(["cancer", "normal"])[y])
    shown = BagScoresDisplay.from_estimator(named, X, np.array(["cancer", "normal"])[y])
    assert shown.ax_.get_xlabel() == "score of cancer"
    assert roc_auc_score(y == 0, shown.scores) == 1.0


@OFTEN_CONSTANT
def test_several_classes_and_clusters_are_named(cells):
    X, y, _ = cells
    y = np.arange(40) % 3
    model = MISVC(kernel="linear").fit(X, y)
    first = f"score of class {model.predict(X)[0]}, the predicted class"
    assert labels_of_displays(model, X, y) == {first, "score of the predicted class"}
    assert labels_of_displays(model, X, y, class_label=2) == {"score of class 2"}
    grades = OrdinalMISVC().fit(X, y)
    assert labels_of_displays(grades, X, y) == {"score from class 0 to class 2"}
    assert labels_of_displays(grades, X, y, class_label=0) == {"score of class 0"}
    clusters = M3IC(n_clusters=2, n_init=1, random_state=0).fit(X)
    first = f"score of cluster {clusters.predict(X)[0]}, the predicted cluster"
    assert labels_of_displays(clusters, X, None) == {first, "score of the predicted cluster"}
    one_by_one = cross_val_instance_scores(MISVC(kernel="linear"), X, y, cv=2)
    assert one_by_one.shape == (X.n_instances,)


def test_shares_belong_to_the_class_of_the_user(cells, monkeypatch):
    monkeypatch.setattr(MIClassifier, "_candidates", lambda *_: [CandidateName("share")])
    X, y, _ = cells
    reports = []
    for label, column in ((None, 1), (0, 0)):
        model = MIClassifier(**QUICK, pos_label=label).fit(X, y)
        reports.append(share_report(model, X, y))
        display = ShareDisplay.from_estimator(model, X, y, kind="instances")
        assert display.ax_.get_xlabel() == f"score of class {column}"
        np.testing.assert_array_equal(reports[-1].display.scores, display.scores)
        assert f"score of class {column} " in repr(reports[-1])
    assert (reports[0].bags["n_selected"] == reports[1].bags["n_selected"]).all()
    assert roc_auc_score(y, reports[0].bags["score"]) > 0.95
    assert roc_auc_score(y, reports[1].bags["score"]) < 0.05


# -- meta-estimators that number the classes -------------------------------------------------------

NAMES = np.array(["normal", "cancer"])


def numbered(model, n_jobs):
    return {
        "VotingClassifier": VotingClassifier([("a", model)], n_jobs=n_jobs),
        "StackingClassifier": StackingClassifier([("a", model)], cv=2, n_jobs=n_jobs),
        "OneVsRestClassifier": OneVsRestClassifier(model),
        "search": VotingClassifier([("a", GridSearchCV(model, {"C": [1.0]}, cv=2))], n_jobs=n_jobs),
        "pipeline": VotingClassifier([("a", make_pipeline(model))], n_jobs=n_jobs),
    }


def assert_warns_of_its_numbers(name, labels, n_jobs):
    X, y, _ = world(1, n_bags=24)
    by = name if name.endswith("Classifier") else "VotingClassifier"
    message = f"^The positive class is 'normal', .* {by} numbers the classes: pass pos_label=1, or "
    with pytest.warns(UserWarning, match=f"{message}pos_label=0 if it is 'cancer'"):
        numbered(MISVC(kernel="linear"), n_jobs)[name].fit(X, labels[y])
    with warnings.catch_warnings(action="error"):
        model = numbered(MISVC(kernel="linear", pos_label=0), n_jobs)[name].fit(X, labels[y])
        assert model.score(X, NAMES[y]) == 1.0


@pytest.mark.parametrize("name", numbered(None, None))
def test_a_meta_estimator_warns_of_the_positive_class(name):
    assert_warns_of_its_numbers(name, NAMES, None)


@pytest.mark.parametrize("labels", [pd.array(NAMES, dtype="string"), NAMES.astype(object)])
def test_it_warns_whatever_the_type_of_the_names(labels):
    assert_warns_of_its_numbers("VotingClassifier", labels, None)


@pytest.mark.parametrize("name", ["StackingClassifier", "pipeline"])
def test_it_warns_before_workers_start(name):
    assert_warns_of_its_numbers(name, NAMES, 2)


def test_a_number_that_is_the_name_of_another_class_warns():
    X, y, _ = world(1, n_bags=24)
    model = MISVC(kernel="linear", pos_label=1)
    message = r"VotingClassifier numbers the classes \[1, 2\] from 0: pos_label=1 is the class 2 "
    with pytest.warns(UserWarning, match=message):
        VotingClassifier([("a", model)]).fit(X, 2 - y)
    with pytest.warns(UserWarning, match="cross_val_predict numbers the classes"):
        cross_val_predict(model, X, 2 - y, cv=2, method="decision_function")
    assert model.fit(X, 2 - y).score(X, 2 - y) == 1.0  # alone it names the class


def test_a_given_class_and_numbers_need_no_warning():
    X, y, _ = world(1, n_bags=24)
    with warnings.catch_warnings(action="error"):
        for model, labels in (
            (MISVC(kernel="linear", pos_label=1), np.array(["0 normal", "1 cancer"])[y]),
            (MISVC(kernel="linear"), y),
            (MISVC(), np.array(["a", "b", "c"])[np.arange(24) % 3]),
        ):
            VotingClassifier([("a", model)]).fit(X, labels)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_cross_validated_scores_warn_of_the_positive_class(n_jobs):
    X, y, _ = world(1, n_bags=24)
    options = {"cv": 2, "method": "decision_function", "n_jobs": n_jobs}
    with pytest.warns(UserWarning, match="cross_val_predict numbers the classes: pass pos_label=1"):
        cross_val_predict(MISVC(), X, NAMES[y], **options)
    scores = cross_val_predict(MISVC(kernel="linear", pos_label=0), X, NAMES[y], **options)
    assert roc_auc_score(y, -scores) == 1.0


def test_models_without_a_positive_class_do_not_warn():
    X, y, _ = world(1)
    with warnings.catch_warnings(action="error"):
        for model in (SHARE, SingleInstance(pooling="mean")):
            names = VotingClassifier([("a", model)]).fit(X, NAMES[y]).predict(X)
            assert (names == NAMES[model.fit(X, y).predict(X)]).mean() > 0.9


@pytest.mark.parametrize("model", [SingleInstance(), SequenceAbundanceClassifier()])
def test_the_highest_instance_and_abundance_need_a_positive_class_too(model):
    X, y, _ = world(1)
    with pytest.warns(UserWarning, match=r"^The positive class is 'normal', .*Pass pos_label="):
        model.fit(X, NAMES[y])


def test_clones_elsewhere_say_nothing():
    X, y, _ = world(1)
    voting = VotingClassifier([("a", MISVC(kernel="linear"))])
    with pytest.warns(UserWarning, match="numbers the classes"):
        voting.fit(X, NAMES[y])
    with warnings.catch_warnings(action="error"):
        GridSearchCV(voting, {"a__C": [1.0]}, cv=2).fit(X, y)
