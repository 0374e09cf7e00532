"""Scores of instances belong to one class, whatever was fitted, and axes name it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
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
    scores = cross_val_instance_scores(MIClassifier(**QUICK), X, y, cv=2)
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
    model = MISVC(kernel="linear", init="mean").fit(X, y)
    first = f"score of class {model.predict(X)[0]}, the predicted class"
    assert labels_of_displays(model, X, y) == {first, "score of the predicted class"}
    assert labels_of_displays(model, X, y, class_label=2) == {"score of class 2"}
    grades = OrdinalMISVC(init="mean").fit(X, y)
    assert labels_of_displays(grades, X, y) == {"score from class 0 to class 2"}
    assert labels_of_displays(grades, X, y, class_label=0) == {"score of class 0"}
    clusters = M3IC(n_clusters=2, n_init=1, random_state=0).fit(X)
    first = f"score of cluster {clusters.predict(X)[0]}, the predicted cluster"
    assert labels_of_displays(clusters, X, None) == {first, "score of the predicted cluster"}
    one_by_one = cross_val_instance_scores(MISVC(kernel="linear", init="mean"), X, y, cv=2)
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


# -- names without an order ----------------------------------------------------------------------

NAMES = np.array(["normal", "cancer"])


@pytest.mark.parametrize("model", [SingleInstance(), SequenceAbundanceClassifier()])
def test_the_highest_instance_and_abundance_need_a_positive_class_too(model):
    X, y, _ = world(1)
    with pytest.warns(UserWarning, match=r"^The positive class is 'normal', .*Pass pos_label="):
        model.fit(X, NAMES[y])


def test_a_meta_estimator_that_numbers_the_classes_takes_their_numbers():
    X, y, _ = world(1, n_bags=24)
    for model in (
        VotingClassifier([("a", MISVC(kernel="linear", pos_label=0))]),
        StackingClassifier([("a", MISVC(kernel="linear", pos_label=0))], cv=2),
    ):
        assert model.fit(X, NAMES[y]).score(X, NAMES[y]) == 1.0
    with pytest.raises(ValueError, match=r"pos_label='cancer' is not a label in y: .* \[0, 1\]"):
        VotingClassifier([("a", MISVC(pos_label="cancer"))]).fit(X, NAMES[y])
