"""``repertoires``: associated sequences, and a motif implanted into sequences of immune receptors.

Worlds with published figures, see :mod:`benchmarks.common.repertoires`. The published figures come
from other draws, and for cytomegalovirus from real people, whose labels and genes add difficulties
that a generated world does not have. The motif needs OLGA (``pip install 'milearn[repertoires]'``).
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC
from milearn.baselines import SequenceAbundanceClassifier
from milearn.preprocessing import BagStatistics, InstanceTransformer

from ..common.folds import scores_of
from ..common.memory import Stopwatch
from ..common.output import Table, say, show
from ..common.repertoires import draw_cmv, draw_needle, olga_pool
from ..common.runner import add_options, run

HELP = "immune repertoires: associated sequences and an implanted motif, with published figures"

WORLDS = ("cmv", "needle")
# AUC of immuneML by training people, read off a figure, and median depth of people.
CMV = {400: 0.86, 200: 0.51, 100: 0.46}
CMV_DEPTH, FAST_DEPTH = 200_000, 5_000
# Shares of sequences with the motif, people and their sequences, sequences of the pool.
NEEDLES, NEEDLE_SHAPE, IN_POOL = (0.001, 0.0002), (200, 5000), 200_000
NEEDLE_MODELS = {"misvc": "MISVC, linear", "logistic": "means, L1 logistic regression"}
COSTS, MISVC_COSTS = (0.01, 0.03, 0.1, 1.0), (1e-3, 1e-2, 1e-1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, jobs=1, fast="40 people")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS), metavar="NAME")
    parser.add_argument("--draws", type=int, default=3, metavar="N", help="of cmv (default: 3)")
    parser.add_argument("--people", nargs="+", type=int, default=list(CMV), metavar="N")


def main(args: argparse.Namespace) -> None:
    depth = CMV_DEPTH
    if args.fast:
        args.worlds, depth, args.people, args.draws = ["cmv"], FAST_DEPTH, [40], 1
    if "cmv" in args.worlds:
        show_cmv(args, depth)
    if "needle" in args.worlds and find_spec("olga") is None:
        say("The motif is left out: OLGA is not installed (pip install 'milearn[repertoires]').")
    elif "needle" in args.worlds:
        tasks = [(share, model) for share in NEEDLES for model in NEEDLE_MODELS]
        rows = [
            [f"{share:.2%}", NEEDLE_MODELS[model], f"{found[0]:.2f}", f"{found[1]:.0f} s"]
            for (share, model), found in zip(tasks, run(args, needle, tasks), strict=True)
            if found is not None
        ]
        title = "a motif in positive repertoires only: AUC of 4-mers on 100 other people"
        show(Table(["share", "model", "AUC", "time"], rows, title=title))


def show_cmv(args: argparse.Namespace, depth: int) -> None:
    """One row per number of training people; whole draws run first."""
    tasks = [(n, draw, depth) for draw in range(args.draws) for n in args.people]
    results = dict(zip(tasks, run(args, cmv, tasks), strict=True))
    rows = []
    for n in args.people:
        found = [results[n, draw, depth] for draw in range(args.draws)]
        if None not in found:
            auc, associated, selected, seconds = np.mean(found, axis=0)
            rows.append(
                [
                    *(str(n), f"{auc:.2f}", ", ".join(f"{each[0]:.2f}" for each in found)),
                    *(f"{CMV[n]:.2f}" if n in CMV else "-", f"{associated:.0f} of {selected:.0f}"),
                    f"{seconds:.0f} s",
                ]
            )
    columns = ["training people", "AUC", "draws", "published", "true of selected", "fit"]
    title = "associated sequences (cmv): AUC of SequenceAbundanceClassifier on 200 other people"
    show(Table(columns, rows, title=title))


def cmv(n: int, draw: int, depth: int) -> tuple[float, int, int, float]:
    """AUC, associated sequences among the selected, selected ones, and CPU time of the fit."""
    people = draw_cmv(n, draw, depth=depth)
    watch = Stopwatch()
    model = SequenceAbundanceClassifier().fit(people.train, people.y_train)
    seconds = watch.seconds()["cpu_seconds"]
    found = np.isin(model.associated_, people.associated)
    auc = float(roc_auc_score(people.y_test, model.decision_function(people.test)))
    return auc, int(found.sum()), len(found), seconds


def needle(share: float, name: str) -> tuple[float, float]:
    """AUC, and CPU time of a fit with its search and of the scores."""
    n, size = NEEDLE_SHAPE
    bags, y = draw_needle(n, size, share, olga_pool(IN_POOL, "human_T_beta"), 0)
    counter = CountVectorizer(
        analyzer="char", ngram_range=(4, 4), lowercase=False, min_df=5, dtype=np.float32
    )
    search = GridSearchCV(MISVC(kernel="linear"), {"C": MISVC_COSTS}, cv=3, scoring="roc_auc")
    steps = [search] if name == "misvc" else [BagStatistics(("mean",)), StandardScaler(), _lasso()]
    model, watch = make_pipeline(InstanceTransformer(counter), *steps), Stopwatch()
    model.fit(bags[: n // 2], y[: n // 2])
    auc = roc_auc_score(y[n // 2 :], scores_of(model, bags[n // 2 :]))
    return float(auc), watch.seconds()["cpu_seconds"]


def _lasso() -> GridSearchCV:
    # scikit-learn 1.8 replaces the parameter.
    norm = {"penalty": "l1"} if LogisticRegression().penalty == "l2" else {"l1_ratio": 1}
    model = LogisticRegression(solver="liblinear", max_iter=50, **norm)
    return GridSearchCV(model, {"C": COSTS}, cv=3)
