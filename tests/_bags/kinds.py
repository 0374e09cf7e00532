"""Containers of every kind, and comparisons of them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from milearn import Bags

SIZES = (2, 1, 3, 2)


def matrix_of_bags(dtype=np.float64):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(sum(SIZES), 3))
    matrix[rng.random(matrix.shape) < 0.3] = 0.0
    return matrix.astype(dtype)


def offsets_of_bags():
    return np.concatenate([[0], np.cumsum(SIZES)])


def graphs_of_bags():
    n_bags, n_instances = len(SIZES), sum(SIZES)
    return {
        "bag_graph": np.arange(n_bags**2, dtype=float).reshape(n_bags, n_bags),
        "instance_graph": np.arange(n_instances**2, dtype=float).reshape(n_instances, -1),
    }


def data_of_bags():
    n_instances = sum(SIZES)
    return {
        "coords": np.arange(2 * n_instances, dtype=np.int32).reshape(n_instances, 2),
        "name": [f"patch {row}" for row in range(n_instances)],
    }


def columns_of_bags():
    return {
        "age": np.arange(len(SIZES), dtype=np.float32),
        "site": [f"site {bag}" for bag in range(len(SIZES))],
        "box": np.arange(2 * len(SIZES)).reshape(-1, 2),
    }


KINDS = {
    "dense": lambda: Bags(matrix_of_bags(), offsets_of_bags()),
    "float32": lambda: Bags(matrix_of_bags(np.float32), offsets_of_bags()),
    "float16": lambda: Bags(matrix_of_bags(np.float16), offsets_of_bags()),
    "sparse": lambda: Bags(sparse.csr_array(matrix_of_bags()), offsets_of_bags()),
    "graphs": lambda: Bags(matrix_of_bags(), offsets_of_bags(), **graphs_of_bags()),
    "named": lambda: Bags(matrix_of_bags(), offsets_of_bags(), feature_names=["a", "b", "c"]),
    "data": lambda: Bags(matrix_of_bags(), offsets_of_bags(), instance_data=data_of_bags()),
    "bag data": lambda: Bags(matrix_of_bags(), offsets_of_bags(), bag_data=columns_of_bags()),
    "sparse graphs": lambda: Bags(
        sparse.csr_array(matrix_of_bags()), offsets_of_bags(), **graphs_of_bags()
    ),
}


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def blocks_of(bags):
    """The bags as a list of dense blocks, by plain slices of the matrix."""
    matrix = dense(bags.instances)
    pairs = zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
    return [matrix[start:stop] for start, stop in pairs]


def assert_same(left, right):
    assert type(left) is type(right) is Bags
    assert sparse.issparse(left.instances) == sparse.issparse(right.instances)
    assert left.dtype == right.dtype
    np.testing.assert_array_equal(dense(left.instances), dense(right.instances))
    np.testing.assert_array_equal(left.offsets, right.offsets)
    for name in ("bag_graph", "instance_graph"):
        mine, other = getattr(left, name), getattr(right, name)
        assert (mine is None) == (other is None), name
        if mine is not None:
            np.testing.assert_array_equal(mine.toarray(), other.toarray())
    for kind in ("instance_data", "bag_data"):
        mine, other = getattr(left, kind), getattr(right, kind)
        mine, other = mine.reset_index(drop=True), other.reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, other, check_column_type=False)
    names = left.feature_names, right.feature_names
    assert (names[0] is None) == (names[1] is None)
    assert names[0] is None or names[0].tolist() == names[1].tolist()


def assert_selected(picked, bags, positions):
    """``picked`` are the bags at ``positions``, both graphs cut on both axes."""
    blocks = [blocks_of(bags)[position] for position in positions]
    assert len(picked) == len(blocks)
    for mine, block in zip(blocks_of(picked), blocks, strict=True):
        np.testing.assert_array_equal(mine, block)
    assert picked.dtype == bags.dtype
    assert sparse.issparse(picked.instances) == sparse.issparse(bags.instances)
    if bags.bag_graph is not None:
        expected = bags.bag_graph.toarray()[np.ix_(positions, positions)]
        np.testing.assert_array_equal(picked.bag_graph.toarray(), expected)
    rows = [row for position in positions for row in rows_of(bags, position)]
    assert list(picked.instance_data) == list(bags.instance_data)
    for name, values in bags.instance_data.items():
        np.testing.assert_array_equal(picked.instance_data[name], values[rows])
    assert list(picked.bag_data) == list(bags.bag_data)
    for name, values in bags.bag_data.items():
        np.testing.assert_array_equal(picked.bag_data[name], values[list(positions)])
    if bags.instance_graph is not None:
        expected = bags.instance_graph.toarray()[np.ix_(rows, rows)]
        np.testing.assert_array_equal(picked.instance_graph.toarray(), expected)


def rows_of(bags, position):
    return range(bags.offsets[position], bags.offsets[position + 1])


def assert_canonical(bags):
    matrix = bags.instances
    assert matrix.dtype in (np.float16, np.float32, np.float64)
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


BLOCK = "a bag is a 2-D array of numbers with one row per instance, or a list of strings"


def refuses(call, message, kind=ValueError):
    """The message of the error begins with the given words."""
    with pytest.raises(kind, match=f"^{re.escape(message)}"):
        call()
