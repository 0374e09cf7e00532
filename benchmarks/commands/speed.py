"""``speed``: CPU time and peak memory of fits and predictions, compared with a baseline and peers.

A round measures every row of a (data set, kernel) once, in turn and each in a fresh process, and
its ratios compare fits of that round alone: a computer that gets slower or busier during the run
moves both sides. Reported are the ratio of the shortest times, and the median and range of the
rounds' ratios. Another package's time is compared with ours for the same problem only where both
reached the same value of the objective.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from milearn import Bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.model_selection import BagShuffleSplit
from milearn.structured import MILSD
from milearn.svm import MISVC, SDPMIL, CoupledMISVC, InstanceMISVC

from ..common.data import load
from ..common.fresh import in_fresh_process
from ..common.memory import measured
from ..common.output import Table, duration, megabytes, say, show
from ..common.runner import add_options, run

HELP = "time and memory of fits and predictions, compared with one SVC and installed packages"

# A group of rows: methods without a kernel have tables of their own.
KERNELS = ("linear", "rbf", "none")
# Objective values that differ by more than this share are of different solutions.
SAME = 0.01
MAX_FITS = 20
# A fit that takes longer is not done once more for its accuracy.
_LONGEST_FOR_ACCURACY = 30.0
TRAIN_SHARE = 0.75

# -- rows ------------------------------------------------------------------------------------------


class _InstanceSVC:
    """One SVC on all instances, each with the label of its bag; the highest instance decides."""

    def __init__(self, kernel: str, gamma: float, C: float) -> None:
        self.svc = SVC(kernel="linear" if kernel == "none" else kernel, gamma=gamma, C=C)

    def fit(self, bags: Bags, y: np.ndarray) -> _InstanceSVC:
        self.svc.fit(bags.instances, y[bags.bag_index])
        return self

    def predict(self, bags: Bags) -> np.ndarray:
        return np.maximum.reduceat(self.svc.predict(bags.instances), bags.offsets[:-1])


class _CostOfMean(MILSD):
    """MILSD divides C by the number of bags: multiplied before, the problem is that of MISVC."""

    def fit(self, X: Bags, y: np.ndarray) -> _CostOfMean:
        C, self.C = self.C, self.C * len(X)
        super().fit(X, y)
        self.C = C
        return self


class _Sawmil:
    """An estimator of sawmil. Of its solvers OSQP is free and was seen to reach the optimum."""

    def __init__(self, name: str, kernel: str, gamma: float, C: float, **settings: Any) -> None:
        import sawmil

        self.C = C
        chosen = sawmil.Linear() if kernel == "linear" else sawmil.RBF(gamma=gamma)
        self.model = getattr(sawmil, name)(C=C, kernel=chosen, solver="osqp", **settings)

    def fit(self, bags: Bags, y: np.ndarray) -> _Sawmil:
        self.model.fit(list(bags), 2.0 * y - 1)
        return self

    def predict(self, bags: Bags) -> np.ndarray:
        return (self._scores(bags) > 0).astype(int)

    def _scores(self, bags: Bags) -> np.ndarray:
        return np.asarray(self.model.decision_function(list(bags)), dtype=float).ravel()

    def objective(self, bags: Bags, y: np.ndarray) -> float:
        """Value of the SVM on the normalised set kernel (Gaertner et al. 2002)."""
        weights = np.asarray(self.model.alpha_) * np.asarray(self.model.y_)
        gram = self.model.bag_kernel(self.model.bags_, self.model.bags_)
        losses = np.maximum(0.0, 1.0 - (2.0 * y - 1) * self._scores(bags))
        return float(0.5 * weights @ gram @ weights + self.C * losses.sum())


def _nsk(kernel: str, gamma: float, C: float) -> _Sawmil:
    # Its other normalisers sum over a bag in the kernel and take the mean in a linear model's
    # predictions (0.2.1).
    return _Sawmil("NSK", kernel, gamma, C, normalizer="featurespace", scale_C=False)


@dataclass(frozen=True)
class Row:
    """One row of the tables.

    Attributes
    ----------
    title : str
        As it is printed.
    build : callable
        ``build(kernel, gamma, C)`` makes an estimator with ``fit`` and ``predict`` on bags.
    kernels : tuple of str
        The tables that it stands in; ``"none"`` for a method without a kernel.
    goal : dict of float
        Maximum cost of a fit, in fits of the baseline, by kernel.
    """

    title: str
    build: Callable[[str, float, float], Any]
    kernels: tuple[str, ...] = ("linear", "rbf")
    goal: dict[str, float] = field(default_factory=dict)


def _of(make: Any, **parameters: Any) -> Callable[[str, float, float], Any]:
    return lambda kernel, gamma, C: make(kernel=kernel, gamma=gamma, C=C, **parameters)


def _uncoupled(bag_kernel: str) -> Row:
    build = _of(CoupledMISVC, coupling=0.0, bag_kernel=bag_kernel)
    return Row(f"CoupledMISVC, coupling 0, {bag_kernel}", build)


BASELINE = "svc"
# The row whose problem is that of the peer.
OURS_OF = {"sawmil-NSK": "setkernel"}
PEERS = {
    "sawmil-NSK": Row("sawmil.NSK", _nsk),
    "sawmil-sMIL": Row("sawmil.sMIL", lambda *settings: _Sawmil("sMIL", *settings)),
}
ROWS = {
    BASELINE: Row("baseline: one SVC, inherited labels", _InstanceSVC, KERNELS),
    "misvc-l1": Row("CoupledMISVC, coupling 0.1", _of(CoupledMISVC, coupling=0.1)),
    "setkernel": _uncoupled("normalized_set"),
    "setkernel-sum": _uncoupled("set"),
    "misvc-instance": Row(
        *("MISVC, instance slack", _of(MISVC, slack="instance")),
        goal={"linear": 1.0, "rbf": 2.5},
    ),
    "misvc-bag": Row("MISVC, bag slack", _of(MISVC), goal={"linear": 2.0, "rbf": 4.0}),
    "instancemisvc": Row("InstanceMISVC", _of(InstanceMISVC), goal={"linear": 10.0, "rbf": 10.0}),
    "milsd": Row("MILSD, no graph", lambda kernel, gamma, C: _CostOfMean(C=C), ("linear",)),
    "sdpmil": Row("SDPMIL", _of(SDPMIL)),
    "dpboost": Row("DPBoost", lambda kernel, gamma, C: DPBoost(C=C), ("none",)),
    "lpboost": Row("LPBoost", lambda kernel, gamma, C: LPBoost(C=C), ("none",)),
    **(PEERS if find_spec("sawmil") is not None else {}),
}


# -- measurements ----------------------------------------------------------------------------------


def fit(task: dict[str, Any]) -> dict[str, Any]:
    """CPU time and peak memory of a fit and of a prediction on standardised instances.

    With ``accuracy`` in the task, also the accuracies of one more fit on a part of the bags.
    """
    bags, y = load(task["dataset"]).bags, load(task["dataset"]).y

    def model() -> Any:
        return ROWS[task["method"]].build(task["kernel"], 1.0 / bags.shape[1], task["C"])

    def scaled(rows: np.ndarray) -> Bags:
        return bags.with_instances(StandardScaler().fit(rows).transform(bags.instances))

    whole = scaled(bags.instances)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The first fit imports solver libraries and fills their caches: a few bags take that away.
        few = np.concatenate([np.flatnonzero(y == label)[:3] for label in (0, 1)])
        model().fit(whole[few], y[few]).predict(whole[few])
        caught.clear()
        found, fitted = measured(lambda: model().fit(whole, y), most=MAX_FITS)
        found["warnings"] = sorted({item.category.__name__ for item in caught})
        predicted, _ = measured(lambda: fitted.predict(whole), most=MAX_FITS)
        found |= {f"predict_{name}": value for name, value in predicted.items()}
        objective = getattr(fitted, "objective_", None)
        if task["method"] in OURS_OF:
            objective = fitted.objective(whole, y)
        found["objective"] = None if objective is None else float(objective)
        if task["accuracy"] and found["wall_seconds"] < _LONGEST_FOR_ACCURACY:
            splitter = BagShuffleSplit(1, train_size=TRAIN_SHARE, random_state=0)
            train, test = next(iter(splitter.split(bags, y)))
            part = scaled(bags[train].instances)
            other = model().fit(part[train], y[train])
            found["accuracies"] = [
                float(np.mean(other.predict(part[side]) == y[side])) for side in (train, test)
            ]
    return found


def round_of(
    dataset: str, kernel: str, C: float, timeout: float, number: int, methods: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Every method once, each in a fresh process; a failure is a part of the result."""
    found: dict[str, dict[str, Any]] = {}
    for method in methods:
        task = {"dataset": dataset, "kernel": kernel, "C": C, "method": method}
        try:
            task["accuracy"] = number == 0
            found[method] = in_fresh_process("benchmarks.commands.speed:fit", task, timeout)
        except (TimeoutError, RuntimeError) as error:
            found[method] = {"error": str(error)}
    return found


# -- the command -----------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument("--datasets", nargs="+", default=["musk2", "elephant"], metavar="NAME")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument("-C", type=float, default=1.0, help="default: 1")
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="most CPU time of a row in a round; one that misses it, or fails, is not tried again "
        "(default: 600)",
    )
    parser.add_argument("--no-peers", action="store_true", help="leave other packages out")


def main(args: argparse.Namespace) -> None:
    groups = [(dataset, kernel) for dataset in args.datasets for kernel in args.kernels]
    rounds: dict[tuple[str, str], list[dict[str, Any]]] = {group: [] for group in groups}
    # Whole rounds one after the other, and one row at a time.
    for number in range(args.rounds):
        tasks = [
            (*group, args.C, args.timeout, number, _methods(args, group, rounds[group]))
            for group in groups
        ]
        for group, found in zip(groups, run(args, round_of, tasks), strict=True):
            rounds[group].append({**(rounds[group] or [{}])[-1], **(found or {})})
    for (dataset, kernel), found in rounds.items():
        words = "no kernel" if kernel == "none" else f"{kernel} kernel"
        show_fits(found, kernel, f"{load(dataset)}; {words}, C={args.C:g}")
        print()
        show_predictions(found)
    say(
        "\nStandardised instances, gamma = 1 / features; each row of a round in a process of its "
        "own, rows in turn.\nCPU time: shortest of a fit, and of a prediction for all bags; "
        "ratio: to that of the baseline, shortest over\nshortest; rounds: median [least, largest] "
        "of the rounds' ratios; memory: peak above the process before,\nmedian of the rounds. "
        "\nobjective: recomputed here for another package; compared with ours: its time in ours "
        "for the same problem, where the\nvalues agree to 1 %. train, test: accuracy in percent of "
        f"one more fit on {100 * TRAIN_SHARE:.0f} % of the bags, without tuning:\nan indication. "
        '"no kernel": the baseline has a linear one.'
    )


def _methods(
    args: argparse.Namespace, group: tuple[str, str], before: list[dict[str, Any]]
) -> tuple[str, ...]:
    failed = {name for name, row in (before or [{}])[-1].items() if "error" in row}
    here = {name for name, row in ROWS.items() if group[1] in row.kernels} - failed
    return tuple(name for name in ROWS if name in here and not (args.no_peers and name in PEERS))


def show_fits(rounds: list[dict[str, Any]], kernel: str, title: str) -> None:
    lines = []
    for method, first in rounds[0].items():
        row = ROWS[method]
        if error := rounds[-1][method].get("error"):
            lines.append([row.title, "-", "-", "-", "", "-", error[:60], ""])
            continue
        seconds, ratio, spread = _ratios(method, rounds, "cpu_seconds")
        goal = row.goal.get(kernel)
        missed = " missed" if goal is not None and ratio and float(ratio) > goal else ""
        limit = "" if goal is None else f"{goal:g}{missed}"
        memory = megabytes(statistics.median(each[method]["peak_mb"] for each in rounds))
        value = "" if first["objective"] is None else f"{first['objective']:.6g}"
        if first["warnings"]:
            value += f" ({', '.join(first['warnings'])})"
        beside = _beside(method, rounds) if method in PEERS else ""
        lines.append([row.title, seconds, ratio, spread, limit, memory, value, beside])
    columns = ["fit", "CPU time", "ratio", "rounds", "goal", "memory", "objective"]
    show(Table([*columns, "compared with ours"], lines, "lrrrlrll", title=title))


def show_predictions(rounds: list[dict[str, Any]]) -> None:
    """Predictions for all bags; and accuracies, which the first round measures."""
    lines = []
    for method, first in rounds[0].items():
        if "error" not in rounds[-1][method]:
            cells = _ratios(method, rounds, "predict_cpu_seconds")
            memory = statistics.median(each[method]["predict_peak_mb"] for each in rounds)
            accuracies = [f"{100 * each:.1f}" for each in first.get("accuracies", ())] or ["", ""]
            lines.append([ROWS[method].title, *cells, megabytes(memory), *accuracies])
    columns = ["prediction", "CPU time", "ratio", "rounds", "memory", "train %", "test %"]
    show(Table(columns, lines, "lrrrrrr"))


def _ratios(
    method: str, rounds: list[dict[str, Any]], what: str, other: str = BASELINE
) -> tuple[str, str, str]:
    """Cells: shortest time, its ratio to that of another row, the rounds' ratios."""
    mine = [row[method][what] for row in rounds]
    others = [row[other].get(what) for row in rounds]
    if method == other or None in others:
        return duration(min(mine)), "", ""
    ratios = [one / two for one, two in zip(mine, others, strict=True)]
    shown = [min(mine) / min(others), statistics.median(ratios), min(ratios), max(ratios)]
    ratio, median, low, high = (f"{each:.2f}" if each < 100 else f"{each:.0f}" for each in shown)
    return duration(min(mine)), ratio, f"{median} [{low}, {high}]"


def _beside(method: str, rounds: list[dict[str, Any]]) -> str:
    """Another package's time in ours for the same problem, or why there is none."""
    if method not in OURS_OF:
        return "another objective"
    ours = OURS_OF[method]
    if "error" in rounds[-1][ours]:
        return ""
    theirs, own = (rounds[0][name]["objective"] for name in (method, ours))
    if abs(theirs - own) > SAME * own:
        return f"{'higher' if theirs > own else 'lower'} than {ROWS[ours].title} ({own:.6g})"
    _, ratio, spread = _ratios(method, rounds, "cpu_seconds", ours)
    return f"{ratio}, {spread} x {ROWS[ours].title}"
