"""The container, point by point of its contract."""

from __future__ import annotations

import copy
import pickle
import re

import joblib
import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_features, _num_samples

from milearn import Bags
from milearn._bags.container import _ADVICE

SIZES = (2, 1, 3, 2)


def _matrix(dtype=np.float64):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(sum(SIZES), 3))
    matrix[rng.random(matrix.shape) < 0.3] = 0.0
    return matrix.astype(dtype)


def _offsets():
    return np.concatenate([[0], np.cumsum(SIZES)])


def _graphs():
    n_bags, n_instances = len(SIZES), sum(SIZES)
    return {
        "bag_graph": np.arange(n_bags**2, dtype=float).reshape(n_bags, n_bags),
        "instance_graph": np.arange(n_instances**2, dtype=float).reshape(n_instances, -1),
    }


KINDS = {
    "dense": lambda: Bags(_matrix(), _offsets()),
    "float32": lambda: Bags(_matrix(np.float32), _offsets()),
    "sparse": lambda: Bags(sparse.csr_array(_matrix()), _offsets()),
    "graphs": lambda: Bags(_matrix(), _offsets(), **_graphs()),
    "named": lambda: Bags(_matrix(), _offsets(), feature_names=["a", "b", "c"]),
    "sparse graphs": lambda: Bags(sparse.csr_array(_matrix()), _offsets(), **_graphs()),
}


@pytest.fixture(params=KINDS)
def bags(request):
    return KINDS[request.param]()


def _dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def _blocks(bags):
    """The bags as a list of dense blocks, by plain slices of the matrix."""
    matrix = _dense(bags.instances)
    pairs = zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
    return [matrix[start:stop] for start, stop in pairs]


def _assert_same(left, right):
    assert type(left) is type(right) is Bags
    assert sparse.issparse(left.instances) == sparse.issparse(right.instances)
    assert left.dtype == right.dtype
    np.testing.assert_array_equal(_dense(left.instances), _dense(right.instances))
    np.testing.assert_array_equal(left.offsets, right.offsets)
    for name in ("bag_graph", "instance_graph"):
        mine, other = getattr(left, name), getattr(right, name)
        assert (mine is None) == (other is None), name
        if mine is not None:
            np.testing.assert_array_equal(mine.toarray(), other.toarray())
    names = left.feature_names, right.feature_names
    assert (names[0] is None) == (names[1] is None)
    assert names[0] is None or names[0].tolist() == names[1].tolist()


def _assert_selected(picked, bags, positions):
    """``picked`` are the bags at ``positions``, both graphs cut on both axes."""
    blocks = [_blocks(bags)[position] for position in positions]
    assert len(picked) == len(blocks)
    for mine, block in zip(_blocks(picked), blocks, strict=True):
        np.testing.assert_array_equal(mine, block)
    assert picked.dtype == bags.dtype
    assert sparse.issparse(picked.instances) == sparse.issparse(bags.instances)
    if bags.bag_graph is not None:
        expected = bags.bag_graph.toarray()[np.ix_(positions, positions)]
        np.testing.assert_array_equal(picked.bag_graph.toarray(), expected)
    if bags.instance_graph is not None:
        rows = [row for position in positions for row in _rows(bags, position)]
        expected = bags.instance_graph.toarray()[np.ix_(rows, rows)]
        np.testing.assert_array_equal(picked.instance_graph.toarray(), expected)


def _rows(bags, position):
    return range(bags.offsets[position], bags.offsets[position + 1])


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


@pytest.mark.parametrize(
    "name",
    [
        "fit",
        "iloc",
        "loc",
        "columns",
        "__array_namespace__",
        "__dataframe__",
        "__arrow_c_stream__",
        "__array_interface__",
    ],
)
def test_attributes_that_must_not_exist(bags, name):
    assert not hasattr(bags, name)


def test_iteration_yields_blocks(bags):
    for mine, block in zip(bags, _blocks(bags), strict=True):
        np.testing.assert_array_equal(_dense(mine), block)


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


# -- selection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 3, -1, -4, np.int32(2), np.array(1)])
def test_integer_gives_a_block(bags, position):
    block = bags[position]
    assert not isinstance(block, Bags)
    assert block.ndim == 2
    np.testing.assert_array_equal(_dense(block), _blocks(bags)[int(position)])


@pytest.mark.parametrize("position", [4, -5])
def test_integer_out_of_range(bags, position):
    with pytest.raises(IndexError, match=f"^Bag {position} is out of range for 4 bags.$"):
        bags[position]


@pytest.mark.parametrize(
    "key",
    [
        slice(1, 3),
        slice(None, 2),
        slice(2, None),
        slice(-2, None),
        slice(0, 0),
        slice(3, 1),
        slice(4, 9),
        slice(None, None, 2),
        slice(None, None, -1),
        slice(3, 0, -2),
    ],
    ids=str,
)
def test_slice(bags, key):
    _assert_selected(bags[key], bags, list(range(4))[key])


def test_slice_is_a_view():
    bags = KINDS["graphs"]()
    assert np.shares_memory(bags[1:3].instances, bags.instances)
    assert np.shares_memory(bags[1], bags.instances)
    assert bags[:] is bags
    assert not np.shares_memory(bags[::2].instances, bags.instances)


def test_long_slice_of_csr_is_a_view():
    bags = Bags.singletons(sparse.csr_array(np.arange(1.0, 31.0).reshape(10, 3)))
    assert np.shares_memory(bags[1:9].instances.data, bags.instances.data)
    _assert_selected(bags[1:9], bags, list(range(1, 9)))


@pytest.mark.parametrize(
    "key",
    [
        [2, 0],
        [0, 1, 2, 3],
        [1, 1, 3],
        [-1, -4, 2],
        [],
        np.array([3, 1], dtype=np.int8),
        np.array([3, 1], dtype=np.uint64),
        (np.array([2, 0]), Ellipsis),
        ([2, 0], slice(None)),
        range(1, 3),
    ],
    ids=str,
)
def test_positions(bags, key):
    positions = np.asarray(key[0] if isinstance(key, tuple) else key, dtype=int) % 4
    _assert_selected(bags[key], bags, positions.tolist())


@pytest.mark.parametrize("kind", [list, np.array])
def test_mask(bags, kind):
    mask = kind([True, False, False, True])
    _assert_selected(bags[mask], bags, [0, 3])
    _assert_selected(bags[mask, ...], bags, [0, 3])
    _assert_selected(bags[kind([False] * 4)], bags, [])


def test_whole_by_ellipsis(bags):
    assert bags[...] is bags
    assert bags[..., :] is bags


def test_selection_composes_at_random(bags):
    rng = np.random.default_rng(3)
    for _ in range(20):
        first = rng.integers(-4, 4, size=5)
        second = rng.permutation(5)[:3]
        picked = bags[first][second]
        _assert_selected(picked, bags, (first % 4)[second].tolist())


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ([0, 4], "Bag 4 is out of range for 4 bags."),
        ([0, -5], "Bag -5 is out of range for 4 bags."),
        ([True, False], "A mask of 2 entries cannot select from 4 bags."),
        ([0.0, 1.0], "Bags are selected by integers or a mask, not by float64."),
        (["a"], "Bags are selected by integers or a mask, not by <U1."),
        ([[0]], "Bags are selected by an integer, a slice or a 1-D index."),
        (True, "Bags are selected by an integer, a slice or a 1-D index."),
        (None, "Bags are selected by an integer, a slice or a 1-D index."),
        (1.0, "Bags are selected by an integer, a slice or a 1-D index."),
        ((0, 1, 2), "Bags take one index for bags and one for features."),
    ],
    ids=str,
)
def test_wrong_index(bags, key, message):
    with pytest.raises(IndexError, match=f"^{re.escape(message)}$"):
        bags[key]


@pytest.mark.parametrize(
    "columns",
    [
        [0, 2],
        [2, 0, 0],
        np.array([True, False, True]),
        [True, False, True],
        slice(1, None),
        slice(None, None, -1),
        [-1],
        [],
    ],
    ids=str,
)
def test_columns(bags, columns):
    picked = bags[:, columns]
    index = columns if isinstance(columns, slice) or len(columns) else np.empty(0, int)
    expected = _dense(bags.instances)[:, index]
    np.testing.assert_array_equal(_dense(picked.instances), expected)
    assert picked.shape == (4, expected.shape[1])
    np.testing.assert_array_equal(picked.offsets, bags.offsets)
    _assert_canonical(picked)
    if bags.feature_names is not None:
        assert picked.feature_names.tolist() == bags.feature_names[index].tolist()
    if bags.bag_graph is not None:
        np.testing.assert_array_equal(picked.bag_graph.toarray(), bags.bag_graph.toarray())
        assert picked.instance_graph is not None


def test_one_column_stays_bags(bags):
    assert bags[:, 1].shape == (4, 1)


def test_bags_and_columns_together(bags):
    _assert_same(bags[[2, 0], [1]], bags[[2, 0]][:, [1]])
    _assert_same(bags[1:3, :2], bags[1:3][:, :2])
    np.testing.assert_array_equal(_dense(bags[2, [0, 1]]), _blocks(bags)[2][:, [0, 1]])


def test_columns_by_name():
    bags = KINDS["named"]()
    picked = bags[:, ["c", "a"]]
    assert picked.feature_names.tolist() == ["c", "a"]
    np.testing.assert_array_equal(picked.instances, bags.instances[:, [2, 0]])
    assert bags[:, "b"].feature_names.tolist() == ["b"]
    with pytest.raises(IndexError, match=r"^The bags have no feature named 'z'\.$"):
        bags[:, ["z"]]
    with pytest.raises(IndexError, match=r"^The bags have no feature named 'a'\.$"):
        KINDS["dense"]()[:, ["a"]]


@pytest.mark.parametrize("columns", [5, [3], [True, False]])
def test_wrong_columns(bags, columns):
    with pytest.raises(IndexError):
        bags[:, columns]


@pytest.mark.parametrize("key", [[2, 0], np.array([True, False, True, False]), slice(1, 3)])
def test_as_scikit_learn_indexes(bags, key):
    _assert_same(_safe_indexing(bags, key), bags[key])


def test_columns_as_scikit_learn_indexes(bags):
    _assert_same(_safe_indexing(bags, [0, 2], axis=1), bags[:, [0, 2]])


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


def test_advice_of_conversion():
    assert _ADVICE == (
        "Bags cannot be turned into one array because bags differ in size: use bags.instances "
        "for the matrix of all instances, or milearn.preprocessing.BagStatistics() for one row a "
        "bag."
    )


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
    expected = np.hstack([_dense(bags.instances), _dense(bags.instances)[:, [0]]])
    np.testing.assert_array_equal(_dense(joined.instances), expected)
    np.testing.assert_array_equal(joined.offsets, bags.offsets)
    assert sparse.issparse(joined.instances) == sparse.issparse(bags.instances)
    if bags.feature_names is not None:
        assert joined.feature_names.tolist() == ["a", "b", "c", "a"]
    if bags.instance_graph is not None:
        np.testing.assert_array_equal(joined.bag_graph.toarray(), bags.bag_graph.toarray())
        assert joined.instance_graph is not None


def test_dense_beside_sparse_is_sparse():
    joined = np.hstack([KINDS["dense"](), KINDS["sparse"]()])
    assert sparse.issparse(joined.instances)
    np.testing.assert_array_equal(joined.instances.toarray(), np.hstack([_matrix(), _matrix()]))


def test_names_are_lost_beside_nameless_bags():
    assert np.hstack([KINDS["named"](), KINDS["dense"]()]).feature_names is None


def test_wrong_neighbours():
    bags = KINDS["dense"]()
    with pytest.raises(TypeError, match=r"^Bags cannot stand beside ndarray: let every"):
        np.hstack([bags, np.ones((4, 1))])
    with pytest.raises(ValueError, match=r"^Bags of different sizes cannot stand side by side\.$"):
        np.hstack([bags, bags[[1, 0, 2, 3]]])


@pytest.mark.parametrize("function", [np.concatenate, np.vstack])
def test_one_after_the_other_is_no_numpy_function(bags, function):
    message = (
        f"numpy.{function.__name__} does not put bags one after the other: use Bags.concatenate."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        function([bags, bags])


@pytest.mark.parametrize("function", [np.mean, np.unique, np.sort, np.sum])
def test_other_numpy_functions_give_advice(bags, function):
    message = f"numpy.{function.__name__} does not take Bags. {_ADVICE}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        function(bags)


def test_no_arithmetic(bags):
    assert Bags.__array_ufunc__ is None
    with pytest.raises(TypeError):
        bags + 1
    with pytest.raises(TypeError):
        np.ones(3) * bags
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.exp(bags)


# -- canonical form, pickle, hash ----------------------------------------------------------------


def _assert_canonical(bags):
    matrix = bags.instances
    assert matrix.dtype in (np.float32, np.float64)
    if sparse.issparse(matrix):
        assert type(matrix) is sparse.csr_array
        assert matrix.has_canonical_format
        assert matrix.indptr.dtype == matrix.indices.dtype == np.int32
    else:
        assert type(matrix) is np.ndarray
        assert matrix.flags.c_contiguous
    assert bags.offsets.dtype == np.intp
    for graph in (bags.bag_graph, bags.instance_graph):
        assert graph is None or type(graph) is sparse.csr_array


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float64),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (bool, np.float64),
        (object, np.float64),
        (">f8", np.float64),
    ],
)
def test_dtype(given, kept):
    matrix = np.array([[0, 1], [1, 0], [1, 1]]).astype(given)
    bags = Bags(matrix, [0, 2, 3])
    assert bags.dtype == kept
    np.testing.assert_array_equal(bags.instances, [[0, 1], [1, 0], [1, 1]])
    _assert_canonical(bags)
    if given in (object, np.float16, ">f8"):  # SciPy has no such matrices
        return
    _assert_canonical(Bags(sparse.csr_array(matrix.astype(kept)).astype(given), [0, 2, 3]))


@pytest.mark.parametrize("order", ["C", "F"])
def test_layout(order):
    _assert_canonical(Bags(np.asarray(_matrix(), order=order), _offsets()))
    _assert_canonical(Bags(np.repeat(_matrix(), 2, axis=1)[:, ::2], _offsets()))


@pytest.mark.parametrize(
    "convert",
    [
        sparse.csr_array,
        sparse.csr_matrix,
        sparse.coo_array,
        sparse.coo_matrix,
        sparse.csc_array,
        sparse.lil_matrix,
        sparse.bsr_array,
    ],
)
def test_sparse_formats(convert):
    bags = Bags(convert(_matrix()), _offsets())
    _assert_same(bags, KINDS["sparse"]())
    _assert_canonical(bags)


def test_unsorted_and_repeated_entries_are_put_in_order():
    unsorted = sparse.csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2)
    )
    bags = Bags(unsorted, [0, 1])
    _assert_canonical(bags)
    np.testing.assert_array_equal(bags.instances.toarray(), [[2.0, 4.0]])
    # The caller's matrix is as it was.
    assert unsorted.nnz == 3


def test_long_indices_of_csr_become_short():
    csr = sparse.csr_array(_matrix())
    long = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    bags = Bags(sparse.csr_array((csr.data, *long), shape=csr.shape), _offsets())
    assert joblib.hash(bags) == joblib.hash(KINDS["sparse"]())


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16])
def test_hash_does_not_depend_on_the_type_of_offsets(dtype):
    bags = Bags(_matrix(), _offsets().astype(dtype))
    assert joblib.hash(bags) == joblib.hash(KINDS["dense"]())


def test_hash_does_not_depend_on_layout():
    assert joblib.hash(Bags(np.asfortranarray(_matrix()), _offsets())) == joblib.hash(
        KINDS["dense"]()
    )


def test_hash_is_that_of_content(bags):
    assert joblib.hash(bags) == joblib.hash(copy.deepcopy(bags))
    assert joblib.hash(bags) != joblib.hash(bags[:3])
    changed = bags.with_instances(bags.instances * 2, feature_names=bags.feature_names)
    assert joblib.hash(bags) != joblib.hash(changed)


def test_hash_after_use(bags):
    before = joblib.hash(bags)
    _ = bags.bag_index, bags[[1, 0]], bags[1:], list(bags), bags.sizes, repr(bags), bags.nbytes
    if sparse.issparse(bags.instances):
        # Flags that SciPy sets when it is asked.
        assert bags.instances.has_sorted_indices
        assert bags.instances.has_canonical_format
        bags.instances.max()
    assert joblib.hash(bags) == before


def test_hash_of_a_slice_is_that_of_a_copy(bags):
    assert joblib.hash(bags[1:3]) == joblib.hash(bags[[1, 2]])
    assert joblib.hash(bags[1:3]) == joblib.hash(copy.deepcopy(bags[1:3]))


@pytest.mark.parametrize("names", [["a", "b", "c"], ("a", "b", "c"), np.array(["a", "b", "c"])])
def test_hash_does_not_depend_on_the_kind_of_names(names):
    bags = Bags(_matrix(), _offsets(), feature_names=names)
    assert joblib.hash(bags) == joblib.hash(KINDS["named"]())
    assert all(type(name) is str for name in bags.feature_names)


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickle(bags, protocol):
    _ = bags.bag_index
    state = bags.__getstate__()
    assert "_bag_index" not in state
    assert not any(sparse.issparse(part) for part in state.values())
    again = pickle.loads(pickle.dumps(bags, protocol=protocol))
    _assert_same(again, bags)
    _assert_canonical(again)
    np.testing.assert_array_equal(again.bag_index, bags.bag_index)
    assert joblib.hash(again) == joblib.hash(bags)


def test_copies(bags):
    _assert_same(copy.copy(bags), bags)
    _assert_same(copy.deepcopy(bags), bags)


def test_clone_returns_the_bags_themselves(bags):
    assert clone(bags) is bags


def test_memory_map_is_read_only_and_works(bags, tmp_path):
    joblib.dump(bags, tmp_path / "bags")
    mapped = joblib.load(tmp_path / "bags", mmap_mode="r")
    values = mapped.instances.data if sparse.issparse(mapped.instances) else mapped.instances
    assert not values.flags.writeable
    assert joblib.hash(mapped) == joblib.hash(bags)
    _assert_same(mapped, bags)
    _assert_same(mapped[[2, 0]], bags[[2, 0]])
    _assert_same(mapped[1:3], bags[1:3])
    _assert_same(mapped[:, [0]], bags[:, [0]])
    _assert_same(mapped[[True, False, True, False]], bags[[0, 2]])
    _assert_same(np.hstack([mapped, mapped]), np.hstack([bags, bags]))
    _assert_same(Bags.concatenate([mapped, mapped]), Bags.concatenate([bags, bags]))
    _assert_same(pickle.loads(pickle.dumps(mapped)), bags)
    again = mapped.with_instances(mapped.instances * 1, feature_names=mapped.feature_names)
    _assert_same(again, bags)


def _in_worker(bags):
    values = bags.instances.data if sparse.issparse(bags.instances) else bags.instances
    base = values
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    return base is not None, values.flags.writeable, joblib.hash(bags), bags[[1, 0]].sizes.tolist()


def test_workers_get_read_only_memory_maps(bags):
    results = Parallel(n_jobs=2, max_nbytes=1)(delayed(_in_worker)(bags) for _ in range(2))
    assert results == [(True, False, joblib.hash(bags), [1, 2])] * 2


def test_mapped_bags_reach_workers_by_their_file(bags, tmp_path):
    joblib.dump(bags, tmp_path / "bags")
    mapped = joblib.load(tmp_path / "bags", mmap_mode="r")
    results = Parallel(n_jobs=2, max_nbytes=None)(delayed(_in_worker)(mapped) for _ in range(2))
    assert [result[2] for result in results] == [joblib.hash(bags)] * 2


def test_input_is_left_as_it_is():
    matrix, offsets = _matrix(), _offsets()
    graphs = _graphs()
    before = joblib.hash([matrix, offsets, graphs])
    bags = Bags(matrix, offsets, **graphs)
    _ = bags[[3, 0]], bags[1:], bags[:, [0]], Bags.concatenate([bags, bags])
    assert joblib.hash([matrix, offsets, graphs]) == before


def test_no_copy_of_what_fits():
    matrix = _matrix()
    assert np.shares_memory(Bags(matrix, _offsets()).instances, matrix)


# -- refusals ------------------------------------------------------------------------------------


def _refuses(call, message, kind=ValueError):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 2, 2, 8], "Bag 1 is empty: every bag needs at least one instance; remove it."),
        ([0, 8, 8], "Bag 1 is empty: every bag needs at least one instance; remove it."),
        ([0, 0, 8], "Bag 0 is empty: every bag needs at least one instance; remove it."),
        ([0, 5, 3, 8], "offsets decrease at bag 1 (5 to 3): they must increase."),
        ([0, 9, 8], "offsets decrease at bag 1 (9 to 8): they must increase."),
        (
            [0, 2, 7],
            "offsets run from 0 to 7 but there are 8 instances: they must run from 0 to 8.",
        ),
        (
            [2, 8],
            "offsets run from 2 to 8 but there are 8 instances: they must run from 0 to 8.",
        ),
        (
            [-1, 8],
            "offsets run from -1 to 8 but there are 8 instances: they must run from 0 to 8.",
        ),
        ([0.0, 8.0], None),
        ([], None),
        ([[0, 8]], None),
        (["0", "8"], None),
        ([False, True], None),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_wrong_offsets(offsets, message, kind):
    default = (
        "offsets must be a 1-D array of n_bags + 1 integers: the first row of each bag, and the "
        "number of instances."
    )
    _refuses(lambda: Bags(kind(_matrix()), offsets), message or default)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_graph_of_wrong_shape(kind):
    graph = kind(np.ones((3, 4)))
    _refuses(
        lambda: Bags(_matrix(), _offsets(), bag_graph=graph),
        "bag_graph has shape (3, 4) but there are 4 bags: it must be (4, 4).",
    )
    _refuses(
        lambda: Bags(_matrix(), _offsets(), instance_graph=graph),
        "instance_graph has shape (3, 4) but there are 8 instances: it must be (8, 8).",
    )


@pytest.mark.parametrize(
    ("matrix", "kind", "message"),
    [
        (
            [1.0, 2.0],
            ValueError,
            "instances has 1 dimension(s): pass a matrix with one row an instance.",
        ),
        (
            np.ones((1, 2, 2)),
            ValueError,
            "instances has 3 dimension(s): pass a matrix with one row an instance.",
        ),
        ("text", TypeError, "instances is a string: pass a 2-D array of numbers."),
        (
            [["1", "2"]],
            ValueError,
            "instances holds <U1 values: encode them as numbers first.",
        ),
        (
            np.array([["a", 1]], dtype=object),
            ValueError,
            "instances holds a value that is no number (could not convert string to float: 'a'): "
            "encode it first.",
        ),
        (
            np.array([["2020-01-01"]], dtype="datetime64[D]"),
            ValueError,
            "instances holds datetime64[D] values: encode them as numbers first.",
        ),
        ([[1j]], ValueError, "Complex data not supported: instances must be real numbers."),
        (
            sparse.csr_array([[1j]]),
            ValueError,
            "Complex data not supported: instances must be real numbers.",
        ),
    ],
    ids=str,
)
def test_wrong_instances(matrix, kind, message):
    _refuses(lambda: Bags(matrix, [0, 1]), message, kind)


@pytest.mark.parametrize("names", [[0, 1, 2], "abc", [("a", "b"), ("c", "d"), ("e", "f")]])
def test_names_must_be_strings(names):
    _refuses(
        lambda: Bags(_matrix(), _offsets(), feature_names=names),
        "feature_names must be a sequence of strings.",
        TypeError,
    )


def test_wrong_number_of_names():
    _refuses(
        lambda: Bags(_matrix(), _offsets(), feature_names=["a"]),
        "feature_names has 1 names for 3 features: give one name a feature.",
    )


# -- from_list -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "convert",
    [
        lambda blocks: blocks,
        tuple,
        iter,
        lambda blocks: [block.tolist() for block in blocks],
        lambda blocks: [list(block) for block in blocks],
        lambda blocks: [np.asfortranarray(block) for block in blocks],
    ],
)
def test_from_list(convert):
    blocks = [np.array(block) for block in _blocks(KINDS["dense"]())]
    _assert_same(Bags.from_list(convert(blocks)), KINDS["dense"]())


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_from_list_of_sparse_blocks(kind):
    blocks = [kind(block) for block in _blocks(KINDS["sparse"]())]
    _assert_same(Bags.from_list(blocks), KINDS["sparse"]())
    mixed = [blocks[0].toarray(), *blocks[1:]]
    _assert_same(Bags.from_list(mixed), KINDS["sparse"]())


def test_from_list_keeps_float32():
    blocks = _blocks(KINDS["float32"]())
    assert Bags.from_list(blocks).dtype == np.float32
    assert Bags.from_list([blocks[0], blocks[1].astype(float)]).dtype == np.float64


def test_from_list_takes_graphs_and_names():
    bags = KINDS["graphs"]()
    again = Bags.from_list(_blocks(bags), **_graphs())
    _assert_same(again, bags)
    _assert_same(Bags.from_list(bags, feature_names=["a", "b", "c"]), KINDS["named"]())


def test_equal_sized_blocks_stay_bags():
    bags = Bags.from_list([np.zeros((2, 3)), np.ones((2, 3))])
    assert bags.shape == (2, 3)
    assert bags.n_instances == 4


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_from_list_of_frames(library):
    module = pytest.importorskip(library)
    frames = [
        module.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}),
        module.DataFrame({"a": [5.0], "b": [6.0]}),
    ]
    bags = Bags.from_list(frames)
    assert bags.feature_names.tolist() == ["a", "b"]
    np.testing.assert_array_equal(bags.instances, [[1, 3], [2, 4], [5, 6]])
    assert Bags.from_list(frames, feature_names=["u", "v"]).feature_names.tolist() == ["u", "v"]
    other = module.DataFrame({"b": [5.0], "a": [6.0]})
    _refuses(
        lambda: Bags.from_list([frames[0], other]),
        "Bag 1 has other columns than bag 0: give all bags the same columns in the same order.",
    )


@pytest.mark.parametrize(
    ("blocks", "kind", "message"),
    [
        (
            [np.ones((2, 3)), np.empty((0, 3))],
            ValueError,
            "Bag 1 is empty: every bag needs at least one instance; remove it.",
        ),
        (
            [[], [[1.0]]],
            ValueError,
            "Bag 0 is empty: every bag needs at least one instance; remove it.",
        ),
        (
            [np.ones((1, 2)), sparse.csr_array((0, 2))],
            ValueError,
            "Bag 1 is empty: every bag needs at least one instance; remove it.",
        ),
        (
            [np.ones((2, 3)), np.ones((1, 3)), np.ones((2, 4))],
            ValueError,
            "Bag 2 has 4 features but bag 0 has 3: every bag must have the same features.",
        ),
        (
            [np.ones((2, 3)), np.ones(3)],
            ValueError,
            "Bag 1 has 1 dimension(s): pass a block with one row an instance.",
        ),
        (
            [[[1.0, 2.0], [3.0]]],
            ValueError,
            "Bag 0 has rows of different lengths: every instance needs the same features.",
        ),
        (
            [np.ones((2, 3)), "text"],
            TypeError,
            "Bag 1 is a string: pass 2-D blocks of numbers.",
        ),
        (
            [np.ones((1, 2)), [["a", "b"]]],
            ValueError,
            "Bag 1 holds <U1 values: encode them as numbers first.",
        ),
        (
            [Bags.singletons(np.eye(2))],
            TypeError,
            "Bag 0 is itself Bags: join containers by Bags.concatenate.",
        ),
        (
            [],
            ValueError,
            "No bags were given: pass at least one 2-D block, or Bags(np.empty((0, n_features)), "
            "[0]) for a container without bags.",
        ),
    ],
)
def test_from_list_refuses(blocks, kind, message):
    _refuses(lambda: Bags.from_list(blocks), message, kind)


# -- from_ids ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        ["b", "a", "b", "c", "a", "b", "c", "c"],
        [2, 1, 2, 3, 1, 2, 3, 3],
        [("x", 1), ("x", 2), ("x", 1), (), ("x", 2), ("x", 1), (), ()],
        [b"b", b"a", b"b", b"c", b"a", b"b", b"c", b"c"],
        [frozenset({1}), 7, frozenset({1}), "c", 7, frozenset({1}), "c", "c"],
        np.array(["b", "a", "b", "c", "a", "b", "c", "c"]),
        pd.Series([1.5, 0.5, 1.5, 9.0, 0.5, 1.5, 9.0, 9.0], index=range(10, 18)),
        [range(2), range(1, 3), range(2), range(3), range(1, 3), range(2), range(3), range(3)],
    ],
    ids=lambda ids: type(ids).__name__ + " " + str(next(iter(ids))),
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_from_ids(ids, kind):
    matrix = _matrix()
    bags, names = Bags.from_ids(kind(matrix), ids, return_ids=True)
    listed = list(ids)
    expected = list(dict.fromkeys(listed))
    assert names.shape == (3,)
    assert names.tolist() == expected
    for block, name in zip(_blocks(bags), expected, strict=True):
        rows = [row for row, key in enumerate(listed) if key == name]
        np.testing.assert_array_equal(block, matrix[rows])
    _assert_same(Bags.from_ids(kind(matrix), ids), bags)


def test_from_ids_at_random():
    rng = np.random.default_rng(5)
    for _ in range(20):
        ids = rng.integers(0, 6, size=rng.integers(1, 40)).tolist()
        matrix = rng.normal(size=(len(ids), 2))
        bags, names = Bags.from_ids(matrix, ids, return_ids=True)
        for block, name in zip(_blocks(bags), names, strict=True):
            np.testing.assert_array_equal(block, matrix[np.array(ids) == name])


def test_from_ids_takes_names():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert Bags.from_ids(frame, [0, 0]).feature_names.tolist() == ["a", "b"]
    assert Bags.from_ids(frame, [0, 0], feature_names=["u", "v"]).feature_names[0] == "u"


def test_from_ids_refuses():
    _refuses(
        lambda: Bags.from_ids(_matrix(), [0, 1]),
        "bag_ids has 2 entries for 8 instances: give one bag identifier an instance.",
    )
    for missing in (None, np.nan):
        _refuses(
            lambda missing=missing: Bags.from_ids(np.eye(3), [1.0, missing, 1.0]),
            f"bag_ids is missing ({missing}) at row 1: give every instance the identifier of its "
            "bag.",
        )


# -- from_frame ----------------------------------------------------------------------------------


@pytest.fixture(params=["pandas", "polars"])
def frames(request):
    return pytest.importorskip(request.param)


def _table():
    return {
        "molecule": ["m2", "m1", "m2", "m1"],
        "x": [1.0, 2.0, 3.0, 4.0],
        "label": ["musk", "non-musk", "musk", "non-musk"],
        "n": [5, 6, 7, 8],
    }


def test_from_frame(frames):
    bags, y, ids = Bags.from_frame(
        frames.DataFrame(_table()), bag="molecule", label="label", return_ids=True
    )
    np.testing.assert_array_equal(bags.instances, [[1, 5], [3, 7], [2, 6], [4, 8]])
    assert bags.sizes.tolist() == [2, 2]
    assert bags.feature_names.tolist() == ["x", "n"]
    assert list(y) == ["musk", "non-musk"]
    assert ids.tolist() == ["m2", "m1"]


def test_from_frame_returns_what_is_asked(frames):
    df = frames.DataFrame(_table())
    assert type(Bags.from_frame(df, bag="molecule", features=["x", "n"])) is Bags
    bags, ids = Bags.from_frame(df, bag="molecule", features=("n",), return_ids=True)
    assert bags.shape == (2, 1)
    assert ids.tolist() == ["m2", "m1"]
    bags, y = Bags.from_frame(df, bag="molecule", label="label", features=np.array(["n"]))
    assert bags.feature_names.tolist() == ["n"]
    assert len(y) == 2


def test_from_frame_keeps_missing_values_and_labels(frames):
    table = {"bag": [1, 2, 1], "x": [1.0, None, 3.0], "label": [1.0, None, 1.0], "n": [1, None, 3]}
    bags, y = Bags.from_frame(frames.DataFrame(table), bag="bag", label="label")
    np.testing.assert_array_equal(bags.instances, [[1, 1], [3, 3], [np.nan, np.nan]])
    np.testing.assert_array_equal(y, [1.0, np.nan])


def test_from_frame_keeps_float32(frames):
    df = frames.DataFrame({"bag": [1, 1], "x": np.array([1, 2], dtype=np.float32)})
    assert Bags.from_frame(df, bag="bag").dtype == np.float32


def test_from_frame_of_pandas_missing_values():
    df = pd.DataFrame({"bag": [1, 1], "x": pd.array([1, None], dtype="Int64")})
    np.testing.assert_array_equal(Bags.from_frame(df, bag="bag").instances, [[1], [np.nan]])


def test_from_frame_keeps_dates_of_bags():
    days = pd.to_datetime(["2020-01-02", "2020-01-01", "2020-01-02"])
    df = pd.DataFrame({"day": days, "x": [1.0, 2.0, 3.0]})
    _, ids = Bags.from_frame(df, bag="day", return_ids=True)
    assert list(pd.to_datetime(ids)) == [days[0], days[1]]


def test_from_frame_with_columns_that_are_no_strings():
    df = pd.DataFrame([[0, 1.0, 2.0], [0, 3.0, 4.0]])
    bags = Bags.from_frame(df, bag=0)
    assert bags.feature_names is None
    np.testing.assert_array_equal(bags.instances, [[1, 2], [3, 4]])


def test_from_frame_refuses(frames):
    df = frames.DataFrame(_table())
    columns = "its columns are ['molecule', 'x', 'label', 'n']."
    _refuses(lambda: Bags.from_frame(df, bag="z"), f"The frame has no column 'z': {columns}")
    _refuses(
        lambda: Bags.from_frame(df, bag="molecule", label="z"),
        f"The frame has no column 'z': {columns}",
    )
    _refuses(
        lambda: Bags.from_frame(df, bag="molecule", features=["z"]),
        f"The frame has no column 'z': {columns}",
    )
    _refuses(
        lambda: Bags.from_frame(df, bag="molecule", features=[]),
        "The frame has no feature columns: bags need at least one.",
    )
    with pytest.raises(ValueError, match=r"^Column 'label' holds .* encode"):
        Bags.from_frame(df, bag="molecule")
    _refuses(
        lambda: Bags.from_frame(df, bag="label", label="n", features=["x"]),
        "Bag 'musk' has two labels (5 and 7): a bag has one label.",
    )
    missing = frames.DataFrame({"bag": ["a", None], "x": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"^bag_ids is missing \((None|nan)\) at row 1: give"):
        Bags.from_frame(missing, bag="bag")


def test_from_frame_refuses_repeated_columns_and_other_things():
    df = pd.DataFrame([[1, 2.0, 3.0]], columns=["bag", "x", "x"])
    _refuses(
        lambda: Bags.from_frame(df, bag="bag"),
        "The frame has 2 columns 'x': its columns are ['bag', 'x', 'x'].",
    )
    _refuses(
        lambda: Bags.from_frame(np.eye(2), bag=0),
        "A data frame is needed, not ndarray: use Bags.from_ids.",
        TypeError,
    )


# -- singletons, concatenate, with_instances -----------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_singletons(kind):
    bags = Bags.singletons(kind(_matrix()))
    assert bags.shape == (8, 3)
    assert bags.sizes.tolist() == [1] * 8
    np.testing.assert_array_equal(_dense(bags.instances), _matrix())
    assert bags.feature_names is None


def test_singletons_take_names():
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    assert Bags.singletons(frame).feature_names.tolist() == ["a", "b"]
    assert Bags.singletons(np.eye(1), feature_names=["z"]).feature_names.tolist() == ["z"]


def test_concatenate_undoes_slices(bags):
    joined = Bags.concatenate([bags[:1], bags[1:3], bags[3:]])
    np.testing.assert_array_equal(_dense(joined.instances), _dense(bags.instances))
    np.testing.assert_array_equal(joined.offsets, bags.offsets)
    assert joined.dtype == bags.dtype
    assert (joined.feature_names is None) == (bags.feature_names is None)


def test_concatenate_puts_graphs_on_the_diagonal():
    bags, plain = KINDS["graphs"](), KINDS["dense"]()
    joined = Bags.concatenate(part for part in (bags[:0], plain, bags))
    graph = joined.bag_graph.toarray()
    np.testing.assert_array_equal(graph[4:, 4:], bags.bag_graph.toarray())
    assert graph[:4].sum() == graph[:, :4].sum() == 0
    links = joined.instance_graph.toarray()
    np.testing.assert_array_equal(links[8:, 8:], bags.instance_graph.toarray())
    assert links[:8].sum() == links[:, :8].sum() == 0
    assert Bags.concatenate([plain, plain]).bag_graph is None


def test_concatenate_mixes_kinds():
    joined = Bags.concatenate([KINDS["dense"](), KINDS["sparse"]()])
    assert sparse.issparse(joined.instances)
    assert Bags.concatenate([KINDS["named"](), KINDS["dense"]()]).feature_names is None


def test_concatenate_refuses():
    bags = KINDS["dense"]()
    _refuses(
        lambda: Bags.concatenate([]),
        "No bags were given: pass at least one Bags to concatenate.",
    )
    _refuses(
        lambda: Bags.concatenate([bags, bags[:, [0]]]),
        "The parts have [3, 1] features: every part must have the same features.",
    )
    _refuses(
        lambda: Bags.concatenate([bags, np.eye(3)]),
        "Part 1 is ndarray: only Bags can be concatenated.",
        TypeError,
    )


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, list, pd.DataFrame])
def test_with_instances(kind):
    bags = KINDS["graphs"]()
    changed = bags.with_instances(kind(_matrix()[:, :2]))
    assert changed.shape == (4, 2)
    np.testing.assert_array_equal(_dense(changed.instances), _matrix()[:, :2])
    np.testing.assert_array_equal(changed.offsets, bags.offsets)
    np.testing.assert_array_equal(changed.bag_graph.toarray(), bags.bag_graph.toarray())
    np.testing.assert_array_equal(changed.instance_graph.toarray(), bags.instance_graph.toarray())
    assert changed.feature_names is None


def test_with_instances_takes_names():
    bags = KINDS["dense"]()
    assert bags.with_instances(_matrix(), feature_names=list("xyz")).feature_names[2] == "z"
    frame = pd.DataFrame(_matrix(), columns=list("uvw"))
    assert bags.with_instances(frame).feature_names.tolist() == ["u", "v", "w"]


def test_with_instances_refuses():
    _refuses(
        lambda: KINDS["dense"]().with_instances(np.eye(3)),
        "The new matrix has 3 rows for 8 instances: an instance matrix can only be replaced row "
        "for row.",
    )


def test_no_bags_at_all():
    bags = Bags(np.empty((0, 3)), [0])
    assert bags.shape == (0, 3)
    assert list(bags) == []
    assert bags[:0] is bags
    assert bags[[]].shape == (0, 3)
