"""``minima``: objectives of several starts of one problem, between lower bounds of its optimum.

The problem is linear MI-SVM with one slack for each instance of a negative bag, which ``SDPMIL``
and ``WellSVC`` relax. All rows have the same bags, z-scores, cost and positive class.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from milearn import Bags
from milearn.datasets import make_bags
from milearn.svm import MISVC, SDPMIL, WellSVC

from ..common.data import available, load
from ..common.output import add_common_options
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest
from ..common.reports import finish
from ..common.selections import Selections, annealed, branch_and_bound
from ..common.slides import Cell, draw_slides
from ..common.table import Table
from ..common.tasks import record_of

HELP = "objectives of MISVC by start, between lower bounds and, where possible, the optimum"

# Bags, instances of each, features: one instance of each positive bag decides.
GENERATED = {
    "16 bags of 4, 10 features": (16, 4, 10),
    "24 bags of 10, 10 features": (24, 10, 10),
    "40 bags of 5, 20 features": (40, 5, 20),
}
SLIDES = {"slides, 30 bags of about 10, 32 features": Cell("witness", 30, 10, 32, 0.1)}
MUSK = "musk1, 30 bags"
DATASETS = (*GENERATED, *SLIDES, MUSK)
COSTS = (0.1, 1.0, 10.0)
N_STARTS, N_SOLVED, N_TEST = 1000, 5000, 500
# Starts within this factor of the lowest objective reach it.
NEAR = 1.01
# A bound from this share of the lowest objective on shows that it is the optimum.
CLOSED = 0.999
STARTS = ("means", "auto", "random", "annealing")


@dataclass(frozen=True)
class MinimaTask:
    """All starts and bounds of one problem."""

    dataset: str
    method: str
    C: float
    n_starts: int
    n_solved: int

    @property
    def key(self) -> str:
        name = f"{self.dataset}/{self.method}/{self.n_starts}/{self.n_solved}"
        return f"minima/{name}@{digest([N_TEST])}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument("--datasets", nargs="+", default=None, choices=DATASETS, metavar="NAME")
    parser.add_argument("--costs", nargs="+", type=float, default=list(COSTS), metavar="C")
    parser.add_argument(
        "--starts", type=int, default=N_STARTS, metavar="N", help="random ones, and steps"
    )
    parser.add_argument("--fast", action="store_true", help="20 starts of one problem: no result")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")


def main(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    names, costs, n_solved = args.datasets, args.costs, N_SOLVED
    if args.fast:
        names, costs, args.starts, n_solved = [DATASETS[0]], [1.0], 20, 500
        say("--fast: 20 starts of one problem, a look and not a result.\n")
    if names is None:
        names = [name for name in DATASETS if name != MUSK or available("musk1")]
    tasks = [
        MinimaTask(name, f"C={C:g}", C, args.starts, n_solved) for name in names for C in costs
    ]
    with RecordFile(args.out / "minima.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label="minima", function=run_task)
    show_objectives(tasks, records, args.starts)
    show_models(tasks, records)
    status = finish(records, complete, file, len(tasks))
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status


def run_task(task: MinimaTask) -> dict[str, Any]:
    return record_of(task, _result)


def drawn(name: str) -> tuple[Bags, np.ndarray, Bags, np.ndarray]:
    """Training bags, half of them positive, and test bags; both in z-scores of the former."""
    if name in SLIDES:
        slides = draw_slides(SLIDES[name], 0)
        parts = (slides.train.bags, slides.train.y, slides.test.bags, slides.test.y)
    elif name == MUSK:
        data = load("musk1")
        parts = _split(data.bags, data.y, 30)
    else:
        n_bags, size, n_features = GENERATED[name]
        settings: dict[str, Any] = {"witness_rate": 1 / size, "concept_distance": 3.0}
        every, y = make_bags(n_bags + N_TEST, n_features, bag_size=size, random_state=0, **settings)
        parts = _split(every, y, n_bags)
    train, y, test, y_test = parts
    scaler = StandardScaler().fit(train.instances.astype(np.float64))
    train, test = (
        each.with_instances(scaler.transform(each.instances.astype(np.float64)))
        for each in (train, test)
    )
    return train, y, test, y_test


def _split(bags: Bags, y: np.ndarray, n_train: int) -> tuple[Bags, np.ndarray, Bags, np.ndarray]:
    order = np.random.RandomState(0).permutation(len(y))
    train = np.concatenate([order[y[order] == code][: n_train // 2] for code in (0, 1)])
    test = np.setdiff1d(order, train)
    return bags[train], y[train], bags[test], y[test]


def _result(task: MinimaTask) -> dict[str, Any]:
    bags, y, test, y_test = drawn(task.dataset)
    linear: dict[str, Any] = {"C": task.C, "kernel": "linear", "pos_label": 1}
    problem = Selections(bags, y, task.C)
    rng = np.random.RandomState(0)

    def fitted(**settings: Any) -> MISVC:
        return MISVC(slack="instance", random_state=0, **linear, **settings).fit(bags, y)

    def from_rows(rows: np.ndarray) -> MISVC:
        init = bags.offsets[:-1].copy()
        init[y == 1] = problem.places[rows]
        return fitted(init=init)

    models, seconds = {}, {}
    makers = {
        "means": lambda: fitted(init="mean"),
        "auto": lambda: fitted(init="auto"),
        "random": lambda: fitted(init="random", n_init=task.n_starts),
        "annealing": lambda: from_rows(annealed(problem, task.n_starts, rng)),
    }
    for name, make in makers.items():
        begun = time.process_time()
        models[name] = make()
        seconds[name] = time.process_time() - begun
    bounds = {
        "SDPMIL": float(SDPMIL(relaxation="tight", **linear).fit(bags, y).lower_bound_),
        "WellSVC": float(WellSVC(**linear).fit(bags, y).lower_bound_),
    }
    known = min(model.objective_ for model in models.values())
    begun = time.process_time()
    # A little above, so that the optimum is met again where it is known already.
    branched = branch_and_bound(problem, known * 1.001, task.n_solved)
    if branched.selection is not None:
        models["branches"] = from_rows(branched.selection)
    seconds["branches"] = time.process_time() - begun
    return {
        "objectives": {name: float(model.objective_) for name, model in models.items()},
        "starts": models["random"].start_objectives_.tolist(),
        "bounds": {**bounds, "branches": branched.lower},
        "n_solved": branched.n_solved,
        "seconds": seconds,
        "auc": {
            name: float(roc_auc_score(y_test, model.decision_function(test)))
            for name, model in models.items()
        },
    }


# -- tables ----------------------------------------------------------------------------------------


def show_objectives(
    tasks: Sequence[MinimaTask], records: dict[str, dict[str, Any]], n_starts: int
) -> None:
    """Bounds and objectives of each problem, divided by its lowest objective."""
    rows = []
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        if result is None:
            continue
        lowest = min(result["objectives"].values())
        starts = np.array(result["starts"])
        cells = [f"{result['bounds'][name] / lowest:.2f}" for name in ("SDPMIL", "WellSVC")]
        bound = result["bounds"]["branches"] / lowest
        branches = "optimum" if bound >= CLOSED else f"{bound:.2f}"
        cells += [branches, f"{lowest:.4g}"]
        cells += [f"{result['objectives'][name] / lowest:.3f}" for name in STARTS]
        reached = 100 * np.mean(starts <= NEAR * lowest)
        rows.append([task.dataset, f"{task.C:g}", *cells, f"{reached:.1f}"])
    columns = [
        *("bags", "C", "SDPMIL", "WellSVC", "branches", "lowest"),
        *("means", "auto", "random", "annealing", "reached %"),
    ]
    title = "lower bounds, and objectives of linear MISVC by start, over the lowest objective"
    note = (
        "SDPMIL, WellSVC, branches: lower bounds. Branches enumerate selections of one instance of "
        "each positive\nbag, but none whose first choices alone cost more than a known solution; "
        'optimum: they came to their end.\nmeans, auto, random: init of MISVC(kernel="linear", '
        f'slack="instance"); random: the lowest of {n_starts:,} starts.\nannealing: simulated, '
        f"{n_starts:,} support vector machines, then MISVC. reached: random starts within 1 % of "
        "the\nlowest objective."
    )
    show(Table(columns, rows, title=title, note=note))


def show_models(tasks: Sequence[MinimaTask], records: dict[str, dict[str, Any]]) -> None:
    """AUC of the models on further bags, and CPU seconds."""
    rows = []
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        if result is None:
            continue
        objectives = result["objectives"]
        lowest = min(objectives, key=objectives.get)
        areas = [f"{100 * result['auc'][name]:.1f}" for name in ("means", "auto", lowest)]
        times = [f"{result['seconds'][name]:.2f}" for name in (*STARTS, "branches")]
        rows.append([task.dataset, f"{task.C:g}", *areas, *times, f"{result['n_solved']:,}"])
    columns = [
        *("bags", "C", "means", "auto", "lowest"),
        *("means, s", "auto, s", "random, s", "annealing, s", "branches, s", "SVMs"),
    ]
    title = "AUC x 100 on further bags of means, auto and the lowest objective, and CPU seconds"
    note = "SVMs: support vector machines that the branches solved."
    show(Table(columns, rows, title=title, note=note))
