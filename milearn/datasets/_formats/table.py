"""Long tables, one row per instance: CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._errors import BagFileError
from .record import (
    BagRecord,
    check_distinct,
    feature_names_of,
    group_rows,
    label_texts,
    names_of_bags,
    need_dense,
    number_text,
    parse_cells,
    read_text,
    refuse_fields,
)

_HELD = ("bag_names", "target_names", "instance_names", "instance_labels")
_CHUNK = 4096  # rows of text turned into numbers at once: bounds the memory of long files


class _Columns:
    """Which column of a table plays which part; the rest are features."""

    def __init__(self, path: Path, header: list[str], options: dict[str, Any]) -> None:
        doubled = sorted({name for name in header if header.count(name) > 1})
        if doubled:
            raise BagFileError(
                f"{path}: two columns have the name {doubled[0]!r}; give the columns distinct "
                "names."
            )
        self.parts: dict[str, int] = {}
        for part in ("bag", "label", "instance", "instance_label"):
            asked = options.get(part)
            name = part if asked is None else asked
            if name in header:
                self.parts[part] = header.index(name)
            elif asked is not None or part == "bag":
                raise BagFileError(
                    f"{path}: there is no column {name!r} for {part}= among {_listed(header)}; "
                    f"name the column that holds it with {part}=."
                )
        taken = set(self.parts.values())
        self.features = [column for column in range(len(header)) if column not in taken]
        self.names = [header[column] for column in self.features]
        if not self.features:
            raise BagFileError(
                f"{path}: there is no feature column beside {_listed(header)}; check the delimiter "
                "(delimiter=) and the columns."
            )


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def read_csv(
    path: Path, *, delimiter: str = ",", missing: str = "error", **options: Any
) -> BagRecord:
    """Read a table with a header line."""
    reader = csv.reader(io.StringIO(read_text(path)), delimiter=delimiter, strict=True)
    blocks: list[np.ndarray] = []
    texts: list[list[str]] = []
    text_lines: list[int] = []
    lines: list[int] = []
    kept: dict[str, list[str]] = {}
    columns: _Columns | None = None
    width = 0

    def flush() -> None:
        assert columns is not None
        blocks.append(
            parse_cells(path, texts, columns.names, missing, lambda row: f"line {text_lines[row]}")
        )
        texts.clear()
        text_lines.clear()

    try:
        for cells in reader:
            if not cells or (len(cells) == 1 and not cells[0].strip()):
                continue
            if columns is None:
                columns = _Columns(path, [name.strip() for name in cells], options)
                width = len(cells)
                kept = {part: [] for part in columns.parts}
                continue
            if len(cells) != width:
                raise BagFileError(
                    f"{path}: line {reader.line_num} has {len(cells)} columns but the header has "
                    f"{width}; the line is damaged or the file truncated, check the delimiter."
                )
            for part, column in columns.parts.items():
                kept[part].append(cells[column].strip())
            texts.append([cells[column] for column in columns.features])
            text_lines.append(reader.line_num)
            lines.append(reader.line_num)
            if len(texts) == _CHUNK:
                flush()
    except csv.Error as error:
        raise BagFileError(
            f"{path}: line {reader.line_num} is not valid CSV ({error}); the line is damaged or "
            "the file truncated."
        ) from error
    if columns is None:
        raise BagFileError(
            f"{path}: there is not a single name of a column in it; check the file and the "
            "delimiter (delimiter=)."
        )
    if not lines:
        raise BagFileError(
            f"{path}: there is a header but not a single row; if a download was interrupted, fetch "
            "it again."
        )
    if texts:
        flush()
    return _grouped(path, np.concatenate(blocks), kept, lines, columns.names)


def _grouped(
    path: Path,
    values: np.ndarray,
    kept: dict[str, list[Any]],
    lines: list[int] | None,
    names: list[str],
) -> BagRecord:
    for row, name in enumerate(kept["bag"]):
        if name in ("", None):
            place = f"line {lines[row]}" if lines is not None else f"row {row + 1}"
            raise BagFileError(f"{path}: {place} names no bag; fill the bag column.")
    row_fields: dict[str, Any] = {}
    if "instance" in kept:
        row_fields["instance_names"] = np.array([str(name) for name in kept["instance"]])
    if "instance_label" in kept:
        row_fields["instance_labels"] = _instance_labels(kept["instance_label"])
    return group_rows(
        path,
        values,
        kept["bag"],
        kept.get("label"),
        lines=lines,
        row_fields=row_fields,
        feature_names=names,
    )


def _instance_labels(texts: list[Any]) -> np.ndarray:
    """Numbers where all are numbers, else the texts as they stand."""
    try:
        values = np.array([float(text) for text in texts])
    except (TypeError, ValueError):
        return np.array([str(text) for text in texts])
    return values.astype(np.int64) if (values == np.rint(values)).all() else values


def write_csv(path: Path, file: BinaryIO, record: BagRecord, *, delimiter: str, form: str) -> None:
    """Write one row per instance with the columns of :class:`_Columns`, features last."""
    header, columns = _table(path, record, form)
    values = record.bags.instances
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    for row, numbers in enumerate(values):
        writer.writerow([column[row] for column in columns] + [number_text(v) for v in numbers])
    text.detach()


def _table(path: Path, record: BagRecord, form: str) -> tuple[list[str], list[Any]]:
    refuse_fields(path, record, form, _HELD)
    need_dense(path, record, form)
    names = names_of_bags(record)
    check_distinct(path, names)
    of_row = record.bags.bag_index
    header, columns = ["bag"], [[names[bag] for bag in of_row]]
    if record.target is not None:
        labels = ["" if text == "?" else text for text in label_texts(record)]
        header.append("label")
        columns.append([labels[bag] for bag in of_row])
    for name, field in (("instance", "instance_names"), ("instance_label", "instance_labels")):
        if field in record.fields:
            header.append(name)
            columns.append(list(record.fields[field]))
    features = feature_names_of(record)
    clash = sorted(set(header) & set(features))
    if clash:
        raise BagFileError(
            f"{path}: a feature has the name {clash[0]!r}, which this format uses for its own "
            "column; rename the feature or save as .npz."
        )
    return header + features, columns


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
    """A Parquet file as a table of pyarrow, whose values are checked."""
    arrow = _pyarrow(path)
    if path.stat().st_size == 0:
        raise BagFileError(
            f"{path}: the file is empty; if a download was interrupted, fetch it again."
        )
    try:
        table = arrow.parquet.read_table(str(path))
        # In full: without it, bytes that are no text come to light when they are converted.
        table.validate(full=True)
        list(table.column_names)  # names that are no text raise here
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BagFileError(
            f"{path}: the Parquet file cannot be read; it is truncated or not a Parquet file, "
            "fetch or save it again."
        ) from error
    return table


def read_parquet(path: Path, *, missing: str = "error", **options: Any) -> BagRecord:
    """Read a Parquet table with pyarrow."""
    arrow = _pyarrow(path)
    table = open_parquet(path)
    header = list(table.column_names)
    columns = _Columns(path, header, options)
    if table.num_rows == 0:
        raise BagFileError(f"{path}: there is not a single instance in it; check the file.")
    blocks = []
    for column, name in zip(columns.features, columns.names, strict=True):
        try:
            block = table.column(column).to_numpy()
            if block.dtype != np.float32:
                block = block.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise BagFileError(
                f"{path}: the column {name!r} does not hold numbers; encode it before reading, or "
                "leave it out."
            ) from error
        gaps = np.flatnonzero(~np.isfinite(block))
        if len(gaps) and (missing == "error" or np.isinf(block).any()):
            raise BagFileError(
                f"{path}: row {gaps[0] + 1}, column {name!r}: the value is missing or not finite; "
                "fill it in, or pass missing='nan' and impute before fitting."
            )
        blocks.append(block)
    for part, column in columns.parts.items():
        kind = table.schema.field(column).type
        if arrow.types.is_nested(kind):
            raise BagFileError(
                f"{path}: the column {header[column]!r} for {part}= holds values of the type "
                f"{kind}; bags, labels and instances are named by numbers or texts."
            )
    kept = {part: table.column(column).to_pylist() for part, column in columns.parts.items()}
    # NaN differs from itself, so that an unlabelled bag would seem to carry two labels.
    if "label" in kept:
        kept["label"] = [None if label != label else label for label in kept["label"]]
    return _grouped(path, np.column_stack(blocks), kept, None, columns.names)


def write_parquet(path: Path, file: BinaryIO, record: BagRecord) -> None:
    """Write the table of :func:`write_csv` as Parquet, feature columns in their own type."""
    arrow = _pyarrow(path)
    header, columns = _table(path, record, "parquet")
    if record.target is not None and "target_names" not in record.fields:
        columns[1] = record.target[record.bags.bag_index]
    if "instance_labels" in record.fields:
        columns[header.index("instance_label")] = record.fields["instance_labels"]
    columns += list(record.bags.instances.T)
    arrays = [arrow.array(column) for column in columns]
    arrow.parquet.write_table(arrow.table(arrays, names=header), file)
