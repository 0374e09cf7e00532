"""What the commands share around a run: options, tables, the closing lines, the exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from .data import describe, load
from .methods import METHODS
from .plots import plot_accuracies
from .protocol import Summary
from .table import duration, format_table, percent

__all__ = ["add_common_options", "kept_output", "print_tables", "short_path", "write_plot"]

RESULTS = Path(__file__).resolve().parents[1] / "results"


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


def print_tables(summaries: Sequence[Summary]) -> None:
    """A table a data set; incomplete and troubled rows say so."""
    for dataset in dict.fromkeys(item.dataset for item in summaries):
        rows = [_row(item) for item in summaries if item.dataset == dataset]
        print(f"\n{describe(load(dataset))}")
        header = ["method", "accuracy %", "AUC", "fit", ""]
        print(format_table(header, rows, align="lrrrl"))


def _row(item: Summary) -> list[str]:
    remarks = []
    if item.missing:
        remarks.append(f"{item.missing} folds missing")
    if item.failed:
        remarks.append(f"{item.failed} folds FAILED")
    if item.warned:
        remarks.append(f"warnings in {item.warned} folds")
    title = METHODS[item.method].title
    if not item.folds:
        return [title, "-", "-", "-", ", ".join(remarks)]
    accuracy = percent(item.accuracy, item.sd if item.sd == item.sd else None)
    return [title, accuracy, f"{item.auc:.3f}", duration(item.fit_seconds), ", ".join(remarks)]


def write_plot(summaries: Sequence[Summary], path: Path, *, title: str, spread: str) -> None:
    """The plot, or a line that says why there is none."""
    written = plot_accuracies(summaries, path, title=title, spread=spread)
    if written is None:
        print("No plot: matplotlib is not installed (pip install 'milearn[plot]').")
    else:
        print(f"plot:    {short_path(path)}")


def short_path(path: Path) -> str:
    """The path as the user would type it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


class _Both:
    """A stream that writes to two."""

    def __init__(self, *streams: Any) -> None:
        self.streams = streams

    def write(self, text: str) -> int:
        for stream in self.streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        for stream in self.streams:
            stream.flush()

    def isatty(self) -> bool:
        return False


@contextmanager
def kept_output(path: Path) -> Iterator[None]:
    """What is printed goes to the terminal and into a file, from which ``report`` makes its page.

    The file takes its place at the end: a run that breaks off leaves the earlier one as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    try:
        with open(draft, "w", encoding="utf-8") as file, redirect_stdout(_Both(sys.stdout, file)):
            yield
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
