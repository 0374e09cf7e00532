"""Every check passes on sound estimators and fails on one that breaks its rule."""

from __future__ import annotations

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


# -- broken ones, one rule each ------------------------------------------------------------------


def fits(change, base=LeastSquaresBags):
    """A fit to what ``change`` makes of the estimator, the bags and the labels."""

    def fit(self, X, y=None, sample_weight=None):
        return base.fit(self, *change(self, X, y))

    return fit


def after_fit(change):
    """A fit after which ``change`` gets the estimator and the bags."""

    def fit(self, X, y, sample_weight=None):
        LeastSquaresBags.fit(self, X, y, sample_weight)
        change(self, X)
        return self

    return fit


def scores(change, level="_bag_scores"):
    """Scores of bags, or of instances, that ``change`` makes of the estimator, bags and scores."""
    sound = getattr(LeastSquaresBags, level)
    return {level: lambda self, bags: change(self, bags, sound(self, bags))}


def broken(base=LeastSquaresBags, /, **methods):
    return type("Broken", (base,), methods)()


def first_instances(self, bags, scores):
    return self._instance_scores(bags)[bags.offsets[:-1]]


def with_ranks(self, bags, scores):
    ranks = np.arange(len(bags), dtype=float)
    return scores + (ranks if scores.ndim == 1 else ranks[:, None])


def shifted_if_sparse(self, bags, scores):
    return scores + (0.0 if isinstance(bags.instances, np.ndarray) else 1.0)


def to_first_instance(self, X, y):
    bags = validate_bags(self, X)
    return bags.instances[bags.offsets[:-1]], y


def to_ten_bags(self, X, y):
    bags = validate_bags(self, X)
    return bags[:10], validate_labels(self, y, bags)[:10]


def keeps_graph(self, X, y):
    self.graph_ = getattr(X, "bag_graph", None)
    return X, y


def first_of_a_3d_array(self, X, y):
    return (X.astype(float)[:, 0] if getattr(X, "ndim", 0) == 3 else X), y


def without_names(self, X, y):
    bags = as_bags(X)
    return (X if bags is None else Bags(bags.instances, bags.offsets)), y


def writable(instances):
    """The caller's array behind the read-only view of bags."""
    values = instances if isinstance(instances, np.ndarray) else instances.data
    return values if values.flags.writeable else values.base


def scores_the_class_that_fits(self, X):
    # Whichever class has the higher means: swapped labels swap the class of the scores.
    self._positive_sign = 1 if self.coef_.sum() > 0 else -1


def shows_the_instances_that_decide(self, X):
    bags = self._checked(X)
    scores = self._instance_scores(bags)
    return segment_argmax(scores if self.coef_[0].sum() > 0 else -scores, bags.offsets)


def written_in_place(self, X, y):
    bags = validate_bags(self, X)
    values = writable(bags.instances)
    values += 1e-3
    return bags, y


def half_fitted(self, X, y):
    self._replace_fitted({"classes_": np.unique(y)})
    return X, y


def without_empty_bags(self, X, y):
    if isinstance(X, list):
        keep = [position for position, block in enumerate(X) if len(block)]
        X, y = [X[position] for position in keep], np.asarray(y)[keep[: len(y)]]
    return X, y


def without_nan(self, X, y):
    if isinstance(X, Bags) and not X.is_sparse:
        X = X.with_instances(np.nan_to_num(X.instances), feature_names=X.feature_names)
    return X, y


def cut_features(self, X, y):
    if isinstance(X, list) and not any(isinstance(block, str) for block in X):
        width = min(block.shape[1] for block in X)
        X = [block[:, :width] for block in X]
    return X, y


def other_error(self, X, y):
    if isinstance(X, str):
        raise OSError("no such file")
    return X, y


def counts_features_first(self, X, y):
    bags = as_bags(X)
    if hasattr(self, "classes_") and bags is not None:
        self.n_features_in_ = bags.shape[1]
    return X, y


def has_the_sparse_tag(self):
    tags = HighestInstance.__sklearn_tags__(self)
    tags.input_tags.sparse = True
    return tags


def predicts_for_nan(self, X, **options):
    bags = validate_bags(self, X, reset=False, ensure_all_finite=False)
    bags = bags.with_instances(np.nan_to_num(bags.instances))
    return LeastSquaresBags._validated(self, bags, **options)


def pads_features(self, X, **options):
    bags = as_bags(X)
    if bags.shape[1] < self.n_features_in_:
        missing = self.n_features_in_ - bags.shape[1]
        X = bags.with_instances(np.pad(bags.instances, [(0, 0), (0, missing)]))
    return LeastSquaresBags._validated(self, X, **options)


def transforms_elsewhere(self, X, y=None):
    bags = self.fit(X).transform(X)
    return bags.with_instances(bags.instances + 1.0)


def loses_graphs(self, X):
    bags = Doubled.transform(self, X)
    return Bags(bags.instances, bags.offsets, feature_names=bags.feature_names)


def loses_bag_names(self, X):
    return Doubled.transform(self, X)._changed(names=None)


def ends_at_once(self, X, y):
    self._start_task(X=X, y=y).end()
    return X, y


def never_ends(self, X, y):
    self._start_task(X=X, y=y)
    return X, y


class WrapsBags(Doubled):
    set_output = TransformerMixin.set_output

    def transform(self, X):
        return super().transform(X)


class DependsOnJobs(LeastSquaresBags):
    def __init__(self, alpha=1.0, *, pos_label=None, class_weight=None, n_jobs=None):
        super().__init__(alpha, pos_label=pos_label, class_weight=class_weight)
        self.n_jobs = n_jobs

    def _instance_scores(self, bags):
        return super()._instance_scores(bags) * (self.n_jobs or 1)


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


class HasJobs(CallbackSupport, LeastSquaresBags):
    """Sound: iterates, in parallel where asked to, and warns."""

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
        warnings.warn(message, ConvergenceWarning, stacklevel=2)


def follow_the_output(self, X):
    self.coef_ = self.coef_ * (1.0 + (get_config()["transform_output"] != "default"))


IGNORES_POS_LABEL = broken(fit=after_fit(lambda self, X: setattr(self, "_positive_sign", 1)))


def other_parts_in_threads(self):
    return HasJobs._jobs(self) if effective_n_jobs(self.n_jobs) == 1 else [1.0, 1.0, 2.0]


def too_many_iterations(self, X, y, sample_weight=None):
    HasJobs.fit(self, X, y, sample_weight)
    self.n_iter_ = self.max_iter + 1
    return self


NEEDS_CALLBACKS = {"check_callbacks", "check_callback_stop"}
WITH_CALLBACKS = type("WithCallbacks", (CallbackSupport, LeastSquaresBags), {})

# The check, what it has to say, and the estimator; with several rules what it says names the rule.
BROKEN = [
    ("refit_with_other_settings", "", LeavesItsKernel()),
    ("parameters_after_fit", "", ReadsItsKernel()),
    ("parallel_config", "no two jobs", broken(HasJobs, _jobs=lambda self: [1.0, 1.0])),
    ("parallel_config", "", broken(HasJobs, _jobs=other_parts_in_threads)),
    ("max_iter", "but n_iter_ is", broken(HasJobs, fit=too_many_iterations)),
    ("callback_stop", "", broken(HasJobs, _warn=lambda self, _: HasJobs._warn(self, "max_iter"))),
    ("callback_stop", "the warnings are", broken(HasJobs, _warn=lambda self, message: None)),
    ("callbacks", "", broken(WITH_CALLBACKS, fit=with_callbacks(fits(ends_at_once)))),
    ("callbacks", "", broken(WITH_CALLBACKS, fit=with_callbacks(fits(never_ends)))),
    ("order_of_instances", "", broken(**scores(first_instances))),
    ("order_of_instances", "fitted on", broken(fit=fits(to_first_instance))),
    ("order_of_bags", "", broken(**scores(with_ranks))),
    ("order_of_bags", "fitted on", broken(fit=fits(to_ten_bags))),
    ("subset_of_bags", "", broken(**scores(lambda _, bags, found: found - found.mean(axis=0)))),
    (
        "graphs_are_cut",
        "",
        broken(
            fit=fits(keeps_graph),
            **scores(lambda self, _, found: found if self.graph_ is None else self.graph_ @ found),
        ),
    ),
    (
        "bags_as_sequences",
        "",
        broken(fit=fits(lambda _, X, y: (X.with_instances(X.instances), y))),
    ),
    ("bags_as_3d_array", "", broken(fit=fits(first_of_a_3d_array))),
    ("sparse_equals_dense", "", broken(**scores(shifted_if_sparse, "_instance_scores"))),
    ("sparse_equals_dense", "", broken(HighestInstance, __sklearn_tags__=has_the_sparse_tag)),
    ("read_only_memory_map", "raised ValueError: ", broken(fit=fits(written_in_place))),
    ("n_jobs", "", DependsOnJobs()),
    ("pos_label", "", IGNORES_POS_LABEL),
    ("class_of_scores", "", broken(fit=after_fit(scores_the_class_that_fits))),
    ("class_of_scores", "", broken(witness=shows_the_instances_that_decide)),
    ("sample_weight", "", broken(fit=fits(lambda _, X, y: (X, y)))),
    ("feature_names", "feature_names_in_", broken(fit=fits(without_names))),
    (
        "feature_names",
        "get_feature_names_out gives",
        broken(
            Doubled, get_feature_names_out=lambda self, _=None: [*self.feature_names_in_, "more"]
        ),
    ),
    (
        "bag_names",
        "y in another order: was not refused",
        broken(fit=fits(lambda _, X, y: (X, np.asarray(y)))),
    ),
    ("bag_names", "lost the names", broken(Doubled, transform=loses_bag_names)),
    ("transform", "fit_transform", broken(Doubled, fit_transform=transforms_elsewhere)),
    ("transform", "lost the graph", broken(Doubled, transform=loses_graphs)),
    ("set_output", "", WrapsBags()),
    ("output_configuration", "", broken(fit=after_fit(follow_the_output))),
    (
        "two_levels",
        "",
        broken(
            instance_decision_function=lambda self, X: LeastSquaresBags.instance_decision_function(
                self, X
            )[::-1]
        ),
    ),
    ("witness", "against its bag", broken(witness=lambda self, X: self._checked(X).offsets[:-1])),
    (
        "witness",
        "lies in another bag",
        broken(witness=lambda self, X: np.zeros(len(self._checked(X)), dtype=int)),
    ),
    (
        "witness",
        "bag score",
        broken(
            _bag_scores=lambda self, bags: segment_mean(self._instance_scores(bags), bags.offsets)
        ),
    ),
    ("refused_fit", "an empty bag: was not refused", broken(fit=fits(without_empty_bags))),
    ("refused_fit", "NaN: was not refused", broken(fit=fits(without_nan))),
    ("refused_fit", "differing feature counts: was not refused", broken(fit=fits(cut_features))),
    ("refused_fit", "a string: raised OSError", broken(fit=fits(other_error))),
    (
        "refused_fit",
        "labels too few: was not refused",
        broken(fit=fits(lambda _, X, y: (X, np.resize(y, len(as_bags(X)))))),
    ),
    ("refused_fit", "an empty bag: is fitted", broken(fit=fits(half_fitted))),
    (
        "refused_fit",
        "NaN in a list: a refused fit changed n_features_in_",
        broken(fit=fits(counts_features_first)),
    ),
    (
        "refused_prediction",
        "predict of NaN in a list: was not refused",
        broken(_validated=predicts_for_nan),
    ),
    (
        "refused_prediction",
        "predict of two features: was not refused",
        broken(_validated=pads_features),
    ),
]


@pytest.fixture
def untouched_problems():
    """Some of the broken estimators write into the bags."""
    kept = {key: problem.X.instances.copy() for key, problem in PROBLEMS.items()}
    yield
    for key, instances in kept.items():
        values = instances if isinstance(instances, np.ndarray) else instances.data
        writable(PROBLEMS[key].X.instances)[...] = values


@pytest.mark.parametrize(
    ("name", "said", "estimator"),
    BROKEN,
    ids=[f"{n}-{name}" for n, (name, *_) in enumerate(BROKEN)],
)
@pytest.mark.usefixtures("untouched_problems")
def test_a_broken_estimator_fails(name, said, estimator):
    name = f"check_{name}"
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
    assert said in failed[0]


def test_every_check_can_fail():
    assert {check.__name__ for check in REGISTERED} == {f"check_{name}" for name, *_ in BROKEN}


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
    with pytest.raises(AssertionError, match=r"^check_pos_label\(dense,binary\) of Broken"):
        check_bag_estimator(IGNORES_POS_LABEL)
    for name in ("check_pos_label", "check_pos_label(dense,binary)"):
        failures = {name: "a reason", "check_class_of_scores": "the same one"}
        check_bag_estimator(IGNORES_POS_LABEL, expected_failed_checks=failures)


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
