"""How far the lower bounds of Guo's problem (3) are from its optimum, on data small enough to know.

The hull of each positive bag is a candidate that the package does not hold: copies of (w, b) and
of all slacks for each instance of a bag, their norms in perspective. It needs a cone solver and
(number of positive instances) x (features + negative instances) variables.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np

from milearn import SDPMIL, Bags
from milearn._solvers.svm.mixture import MergedSelection, mix_selections

from ..common.page import say, show
from ..common.reports import Report
from ..common.selections import Selections, branch_and_bound
from ..common.table import Table

__all__ = ["REPORTS"]

SIZES = {
    "3 + 4 bags, 3 features": {"n_positive": 3, "n_negative": 4, "d": 3},
    "5 + 8 bags, 10 features": {"n_positive": 5, "n_negative": 8, "d": 10},
    "8 + 12 bags, 30 features": {"n_positive": 8, "n_negative": 12, "d": 30},
    "5 + 8 bags, clear witnesses": {"n_positive": 5, "n_negative": 8, "d": 10, "shift": 4.0},
}
COSTS = (0.1, 1.0, 10.0)


def run_bounds(args: argparse.Namespace) -> int:
    """The table of the report."""
    repeats = args.repeats or (1 if args.fast else 5)
    rows = []
    for (title, size), C in itertools.product(SIZES.items(), COSTS):
        found = []
        for seed in range(repeats):
            bags, y = random_bags(seed, **size)
            best = branch_and_bound(Selections(bags, y, C)).lower
            found.append([value / best for value in bounds(bags, y, C)])
        rows.append([title, f"{C:g}", *_cells(np.array(found))])
    header = ["data", "C", "Guo, s=2", "mixture, counted", "mixture, not counted", "hull per bag"]
    show(Table(header, rows))
    say(
        f"\nBound as a share of the optimum by enumeration: mean (least) of {repeats} random "
        "problems with up to three\ninstances per bag. Guo's value is not a bound: below "
        "zero it is not informative, above one it is wrong.\nhull per bag: a "
        "candidate that was not chosen, by cvxpy where it is installed."
    )
    return 0


def random_bags(
    seed: int, *, n_positive: int, n_negative: int, d: int, most: int = 3, shift: float = 0.0
) -> tuple[Bags, np.ndarray]:
    """Few small bags, positive ones first; ``shift`` moves one instance of each positive bag."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, size=n_positive + n_negative)
    offsets = np.r_[0, np.cumsum(sizes)]
    instances = rng.normal(size=(offsets[-1], d))
    instances[offsets[:n_positive], 0] += shift
    y = (np.arange(n_positive + n_negative) < n_positive).astype(int)
    return Bags(instances, offsets), y


def _cells(fractions: np.ndarray) -> list[str]:
    return [
        "-" if np.isnan(column).any() else f"{column.mean():.3f} ({column.min():.3f})"
        for column in fractions.T
    ]


def bounds(bags: Bags, y: np.ndarray, C: float) -> list[float]:
    """Guo's value, the mixture with and without counting all selections, the hull."""
    guo = SDPMIL(C=C, kernel="linear").fit(bags, y).relaxation_value_
    signs, costs = np.where(y == 1, 1.0, -1.0), np.full(len(bags), C)
    gram, points = bags.instances @ bags.instances.T, np.arange(bags.n_instances)
    problem = MergedSelection.of(gram, points, bags.offsets, signs, costs).problem
    start, options = problem.offsets[:-1], {"tol": 1e-3, "max_iter": 30}
    mixtures = [
        mix_selections(problem, start, **options, countable=countable).lower_bound
        for countable in (20_000, 0)
    ]
    return [guo, *mixtures, hull(bags, y, C)]


def hull(bags: Bags, y: np.ndarray, C: float) -> float:
    """The intersection of the convex hulls of the positive bags' disjunctions."""
    try:
        import cvxpy as cp
    except ImportError:
        return float("nan")
    X, negative = bags.instances, np.flatnonzero(y[bags.bag_index] == 0)
    w, b, half = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    below = cp.Variable(len(negative))
    cost: Any = half + C * cp.sum(below)
    rules: list[Any] = []
    for bag in np.flatnonzero(y == 1):
        rows = range(bags.offsets[bag], bags.offsets[bag + 1])
        parts = [_copy(cp, X, row, negative) for row in rows]
        weights, ws, offsets, halves, slacks, others, own = zip(*parts, strict=True)
        rules += [rule for each in own for rule in each]
        rules += [sum(weights) == 1, sum(ws) == w, sum(offsets) == b, sum(halves) <= half]
        rules.append(sum(others) == below)
        cost = cost + C * sum(slacks)
    program = cp.Problem(cp.Minimize(cost), rules)
    program.solve(solver=cp.CLARABEL)
    return float(program.value)


def _copy(cp: Any, X: np.ndarray, row: int, negative: np.ndarray) -> tuple[Any, ...]:
    weight, slack = cp.Variable(nonneg=True), cp.Variable(nonneg=True)
    w, b, half = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    below = cp.Variable(len(negative), nonneg=True)
    rules = [
        cp.quad_over_lin(w, weight) <= 2 * half,
        X[row] @ w + b >= weight - slack,
        -(X[negative] @ w + b) >= weight - below,
    ]
    return weight, w, b, half, slack, below, rules


REPORTS = (
    Report(
        "guo2009-bounds",
        "lower bounds of Guo's problem (3) against enumeration, on small data",
        run_bounds,
    ),
)
