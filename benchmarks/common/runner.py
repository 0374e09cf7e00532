"""Tasks that are run once: results stay in the folder of results, so that a stopped run goes on."""

from __future__ import annotations

import argparse
import hashlib
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import joblib
from sklearn.utils.parallel import Parallel, delayed
from tqdm import tqdm

from .output import UNKNOWN, Page, kept_page, say

RESULTS = Path(__file__).resolve().parents[1] / "results"
_PACKAGES = ("milearn", "scikit-learn", "numpy", "scipy", "qpsolvers", "piqp", "joblib")


def add_options(parser: argparse.ArgumentParser, *, jobs: int = 0, fast: str = "") -> None:
    """``--out`` for every command; ``--jobs`` and ``--fast`` for those that have them."""
    parser.add_argument(
        "--out", type=Path, default=RESULTS, metavar="DIR", help="folder of the results"
    )
    if jobs:
        parser.add_argument(
            "--jobs", type=int, default=jobs, metavar="N", help=f"processes (default: {jobs})"
        )
    if fast:
        parser.add_argument("--fast", action="store_true", help=f"{fast}: a look, not a result")


# -- results ---------------------------------------------------------------------------------------


def memory(args: argparse.Namespace) -> joblib.Memory:
    """The cache of results; those of another state of the sources are not taken."""
    states = source_digest("milearn"), source_digest("benchmarks")
    return joblib.Memory(str(args.out / "cache" / "-".join(states)), verbose=0)


def run(
    args: argparse.Namespace,
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int | None = None,
) -> list[Any]:
    """``function(*task)`` for each task, or what an earlier run found.

    A task that fails neither ends a long run nor vanishes: its result is None, the error is said,
    and ``args.failed`` becomes true. There are ``--jobs`` processes, or one where a command has no
    such option: times of fits that run side by side say little.
    """
    cached = memory(args).cache(function)
    parallel = Parallel(jobs or getattr(args, "jobs", 1), return_as="generator", batch_size=1)
    runs = parallel(delayed(_attempt)(cached, task) for task in tasks)
    found = []
    for task, (result, error) in zip(tasks, bar(runs, len(tasks)), strict=True):
        if error:
            say(f"FAILED: {', '.join(map(str, task))}: {error}")
            args.failed = True
        found.append(result)
    return found


def _attempt(function: Callable[..., Any], task: tuple[Any, ...]) -> tuple[Any, str]:
    try:
        return function(*task), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def bar(steps: Any, total: int | None = None) -> Any:
    """A bar of progress on stderr."""
    return tqdm(steps, total=total, file=sys.stderr, mininterval=1.0)


# -- pages -----------------------------------------------------------------------------------------


@contextmanager
def recorded_page(path: Path, command: str) -> Iterator[None]:
    """What is shown and said inside is kept, with the state that it comes from."""
    versions = {"python": platform.python_version(), "processor": _processor()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    page = Page(f"python -m benchmarks {command}", _commit(), source_digest("milearn"), versions)
    with kept_page(path, page):
        yield


@cache
def source_digest(package: str) -> str:
    """Fingerprint of the source, which changes while the version stays the same."""
    total = hashlib.sha256()
    for path in sorted(Path(import_module(package).__file__ or "").parent.rglob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()[:10]


def _commit() -> str:
    """The commit of the checkout, with ``-dirty`` where files were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True)
    except OSError:  # no git here
        return UNKNOWN
    return done.stdout.strip() if done.returncode == 0 else UNKNOWN


def _processor() -> str:
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text("utf-8"))
    except OSError:  # another system
        found = None
    return found[1] if found else platform.processor() or UNKNOWN
