"""Tools of scikit-learn take bags as they are: what is more than a line of "Works with"."""

from __future__ import annotations

from pathlib import Path

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    cross_validate,
)
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from milearn import Bags
from milearn.baselines import SingleInstance
from milearn.preprocessing import AppendBagData, BagStatistics, InstanceTransformer
from milearn.svm import MISVC, BagSVC
from tests.toys import LeastSquaresBags, two_level_bags


@pytest.fixture(params=["dense", "sparse", "graphs"])
def data(request):
    bags, y = two_level_bags(n_bags=40)
    if request.param == "sparse":
        bags = bags.with_instances(sparse.csr_array(bags.instances))
    if request.param == "graphs":
        graph = sparse.eye_array(len(bags)), sparse.eye_array(bags.n_instances)
        bags = Bags(bags.instances, bags.offsets, bag_graph=graph[0], instance_graph=graph[1])
    return bags, y


@pytest.fixture
def bags():
    return two_level_bags(n_bags=40)[0]


@pytest.fixture
def y():
    return two_level_bags(n_bags=40)[1]


# -- searches, in worker processes and on memory maps --------------------------------------------


def test_a_search_with_two_workers(data):
    bags, y = data
    alone = GridSearchCV(LeastSquaresBags(), {"alpha": [0.1, 1.0]}, cv=3).fit(bags, y)
    # joblib writes even these few bags into a file that workers map, see conftest.py.
    with parallel_config(n_jobs=2):
        both = clone(alone).fit(bags, y)
    assert both.best_params_ == alone.best_params_
    np.testing.assert_allclose(
        both.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"]
    )
    np.testing.assert_allclose(both.decision_function(bags), alone.decision_function(bags))


# -- pipelines -----------------------------------------------------------------------------------


class Counting(InstanceTransformer):
    """Writes a line into a file at every fit."""

    def __init__(self, transformer=None, log=None):
        super().__init__(transformer)
        self.log = log

    def fit(self, X, y=None, **params):
        with Path(self.log).open("a") as stream:
            stream.write("fit\n")
        return super().fit(X, y, **params)

    def fit_transform(self, X, y=None, **params):
        return self.fit(X, y, **params).transform(X)


def _fits(log):
    return len(log.read_text().splitlines())


def test_pipeline_memory_hits_on_equal_bags(data, tmp_path):
    bags, y = data
    log = tmp_path / "log"
    steps = Counting(MaxAbsScaler(), log=str(log)), LeastSquaresBags()
    pipeline = make_pipeline(*steps, memory=str(tmp_path / "cache"))
    first = pipeline.fit(bags, y).decision_function(bags)
    assert _fits(log) == 1
    # Everything that SciPy and the container cache in use must leave the key alone.
    _ = bags.bag_index, list(bags), bags[[1, 0]]
    if sparse.issparse(bags.instances):
        assert bags.instances.has_canonical_format
        assert bags.instances.has_sorted_indices
    second = clone(pipeline).fit(bags, y).decision_function(bags)
    assert _fits(log) == 1
    np.testing.assert_array_equal(first, second)
    joblib.dump(bags, tmp_path / "bags")
    for again in (
        joblib.load(tmp_path / "bags"),
        joblib.load(tmp_path / "bags", mmap_mode="r"),
        Bags.concatenate([bags[:9], bags[9:]]),
    ):
        clone(pipeline).fit(again, y)
    assert _fits(log) == 1
    clone(pipeline).fit(bags[:39], y[:39])
    assert _fits(log) == 2


def _assert_fits_the_joined(step, data, joined):
    """A pipeline scores as its last step does that was fitted on the joined features."""
    expected = LeastSquaresBags().fit(joined, data[1]).decision_function(joined)
    assert np.ptp(expected) > 0.1
    pipeline = make_pipeline(step, LeastSquaresBags()).fit(*data)
    np.testing.assert_allclose(pipeline.decision_function(data[0]), expected)


def test_feature_union_puts_features_side_by_side(data):
    bags, _ = data
    union = FeatureUnion(
        [
            ("scaled", InstanceTransformer(MaxAbsScaler())),
            ("as it is", FunctionTransformer()),
        ]
    )
    joined = union.fit_transform(bags)
    assert isinstance(joined, Bags)
    assert joined.shape == (40, 6)
    assert sparse.issparse(joined.instances) == sparse.issparse(bags.instances)
    np.testing.assert_array_equal(joined.offsets, bags.offsets)
    assert (joined.bag_graph is None) == (bags.bag_graph is None)
    _assert_fits_the_joined(union, data, joined)


def test_feature_union_refuses_a_mixture(bags):
    union = FeatureUnion([("bags", FunctionTransformer()), ("rows", BagStatistics())])
    with pytest.raises(TypeError, match=r"^Bags cannot be joined with .*: let every transformer"):
        union.fit_transform(bags)


def test_column_transformer(data):
    bags, _ = data
    columns = ColumnTransformer(
        [
            ("scaled", InstanceTransformer(MaxAbsScaler()), [0, 2]),
            ("as it is", FunctionTransformer(), [1]),
        ]
    )
    joined = columns.fit_transform(bags)
    assert isinstance(joined, Bags)
    assert joined.shape == (40, 3)
    np.testing.assert_array_equal(joined.offsets, bags.offsets)
    dense = bags.instances.toarray() if sparse.issparse(bags.instances) else bags.instances
    last = joined.instances[:, [2]]
    last = last.toarray() if sparse.issparse(last) else last
    np.testing.assert_array_equal(last, dense[:, [1]])
    _assert_fits_the_joined(columns, data, joined)


# -- meta-estimators -----------------------------------------------------------------------------


def test_labels_share_the_kernels_in_a_memory(bags, y, tmp_path):
    labels = np.column_stack([y, y[::-1], y])
    model = BagSVC(random_state=0, memory=str(tmp_path))
    MultiOutputClassifier(model).fit(bags, labels[:, :1])
    stored = sorted(tmp_path.rglob("output.pkl"))
    assert stored
    shared = MultiOutputClassifier(model).fit(bags, labels)
    assert sorted(tmp_path.rglob("output.pkl")) == stored
    alone = BagSVC(random_state=0).fit(bags, labels[:, 1])
    np.testing.assert_array_equal(shared.predict(bags)[:, 1], alone.predict(bags))


# -- set_output, clone, display ------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["pandas", "polars"])
def test_set_output_of_a_union_of_bags(bags, choice):
    scalers = StandardScaler(), StandardScaler(with_mean=False)
    union = make_union(*map(InstanceTransformer, scalers))
    expected = union.fit_transform(bags)
    with config_context(transform_output=choice):
        if choice == "pandas":
            with pytest.raises(TypeError, match="Bags cannot be turned into one array"):
                union.transform(bags)
        found = union.set_output(transform="default").transform(bags)
    np.testing.assert_array_equal(found.instances, expected.instances)


@pytest.mark.parametrize("choice", ["pandas", "polars"])
def test_inner_transformers_with_an_output_of_their_own(bags, y, choice):
    def models(scaler):
        yield BagSVC(scaling=[scaler])
        yield SingleInstance(make_pipeline(scaler, SVC()))
        yield make_pipeline(InstanceTransformer(scaler), MISVC(kernel="linear"))

    framed = StandardScaler().set_output(transform=choice)
    for plain, model in zip(models(StandardScaler()), models(framed), strict=True):
        expected = plain.fit(bags, y).decision_function(bags)
        np.testing.assert_array_equal(model.fit(bags, y).decision_function(bags), expected)


@pytest.mark.parametrize("choice", ["pandas", "polars"])
def test_appended_columns_of_a_transformer_under_an_output_configuration(bags, choice):
    sites = bags.with_bag_data({"site": np.arange(40) % 3})
    model = AppendBagData(["site"], OneHotEncoder())
    expected = model.fit_transform(sites)
    with config_context(transform_output=choice):
        found = clone(model).fit_transform(sites)
        np.testing.assert_array_equal(found.instances, expected.instances)
        np.testing.assert_array_equal(model.transform(sites).instances, expected.instances)


# -- metadata ------------------------------------------------------------------------------------


def test_routed_sample_weight(bags, y):
    weight = np.random.default_rng(0).uniform(0.1, 3.0, size=40)
    cv = StratifiedKFold(3)
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(roc_auc_score, response_method="decision_function")
        scorer = scorer.set_score_request(sample_weight=True)
        requesting = LeastSquaresBags().set_fit_request(sample_weight=True)
        params = {"sample_weight": weight}
        found = cross_validate(requesting, bags, y, cv=cv, scoring=scorer, params=params)
        search = GridSearchCV(requesting, {}, cv=cv, scoring=scorer).fit(bags, y, **params)
    expected = []
    for train, test in cv.split(bags, y):
        fitted = LeastSquaresBags().fit(bags[train], y[train], sample_weight=weight[train])
        scores = fitted.decision_function(bags[test])
        expected.append(roc_auc_score(y[test], scores, sample_weight=weight[test]))
    np.testing.assert_allclose(found["test_score"], expected)
    np.testing.assert_allclose(search.best_score_, np.mean(expected))
    refitted = LeastSquaresBags().fit(bags, y, sample_weight=weight)
    np.testing.assert_array_equal(search.decision_function(bags), refitted.decision_function(bags))


@pytest.mark.parametrize("routing", [False, True])
def test_groups(bags, y, routing):
    groups = np.arange(40) // 4
    seen = []

    class Watching(GroupKFold):
        def split(self, X, y=None, groups=None):
            for train, test in super().split(X, y, groups):
                seen.append((set(groups[train]), set(groups[test])))
                yield train, test

    with config_context(enable_metadata_routing=routing):
        options = {"params": {"groups": groups}} if routing else {"groups": groups}
        found = cross_validate(LeastSquaresBags(), bags, y, cv=Watching(5), **options)
        search = GridSearchCV(LeastSquaresBags(), {}, cv=Watching(5)).fit(bags, y, groups=groups)
    assert len(found["test_score"]) == 5
    assert search.n_splits_ == 5
    assert len(seen) == 10
    assert not any(train & test for train, test in seen)
