"""``python -m benchmarks <command>``."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Callable
from typing import Any

# Folds run side by side and their matrices are small: threads inside BLAS would only get into
# each other's way. It must stand before NumPy is imported; a value of the user's own counts.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# A command is a module with HELP, add_arguments(parser) and main(args).
COMMANDS = (
    *(
        "quick",
        "speed",
        "classical",
        "stored-folds",
        "public",
        "needles",
        "repertoires",
        "calibration",
    ),
    *("automatic", "ratios", "survival", "goals"),
)
# These two have several tables each: modules with REPORTS, a dict of (title, function of args).
GROUPS = {
    "paper": ("andrews2003", "guo2009", "cheung2006", "zhang2009", "zhang2011"),
    "scale": ("estimators", "linear", "boosting", "links", "cohort", "coverage", "dask", "house"),
}


def reports_of(group: str) -> dict[str, tuple[str, Callable[..., Any]]]:
    """Title and function of the tables of a group, by name."""
    modules = (importlib.import_module(f"benchmarks.{group}s.{name}") for name in GROUPS[group])
    return {name: report for module in modules for name, report in module.REPORTS.items()}


def build_parser() -> argparse.ArgumentParser:
    from joblib import cpu_count

    from .common.runner import add_options

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Benchmarks of milearn. Results are kept as they come: a command that was "
        "stopped goes on where it was when it is called again.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name in COMMANDS:
        module = importlib.import_module(f"benchmarks.commands.{name.replace('-', '_')}")
        text = module.HELP.replace("%", "%%")  # argparse formats it
        sub = commands.add_parser(name, help=text, description=module.HELP)
        module.add_arguments(sub)
        sub.set_defaults(main=module.main)
    for group, words in (
        ("paper", "published tables again: our value next to the published one"),
        ("scale", "time and memory against the size of the data"),
    ):
        reports = reports_of(group)
        sub = commands.add_parser(
            group,
            help=words,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog="\n".join(f"{name:<22}{title}" for name, (title, _) in reports.items()),
        )
        add_options(sub, jobs=cpu_count() * (group == "paper"), fast="few repetitions")
        sub.add_argument("names", nargs="+", choices=list(reports), metavar="NAME")
        sub.add_argument("--repeats", type=int, metavar="N", help="default: as the paper did")
        sub.add_argument("--only", nargs="+", metavar="NAME", help="estimators, or steps of cohort")
    return parser


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(argv)
    args.failed = False
    try:
        if args.command not in GROUPS:
            _page(args, args.command, argv, args.main)
        for name in getattr(args, "names", ()):
            title, function = reports_of(args.command)[name]
            print(f"\n== {name}: {title}")
            others = [word for word in argv if word not in args.names or word == name]
            _page(args, name, others, function)
    except KeyboardInterrupt:
        print("Stopped: the same command goes on from here.", file=sys.stderr)
        return 130
    return int(args.failed)


def _page(
    args: argparse.Namespace, name: str, argv: list[str], function: Callable[..., Any]
) -> None:
    """Run a command, or one of the tables of a group, and keep its page."""
    from .common.output import SUFFIX, say
    from .common.runner import recorded_page

    # The folder of the results does not matter for them.
    pairs = zip(["", *argv], argv, strict=False)
    words = [word for last, word in pairs if last != "--out" and not word.startswith("--out")]
    with recorded_page(args.out / f"{name}{SUFFIX}", shlex.join(words)):
        if getattr(args, "fast", False):
            say("--fast: a look and not a result.\n")
        function(args)


if __name__ == "__main__":
    sys.exit(main())
