"""InstanceTransformer: the inner transformer on the instance matrix, the kind kept."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.manifold import MDS
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    StandardScaler,
)

from milearn import Bags
from milearn.preprocessing import BagStatistics, InstanceTransformer


@pytest.fixture
def bags() -> Bags:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, size=12)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    matrix = rng.normal(size=(offsets[-1], 3)) * [1, 10, 100] + [0, 5, -50]
    graph = sparse.random(12, 12, 0.3, random_state=0)
    return Bags(matrix, offsets, bag_graph=graph, feature_names=["a", "b", "c"])


@pytest.fixture
def labels() -> np.ndarray:
    return np.array(["no", "yes"] * 6)


@pytest.mark.parametrize("inner", [StandardScaler(), MinMaxScaler(), PCA(2), Normalizer()])
def test_equals_inner_on_the_instances(bags, inner):
    out = InstanceTransformer(inner).fit_transform(bags)
    expected = clone(inner).fit(bags.instances).transform(bags.instances)
    assert isinstance(out, Bags)
    np.testing.assert_array_equal(out.instances, expected)
    np.testing.assert_array_equal(out.offsets, bags.offsets)
    assert (out.bag_graph != bags.bag_graph).nnz == 0


def test_csr_is_kept(bags):
    csr = sparse.random_array((bags.n_instances, 5), density=0.3, format="csr", random_state=0)
    thin = Bags(csr, bags.offsets)
    out = InstanceTransformer(MaxAbsScaler()).fit_transform(thin)
    assert sparse.issparse(out.instances)
    assert out.instances.format == "csr"
    np.testing.assert_allclose(out.instances.toarray(), MaxAbsScaler().fit_transform(csr.toarray()))
    assert sparse.issparse(InstanceTransformer(MaxAbsScaler()).fit_transform(csr))


def test_names_go_in_and_come_out(bags):
    model = InstanceTransformer(PCA(2)).fit(bags)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    assert model.get_feature_names_out().tolist() == ["pca0", "pca1"]
    assert model.transform(bags).feature_names.tolist() == ["pca0", "pca1"]
    picked = InstanceTransformer(SelectKBest(k=2)).fit(bags, [0, 1] * 6)
    names = picked.get_feature_names_out().tolist()
    assert set(names) < {"a", "b", "c"}
    assert picked.transform(bags).feature_names.tolist() == names
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        picked.get_feature_names_out(["x", "y", "z"])
    plain = Bags(bags.instances, bags.offsets)
    assert InstanceTransformer().fit_transform(plain).feature_names is None


def test_no_names_where_the_inner_has_none(bags):
    class Nameless(BaseEstimator):
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return X[:, :1]

    model = InstanceTransformer(Nameless()).fit(bags)
    assert not hasattr(model, "get_feature_names_out")
    assert model.transform(bags).shape == (12, 1)


def test_inverse_transform(bags):
    model = InstanceTransformer(StandardScaler()).fit(bags)
    back = model.inverse_transform(model.transform(bags))
    assert isinstance(back, Bags)
    np.testing.assert_allclose(back.instances, bags.instances)
    assert back.feature_names.tolist() == ["a", "b", "c"]
    flat = model.inverse_transform(model.transformer_.transform(bags.instances))
    np.testing.assert_allclose(flat, bags.instances)
    assert not hasattr(InstanceTransformer(Normalizer()), "inverse_transform")


def test_supervised_transformer_sees_the_bag_labels(bags, labels):
    model = InstanceTransformer(SelectKBest(f_classif, k=1)).fit(bags, labels)
    expected = SelectKBest(f_classif, k=1).fit(bags.instances, labels[bags.bag_index])
    np.testing.assert_array_equal(model.transformer_.scores_, expected.scores_)


def _holed(bags, kind=np.array):
    matrix = bags.instances.copy()
    matrix[4, 1] = np.nan
    return Bags(kind(matrix), bags.offsets)


IMPUTERS = [
    SimpleImputer(),
    make_pipeline(SimpleImputer(), PCA(2)),
    make_pipeline("passthrough", StandardScaler(), SimpleImputer()),
    ColumnTransformer([("fill", SimpleImputer(), [1]), ("scale", MinMaxScaler(), [0, 2])]),
    ColumnTransformer([("pca", PCA(1), [0, 2])], remainder=SimpleImputer()),
    ColumnTransformer([("pca", PCA(1), [0, 2])]),  # leaves the column with NaN out
    make_pipeline(ColumnTransformer([("fill", SimpleImputer(), [0, 1])]), PCA(1)),
    make_union(SimpleImputer(), make_pipeline(SimpleImputer(), PCA(1))),
    FunctionTransformer(np.nan_to_num),
]


@pytest.mark.parametrize("inner", IMPUTERS, ids=range(len(IMPUTERS)))
def test_nan_passes_to_an_imputer_inside(bags, inner):
    holed = _holed(bags)
    out = InstanceTransformer(inner).fit_transform(holed)
    expected = clone(inner).fit(holed.instances).transform(holed.instances)
    np.testing.assert_array_equal(out.instances, expected)
    assert np.isfinite(expected).all()
    matrix = InstanceTransformer(inner).fit(holed).transform(holed.instances)
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize(
    "inner",
    [
        PCA(1),
        make_pipeline(PCA(2), SimpleImputer()),
        make_pipeline(StandardScaler(), PCA(2)),
        make_union(SimpleImputer(), PCA(1)),
        ColumnTransformer([("pca", PCA(1), [0, 2])], remainder=PCA(1)),
    ],
    ids=["PCA", "Pipeline", "scaler", "FeatureUnion", "ColumnTransformer"],
)
def test_nan_that_no_step_accepts_is_refused_with_its_bag(bags, inner):
    with pytest.raises(ValueError, match=r"^Bag \d+ contains NaN \(instance row 4\)"):
        InstanceTransformer(inner).fit(_holed(bags))


def test_bag_weight_equals_repetition(bags):
    weights = np.array([1, 2, 0, 3] * 3)
    repeated = bags[np.repeat(np.arange(12), weights)]
    weighted = InstanceTransformer(StandardScaler()).fit(bags, sample_weight=weights)
    expected = InstanceTransformer(StandardScaler()).fit(repeated)
    np.testing.assert_allclose(weighted.transformer_.mean_, expected.transformer_.mean_)
    np.testing.assert_allclose(weighted.transformer_.var_, expected.transformer_.var_)


def test_routed_sample_weight(bags):
    weights = np.arange(1.0, 13.0)
    expected = InstanceTransformer(StandardScaler()).fit(bags, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        model = InstanceTransformer(StandardScaler().set_fit_request(sample_weight=True))
        pipe = make_pipeline(model, BagStatistics()).fit(bags, sample_weight=weights)
        np.testing.assert_array_equal(pipe[0].transformer_.mean_, expected.transformer_.mean_)
        other = InstanceTransformer(MinMaxScaler())
        with pytest.raises(TypeError, match="sample_weight"):
            other.fit(bags, sample_weight=weights)


def test_set_output_wraps_matrices_only(bags):
    pd = pytest.importorskip("pandas")
    model = InstanceTransformer().set_output(transform="pandas")
    assert isinstance(model.fit_transform(bags), Bags)
    assert isinstance(model.transform(bags), Bags)
    frame = pd.DataFrame(bags.instances, columns=["a", "b", "c"])
    frame.index += 7
    out = model.fit_transform(frame)
    assert isinstance(out, pd.DataFrame)
    assert out.columns.tolist() == ["a", "b", "c"]
    assert out.index.equals(frame.index)
    assert isinstance(model.transform(frame), pd.DataFrame)
    assert isinstance(clone(model).fit_transform(frame), pd.DataFrame)


NO_TRANSFORMER = "is not a transformer: pass an instance with fit and transform, such as Standard"


@pytest.mark.parametrize(
    ("inner", "given", "error", "sentence"),
    [
        (StandardScaler, {}, TypeError, f"<class .*> {NO_TRANSFORMER}"),
        ("StandardScaler", {}, TypeError, f"transformer='StandardScaler' {NO_TRANSFORMER}"),
        (MDS(), {}, TypeError, rf"transformer=MDS\(\) {NO_TRANSFORMER}"),
        (None, {"y": [0, 1]}, ValueError, r"y has 2 labels for 12 bags: pass one label per bag \("),
        (MinMaxScaler(), {"sample_weight": np.ones(12)}, TypeError, "unexpected keyword argument"),
    ],
)  # fmt: skip
def test_what_is_refused(bags, inner, given, error, sentence):
    with pytest.raises(error, match=sentence):
        InstanceTransformer(inner).fit(bags, **given)


@pytest.mark.parametrize("wrap", [make_pipeline, lambda inner: inner])
def test_columns_by_names_of_features(wrap):
    names = ["area", "red", "blue"]
    bags = Bags(np.arange(12.0).reshape(4, 3), [0, 3, 4], feature_names=names)
    parts = [
        ("scaled", StandardScaler(), ["blue", "area"]),
        ("kept", "passthrough", slice(1, 2)),
        ("binned", FunctionTransformer(np.negative, feature_names_out="one-to-one"), [1]),
    ]
    by_name = InstanceTransformer(wrap(ColumnTransformer(parts))).fit(bags)
    parts[0] = ("scaled", StandardScaler(), [2, 0])
    by_position = InstanceTransformer(wrap(ColumnTransformer(parts))).fit(bags)
    found = by_name.transform(bags)
    np.testing.assert_array_equal(found.instances, by_position.transform(bags).instances)
    assert found.feature_names.tolist() == [
        "scaled__blue",
        "scaled__area",
        "kept__red",
        "binned__red",
    ]
    unknown = InstanceTransformer(wrap(ColumnTransformer([("a", StandardScaler(), ["green"])])))
    with pytest.raises(IndexError, match=r"^The bags have no feature named 'green'\.$"):
        unknown.fit(bags)
