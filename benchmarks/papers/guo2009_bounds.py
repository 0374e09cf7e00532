"""How far the lower bounds of Guo's problem (3) are from its optimum, where that is known."""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from milearn import SDPMIL, Bags
from milearn._solvers.svm.mixture import MergedSelection, mix_selections

from ..common.output import Table, say, show
from ..common.reports import Report
from ..common.selections import Selections, lowest

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
            best = lowest(Selections(bags, y, C))
            found.append([value / best for value in bounds(bags, y, C)])
        rows.append([title, f"{C:g}", *_cells(np.array(found))])
    header = ["data", "C", "Guo, s=2", "mixture, counted", "mixture, not counted"]
    show(Table(header, rows))
    say(
        f"\nBound as a share of the optimum by enumeration: mean (least) of {repeats} random "
        "problems with up to three\ninstances per bag. Guo's value is not a bound: below "
        "zero it is not informative, above one it is wrong."
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
    """Guo's value, and the mixture with and without counting all selections."""
    guo = SDPMIL(C=C, kernel="linear").fit(bags, y).relaxation_value_
    signs, costs = np.where(y == 1, 1.0, -1.0), np.full(len(bags), C)
    gram, points = bags.instances @ bags.instances.T, np.arange(bags.n_instances)
    problem = MergedSelection.of(gram, points, bags.offsets, signs, costs).problem
    start, options = problem.offsets[:-1], {"tol": 1e-3, "max_iter": 30}
    mixtures = [
        mix_selections(problem, start, **options, countable=countable).lower_bound
        for countable in (20_000, 0)
    ]
    return [guo, *mixtures]


REPORTS = (
    Report(
        "guo2009-bounds",
        "lower bounds of Guo's problem (3) against enumeration, on small data",
        run_bounds,
    ),
)
