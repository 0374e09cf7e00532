"""Every check passes on sound estimators and fails on one that breaks its rule."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin, RegressorMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted

from milearn import Bags
from milearn._bags.segments import segment_argmax, segment_max, segment_mean
from milearn.utils._checks.bag_checks import CHECKS, ONCE
from milearn.utils._checks.data import KINDS, PROBLEMS, TASKS
from milearn.utils._sklearn import HAS_CALLBACKS, CallbackSupport, with_callbacks
from milearn.utils.estimator_checks import (
    bag_checks,
    check_bag_estimator,
    parametrize_with_bag_checks,
)
from milearn.utils.validation import as_bags, validate_bags, validate_labels
from tests.toys import LeastSquaresBags

# -- sound estimators of every kind --------------------------------------------------------------


class HighestInstance(RegressorMixin, BaseEstimator):
    """A bag's value is the highest of linear values of its instances."""

    def fit(self, X, y):
        bags = validate_bags(self, X, accept_sparse=False)
        y = validate_labels(self, y, bags, numeric=True)
        means = segment_mean(bags.instances, bags.offsets)
        self.coef_ = np.linalg.solve(means.T @ means + np.eye(means.shape[1]), means.T @ y)
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "coef_")

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


class MeanClusters(ClusterMixin, BaseEstimator):
    """k-means of the bag means: a fit that is a draw."""

    def __init__(self, n_clusters=2, random_state=None):
        self.n_clusters = n_clusters
        self.random_state = random_state

    def fit(self, X, y=None):
        bags = validate_bags(self, X, accept_sparse=False)
        means = segment_mean(bags.instances, bags.offsets)
        kmeans = KMeans(self.n_clusters, n_init=1, random_state=self.random_state)
        self.labels_ = kmeans.fit_predict(means)
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "labels_")


class Doubled(TransformerMixin, BaseEstimator):
    """Bags in, bags out."""

    def fit(self, X, y=None):
        validate_bags(self, X, accept_sparse=False)
        self.factor_ = 2.0
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "factor_")

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


def test_callbacks_that_are_sound_pass():
    for check in bag_checks(Watched()):
        if check.name == "check_callbacks":
            check(Watched())


def test_sound_estimators_pass_in_one_call():
    check_bag_estimator(HighestInstance())


# -- broken ones, one rule each ------------------------------------------------------------------


class FirstInstanceDecides(LeastSquaresBags):
    def _bag_scores(self, bags):
        return self._instance_scores(bags)[bags.offsets[:-1]]


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


class ScalesAMatrix(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X if as_bags(X) is not None else 2 * X, y, sample_weight)


class ShiftsSparse(LeastSquaresBags):
    def _instance_scores(self, bags):
        shift = 0.0 if isinstance(bags.instances, np.ndarray) else 1.0
        return super()._instance_scores(bags) + shift


class HasTheSparseTagOnly(HighestInstance):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class RoundsFloat32(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        if getattr(X, "dtype", None) == np.float32:
            X = X.with_instances(X.instances.round(0))
        return super().fit(X, y, sample_weight)


class WritesInPlace(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        bags = validate_bags(self, X)
        values = bags.instances if isinstance(bags.instances, np.ndarray) else bags.instances.data
        values += 1e-3
        return super().fit(bags, y, sample_weight)


class HoldsAFunction(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.link_ = lambda scores: scores
        return self


class DependsOnJobs(LeastSquaresBags):
    def __init__(self, alpha=1.0, *, pos_label=None, class_weight=None, n_jobs=None):
        super().__init__(alpha, pos_label=pos_label, class_weight=class_weight)
        self.n_jobs = n_jobs

    def _instance_scores(self, bags):
        return super()._instance_scores(bags) * (self.n_jobs or 1)


class StartsWhereItStood(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        before = getattr(self, "intercept_", 0.0)
        super().fit(X, y, sample_weight)
        self.intercept_ = self.intercept_ + np.mean(before)
        return self


class IsItsOwnClone(LeastSquaresBags):
    def __sklearn_clone__(self):
        return self


class TakesAnyLabels(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, np.resize(y, len(as_bags(X))), sample_weight)


class StaysHalfFitted(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return super().fit(X, y, sample_weight)


class TakesNumbersOnly(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, np.asarray(y).astype(float), sample_weight)


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
        bags = validate_bags(self, X)
        return super().fit(Bags(bags.instances, bags.offsets), y, sample_weight)


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
        keep = [position for position, block in enumerate(X) if len(block)]
        return super().fit([X[position] for position in keep], np.asarray(y)[keep])


class ReplacesNan(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        bags = as_bags(X)
        return super().fit(bags.with_instances(np.nan_to_num(bags.instances)), y)


class PredictsForNan(LeastSquaresBags):
    def _checked(self, X):
        return validate_bags(self, X, reset=False, ensure_all_finite=False)


class CutsFeatures(LeastSquaresBags):
    def fit(self, X, y, sample_weight=None):
        width = min(block.shape[1] for block in X)
        return super().fit([block[:, :width] for block in X], y)


class PadsFeatures(LeastSquaresBags):
    def _checked(self, X):
        bags = as_bags(X)
        missing = self.n_features_in_ - bags.shape[1]
        return bags.with_instances(np.pad(bags.instances, [(0, 0), (0, missing)]))


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


class Watched(CallbackSupport, LeastSquaresBags):
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        task = self._start_task(2, X=X, y=y)
        task.step()
        super().fit(X, y, sample_weight)
        task.end()
        return self


class UnstableSplit(MeanClusters):
    """Clusters by position, and no seed to blame."""

    def __init__(self):
        pass

    def fit(self, X, y=None):
        bags = validate_bags(self, X, accept_sparse=False)
        self.labels_ = np.arange(len(bags)) // 2
        return self


BROKEN = [
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
    ("check_singletons_as_matrix", ScalesAMatrix()),
    ("check_sparse_equals_dense", ShiftsSparse()),
    ("check_sparse_equals_dense", HasTheSparseTagOnly()),
    ("check_float32", RoundsFloat32()),
    ("check_read_only_memory_map", WritesInPlace()),
    ("check_parallel_workers", WritesInPlace()),
    ("check_input_is_untouched", WritesInPlace()),
    ("check_pickle", HoldsAFunction()),
    ("check_n_jobs", DependsOnJobs()),
    ("check_fit_again", StartsWhereItStood()),
    ("check_clone", IsItsOwnClone()),
    ("check_error_labels", TakesAnyLabels()),
    ("check_error_labels", StaysHalfFitted()),
    ("check_string_labels", TakesNumbersOnly()),
    ("check_pos_label", IgnoresPosLabel()),
    ("check_sample_weight", IgnoresWeights()),
    ("check_feature_names", ForgetsNames()),
    ("check_feature_names", NamesTooMany()),
    ("check_transform", FitTransformsElsewhere()),
    ("check_transform", LosesGraphs()),
    ("check_set_output", WrapsBags()),
    ("check_two_levels", TurnsInstancesRound()),
    ("check_witness", FirstIsWitness()),
    ("check_witness", WitnessOutside()),
    ("check_witness", MeanIsTheScore()),
    ("check_witness", WrongRegressionWitness()),
    ("check_error_empty_bag", DropsEmptyBags()),
    ("check_error_not_finite", ReplacesNan()),
    ("check_error_not_finite", PredictsForNan()),
    ("check_error_feature_counts", CutsFeatures()),
    ("check_error_feature_counts", PadsFeatures()),
    ("check_error_string", TakesStrings()),
    ("check_error_string", OtherError()),
]


@pytest.fixture
def untouched_problems():
    """Some of the broken estimators write into the bags."""
    kept = {key: problem.X.instances.copy() for key, problem in PROBLEMS.items()}
    yield
    for key, instances in kept.items():
        values, before = PROBLEMS[key].X.instances, instances
        if not isinstance(values, np.ndarray):
            values, before = values.data, before.data
        values[...] = before


@pytest.mark.parametrize(
    ("name", "estimator"), BROKEN, ids=[f"{name}-{type(each).__name__}" for name, each in BROKEN]
)
@pytest.mark.usefixtures("untouched_problems")
def test_a_broken_estimator_fails(name, estimator):
    if name == "check_callbacks" and not HAS_CALLBACKS:
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


def test_every_check_can_fail():
    assert {check.__name__ for check in (*CHECKS, *ONCE)} == {name for name, _ in BROKEN}


# -- running -------------------------------------------------------------------------------------


def test_the_data_are_one_dictionary():
    assert set(PROBLEMS) == {(kind, task) for kind in KINDS for task in TASKS}
    for (kind, task), problem in PROBLEMS.items():
        assert (problem.kind, problem.task) == (kind, task)
        assert (problem.y is None) == (task == "unsupervised")
        assert len(problem.X) == 24


def test_checks_of_an_estimator():
    ids = [check.id for check in bag_checks(LeastSquaresBags())]
    assert len(set(ids)) == len(ids)
    for kind in ("dense", "sparse", "graphs"):
        for task in ("binary", "multiclass"):
            assert f"check_pickle({kind},{task})" in ids
    assert not any("sparse," in check.id for check in bag_checks(HighestInstance()))
    assert {check.problem.task for check in bag_checks(MeanClusters())} == {"unsupervised"}


def test_failures_may_be_expected():
    broken = IgnoresPosLabel()
    with pytest.raises(AssertionError, match=r"^check_pos_label\(dense,binary\) of IgnoresPosLab"):
        check_bag_estimator(broken)
    slow = {"check_parallel_workers": "starts processes"}
    check_bag_estimator(broken, expected_failed_checks={"check_pos_label": "a reason"} | slow)
    one = {"check_pos_label(dense,binary)": "a reason"}
    check_bag_estimator(broken, expected_failed_checks=one | slow)


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
        expected_failed_checks=lambda estimator: {"check_pickle": "a reason"},
    )
    names, cases = mark.args
    assert names == ("estimator", "check")
    for case in cases:
        assert case.id == f"LeastSquaresBags(alpha=2.0)-{case.values[1].id}"
        reasons = [each.kwargs["reason"] for each in case.marks]
        assert reasons == (["a reason"] if case.values[1].name == "check_pickle" else [])
