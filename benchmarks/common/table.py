"""Tables for a terminal: plain ASCII, so that they survive pipes, logs and any encoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Table", "duration", "megabytes", "percent"]


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
