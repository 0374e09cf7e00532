"""Tables for a terminal: plain ASCII, so that they survive pipes, logs and any encoding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Table", "duration", "format_table", "megabytes", "percent", "read_tables"]

_RULE = re.compile(r"^-{2,}(  -+)*$")


def format_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, align: str | None = None
) -> str:
    """Columns as wide as their widest cell, two spaces between them.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of rows, each a cell a column
    align : str, default=None
        One letter a column, ``l`` or ``r``; by default the first is left, the others right.

    Returns
    -------
    str
        Lines without trailing blanks, a rule under the header.
    """
    align = align or "l" + "r" * (len(header) - 1)
    if len(align) != len(header):
        raise ValueError(f"align has {len(align)} letters for {len(header)} columns.")
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"A row has {len(row)} cells for {len(header)} columns: {list(row)}.")
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(cells, widths, align, strict=True)
        ]
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths).rstrip()
    return "\n".join([line(header), rule, *(line(row) for row in rows)])


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


@dataclass(frozen=True)
class Table:
    """What ``format_table`` wrote, cell by cell; ``right`` tells the columns of figures."""

    header: list[str]
    rows: list[list[str]]
    right: list[bool]


def read_tables(text: str) -> Iterator[str | Table]:
    """The printed text in its order: a table where a rule stands under a header, else lines."""
    lines = text.splitlines()
    plain: list[str] = []
    number = 0
    while number < len(lines):
        if number + 1 < len(lines) and _RULE.match(lines[number + 1]):
            if any(plain):
                yield "\n".join(plain).strip("\n")
            plain = []
            end = number + 2
            while end < len(lines) and lines[end].strip():
                end += 1
            yield _read_table(lines[number:end])
            number = end
        else:
            plain.append(lines[number])
            number += 1
    if any(plain):
        yield "\n".join(plain).strip("\n")


def _read_table(lines: Sequence[str]) -> Table:
    # The rule tells where each column begins and ends, so blanks inside a cell do no harm.
    columns = [match.span() for match in re.finditer(r"-+", lines[1])]
    starts = [start for start, _ in columns]
    ends = [*starts[1:], None]

    def cells(line: str) -> list[str]:
        return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]

    header, rows = cells(lines[0]), [cells(line) for line in lines[2:]]
    # A column is text when some cell of it begins where the column does and could begin later.
    # The first one names the rows.
    right = [
        start > 0
        and not any(
            line[start : start + 1].strip() and len(row[place]) < stop - start
            for line, row in zip(lines[2:], rows, strict=True)
        )
        for place, (start, stop) in enumerate(columns)
    ]
    return Table(header, rows, right if rows else [False] * len(header))
