"""Named tables of one command: what ``paper`` and ``scale`` are made of.

A module of the folder ``papers`` or ``scales`` lists its tables in ``REPORTS``. Which modules
there are is written down in one tuple each, so that an import that fails is seen.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joblib import cpu_count

from .output import SUFFIX, UNKNOWN, add_common_options, say
from .records import RecordFile, recorded_page


@dataclass(frozen=True)
class Report:
    """One table or figure.

    Attributes
    ----------
    name : str
        As it is typed: ``zhang2009-table3``.
    title : str
        One line for the help and above the table.
    run : callable
        Takes the parsed arguments (``out``, ``fresh``, ``jobs``, ``fast``, ``repeats``), shows
        the tables and returns the exit status: 0, 1 when a task failed, 130 when it was stopped.
        ``repeats`` is None where the user leaves it to the report; with ``fast`` the report makes
        do with few repetitions and says so in what it prints. Records go to
        ``args.out / f"{name}.jsonl"``.
    """

    name: str
    title: str
    run: Callable[[argparse.Namespace], int]


def collect(folder: str, modules: Sequence[str]) -> dict[str, Report]:
    """The reports of the modules of a folder, by name."""
    reports: dict[str, Report] = {}
    for module in modules:
        for report in importlib.import_module(f"benchmarks.{folder}.{module}").REPORTS:
            if report.name in reports:
                raise ValueError(f"Two reports are named {report.name!r}.")
            reports[report.name] = report
    return reports


def add_report_options(parser: argparse.ArgumentParser, reports: dict[str, Report]) -> None:
    """The names, and the options that every report understands."""
    add_common_options(parser)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(f"{name:<26}{item.title}" for name, item in reports.items())
    parser.add_argument(
        "names",
        nargs="+",
        choices=[*reports, "all"],
        metavar="NAME",
        help="one or several of the names below, or all",
    )
    parser.add_argument(
        "--repeats", type=int, default=None, metavar="N", help="default: as the paper did"
    )
    parser.add_argument("--fast", action="store_true", help="few repetitions: a look, not a result")
    parser.add_argument(
        "--jobs", type=int, default=cpu_count(), metavar="N", help="processes (default: all cores)"
    )


def finish(records: dict[str, Any], complete: bool, file: RecordFile, wanted: int) -> int:
    """Say where the records are; the exit status of a report."""
    failed = sum("error" in record for record in records.values())
    remark = f", {failed} FAILED" if failed else ""
    say(f"records: {file.path.name} ({len(records)} of {wanted}{remark})")
    if not complete:
        return 130
    return 1 if failed else 0


def say_states(records: dict[str, Any], titles: Mapping[str, str]) -> None:
    """Which states of the package the records of each method are of, where there are several."""
    states: dict[str, set[str]] = {}
    for record in records.values():
        state = record.get("versions", {}).get("milearn_source", UNKNOWN)
        states.setdefault(record["method"], set()).add(state)
    if len(set().union(*states.values())) > 1:
        methods: dict[str, list[str]] = {}
        for name, found in states.items():
            methods.setdefault(", ".join(sorted(found)), []).append(titles[name])
        lines = [f"{found} for {' / '.join(names)}" for found, names in methods.items()]
        say(f"Source of the package: {'; '.join(lines)}.")


def run_reports(args: argparse.Namespace, reports: dict[str, Report]) -> int:
    """Run what was asked for, in order; the worst exit status counts, a stop ends it."""
    wanted = list(reports) if "all" in args.names else list(dict.fromkeys(args.names))
    worst = 0
    for name in wanted:
        report = reports[name]
        print(f"\n== {name}: {report.title}" + (" (fast: few repetitions)" if args.fast else ""))
        words = [args.command, name, *(["--fast"] if args.fast else [])]
        if args.repeats is not None:
            words += ["--repeats", str(args.repeats)]
        with recorded_page(args.out / f"{name}{SUFFIX}", " ".join(words)):
            if args.fast:
                say("--fast: few repetitions, a look and not a result.\n")
            status = report.run(args)
        if status == 130:
            return status
        worst = max(worst, status)
    return worst
