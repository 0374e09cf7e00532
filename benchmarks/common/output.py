"""Tables and notes that commands print, kept in JSON as the pages of report and guide.

A command prints its tables by :func:`show` and its notes by :func:`say`. Inside of
:func:`kept_page` both also enter the page, which is written when the block ends. No other package
is imported: the documentation reads these files too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

SUFFIX = ".tables.json"
UNKNOWN = "not recorded"
RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True)
class Table:
    """Cells as they are printed, what they are about and what has to be said of them.

    Parameters
    ----------
    columns : sequence of str
    rows : sequence of rows, each one cell per column
    align : str, default=None
        One letter per column, ``l`` or ``r``; by default the first is left, the others right.
    title : str, default=""
        Printed above.
    note : str, default=""
        What follows the table.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str | None = None
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        align = self.align or "l" + "r" * (len(self.columns) - 1)
        if len(align) != len(self.columns):
            raise ValueError(f"align has {len(align)} letters for {len(self.columns)} columns.")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"A row has {len(row)} cells for {len(self.columns)} columns: {list(row)}."
                )
        object.__setattr__(self, "align", align)

    def __str__(self) -> str:
        """Columns as wide as their widest cell, two spaces between them, a rule under the header.

        Lines have no trailing blanks. Title and note are no part of it.
        """
        align = self.align or ""
        widths = [
            max(len(cell) for cell in column)
            for column in zip(self.columns, *self.rows, strict=True)
        ]

        def line(cells: Sequence[str]) -> str:
            padded = [
                cell.ljust(width) if side == "l" else cell.rjust(width)
                for cell, width, side in zip(cells, widths, align, strict=True)
            ]
            return "  ".join(padded).rstrip()

        rule = "  ".join("-" * width for width in widths).rstrip()
        return "\n".join([line(self.columns), rule, *(line(row) for row in self.rows)])


def percent(mean: float, sd: float | None = None) -> str:
    """``0.8714, 0.021`` as ``87.1 +- 2.1``."""
    return f"{100 * mean:.1f}" if sd is None else f"{100 * mean:.1f} +- {100 * sd:4.1f}"


def duration(seconds: float) -> str:
    """Three digits, in the unit that suits: ``3.2 ms``, ``0.81 s``, ``12.6 s``, ``249 s``."""
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.{1 if seconds < 100 else 0}f} s"


def megabytes(value: float) -> str:
    return f"{value:.0f} MB" if value >= 10 else f"{value:.1f} MB"


@dataclass
class Page:
    """Tables and notes of one run of a command.

    Attributes
    ----------
    command : str
        As it would be typed.
    commit, milearn_source : str
        State of the checkout that printed the page, and of the package that the results are of.
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

    def add_note(self, text: str) -> None:
        """A note on the last table, or on the page where there is no table yet."""
        text = text.strip("\n")
        if not self.tables:
            self.notes.append(text)
            return
        last = self.tables[-1]
        self.tables[-1] = replace(last, note=f"{last.note}\n{text}".strip("\n"))

    def text(self) -> str:
        """Everything that can be read, for a search in it."""
        cells = [
            cell for table in self.tables for row in (table.columns, *table.rows) for cell in row
        ]
        titles = [text for table in self.tables for text in (table.title, table.note)]
        return "\n".join([*self.notes, *titles, *cells])

    def write(self, path: Path) -> None:
        """Write the JSON beside its place and move it there: nobody meets half a page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".part")
        draft.write_text(_as_json(self), encoding="utf-8")
        draft.replace(path)


def _as_json(page: Page) -> str:
    def dumped(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    def of_table(table: Table) -> str:
        # A row of a table is a line: two states of a file can be compared by eye.
        rows = ",\n".join(f"    {dumped(list(row))}" for row in table.rows)
        named = {"title": table.title, "note": table.note, "columns": list(table.columns)}
        lines = [f"   {dumped(name)}: {dumped(value)}" for name, value in named.items()]
        lines += [f'   "align": {dumped(table.align)}', f'   "rows": [\n{rows}\n   ]']
        return "  {\n" + ",\n".join(lines) + "\n  }"

    names = ("command", "commit", "milearn_source", "versions", "notes")
    lines = [f" {dumped(name)}: {dumped(getattr(page, name))}" for name in names]
    tables = ",\n".join(of_table(table) for table in page.tables)
    return "{\n" + ",\n".join([*lines, f' "tables": [\n{tables}\n ]']) + "\n}\n"


def read_page(path: Path) -> Page:
    """The page of a file.

    Raises
    ------
    ValueError
        For a file that is no such page; the message names it.
    """
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
        tables = [Table(**table) for table in stated.pop("tables")]
        return Page(**stated, tables=tables)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path.name} holds no tables of a command: {error}") from error


_current: ContextVar[Page | None] = ContextVar("page", default=None)


@contextmanager
def kept_page(path: Path, page: Page) -> Iterator[Page]:
    """What is shown and said inside enters the page, which is written at the end.

    A run that breaks off leaves the file of an earlier one as it was.
    """
    token = _current.set(page)
    try:
        yield page
    finally:
        _current.reset(token)
    page.write(path)


def show(table: Table) -> None:
    """Print a table, under its title and above its note, and keep it."""
    if table.title:
        print(f"\n{table.title}")
    print(table)
    if table.note:
        print(table.note)
    page = _current.get()
    if page is not None:
        page.tables.append(table)


def say(text: str) -> None:
    """Print a note and keep it."""
    print(text)
    page = _current.get()
    if page is not None:
        page.add_note(text)


def note_sources(records: Iterable[dict[str, Any]]) -> None:
    """Keep which states of the package and which versions the results of the page are of.

    They may have been run on another computer than the one that prints the page.
    """
    page = _current.get()
    versions = [record.get("versions", {}) for record in records]
    if page is None or not versions:
        return
    found = {each.get("milearn_source", UNKNOWN) for each in versions}
    known = set() if page.milearn_source == UNKNOWN else set(page.milearn_source.split(", "))
    page.milearn_source = ", ".join(sorted(found | known))
    if isinstance(page.versions, dict):
        # The package is not always installed where its checkout runs.
        for name in page.versions.keys() - {"milearn"}:
            values = {each[name] for each in versions if name in each}
            before = set(page.versions[name].split(", ")) if known or not values else set()
            page.versions[name] = ", ".join(sorted(values | before))


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """``--out`` and ``--fresh``, the same for every command."""
    parser.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="folder of the results (default: benchmarks/results)",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="run everything again; the old results are kept as *.old",
    )


def add_recorded(parser: argparse.ArgumentParser) -> None:
    """``--recorded``, for commands whose runs are long or of several days."""
    parser.add_argument(
        "--recorded", action="store_true", help="show what earlier runs recorded, and run nothing"
    )


def short_path(path: Path) -> str:
    """The path as the user would type it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
