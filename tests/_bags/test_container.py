"""Shape, attributes and protocols of the container."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.utils.validation import _num_features, _num_samples

from milearn import Bags
from milearn.svm import MISVC
from tests._bags.kinds import KINDS, SIZES, dense, matrix_of_bags, refuses

_ADVICE = (
    "Bags cannot be turned into one array: apply a transformer to their instances, as in "
    "milearn.preprocessing.InstanceTransformer(StandardScaler()), take one row per bag by "
    "milearn.preprocessing.BagStatistics(), or use bags.instances, the matrix of all instances."
)


# -- what scikit-learn looks at ------------------------------------------------------------------


def test_shape_ndim_dtype_len(bags):
    assert bags.shape == (4, 3)
    assert all(type(number) is int for number in bags.shape)
    assert bags.ndim == 2
    assert bags.dtype == bags.instances.dtype
    assert len(bags) == 4
    assert bags.n_instances == 8
    assert bags.sizes.tolist() == list(SIZES)
    assert bags.bag_index.tolist() == [0, 0, 1, 2, 2, 2, 3, 3]
    assert bags.offsets.dtype == np.intp
    assert _num_samples(bags) == 4
    assert _num_features(bags) == 3
    assert np.shape(bags) == (4, 3)
    assert np.ndim(bags) == 2


def test_attributes_that_must_not_exist(bags):
    # NumPy, pandas and scikit-learn would take the container for what it is not.
    names = "fit iloc loc columns __array_namespace__ __dataframe__ __array_interface__"
    for name in [*names.split(), "__arrow_c_stream__"]:
        assert not hasattr(bags, name)


def test_nbytes():
    dense = KINDS["dense"]()
    assert dense.nbytes == dense.instances.nbytes + dense.offsets.nbytes
    csr = KINDS["sparse"]().instances
    expected = csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes + dense.offsets.nbytes
    assert KINDS["sparse"]().nbytes == expected
    assert KINDS["graphs"]().nbytes > dense.nbytes


def test_repr_tells_kind_and_graphs():
    assert repr(KINDS["dense"]()) == (
        "Bags(n_bags=4, n_instances=8, n_features=3, sizes=1..3, dtype=float64)"
    )
    assert repr(KINDS["sparse graphs"]()) == (
        "Bags(n_bags=4, n_instances=8, n_features=3, sizes=1..3, dtype=float64, sparse, "
        "bag_graph, instance_graph)"
    )
    assert "sizes=none" in repr(KINDS["dense"]()[:0])


# -- NumPy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "convert",
    [np.asarray, np.array, lambda bags: np.array(bags, dtype=float), lambda bags: np.array([bags])],
)
def test_never_an_array(bags, convert):
    # Of one size too: these are the bags that NumPy would turn into a 3-D array.
    for each in (bags, Bags.from_list([np.eye(2), np.eye(2)])):
        with pytest.raises(TypeError, match=f"^{re.escape(_ADVICE)}$"):
            convert(each)


@pytest.mark.parametrize(
    "beside",
    [
        np.hstack,
        lambda parts: np.hstack(tup=parts),
        lambda parts: np.hstack(tuple(parts)),
        lambda parts: np.concatenate(parts, axis=1),
        lambda parts: np.concatenate(parts, axis=-1),
        lambda parts: np.concatenate(parts, 1),
    ],
)
def test_side_by_side(bags, beside):
    joined = beside([bags, bags[:, [0]]])
    assert joined.shape == (4, 4)
    expected = np.hstack([dense(bags.instances), dense(bags.instances)[:, [0]]])
    np.testing.assert_array_equal(dense(joined.instances), expected)
    np.testing.assert_array_equal(joined.offsets, bags.offsets)
    assert sparse.issparse(joined.instances) == sparse.issparse(bags.instances)
    if bags.feature_names is not None:
        assert joined.feature_names.tolist() == ["a", "b", "c", "a"]
    if bags.instance_graph is not None:
        np.testing.assert_array_equal(joined.bag_graph.toarray(), bags.bag_graph.toarray())
        assert joined.instance_graph is not None


def test_neighbours_of_other_kinds():
    bags = KINDS["dense"]()
    joined = np.hstack([bags, KINDS["sparse"]()])
    assert sparse.issparse(joined.instances)
    np.testing.assert_array_equal(joined.instances.toarray(), np.hstack([matrix_of_bags()] * 2))
    assert np.hstack([KINDS["named"](), bags]).feature_names is None
    with pytest.raises(TypeError, match=r"^Bags cannot be joined with ndarray: let every"):
        np.hstack([bags, np.ones((4, 1))])
    with pytest.raises(ValueError, match=r"^Bags of different sizes cannot be joined feature"):
        np.hstack([bags, bags[[1, 0, 2, 3]]])


def test_other_numpy_functions_give_advice():
    bags = KINDS["dense"]()
    for function in (np.mean, np.unique, np.sum):
        refuses(lambda function=function: function(bags), _ADVICE, TypeError)
    for join in (np.concatenate, np.vstack):
        with pytest.raises(TypeError, match="does not put bags one after the other: use Bags"):
            join([bags, bags])


def test_no_arithmetic(bags):
    assert Bags.__array_ufunc__ is None
    with pytest.raises(TypeError):
        bags + 1
    with pytest.raises(TypeError):
        np.ones(3) * bags
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.exp(bags)


def test_the_index_of_a_table_of_bags_names_them():
    """Without names, a Series of labels in another order was taken as it is."""
    table = pd.DataFrame({"age": [40.0, 50.0, 60.0]}, index=["c", "a", "b"])
    X = Bags.from_list([np.eye(2) + at for at in range(3)], bag_data=table)
    assert X.names.tolist() == ["c", "a", "b"]
    with pytest.raises(ValueError, match="index of y"):
        MISVC().fit(X, pd.Series([0, 1, 1], ["a", "b", "c"]))
    assert Bags.from_list([np.eye(2)] * 3, bag_data=table.reset_index(drop=True)).names is None
