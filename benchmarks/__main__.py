"""``python -m benchmarks <command>``."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Sequence

# Folds run side by side and their matrices are small: threads inside BLAS would only get into
# each other's way. It must stand before NumPy is imported; a value of the user's own counts.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# A command is a module with HELP, add_arguments(parser) and main(args) -> exit status.
COMMANDS = (
    "quick",
    "speed",
    "classical",
    "stored-folds",
    "needles",
    "repertoires",
    "calibration",
    "automatic",
    "paper",
    "scale",
    "ratios",
    "survival",
    "goals",
    "report",
)

# Those without a page of their own; each report of "paper" and "scale" has one.
WITHOUT_PAGE = ("paper", "scale", "report")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Benchmarks of milearn. Results are JSON lines, written as they come: a "
        "command that was stopped goes on where it was when it is called again.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name in COMMANDS:
        module = importlib.import_module(f"benchmarks.commands.{name.replace('-', '_')}")
        sub = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(sub)
        sub.set_defaults(main=module.main)
    return parser


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(argv)
    if args.command in WITHOUT_PAGE:
        return args.main(args)
    from .common.output import SUFFIX
    from .common.records import recorded_page

    with recorded_page(args.out / f"{args.command}{SUFFIX}", typed(argv)):
        return args.main(args)


def typed(argv: Sequence[str]) -> str:
    """The command line without the options that do not matter for the result."""
    words, skip = [], False
    for word in argv:
        if not skip and not word.startswith("--out=") and word not in ("--out", "--fresh"):
            words.append(word)
        skip = not skip and word == "--out"
    return shlex.join(words)


if __name__ == "__main__":
    sys.exit(main())
