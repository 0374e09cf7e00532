"""``paths``: both sides of every automatic choice, at sizes around its threshold.

Each fit is done as the package chooses and with either side forced. The rule is wrong where it is
much slower than the quicker side, or ends at a higher objective than the better one.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from milearn import Bags
from milearn.baselines import MILES, MILBoost
from milearn.datasets import make_affinity, make_bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.structured import MILSD, LinkContentMF
from milearn.svm import MISVC, MISVR, SDPMIL, CoupledMISVC, InstanceMISVC

from ..common.output import RESULTS
from ..common.page import say, show
from ..common.switches import switched
from ..common.table import Table

HELP = "both sides of every automatic choice; fails where the rule takes the worse one"

SLOWER, HIGHER = 1.5, 1.01
# Seconds that do not count: below, the clock decides.
SMALL = 0.005
ROUNDS, FAST_ROUNDS = 5, 3
SOLVERS = "milearn._solvers"

Data = Callable[..., tuple[Bags, np.ndarray]]


@dataclass(frozen=True)
class Case:
    """A fit at one side of a threshold, or near it; ``fast`` cases run in CI.

    ``rounds`` is the number of rounds where one of the sides takes long, and ``blas_threads`` the
    number of threads of BLAS that the fits find.
    """

    size: str
    estimator: BaseEstimator
    data: Data
    fast: bool = False
    rounds: int | None = None
    blas_threads: int | None = None


@dataclass(frozen=True)
class Choice:
    """A switch, the values that force its two sides, and fits that pass it.

    ``higher`` is the largest ratio of objectives; greedy methods have no minimum to compare with.
    """

    name: str
    switch: str
    sides: dict[str, Any]
    cases: tuple[Case, ...]
    higher: float = HIGHER


@dataclass(frozen=True)
class Measured:
    """Median seconds and objective of the rule and of each side."""

    seconds: dict[str, float]
    objectives: dict[str, float]

    @property
    def slower(self) -> float:
        """Time of the rule by that of the quicker side, beyond what the clock cannot tell."""
        best = min(seconds for name, seconds in self.seconds.items() if name != RULE)
        return max(0.0, self.seconds[RULE] - SMALL) / best

    @property
    def higher(self) -> float:
        """Objective of the rule by that of the better side."""
        best = min(value for name, value in self.objectives.items() if name != RULE)
        return self.objectives[RULE] / best if best > 0 else 1.0

    def passes(self, higher: float = HIGHER) -> bool:
        return self.slower <= SLOWER and self.higher <= higher


RULE = "rule"


# -- data ------------------------------------------------------------------------------------------


def overlapping(
    n_bags: int, n_features: int = 20, size: int = 6, seed: int = 0
) -> tuple[Bags, np.ndarray]:
    return make_bags(n_bags, n_features, bag_size=(2, size), flip_y=0.05, random_state=seed)


def targets(n_bags: int, n_features: int = 10, seed: int = 0) -> tuple[Bags, np.ndarray]:
    return make_affinity(n_bags, n_features, n_relevant=4, bag_size=(2, 6), random_state=seed)


def signed(n_bags: int, seed: int = 0) -> tuple[Bags, np.ndarray]:
    """Targets that a linear function fits badly."""
    bags, y = overlapping(n_bags, 50, 15, seed)
    return bags, 2.0 * y - 1.0


def texts(n_bags: int, n_features: int, seed: int = 0) -> tuple[Bags, np.ndarray]:
    """Sparse rows of some thirty words; a witness holds some of ten words of its class."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, n_bags)
    offsets, y = np.r_[0, np.cumsum(sizes)], np.arange(n_bags) % 2
    words = sparse.random_array(
        (offsets[-1], n_features), density=30 / n_features, random_state=rng, format="lil"
    )
    for row in offsets[:-1][y == 1]:
        words[row, rng.integers(0, 10, 3)] = 1.0
    return Bags(words.tocsr(), offsets), y


def tissues(n_bags: int, size: int, n_features: int, seed: int = 0) -> tuple[Bags, np.ndarray]:
    """Instances of twelve tissues; in positive bags a fiftieth of them is moved."""
    rng = np.random.default_rng(seed)
    y, n = np.arange(n_bags) % 2, n_bags * size
    instances = rng.standard_normal((n, n_features), dtype=np.float32)
    centres = rng.standard_normal((12, n_features), dtype=np.float32)
    instances += centres[rng.integers(12, size=n)]
    moved = (np.repeat(y, size) == 1) & (np.arange(n) % size < size / 50)
    instances[moved] += 4.0 * rng.standard_normal(n_features) / n_features**0.5
    return Bags(instances, np.arange(n_bags + 1) * size), y


def linked(n_bags: int, n_features: int = 10, seed: int = 0) -> tuple[Bags, np.ndarray]:
    """Overlapping bags in a ring of three neighbours, by classes."""
    bags, y = overlapping(n_bags, n_features, seed=seed)
    order = np.argsort(y, kind="stable")
    steps = [np.roll(order, -shift) for shift in (1, 2, 3)]
    rows = np.tile(order, 3)
    graph = sparse.csr_array((np.ones(len(rows)), (rows, np.concatenate(steps))), (n_bags, n_bags))
    return Bags(bags.instances, bags.offsets, bag_graph=graph), y


# -- choices ---------------------------------------------------------------------------------------


def choices() -> list[Choice]:
    """Every automatic choice between two ways to the same result."""
    never, always = 10**12, 0
    linear: dict[str, Any] = {"kernel": "linear", "C": 1.0}
    races = (
        Case("100 bags", MISVC(), partial(overlapping, 100), fast=True),
        Case("100 large bags", MISVC(C=1.0), partial(overlapping, 100, size=30), rounds=3),
        Case("slack of instances", MISVC(slack="instance"), partial(overlapping, 150)),
        Case("500 bags", MISVC(), partial(overlapping, 500), rounds=2),
    )
    return [
        Choice(
            "boosting: prices from the interior or from the simplex method",
            f"{SOLVERS}.ensemble.column_generation:BoostingOptions(interior_rows)",
            {"interior": always, "vertices": never},
            (
                Case("20 bags", DPBoost(), partial(overlapping, 20, 5), fast=True),
                Case("60 bags", DPBoost(), partial(overlapping, 60, 5)),
            ),
        ),
        Choice(
            "1-norm SVM: simplex or interior point method",
            f"{SOLVERS}.baselines.one_norm:solve_one_norm(simplex_bags)",
            {"simplex": never, "interior": always},
            (
                Case("MILES, 100 bags", MILES(), partial(overlapping, 100), fast=True),
                Case("MILES, 1,000 bags", MILES(), partial(overlapping, 1000), rounds=2),
            ),
        ),
        Choice(
            "stumps: cuts between all values or between bins",
            f"{SOLVERS}.ensemble.pools:make_pool(exact_points)",
            {"all": never, "bins": always},
            (
                Case("MILBoost, 100 bags", MILBoost(), partial(overlapping, 100), fast=True),
                Case("MILBoost, 4,000 bags", MILBoost(), partial(overlapping, 4000), rounds=2),
            ),
            higher=1.2,
        ),
        Choice(
            "boosting of large programs: simplex method or interior solution",
            f"{SOLVERS}.ensemble.column_generation:BoostingOptions(simplex_entries)",
            {"simplex": never, "interior": always},
            (
                Case("LPBoost, 40 bags", LPBoost(), partial(overlapping, 40, 5), fast=True),
                Case("LPBoost, 120 bags", LPBoost(), partial(overlapping, 120), rounds=2),
            ),
        ),
        Choice(
            "quadratic programs: variables fixed, or all at once",
            f"{SOLVERS}.common.qp:_MIN_SIZE_FOR_FIXING",
            {"fixed": always, "whole": never},
            (
                Case("MISVC, 40 bags", MISVC(), partial(overlapping, 40), fast=True),
                Case("MISVC, 150 bags", MISVC(), partial(overlapping, 150)),
                Case("l1, 40 bags", CoupledMISVC(), partial(overlapping, 40), fast=True),
            ),
        ),
        Choice(
            "coupled dual: first active set by libsvm or empty",
            f"{SOLVERS}.svm.coupled.dual:solve_step(many_bags)",
            {"libsvm": always, "empty": never},
            (
                Case("100 bags", CoupledMISVC(C=1.0), partial(overlapping, 100), fast=True),
                Case("400 bags", CoupledMISVC(C=1.0), partial(overlapping, 400)),
            ),
        ),
        Choice(
            "Newton of sparse rows: Cholesky over columns or conjugate gradients",
            f"{SOLVERS}.common.newton.direction:Limits(dense_columns)",
            {"cholesky": never, "conjugate gradients": always},
            (
                Case("500 columns", MISVC(**linear), partial(texts, 150, 500), fast=True),
                Case("4,000 columns", MISVC(**linear), partial(texts, 1200, 4000)),
            ),
        ),
        Choice(
            "Guo's relaxation of texts: systems solved outright or by conjugate gradients",
            f"{SOLVERS}.svm.guo.systems:SparseGeometry(few_rows)",
            {"outright": never, "conjugate gradients": always},
            (
                Case("60 bags", SDPMIL(**linear), partial(texts, 60, 1000), fast=True),
                Case("300 bags", SDPMIL(**linear), partial(texts, 300, 3000)),
            ),
        ),
        Choice(
            "linear problems: dual or passes over rows",
            "milearn.svm._fit:by_rows",
            {"dual": lambda *given, **named: False, "rows": lambda *given, **named: True},
            (
                Case("MISVC, 100 bags", MISVC(**linear), partial(overlapping, 100), fast=True),
                Case("MISVC, 60 texts", MISVC(**linear), partial(texts, 60, 1000), fast=True),
                Case("MISVC, 600 bags", MISVC(**linear), partial(overlapping, 600)),
                Case("MISVC, 500 x 5,000", MISVC(**linear), partial(texts, 500, 5000)),
                Case(
                    "MISVC, 1,000 bags of 2 or 3",
                    MISVC(**linear),
                    partial(overlapping, 1000, size=3),
                    fast=True,
                ),
                Case(
                    "MISVC, 3,000 bags of 2 or 3",
                    MISVC(**linear),
                    partial(overlapping, 3000, size=3),
                    rounds=2,
                ),
                Case("InstanceMISVC, 100 bags", InstanceMISVC(**linear), partial(overlapping, 100)),
                Case(
                    "InstanceMISVC, 250 bags",
                    InstanceMISVC(**linear),
                    partial(overlapping, 250),
                    fast=True,
                ),
                Case("MISVR, 100 bags", MISVR(kernel="linear"), partial(targets, 100), fast=True),
                Case("l1, 100 bags", CoupledMISVC(**linear), partial(overlapping, 100)),
            ),
        ),
        Choice(
            "kernel MISVC: the second start followed roughly first, or precisely at once",
            f"{SOLVERS}.svm.maximum.race:RaceLimits(tol)",
            {"roughly": 1e-3, "precisely": 0.0},
            races,
        ),
        Choice(
            "kernel MISVC: a second start that is worse after a rough run left, or followed",
            f"{SOLVERS}.svm.maximum.race:RaceLimits(near)",
            {"left": 0.0, "followed": float(never)},
            races,
        ),
        Choice(
            "linear MISVR: first steps solved roughly, or all precisely",
            f"{SOLVERS}.svm.coupled.view:CoupledLimits(exact_instances)",
            {"roughly": always, "precisely": never},
            (
                Case("100 bags", MISVR(kernel="linear"), partial(targets, 100), fast=True),
                Case("1,200 bags", MISVR(kernel="linear"), partial(targets, 1200), rounds=3),
                Case("500 bags, noise", MISVR(kernel="linear"), partial(signed, 500), rounds=3),
            ),
        ),
        Choice(
            "linear MISVC: rows near the margin, or all of them",
            f"{SOLVERS}.svm.maximum.view:RowLimits(whole_rows)",
            {"all": 20_000, "near": 0},
            (
                Case("200 bags", MISVC(**linear), partial(overlapping, 200, 60), fast=True),
                Case("2,000 bags", MISVC(**linear), partial(overlapping, 2000, 60)),
            ),
        ),
        Choice(
            "linear MISVC: starts followed on all instances, or on a sample",
            f"{SOLVERS}.svm.maximum.view:RowLimits(all_starts)",
            {"all": float(never), "sample": 0.0},
            (
                Case("1,000 bags", MISVC(**linear), partial(overlapping, 1000), fast=True),
                Case("8,000 bags", MISVC(**linear), partial(overlapping, 8000, 100), rounds=2),
            ),
        ),
        Choice(
            "linear MISVC of sparse rows: a start by variances of all instances, or none",
            f"{SOLVERS}.svm.maximum.view:RowLimits(features_per_row)",
            {"variances": 0.0, "none": float(never)},
            (
                Case(
                    "8,000 texts", MISVC(**linear), partial(texts, 8000, 600), fast=True, rounds=1
                ),
                Case("30,000 texts", MISVC(**linear), partial(texts, 30_000, 8500), rounds=1),
                Case(
                    "30,000 texts, slack of instances",
                    MISVC(**linear, slack="instance"),
                    partial(texts, 30_000, 8500),
                    rounds=1,
                ),
            ),
        ),
        Choice(
            "linear MISVC of many features: a start by covariances of all instances, or none",
            f"{SOLVERS}.svm.maximum.view:RowLimits(covariance_features)",
            {"covariances": (1, never), "none": (1, 0)},
            tuple(
                Case(
                    f"{n_bags} bags of 250, {n_features} features",
                    MISVC(kernel="linear", C=0.01),
                    partial(tissues, n_bags, 250, n_features),
                    fast=n_features == 128,
                    rounds=2,
                )
                for n_bags, n_features in ((540, 128), (300, 256), (300, 512))
            ),
        ),
        Choice(
            "passes and convex steps: one thread of BLAS, or all",
            "milearn._bags.threads:_limit_blas(n_threads)",
            {"one": 1, "all": None},
            tuple(
                Case(size, MISVC(**linear), data, size == "4,000 x 20", rounds, blas_threads=2)
                for size, data, rounds in (
                    ("4,000 x 20", partial(overlapping, 730, 20, 9), 1),
                    ("20,000 x 50", partial(overlapping, 3600, 50, 9), 2),
                    ("100,000 x 100", partial(overlapping, 9100, 100, 20), 2),
                    ("1,000,000 x 100", partial(overlapping, 91_000, 100, 20), 1),
                    ("75,000 x 256, covariances", partial(tissues, 300, 250, 256), 2),
                    ("36,000 texts", partial(texts, 8000, 600), 2),
                )
            ),
        ),
        Choice(
            "linear InstanceMISVC: rows near the margin, or all of them",
            f"{SOLVERS}.svm.maximum.labels_rows:LabelLimits(whole_rows)",
            {"all": never, "near": always},
            (
                Case("200 bags", InstanceMISVC(**linear), partial(overlapping, 200), fast=True),
                Case("2,000 bags", InstanceMISVC(**linear), partial(overlapping, 2000)),
            ),
        ),
        Choice(
            "links: systems over rows or over columns",
            f"{SOLVERS}.common.newton.direction:Limits(few_rows)",
            {"rows": never, "columns": always},
            (
                Case("60 bags", MILSD(mu=1.0), partial(linked, 60), fast=True),
                Case("300 bags, 100 features", MILSD(mu=1.0), partial(linked, 300, 100)),
            ),
        ),
        Choice(
            "matrix factorisation: dense or truncated singular values",
            f"{SOLVERS}.structured.factorisation:_start(dense_max_rows)",
            {"dense": never, "truncated": always},
            (
                Case("100 bags", LinkContentMF(), partial(linked, 100), fast=True),
                Case("400 bags, 300 features", LinkContentMF(), partial(linked, 400, 300)),
            ),
        ),
    ]


# -- the command -----------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fast", action="store_true", help="small cases only, as CI runs it")
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="WORD", help="choices whose name holds a word"
    )
    parser.add_argument(
        "--out", type=Path, default=RESULTS, metavar="DIR", help="folder (default: %(default)s)"
    )


def main(args: argparse.Namespace) -> int:
    rows, wrong = [], []
    for choice in choices():
        if args.only and not any(word in choice.name for word in args.only):
            continue
        for case in choice.cases:
            if args.fast and not case.fast:
                continue
            rounds = case.rounds or ROUNDS
            found = measured(choice, case, min(rounds, FAST_ROUNDS) if args.fast else rounds)
            if not found.passes(choice.higher):  # other processes may have taken the processor
                found = measured(choice, case, 2 * rounds)
            if not found.passes(choice.higher):
                wrong.append(f"{choice.name} ({case.size})")
            rows.append(_row(choice, case, found))
            print(" | ".join(rows[-1]), flush=True)
    show(
        Table(
            title="CPU seconds of a fit as the package chooses, and with either side forced",
            columns=("choice", "size", "rule", "sides", "slower", "higher"),
            rows=tuple(rows),
            align="llrlrr",
            note=f"Medians of alternating fits. Wrong above {SLOWER} times slower, {HIGHER} times "
            "higher (1.2 for greedy boosting).",
        )
    )
    for name in wrong:
        say(f"WRONG: {name}")
    return int(bool(wrong))


def _row(choice: Choice, case: Case, found: Measured) -> list[str]:
    sides = ", ".join(f"{name} {found.seconds[name]:.3f}" for name in choice.sides)
    ratios = [f"{found.slower:.2f}", f"{found.higher:.3f}"]
    return [choice.name, case.size, f"{found.seconds[RULE]:.3f}", sides, *ratios]


def measured(choice: Choice, case: Case, rounds: int) -> Measured:
    """Fits by the rule and by each side in turn, in each round on bags of its own.

    Each side may end in another local minimum: objectives are summed over the rounds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in (RULE, *choice.sides)}
    objectives = dict.fromkeys(seconds, 0.0)
    for number in range(rounds):
        bags, y = case.data(seed=number)
        for name, times in seconds.items():
            with threadpool_limits(case.blas_threads, user_api="blas"):
                if name == RULE:
                    spent, objective = _fit(case.estimator, bags, y)
                else:
                    with switched(choice.switch, choice.sides[name]):
                        spent, objective = _fit(case.estimator, bags, y)
            times.append(spent)
            objectives[name] += objective
    return Measured({name: statistics.median(each) for name, each in seconds.items()}, objectives)


def _fit(estimator: BaseEstimator, bags: Bags, y: np.ndarray) -> tuple[float, float]:
    """CPU seconds and objective of a fit."""
    model = clone(estimator)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        model.fit(bags, y)
        spent = time.process_time() - start
    return spent, float(np.sum(getattr(model, "objective_", 1.0)))
