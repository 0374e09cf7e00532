"""The package itself: code lines, what one small fit passes, and the tests."""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from ..common.output import Table, show
from ..common.runner import RESULTS

ROOT = RESULTS.parent.parent
# The tests of every way on which a label, a name or an order can be lost.
BORDERS = "tests.borders."


def house(args: argparse.Namespace) -> None:
    sizes = runpy.run_path(str(ROOT / ".ci" / "lines"))["folder_sizes"]
    folders = ("milearn", "tests", "benchmarks")
    rows = [[f"code lines, {name}", str(sizes(ROOT, name)[name])] for name in folders]
    tracer = runpy.run_path(str(ROOT / ".ci" / "trace"))
    for estimator in list(tracer["LIMITS"])[: 1 if args.fast else None]:
        found = zip(("files", "functions", "depth"), tracer["trace"](estimator), strict=True)
        rows += [[f"{name}, {estimator}", str(figure)] for name, figure in found]
    # Two workers more would import the package for seconds, for the tests of one module.
    chosen = ["-n", "0", "tests/borders/test_versions.py"] if args.fast else ["-n", "2"]
    rows += of_tests(args.out / "house.xml", chosen)
    show(Table(["", "figure"], rows))


def of_tests(report: Path, options: list[str]) -> list[list[str]]:
    """Run the tests and count."""
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *options]
    before = os.times()
    subprocess.run(command, cwd=ROOT, check=False)
    after = os.times()
    used, wall = sum(after[2:4]) - sum(before[2:4]), after.elapsed - before.elapsed
    if not report.exists():
        raise SystemExit("The tests did not run: pip install -e '.[test]'")
    cases = list(ElementTree.parse(report).iter("testcase"))
    lost = [each for each in cases if each.get("classname", "").startswith(BORDERS)]
    return [
        ["tests", str(len(cases))],
        ["tests, CPU time", f"{used:.0f} s"],
        ["tests, wall time", f"{wall:.0f} s"],
        ["tests of names, labels and orders", str(len(lost))],
        ["tests of names, labels and orders that fail", str(sum(map(_failed, lost)))],
    ]


def _failed(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


REPORTS = {
    "house": ("the package itself: code lines, functions of a fit, CPU time of tests", house)
}
