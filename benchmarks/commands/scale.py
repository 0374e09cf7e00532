"""``scale``: time and memory against the size of the data, with slopes."""

from __future__ import annotations

import argparse

from ..common.output import add_recorded
from ..common.reports import add_report_options, collect, run_reports

HELP = "time and memory against the size of the data, with slopes"

MODULES: tuple[str, ...] = ("estimators", "linear", "compared", "cohort", "dask")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_report_options(parser, collect("scales", MODULES))
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="which ones of 'estimators' are fitted, or which steps of 'cohort' are measured",
    )
    add_recorded(parser)
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="CPU seconds of a fit, and of a prediction, of 'estimators' (default: 60), of a "
        "step of 'cohort' (default: 1500)",
    )


def main(args: argparse.Namespace) -> int:
    if args.recorded and args.names != ["estimators"]:
        raise SystemExit(
            "--recorded is an option of 'estimators': without it, recorded runs are not repeated."
        )
    return run_reports(args, collect("scales", MODULES))
