"""C4.5 files of the UCI archive: rows in ``.data``, columns in ``.names``.

The layout of Musk is: one row per instance; a discrete column with the bag, optionally another
column with the name of the instance, numeric features, and the class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._errors import BagFileError, ContentError, naming
from .record import BagRecord, group_rows
from .text import NOTHING, check_class, check_width, number_text, numbered_lines, parse_cells

_REMEDY = "; correct the file, or move it away to read the data without it."


@dataclass
class _Names:
    """The declarations of a ``.names`` file, or the default without one."""

    source: str
    classes: list[str] | None = None
    columns: list[str] = field(default_factory=list)
    discrete: list[int] = field(default_factory=list)
    ignored: list[int] = field(default_factory=list)


def read_c45(
    path: Path,
    *,
    names: Any = None,
    bag: str | None = None,
    instance: str | None = None,
    missing: str = "error",
) -> BagRecord:
    """Read ``path`` with its ``.names`` file, with the file ``names``, or without one."""
    rows = {line: _cells(text) for line, text in numbered_lines(path, "|")}
    if not rows:
        raise ContentError(NOTHING)
    declared, names_path = _declared(path, names, len(next(iter(rows.values()))))
    width = len(declared.columns) + 1
    for line, cells in rows.items():
        check_width(cells, width, f"line {line}", f"columns but {declared.source} has")
        remedy = f" of {names_path.name}; correct one of the two."
        check_class(cells[-1], declared.classes, line, remedy)
    bag_column, instance_column = _roles(declared, bag, instance)
    taken = {bag_column, instance_column, *declared.ignored}
    for column in declared.discrete:
        if column not in taken:
            raise BagFileError(
                f"{names_path}: the discrete column {declared.columns[column]!r} is not a feature, "
                "and bag and instance are named already; encode it as numbers or declare it "
                "'ignore'."
            )
    features = [column for column in range(width - 1) if column not in taken]
    feature_names = [declared.columns[column] for column in features]
    lines, table = list(rows), list(rows.values())
    values = parse_cells(
        [[cells[column] for column in features] for cells in table],
        feature_names,
        missing,
        lambda row: f"line {lines[row]}",
    )
    row_fields = {}
    if instance_column is not None:
        row_fields["instance_names"] = np.array([cells[instance_column] for cells in table])
    return group_rows(
        values,
        [cells[bag_column] for cells in table],
        [cells[-1] for cells in table],
        lines=lines,
        row_fields=row_fields,
        feature_names=feature_names,
        declared=declared.classes,
    )


def _cells(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.split(",")]
    # A row may end in a period, which is not part of the class or of a number.
    cells[-1] = cells[-1].removesuffix(".")
    return cells


def _declared(path: Path, names: Any, width: int) -> tuple[_Names, Path]:
    names_path = path.with_suffix(".names") if names in (None, False) else Path(names)
    if names not in (None, False) and not names_path.exists():
        raise FileNotFoundError(f"{names_path}: there is no such file; check names=.")
    if names is not False and names_path.exists():
        with naming(names_path):
            return _read_names(names_path), names_path
    if width < 4:
        raise ContentError(
            f"line 1 has {width} columns; without a .names file the columns must be bag, instance, "
            "features, class."
        )
    columns = ["bag", "instance", *(f"f{number}" for number in range(1, width - 2))]
    return _Names("line 1", columns=columns, discrete=[0, 1]), names_path


def _read_names(path: Path) -> _Names:
    entries: list[str] = []
    open_entry = False
    for _, line in numbered_lines(path, "|"):
        if open_entry and ":" not in line:
            entries[-1] += " " + line
        else:
            entries.append(line)
        open_entry = not line.endswith(".")
    if not entries or ":" in entries[0]:
        raise ContentError(f"the first entry must list the classes, as in '0,1.'{_REMEDY}")
    found = _Names(path.name, [name.strip() for name in entries[0].removesuffix(".").split(",")])
    for entry in entries[1:]:
        name, colon, kind = entry.removesuffix(".").partition(":")
        if not colon:
            raise ContentError(
                f"the entry {entry[:40]!r} is not of the form 'name: type.'{_REMEDY}"
            )
        kind = kind.strip().lower()
        if kind.startswith("ignore"):
            found.ignored.append(len(found.columns))
        elif not kind.startswith("continuous"):
            found.discrete.append(len(found.columns))
        found.columns.append(name.strip())
    return found


def _roles(declared: _Names, bag: str | None, instance: str | None) -> tuple[int, int | None]:
    """The columns of the bag and of the instance; by default, the first discrete ones."""
    for part, asked in (("bag", bag), ("instance", instance)):
        if asked is not None and asked not in declared.columns:
            raise ContentError(
                f"there is no column {asked!r} for {part}= in {declared.source}; its columns start "
                f"with {', '.join(declared.columns[:4])}."
            )
    free = [c for c in declared.discrete if declared.columns[c] not in (bag, instance)]
    if bag is not None:
        free.insert(0, declared.columns.index(bag))
    if not free:
        raise ContentError(
            f"no discrete column names the bag in {declared.source}; name the column with bag=."
        )
    if instance is not None:
        return free[0], declared.columns.index(instance)
    return free[0], free[1] if len(free) > 1 else None


def write_c45(path: Path, record: BagRecord, file: BinaryIO, names_file: BinaryIO) -> None:
    """Write the rows to ``file`` and the names of the columns to ``names_file``."""
    target: Any = record.target
    if target.dtype.kind == "f":
        raise ContentError(
            "the format 'c45' holds classes but y holds real numbers; save as .npz, .csv or .arff."
        )
    listed = record.fields.get("target_names")
    if listed is None:
        listed = [number_text(value) for value in np.unique(target)]
    texts = {
        "bag": record.bag_names(),
        "instance": list(
            map(str, record.fields.get("instance_names", range(record.bags.n_instances)))
        ),
        "class": [str(name) for name in listed],
        "feature": record.feature_names(),
    }
    # Columns are cut at commas, and an entry ends at a period before the end of the line.
    for what, names in texts.items():
        for text in names:
            if not text or text != text.strip() or re.search(r"[,:|?\n\r]|\.$", text):
                raise ContentError(
                    f"the {what} name {text!r} cannot be written to a C4.5 file; rename it or save "
                    "as .npz."
                )
    lines = [
        ", ".join(texts["class"]),
        "bag: " + ",".join(texts["bag"]),
        "instance: " + ",".join(dict.fromkeys(texts["instance"])),
        *(f"{name}: continuous" for name in texts["feature"]),
    ]
    names_file.write("".join(f"{line}.\n" for line in lines).encode())
    labels = record.label_texts()
    for row, bag in enumerate(record.bags.bag_index):
        numbers = map(number_text, record.bags.instances[row])
        cells = [texts["bag"][bag], texts["instance"][row], *numbers, labels[bag]]
        file.write((",".join(cells) + ".\n").encode())
