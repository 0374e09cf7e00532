"""``goals``: what the project set out to reach, compared with what its kept tables say.

The goals are in ``benchmarks/goals.toml``.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..common.output import SUFFIX, Page, Table, number, read_page, say, show

HELP = "every goal of speed, memory and accuracy, compared with the recorded table"

BENCHMARKS = Path(__file__).resolve().parents[1]
KEPT_PAGES = BENCHMARKS.parent / "docs" / "results"
GOALS: list[dict[str, Any]] = tomllib.loads((BENCHMARKS / "goals.toml").read_text("utf-8"))["goal"]
NOT_RUN = "not run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = "folder of the tables, and of the page (default: docs/results)"
    parser.add_argument("--out", type=Path, default=KEPT_PAGES, metavar="DIR", help=words)


def main(args: argparse.Namespace) -> None:
    rows = []
    for goal in GOALS:
        path = args.out / f"{goal['page']}{SUFFIX}"
        command, cells = goal["page"], ["-", NOT_RUN]
        if path.is_file():
            page = read_page(path)
            command = page.command.removeprefix("python -m benchmarks ").partition(" --")[0]
            cells = reached(goal, page)
        rows.append([goal["text"], goal["limit"], *cells, command])
    show(Table(["", "goal", "reached", "", "command"], rows, "lrrll"))
    met = sum(row[3] == "" for row in rows)
    say(
        f"{met} of {len(rows)} goals are met. The figure is the worst of those that a goal is "
        "about.\nA ratio is of two times of one run. The column of commands lacks "
        '"python -m benchmarks".'
    )


def reached(goal: dict[str, Any], page: Page) -> list[str]:
    """The figure, and why it is short of the goal."""
    _, sign, limit, *unit = goal["limit"].split()
    try:
        if "function" in goal:
            value = globals()[goal["function"]](page)
        elif "note" in goal:
            value = noted(page, goal["note"])
        else:
            worst = min if sign == "least" else max
            value = worst(
                figures(page, goal["column"], goal.get("table", ""), goal.get("rows", {}))
            )
    except ValueError:  # a shorter run of the command
        return ["-", NOT_RUN]
    met = value >= float(limit) if sign == "least" else value <= float(limit)
    shown = f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}".removesuffix(".0")
    missed = ": ".join(["missed", *([goal["reason"]] if "reason" in goal else [])])
    return [" ".join([shown, *unit]), "" if met else missed]


def rows_of(table: Table) -> Iterator[dict[str, str]]:
    for cells in table.rows:
        yield dict(zip(table.columns, cells, strict=True))


def figures(page: Page, column: str, table: str, begins: dict[str, str]) -> list[float]:
    """Those of a column, in rows whose cells begin so.

    Raises
    ------
    ValueError
        Where there are none: a goal that cannot be looked up is no goal.
    """
    for each in page.tables:
        if column in each.columns and re.search(table, f"{each.title} {each.columns[0]}"):
            found = [
                number(row[column])
                for row in rows_of(each)
                if row[column] not in ("", "-")
                and all(row[name].startswith(of) for name, of in begins.items())
            ]
            if found:
                return found
    raise ValueError(f"No figure under {column!r} counts in the tables of {page.command!r}.")


def noted(page: Page, pattern: str) -> float:
    """The figure of a note: notes count before the figures of a table are rounded."""
    matches = filter(None, (re.search(pattern, table.note) for table in page.tables))
    sums = [sum(map(float, each)) for each in zip(*(m.groups() for m in matches), strict=True)]
    if not sums:
        raise ValueError(f"No note of {page.command!r} has {pattern!r}.")
    return sums[0] if len(sums) == 1 else 100 * sums[0] / sums[1]


def ratio_of_dask(page: Page) -> float:
    workers, threads = (
        figures(page, "wall time", "", {"": f"two {each}"})[0]
        for each in ("worker processes", "threads")
    )
    return workers / threads


def place_of_default(page: Page) -> float:
    """By mean rank; equal ranks share the better place."""
    (own,) = figures(page, "rank", "rank", {"method": "MIClassifier"})
    return 1 + sum(rank < own for rank in figures(page, "rank", "rank", {}))


def lead_of_the_highest_risk(page: Page) -> float:
    """Concordance of MICoxPH less that of the best rival, where a tenth or fewer decide."""
    leads = []
    for row in rows_of(page.tables[0]):
        if row["censored"] and number(row["deciding instances"]) <= 10:
            names = list(row)
            rivals = names[names.index("MICoxPH (mean)") + 1 : names.index("true risk")]
            best = max(number(row[name]) for name in rivals)
            leads.append(number(row["MICoxPH (max)"]) - best)
    return min(leads)
