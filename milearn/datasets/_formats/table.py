"""Long tables, one row per instance: CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._bags.constructors import bags_of_texts
from .._errors import ContentError
from .record import BagRecord, column_of, group_rows, read_numbers
from .text import (
    NOTHING,
    check_column,
    check_header,
    check_not_empty,
    check_width,
    csv_rows,
    listed,
    number_text,
    parse_row,
)

_PARTS = {
    "bag": "bag_names",
    "label": "target",
    "instance": "instance_names",
    "instance_label": "instance_labels",
}
# Start of the names of columns of bag_data in files of save_bags.
_OF_BAGS = "bag_data:"


class _Columns:
    """Columns of a table that are not features."""

    def __init__(self, header: list[str], options: dict[str, Any]) -> None:
        check_header(header)
        self.parts: dict[str, int] = {}
        for part in _PARTS:
            name = options.get(part) or part
            if part in options or part == "bag":
                advice = f"; name the column that holds it with {part}="
                check_column(name, part, header, advice)
            if name in header:
                self.parts[part] = header.index(name)
        asked = options.get("bag_data") or []
        for name in asked:
            check_column(name, "bag_data", header)
        for column, name in enumerate(header):
            if name.startswith(_OF_BAGS) or name in asked:
                self.parts[_OF_BAGS + name.removeprefix(_OF_BAGS)] = column
        taken = set(self.parts.values())
        self.features = [column for column in range(len(header)) if column not in taken]
        self.names = [header[column] for column in self.features]
        if not self.features:
            raise ContentError(
                f"there is no feature column apart from {listed(header)}; check the delimiter "
                "(delimiter=) and the columns."
            )

    def record(
        self, values: np.ndarray, kept: dict[str, list[Any]], lines: list[int] | None = None
    ) -> BagRecord:
        """The bags of the columns; ``kept`` are the columns that are not features."""
        for row, name in enumerate(kept["bag"]):
            if name in ("", None):
                place = f"line {lines[row]}" if lines else f"row {row + 1}"
                raise ContentError(f"{place} names no bag; fill the bag column.")
        row_fields: dict[str, Any] = {}
        if "instance" in kept:
            row_fields["instance_names"] = np.array([str(name) for name in kept["instance"]])
        if "instance_label" in kept:
            row_fields["instance_labels"] = column_of(kept["instance_label"])
        return group_rows(
            values,
            kept["bag"],
            kept.get("label"),
            lines=lines,
            row_fields=row_fields,
            feature_names=self.names,
            bag_columns={
                part.removeprefix(_OF_BAGS): cells
                for part, cells in kept.items()
                if part.startswith(_OF_BAGS)
            },
        )


def read_csv(
    path: Path, *, delimiter: str = ",", missing: str = "error", **options: Any
) -> BagRecord:
    """Read a table with a header line."""
    rows = csv_rows(path, delimiter)
    _, header = next(rows)
    columns = _Columns([name.strip() for name in header], options)
    kept: dict[str, list[Any]] = {part: [] for part in columns.parts}
    values: list[np.ndarray] = []
    lines: list[int] = []
    for line, cells in rows:
        hint = ", check the delimiter"
        check_width(cells, len(header), f"line {line}", "columns but the header has", hint)
        for part, column in columns.parts.items():
            kept[part].append(cells[column].strip())
        values.append(
            parse_row([cells[column] for column in columns.features], columns.names, missing, line)
        )
        lines.append(line)
    if not lines:
        raise ContentError(
            "there is a header but not a single row; if a download was interrupted, fetch it again."
        )
    for part, cells in kept.items():
        if part.startswith(_OF_BAGS) or part == "instance_label":
            kept[part] = list(read_numbers(cells))
    return columns.record(np.array(values), kept, lines)


def write_csv(path: Path, record: BagRecord, file: BinaryIO, *, delimiter: str = ",") -> None:
    """Write one row per instance with the columns of :class:`_Columns`, features last."""
    columns = _columns_of(record, as_texts=True)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow([*columns, *record.feature_names()])
    for *cells, numbers in zip(*columns.values(), record.bags.instances, strict=True):
        writer.writerow([*cells, *map(number_text, numbers)])
    text.detach()


def _columns_of(record: BagRecord, *, as_texts: bool) -> dict[str, Any]:
    """The columns that are not features, by name; labels as texts, names or numbers."""
    of_row = record.bags.bag_index
    columns: dict[str, Any] = {"bag": np.array(record.bag_names(), dtype=object)[of_row]}
    if record.target is not None:
        labels: Any = record.target
        if as_texts or "target_names" in record.fields:
            texts = ["" if text == "?" else text for text in record.label_texts()]
            labels = np.array(texts, dtype=object)
        columns["label"] = labels[of_row]
    for name, values in record.bags.bag_data.items():
        if values.ndim > 1:
            raise ContentError(
                f"bag_data[{name!r}] has {values.ndim} dimensions, but a table holds one; save as "
                ".npz."
            )
        cells = np.array([_cell(value) for value in values]) if as_texts else values
        columns[_OF_BAGS + name] = cells[of_row]
    for part in ("instance", "instance_label"):
        if _PARTS[part] in record.fields:
            columns[part] = record.fields[_PARTS[part]]
    clash = sorted(set(columns) & set(record.feature_names()))
    if clash:
        raise ContentError(
            f"a feature has the name {clash[0]!r}, which this format uses for its own column; "
            "rename the feature or save as .npz."
        )
    return columns


def _cell(value: Any) -> str:
    if not isinstance(value, (int, float, np.number, np.bool_)):
        return str(value)
    return "" if value != value else number_text(value)


# -- Parquet -------------------------------------------------------------------------------------


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            f"{path}: Parquet files need pyarrow; install it with pip install 'milearn[frames]', "
            "or use .csv or .npz."
        ) from error
    return pyarrow


def open_parquet(path: Path) -> Any:
    """A Parquet file as a checked table of pyarrow."""
    arrow = _pyarrow(path)
    check_not_empty(path.stat().st_size)
    try:
        table = arrow.parquet.read_table(str(path))
        # Full validation: otherwise invalid text only raises an error when it is converted.
        table.validate(full=True)
        check_header(table.column_names)  # which raises for names that are not text
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ContentError(
            "the Parquet file cannot be read; it is truncated or not a Parquet file, fetch or save "
            "it again."
        ) from error
    return table


def read_parquet(path: Path, *, missing: str = "error", **options: Any) -> BagRecord:
    """Read a Parquet table with pyarrow."""
    table = open_parquet(path)
    columns = _Columns(list(table.column_names), options)
    if table.num_rows == 0:
        raise ContentError(NOTHING)
    kinds, only = _pyarrow(path).types, len(columns.features) == 1
    nested = kinds.is_nested
    texts = _texts(table.column(columns.features[0]), kinds, columns.names[0]) if only else None
    values = [
        _feature(table.column(column), name, missing, kinds)
        for column, name in zip(columns.features, columns.names, strict=True)
        if texts is None
    ]
    kept = {
        part: _entries(table.column(column), table.column_names[column], part, nested)
        for part, column in columns.parts.items()
    }
    if texts is None:
        return columns.record(np.column_stack(values), kept)
    # The numbers of the rows as the only feature show in which order the texts are in the bags.
    record = columns.record(np.arange(float(len(texts)))[:, np.newaxis], kept)
    rows = record.bags.instances[:, 0].astype(np.intp)
    record.bags = bags_of_texts(record.bags, [texts[row] for row in rows])
    return record


def _is_text(column: Any, kinds: Any) -> bool:
    return bool(kinds.is_string(column.type) or kinds.is_large_string(column.type))


def _texts(column: Any, kinds: Any, name: str) -> list[str] | None:
    """The texts of a column; None for other values."""
    if not _is_text(column, kinds):
        return None
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise ContentError(
            f"row {row + 1}, column {name!r}: the text is missing; fill it in, or leave the row "
            "out."
        )
    return list(column.to_pylist())


def _feature(column: Any, name: str, missing: str, kinds: Any) -> np.ndarray:
    if _is_text(column, kinds):
        raise ContentError(
            f"the column {name!r} holds text, which bags hold only without columns of numbers; "
            "encode it before reading, or leave it out."
        )
    try:
        values = column.to_numpy()
        if values.dtype != np.float32:
            values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ContentError(
            f"the column {name!r} does not hold numbers; encode it before reading, or leave it out."
        ) from error
    gaps = np.flatnonzero(~np.isfinite(values))
    if len(gaps) and (missing == "error" or np.isinf(values).any()):
        raise ContentError(
            f"row {gaps[0] + 1}, column {name!r}: the value is missing or not finite; fill it in, "
            "or pass missing='nan' and impute before fitting."
        )
    return values


def _entries(column: Any, name: str, part: str, nested: Callable[[Any], bool]) -> list[Any]:
    if nested(column.type):
        raise ContentError(
            f"the column {name!r} for {part}= holds values of the type {column.type}; bags, labels "
            "and instances are named by numbers or texts."
        )
    # NaN differs from itself, so that an unlabelled bag would seem to have two labels.
    values = column.to_pylist()
    return [None if value != value else value for value in values] if part == "label" else values


def write_parquet(path: Path, record: BagRecord, file: BinaryIO) -> None:
    """Write the table of :func:`write_csv` as Parquet, feature columns in their own type."""
    arrow = _pyarrow(path)
    columns = _columns_of(record, as_texts=False)
    columns |= dict(zip(record.feature_names(), record.bags.instances.T, strict=True))
    arrow.parquet.write_table(arrow.table({k: arrow.array(v) for k, v in columns.items()}), file)
