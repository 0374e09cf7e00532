"""Options, tables and closing lines of the commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .data import describe, load
from .methods import METHODS
from .page import UNKNOWN, Page, kept_page, show
from .plots import plot_accuracies
from .protocol import Summary
from .records import commit, environment, source_digest
from .table import Table, duration, percent

__all__ = [
    "add_common_options",
    "add_recorded",
    "print_tables",
    "recorded_page",
    "short_path",
    "write_plot",
]

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


def add_recorded(parser: argparse.ArgumentParser) -> None:
    """``--recorded``, for commands whose runs are long or of several days."""
    parser.add_argument(
        "--recorded", action="store_true", help="show what earlier runs recorded, and run nothing"
    )


def print_tables(summaries: Sequence[Summary]) -> None:
    """One table per data set; incomplete and troubled rows say so."""
    for dataset in dict.fromkeys(item.dataset for item in summaries):
        rows = [_row(item) for item in summaries if item.dataset == dataset]
        columns = ["method", "accuracy %", "AUC", "fit, CPU time", "fit, wall time", ""]
        show(Table(columns, rows, "lrrrrl", title=describe(load(dataset))))


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
        return [title, "-", "-", "-", "-", ", ".join(remarks)]
    accuracy = percent(item.accuracy, item.sd if item.sd == item.sd else None)
    times = [duration(item.fit_cpu_seconds), duration(item.fit_wall_seconds)]
    return [title, accuracy, f"{item.auc:.3f}", *times, ", ".join(remarks)]


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


@contextmanager
def recorded_page(path: Path, command: str) -> Iterator[None]:
    """What is shown and said inside is kept for ``report``, with the state that it comes from."""
    page = Page(command=f"python -m benchmarks {command}", commit=commit())
    page.versions = {
        name: value for name, value in environment().items() if name != "milearn_source"
    }
    with kept_page(path, page):
        yield
        if page.milearn_source == UNKNOWN:
            page.milearn_source = source_digest()
