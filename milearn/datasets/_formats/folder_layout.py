"""Where a folder keeps the arrays of its bags, and the table of their labels, groups and splits."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..._bags.coerce import is_missing
from .._errors import BagFileError
from .bag_files import SUFFIXES
from .record import read_text
from .table import open_parquet

__all__ = ["BagFiles", "BagTable", "Place", "find_bags", "read_bag_table"]

# Names under which the columns of a table are recognised, the surest first.
_COLUMNS = {
    "bag": (
        "bag",
        "bag_name",
        "bag_id",
        "slide_id",
        "slide",
        "filename",
        "file",
        "image_id",
        "name",
        "id",
    ),
    "label": ("label", "bag_label", "target"),
    "group": ("group", "case_id", "patient_id", "patient", "case", "donor"),
    "split": ("split",),
}
_INSTANCE_LABELS = ("inst_labels", "patch_labels", "instance_labels")


class Place(NamedTuple):
    """A file and the name of an array in it; ``sure`` when its absence is an error."""

    path: Path
    name: str
    sure: bool = True


@dataclass
class BagFiles:
    """The places of each part of a bag, of which the first that exists counts."""

    name: str
    features: list[Place]
    coords: list[Place] = field(default_factory=list)
    instance_labels: list[Place] = field(default_factory=list)
    label: list[Place] = field(default_factory=list)


class BagTable(NamedTuple):
    """Columns of a table with one row per bag; None for a column that is not there."""

    bags: list[str]
    label: list[Any] | None
    group: list[Any] | None
    split: list[Any] | None
    problems: list[tuple[str, str]]


def find_bags(path: Path, key: str, coords: str | None) -> tuple[list[BagFiles], Path | None]:
    """The bags of a folder sorted by name, and the table of splits that belongs to it.

    Raises
    ------
    BagFileError
        For a folder without bags, or two files for one bag.
    """
    if (path / "features").is_dir():
        return _parallel_folders(path, key, coords)
    h5, pt = path / "h5_files", path / "pt_files"
    if h5.is_dir() or pt.is_dir():
        return _clam_folders(h5, pt, key, coords), None
    files = _files(path)
    if not files:
        inside = [folder.name for folder in _folders(path) if _files(folder)]
        raise BagFileError(
            f"{path}: there is no file of a bag ({', '.join(SUFFIXES)}) in this folder; "
            + (f"pass one of its folders: {', '.join(inside[:8])}." if inside else "check it.")
        )
    return [
        BagFiles(name, [Place(file, key)], [] if coords is None else [Place(file, coords, False)])
        for name, file in files.items()
    ], None


def _clam_folders(h5: Path, pt: Path, key: str, coords: str | None) -> list[BagFiles]:
    """CLAM keeps the features in both folders, or in pt_files alone, and the coordinates in h5."""
    in_h5 = _files(h5) if h5.is_dir() else {}
    in_pt = _files(pt) if pt.is_dir() else {}
    if not in_h5 and not in_pt:
        raise BagFileError(f"{h5.parent}: h5_files and pt_files hold no file of a bag; check them.")
    bags = []
    for name in sorted({*in_h5, *in_pt}):
        places = [Place(in_h5[name], key, name not in in_pt)] if name in in_h5 else []
        places += [Place(in_pt[name], key)] if name in in_pt else []
        bag = BagFiles(name, places)
        if coords is not None and name in in_h5:
            bag.coords.append(Place(in_h5[name], coords, False))
        bags.append(bag)
    return bags


def _parallel_folders(
    path: Path, key: str, coords: str | None
) -> tuple[list[BagFiles], Path | None]:
    """One folder per part of the bags, as torchmil keeps them, and splits.csv beside them."""
    features = path / "features"
    files = _files(features)
    if not files:
        inside = [folder for folder in _folders(features) if _files(folder)]
        if len(inside) != 1:
            raise BagFileError(
                f"{features}: there is no file of a bag in this folder, and "
                + (
                    f"several folders of bags ({', '.join(f.name for f in inside[:8])}); pass one "
                    "of them."
                    if inside
                    else "no folder of such files; check it."
                )
            )
        files = _files(inside[0])
    labels = _files(path / "labels") if (path / "labels").is_dir() else None
    positions = _files(path / "coords") if (path / "coords").is_dir() else None
    instance_folder = next((path / n for n in _INSTANCE_LABELS if (path / n).is_dir()), None)
    instance_labels = None if instance_folder is None else _files(instance_folder)

    def place(found: dict[str, Path] | None, folder: str, name: str, array: str) -> list[Place]:
        if found is None:
            return []
        # A path that is not there: the error then names the file that is missing.
        return [Place(found.get(name, path / folder / f"{name}{files[name].suffix}"), array)]

    bags = []
    for name, file in files.items():
        bag = BagFiles(name, [Place(file, key)])
        if coords is not None:
            bag.coords = place(positions, "coords", name, coords) or [Place(file, coords, False)]
        bag.label = place(labels, "labels", name, "labels")
        if instance_folder is not None:
            bag.instance_labels = place(
                instance_labels, instance_folder.name, name, instance_folder.name
            )
        bags.append(bag)
    tables = [folder / "splits.csv" for folder in (path, path.parent)]
    return bags, next((table for table in tables if table.is_file()), None)


def _files(folder: Path) -> dict[str, Path]:
    """Files of bags in a folder, by the name of their bag, sorted."""
    found: dict[str, Path] = {}
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if not e.name.startswith(".") and e.is_file())
    for name in names:
        file = folder / name
        if file.suffix.lower() not in SUFFIXES:
            continue
        if file.stem in found:
            raise BagFileError(
                f"{folder}: {found[file.stem].name!r} and {name!r} are two files for one bag; "
                "keep the files of one format in a folder."
            )
        found[file.stem] = file
    return dict(sorted(found.items()))


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir())


# -- the table ---------------------------------------------------------------------------------


def read_bag_table(
    table: Any, names: Sequence[str], asked: dict[str, str | None], folder: Path
) -> BagTable:
    """The rows of a table that belong to the bags ``names``; other rows are problems.

    Parameters
    ----------
    table : path-like or data frame
    names : sequence of str
        Stems of the files.
    asked : dict
        The column for each of "bag", "label", "group" and "split", None to recognise it.
    folder : Path
        The folder of the bags, named in errors when the table has no path.

    Raises
    ------
    BagFileError
        For a file that is no table, an unknown column, and a column that names no file at all.
    """
    where, columns = _columns(table, folder)
    chosen = {part: _chosen(where, columns, part, asked[part]) for part in ("label", "group")}
    chosen["split"] = _chosen(where, columns, "split", asked["split"])
    rows = _bag_of_each_row(where, columns, asked["bag"], names)
    kept: list[int] = []
    problems: list[tuple[str, str]] = []
    seen: set[str] = set()
    known = set(names)
    for row, bag in enumerate(rows):
        if bag is None:
            problems.append((f"row {row + 1} of the table", "it names no bag"))
        elif bag in seen:
            problems.append((bag, "the table has two rows for it"))
        elif bag not in known:
            problems.append((bag, "there is no file for this row of the table"))
        else:
            kept.append(row)
        seen.add(bag or "")
    problems += [(n, "the table has no row for this file") for n in names if n not in seen]
    out: dict[str, Any] = {}
    for part, column in chosen.items():
        out[part] = None if column is None else [columns[column][row] for row in kept]
        if part == "label" or column is None:
            continue
        problems += [
            (str(rows[row]), f"the column {column!r} for {part}= is empty")
            for row in kept
            if is_missing(columns[column][row]) or str(columns[column][row]).strip() == ""
        ]
    return BagTable([str(rows[row]) for row in kept], **out, problems=problems)


def _columns(table: Any, folder: Path) -> tuple[str, dict[str, list[Any]]]:
    if hasattr(table, "columns"):
        if hasattr(table, "reset_index") and any(name is not None for name in table.index.names):
            table = table.reset_index()
        names = [str(name) for name in table.columns]
        _refuse_doubled("the table", names)
        return f"{folder}: the table", {
            str(name): list(table[name].to_list()) for name in table.columns
        }
    path = Path(table)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such table; check the path.")
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        found = open_parquet(path)
        _refuse_doubled(str(path), found.column_names)
        return str(path), {name: found.column(name).to_pylist() for name in found.column_names}
    if suffix not in (".csv", ".tsv"):
        raise BagFileError(
            f"{path}: a table is a .csv, .tsv or .parquet file or a data frame, not {suffix!r}."
        )
    reader = csv.reader(
        io.StringIO(read_text(path)), delimiter="\t" if suffix == ".tsv" else ",", strict=True
    )
    try:
        lines = [[cell.strip() for cell in cells] for cells in reader if any(map(str.strip, cells))]
    except csv.Error as error:
        raise BagFileError(
            f"{path}: line {reader.line_num} is not valid CSV ({error}); the line is damaged."
        ) from error
    header, rows = lines[0], lines[1:]
    _refuse_doubled(str(path), header)
    for row, cells in enumerate(rows):
        if len(cells) != len(header):
            raise BagFileError(
                f"{path}: row {row + 1} has {len(cells)} columns but the header has {len(header)}; "
                "the row is damaged or the file truncated."
            )
    return str(path), {name: [cells[at] for cells in rows] for at, name in enumerate(header)}


def _refuse_doubled(where: str, names: Sequence[str]) -> None:
    doubled = next((name for name in names if list(names).count(name) > 1), None)
    if doubled is not None:
        raise BagFileError(f"{where}: two columns have the name {doubled!r}; rename one.")


def _chosen(where: str, columns: dict[str, Any], part: str, asked: str | None) -> str | None:
    if asked is None:
        return next((name for name in _COLUMNS[part] if name in columns), None)
    if asked not in columns:
        raise BagFileError(
            f"{where}: there is no column {asked!r} for {part}= among "
            f"{', '.join(map(repr, list(columns)[:8]))}."
        )
    return asked


def _bag_of_each_row(
    where: str, columns: dict[str, list[Any]], asked: str | None, names: Sequence[str]
) -> list[str | None]:
    """The bag of each row: of several columns that may name bags the one that names most files."""
    asked = asked if asked is None else _chosen(where, columns, "bag", asked)
    candidates = [name for name in _COLUMNS["bag"] if name in columns] if asked is None else [asked]
    if not candidates:
        raise BagFileError(
            f"{where}: no column among {', '.join(map(repr, list(columns)[:8]))} is known to name "
            "the bags; name it with bag=."
        )
    known = set(names)
    best: list[str | None] = []
    most, of = 0, ""
    for name in candidates:
        found = [_bag_name(value, known) for value in columns[name]]
        hits = len(known.intersection(text for text in found if text is not None))
        if hits > most:
            best, most, of = found, hits, name
    if not of:
        raise BagFileError(
            f"{where}: no value of {' or '.join(map(repr, candidates))} is the name of a file "
            f"({', '.join(map(repr, list(names)[:3]))}, ...); name the column of the bags with "
            "bag=."
        )
    return best


def _bag_name(value: Any, known: set[str]) -> str | None:
    """A cell as the name of a bag, without the folder and the suffix that files do not have."""
    if is_missing(value) or str(value).strip() == "":
        return None
    # A column of whole numbers with a gap comes as floats from pandas.
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    text = text.strip()
    shorter = (text, Path(text).name, Path(text).stem)
    return next((name for name in shorter if name in known), text)
