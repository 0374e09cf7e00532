"""Data frames through plain arrays: every kind, gap, order and name comes back."""

from __future__ import annotations

import io

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest

from milearn._bags.frames import arrays_of_frame, frame_of_arrays

RESERVED = [
    "instance",
    "instance_label",
    "Label",
    "bag_data:x",
    "NA",
    "",
    "a",
    "a ",
    "\r",
    "x_kinds",
]
TEXTS = st.sampled_from([*RESERVED, "007", "7", "?", "nan", "ä\0", "\ud800 half", "2024-03-01"])
DATES = st.datetimes(pd.Timestamp("1800-01-01"), pd.Timestamp("2200-01-01"))
WHOLE = st.integers(-(2**53), 2**53)
# Cells, and the type of their column.
KINDS = {
    "int64": (WHOLE, "int64"),
    "uint8": (st.integers(0, 255), "uint8"),
    "float16": (st.floats(width=16), "float16"),
    "float64": (st.floats(), "float64"),
    "bool": (st.booleans(), "bool"),
    "Int64": (st.none() | WHOLE, "Int64"),
    "boolean": (st.none() | st.booleans(), "boolean"),
    "Float32": (st.none() | st.floats(width=32, allow_nan=False), "Float32"),
    "dates": (st.none() | DATES, "datetime64[us]"),
    "seconds": (st.none() | DATES, "datetime64[s]"),
    "zone": (st.none() | DATES, "datetime64[us, Europe/Berlin]"),
    "durations": (
        st.none() | st.timedeltas(pd.Timedelta(0), pd.Timedelta("9D")),
        "timedelta64[us]",
    ),
    "text": (st.none() | TEXTS.filter(lambda text: text.isprintable()), "str"),
    "string": (st.none() | TEXTS.filter(lambda text: text.isprintable()), "string"),
    "objects": (st.none() | TEXTS | WHOLE | st.booleans() | st.floats(), object),
}


@st.composite
def columns(draw, n):
    cells, dtype = draw(st.sampled_from([*KINDS.values()]))
    values = draw(st.lists(cells, min_size=n, max_size=n))
    if dtype == "datetime64[us, Europe/Berlin]":
        column = pd.Series(values, dtype="datetime64[us]").dt.tz_localize("UTC").astype(dtype)
    else:
        dtype = pd.Series(["text"]).dtype if dtype == "str" else dtype
        column = pd.Series(values, dtype=dtype)
    if draw(st.booleans()) and dtype not in (object, "float16"):
        known = column.dropna().unique()
        order = draw(st.permutations(range(len(known))))
        kinds = pd.CategoricalDtype(pd.Index(known).take(order), ordered=draw(st.booleans()))
        column = column.astype(kinds)
    return column


@st.composite
def frames(draw):
    n = draw(st.integers(0, 5))
    names = draw(
        st.lists(TEXTS.filter(lambda t: "\ud800" not in t), min_size=1, max_size=6, unique=True)
    )
    found = {at: draw(columns(n)) for at in range(len(names))}
    frame = pd.DataFrame(found, index=range(n)).set_axis(names, axis=1)
    if draw(st.booleans()):
        frame.index = pd.Index(
            draw(columns(n).filter(lambda c: c.dtype != "float16")),
            name=draw(st.none() | st.just("obs names")),
        )
    return frame


@hypothesis.settings(max_examples=50, deadline=None, derandomize=True, database=None)
@hypothesis.given(frames())
def test_a_frame_comes_back(frame):
    index = frame.index.to_series().to_frame("index")
    arrays = arrays_of_frame(frame, "x") | arrays_of_frame(index[[]], "y")
    again = arrays_of_frame(frame.copy(), "x")
    assert all(values.tobytes() == arrays[key].tobytes() for key, values in again.items())
    assert not any(values.dtype.hasobject for values in arrays.values())
    np.savez(file := io.BytesIO(), **arrays)
    with np.load(io.BytesIO(file.getvalue()), allow_pickle=False) as stored:
        found = {key: stored[key] for key in stored.files}
    again = frame_of_arrays(found, "x")
    pd.testing.assert_frame_equal(again, frame, check_exact=True, check_column_type=False)
    assert isinstance(frame.index, pd.RangeIndex) or frame_of_arrays(found, "y").equals(index[[]])


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pd.Series([("a", 1)]), r"'x_0' holds Python objects \(tuple\)"),
        (pd.Series(pd.period_range("2020", periods=1, freq="Y")), r"x\['p'\] has the type period"),
        (pd.Series([pd.Timestamp(0)], dtype=object), r"holds Python objects \(Timestamp\)"),
    ],
)
def test_what_would_need_a_pickle(column, what):
    with pytest.raises(TypeError, match=what):
        arrays_of_frame(pd.DataFrame({"p": column}), "x")
