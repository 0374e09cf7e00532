"""``goals``: what the project set out to reach, compared with what its kept tables say."""

from __future__ import annotations

import argparse
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..common.output import SUFFIX, Page, Table, read_page, say, show

HELP = "every goal of speed, memory and accuracy, compared with the recorded table"

KEPT_PAGES = Path(__file__).resolve().parents[2] / "docs" / "results"

SPEED, NOT_RUN = "speed", "not run"

Row = dict[str, str]
_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "MB": 1.0, "MiB": 1.048576, "%": 1.0}


@dataclass(frozen=True)
class Goal:
    """One figure that was to be reached.

    Attributes
    ----------
    text : str
        What is measured.
    limit : float
    page : str
        Name of the kept page.
    value : callable
        ``value(page)`` is the figure.
    unit : str, default=""
        That of both, as it is printed.
    at_least : bool, default=False
        Whether the figure should not be below the limit; not above it by default.
    """

    text: str
    limit: float
    page: str
    value: Callable[[Page], float]
    unit: str = ""
    at_least: bool = False

    def met(self, value: float) -> bool:
        compare = operator.ge if self.at_least else operator.le
        return compare(value, self.limit)


def number(cell: str) -> float:
    """The figure of a cell, times in seconds and memory in megabytes.

    Raises
    ------
    ValueError
        For a cell without a figure.
    """
    found = re.match(r"\s*([-+]?[\d.,]+(?:e[-+]?\d+)?)\s*(ms|s|MB|MiB|%)?(?![\w.])", cell)
    if found is None:
        raise ValueError(f"{cell!r} holds no figure.")
    return float(found[1].replace(",", "")) * _UNITS[found[2] or ""]


def _rows(table: Table, counts: Callable[[Row], bool]) -> Iterator[Row]:
    for cells in table.rows:
        row = dict(zip(table.columns, cells, strict=True))
        if counts(row):
            yield row


def _figures(page: Page, column: str, counts: Callable[[Row], bool], table: str) -> list[float]:
    """Those of the first table that has the column, and ``table`` in its title or first column.

    Raises
    ------
    ValueError
        Where there are none: a goal that cannot be looked up is no goal.
    """
    for each in page.tables:
        if column in each.columns and re.search(table, f"{each.title} {each.columns[0]}"):
            found = [number(row[column]) for row in _rows(each, counts)]
            if found:
                return found
    raise ValueError(f"No figure under {column!r} counts in the tables of {page.command!r}.")


def worst(
    column: str, table: str = "", lowest: bool = False, **begins: str
) -> Callable[[Page], float]:
    """The largest figure of a column, in rows whose cells begin so; ``_`` in a name is a blank."""
    wanted = {name.replace("_", " "): of for name, of in begins.items()}

    def counts(row: Row) -> bool:
        shown = row[column] not in ("", "-")
        return shown and all(row[name].startswith(of) for name, of in wanted.items())

    choose = min if lowest else max
    return lambda page: choose(_figures(page, column, counts, table))


def _beside(column: str, of: str, per: str) -> Callable[[Page], float]:
    """The quotient of two rows, named by their first cells."""

    def value(page: Page) -> float:
        found = [
            _figures(page, column, lambda row, name=name: row[""] == name, "")[0]
            for name in (of, per)
        ]
        return found[0] / found[1]

    return value


def noted(pattern: str) -> Callable[[Page], float]:
    """The figure of a note or, of two figures, the first in percent of the second.

    Notes of several tables are added up. They count before the figures of a table are rounded.
    """

    def value(page: Page) -> float:
        found = [re.search(pattern, table.note) for table in page.tables]
        figures = [[float(each) for each in match.groups()] for match in found if match]
        if not figures:
            raise ValueError(f"No note of {page.command!r} has {pattern!r}.")
        sums = [sum(each) for each in zip(*figures, strict=True)]
        return sums[0] if len(sums) == 1 else 100 * sums[0] / sums[1]

    return value


def _place(method: str) -> Callable[[Page], float]:
    """The place of a method by mean rank; equal ranks share the better place."""

    def value(page: Page) -> float:
        (own,) = _figures(page, "rank", lambda row: row["method"] == method, "rank")
        return 1 + sum(rank < own for rank in _figures(page, "rank", bool, "rank"))

    return value


def _lead_of_the_highest_risk(page: Page) -> float:
    """Concordance of MICoxPH less that of the best rival, where a tenth or fewer decide."""
    leads = []
    for row in _rows(page.tables[0], lambda row: bool(row["censored"])):
        names = list(row)
        rivals = names[names.index("MICoxPH (mean)") + 1 : names.index("true risk")]
        if number(row["deciding instances"]) <= 10:
            best = max(number(row[name]) for name in rivals)
            leads.append(number(row["MICoxPH (max)"]) - best)
    return min(leads)


def _total(column: str) -> Callable[[Page], float]:
    return lambda page: sum(_figures(page, column, bool, ""))


LARGE = ("200,595 x 100", "1,001,008 x 100")
GOALS: tuple[Goal, ...] = (
    *(
        goal
        for size in LARGE
        for goal in (
            Goal(
                f"MISVC by passes / LinearSVC, {size}",
                3,
                "linear",
                worst("ratio", instances_x_features=size),
            ),
            Goal(f"passes, {size}", 20, "linear", worst("passes", instances_x_features=size)),
            Goal(f"relative gap, {size}", 1e-3, "linear", worst("gap", instances_x_features=size)),
        )
    ),
    Goal(
        "MISVC by passes, 9,874 x 10",
        0.1,
        "linear",
        worst("MISVC", instances_x_features="9,874"),
        "s",
    ),
    Goal(
        "MISVC by passes / LinearSVC, CSR 10^6 x 50,000",
        5,
        "linear",
        worst("ratio", instances_x_features="1,000,000"),
    ),
    Goal("other losses and models / LinearSVC, 200,595 x 100", 10, "linear-others", worst("ratio")),
    Goal("MISVC by passes, slope in bags", 1.1, "linear-slopes", worst("slope", "bags$")),
    Goal(
        "MISVC by passes, slope in instances per bag",
        1.1,
        "linear-slopes",
        worst("slope", "instances per bag"),
    ),
    Goal(
        "MISVC by passes, slope in features, to 2,000",
        2,
        "linear-slopes",
        worst("slope", "features"),
    ),
    Goal(
        "MISVC, 10^7 x 100 from a memory map, anonymous memory",
        1024,
        "out-of-core",
        worst("peak"),
        "MB",
    ),
    Goal(
        "two Dask workers / two threads, 10^6 x 100",
        1.5,
        "dask",
        _beside("wall time", "two worker processes", "two threads"),
    ),
    Goal(
        "MIClassifier, sum of five accuracies",
        431,
        "automatic",
        worst("sum", "accuracy", method="MIClassifier"),
        "%",
        at_least=True,
    ),
    Goal(
        "MIClassifier, sum of five AUC x 100",
        463,
        "automatic",
        worst("sum", "AUC", method="MIClassifier"),
        at_least=True,
    ),
    Goal(
        "MIClassifier less MISVC, digits and concepts",
        -1,
        "automatic",
        worst("difference", lowest=True),
        "%",
        at_least=True,
    ),
    Goal(
        "further sets within a point of the best of the baselines",
        85,
        "automatic",
        noted(r"on (\d+) of (\d+) sets"),
        "%",
        at_least=True,
    ),
    Goal(
        "needles: sets with at least the AUC of gated attention",
        95,
        "needles",
        noted(r"AUC of gated attention on (\d+) of (\d+)"),
        "%",
        at_least=True,
    ),
    Goal(
        "needles: AUC of .95 where the oracle has .98, 100 bags or more",
        100,
        "needles",
        noted(r"AUC of \.95 or more in (\d+) of (\d+)"),
        "%",
        at_least=True,
    ),
    Goal(
        "needles: within a point of means + LogisticRegression in a mix",
        100,
        "needles",
        noted(r"a point behind mean, LogisticRegression in (\d+) of (\d+)"),
        "%",
        at_least=True,
    ),
    Goal(
        "needles: MIClassifier / gated attention, CPU time of a fit",
        0.1,
        "needles",
        noted(r"by gated attention: median ([\d.]+\d)"),
    ),
    Goal("MIClassifier, place by AUC on stored folds", 1, "stored-folds", _place("MIClassifier")),
    *(
        Goal(
            f"MIClassifier, {which} slope of recalibration",
            limit,
            "calibration",
            worst("slope", lowest=lowest),
            at_least=lowest,
        )
        for which, limit, lowest in (("lowest", 0.85, True), ("highest", 1.2, False))
    ),
    Goal(
        "MICoxPH less the best rival, a tenth or fewer decide",
        0,
        "survival",
        _lead_of_the_highest_risk,
        at_least=True,
    ),
    Goal(
        "estimators that end within 60 s and 2 GiB, or refuse at once",
        100,
        "estimators",
        noted(r"(\d+) of (\d+) end within 60 s"),
        "%",
        at_least=True,
    ),
    Goal("MISVC by passes / passes x product with a vector", 3, "passes", worst("ratio")),
    Goal(
        "MISVC by passes, one thread / two",
        1.6,
        "passes",
        worst("two threads", lowest=True),
        at_least=True,
    ),
    Goal("classical, all folds, CPU time", 8, "classical", _total("CPU hours"), "h"),
    Goal(
        "MISVC on the set kernel / sawmil.NSK, Elephant",
        0.8,
        SPEED,
        lambda page: 1 / worst("compared with ours", "elephant.*linear", fit="sawmil.NSK")(page),
    ),
    Goal(
        "MISVC on the set kernel / one SVC, Musk2, RBF",
        2,
        SPEED,
        worst("ratio", "musk2.*rbf", fit="CoupledMISVC, coupling 0,"),
    ),
    Goal("SDPMIL / one SVC, Elephant, RBF", 8, SPEED, worst("ratio", "elephant.*rbf", fit="SDP")),
    Goal(
        "MILSD without links / MISVC, Elephant",
        2,
        "milsd-links",
        worst("mu=0, ratio", data="Elephant"),
    ),
    Goal(
        "MILSD without links / MISVC, WebKB student",
        2,
        "milsd-links",
        worst("mu=0, ratio", data="WebKB student"),
    ),
    Goal(
        "MILSD, 10^5 links of 10,000 bags / MISVC",
        5,
        "milsd-links",
        worst("ratio", data="generated, 10,000"),
    ),
    Goal(
        "MILSD, 10^5 links of Elephant / MISVC", 5, "milsd-links", worst("ratio", data="Elephant")
    ),
    Goal(
        "MILSD, 10^6 links of 100,000 bags",
        300,
        "milsd-links",
        worst("links", data="generated, 100,000"),
        "s",
    ),
    Goal("MILSD, 1,464 pages", 30, "milsd-links", worst("links", data="WebKB course, pages"), "s"),
    Goal("DPBoost, Elephant", 1.5, "boosting-sets", worst("DPBoost", data="elephant"), "s"),
    Goal("DPBoost, Musk2", 15, "boosting-sets", worst("DPBoost", data="musk2"), "s"),
    Goal(
        "DPBoost, Musk2, memory", 300, "boosting-sets", worst("DPBoost, memory", data="musk2"), "MB"
    ),
    Goal("LPBoost, Elephant", 3, "boosting-sets", worst("LPBoost", data="elephant"), "s"),
    Goal("SDPMIL, relative error of the relaxation", 1e-5, "sdpmil-instances", worst("error")),
    Goal(
        "SDPMIL, slope in instances, TREC 1",
        1.6,
        "sdpmil-instances",
        worst("relaxation, CPU time", data="trec9/tst1", instances="slope"),
    ),
    Goal("M3IC, 48 clusters", 5, "clusters", worst("48", clusters="M3IC"), "s"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=KEPT_PAGES,
        metavar="DIR",
        help="folder of the tables, and of the page (default: docs/results)",
    )


def main(args: argparse.Namespace) -> int:
    pages = {name: args.out / f"{name}{SUFFIX}" for name in (*(g.page for g in GOALS), SPEED)}
    read = {name: read_page(path) for name, path in pages.items() if path.is_file()}
    rows = []
    for goal in GOALS:
        sign = "at least" if goal.at_least else "at most"
        limit = f"{sign} {goal.limit:g} {goal.unit}".strip()
        rows.append([goal.text, limit, *_reached(goal, read.get(goal.page)), goal.page])
    if SPEED in read:
        rows += speed_rows(read[SPEED])
    show(Table(["", "goal", "reached", "", "table"], rows, "lrrll"))
    met = sum(row[3] == "" for row in rows)
    say(
        f"{met} of {len(rows)} goals are met. Ratios are of CPU times in one run; the figure is "
        "the worst of\nthose that a goal is about."
    )
    return 0


def _reached(goal: Goal, page: Page | None) -> tuple[str, str]:
    """The figure and whether it is short of the goal."""
    if page is None:
        return "-", NOT_RUN
    try:
        value = goal.value(page)
    except ValueError:  # a shorter run of the command
        return "-", NOT_RUN
    figure = f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}".removesuffix(".0")
    return f"{figure} {goal.unit}".strip(), "" if goal.met(value) else "missed"


def speed_rows(page: Page) -> list[list[str]]:
    """The ratios to one SVC that ``speed`` has goals for."""
    rows, words = [], ""
    for table in page.tables:
        words = table.title or words
        if "goal" not in table.columns:
            continue
        for row in _rows(table, lambda row: bool(row["goal"]) and row["ratio"] != "-"):
            missed = "" if number(row["ratio"]) <= number(row["goal"]) else "missed"
            text = f"{row['fit']} / one SVC, {words.partition(':')[0].partition(';')[0]}"
            kernel = re.search(r"(\w+) kernel", words)
            text += f", {kernel[1]} kernel" if kernel else ""
            limit = f"at most {number(row['goal']):g}"
            rows.append([text, limit, row["ratio"], missed, SPEED])
    return rows
