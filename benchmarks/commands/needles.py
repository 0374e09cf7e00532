"""``needles``: hundreds of frozen features, and few instances that decide, or none.

Slides, digit bags of 28 x 28 pixels and reviews, each by several draws; see
:mod:`benchmarks.common.slides` for the recipe and for the seeds that guide and judge. In slides
with shares and in cells, both classes have deciding instances (:mod:`benchmarks.common.shares`).
Plain rivals and nets see the same bags. Oracles know the recipe and take part in no rank.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score

from ..common.folds import scores_of, show_ranks
from ..common.memory import Stopwatch
from ..common.methods import METHODS
from ..common.needles import DIGITS, REVIEWS, splits_of, why_not
from ..common.nets import NETS, has_nets, make_nets
from ..common.output import Table, duration, say, show
from ..common.runner import add_options, run
from ..common.shares import ORACLES, WORLDS, is_world
from ..common.slides import GRID, GUIDE_SEEDS, Cell

HELP = "few deciding instances, or a share: slides, cells, digits, reviews; networks and means"

ORACLE, SHARE, FISHER = "oracle", "share", "fisher-logistic"
NAMES = (
    *("default", "misvc-linear", "all-blrt"),
    *("plain-logistic", "plain-extremes", "plain-trees"),
)
TITLES = {
    **{name: METHODS[name].title for name in (*NAMES, SHARE, FISHER)},
    **NETS,
    ORACLE: "oracle",
    **ORACLES,
}
# Methods where some instances decide or none, and where a share does.
FEW = (*NAMES, "gated-attention", "dsmil", ORACLE)
FOR_SHARES = (
    *("default", SHARE, "misvc-linear", FISHER, "plain-trees", "plain-logistic"),
    *(*NETS, *ORACLES),
)
FAST = (
    *("witness-40x20x16-30%", "witness-40x20x16-10%", "mix-40x20x16", "both-40x20x16-10%"),
    "shares-40x20x16-30%-10%",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, jobs=1, fast="tiny slides")
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=list(GUIDE_SEEDS), metavar="N", help="draws"
    )
    parser.add_argument(
        "--data",
        nargs="+",
        default=[""],
        metavar="NAME",
        help="names of data sets or their beginnings (witness-100x, mix, shares, cells, digits), "
        "or any other cell (witness-100x350x128-2%%); default: all",
    )
    parser.add_argument("--methods", nargs="+", choices=list(TITLES), metavar="NAME", help="rows")


def main(args: argparse.Namespace) -> None:
    datasets = list(FAST) if args.fast else datasets_of(args.data)
    seeds = args.seeds[:1] if args.fast else args.seeds
    tasks = [
        (dataset, method, seed)
        for seed in seeds
        for dataset in datasets
        for method in args.methods or (FOR_SHARES if is_world(dataset) else FEW)
        if method in _oracles(dataset) or not method.startswith(ORACLE)
    ]
    if not has_nets() and any(method in NETS for _, method, _ in tasks):
        say("The nets are left out: torchmil is not installed (pip install 'milearn[nets]').")
        tasks = [task for task in tasks if task[1] not in NETS]
    found = dict(zip(tasks, run(args, result_of, tasks), strict=True))
    say(f"Draws {', '.join(map(str, seeds))}.")
    few, shares = (
        Results({task: each for task, each in found.items() if is_world(task[0]) == of_shares})
        for of_shares in (False, True)
    )
    if few.datasets:
        show_cells(few)
        show_draws(few)
        for name in ("share", "n_bags", "size", "n_features"):
            show_by(few, name)
        titles = {name: TITLES[name] for name in few.rivals}
        scores = [[few.auc(data, name) for name in titles] for data in few.datasets]
        show_ranks(scores, titles, "mean rank by AUC over {} data sets (1 is best)")
        show_goals(few)
    if shares.datasets:
        show_cells(shares, ", where both classes have deciding instances")
        show_goals_of_shares(shares)


def datasets_of(wanted: Sequence[str]) -> list[str]:
    """Names that begin with what is wanted, and other cells, as far as their data are here.

    Raises
    ------
    SystemExit
        For what is neither.
    """
    every = [*(cell.name for cell in GRID), *WORLDS, *DIGITS, *REVIEWS]
    found: dict[str, None] = {}
    for beginning in wanted:
        names = [name for name in every if name.startswith(beginning)]
        found.update(dict.fromkeys(names or [beginning]))
    datasets = []
    for name in found:
        try:
            reason = why_not(name)
        except ValueError as error:
            kinds = ", ".join(dict.fromkeys(name.partition("-")[0] for name in every))
            raise SystemExit(f"{error} The data sets begin with: {kinds}.") from None
        if reason is None:
            datasets.append(name)
        else:
            say(f"{name} is left out: {reason}.")
    return datasets


def _oracles(dataset: str) -> tuple[str, ...]:
    """The oracles of a data set."""
    if is_world(dataset):
        return tuple(ORACLES)
    return () if dataset in (*DIGITS, *REVIEWS) else (ORACLE,)


def models_of(method: str) -> list[BaseEstimator]:
    """The model of a method, or several whose AUCs are averaged."""
    return make_nets(method) if method in NETS else [METHODS[method].model(False)]


def result_of(dataset: str, method: str, seed: int) -> tuple[float, float]:
    """AUC and CPU time of a fit of one method on one draw, means over its splits."""
    found = []
    for split in splits_of(dataset, seed):
        if method.startswith(ORACLE):
            found.append((float(roc_auc_score(split.y_test, split.oracle(method))), np.nan))
            continue
        for model in models_of(method):
            watch = Stopwatch()
            model.fit(split.train, split.y)
            seconds = watch.seconds()["cpu_seconds"]
            auc = float(roc_auc_score(split.y_test, scores_of(model, split.test)))
            found.append((auc, seconds))
    auc, seconds = np.mean(found, axis=0)
    return float(auc), float(seconds)


# -- tables ----------------------------------------------------------------------------------------


class Results:
    """AUCs and times of each data set and method, by draw; NaN where a draw failed."""

    def __init__(self, found: dict[tuple[str, str, int], tuple[float, float] | None]) -> None:
        self.datasets = list(dict.fromkeys(task[0] for task in found))
        self.methods = list(dict.fromkeys(task[1] for task in found))
        self.rivals = [name for name in self.methods if not name.startswith(ORACLE)]
        self.draws: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for (dataset, method, _), result in found.items():
            self.draws.setdefault((dataset, method), []).append(result or (np.nan, np.nan))

    def auc(self, dataset: str, method: str, place: int = 0) -> float:
        """Mean over draws."""
        draws = self.draws.get((dataset, method), [(np.nan, np.nan)])
        return float(np.mean([each[place] for each in draws]))

    def seconds(self, dataset: str, method: str) -> float:
        return self.auc(dataset, method, 1)

    @property
    def cells(self) -> dict[str, Cell]:
        """Slides among the data sets."""
        others = (*DIGITS, *REVIEWS)
        return {name: Cell.named(name) for name in self.datasets if name not in others}

    def row(self, datasets: Sequence[str]) -> list[str]:
        """AUC x 100 of each method, averaged over data sets."""
        means = [np.mean([self.auc(name, method) for name in datasets]) for method in self.methods]
        return ["-" if mean != mean else f"{100 * mean:.1f}" for mean in means]

    def columns(self, first: str) -> list[str]:
        return [first, *(TITLES[name] for name in self.methods)]

    def ahead(self, dataset: str, mine: str, other: str, behind: float = 0.0) -> bool:
        return self.auc(dataset, mine) >= self.auc(dataset, other) - behind


def show_cells(results: Results, note: str = "") -> None:
    """One row per data set."""
    rows = [[name, *results.row([name])] for name in results.datasets]
    times = []
    for method in results.methods:
        seconds = [results.seconds(name, method) for name in results.datasets]
        known = [value for value in seconds if value == value]
        times.append(duration(float(np.median(known))) if known else "-")
    rows.append(["fit, CPU time, median", *times])
    title = f"AUC x 100 on new bags, mean over draws{note}"
    show(Table(results.columns("data"), rows, title=title))


def show_draws(results: Results) -> None:
    """Median and range over the draws, where there are several."""

    def cell(draws: list[tuple[float, float]]) -> str:
        areas = [100 * auc for auc, _ in draws]
        return f"{np.median(areas):.1f} ({min(areas):.1f} to {max(areas):.1f})" if areas else "-"

    if max(map(len, results.draws.values())) > 1:
        rows = [
            [name, *(cell(results.draws.get((name, method), [])) for method in results.methods)]
            for name in results.datasets
        ]
        title = "AUC x 100 on new bags by draw: median (lowest to highest)"
        show(Table(results.columns("data"), rows, title=title))


def show_by(results: Results, name: str) -> None:
    """AUC of the slides with deciding instances, by one of their numbers."""
    cells = {data: cell for data, cell in results.cells.items() if cell.kind == "witness"}
    if name == "share":
        # Of shapes that have all shares, so that the rows have the same numbers of bags, ...
        shares = {cell.share for cell in cells.values()}
        shapes = [(cell.n_bags, cell.size, cell.n_features) for cell in cells.values()]
        cells = {
            data: cell
            for (data, cell), shape in zip(cells.items(), shapes, strict=True)
            if shapes.count(shape) == len(shares)
        }
    groups: dict[float, list[str]] = {}
    for data, cell in cells.items():
        groups.setdefault(getattr(cell, name), []).append(data)
    if len(groups) < 2:
        return
    if name == "share":
        groups = dict(sorted(groups.items(), reverse=True))
    rows = [
        [f"{100 * value:g}%" if name == "share" else str(value), *results.row(data), str(len(data))]
        for value, data in groups.items()
    ]
    words = {"n_bags": "training bags", "n_features": "features", "size": "instances of a bag"}
    shown = words.get(name, "share of deciding instances")
    note = ", over the shapes that have all of them" if name == "share" else ""
    title = f"AUC x 100 on slides with deciding instances, by {shown}{note}"
    show(Table([*results.columns(shown), "cells"], rows, title=title))


def show_goals(results: Results) -> None:
    """The sentences that the suite is to prove or refute."""
    datasets, cells, methods = results.datasets, results.cells, set(results.methods)
    net, logistic = next(iter(NETS)), "plain-logistic"
    if {"default", net} <= methods:
        first = sum(results.ahead(name, "default", net) for name in datasets)
        say(
            f"MIClassifier has at least the mean AUC of {TITLES[net]} on {first} of "
            f"{len(datasets)} data sets."
        )
        ratios = [results.seconds(d, "default") / results.seconds(d, net) for d in datasets]
        say(f"CPU time of a fit, MIClassifier by {TITLES[net]}: median {np.median(ratios):.2g}.")
    reachable = [
        name
        for name, cell in cells.items()
        if cell.n_bags >= 100 and results.auc(name, ORACLE) >= 0.98
    ]
    if "default" in methods and reachable:
        near = sum(results.auc(name, "default") >= 0.95 for name in reachable)
        say(
            f"MIClassifier has an AUC of .95 or more in {near} of {len(reachable)} cells of at "
            "least 100 bags where the oracle has .98 or more."
        )
    mixes = [name for name, cell in cells.items() if cell.kind == "mix"]
    if {"default", logistic} <= methods and mixes:
        near = sum(results.ahead(name, "default", logistic, 0.01) for name in mixes)
        say(
            f"Where the mix decides, MIClassifier is at most a point behind {TITLES[logistic]} in "
            f"{near} of {len(mixes)} cells."
        )


def show_goals_of_shares(results: Results) -> None:
    """The same where a share decides."""
    worlds, methods = results.datasets, set(results.methods)
    slides = [name for name in worlds if name.startswith("shares-")]
    for name in ("default", SHARE, "oracle-share"):
        if slides and name in methods:
            mean = np.mean([results.auc(world, name) for world in slides])
            say(f"Mean AUC over {len(slides)} slides with shares, {TITLES[name]}: {mean:.3f}.")
    nets = [name for name in NETS if name in methods]
    for name, others, behind, words in (
        ("default", nets, -0.03, "at least three points ahead of every net"),
        (SHARE, ["oracle-share"], 0.05, "at most five points behind the oracle of the share"),
    ):
        if others and {name, *others} <= methods:
            ahead = [
                all(results.ahead(world, name, other, behind) for other in others)
                for world in worlds
            ]
            say(f"{TITLES[name]} is {words} in {sum(ahead)} of {len(worlds)} worlds with shares.")
