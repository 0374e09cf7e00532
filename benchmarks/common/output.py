"""Tables and notes that commands print, kept in JSON as pages of the documentation.

A command prints its tables by :func:`show` and its notes by :func:`say`. Inside of
:func:`kept_page` both also enter the page, which is written when the block ends. No other package
is imported: the documentation reads these files too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SUFFIX = ".tables.json"
UNKNOWN = "not recorded"
_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "MB": 1.0, "MiB": 1.048576, "%": 1.0}


@dataclass
class Table:
    """Cells as they are printed, what they are about and what has to be said of them.

    Parameters
    ----------
    columns : sequence of str
    rows : sequence of rows, each one cell per column
    align : str, default=""
        One letter per column, ``l`` or ``r``; by default the first is left, the others right.
    title : str, default=""
        Printed above.
    note : str, default=""
        What follows the table.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str = ""
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        self.align = self.align or "l" + "r" * (len(self.columns) - 1)

    def __str__(self) -> str:
        """Columns as wide as their widest cell, a rule under the header, no trailing blanks."""
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join(
            "  ".join(
                cell.ljust(width) if side == "l" else cell.rjust(width)
                for cell, width, side in zip(line, widths, self.align, strict=True)
            ).rstrip()
            for line in lines
        )


def percent(mean: float, sd: float = float("nan")) -> str:
    """``0.8714, 0.021`` as ``87.1 +- 2.1``."""
    return f"{100 * mean:.1f}" if sd != sd else f"{100 * mean:.1f} +- {100 * sd:4.1f}"


def duration(seconds: float) -> str:
    """Three digits, in the unit that suits: ``3.2 ms``, ``0.81 s``, ``12.6 s``, ``249 s``."""
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.{1 if seconds < 100 else 0}f} s"


def megabytes(value: float) -> str:
    return f"{value:.0f} MB" if value >= 10 else f"{value:.1f} MB"


def number(cell: str) -> float:
    """The figure of a cell, times in seconds and memory in megabytes.

    Raises
    ------
    ValueError
        For a cell without a figure.
    """
    found = re.match(r"\s*([-+]?[\d.,]+(?:e[-+]?\d+)?)\s*(ms|s|MB|MiB|%)?(?![\w.])", cell)
    if found is None:
        raise ValueError(f"{cell!r} holds no figure.")
    return float(found[1].replace(",", "")) * _UNITS[found[2] or ""]


@dataclass
class Page:
    """Tables and notes of one run of a command.

    Attributes
    ----------
    command : str
        As it would be typed.
    commit, milearn_source : str
        State of the checkout and of the package.
    versions : dict of str, or str
        Versions that the results depend on.
    notes : list of str
        What was said before the first table.
    tables : list of Table
    """

    command: str
    commit: str = UNKNOWN
    milearn_source: str = UNKNOWN
    versions: dict[str, str] | str = UNKNOWN
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def text(self) -> str:
        """Everything that can be read, for a search in it."""
        parts = list(self.notes)
        for table in self.tables:
            parts += [table.title, table.note, *table.columns, *(c for r in table.rows for c in r)]
        return "\n".join(parts)


def read_page(path: Path) -> Page:
    """The page of a file.

    Raises
    ------
    ValueError
        For a file that is no such page; the message names it.
    """
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
        return Page(**stated | {"tables": [Table(**table) for table in stated["tables"]]})
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path.name} holds no tables of a command: {error}") from error


_pages: list[Page] = []


@contextmanager
def kept_page(path: Path, page: Page) -> Iterator[None]:
    """What is shown and said inside enters the page, which is written at the end.

    A run that breaks off leaves the file of an earlier one as it was.
    """
    _pages.append(page)
    try:
        yield
    finally:
        _pages.pop()
    path.parent.mkdir(parents=True, exist_ok=True)
    # A row of a table is a line: two states of a file can be compared by eye.
    rows: dict[str, Any] = {}

    def as_line(row: Sequence[str]) -> str:
        rows[key := f"@row {len(rows)}@"] = row
        return key

    stated = asdict(page)
    for table in stated["tables"]:
        table["rows"] = [as_line(row) for row in table["rows"]]
        table["columns"] = as_line(table["columns"])
    text = json.dumps(stated, indent=1, ensure_ascii=False)
    for key, row in rows.items():
        text = text.replace(f'"{key}"', json.dumps(list(row), ensure_ascii=False), 1)
    path.write_text(text + "\n", encoding="utf-8")


def show(table: Table) -> None:
    """Print a table, under its title and above its note, and keep it."""
    print(
        *filter(None, [f"\n{table.title}" if table.title else "", str(table), table.note]), sep="\n"
    )
    if _pages:
        _pages[-1].tables.append(table)


def say(text: str) -> None:
    """Print a note, and keep it with the last table, or with the page if there is none."""
    print(text)
    if _pages and _pages[-1].tables:
        last = _pages[-1].tables[-1]
        last.note = f"{last.note}\n{text}".strip("\n")
    elif _pages:
        _pages[-1].notes.append(text.strip("\n"))
