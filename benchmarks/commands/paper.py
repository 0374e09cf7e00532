"""``paper``: published tables again: our figure compared with the published one."""

from __future__ import annotations

import argparse

from ..common.reports import add_report_options, collect, run_reports

HELP = "published tables again: our value next to the published one"

# One module per paper.
MODULES: tuple[str, ...] = (
    "andrews2003",
    "guo2009",
    "cheung2006",
    "zhang2009",
    "zhang2011",
    "zhang2011_protein",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_report_options(parser, collect("papers", MODULES))


def main(args: argparse.Namespace) -> int:
    return run_reports(args, collect("papers", MODULES))
