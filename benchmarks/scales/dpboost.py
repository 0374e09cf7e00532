"""DPBoost: what warm starts of the linear program save."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from milearn._solvers.common.lp import LPModel
from milearn.ensemble import DPBoost

from ..common.data import load
from ..common.page import say, show
from ..common.reports import Report
from ..common.table import Table, duration

__all__ = ["REPORTS"]

GOAL = 5.0


@dataclass
class Totals:
    """CPU seconds and simplex steps over all linear programs of a fit."""

    programs: int = 0
    warm: float = 0.0
    scratch: float = 0.0
    warm_steps: int = 0
    scratch_steps: int = 0


@contextmanager
def solved_twice() -> Iterator[Totals]:
    """Every linear program is solved from its last basis and again as a new model."""
    totals = Totals()
    solve = LPModel.solve

    def both(self: LPModel, **options: Any) -> Any:
        copy = self.copied()
        start = time.process_time()
        found = solve(self, **options)
        middle = time.process_time()
        again = solve(copy)
        stop = time.process_time()
        assert found is not None, "no time limit was set"
        assert again is not None, "no time limit was set"
        if abs(found.objective - again.objective) > 1e-6 * max(1.0, abs(found.objective)):
            raise AssertionError(f"{found.objective} from the basis, {again.objective} anew")
        totals.programs += 1
        totals.warm += middle - start
        totals.scratch += stop - middle
        totals.warm_steps += found.n_iter
        totals.scratch_steps += again.n_iter
        return found

    LPModel.solve = both  # type: ignore[method-assign, assignment]
    try:
        yield totals
    finally:
        LPModel.solve = solve  # type: ignore[method-assign]


def warm(args: argparse.Namespace) -> int:
    rounds = args.repeats or (1 if args.fast else 3)
    data = load("elephant")
    rows, ratios = [], []
    for _ in range(rounds):
        with solved_twice() as totals:
            start = time.process_time()
            DPBoost(C=1.0).fit(data.bags, data.y)
            whole = time.process_time() - start - totals.scratch
        ratios.append(totals.scratch / totals.warm)
        rows.append(
            [
                str(totals.programs),
                duration(totals.warm),
                duration(totals.scratch),
                f"{ratios[-1]:.1f}",
                str(totals.warm_steps),
                str(totals.scratch_steps),
                duration(whole),
                f"{(whole - totals.warm + totals.scratch) / whole:.1f}",
            ]
        )
    columns = ["programs", "warm, CPU time", "scratch, CPU time", "ratio", "steps warm"]
    columns += ["steps scratch", "fit, CPU time", "fit ratio"]
    show(Table(columns, rows, "r" * len(columns)))
    say(
        "\nDPBoost(C=1.0) on Elephant: every linear program of the fit is solved from the last "
        "basis\nand again as a new model (presolve on, HiGHS's dual simplex); both values are "
        "compared. CPU\nseconds inside HiGHS, one row per round. fit: of the whole fit with warm "
        "starts, copies of the\nprograms included; fit ratio: what the fit would take with "
        f"programs solved from scratch.\ngoal: ratio >= {GOAL:g}: "
        f"{'reached' if min(ratios) >= GOAL else 'missed'}"
    )
    return 0


REPORTS = (Report("dpboost-warm", "warm starts of DPBoost against solving from scratch", warm),)
