"""Andrews & Hofmann (2003): figures 1 and 2 on a plane of ours, and what the paper left open."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from milearn import Bags
from milearn._solvers.ensemble.budget import BoostingOptions
from milearn.datasets import make_ambiguous_plane, plane_side
from milearn.ensemble import DPBoost, LPBoost
from milearn.model_selection import StratifiedBagKFold

from ..common.data import load
from ..common.memory import PeakMemory, Stopwatch
from ..common.output import Table, duration, percent, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of
from ..common.reports import Report, finish

# Accuracy in percent in the paper's Figure 2: lambda = 3, 20 ambiguous bags.
PUBLISHED = {"naive": 53.3, "DPBoost": 85.3, "perfect selector": 86.6, "perfect knowledge": 92.7}
LAMBDAS, COUNTS, N_FOLDS = (1, 3, 5, 7), (10, 20, 30), 5
MAX_ROWS = 1000
REAL = ("musk1", "elephant", "fox", "tiger", "musk2")
VARIANTS = (("DPBoost", 1.0), ("LPBoost, naive", 1.0))


class _TightDPBoost(DPBoost):
    """With more reductions than by default: the paper adds all that are violated."""

    def _options(self, n_estimators: int) -> BoostingOptions:
        return replace(super()._options(n_estimators), max_rows=MAX_ROWS)


def grid() -> tuple[np.ndarray, np.ndarray]:
    """The paper's 21 x 21 points, without those in the margin, and their sides."""
    line = np.linspace(0.0, 1.0, 21)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    sides = plane_side(points)
    return points[sides != 0], sides[sides != 0]


def four_models(X: Bags, y: np.ndarray, labels: np.ndarray, C: float) -> dict[str, Any]:
    """The four algorithms of the paper, all with thresholded RBF features."""
    # The perfect selector sees the positive instance of an ambiguous bag and not the others.
    seen = (labels == 1) | (y[X.bag_index] == 0)
    return {
        "naive": LPBoost(C, estimator="rbf").fit(X, y),
        "DPBoost": _TightDPBoost(C, estimator="rbf").fit(X, y),
        "perfect selector": LPBoost(C, estimator="rbf").fit(X.instances[seen], labels[seen]),
        "perfect knowledge": LPBoost(C, estimator="rbf").fit(X.instances, labels),
    }


def grid_accuracy(model: Any) -> float:
    points, sides = grid()
    scores = model.instance_decision_function(points)
    return float(np.mean((scores > 0) == (sides > 0)))


def active_fractions(model: DPBoost, X: Bags) -> tuple[float, float]:
    """Fractions of dual variables above zero: of one margin per instance, of the reductions.

    Of the reductions only those in the program are counted; there may be many more.
    """
    margins = float(model.n_active_margins_ / X.n_instances)
    return margins, float(model.n_active_reductions_ / max(1, model.n_reductions_))


@dataclass(frozen=True)
class PlaneTask:
    """One fold of one drawn plane, all four algorithms."""

    command: str
    ambiguity: int
    n_ambiguous: int
    repeat: int
    fold: int
    C: float = 1.0

    @property
    def key(self) -> str:
        return f"{self.command}/{self.ambiguity}/{self.n_ambiguous}/{self.repeat}/{self.fold}@" + (
            digest({"C": self.C, "max_rows": MAX_ROWS, "folds": N_FOLDS})
        )


def run_plane(task: PlaneTask) -> dict[str, Any]:
    names = {"dataset": f"lambda {task.ambiguity}", "method": f"|I| {task.n_ambiguous}"}
    return record_of(task, _plane_result, **names)


def _plane_result(task: PlaneTask) -> dict[str, Any]:
    X, y, labels = make_ambiguous_plane(
        task.n_ambiguous,
        ambiguity=task.ambiguity,
        random_state=task.repeat,
        return_instance_labels=True,
    )
    # Ambiguous bags and positive singletons are kinds of their own for the folds.
    kinds = y + (np.arange(len(y)) < task.n_ambiguous)
    splitter = StratifiedBagKFold(N_FOLDS, shuffle=True, random_state=task.repeat)
    train, _ = list(splitter.split(X, kinds))[task.fold]
    inside = np.isin(X.bag_index, train)
    models = four_models(X[np.sort(train)], y[np.sort(train)], labels[inside], task.C)
    ours = models["DPBoost"]
    margins, reductions = active_fractions(ours, X[np.sort(train)])
    return {
        "accuracy": {name: grid_accuracy(model) for name, model in models.items()},
        "active_margins": margins,
        "active_reductions": reductions,
        "reductions": int(ours.n_reductions_),
        "relative_gap": float(ours.optimality_gap_ / ours.objective_),
        "learners": len(ours.alpha_),
    }


def figure1(args: argparse.Namespace) -> int:
    repeats = args.repeats or (1 if args.fast else 5)
    tasks = [
        PlaneTask("andrews2003-figure1", ambiguity, count, repeat, fold)
        for repeat in range(repeats)
        for count in COUNTS
        for ambiguity in LAMBDAS
        for fold in range(N_FOLDS)
    ]
    name = "andrews2003-figure1"
    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label=name, function=run_plane)
    cells = collected(tasks, records)
    show(figure1_table(cells))
    say(
        "\nAccuracy in percent on a grid of 21 x 21 points outside the margin, mean +- standard\n"
        f"deviation over {repeats} drawn plane(s) x {N_FOLDS} folds (trained on four of five). "
        "Balls of any\nradius around training instances, C = 1, at most "
        f"{MAX_ROWS} reductions; no parameter was chosen.\nDPBoost: learners with weight; dual "
        "variables above zero, of one margin per instance and of\nthe reductions in the program; "
        "gap relative to the objective.\nPublished (one plane of its own, lambda 3, |I| 20): "
        + ", ".join(f"{key} {value}" for key, value in PUBLISHED.items())
    )
    status = finish(records, complete, file, len(tasks))
    return status


def collected(tasks: list[PlaneTask], records: dict[str, Any]) -> dict[tuple[int, int], list[Any]]:
    cells: dict[tuple[int, int], list[Any]] = {}
    for task in tasks:
        record = records.get(task.key, {})
        if "result" in record:
            cells.setdefault((task.n_ambiguous, task.ambiguity), []).append(record["result"])
    return cells


def figure1_table(cells: dict[tuple[int, int], list[Any]]) -> Table:
    rows = []
    for (count, ambiguity), results in sorted(cells.items()):
        row = [str(count), str(ambiguity)]
        for name in PUBLISHED:
            values = [result["accuracy"][name] for result in results]
            row.append(percent(float(np.mean(values)), float(np.std(values))))
        gap = float(np.mean([result["relative_gap"] for result in results]))
        for name in ("active_margins", "active_reductions"):
            row.append(percent(float(np.mean([result[name] for result in results]))))
        learners = float(np.mean([result["learners"] for result in results]))
        rows.append([*row, percent(gap), f"{learners:.0f}"])
    columns = ["|I|", "lambda", *PUBLISHED, "margins %", "reductions %", "gap %", "learners"]
    return Table(columns, rows, "r" * len(columns))


def figure2(args: argparse.Namespace) -> int:
    X, y, labels = make_ambiguous_plane(
        20, ambiguity=3, random_state=0, return_instance_labels=True
    )
    models = four_models(X, y, labels, C=1.0)
    rows = [
        [
            name,
            f"{100 * grid_accuracy(model):.1f}",
            f"{PUBLISHED[name]:.1f}",
            str(len(model.alpha_)),
        ]
        for name, model in models.items()
    ]
    show(Table(["", "accuracy %", "published", "learners"], rows))
    ours = models["DPBoost"]
    say(
        f"\n|I| = 20, lambda = 3: {int(X.sizes[:20].sum())} ambiguous instances, {X.n_instances} "
        f"in all. DPBoost: objective {ours.objective_:.4f},\nlower bound {ours.lower_bound_:.4f}; "
        f"dual variables above zero: of {ours.n_active_reductions_} of {ours.n_reductions_} "
        f"reductions in the program\nand of {ours.n_active_margins_} of {X.n_instances} margins."
    )
    return 0


# -- real sets -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RealTask:
    """One fold of one data set and method, with the parameters that it is given."""

    command: str
    dataset: str
    method: str
    fold: int
    n_folds: int
    C: float = 1.0

    @property
    def key(self) -> str:
        return f"{self.command}/{self.dataset}/{self.method}/{self.fold}@" + digest(
            {"C": self.C, "n_folds": self.n_folds}
        )


def run_real(task: RealTask) -> dict[str, Any]:
    return record_of(task, _real_result)


def _real_result(task: RealTask) -> dict[str, Any]:
    data = load(task.dataset)
    splitter = StratifiedBagKFold(task.n_folds, shuffle=True, random_state=0)
    train, test = list(splitter.split(data.bags, data.y))[task.fold]
    model = {"DPBoost": DPBoost, "LPBoost, naive": LPBoost}[task.method](task.C)
    with PeakMemory() as memory:
        watch = Stopwatch()
        model.fit(data.bags[train], data.y[train])
        seconds = watch.seconds("fit_")
    return {
        "accuracy": float(model.score(data.bags[test], data.y[test])),
        **seconds,
        "peak_mb": round(memory.peak / 2**20, 1),
        "learners": len(model.alpha_),
        "objective": float(model.objective_),
        "lower_bound": float(model.lower_bound_),
        "reductions": int(getattr(model, "n_reductions_", 0)),
        "active_reductions": int(getattr(model, "n_active_reductions_", 0)),
        "n_train": len(train),
    }


def real(args: argparse.Namespace) -> int:
    n_folds = 2 if args.fast else 10
    sets = REAL[:1] if args.fast else REAL
    for name in sets:
        load(name)
    # What is slow comes last, so that a run that is broken off has something to show.
    tasks = [
        RealTask("dpboost-real", dataset, method, fold, n_folds, C)
        for datasets in (sets[: len(REAL) - 1], sets[len(REAL) - 1 :])
        for method, C in VARIANTS
        for dataset in datasets
        for fold in range(n_folds)
    ]
    with RecordFile(args.out / "dpboost-real.jsonl", fresh=args.fresh) as file:
        records, complete = run(
            tasks, file, jobs=args.jobs, label="dpboost-real", function=run_real
        )
    show(real_table(tasks, records))
    say(
        f"\nStumps, at most 100 reductions, no parameter chosen; {n_folds}-fold over bags, mean +- "
        "standard\ndeviation over the folds that were run; CPU time: of a fit; gap: of (5) "
        "relative to\nthe objective; peak: largest memory of the process in a fit, data included."
    )
    return finish(records, complete, file, len(tasks))


def real_table(tasks: list[RealTask], records: dict[str, Any]) -> Table:
    cells: dict[tuple[str, float, str], list[Any]] = {}
    for task in tasks:
        record = records.get(task.key, {})
        if "result" in record:
            cells.setdefault((task.dataset, task.C, task.method), []).append(record["result"])
    rows = []
    for dataset, C, method in sorted(cells, key=lambda cell: (REAL.index(cell[0]), *cell[1:])):
        results = cells[dataset, C, method]

        def mean(name: str, results: list[Any] = results) -> float:
            return float(np.mean([result[name] for result in results]))

        accuracies = [result["accuracy"] for result in results]
        gap = 1.0 - mean("lower_bound") / mean("objective")
        rows.append(
            [
                dataset,
                f"{method}, C = {C:g}",
                str(len(results)),
                percent(float(np.mean(accuracies)), float(np.std(accuracies))),
                duration(mean("fit_cpu_seconds")),
                f"{mean('learners'):.0f}",
                percent(gap),
                f"{mean('active_reductions'):.0f} of {mean('reductions'):.0f}",
                f"{max(result['peak_mb'] for result in results):.0f} MB",
            ]
        )
    names = ("accuracy %", "CPU time", "learners", "gap %", "active reductions", "peak")
    return Table(["", "", "folds", *names], rows, "ll" + 7 * "r")


REPORTS = (
    Report("andrews2003-figure1", "Andrews & Hofmann 2003, Figure 1 on a plane of ours", figure1),
    Report("andrews2003-figure2", "Andrews & Hofmann 2003, Figure 2: decision boundaries", figure2),
    Report("dpboost-real", "DPBoost on Musk and Corel, which the paper could not reach", real),
)
