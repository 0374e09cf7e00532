"""``repertoires``: associated sequences, and motifs implanted into sequences of immune receptors.

Worlds with published figures, see :mod:`benchmarks.common.repertoires`. The published figures come
from other draws, and for cytomegalovirus from real people, whose labels and genes add difficulties
that a generated world does not have. Motifs need OLGA (``pip install 'milearn[repertoires]'``).
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC
from milearn.baselines import SequenceAbundanceClassifier
from milearn.preprocessing import BagStatistics, InstanceTransformer

from ..common.memory import Stopwatch
from ..common.output import Table, add_common_options, say, show
from ..common.protocol import run, scores_of
from ..common.records import RecordFile, digest, record_of
from ..common.repertoires import MOTIFS, draw_cmv, draw_motifs, draw_needle, olga_pool
from ..common.reports import finish

HELP = "immune repertoires: associated sequences and implanted motifs, with published figures"

WORLDS = ("cmv", "motifs", "needle")
# AUC of immuneML by training people, read off a figure.
CMV = {400: 0.86, 200: 0.51, 100: 0.46}
# Balanced accuracy of immuneML's logistic regression for the labels, by k, read off bars.
K_MERS = {3: (0.95, 0.89, 0.77, 0.68, 0.65), 4: (1.00, 0.96, 0.91, 0.80, 0.75)}
# Median depths of people, repertoires by k with their depth, and sequences of the pool.
CMV_DEPTH, FAST_DEPTH = 200_000, 5_000
REPERTOIRES, DEPTH, IN_POOL = {3: 2000, 4: 1000}, 100_000, 200_000
# k-mers that differ most between the training repertoires of both classes.
MOST_K_MERS = 10_000
COSTS, N_SPLITS, TEST_SHARE = (0.01, 0.03, 0.1, 1.0), 3, 0.3
# Shares of sequences with the motif, people and their sequences.
NEEDLES, NEEDLE_SHAPE, MISVC_COSTS = (0.001, 0.0002), (200, 5000), (1e-3, 1e-2, 1e-1)


@dataclass(frozen=True)
class RepertoireTask:
    """One draw of a world: by training people, by k, or by the share of the motif."""

    dataset: str
    setting: float
    draw: int
    method: str = ""
    depth: int = DEPTH

    @property
    def key(self) -> str:
        name = f"repertoires/{self.dataset}/{self.setting:g}/{self.draw}"
        own = {
            "cmv": [self.depth],
            "motifs": [self.depth, REPERTOIRES.get(int(self.setting)), IN_POOL, MOST_K_MERS],
            "needle": [self.method, IN_POOL, NEEDLE_SHAPE],
        }
        return f"{name}@{digest(own[self.dataset])}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS), metavar="NAME")
    parser.add_argument("--draws", type=int, default=3, metavar="N", help="of cmv (default: 3)")
    parser.add_argument("--people", nargs="+", type=int, default=list(CMV), metavar="N")
    parser.add_argument("--fast", action="store_true", help="40 people: a look, not a result")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")


def main(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    worlds, depth = args.worlds, CMV_DEPTH
    if args.fast:
        worlds, depth, args.people, args.draws = ["cmv"], FAST_DEPTH, [40], 1
        say("--fast: 40 people and one draw, a look and not a result.\n")
    if importlib.util.find_spec("olga") is None and {"motifs", "needle"} & set(worlds):
        say("Motifs are left out: OLGA is not installed (pip install 'milearn[repertoires]').")
        worlds = [name for name in worlds if name == "cmv"]
    tasks = tasks_of(worlds, args.people, args.draws, depth)
    with RecordFile(args.out / "repertoires.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label="repertoires", function=run_task)
    show_cmv(tasks, records)
    show_motifs(tasks, records)
    show_needles(tasks, records)
    status = finish(records, complete, file, len(tasks))
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status


def tasks_of(
    worlds: Sequence[str], people: Sequence[int], draws: int, depth: int
) -> list[RepertoireTask]:
    """The tasks of each world, whole draws first."""
    tasks = {
        "cmv": [
            RepertoireTask("cmv", n, draw, depth=depth) for draw in range(draws) for n in people
        ],
        "motifs": [RepertoireTask("motifs", k, 0) for k in K_MERS],
        "needle": [
            RepertoireTask("needle", share, 0, method)
            for share in NEEDLES
            for method in ("misvc", "logistic")
        ],
    }
    return [task for world in worlds for task in tasks[world]]


def run_task(task: RepertoireTask) -> dict[str, Any]:
    return record_of(task, {"cmv": _cmv, "motifs": _motifs, "needle": _needle}[task.dataset])


def _cmv(task: RepertoireTask) -> dict[str, Any]:
    people = draw_cmv(int(task.setting), task.draw, depth=task.depth)
    watch = Stopwatch()
    model = SequenceAbundanceClassifier().fit(people.train, people.y_train)
    seconds = watch.seconds("fit_")
    found = np.isin(model.associated_, people.associated)
    return {
        "auc": float(roc_auc_score(people.y_test, model.decision_function(people.test))),
        "threshold": model.threshold_,
        "selected": len(found),
        "associated": int(found.sum()),
        **seconds,
    }


def _motifs(task: RepertoireTask) -> dict[str, Any]:
    k = int(task.setting)
    pool = olga_pool(IN_POOL, "human_B_heavy")
    X, labels = draw_motifs(REPERTOIRES[k], task.depth, k, pool, task.draw)
    selected = SelectKBest(k=min(MOST_K_MERS, X.shape[1]))
    model = make_pipeline(selected, StandardScaler(), _lasso())
    splits = StratifiedShuffleSplit(N_SPLITS, test_size=TEST_SHARE, random_state=0)
    found: dict[str, list[float]] = {}
    for name, y in labels.items():
        for train, test in splits.split(X, y):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                predicted = model.fit(X[train], y[train]).predict(X[test])
            found.setdefault(name, []).append(float(balanced_accuracy_score(y[test], predicted)))
    return {"accuracies": found, "n_features": X.shape[1]}


def _lasso() -> GridSearchCV:
    # scikit-learn 1.8 replaces the parameter.
    norm = {"penalty": "l1"} if LogisticRegression().penalty == "l2" else {"l1_ratio": 1}
    model = LogisticRegression(solver="liblinear", max_iter=50, **norm)
    return GridSearchCV(model, {"C": COSTS}, cv=3)


def _needle(task: RepertoireTask) -> dict[str, Any]:
    n, size = NEEDLE_SHAPE
    pool = olga_pool(IN_POOL, "human_T_beta")
    bags, y = draw_needle(n, size, task.setting, pool, task.draw)
    counter = CountVectorizer(
        analyzer="char", ngram_range=(4, 4), lowercase=False, min_df=5, dtype=np.float32
    )
    if task.method == "misvc":
        search = GridSearchCV(MISVC(kernel="linear"), {"C": MISVC_COSTS}, cv=3, scoring="roc_auc")
        model = make_pipeline(InstanceTransformer(counter), search)
    else:
        model = make_pipeline(
            InstanceTransformer(counter), BagStatistics(("mean",)), StandardScaler(), _lasso()
        )
    watch = Stopwatch()
    model.fit(bags[: n // 2], y[: n // 2])
    auc = roc_auc_score(y[n // 2 :], scores_of(model, bags[n // 2 :]))
    return {"auc": float(auc), **watch.seconds("")}


# -- tables ----------------------------------------------------------------------------------------


def results_of(
    tasks: Sequence[RepertoireTask], records: dict[str, dict[str, Any]], world: str
) -> dict[tuple[float, str], list[dict[str, Any]]]:
    """Results of the draws by setting and method."""
    found: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        if task.dataset == world and result is not None:
            found.setdefault((task.setting, task.method), []).append(result)
    return found


def show_cmv(tasks: Sequence[RepertoireTask], records: dict[str, dict[str, Any]]) -> None:
    """One row per number of training people."""
    rows = [
        [
            f"{n:g}",
            f"{np.mean([each['auc'] for each in found]):.2f}",
            ", ".join(f"{each['auc']:.2f}" for each in found),
            f"{CMV[int(n)]:.2f}" if n in CMV else "-",
            f"{np.mean([each['associated'] for each in found]):.0f} of "
            f"{np.mean([each['selected'] for each in found]):.0f}",
            f"{np.mean([each['fit_cpu_seconds'] for each in found]):.0f} s",
        ]
        for (n, _), found in results_of(tasks, records, "cmv").items()
    ]
    columns = ["training people", "AUC", "draws", "published", "true of selected", "fit"]
    title = "associated sequences (cmv): AUC of SequenceAbundanceClassifier on 200 other people"
    if rows:
        show(Table(columns, rows, title=title))


def show_motifs(tasks: Sequence[RepertoireTask], records: dict[str, dict[str, Any]]) -> None:
    """One row per k, ours and the published one."""
    rows = []
    for (k, _), found in results_of(tasks, records, "motifs").items():
        values = found[0]["accuracies"].values()
        ours = [f"{np.mean(each):.2f}" for each in values]
        rows.append([f"{k:g}-mers", str(REPERTOIRES[int(k)]), *ours])
        rows.append(["  published", "2000", *(f"{each:.2f}" for each in K_MERS[int(k)])])
    title = "implanted motifs: balanced accuracy of L1 logistic regression by label"
    if rows:
        show(Table(["features", "repertoires", *MOTIFS], rows, title=title))
        say(
            f"{DEPTH:,} sequences in a repertoire, drawn from {IN_POOL:,} of OLGA (human IGH). The "
            f"{MOST_K_MERS:,} k-mers that differ most between the training classes are features."
        )


def show_needles(tasks: Sequence[RepertoireTask], records: dict[str, dict[str, Any]]) -> None:
    """One row per share and method."""
    names = {"misvc": "MISVC, linear", "logistic": "means, L1 logistic regression"}
    rows = [
        [
            f"{share:.2%}",
            names[method],
            f"{found[0]['auc']:.2f}",
            f"{found[0]['cpu_seconds']:.0f} s",
        ]
        for (share, method), found in results_of(tasks, records, "needle").items()
    ]
    title = "a motif in positive repertoires only: AUC of 4-mers on 100 other people"
    if rows:
        show(Table(["share", "model", "AUC", "time"], rows, title=title))
