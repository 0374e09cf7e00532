"""Round trips through frames, AnnData and files: names, kinds, gaps and order are kept."""

from __future__ import annotations

from types import SimpleNamespace

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from milearn import Bags
from milearn._bags.kinds import id_text
from milearn.datasets import load_bags, save_bags

few = hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
# Names that other parts of the package use, or readers take for a gap, a number or an index.
RESERVED = [
    "instance",
    "Label",
    "NA",
    "nan",
    "None",
    "",
    "007",
    "1e5",
    "True",
    "bag_data:age",
    "x0",
]
TEXTS = st.text("aZ\u00e9\u0301\u00df\u6f22\U0001f9ec ,;\"'\n\r\t7_:", max_size=6)
NAMES = st.one_of(st.sampled_from(RESERVED), TEXTS)
# Ids are kept in the form in which they are compared.
IDS = NAMES.map(id_text).filter(bool)
COLUMNS = NAMES.filter(lambda name: name not in ("", "bag", "label"))


def cells_of(kind):
    """Cells of a column of this kind."""
    if kind == "text":
        return st.one_of(st.none(), NAMES)
    if kind == "time":
        return st.one_of(
            st.none(), st.datetimes(pd.Timestamp(1900, 1, 1), pd.Timestamp(2100, 1, 1))
        )
    if kind == "bool":
        return st.one_of(st.none(), st.booleans())
    # As seconds, these are what older versions of pandas hold.
    return st.one_of(st.none(), st.integers(-(2**33), 2**33))


KINDS = {
    "float": lambda cells: pd.Series(cells, dtype=float),
    "Int64": lambda cells: pd.Series(cells, dtype="Int64"),
    "text": lambda cells: pd.Series(cells, dtype=object),
    "bool": lambda cells: pd.Series(cells, dtype="boolean"),
    "category": lambda cells: pd.Series(cells, dtype="Int64").astype("category"),
    "time": lambda cells: pd.Series(cells, dtype="M8[us]"),
    "duration": lambda cells: pd.to_timedelta(pd.Series(cells, dtype="Int64"), unit="s"),
}


@st.composite
def columns(draw, names, n):
    """Columns of any kinds with these names."""
    found = {}
    for name in names:
        kind = draw(st.sampled_from([*KINDS]))
        found[name] = KINDS[kind](draw(st.lists(cells_of(kind), min_size=n, max_size=n)))
    return pd.DataFrame(found, index=range(n))


@st.composite
def bags(draw):
    """Bags with names, features, columns of instances and columns of bags."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    ids = draw(st.lists(IDS, min_size=len(sizes), max_size=len(sizes), unique=True))
    names = draw(st.lists(COLUMNS, min_size=1, max_size=7, unique=True))
    cuts = sorted(draw(st.lists(st.integers(1, len(names)), min_size=2, max_size=2)))
    features, of_instances, of_bags = names[: cuts[0]], names[cuts[0] : cuts[1]], names[cuts[1] :]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = np.arange(offsets[-1] * len(features), dtype=float).reshape(-1, len(features))
    X[draw(st.integers(0, len(X) - 1)), 0] = np.nan
    return Bags(
        X,
        offsets,
        names=ids,
        feature_names=features,
        instance_data=draw(columns(of_instances, len(X))),
        bag_data=draw(columns(of_bags, len(sizes))).set_axis(ids),
    )


def assert_equal(found, expected):
    pd.testing.assert_frame_equal(found, expected, check_index_type=False, check_column_type=False)


def assert_same(found, expected):
    assert found.names.tolist() == expected.names.tolist()
    assert found.feature_names.tolist() == expected.feature_names.tolist()
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.instances, expected.instances)
    for mine, other in (
        (found.instance_data, expected.instance_data),
        (found.bag_data, expected.bag_data),
    ):
        assert_equal(mine, other)


@hypothesis.given(bags(), st.randoms(use_true_random=False))
@few
def test_frames(X, random):
    labels = [at % 2 for at in range(len(X))]
    table = X.to_frame(y=labels)
    given = {"label": "label", "features": [*X.feature_names]}
    given |= {"instance_data": [*X.instance_data], "bag_data": [*X.bag_data]}
    found, y = Bags.from_frame(table, "bag", **given)
    assert_same(found, X)
    assert y.tolist() == labels
    # The rows of the bags in any order of the bags.
    order = [*range(len(X))]
    random.shuffle(order)
    rows = np.concatenate([np.flatnonzero(X.bag_index == bag) for bag in order])
    found, y = Bags.from_frame(table.iloc[rows].reset_index(drop=True), "bag", **given)
    assert_same(found, reindexed(X[order]))
    assert y.tolist() == [labels[bag] for bag in order]


@hypothesis.given(bags())
@few
def test_files(tmp_path_factory, X):
    path = tmp_path_factory.mktemp("files")
    labels = [*map(str, range(len(X)))]
    for form in ("npz", "npy-folder"):
        save_bags(path / f"x.{form}", X, labels, format=form)
        data = load_bags(path / f"x.{form}")
        assert_same(data.data, X)
        assert data.target.tolist() == labels


def reindexed(X):
    """Bags whose instances without names are counted anew."""
    return Bags(
        X.instances,
        X.offsets,
        names=X.names,
        feature_names=X.feature_names,
        instance_data=X.instance_data.reset_index(drop=True),
        bag_data=X.bag_data,
    )


@hypothesis.given(bags(), st.randoms(use_true_random=False), st.data())
@few
def test_annotated_cells(X, random, data):
    n = X.n_instances
    cells = data.draw(st.lists(NAMES, min_size=n, max_size=n, unique=True))
    hypothesis.assume("donor" not in [*X.instance_data, *X.bag_data])
    obs = X.to_frame(bag="donor").drop(columns=[*X.feature_names]).set_axis(cells)
    order = [*range(n)]
    random.shuffle(order)
    names = [*X.feature_names]
    adata = SimpleNamespace(X=X.instances[order], obs=obs.iloc[order], var_names=names, uns={})
    given = {"instance_data": [*X.instance_data], "bag_data": [*X.bag_data]}
    found = Bags.from_anndata(adata, "donor", **given)

    # Every cell has its own features and columns, and every donor too.
    places = [cells.index(name) for name in found.instance_data.index]
    np.testing.assert_array_equal(found.instances, X.instances[places])
    assert found.names[found.bag_index].tolist() == X.names[X.bag_index[places]].tolist()
    expected = X.instance_data.iloc[places].set_axis(found.instance_data.index)
    assert_equal(found.instance_data, expected)
    own = found.bag_data.drop(columns="donor")
    assert_equal(own.loc[X.names], X.bag_data)

    # Results go to the cells of their names: all of them, in another order, or some.
    random.shuffle(order)
    some = order[: data.draw(st.integers(1, n))]
    other = SimpleNamespace(obs=obs.iloc[some].copy(), uns={})
    texts = [f"of {name}" for name in found.instance_data.index]
    found.to_anndata(other, instance_data={"score": np.array(places), "text": texts})
    assert other.obs["milearn_score"].tolist() == some
    assert other.obs["milearn_text"].tolist() == [f"of {cells[at]}" for at in some]
    table = other.uns["milearn"]
    assert table["donor"].tolist() == [*map(str, found.names)]

    # A cell that the bags do not have, in the place of another one, is an error.
    if n > 1:
        kept = obs.iloc[some[: n - 1]].copy()
        kept.index = ["another cell", *kept.index[1:]]
        with pytest.raises(ValueError, match="cells of the bags are not in adata, such as"):
            found.to_anndata(SimpleNamespace(obs=kept, uns={}), instance_data={"score": places})
