"""``needles``: hundreds of frozen features, and few instances that decide, or none.

Slides, digit bags of 28 x 28 pixels and reviews, each by several draws; see
:mod:`benchmarks.common.slides` for the recipe and for the seeds that guide and judge. In slides
with shares and in cells, both classes have deciding instances (:mod:`benchmarks.common.shares`).
Plain rivals and nets see the same bags. Oracles know the recipe and take part in no rank.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline

from milearn import MISVC
from milearn.discriminant_analysis import ShareDiscriminant
from milearn.embedding import FisherVector
from milearn.model_selection import rank_methods
from milearn.preprocessing import ClippedScaler

from ..common.memory import Stopwatch
from ..common.methods import METHODS, tuned_logistic
from ..common.needles import DIGITS, REVIEWS, splits_of, why_not
from ..common.nets import NETS, has_nets, make_nets
from ..common.output import Table, add_common_options, add_recorded, duration, say, show
from ..common.protocol import recorded, run, scores_of
from ..common.records import RecordFile, digest, record_of
from ..common.reports import finish, say_states
from ..common.shares import ORACLES, WORLDS, is_world
from ..common.slides import CORE, GRID, GUIDE_SEEDS, KEPT_SEEDS, Cell, half_of_seed

HELP = "few deciding instances, or a share: slides, cells, digits, reviews; networks and means"

ORACLE = "oracle"
# The linear model of the table, which screens its starts, from the means of bags instead.
SCREENED, MEANS = "misvc-linear", "misvc-means"
SHARE, FISHER = "share", "fisher-logistic"
NAMES = (
    *("default", "misvc-linear", "all-blrt"),
    *("plain-logistic", "plain-extremes", "plain-trees"),
)
TITLES = {
    **{name: METHODS[name].title for name in NAMES},
    **NETS,
    MEANS: "MISVC, linear, start from means",
    SHARE: "ShareDiscriminant",
    FISHER: "FisherVector, LogisticRegression",
    ORACLE: "oracle",
    **ORACLES,
}
# Methods where some instances decide or none, and where a share does.
FEW = (*NAMES, "gated-attention", "dsmil", ORACLE)
FOR_SHARES = (
    *("default", SHARE, SCREENED, FISHER, "plain-trees", "plain-logistic"),
    *(*NETS, *ORACLES),
)
# Share of deciding instances and size of the bags: with fewer instances a bag would have less than
# one that decides. The largest draws have 650 MB in float32.
MAP_SHARES = {0.1: 300, 0.02: 300, 0.005: 300, 0.001: 1000, 0.0002: 5000}
MAP_BAGS, MAP_FEATURES, MAP_VALUES = (50, 200, 1000), (32, 128, 512), 1.6e8
MAP = tuple(
    Cell("witness", n_bags, size, n_features, share)
    for share, size in MAP_SHARES.items()
    for n_bags in MAP_BAGS
    for n_features in MAP_FEATURES
    if n_bags * size * n_features <= MAP_VALUES
)
SEEDS = {"guide": GUIDE_SEEDS, "kept": KEPT_SEEDS}
FAST = (
    *("witness-40x20x16-30%", "witness-40x20x16-10%", "mix-40x20x16", "both-40x20x16-10%"),
    "shares-40x20x16-30%-10%",
)


@dataclass(frozen=True)
class NeedleTask:
    """One method on one draw of one data set."""

    dataset: str
    method: str
    seed: int

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that changes the result, for the record and for its key."""
        return {"model": _described(self.method)}

    @property
    def key(self) -> str:
        name = f"needles/{self.dataset}/{self.method}/{self.seed}"
        return f"{name}@{digest(self.settings)}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument(
        "--half", choices=list(SEEDS), default="guide", help="draws that guide, or that judge"
    )
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=None, metavar="N", help="draws instead of a half"
    )
    parser.add_argument(
        "--data",
        nargs="+",
        default=[""],
        metavar="NAME",
        help="names of data sets or their beginnings (witness-100x, mix, shares, cells, digits), "
        "core (two fifths of those without shares), map (down to .02 %%, 50 to 1,000 bags, 32 to "
        "512 features), or any other cell (witness-100x350x128-2%%); default: all",
    )
    parser.add_argument(
        "--methods", nargs="+", choices=list(TITLES), default=None, metavar="NAME", help="rows"
    )
    parser.add_argument("--fast", action="store_true", help="tiny slides: a look, not a result")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    add_recorded(parser)


def main(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    seeds = SEEDS[args.half] if args.seeds is None else args.seeds
    datasets = list(FAST) if args.fast else datasets_of(args.data)
    if args.fast:
        seeds = seeds[:1]
        say("--fast: tiny slides, a look and not a result.\n")
    tasks = [
        NeedleTask(dataset, method, seed)
        for seed in seeds
        for dataset in datasets
        for method in args.methods or (FOR_SHARES if is_world(dataset) else FEW)
        if method in _oracles(dataset) or not method.startswith(ORACLE)
    ]
    if not args.recorded and not has_nets() and any(task.method in NETS for task in tasks):
        say("The nets are left out: torchmil is not installed (pip install 'milearn[nets]').")
        tasks = [task for task in tasks if task.method not in NETS]
    with RecordFile(args.out / "needles.jsonl", fresh=args.fresh) as file:
        if args.recorded:
            records, complete = recorded(tasks, file), True
        else:
            records, complete = run(tasks, file, jobs=args.jobs, label="needles", function=run_task)
    halves = sorted({half_of_seed(seed) for seed in seeds})
    say(f"Draws {', '.join(map(str, seeds))} ({' and '.join(halves)}).")
    results = Results([task for task in tasks if not is_world(task.dataset)], records)
    if args.data == ["map"]:
        show_map(results)
    elif results.datasets:
        show_cells(results)
        show_draws(results)
        for name in ("share", "n_bags", "size", "n_features"):
            show_by(results, name)
        show_ranks(results)
        show_goals(results)
    show_starts(results)
    shares = Results([task for task in tasks if is_world(task.dataset)], records)
    if shares.datasets:
        show_cells(shares, ", where both classes have deciding instances")
        show_goals_of_shares(shares)
    say_states(records, TITLES)
    status = finish(records, complete, file, len(tasks))
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status


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
        if beginning == "core":
            names = [*(cell.name for cell in CORE), *DIGITS, *REVIEWS]
        elif beginning == "map":
            # The smallest first: a run that is stopped has most of them.
            size = {cell.name: cell.n_bags * cell.size * cell.n_features for cell in MAP}
            names = sorted(size, key=lambda name: size[name])
        found.update(dict.fromkeys(names or [beginning]))
    datasets = []
    for name in found:
        try:
            reason = why_not(name)
        except ValueError as error:
            raise SystemExit(
                f"{error} The data sets begin with: {', '.join(_kinds(every))}."
            ) from None
        if reason is None:
            datasets.append(name)
        else:
            say(f"{name} is left out: {reason}.")
    return datasets


def _kinds(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.partition("-")[0] for name in names))


# -- one task --------------------------------------------------------------------------------------


def _oracles(dataset: str) -> tuple[str, ...]:
    """The oracles of a data set."""
    if is_world(dataset):
        return tuple(ORACLES)
    return () if dataset in (*DIGITS, *REVIEWS) else (ORACLE,)


def models_of(method: str) -> list[BaseEstimator]:
    """The model of a method, or several whose AUCs are averaged; none for an oracle."""
    if method.startswith(ORACLE):
        return []
    if method == MEANS:
        return [make_pipeline(ClippedScaler(), MISVC(kernel="linear", init="mean"))]
    if method == SHARE:
        return [make_pipeline(ClippedScaler(), ShareDiscriminant())]
    if method == FISHER:
        return [make_pipeline(ClippedScaler(), FisherVector(random_state=0), tuned_logistic())]
    return make_nets(method) if method in NETS else [METHODS[method].build(text=False)]


@cache
def _described(method: str) -> str:
    return " ".join(" ".join(repr(model) for model in models_of(method)).split())


def run_task(task: NeedleTask) -> dict[str, Any]:
    """The record of a task."""
    half = half_of_seed(task.seed)
    return record_of(task, _result, half=half, parameters=task.settings)


def _result(task: NeedleTask) -> dict[str, Any]:
    found: dict[str, list[float]] = {}
    splits = splits_of(task.dataset, task.seed)
    for split in splits:
        if task.method.startswith(ORACLE):
            if split.oracle is None:
                raise ValueError("No recipe is known.")
            scores = split.oracle(task.method)
            found.setdefault("auc", []).append(float(roc_auc_score(split.y_test, scores)))
            continue
        for model in models_of(task.method):
            watch = Stopwatch()
            model.fit(split.train, split.y)
            seconds, watch = watch.seconds("fit_"), Stopwatch()
            scores = scores_of(model, split.test)
            seconds |= watch.seconds("predict_")
            auc = float(roc_auc_score(split.y_test, scores))
            accuracy = float(np.mean(model.predict(split.test) == split.y_test))
            for name, value in {"auc": auc, "accuracy": accuracy, **seconds}.items():
                found.setdefault(name, []).append(value)
            last = model[-1] if isinstance(model, Pipeline) else model
            if isinstance(last, MISVC):
                found.setdefault("objective", []).append(float(last.objective_))
    means = {name: float(np.mean(values)) for name, values in found.items()}
    return {**means, "aucs": found["auc"], "n_test": sum(len(split.y_test) for split in splits)}


# -- tables ----------------------------------------------------------------------------------------


class Results:
    """Means over the draws of each data set and method, where all draws have a result."""

    def __init__(self, tasks: Sequence[NeedleTask], records: dict[str, dict[str, Any]]) -> None:
        self.datasets = list(dict.fromkeys(task.dataset for task in tasks))
        self.methods = list(dict.fromkeys(task.method for task in tasks))
        groups: dict[tuple[str, str], list[dict[str, Any] | None]] = {}
        for task in tasks:
            result = records.get(task.key, {}).get("result")
            groups.setdefault((task.dataset, task.method), []).append(result)
        self._means = {
            key: {
                name: float(np.mean([each[name] for each in group]))
                for name in ("auc", "fit_cpu_seconds", "objective")
                if all(name in each for each in group)
            }
            for key, group in groups.items()
            if None not in group
        }
        self.draws = {key: [each["auc"] for each in groups[key]] for key in self._means}

    def value(self, dataset: str, method: str, name: str = "auc") -> float | None:
        """A mean, None where it is not known."""
        return self._means.get((dataset, method), {}).get(name)

    @property
    def rivals(self) -> list[str]:
        """Methods without oracles."""
        return [name for name in self.methods if not name.startswith(ORACLE)]

    @property
    def complete(self) -> list[str]:
        """Data sets on which every method but the oracle has a result."""
        return [
            dataset
            for dataset in self.datasets
            if all(self.value(dataset, name) is not None for name in self.rivals)
        ]

    @property
    def cells(self) -> dict[str, Cell]:
        """Slides among the complete data sets."""
        others = (*DIGITS, *REVIEWS)
        return {name: Cell.named(name) for name in self.complete if name not in others}

    def row(self, datasets: Sequence[str], methods: Sequence[str]) -> list[str]:
        """AUC x 100 of each method, averaged over data sets."""
        cells = []
        for method in methods:
            values = [self.value(name, method) for name in datasets]
            known = [value for value in values if value is not None]
            whole = known and len(known) == len(values)
            cells.append(f"{100 * np.mean(known):.1f}" if whole else "-")
        return cells


def show_cells(results: Results, note: str = "") -> None:
    """One row per data set."""
    rows = [[name, *results.row([name], results.methods)] for name in results.datasets]
    times = []
    for method in results.methods:
        seconds = [results.value(name, method, "fit_cpu_seconds") for name in results.datasets]
        known = [value for value in seconds if value is not None]
        times.append(duration(float(np.median(known))) if known else "-")
    rows.append(["fit, CPU time, median", *times])
    title = f"AUC x 100 on new bags, mean over draws{note}"
    show(Table(["data", *(TITLES[name] for name in results.methods)], rows, title=title))


def show_draws(results: Results) -> None:
    """Median and range over the draws, where there are several."""

    def cell(found: list[float]) -> str:
        if not found:
            return "-"
        median, lowest, highest = 100 * np.array([np.median(found), min(found), max(found)])
        return f"{median:.1f} ({lowest:.1f} to {highest:.1f})"

    if max(map(len, results.draws.values()), default=0) > 1:
        rows = [
            [name, *(cell(results.draws.get((name, method), [])) for method in results.methods)]
            for name in results.datasets
        ]
        columns = ["data", *(TITLES[name] for name in results.methods)]
        show(
            Table(columns, rows, title="AUC x 100 on new bags by draw: median (lowest to highest)")
        )


def show_map(results: Results) -> None:
    """One table per method: a row for each share, a column for each number of bags and features."""
    titles = TITLES | {SCREENED: "MISVC, linear, screened starts"}
    shapes = [(n_bags, n_features) for n_bags in MAP_BAGS for n_features in MAP_FEATURES]
    names = {(cell.share, cell.n_bags, cell.n_features): cell.name for cell in MAP}
    for method in results.methods:
        rows = []
        for share, size in MAP_SHARES.items():
            cells = [
                results.row([names[share, *shape]], [method])[0]
                if (share, *shape) in names
                else "-"
                for shape in shapes
            ]
            rows.append([f"{100 * share:g}%", str(size), *cells])
        columns = ["share", "instances", *(f"{n_bags} x {d}" for n_bags, d in shapes)]
        title = f"{titles[method]}: AUC x 100 on new bags, by share of deciding instances, "
        title += "median instances of a bag, and training bags x features"
        show(Table(columns, rows, title=title))
    done = [name for name in results.datasets if name in results.complete]
    missing = [name for name in results.datasets if name not in results.complete]
    say(
        f"{len(done)} of {len(MAP)} cells; those with training bags of more than {MAP_VALUES:.2g} "
        f"numbers are left out.{' Not run: ' + ', '.join(missing) + '.' if missing else ''}"
    )
    for method in results.rivals:
        seconds = [_known(results, name, method, "fit_cpu_seconds") for name in done]
        if seconds:
            say(
                f"CPU time of a fit, {titles[method]}: median {duration(float(np.median(seconds)))}"
                f", at most {duration(max(seconds))}."
            )


def show_starts(results: Results) -> None:
    """Objectives of the linear model with screened starts, and with that from the means only."""
    ratios = [
        screened / means
        for name in results.datasets
        if (screened := results.value(name, SCREENED, "objective")) is not None
        and (means := results.value(name, MEANS, "objective")) is not None
    ]
    if ratios:
        # The convex steps are solved to 1e-6.
        below = sum(ratio <= 1 + 1e-5 for ratio in ratios)
        lower = sum(ratio < 0.99 for ratio in ratios)
        say(
            f"The objective with screened starts is at most that of the start from the means in "
            f"{below} of {len(ratios)} fits, and lower by more than a hundredth in {lower}; the "
            f"ratios are {min(ratios):.3g} to {max(ratios):.4g}."
        )


def same_shapes(results: Results) -> dict[float, list[str]]:
    """Slides with deciding instances by their share; the same numbers of bags, ... for each."""
    shapes: dict[tuple[int, int, int], dict[float, str]] = {}
    for name, cell in results.cells.items():
        if cell.kind == "witness":
            shape = (cell.n_bags, cell.size, cell.n_features)
            shapes.setdefault(shape, {})[cell.share] = name
    every = sorted({share for names in shapes.values() for share in names}, reverse=True)
    whole = [names for names in shapes.values() if len(names) == len(every)]
    return {share: [names[share] for names in whole] for share in every} if whole else {}


def show_by(results: Results, name: str) -> None:
    """AUC of the slides with deciding instances, by one of their numbers."""
    groups: dict[Any, list[str]] = {}
    if name == "share":
        groups = {f"{100 * share:g}%": names for share, names in same_shapes(results).items()}
    else:
        for dataset, cell in results.cells.items():
            if cell.kind == "witness":
                groups.setdefault(getattr(cell, name), []).append(dataset)
    if len(groups) < 2:
        return
    rows = [
        [str(value), *results.row(datasets, results.methods), str(len(datasets))]
        for value, datasets in groups.items()
    ]
    words = {"n_bags": "training bags", "n_features": "features", "size": "instances of a bag"}
    shown = words.get(name, "share of deciding instances")
    note = ", over the shapes that have all of them" if name == "share" else ""
    columns = [shown, *(TITLES[method] for method in results.methods), "cells"]
    title = f"AUC x 100 on slides with deciding instances, by {shown}{note}"
    show(Table(columns, rows, title=title))


def show_ranks(results: Results) -> None:
    """Mean ranks over all complete data sets, and the number of those where a method is first."""
    datasets, methods = results.complete, results.rivals
    if len(datasets) < 2 or len(methods) < 2:
        say("\nNo ranks: fewer than two data sets with all draws of at least two methods.")
        return
    scores = np.array([[results.value(name, method) for method in methods] for name in datasets])
    ranks = rank_methods(scores, methods)
    first = np.sum(scores == scores.max(axis=1, keepdims=True), axis=0)
    rows = [
        [TITLES[name], f"{rank:.2f}", str(first[methods.index(name)])]
        for name, rank in zip(ranks.methods, ranks.ranks, strict=True)
    ]
    title = f"mean rank by AUC over {len(datasets)} data sets (1 is best)"
    show(Table(["method", "rank", "first"], rows, title=title))
    say(
        f"Friedman's test: p = {ranks.p_value:.2g}; ranks that differ by less than "
        f"{ranks.critical_difference:.2f} are not distinguished (Nemenyi, 5 %)."
    )


def show_goals(results: Results) -> None:
    """The sentences that the suite is to prove or refute."""
    cells = results.cells
    net = next(iter(NETS))
    if {"default", net} <= set(results.methods):
        datasets = results.complete
        number = sum(_ahead(results, name, "default", net, 0.0) for name in datasets)
        say(
            f"MIClassifier has at least the mean AUC of {TITLES[net]} on {number} of "
            f"{len(datasets)} data sets."
        )
        ratios = [
            _known(results, name, "default", "fit_cpu_seconds")
            / _known(results, name, net, "fit_cpu_seconds")
            for name in datasets
        ]
        if ratios:
            say(
                f"CPU time of a fit, MIClassifier by {TITLES[net]}: median {np.median(ratios):.2g}."
            )
    if {"default", ORACLE} <= set(results.methods):
        reachable = [
            name
            for name, cell in cells.items()
            if cell.n_bags >= 100 and (results.value(name, ORACLE) or 0.0) >= 0.98
        ]
        if reachable:
            near = sum(_known(results, name, "default") >= 0.95 for name in reachable)
            say(
                f"MIClassifier has an AUC of .95 or more in {near} of {len(reachable)} cells of at "
                "least 100 bags where the oracle has .98 or more."
            )
    if {"default", "plain-logistic"} <= set(results.methods):
        mixes = [name for name, cell in cells.items() if cell.kind == "mix"]
        if mixes:
            near = sum(_ahead(results, name, "default", "plain-logistic", 0.01) for name in mixes)
            say(
                f"Where the mix decides, MIClassifier is at most a point behind "
                f"{TITLES['plain-logistic']} in {near} of {len(mixes)} cells."
            )


def show_goals_of_shares(results: Results) -> None:
    """The same where a share decides."""
    worlds, methods = results.complete, set(results.methods)
    slides = [name for name in worlds if name.startswith("shares-")]
    for name in ("default", SHARE, "oracle-share"):
        if slides and name in methods:
            mean = np.mean([_known(results, world, name) for world in slides])
            say(f"Mean AUC over {len(slides)} slides with shares, {TITLES[name]}: {mean:.3f}.")
    nets = [name for name in NETS if name in methods]
    for name, others, behind, words in (
        ("default", nets, -0.03, "at least three points ahead of every net"),
        (SHARE, ["oracle-share"], 0.05, "at most five points behind the oracle of the share"),
    ):
        if worlds and others and {name, *others} <= methods:
            number = sum(
                all(_ahead(results, world, name, other, behind) for other in others)
                for world in worlds
            )
            say(f"{TITLES[name]} is {words} in {number} of {len(worlds)} worlds with shares.")


def _known(results: Results, dataset: str, method: str, name: str = "auc") -> float:
    value = results.value(dataset, method, name)
    return float("nan") if value is None else value


def _ahead(results: Results, dataset: str, mine: str, other: str, behind: float) -> bool:
    return _known(results, dataset, mine) >= _known(results, dataset, other) - behind
