"""Every check passes on sound estimators and fails on one that breaks its rule."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed, effective_n_jobs
from sklearn import get_config
from sklearn.base import ClusterMixin, RegressorMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

import tests.common.own_checks  # noqa: F401 - registers its checks
from milearn import Bags
from milearn._bags.segments import segment_argmax, segment_max, segment_mean
from milearn._compat import HAS_CALLBACKS, CallbackSupport, with_callbacks
from milearn._fit.validation import as_bags, validate_bags, validate_labels
from milearn.base import BagEstimator
from milearn.utils._checks import PROBLEMS, REGISTERED, reference
from milearn.utils.estimator_checks import (
    bag_checks,
    check_bag_estimator,
    parametrize_with_bag_checks,
)
from tests.toys import LeastSquaresBags

# -- sound estimators of every kind --------------------------------------------------------------


class DenseOnly(BagEstimator):
    """Takes no sparse instances."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


class HighestInstance(RegressorMixin, DenseOnly):
    """A bag's value is the highest of linear values of its instances."""

    def fit(self, X, y):
        bags, fitted = self._validate_fit(X, accept_sparse=False)
        y = validate_labels(self, y, bags, numeric=True)
        means = segment_mean(bags.instances, bags.offsets)
        fitted["coef_"] = np.linalg.solve(means.T @ means + np.eye(means.shape[1]), means.T @ y)
        self._replace_fitted(fitted)
        return self

    def _values(self, X):
        check_is_fitted(self)
        bags = validate_bags(self, X, reset=False, accept_sparse=False)
        return bags, bags.instances @ self.coef_

    def predict(self, X):
        bags, values = self._values(X)
        return segment_max(values, bags.offsets)

    def predict_instances(self, X):
        return self._values(X)[1]

    def witness(self, X):
        bags, values = self._values(X)
        return segment_argmax(values, bags.offsets)


class MeanClusters(ClusterMixin, DenseOnly):
    """k-means of the bag means: a fit that is a draw."""

    def __init__(self, n_clusters=2, random_state=None):
        self.n_clusters = n_clusters
        self.random_state = random_state

    def fit(self, X, y=None):
        bags, fitted = self._validate_fit(X, accept_sparse=False)
        means = segment_mean(bags.instances, bags.offsets)
        kmeans = KMeans(self.n_clusters, n_init=1, random_state=self.random_state)
        fitted["labels_"] = kmeans.fit_predict(means)
        self._replace_fitted(fitted)
        return self


class Doubled(TransformerMixin, DenseOnly, auto_wrap_output_keys=None):
    """Bags in, bags out."""

    def fit(self, X, y=None):
        _, fitted = self._validate_fit(X, accept_sparse=False)
        fitted["factor_"] = 2.0
        self._replace_fitted(fitted)
        return self

    def set_output(self, *, transform=None):
        return self

    def transform(self, X):
        check_is_fitted(self)
        bags = validate_bags(self, X, reset=False, accept_sparse=False)
        return bags.with_instances(self.factor_ * bags.instances, feature_names=bags.feature_names)

    def fit_transform(self, X, y=None):
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features=None):
        return self.feature_names_in_


SOUND = [LeastSquaresBags(), HighestInstance(), MeanClusters(), Doubled()]


@parametrize_with_bag_checks(SOUND)
def test_sound_estimators_pass(estimator, check):
    check(estimator)


def test_a_running_fit_that_is_sound_passes():
    names = {"check_callbacks", "check_callback_stop", "check_max_iter", "check_parallel_config"}
    ran = set()
    for check in bag_checks(HasJobs()):
        if check.name in names:
            check(HasJobs())
            ran.add(check.name)
    assert ran == (names if HAS_CALLBACKS else names - NEEDS_CALLBACKS)


def test_sound_estimators_pass_in_one_call():
    check_bag_estimator(HighestInstance())


# -- broken ones, one rule each ------------------------------------------------------------------


class FirstInstanceDecides(LeastSquaresBags):
    def _bag_scores(self, bags):
        return self._instance_scores(bags)[bags.offsets[:-1]]


class ScoresTheClassThatFits(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        # Whichever class has the higher means: swapped labels swap the class of the scores.
        self._positive_sign = 1 if self.coef_.sum() > 0 else -1
        return self


class ShowsTheInstancesThatDecide(LeastSquaresBags):
    def witness(self, X):
        bags = self._checked(X)
        scores = self._instance_scores(bags)
        return segment_argmax(scores if self.coef_[0].sum() > 0 else -scores, bags.offsets)


class FitsOnFirstInstance(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        bags = validate_bags(self, X)
        return super().fit(bags.instances[bags.offsets[:-1]], y, sample_weight)


class RanksBags(LeastSquaresBags):
    def _bag_scores(self, bags):
        scores = super()._bag_scores(bags)
        ranks = np.arange(len(bags), dtype=float)
        return scores + (ranks if scores.ndim == 1 else ranks[:, None])


class ForgetsLastBags(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        bags = validate_bags(self, X)
        y = validate_labels(self, y, bags)
        return super().fit(bags[:10], y[:10])


class CentresTheBatch(LeastSquaresBags):
    def _instance_scores(self, bags):
        scores = super()._instance_scores(bags)
        return scores - scores.mean(axis=0)


class KeepsTheGraphOfFit(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        self.graph_ = getattr(X, "bag_graph", None)
        return super().fit(X, y, sample_weight)

    def _bag_scores(self, bags):
        scores = super()._bag_scores(bags)
        return scores if self.graph_ is None else self.graph_ @ scores


class OnlyTakesBags(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X.with_instances(X.instances), y, sample_weight)


class TakesFirstOfA3DArray(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        if getattr(X, "ndim", 0) == 3:
            X = X.astype(float)[:, 0]
        return super().fit(X, y, sample_weight)


class ShiftsSparse(LeastSquaresBags):
    def _instance_scores(self, bags):
        shift = 0.0 if isinstance(bags.instances, np.ndarray) else 1.0
        return super()._instance_scores(bags) + shift


class HasTheSparseTagOnly(HighestInstance):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def writable(instances):
    """The caller's array behind the read-only view of bags."""
    values = instances if isinstance(instances, np.ndarray) else instances.data
    return values if values.flags.writeable else values.base


class WritesInPlace(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        bags = validate_bags(self, X)
        values = writable(bags.instances)
        values += 1e-3
        return super().fit(bags, y, sample_weight)


class DependsOnJobs(LeastSquaresBags):
    def __init__(self, alpha=1.0, *, pos_label=None, class_weight=None, n_jobs=None):
        super().__init__(alpha, pos_label=pos_label, class_weight=class_weight)
        self.n_jobs = n_jobs

    def _instance_scores(self, bags):
        return super()._instance_scores(bags) * (self.n_jobs or 1)


class TakesAnyLabels(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, np.resize(y, len(as_bags(X))), sample_weight)


class StaysHalfFitted(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        self._replace_fitted({"classes_": np.unique(y)})
        return super().fit(X, y, sample_weight)


class IgnoresPosLabel(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self._positive_sign = 1
        return self


class IgnoresWeights(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


class ForgetsNames(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        bags = as_bags(X)
        without = X if bags is None else Bags(bags.instances, bags.offsets)
        return super().fit(without, y, sample_weight)


class NamesTooMany(Doubled):
    def get_feature_names_out(self, input_features=None):
        return np.append(self.feature_names_in_, "more")


class FitTransformsElsewhere(Doubled):
    def fit_transform(self, X, y=None):
        bags = self.fit(X).transform(X)
        return bags.with_instances(bags.instances + 1.0)


class LosesGraphs(Doubled):
    def transform(self, X):
        bags = super().transform(X)
        return Bags(bags.instances, bags.offsets, feature_names=bags.feature_names)


class WrapsBags(Doubled):
    set_output = TransformerMixin.set_output

    def transform(self, X):
        return super().transform(X)


class FollowsTheOutput(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.coef_ = self.coef_ * (1.0 + (get_config()["transform_output"] != "default"))
        return self


class TurnsInstancesRound(LeastSquaresBags):
    def instance_decision_function(self, X):
        return super().instance_decision_function(X)[::-1]


class FirstIsWitness(LeastSquaresBags):
    def witness(self, X):
        return self._checked(X).offsets[:-1]


class WitnessOutside(LeastSquaresBags):
    def witness(self, X):
        return np.zeros(len(self._checked(X)), dtype=int)


class MeanIsTheScore(LeastSquaresBags):
    def _bag_scores(self, bags):
        return segment_mean(self._instance_scores(bags), bags.offsets)


class WrongRegressionWitness(HighestInstance):
    def witness(self, X):
        bags, _ = self._values(X)
        return bags.offsets[:-1]


class DropsEmptyBags(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        if isinstance(X, list):
            keep = [position for position, block in enumerate(X) if len(block)]
            X, y = [X[position] for position in keep], np.asarray(y)[keep[: len(y)]]
        return super().fit(X, y, sample_weight)


class ReplacesNan(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        if isinstance(X, Bags) and not X.is_sparse:
            X = X.with_instances(np.nan_to_num(X.instances), feature_names=X.feature_names)
        return super().fit(X, y, sample_weight)


class CutsFeatures(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        if isinstance(X, list) and not any(isinstance(block, str) for block in X):
            width = min(block.shape[1] for block in X)
            X = [block[:, :width] for block in X]
        return super().fit(X, y, sample_weight)


class PredictsForNan(LeastSquaresBags):
    def _checked(self, X, **options):
        bags = validate_bags(self, X, reset=False, ensure_all_finite=False)
        return super()._checked(bags.with_instances(np.nan_to_num(bags.instances)), **options)


class PadsFeatures(LeastSquaresBags):
    def _checked(self, X, **options):
        bags = as_bags(X)
        if bags.shape[1] < self.n_features_in_:
            missing = self.n_features_in_ - bags.shape[1]
            X = bags.with_instances(np.pad(bags.instances, [(0, 0), (0, missing)]))
        return super()._checked(X, **options)


class TakesStrings(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        return super().fit(np.ones((len(y), 3)) if isinstance(X, str) else X, y, sample_weight)


class OtherError(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        if isinstance(X, str):
            raise OSError("no such file")
        return super().fit(X, y, sample_weight)


class EndsTooEarly(CallbackSupport, LeastSquaresBags):
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        self._start_task(X=X, y=y).end()
        return super().fit(X, y, sample_weight)


class NeverEnds(CallbackSupport, LeastSquaresBags):
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        self._start_task(X=X, y=y)
        return super().fit(X, y, sample_weight)


class UnstableSplit(MeanClusters):
    """Clusters by position, and no seed to blame."""

    def __init__(self):
        pass

    def fit(self, X, y=None):
        bags, fitted = self._validate_fit(X, accept_sparse=False)
        fitted["labels_"] = np.arange(len(bags)) // 2
        self._replace_fitted(fitted)
        return self


# -- fits that follow each other, or run ---------------------------------------------------------


class LeavesItsKernel(LeastSquaresBags):
    """With one kernel it fits an attribute that it does not delete with another."""

    def __init__(self, alpha=1.0, *, kernel="linear", pos_label=None, class_weight=None):
        super().__init__(alpha, pos_label=pos_label, class_weight=class_weight)
        self.kernel = kernel

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if self.kernel == "linear":
            self.weights_ = self.coef_.copy()
        return self


class ReadsItsKernel(LeavesItsKernel):
    """Scores by the parameter as it is now."""

    def _instance_scores(self, bags):
        scores = super()._instance_scores(bags)
        return scores if self.kernel == "linear" else np.tanh(scores)


class CountsFeaturesFirst(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        bags = as_bags(X)
        if hasattr(self, "classes_") and bags is not None:
            self.n_features_in_ = bags.shape[1]
        return super().fit(X, y, sample_weight)


def warn_outside(message):
    """Warn at the first frame that belongs neither to this file nor to scikit-learn."""
    frame, level = sys._getframe(), 1
    while frame.f_code.co_filename == __file__ or "sklearn" in frame.f_code.co_filename:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ConvergenceWarning, stacklevel=level)


class HasJobs(CallbackSupport, LeastSquaresBags):
    """Sound: iterates, in parallel where asked to, and warns at the line of the user."""

    def __init__(self, alpha=1.0, *, max_iter=3, n_jobs=None, pos_label=None, class_weight=None):
        super().__init__(alpha, pos_label=pos_label, class_weight=class_weight)
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def _jobs(self):
        if effective_n_jobs(self.n_jobs) > 1:
            return Parallel(n_jobs=self.n_jobs)(delayed(float)(part) for part in (1, 1))
        return [1.0, 1.0]

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        task = self._start_task(self.max_iter, X=X, y=y)
        factors = self._jobs()
        reason = "max_iter"
        for number in range(3):
            if number == self.max_iter:
                break
            if task.step():
                reason = "callback"
                number += 1
                break
        super().fit(X, y, sample_weight)
        self.coef_ = self.coef_ * np.prod(factors)
        self.n_iter_ = max(1, number)
        if self.n_iter_ < 2:
            self._warn(f"stopped by {reason}")
        task.end()
        return self

    def _warn(self, message):
        warn_outside(message)


class IgnoresTheContext(HasJobs):
    def _jobs(self):
        return [1.0, 1.0]


class DiffersInThreads(HasJobs):
    def _jobs(self):
        parts = super()._jobs()
        return parts if effective_n_jobs(self.n_jobs) == 1 else [*parts, 2.0]


class WarnsFromInside(HasJobs):
    def _warn(self, message):
        warnings.warn(message, ConvergenceWarning, stacklevel=2)


class TakesMoreIterations(HasJobs):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.n_iter_ = self.max_iter + 1
        return self


class BlamesMaxIter(HasJobs):
    def _warn(self, message):
        warn_outside("raise max_iter")


class StopsInSilence(HasJobs):
    def _warn(self, message):
        pass


NEEDS_CALLBACKS = {"check_callbacks", "check_callback_stop"}

BROKEN = [
    ("check_refit_with_other_settings", LeavesItsKernel()),
    ("check_parameters_after_fit", ReadsItsKernel()),
    ("check_parallel_config", IgnoresTheContext()),
    ("check_parallel_config", DiffersInThreads()),
    ("check_max_iter", WarnsFromInside()),
    ("check_max_iter", TakesMoreIterations()),
    ("check_callback_stop", BlamesMaxIter()),
    ("check_callback_stop", StopsInSilence()),
    ("check_callbacks", EndsTooEarly()),
    ("check_callbacks", NeverEnds()),
    ("check_order_of_instances", FirstInstanceDecides()),
    ("check_order_of_instances", FitsOnFirstInstance()),
    ("check_order_of_bags", RanksBags()),
    ("check_order_of_bags", ForgetsLastBags()),
    ("check_order_of_bags", UnstableSplit()),
    ("check_subset_of_bags", CentresTheBatch()),
    ("check_graphs_are_cut", KeepsTheGraphOfFit()),
    ("check_bags_as_sequences", OnlyTakesBags()),
    ("check_bags_as_3d_array", TakesFirstOfA3DArray()),
    ("check_sparse_equals_dense", ShiftsSparse()),
    ("check_sparse_equals_dense", HasTheSparseTagOnly()),
    ("check_read_only_memory_map", WritesInPlace()),
    ("check_n_jobs", DependsOnJobs()),
    ("check_pos_label", IgnoresPosLabel()),
    ("check_class_of_scores", ScoresTheClassThatFits()),
    ("check_class_of_scores", ShowsTheInstancesThatDecide()),
    ("check_sample_weight", IgnoresWeights()),
    ("check_feature_names", ForgetsNames()),
    ("check_feature_names", NamesTooMany()),
    ("check_transform", FitTransformsElsewhere()),
    ("check_transform", LosesGraphs()),
    ("check_set_output", WrapsBags()),
    ("check_output_configuration", FollowsTheOutput()),
    ("check_two_levels", TurnsInstancesRound()),
    ("check_witness", FirstIsWitness()),
    ("check_witness", WitnessOutside()),
    ("check_witness", MeanIsTheScore()),
    ("check_witness", WrongRegressionWitness()),
    ("check_refused_fit", DropsEmptyBags()),
    ("check_refused_fit", ReplacesNan()),
    ("check_refused_fit", CutsFeatures()),
    ("check_refused_fit", TakesStrings()),
    ("check_refused_fit", OtherError()),
    ("check_refused_fit", TakesAnyLabels()),
    ("check_refused_fit", StaysHalfFitted()),
    ("check_refused_fit", CountsFeaturesFirst()),
    ("check_refused_prediction", PredictsForNan()),
    ("check_refused_prediction", PadsFeatures()),
]

# Which of the rules of a check is broken, where it has several.
RULES = {
    "DropsEmptyBags": "an empty bag: was not refused",
    "ReplacesNan": "NaN: was not refused",
    "CutsFeatures": "differing feature counts: was not refused",
    "TakesStrings": "a string: was not refused",
    "OtherError": "a string: raised OSError",
    "TakesAnyLabels": "labels too few: was not refused",
    "StaysHalfFitted": "an empty bag: is fitted",
    "CountsFeaturesFirst": "NaN in a list: a refused fit changed n_features_in_",
    "PredictsForNan": "predict of NaN in a list: was not refused",
    "PadsFeatures": "predict of two features: was not refused",
}


@pytest.fixture
def untouched_problems():
    """Some of the broken estimators write into the bags."""
    kept = {key: problem.X.instances.copy() for key, problem in PROBLEMS.items()}
    yield
    for key, instances in kept.items():
        values = instances if isinstance(instances, np.ndarray) else instances.data
        writable(PROBLEMS[key].X.instances)[...] = values


@pytest.mark.parametrize(
    ("name", "estimator"), BROKEN, ids=[f"{name}-{type(each).__name__}" for name, each in BROKEN]
)
@pytest.mark.usefixtures("untouched_problems")
def test_a_broken_estimator_fails(name, estimator):
    if name in NEEDS_CALLBACKS and not HAS_CALLBACKS:
        pytest.skip("scikit-learn 1.9 has callbacks")
    failed = []
    for check in bag_checks(estimator):
        if check.name == name:
            try:
                check(estimator)
            except AssertionError as error:
                failed.append(str(error))
    assert failed
    assert failed[0].startswith(name)
    assert RULES.get(type(estimator).__name__, "") in failed[0]


def test_every_check_can_fail():
    assert {check.__name__ for check in REGISTERED} == {name for name, _ in BROKEN}


# -- running -------------------------------------------------------------------------------------


def test_checks_of_an_estimator():
    ids = [check.id for check in bag_checks(LeastSquaresBags())]
    assert len(set(ids)) == len(ids)
    for kind in ("dense", "sparse", "graphs"):
        for task in ("binary", "multiclass"):
            only_first = kind == "sparse" and task == "multiclass"
            assert (f"check_witness({kind},{task})" in ids) != only_first
    assert not any("sparse," in check.id for check in bag_checks(HighestInstance()))
    assert {check.problem.task for check in bag_checks(MeanClusters())} == {"unsupervised"}


def test_failures_may_be_expected():
    broken = IgnoresPosLabel()
    with pytest.raises(AssertionError, match=r"^check_pos_label\(dense,binary\) of IgnoresPosLab"):
        check_bag_estimator(broken)
    for name in ("check_pos_label", "check_pos_label(dense,binary)"):
        failures = {name: "a reason", "check_class_of_scores": "the same one"}
        check_bag_estimator(broken, expected_failed_checks=failures)


@pytest.mark.usefixtures("untouched_problems")
def test_other_errors_name_the_check():
    with pytest.raises(
        AssertionError,
        match=r"^check_read_only_memory_map\(dense,binary\) of WritesInPlace raised ValueError: ",
    ):
        next(
            check
            for check in bag_checks(WritesInPlace())
            if check.name == "check_read_only_memory_map"
        )(WritesInPlace())


def test_the_decorator_marks_expected_failures():
    mark = parametrize_with_bag_checks(
        [LeastSquaresBags(alpha=2.0)],
        expected_failed_checks=lambda estimator: {"check_witness": "a reason"},
    )
    names, cases = mark.args
    assert names == ("estimator", "check")
    for case in cases:
        assert case.id == f"LeastSquaresBags(alpha=2.0)-{case.values[1].id}"
        reasons = [each.kwargs["reason"] for each in case.marks]
        assert reasons == (["a reason"] if case.values[1].name == "check_witness" else [])


# -- assertions, fits and where checks apply -----------------------------------------------------


def test_a_check_that_changes_its_estimator_changes_no_other():
    estimator, problem = HighestInstance(), PROBLEMS["dense", "regression"]
    fitted, outputs = reference(estimator, problem)
    expected = fitted.coef_.copy()
    fitted.coef_ *= 0.0
    outputs["predict"][1][:] = 0.0
    again, found = reference(estimator, problem)
    np.testing.assert_array_equal(again.coef_, expected)
    np.testing.assert_array_equal(found["predict"][1], again.predict(problem.X))
