"""Canonical form, pickles, hashes and memory maps of the container, and what it refuses."""

from __future__ import annotations

import copy
import pickle

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from milearn import Bags
from tests._bags.kinds import (
    KINDS,
    SIZES,
    assert_canonical,
    assert_same,
    matrix_of_bags,
    offsets_of_bags,
)

# -- canonical form, pickle, hash ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float16),
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
    assert_canonical(bags)
    if given in (object, np.float16, ">f8"):  # SciPy has no such matrices
        return
    assert_canonical(Bags(sparse.csr_array(matrix.astype(kept)).astype(given), [0, 2, 3]))


@pytest.mark.parametrize(
    "convert",
    [
        sparse.csr_array,
        sparse.csr_matrix,
        sparse.coo_array,
        sparse.coo_matrix,
        sparse.csc_array,
        sparse.lil_matrix,
        sparse.dia_array,
        sparse.dok_array,
        sparse.bsr_array,
    ],
)
def test_sparse_formats(convert):
    bags = Bags(convert(matrix_of_bags()), offsets_of_bags())
    assert_same(bags, KINDS["sparse"]())
    assert_canonical(bags)


def test_unsorted_and_repeated_entries_are_put_in_order():
    unsorted = sparse.csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2)
    )
    bags = Bags(unsorted, [0, 1])
    assert_canonical(bags)
    np.testing.assert_array_equal(bags.instances.toarray(), [[2.0, 4.0]])
    # The caller's matrix is as it was.
    assert unsorted.nnz == 3


def _long_indices(csr):
    long = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return sparse.csr_array((csr.data, *long), shape=csr.shape)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16])
def test_hash_and_form_do_not_depend_on_the_layout(dtype):
    offsets, matrix = offsets_of_bags().astype(dtype), matrix_of_bags()
    for given, kind in (
        (matrix, "dense"),
        (np.asfortranarray(matrix), "dense"),
        (np.repeat(matrix, 2, axis=1)[:, ::2], "dense"),
        (_long_indices(sparse.csr_array(matrix)), "sparse"),
    ):
        bags = Bags(given, offsets)
        assert_canonical(bags)
        assert joblib.hash(bags) == joblib.hash(KINDS[kind]())
    assert np.shares_memory(Bags(matrix, offsets).instances, matrix)


def test_hash_is_that_of_content(bags):
    before = joblib.hash(bags)
    assert clone(bags) is bags
    assert before == joblib.hash(copy.deepcopy(bags))
    changed = bags.with_instances(bags.instances * 2, feature_names=bags.feature_names)
    assert before not in (joblib.hash(bags[:3]), joblib.hash(changed))
    # Use leaves it as it is, and so do flags that SciPy sets when it is asked.
    _ = bags.bag_index, bags[[1, 0]], bags[1:], list(bags), bags.sizes, repr(bags), bags.nbytes
    if sparse.issparse(bags.instances):
        assert bags.instances.has_sorted_indices
        assert bags.instances.has_canonical_format
        bags.instances.max()
    assert joblib.hash(bags) == before
    for name in ("instances", "offsets", "bag_graph", "instance_graph", "feature_names"):
        with pytest.raises(AttributeError):
            setattr(bags, name, None)


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickle(bags, protocol):
    _ = bags.bag_index
    state = bags.__getstate__()
    assert "_bag_index" not in state
    assert not any(sparse.issparse(part) for part in state.values())
    again = pickle.loads(pickle.dumps(bags, protocol=protocol))
    assert_same(again, bags)
    assert_canonical(again)
    np.testing.assert_array_equal(again.bag_index, bags.bag_index)
    assert joblib.hash(again) == joblib.hash(bags)


# -- immutability --------------------------------------------------------------------------------


def _arrays(bags):
    """Every array that a container shows, by name."""
    found = {"offsets": bags.offsets, "bag_index": bags.bag_index}
    for name in ("instances", "bag_graph", "instance_graph"):
        matrix = getattr(bags, name)
        if sparse.issparse(matrix):
            parts = ("data", "indices", "indptr")
            found |= {f"{name}.{part}": getattr(matrix, part) for part in parts}
        elif matrix is not None:
            found[name] = matrix
    if bags.feature_names is not None:
        found["feature_names"] = bags.feature_names
    return found


@pytest.mark.parametrize(
    "derive",
    [
        lambda bags: bags,
        lambda bags: bags[1:3],
        lambda bags: bags[[2, 0]],
        lambda bags: bags[:, [0]],
        lambda bags: np.hstack([bags, bags]),
        lambda bags: Bags.concatenate([bags, bags]),
        lambda bags: bags.with_instances(bags.instances * 1),
        lambda bags: pickle.loads(pickle.dumps(bags)),
        copy.copy,
        copy.deepcopy,
    ],
)
def test_every_array_is_read_only(bags, derive):
    for name, array in _arrays(derive(bags)).items():
        assert not array.flags.writeable, name
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = array[:1]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_arrays_of_the_caller_stay_writable(kind):
    matrix, offsets, graph = (
        kind(matrix_of_bags()),
        offsets_of_bags(),
        sparse.csr_array(np.eye(len(SIZES))),
    )
    bags = Bags(matrix, offsets, bag_graph=graph)
    values = matrix.data if sparse.issparse(matrix) else matrix
    values[...] = 1.0
    graph.data[:] = 2.0
    offsets[1] += 1
    # What the number of the bag of each row is computed from is the container's own.
    assert bags.offsets.tolist() == offsets_of_bags().tolist()
    np.testing.assert_array_equal(bags.bag_index, np.repeat(np.arange(len(SIZES)), SIZES))
