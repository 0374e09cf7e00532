"""``all``: every command, one after the other, and the page of the report at the end."""

from __future__ import annotations

import argparse

from joblib import cpu_count

from ..common.output import add_common_options

HELP = "every command, then the report; --fast for a look at everything"

# What runs, with the options of a pass of a few minutes behind it.
STEPS: tuple[tuple[str, str], ...] = (
    ("quick", "--fast"),
    ("automatic", "--repeats 1 --folds 2 --further-folds 2 --sets mutagenesis1"),
    ("classical", "--repeats 1 --folds 2 --grid tiny --datasets musk1 elephant"),
    ("stored-folds", "--fast"),
    ("needles", "--fast"),
    ("calibration", "--fast"),
    ("speed", "--rounds 1 --datasets elephant --timeout 15"),
    ("paper all", "--fast"),
    ("scale all", "--fast"),
    ("ratios", "--only MISVC"),
    ("survival", "--fast"),
    ("goals", ""),
    ("report", ""),
)
# Commands that do not take every common option.
_NO_JOBS = {"speed", "ratios", "goals", "report"}
_NO_FRESH = {"ratios", "goals", "report"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument("--fast", action="store_true", help="few repetitions: a look, not a result")
    parser.add_argument(
        "--jobs", type=int, default=cpu_count(), metavar="N", help="processes (default: all cores)"
    )


def command_lines(args: argparse.Namespace) -> list[list[str]]:
    """The commands, as they would be typed."""
    lines = []
    for command, fast in STEPS:
        line = [*command.split(), "--out", str(args.out)]
        if args.fast:
            line += fast.split()
        if args.fresh and command not in _NO_FRESH:
            line.append("--fresh")
        if command not in _NO_JOBS:
            line += ["--jobs", str(args.jobs)]
        lines.append(line)
    return lines


def main(args: argparse.Namespace) -> int:
    from ..__main__ import main as run_command

    worst = 0
    for line in command_lines(args):
        print(f"\n#### python -m benchmarks {' '.join(line)}", flush=True)
        try:
            status = run_command(line)
        except SystemExit as error:
            # Data that are not there, for instance: the other commands can still run.
            print(error)
            status = error.code if isinstance(error.code, int) else 1
        if status == 130:
            return status
        worst = max(worst, status)
    return worst
