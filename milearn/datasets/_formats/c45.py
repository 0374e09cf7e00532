"""C4.5 files as the UCI archive keeps them: rows in ``.data``, columns in ``.names``.

The layout is that of Musk: one row per instance; a discrete column that names the bag, perhaps
another that names the instance, numeric features, and the class last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
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
    need_labels,
    number_text,
    parse_cells,
    read_text,
    refuse_fields,
)

_HELD = ("bag_names", "instance_names", "target_names")


@dataclass
class _Names:
    """What a ``.names`` file declares, or what is assumed without one."""

    classes: list[str] | None = None
    columns: list[str] = field(default_factory=list)
    discrete: list[int] = field(default_factory=list)
    ignored: list[int] = field(default_factory=list)
    source: str = ""


def read_c45(
    path: Path,
    *,
    names: Any = None,
    bag: str | None = None,
    instance: str | None = None,
    missing: str = "error",
) -> BagRecord:
    """Read ``path`` with the ``.names`` file beside it, or the one that ``names`` says, or none."""
    rows, lines = _rows(path)
    names_path = path.with_suffix(".names") if names in (None, False) else Path(names)
    if names not in (None, False) and not names_path.exists():
        raise FileNotFoundError(f"{names_path}: there is no such file; check names=.")
    if names is not False and names_path.exists():
        declared = _read_names(names_path)
    else:
        declared = _assumed(path, len(rows[0]))
    width = len(declared.columns) + 1
    for cells, line in zip(rows, lines, strict=True):
        if len(cells) != width:
            raise BagFileError(
                f"{path}: line {line} has {len(cells)} columns but {declared.source} has {width}; "
                "the line is damaged or the file truncated."
            )
    bag_column, instance_column = _roles(path, declared, bag, instance)
    taken = {bag_column, instance_column, *declared.ignored}
    for column in declared.discrete:
        if column not in taken:
            raise BagFileError(
                f"{names_path}: the discrete column {declared.columns[column]!r} is no feature, "
                "and bag and instance are named already; encode it as numbers or declare it "
                "'ignore'."
            )
    features = [column for column in range(width - 1) if column not in taken]
    values = parse_cells(
        path,
        [[cells[column] for column in features] for cells in rows],
        [declared.columns[column] for column in features],
        missing,
        lambda row: f"line {lines[row]}",
    )
    labels = [cells[-1] for cells in rows]
    if declared.classes is not None:
        for label, line in zip(labels, lines, strict=True):
            if label not in declared.classes and label != "?":
                raise BagFileError(
                    f"{path}: line {line} has the class {label!r}, which is not among "
                    f"{', '.join(declared.classes)} of {names_path.name}; correct one of the two."
                )
    row_fields = {}
    if instance_column is not None:
        row_fields["instance_names"] = np.array([cells[instance_column] for cells in rows])
    return group_rows(
        path,
        values,
        [cells[bag_column] for cells in rows],
        labels,
        lines=lines,
        row_fields=row_fields,
        feature_names=[declared.columns[column] for column in features],
        declared=declared.classes,
    )


def _rows(path: Path) -> tuple[list[list[str]], list[int]]:
    rows, lines = [], []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        line = line.partition("|")[0].strip()
        if not line:
            continue
        cells = [cell.strip() for cell in line.split(",")]
        # A C4.5 row may end in a period, which belongs to neither the class nor a number.
        cells[-1] = cells[-1].removesuffix(".")
        rows.append(cells)
        lines.append(number)
    if not rows:
        raise BagFileError(f"{path}: there is not a single instance in it; check the file.")
    return rows, lines


def _read_names(path: Path) -> _Names:
    entries: list[str] = []
    open_entry = False
    for line in read_text(path).split("\n"):
        line = line.partition("|")[0].strip()
        if not line:
            continue
        if open_entry and ":" not in line:
            entries[-1] += " " + line
        else:
            entries.append(line)
        open_entry = not line.endswith(".")
    if not entries or ":" in entries[0]:
        raise BagFileError(
            f"{path}: the first entry must list the classes, as in '0,1.'; correct the file, or "
            "move it away to read the data without it."
        )
    found = _Names(source=path.name)
    found.classes = [name.strip() for name in entries[0].removesuffix(".").split(",")]
    for entry in entries[1:]:
        name, colon, kind = entry.removesuffix(".").partition(":")
        if not colon:
            raise BagFileError(
                f"{path}: the entry {entry[:40]!r} is not of the form 'name: type.'; correct the "
                "file, or move it away to read the data without it."
            )
        kind = kind.strip()
        if kind.lower().startswith("ignore"):
            found.ignored.append(len(found.columns))
        elif not kind.lower().startswith("continuous"):
            found.discrete.append(len(found.columns))
        found.columns.append(name.strip())
    return found


def _assumed(path: Path, width: int) -> _Names:
    if width < 4:
        raise BagFileError(
            f"{path}: line 1 has {width} columns; without a .names file the columns must be bag, "
            "instance, features, class."
        )
    return _Names(
        columns=["bag", "instance"] + [f"f{number}" for number in range(1, width - 2)],
        discrete=[0, 1],
        source="line 1",
    )


def _roles(
    path: Path, declared: _Names, bag: str | None, instance: str | None
) -> tuple[int, int | None]:
    for part, asked in (("bag", bag), ("instance", instance)):
        if asked is not None and asked not in declared.columns:
            raise BagFileError(
                f"{path}: there is no column {asked!r} for {part}= in {declared.source}; its "
                f"columns start with {', '.join(declared.columns[:4])}."
            )
    free = [c for c in declared.discrete if declared.columns[c] not in (bag, instance)]
    if bag is not None:
        bag_column = declared.columns.index(bag)
    elif free:
        bag_column = free.pop(0)
    else:
        raise BagFileError(
            f"{path}: no discrete column names the bag in {declared.source}; name the column with "
            "bag=."
        )
    if instance is not None:
        return bag_column, declared.columns.index(instance)
    return bag_column, free[0] if free else None


def write_c45(path: Path, file: BinaryIO, names_file: BinaryIO, record: BagRecord) -> None:
    """Write the rows to ``file`` and their description to ``names_file``."""
    refuse_fields(path, record, "c45", _HELD)
    need_dense(path, record, "c45")
    need_labels(path, record, "c45")
    names = names_of_bags(record)
    check_distinct(path, names)
    labels = label_texts(record)
    if record.target is not None and record.target.dtype.kind == "f":
        raise BagFileError(
            f"{path}: the format 'c45' holds classes but y holds real numbers; save as .npz, .csv "
            "or .arff."
        )
    listed = record.fields.get("target_names")
    if listed is None:
        assert record.target is not None
        listed = [number_text(v) for v in np.unique(record.target)]
    features = feature_names_of(record)
    instances = record.fields.get("instance_names")
    if instances is None:
        instances = np.arange(record.bags.n_instances)
    # Columns are cut at commas, and an entry ends at a period before the end of the line.
    for what, texts in (
        ("bag", names),
        ("instance", [str(name) for name in instances]),
        ("class", [str(name) for name in listed]),
        ("feature", features),
    ):
        for text in texts:
            if not text or text != text.strip() or re.search(r"[,:|?\n\r]|\.$", text):
                raise BagFileError(
                    f"{path}: the {what} name {text!r} cannot be written to a C4.5 file; rename it "
                    "or save as .npz."
                )
    lines = [", ".join(str(name) for name in listed) + "."]
    lines.append("bag: " + ",".join(names) + ".")
    lines.append("instance: " + ",".join(dict.fromkeys(str(name) for name in instances)) + ".")
    lines += [f"{name}: continuous." for name in features]
    names_file.write(("\n".join(lines) + "\n").encode())
    for row, bag in enumerate(record.bags.bag_index):
        cells = [names[bag], str(instances[row])]
        cells += [number_text(value) for value in record.bags.instances[row]]
        file.write((",".join([*cells, labels[bag]]) + ".\n").encode())
