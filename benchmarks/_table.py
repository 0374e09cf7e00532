"""Tables for a terminal: plain ASCII, so that they survive pipes, logs and any encoding."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["duration", "format_table", "megabytes", "percent"]


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
