"""Long tables, one row per instance: CSV, TSV and Parquet, read and written by pandas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._bags.canonical import MISSING, frame_column, number_advice, read_words
from ..._bags.columns import without_index
from ..._bags.constructors import bags_of_texts
from ..._bags.kinds import ordered_categories
from ..._compat import need_module
from .._errors import ContentError
from .record import BagRecord, column_of, declared_classes, group_rows, make_bags_of
from .text import (
    check_column,
    check_values,
    header_advice,
    is_gap,
    known_column,
    plain_name,
    quoted_names,
)

# Columns of instances that are no features, and their fields.
_PARTS = {"instance": "instance_names", "instance_label": "instance_labels"}
# Start of the names of columns of bag_data in files of save_bags.
_OF_BAGS = "bag_data:"


# -- reading -------------------------------------------------------------------------------------


def read_frame(
    path: Path, kind: str, delimiter: str, names: Sequence[str], classes: Any = None
) -> Any:
    """A table as a frame of pandas; in CSV the columns ``names`` are texts, such as "007".

    ``names`` are names of columns, or what :func:`plain_name` makes of them. A word for a missing
    value is no such word if it is a declared class.
    """
    pandas = need_module("pandas", str(path))
    if kind == "parquet":
        need_module("pyarrow", str(path))
        return as_frame(pandas.read_parquet(path))
    version = tuple(map(int, pandas.__version__.split(".")[:2]))
    table = {"sep": delimiter, "skipinitialspace": True}
    # As it is written: pandas renames the second of two columns.
    written = pandas.read_csv(path, nrows=1, header=None, dtype=str, **table)
    header = written.iloc[0].dropna().to_list()
    check_distinct(header)
    frame = pandas.read_csv(
        path,
        dtype={name: str for name in header if {name, plain_name(name)}.intersection(names)},
        keep_default_na=False,
        na_values=sorted(missing_words(classes)),
        low_memory=False,
        **table,
        # Newer versions convert exactly by default.
        **({} if version >= (3, 1) else {"float_precision": "round_trip"}),
    )
    if not isinstance(frame.index, pandas.RangeIndex):
        raise ContentError(
            "the rows have more columns than the header; check the delimiter (delimiter=)."
            + header_advice(list(frame.columns))
        )
    # Programs for spreadsheets leave rows of delimiters behind.
    return frame.dropna(how="all")


def as_frame(table: Any) -> Any:
    """A frame of pandas or polars as one of pandas, whose columns have texts as names."""
    pandas = need_module("pandas", "A table")
    if not isinstance(table, pandas.DataFrame):
        columns = {name: table[name].to_list() for name in table.columns}
        for name in columns:
            if (ranks := ordered_categories(table[name])) is not None:
                columns[name] = pandas.Categorical(columns[name], ranks, ordered=True)
        return pandas.DataFrame(columns)
    if any(name is not None for name in table.index.names):
        table = table.reset_index()
    return table.rename(columns=str)


def cells_of(column: Any, names: Sequence[str], words: Collection[str]) -> list[Any]:
    """Cells of a column, see :func:`read_words`, with ``names`` of :func:`read_frame`."""
    cells = column.to_list()
    if column.dtype.kind != "O" or ordered_categories(column) is not None:
        return cells
    return read_words(cells, words, bool({column.name, plain_name(column.name)} & {*names}))


def missing_words(classes: Any) -> set[str]:
    """The words for a missing value, without those that are declared classes."""
    return {*MISSING.difference(() if classes is None else classes.tolist())}


def check_distinct(names: Sequence[Any]) -> None:
    if len({*names}) < len(names):
        raise ContentError(
            "two columns have the same name; give the columns distinct names."
            + header_advice([*map(str, names)])
        )


def read_table(
    path: Path,
    *,
    kind: str = "csv",
    delimiter: str = ",",
    missing: str = "error",
    classes: np.ndarray | None = None,
    **options: Any,
) -> BagRecord:
    """Read a table of instances; ``options`` name the columns that are no features."""
    of_bags = options.pop("bag_data", ())
    names = {part: options.get(part, part) for part in ("bag", "label", *_PARTS)}
    of_text = [] if classes is None or classes.dtype.kind != "U" else [names["label"]]
    texts = [names["bag"], names["instance"], *of_text]
    frame = read_frame(path, kind, delimiter, texts, classes)
    columns = list(frame.columns)
    check_distinct(columns)
    for part in names.keys() - options.keys():
        names[part] = known_column([part], columns, part) or part
    check_column(names["bag"], "bag", columns, "; name the column that holds it with bag=")
    for part, name in (*options.items(), *(("bag_data", name) for name in of_bags)):
        check_column(name, part, columns)
    if classes is None and names["label"] in columns:
        classes = declared_classes(ordered_categories(frame[names["label"]]))
    # Texts in Parquet may be instances, whose words and blanks stay.
    for name in columns if kind == "csv" else [names["bag"], names["label"]]:
        if name in columns and frame[name].dtype.kind == "O":
            words = () if kind == "parquet" and name == names["bag"] else missing_words(classes)
            frame[name] = cells_of(frame[name], texts, words)
    parts = {part: frame[name] for part, name in names.items() if name in columns}
    of_bags = [name for name in columns if name.startswith(_OF_BAGS) or name in of_bags]
    features = [name for name in columns if name not in {*names.values(), *of_bags}]
    features = without_index(features, frame.__getitem__)
    if not features:
        raise ContentError(
            f"there is no feature column apart from {quoted_names(columns)}; check the delimiter "
            "(delimiter=) and the columns."
        )
    documents = frame[features[0]].to_list() if len(features) == 1 else []
    is_text = (
        kind == "parquet" and bool(documents) and all(isinstance(text, str) for text in documents)
    )
    if is_text:
        # The numbers of the rows show in which order the texts are in the bags.
        values = np.arange(float(len(documents)))[:, np.newaxis]
    else:
        values = np.column_stack([_feature(frame, name) for name in features])

    def place(row: int, column: str) -> str:
        return f"row {frame.index[row] + 1}, column {column!r}"

    n = len(features)
    check_values(values, missing, lambda at: place(at // n, features[at % n]))
    for row in np.flatnonzero(parts["bag"].isna())[:1]:
        raise ContentError(f"row {frame.index[row] + 1} names no bag; fill the bag column.")

    def column(name: str) -> np.ndarray:
        return column_of(frame[name].to_list(), lambda row: place(row, name))

    row_fields = {}
    if "instance" in parts:
        row_fields["instance_names"] = np.array(
            ["" if is_gap(name) else str(name) for name in parts["instance"]]
        )
    if "instance_label" in parts:
        row_fields["instance_labels"] = column(names["instance_label"])
    record = group_rows(
        values,
        parts["bag"].to_list(),
        parts["label"].to_list() if "label" in parts else None,
        row_fields=row_fields,
        feature_names=features,
        bag_data={name.removeprefix(_OF_BAGS): column(name) for name in of_bags},
        classes=classes,
        label_column=names["label"],
    )
    if is_text:
        rows = record.bags.instances[:, 0].astype(np.intp)
        record.bags = bags_of_texts(record.bags, [documents[row] for row in rows])
    return record


def _feature(frame: Any, name: str) -> np.ndarray:
    column = frame[name]
    numbers = need_module("pandas", "A table").to_numeric(column, errors="coerce")
    for row in np.flatnonzero(numbers.isna() & column.notna())[:1]:
        raise ContentError(
            f"row {column.index[row] + 1}, column {name!r}: {column.iloc[row]!r} is not a number; "
            f"correct it, or {number_advice(str(column.iloc[row]))}."
        )
    return np.asarray(make_bags_of(frame_column, frame, name))


# -- writing -------------------------------------------------------------------------------------


def write_csv(path: Path, record: BagRecord, file: BinaryIO, *, delimiter: str = ",") -> None:
    """Write one row per instance."""
    frame = _frame_of(path, record, record.bags.instances.astype(np.float64))
    frame.to_csv(file, sep=delimiter, index=False, lineterminator="\n")


def write_parquet(path: Path, record: BagRecord, file: BinaryIO) -> None:
    """Write the table of :func:`write_csv` as Parquet, feature columns in their own type."""
    need_module("pyarrow", str(path))
    _frame_of(path, record, record.bags.instances).to_parquet(file, index=False)


def _frame_of(path: Path, record: BagRecord, features: np.ndarray) -> Any:
    need_module("pandas", str(path))
    bags = record.bags._changed(
        instances=features,
        feature_names=np.array(record.feature_names()),
        instance_data={
            part: record.fields[field] for part, field in _PARTS.items() if field in record.fields
        },
        bag_data={_OF_BAGS + name: values for name, values in record.bags.bag_data.items()},
    )
    return make_bags_of(bags.to_frame, ids=record.bag_names(), y=record.target)
