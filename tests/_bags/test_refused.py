"""Refused input and its messages: by the container, and by whatever takes bags."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from milearn import Bags
from milearn._fit.validation import check_bags, validate_bags
from milearn.preprocessing import BagStatistics
from milearn.svm import MISVC
from tests._bags.kinds import BLOCK, refuses

EMPTY = "is empty: every bag needs at least one instance; remove it."
TEXT = (
    "which is not a number: encode it as numbers first, for example by pandas.get_dummies or "
    "sklearn's OneHotEncoder."
)
ROWS = f"dimension(s): {BLOCK}"
OFFSETS = (
    "offsets must be a 1-D array of n_bags + 1 integers: the first row of each bag, and the number "
    "of instances."
)
UNFIT = "but there are 8 instances: they must run from 0 to 8."
SQUARES = np.ones((4, 5, 3))

# -- parts of a container ------------------------------------------------------------------------

PARTS = [
    ({"offsets": [0, 2, 2, 8]}, f"Bag 1 {EMPTY}"),
    ({"offsets": [0, 5, 3, 8]}, "offsets decrease at bag 1 (5 to 3): they must increase."),
    ({"offsets": [0, 2, 7]}, f"offsets run from 0 to 7 {UNFIT}"),
    ({"offsets": [0.0, 8.0]}, OFFSETS),
    ({"offsets": []}, OFFSETS),
    ({"offsets": [[0, 8]]}, OFFSETS),
    ({"bag_graph": np.ones((3, 4))}, "bag_graph has shape (3, 4) but there are 2 bags: it must"),
    ({"instance_graph": sparse.coo_array((3, 4))}, "instance_graph has shape (3, 4) but there"),
    ({"instances": [1.0, 2.0]}, "instances has 1 dimension(s): pass a matrix with one row per"),
    ({"instances": "text"}, "instances has 0 dimension(s): pass a matrix with one row per"),
    ({"instances": [["1", "2"]]}, "instances holds text ('1'), which is not a number: convert it"),
    ({"instances": np.array([["a", 1]], object)}, f"instances holds text ('a'), {TEXT}"),
    ({"instances": np.array([["2020-01-01"]], "datetime64[D]")},
     "instances holds dates (2020-01-01): pass durations"),
    ({"instances": [[1j]]}, "Complex data not supported: instances must be real numbers."),
    ({"instances": sparse.csr_array([[1j]])},
     "Complex data not supported: instances must be real numbers."),
    ({"feature_names": [0, 1, 2]}, "feature_names must be a sequence of strings."),
    ({"feature_names": ["a"]}, "feature_names has shape (1,) for 3 features: give one entry per"),
    ({"instance_data": [1, 2, 3]}, "instance_data is list: pass a data frame, or a dict of arrays"),
    ({"instance_data": {3: np.ones(8)}}, "instance_data has the key 3: name every column by a"),
    ({"instance_data": {"a": [1, 2]}}, "instance_data['a'] has 2 entries for 8 instances"),
    ({"instance_data": {"a": [{}] * 8}}, "instance_data['a'] holds Python objects (dict): pass"),
    ({"instance_data": {"a": sparse.eye_array(8)}}, "instance_data['a'] is sparse: pass a dense"),
    ({"bag_data": [1, 2]}, "bag_data is list: pass a data frame, or a dict of arrays with one"),
    ({"bag_data": {"a": [1, 2, 3]}}, "bag_data['a'] has 3 entries for 2 bags: give"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "message"), PARTS, ids=range(len(PARTS)))
def test_parts_of_bags(part, message):
    given = {"instances": np.ones((8, 3)), "offsets": [0, 5, 8], **part}
    refuses(lambda: Bags(**given), message, (TypeError, ValueError))


# -- bags ----------------------------------------------------------------------------------------

BLOCKS = {
    "empty": ([np.ones((2, 3)), np.empty((0, 3))], f"Bag 1 {EMPTY}"),
    "empty and sparse": ([np.ones((1, 2)), sparse.csr_array((0, 2))], f"Bag 1 {EMPTY}"),
    "other features": ([np.ones((2, 3)), np.ones((1, 3)), np.ones((2, 4))],
                       "Bag 2 has 4 features but bag 0 has 3: every bag must have the same"),
    "row": ([np.ones((2, 3)), np.ones(3)], f"Bag 1 has 1 {ROWS}"),
    "ragged": ([[[1.0, 2.0], [3.0]]], f"Bag 0 has rows of different lengths: {BLOCK}"),
    "string": ([np.ones((2, 3)), "It works."],
               f"Bag 1 is a text or a path ('It works.'): {BLOCK}"),
    "paths": (["musk1.data", "musk2.data"], f"Bag 0 is a text or a path ('musk1.data'): {BLOCK}"),
    "categories": ([np.ones((1, 2)), [["a", "b"]]], f"Bag 1 holds text ('a'), {TEXT}"),
    "a gap among texts": ([["good film", None], ["bad film"]],
                          f"Bag 0 holds strings: {BLOCK}"),
    "texts and numbers": ([["good film", "too long"], np.ones((2, 1))],
                          "Bags of text and bags of numbers cannot be joined: encode the text."),
    "series": ([np.ones(9), np.ones(7)], f"Bag 0 has 1 {ROWS}"),
    "pictures": ([SQUARES, SQUARES[:3]], f"Bag 0 has 3 {ROWS}"),
    "array of pictures": (np.ones((2, 4, 5, 3)), f"Bag 0 has 3 {ROWS}"),
}  # fmt: skip
WAYS = {
    "from_list": Bags.from_list,
    "check_bags": check_bags,
    "validate_bags": lambda X: validate_bags(BagStatistics(), X),
    "fit": lambda X: MISVC().fit(X, [0, 1]),
    "fit_transform": lambda X: BagStatistics().fit_transform(X),
}


@pytest.mark.parametrize("way", WAYS)
def test_series_of_different_lengths(way):
    series = [np.ones((2, time)) for time in (10, 12, 9)]
    message = "Bag 1 has 12 features but bag 0 has 10: every bag must have the same features."
    refuses(lambda: WAYS[way](series), message)


@pytest.mark.parametrize("library", [pd, pl])
def test_frames_with_one_row_per_bag(library):
    frame = library.DataFrame({"id": ["p", "q"], "u": [[1.0, 2.0], [3.0]]})
    refuses(
        lambda: Bags.from_frame(frame, "id"),
        "Column 'u' holds Python objects (list): pass numbers",
        TypeError,
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BLOCKS)
def test_bags(name, way):
    X, message = BLOCKS[name]
    refuses(lambda: WAYS[way](X), message, (TypeError, ValueError))
    if name in ("a gap among texts", "texts and numbers", "series", "pictures"):
        refuses(lambda: WAYS[way](pd.Series(X)), message, (TypeError, ValueError))
