"""Layouts of folders of bags, and the table of their labels, groups and splits."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..._bags.canonical import is_missing
from .._errors import BagFileError, ContentError, naming
from .bag_files import SUFFIXES
from .table import open_parquet
from .text import check_column, check_header, check_width, csv_rows, listed

# Names of the recognised columns of a table, in the order of preference.
_BAG_COLUMNS = "bag bag_name bag_id slide_id slide filename file image_id name id"
_COLUMNS = {
    "bag": tuple(_BAG_COLUMNS.split()),
    "label": ("label", "bag_label", "target"),
    "group": ("group", "case_id", "patient_id", "patient", "case", "donor"),
    "split": ("split",),
}
# Words for an observed event and for a censored bag.
_EVENTS = dict.fromkeys(("1", "true", "yes"), True) | dict.fromkeys(("0", "false", "no"), False)
_INSTANCE_LABELS = ("inst_labels", "patch_labels", "instance_labels")


class Place(NamedTuple):
    """A file and the name of an array in it; ``sure`` if its absence is an error."""

    path: Path
    name: str
    sure: bool = True


class BagFiles(NamedTuple):
    """The possible places of each part of a bag, of which the first existing one is used."""

    name: str
    parts: dict[str, list[Place]]


class BagRow(NamedTuple):
    """A row of the table: those of "label", "group" and "split" that it has, and all columns.

    The label of a bag in survival analysis is a tuple of its event and its time.
    """

    parts: dict[str, Any]
    columns: dict[str, Any]


def find_bags(path: Path, key: str, coords: str | None) -> tuple[list[BagFiles], Path | None]:
    """The bags of a folder sorted by name, and its table of splits."""
    if (path / "features").is_dir():
        tables = [folder / "splits.csv" for folder in (path, path.parent)]
        bags = _parallel_folders(path, key, coords)
        return bags, next((table for table in tables if table.is_file()), None)
    if (path / "h5_files").is_dir() or (path / "pt_files").is_dir():
        return _clam_folders(path, key, coords), None
    return _bags_of(_some_files(path), key, coords), None


def _bags_of(files: dict[str, Path], key: str, coords: str | None) -> list[BagFiles]:
    """Bags whose positions, if there are any, are in the file of the features."""
    return [
        BagFiles(
            name,
            {
                "features": [Place(file, key)],
                "coords": [] if coords is None else [Place(file, coords, False)],
            },
        )
        for name, file in sorted(files.items())
    ]


def _clam_folders(path: Path, key: str, coords: str | None) -> list[BagFiles]:
    """CLAM: features in both folders or only in pt_files, and coordinates in h5_files."""
    h5, pt = _files(path / "h5_files"), _files(path / "pt_files")
    if not h5 and not pt:
        raise BagFileError(f"{path}: h5_files and pt_files hold no file of a bag; check them.")
    bags = _bags_of({**pt, **h5}, key, coords)
    for bag in bags:
        if bag.name in h5 and bag.name in pt:
            bag.parts["features"] = [Place(h5[bag.name], key, False), Place(pt[bag.name], key)]
    return bags


def _parallel_folders(path: Path, key: str, coords: str | None) -> list[BagFiles]:
    """torchmil: one folder per part of the bags."""
    features = path / "features"
    inside = _folders_of_bags(features)
    nested = len(inside) == 1 and not _files(features)
    files = _some_files(inside[0] if nested else features)
    bags = _bags_of(files, key, coords)
    inner = next((name for name in _INSTANCE_LABELS if (path / name).is_dir()), None)
    for part, folder, array in (
        ("label", "labels", "labels"),
        ("coords", "coords", coords),
        ("instance_labels", inner, inner),
    ):
        if folder is None or array is None or not (path / folder).is_dir():
            continue
        found = _files(path / folder)
        for bag in bags:
            # A path that does not exist, so that the error contains the missing file.
            missing = path / folder / f"{bag.name}{files[bag.name].suffix}"
            bag.parts[part] = [Place(found.get(bag.name, missing), array)]
    return bags


def _some_files(path: Path) -> dict[str, Path]:
    found = _files(path)
    if not found:
        inside = ", ".join(folder.name for folder in _folders_of_bags(path)[:8])
        raise BagFileError(
            f"{path}: there is no file of a bag ({', '.join(SUFFIXES)}) in this folder; "
            + (f"pass one of its folders: {inside}." if inside else "check it.")
        )
    return found


def _files(folder: Path) -> dict[str, Path]:
    """Files of bags in a folder, by the name of the bag."""
    found: dict[str, Path] = {}
    if not folder.is_dir():
        return found
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if not e.name.startswith(".") and e.is_file())
    for file in map(folder.joinpath, names):
        if file.suffix.lower() not in SUFFIXES:
            continue
        if file.stem in found:
            raise BagFileError(
                f"{folder}: {found[file.stem].name!r} and {file.name!r} are two files for one bag; "
                "keep the files of one format in a folder."
            )
        found[file.stem] = file
    return found


def _folders_of_bags(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and _files(entry))


# -- the table ---------------------------------------------------------------------------------


def read_bag_table(
    table: Any, names: Sequence[str], asked: dict[str, Any], folder: Path
) -> tuple[dict[str, BagRow], list[tuple[str, str]]]:
    """The rows of a table for the bags ``names``, in their order, and problems of bags.

    Parameters
    ----------
    table : path-like or data frame
    names : sequence of str
        Stems of the files.
    asked : dict
        The column for each of "bag", "label", "group" and "split", None to recognise it; for
        "label" also two columns, the event and the time of an outcome.
    folder : Path
        The folder of the bags, for error messages if the table has no path.
    """
    is_frame = hasattr(table, "columns")
    with naming(f"{folder}: the table" if is_frame else table):
        columns = _frame_columns(table) if is_frame else _file_columns(Path(table))
        chosen = {part: _chosen(columns, part, asked[part]) for part in ("label", "group", "split")}
        bags = _bag_of_each_row(columns, asked["bag"], names)
    rows: dict[str, BagRow] = {}
    problems: list[tuple[str, str]] = []
    known = set(names)
    for at, bag in enumerate(bags):
        if bag is None:
            problems.append((f"row {at + 1} of the table", "it names no bag"))
        elif bag in rows:
            problems.append((bag, "the table has two rows for it"))
        elif bag not in known:
            problems.append((bag, "there is no file for this row of the table"))
        else:
            rows[bag] = BagRow({}, {name: cells[at] for name, cells in columns.items()})
            for part, column in chosen.items():
                if column is not None:
                    rows[bag].parts[part], problem = _cell(part, column, rows[bag].columns)
                    problems += [(bag, problem)] if problem else []
    problems += [(name, "the table has no row for this file") for name in names if name not in rows]
    return rows, problems


def _cell(part: str, column: Any, cells: dict[str, Any]) -> tuple[Any, str | None]:
    """The entry of a bag for a part, and what is wrong with it."""
    if isinstance(column, tuple):
        return _outcome(column, *(cells[name] for name in column))
    empty = part != "label" and _is_empty(cells[column])
    return cells[column], f"the column {column!r} for {part}= is empty" if empty else None


def _outcome(names: tuple[str, str], event: Any, time: Any) -> tuple[Any, str | None]:
    word = str(event).strip().lower()
    with contextlib.suppress(ValueError):
        # pandas reads a column of integers with a missing value as floats.
        word = f"{float(word):g}"
    if word not in _EVENTS:
        return None, f"the column {names[0]!r} holds {event!r} instead of 0 or 1"
    try:
        value = float(time)
    except (TypeError, ValueError):
        value = math.nan
    wrong = f"the column {names[1]!r} holds {time!r}, which is not a time"
    return (_EVENTS[word], value), None if math.isfinite(value) else wrong


def _frame_columns(table: Any) -> dict[str, list[Any]]:
    if hasattr(table, "reset_index") and any(name is not None for name in table.index.names):
        table = table.reset_index()
    check_header([str(name) for name in table.columns])
    return {str(name): list(table[name].to_list()) for name in table.columns}


def _file_columns(path: Path) -> dict[str, list[Any]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such table; check the path.")
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        found = open_parquet(path)
        return {name: found.column(name).to_pylist() for name in found.column_names}
    if suffix not in (".csv", ".tsv"):
        raise ContentError(
            f"a table is a .csv, .tsv or .parquet file or a data frame, not {suffix!r}."
        )
    lines = csv_rows(path, "\t" if suffix == ".tsv" else ",")
    header, *rows = ([cell.strip() for cell in cells] for _, cells in lines)
    check_header(header)
    for row, cells in enumerate(rows, start=1):
        check_width(cells, len(header), f"row {row}", "columns but the header has")
    return {name: [cells[at] for cells in rows] for at, name in enumerate(header)}


def _chosen(columns: dict[str, Any], part: str, asked: Any) -> Any:
    if asked is None:
        return next((name for name in _COLUMNS[part] if name in columns), None)
    if part == "label" and not isinstance(asked, str):
        if len(asked) != 2:
            raise ContentError(
                f"label={asked!r} has {len(asked)} columns; pass one column, or two of them, the "
                "event and the time."
            )
        return tuple(_chosen(columns, part, name) for name in asked)
    check_column(asked, part, list(columns))
    return asked


def _bag_of_each_row(
    columns: dict[str, list[Any]], asked: str | None, names: Sequence[str]
) -> list[str | None]:
    """The bag of each row, from the column that contains most names of files."""
    asked = asked if asked is None else _chosen(columns, "bag", asked)
    candidates = [name for name in _COLUMNS["bag"] if name in columns] if asked is None else [asked]
    if not candidates:
        raise ContentError(
            f"no column among {listed(list(columns))} is known to name the bags; name it with bag=."
        )
    known = set(names)
    found = [[_bag_name(value, known) for value in columns[name]] for name in candidates]
    hits = [len(known.intersection(column)) for column in found]
    if not max(hits):
        raise ContentError(
            f"no value of {' or '.join(map(repr, candidates))} is the name of a file "
            f"({', '.join(map(repr, list(names)[:3]))}, ...); name the column of the bags with "
            "bag=."
        )
    return found[hits.index(max(hits))]


def _is_empty(value: Any) -> bool:
    return is_missing(value) or str(value).strip() == ""


def _bag_name(value: Any, known: set[str]) -> str | None:
    """A cell as the name of a bag, without folder and suffix unless files have them."""
    if _is_empty(value):
        return None
    # pandas reads a column of integers with a missing value as floats.
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    text = text.strip()
    shorter = (text, Path(text).name, Path(text).stem)
    return next((name for name in shorter if name in known), text)
