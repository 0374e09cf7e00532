"""``scale``: time and memory against the size of the data, with slopes."""

from __future__ import annotations

import argparse

from ..common.reports import add_report_options, collect, run_reports

HELP = "time and memory against the size of the data, with slopes"

# One module per method, and one for all of them.
MODULES: tuple[str, ...] = (
    "sizes",
    "boosting",
    "dpboost",
    "linear",
    "links",
    "m3ic",
    "misvc",
    "out_of_core",
    "sdpmil",
    "dask",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_report_options(parser, collect("scales", MODULES))


def main(args: argparse.Namespace) -> int:
    return run_reports(args, collect("scales", MODULES))
