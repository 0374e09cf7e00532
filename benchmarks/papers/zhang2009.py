"""Zhang, Wang, Si & Li (IJCAI 2009): Table 3, clustering accuracies, and Table 4, times."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize

from milearn import BAMIC, M3IC, Bags
from milearn.metrics import clustering_accuracy
from milearn.preprocessing import BagStatistics

from ..common.data import find_data_dir, load, load_file
from ..common.output import Table, duration, percent, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of
from ..common.reports import Report, finish

# The paper's grid.
COSTS = tuple(2.0**power for power in range(-4, 5))
BALANCES = (0.0, 0.001, 0.01, 0.1, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
STARTS = 5
BAMIC_RUNS = 10
SEEDS = 10  # repetitions of the label-free protocol

# Five of the ten classes each, two further on from one group to the next.
GROUPS = tuple(tuple((2 * group + step) % 10 for step in range(5)) for group in range(5))
METRICS = ("min", "max", "mean")
PUBLISHED = {
    "corel": (54.0, 40.3, 47.3, 36.7),
    "sival1": (47.0, 26.3, 35.3, 38.0),
    "sival2": (42.0, 29.0, 31.7, 39.3),
    "sival3": (41.0, 30.0, 35.7, 38.7),
    "sival4": (39.0, 26.0, 32.7, 30.0),
    "sival5": (40.7, 25.7, 36.3, 34.3),
}
PUBLISHED_SECONDS = {"corel": (1.2, 267.8, 257.1, 261.6)}


# -- data ----------------------------------------------------------------------------------------


def datasets() -> list[str]:
    """What can be clustered here: SIVAL only where a user has ``sival.npz``."""
    names = ["corel", *(f"corel1000-{number + 1}" for number in range(len(GROUPS)))]
    folder = find_data_dir()
    if folder is not None and (folder / "sival.npz").is_file():
        names += [f"sival{number + 1}" for number in range(5)]
    return names


@lru_cache(maxsize=4)
def loaded(name: str, scaling: str) -> tuple[Bags, np.ndarray]:
    """Bags with scaled instances, and their classes."""
    bags, y = _raw(name)
    X = bags.instances.astype(np.float64)
    if scaling == "unit":
        X = normalize(StandardScaler().fit_transform(X))
    elif scaling == "minmax":
        X = MinMaxScaler().fit_transform(X)
    elif scaling != "raw":
        raise ValueError(f"There is no scaling {scaling!r}.")
    return bags.with_instances(X), y


def _raw(name: str) -> tuple[Bags, np.ndarray]:
    if name == "corel":
        sets = [load(each) for each in ("elephant", "fox", "tiger")]
        parts = [data.bags[np.flatnonzero(data.y == 1)] for data in sets]
        return Bags.concatenate(parts), np.repeat(np.arange(3), [len(part) for part in parts])
    if name.startswith("corel1000-"):
        bunch, classes = load_file("corel1000_10class"), GROUPS[int(name[-1]) - 1]
    else:
        bunch = load_file("sival")
        # Which categories the paper put together is not known: five groups drawn once.
        order = np.random.RandomState(0).permutation(25)
        classes = order[5 * (int(name[-1]) - 1) :][:5]
    y = np.asarray(bunch.target).astype(int)
    keep = np.flatnonzero(np.isin(y, classes))
    return bunch.data[keep], y[keep]


def members(name: str) -> str:
    """What a group holds, for the note under the table."""
    bunch = load_file("corel1000_10class")
    names = getattr(bunch, "target_names", None)
    classes = GROUPS[int(name[-1]) - 1]
    return ", ".join(str(each if names is None else names[each]) for each in classes)


# -- one task ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterTask:
    """One clustering: ``parameters`` are pairs of a name and a value."""

    report: str
    dataset: str
    scaling: str
    method: str
    parameters: tuple[tuple[str, Any], ...]
    seed: int

    @property
    def key(self) -> str:
        settings = digest([self.scaling, self.parameters])
        return f"{self.report}/{self.dataset}/{self.method}/{self.seed}@{settings}"


def cluster(task: ClusterTask) -> dict[str, Any]:
    """Cluster once and compare with the classes."""
    bags, y = loaded(task.dataset, task.scaling)
    k = len(np.unique(y))
    named = dict(task.parameters)
    objective = gap = None
    if task.method == "k-means":
        means = BagStatistics(("mean",)).fit_transform(bags)
        found = KMeans(k, n_init=10, random_state=task.seed).fit(means).labels_
    else:
        kind = {"m3ic": M3IC, "bamic": BAMIC}[task.method]
        model = kind(k, random_state=task.seed, **named).fit(bags)
        found, objective = model.labels_, float(model.objective_)
        gap = model.dual_gap_ / objective if task.method == "m3ic" else None
    return {
        "accuracy": clustering_accuracy(y, found),
        "objective": objective,
        "gap": gap,
        "sizes": np.bincount(found, minlength=k).tolist(),
    }


def run_cluster(task: ClusterTask) -> dict[str, Any]:
    return record_of(task, cluster)


# -- Table 3 -------------------------------------------------------------------------------------


def table3_tasks(
    names: list[str], *, scalings: tuple[str, ...], seeds: int, fast: bool
) -> dict[str, list[ClusterTask]]:
    """Tasks by (data set, scaling, row), in the order of the table."""
    rows: dict[str, list[ClusterTask]] = {}
    for name in names:
        for scaling in scalings if name == "corel" else scalings[:1]:

            def task(
                method: str, seed: int, *, name: str = name, scaling: str = scaling, **named: Any
            ) -> ClusterTask:
                parameters = tuple(sorted(named.items()))
                return ClusterTask("zhang2009-table3", name, scaling, method, parameters, seed)

            grid = [(C, balance) for C in COSTS for balance in BALANCES]
            grid = grid[45:50] if fast else grid
            part = f"{name}/{scaling}/"
            # Independent starts for every point of the grid, as in the paper.
            rows[part + "m3ic-grid"] = [
                task("m3ic", number, C=C, balance=balance, init="random", n_init=STARTS)
                for number, (C, balance) in enumerate(grid)
            ]
            for metric in METRICS:
                rows[part + f"bamic-{metric}-runs"] = [
                    task("bamic", seed, metric=metric, n_init=1) for seed in range(BAMIC_RUNS)
                ]
            rows[part + "m3ic-default"] = [task("m3ic", seed) for seed in range(seeds)]
            rows[part + "m3ic-random"] = [
                task("m3ic", seed, init="random") for seed in range(seeds)
            ]
            for metric in METRICS:
                rows[part + f"bamic-{metric}"] = [
                    task("bamic", seed, metric=metric) for seed in range(seeds)
                ]
            rows[part + "k-means"] = [task("k-means", seed) for seed in range(seeds)]
    return rows


TITLES = {
    "m3ic-grid": "M3IC, best grid point",
    "bamic-min-runs": "BAMIC min, best of 10 runs",
    "bamic-max-runs": "BAMIC max, best of 10 runs",
    "bamic-mean-runs": "BAMIC mean, best of 10 runs",
    "m3ic-default": "M3IC()",
    "m3ic-random": "M3IC(init='random')",
    "bamic-min": "BAMIC(metric='min')",
    "bamic-max": "BAMIC(metric='max')",
    "bamic-mean": "BAMIC(metric='mean')",
    "k-means": "baseline: KMeans on bag means",
}


def run_table3(args: argparse.Namespace) -> int:
    begin = time.perf_counter()
    names = datasets()[: 2 if args.fast else None]
    seeds = args.repeats or (2 if args.fast else SEEDS)
    rows = table3_tasks(names, scalings=("unit", "minmax", "raw"), seeds=seeds, fast=args.fast)
    tasks = [task for row in rows.values() for task in row]
    with RecordFile(args.out / "zhang2009-table3.jsonl", fresh=args.fresh) as file:
        records, complete = run(
            tasks, file, jobs=args.jobs, label="zhang2009-table3", function=run_cluster
        )
    show(table3(rows, records))
    say(
        "\npublished: Table 3 of the paper. The rows with 'best' choose by the true classes, as "
        f"the paper did:\nM3IC the best of {len(COSTS)} x {len(BALANCES)} points (C, balance), "
        f"each the smallest objective of {STARTS} random starts;\nBAMIC the best of {BAMIC_RUNS} "
        "runs. The others do not use the classes: default parameters, the start with\nthe smallest "
        f"objective; mean +- sd over {seeds} seeds. Instances: unit = standardised, then scaled to "
        "unit\nlength (the paper names no scaling); one cluster for all bags has the share of "
        "the largest class:\n33.3 % of corel, 20.0 % of the others. empty: share of the runs that "
        "left a cluster empty.\ngap: largest duality gap of a fit, relative to its objective."
    )
    if any(name.startswith("corel1000-") for name in names):
        say("corel1000 replaces SIVAL, which is not available:")
        for name in names:
            if name.startswith("corel1000-"):
                say(f"  {name}: {members(name)}")
    print(f"time:    {time.perf_counter() - begin:.0f} s")
    return finish(records, complete, file, len(tasks))


def table3(rows: dict[str, list[ClusterTask]], records: dict[str, dict[str, Any]]) -> Table:
    cells = []
    for place, tasks in rows.items():
        name, scaling, row = place.split("/")
        found = [records[task.key] for task in tasks if task.key in records]
        good = [record["result"] for record in found if "result" in record]
        if not good:
            cells.append([name, scaling, TITLES[row], "-", "", "", "", "no result"])
            continue
        values = np.array([result["accuracy"] for result in good])
        chosen = row == "m3ic-grid" or row.endswith("-runs")
        remark = ""
        if chosen:
            text = percent(float(values.max()))
            if row == "m3ic-grid":
                best = dict(found[int(values.argmax())]["parameters"])
                middle = percent(float(np.median(values)))
                remark = f"C={best['C']:g}, balance={best['balance']:g}; median of grid {middle}"
        else:
            spread = float(values.std(ddof=1)) if len(values) > 1 else None
            text = percent(float(values.mean()), spread)
        empty = float(np.mean([min(result["sizes"]) == 0 for result in good]))
        gaps = [result["gap"] for result in good if result.get("gap") is not None]
        gap = f"{max(gaps):.1e}" if gaps else ""
        failed = len(found) - len(good)
        if failed:
            remark += f" {failed} FAILED"
        published = PUBLISHED.get(name)
        places = ("m3ic-grid", *(f"bamic-{metric}-runs" for metric in METRICS))
        beside = ""
        if published is not None and row in places:
            beside = f"{published[places.index(row)]:.1f}"
        cells.append([name, scaling, TITLES[row], text, beside, f"{empty:.0%}", gap, remark])
    columns = ["data", "instances", "method", "accuracy %", "published", "empty", "gap", ""]
    return Table(columns, cells, "lllrrrrl")


# -- Table 4 -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeTask:
    """One round of times of one data set, all rows in turn in one process."""

    report: str
    dataset: str
    method: str
    seed: int

    @property
    def key(self) -> str:
        return f"{self.report}/{self.dataset}/{self.seed}@{digest([STARTS, 1])}"


def _jobs(bags: Bags, k: int) -> dict[str, Callable[[], Any]]:
    weights = np.random.RandomState(0).normal(size=(k, bags.shape[1]))

    def m3ic(C: float, seed: int) -> Callable[[], Any]:
        return lambda: M3IC(k, C, 1.0, init="random", n_init=1, random_state=seed).fit(bags)

    jobs: dict[str, Callable[[], Any]] = {"product": lambda: bags.instances @ weights.T}
    for C in (1.0, 16.0):
        for seed in range(STARTS):
            jobs[f"m3ic-{C:g}/{seed}"] = m3ic(C, seed)
    for metric in METRICS:
        model = BAMIC(k, metric=metric, n_init=1, random_state=0)
        jobs[f"bamic-{metric}"] = lambda model=model: model.fit(bags)
    return jobs


def run_times(task: TimeTask) -> dict[str, Any]:
    def measure(task: TimeTask) -> dict[str, Any]:
        bags, y = loaded(task.dataset, "unit")
        return {"job_cpu_seconds": cpu_times(_jobs(bags, len(np.unique(y))))}

    return record_of(task, measure)


def cpu_times(jobs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """CPU seconds of each job, once after a first call that is not counted.

    A job shorter than the clock can tell is called as often as it takes.
    """
    times = {}
    for name, job in jobs.items():
        job()
        calls, spent, begin = 0, 0.0, time.process_time()
        while spent < 0.02:
            job()
            calls += 1
            spent = time.process_time() - begin
        times[name] = spent / calls
    return times


def run_table4(args: argparse.Namespace) -> int:
    begin = time.perf_counter()
    names = datasets()[: 1 if args.fast else None]
    rounds = args.repeats or (1 if args.fast else 7)
    tasks = [
        TimeTask("zhang2009-table4", name, "times", number)
        for number in range(rounds)
        for name in names
    ]
    with RecordFile(args.out / "zhang2009-table4.jsonl", fresh=args.fresh) as file:
        # One process: rows that are compared must not get into each other's way.
        records, complete = run(tasks, file, jobs=1, label="zhang2009-table4", function=run_times)
    show(table4(names, tasks, records))
    say(
        f"\nCPU time of one fit with one start: shortest of {rounds} rounds, in each of which all "
        "rows ran in turn\nin one process; M3IC: mean over "
        f"{STARTS} random starts, balance 1. product: one product X @ W.T of\nall instances with "
        "one weight vector per cluster. published: Table 4, seconds on a PC of 2009."
    )
    print(f"time:    {time.perf_counter() - begin:.0f} s")
    return finish(records, complete, file, len(tasks))


def table4(names: list[str], tasks: list[TimeTask], records: dict[str, dict[str, Any]]) -> Table:
    cells = []
    for name in names:
        good = [
            records[task.key]["result"]["job_cpu_seconds"]
            for task in tasks
            if task.dataset == name and "result" in records.get(task.key, {})
        ]
        if not good:
            cells.append([name, "no result", "-", "", "", ""])
            continue
        shortest = {job: min(times[job] for times in good) for job in good[0]}
        lines = {
            f"M3IC, C={C}": float(np.mean([shortest[f"m3ic-{C}/{s}"] for s in range(STARTS)]))
            for C in ("1", "16")
        }
        lines |= {f"BAMIC {metric}": shortest[f"bamic-{metric}"] for metric in METRICS}
        fastest = min(lines[f"BAMIC {metric}"] for metric in METRICS)
        published = PUBLISHED_SECONDS.get(name, ())
        beside = dict(zip(("M3IC, C=1", *list(lines)[2:]), published, strict=False))
        cells.append([name, "product", duration(shortest["product"]), "1.0", "", ""])
        for title, seconds in lines.items():
            cells.append(
                [
                    name,
                    title,
                    duration(seconds),
                    f"{seconds / shortest['product']:.1f}",
                    f"1/{fastest / seconds:.1f}" if title.startswith("M3IC") else "",
                    f"{beside[title]:g} s" if title in beside else "",
                ]
            )
    columns = ["data", "one run of", "CPU time", "in products", "of fastest BAMIC", "published"]
    return Table(columns, cells, "llrrrr")


REPORTS = (
    Report(
        "zhang2009-table3",
        "accuracy of M3IC and BAMIC, paper's protocol and a label-free one",
        run_table3,
    ),
    Report("zhang2009-table4", "time of one run of M3IC and BAMIC", run_table4),
)
