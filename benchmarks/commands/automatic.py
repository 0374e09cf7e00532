"""``automatic``: the estimators that need no settings, on both halves of the data sets."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.metrics import mean_squared_error

from milearn.auto import MIRegressor

from ..common.carbonneau import PUBLISHED, SETS, column_bests
from ..common.data import load, load_file
from ..common.halves import ASIDE, FRESH, GUIDE, half_of
from ..common.memory import Stopwatch
from ..common.methods import METHODS
from ..common.output import Table, add_common_options, add_recorded, duration, percent, say, show
from ..common.protocol import Summary, recorded, run, summarise, tasks_for
from ..common.records import RecordFile
from ..common.reports import finish

HELP = "MIClassifier() and MIRegressor() without settings, and baselines on the same folds"

PLAIN = (
    *("plain-mean", "plain-minmax", "plain-set", "plain-linear", "plain-single"),
    "plain-trees",
)
# On the five sets also the model that is most often the best one there.
FOR_FIVE = (*PLAIN, "all-bagsvc")
FURTHER = (
    *("trec9/tst1", "trec9/tst2", "trec9/tst4", "trec9/tst7", "trec9/tst9"),
    *("trec9/tst3", "trec9/tst10"),
    "newsgroups/alt_atheism",
    *("newsgroups/comp_graphics", "newsgroups/rec_autos"),
    *("newsgroups/sci_med", "newsgroups/talk_politics_guns"),
    *("mutagenesis1", "trx_protein", "corel1000_10class"),
    *("webkb:course", "webkb:faculty", "webkb:student"),
    *FRESH,
)
GENERATED = ("digits", "concept")
CALIBRATED = ("musk1", "elephant", "fox", "tiger", "digits", "concept")
LJ = ("lj_16_30_2", "lj_80_166_1", "lj_160_166_1")
# Fine enough for a picture in words, coarse enough for a hundred bags in each.
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument(
        "--repeats", type=int, default=10, metavar="N", help="classical and generated sets (10)"
    )
    parser.add_argument(
        "--further-repeats", type=int, default=1, metavar="N", help="elsewhere (default: 1)"
    )
    parser.add_argument("--folds", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument(
        "--further-folds", type=int, default=5, metavar="N", help="elsewhere (default: 5)"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    add_recorded(parser)
    parser.add_argument(
        "--sets", nargs="+", default=list(FURTHER), metavar="NAME", help="further sets"
    )


def main(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    parts = (
        (SETS, ("default",), args.repeats, args.folds),
        (GENERATED, ("default", "misvc-default"), args.repeats, args.folds),
        (args.sets, ("default", *PLAIN), args.further_repeats, args.further_folds),
        (SETS, FOR_FIVE, args.repeats, args.folds),
        (CALIBRATED, ("default", "misvc-calibrated"), 1, args.folds),
    )
    found, status = [], 0
    with RecordFile(args.out / "nested.jsonl", fresh=args.fresh) as file:
        for datasets, methods, repeats, folds in parts:
            for name in datasets:
                load(name)
            tasks = tasks_for(
                "nested",
                datasets,
                methods,
                repeats=repeats,
                n_splits=folds,
                n_inner=5,
                level="full",
            )
            if args.recorded:
                records, complete = recorded(tasks, file), True
            else:
                records, complete = run(tasks, file, jobs=args.jobs, label="automatic")
            found.append((tasks, records))
            status = max(status, finish(records, complete, file, len(tasks)))
            if not complete:
                break
    summaries = [summarise(tasks, records, over="repeat") for tasks, records in found]
    if summaries:
        show_five(summaries[0])
    if len(summaries) > 1:
        show_generated(summaries[1])
    if len(summaries) > 2:
        show_further(summaries[2], found[2][1])
    if len(summaries) > 3:
        show_plain_five(summaries[0], summaries[3])
    if len(summaries) > 4:
        show_calibration(found[4][1])
    show_regression()
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status


# -- the five sets ---------------------------------------------------------------------------------


def show_five(summaries: Sequence[Summary]) -> None:
    """Accuracy and AUC compared with the sixteen methods of Carbonneau et al. 2018."""
    mine = {item.dataset: item for item in summaries if item.folds}
    for measure, place in (("accuracy", 0), ("AUC", 2)):
        rows = []
        if set(mine) == set(SETS):
            own = [100 * (mine[name].accuracy if place == 0 else mine[name].auc) for name in SETS]
            cells = [
                percent(mine[name].accuracy, _sd(mine[name])) if place == 0 else f"{value:.1f}"
                for name, value in zip(SETS, own, strict=True)
            ]
            rows.append(["MIClassifier()", *cells, f"{sum(own):.1f}"])
            times = [duration(mine[name].fit_cpu_seconds) for name in SETS]
        bests = [best[0 if place == 0 else 1] for best in column_bests()]
        rows.append(
            ["best of the 16, column by column", *map("{:.1f}".format, bests), f"{sum(bests):.1f}"]
        )
        for method, cells_of in PUBLISHED.items():
            values = [cell[place] for cell in cells_of]
            rows.append([method, *map("{:.1f}".format, values), f"{sum(values):.1f}"])
        title = f"{measure} x 100; rows 2 to 18 by Carbonneau et al. 2018, on other folds"
        show(Table(["method", *SETS, "sum"], rows, title=title))
        if rows[0][0] == "MIClassifier()" and place == 0:
            say(f"CPU time of a fit: {', '.join(map(' '.join, zip(SETS, times, strict=True)))}.")
    say(_counts(summaries))


def _sd(item: Summary) -> float | None:
    return item.sd if item.sd == item.sd else None


def _counts(summaries: Sequence[Summary]) -> str:
    short = [f"{item.dataset} {item.missing}" for item in summaries if item.missing]
    folds = ", ".join(f"{item.dataset} {item.folds}" for item in summaries)
    return f"Folds: {folds}." + (f" Folds missing: {', '.join(short)}." if short else "")


def show_generated(summaries: Sequence[Summary]) -> None:
    """Bags where one instance decides: MIClassifier compared with MISVC."""
    rows = []
    for name in GENERATED:
        here = {item.method: item for item in summaries if item.dataset == name}
        if set(here) == {"default", "misvc-default"}:
            accuracies = [here[method].accuracy for method in ("default", "misvc-default")]
            difference = 100 * (accuracies[0] - accuracies[1])
            rows.append([name, *map(percent, accuracies), f"{difference:+.1f}"])
    if rows:
        title = "one instance decides: accuracy %"
        show(Table(["data", "MIClassifier()", "MISVC()", "difference"], rows, title=title))


def show_plain_five(mine: Sequence[Summary], plain: Sequence[Summary]) -> None:
    """The plain baselines and BagSVC on the five sets."""
    rows = []
    for method in ("default", *FOR_FIVE):
        here = {item.dataset: item for item in (*mine, *plain) if item.method == method}
        if set(here) == set(SETS):
            total = f"{100 * sum(here[name].accuracy for name in SETS):.1f}"
            cells = [percent(here[name].accuracy, _sd(here[name])) for name in SETS]
            rows.append([METHODS[method].title, *cells, total])
    if len(rows) > 1:
        title = "accuracy % on the five sets, baselines and BagSVC with C by inner folds"
        show(Table(["method", *SETS, "sum"], rows, title=title))


# -- both halves -----------------------------------------------------------------------------------


def show_further(summaries: Sequence[Summary], records: dict[str, dict[str, Any]]) -> None:
    """Every further set compared with the best of the baselines, by halves."""
    titles = {name: METHODS[name].title for name in PLAIN}
    unfinished = dict.fromkeys(FURTHER)
    for half in ("guide", "aside", "fresh"):
        rows, differences = [], []
        for name in dict.fromkeys(item.dataset for item in summaries):
            here = {item.method: item for item in summaries if item.dataset == name}
            complete = all(
                method in here and here[method].folds and not here[method].missing
                for method in ("default", *PLAIN)
            )
            if half_of(name) != half or not complete:
                continue
            unfinished.pop(name, None)
            best = max(PLAIN, key=lambda method: here[method].accuracy)
            differences.append(100 * (here["default"].accuracy - here[best].accuracy))
            rows.append(
                [
                    name,
                    _taken(records, name),
                    percent(here["default"].accuracy),
                    *(percent(here[method].accuracy) for method in PLAIN),
                    f"{differences[-1]:+.1f}",
                    _auc(here["default"]),
                    _auc(max((here[method] for method in PLAIN), key=lambda item: item.auc)),
                    duration(here["default"].fit_cpu_seconds),
                ]
            )
        if not rows:
            continue
        columns = [
            *("data", "chosen", "MIClassifier()"),
            *(titles[method] for method in PLAIN),
            *("to the best", "AUC", "best AUC", "fit, CPU time"),
        ]
        part = "new texts" if half == "fresh" else f"the sets of the half {half!r}"
        title = f"accuracy % on {part}, compared with six baselines on the same folds"
        show(Table(columns, rows, "ll" + "r" * (len(columns) - 2), title=title))
        near = sum(round(difference, 6) >= -1.0 for difference in differences)
        say(
            f"Within a point of the best of six baselines, or above, on {near} of "
            f"{len(differences)} sets; on average {np.mean(differences):+.1f} points."
        )
    if unfinished:
        say(f"Without all folds, and left out: {', '.join(unfinished)}.")
    say(_halves())


def _halves() -> str:
    return (
        f"Guide (used to choose the defaults): {', '.join(GUIDE)}.\n"
        f"Aside: {', '.join(ASIDE)}.\n"
        f"New texts, generated after all choices were made: {', '.join(FRESH)}.\n"
        "The texts aside had been used before the last change, see the results; the other sets "
        "aside only after all choices were made."
    )


def _auc(item: Summary) -> str:
    return f"{item.auc:.3f}" if item.auc == item.auc else "-"


def _taken(records: dict[str, dict[str, Any]], dataset: str) -> str:
    taken = Counter(
        record["result"]["paradigm"]
        for record in records.values()
        if record["dataset"] == dataset and "paradigm" in record.get("result", {})
    )
    return ", ".join(f"{name} {count}" for name, count in taken.most_common())


# -- probabilities ---------------------------------------------------------------------------------


def show_calibration(records: dict[str, dict[str, Any]]) -> None:
    """Brier scores, and how often bags of a stated probability were positive."""
    pooled: dict[tuple[str, str], tuple[list[float], list[int]]] = {}
    for record in records.values():
        result = record.get("result", {})
        if "probabilities" in result:
            for dataset in (record["dataset"], "all"):
                stated, truth = pooled.setdefault((dataset, record["method"]), ([], []))
                stated += result["probabilities"]
                truth += result["truth"]
    rows = []
    for dataset in (*CALIBRATED, "all"):
        cells = []
        for method in ("default", "misvc-calibrated"):
            if (dataset, method) in pooled:
                stated, truth = map(np.array, pooled[dataset, method])
                cells.append(f"{np.mean((stated - truth) ** 2):.3f}")
        if len(cells) == 2:
            rows.append([dataset, *cells])
    columns = ["data", "MIClassifier()", METHODS["misvc-calibrated"].title]
    if rows:
        show(Table(columns, rows, title="Brier score of bags left out (0 is best)"))
    if not {("all", "default"), ("all", "misvc-calibrated")} <= set(pooled):
        return
    rows = []
    for low, high in pairwise(BINS):
        row = [f"{low:.1f} to {high:.1f}"]
        for method in ("default", "misvc-calibrated"):
            stated, truth = map(np.array, pooled["all", method])
            inside = (stated >= low) & ((stated < high) | (high == 1.0))
            if inside.any():
                row += [f"{stated[inside].mean():.2f}", f"{truth[inside].mean():.2f}"]
            else:
                row += ["-", "-"]
            row.append(str(int(inside.sum())))
        rows.append(row)
    columns = ["stated", *("mean", "positive", "bags") * 2]
    title = "stated probability, and the share of positive bags; left MIClassifier()"
    show(Table(columns, rows, title=title))


# -- regression ------------------------------------------------------------------------------------


def show_regression() -> None:
    """MIRegressor on the published split of the artificial molecules."""
    rows = []
    for name in LJ:
        bunch = load_file(name)
        split = np.asarray(bunch.split)
        train, test = np.flatnonzero(split == 0), np.flatnonzero(split == 1)
        y = np.asarray(bunch.target, dtype=float)
        watch = Stopwatch()
        model = MIRegressor(random_state=0).fit(bunch.data[train], y[train])
        seconds = watch.seconds("fit_")["fit_cpu_seconds"]
        predicted = model.predict(bunch.data[test])
        wrong = np.mean((predicted > 0.5) != (y[test] > 0.5))
        error = mean_squared_error(y[test], predicted)
        cells = [f"{error:.4f}", percent(float(wrong)), duration(seconds)]
        rows.append([name, half_of(name), model.paradigm_, *cells])
    columns = ["data", "half", "chosen", "MSE", "err %", "fit, CPU time"]
    title = "MIRegressor() on the published split of the artificial molecules"
    show(Table(columns, rows, "lllrrr", title=title))
