"""Andrews & Hofmann (2003): figure 2 on a plane of ours."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from milearn._solvers.ensemble.dpboost import BoostingOptions
from milearn.ensemble import DPBoost, LPBoost

from ..common.generators import make_ambiguous_plane, plane_side
from ..common.output import Table, say, show

# Accuracy in percent in the paper's Figure 2: lambda = 3, 20 ambiguous bags.
PUBLISHED = {"naive": 53.3, "DPBoost": 85.3, "perfect selector": 86.6, "perfect knowledge": 92.7}
N_AMBIGUOUS, AMBIGUITY = 20, 3
MAX_ROWS = 1000


class _TightDPBoost(DPBoost):
    """With more reductions than by default: the paper adds all that are violated."""

    def _options(self, n_estimators: int) -> BoostingOptions:
        return replace(super()._options(n_estimators), max_rows=MAX_ROWS)


def grid_accuracy(model: Any) -> float:
    """Accuracy on the paper's 21 x 21 points, without those in the margin."""
    line = np.linspace(0.0, 1.0, 21)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    sides = plane_side(points)
    scores = model.instance_decision_function(points[sides != 0])
    return float(np.mean((scores > 0) == (sides[sides != 0] > 0)))


def figure2(args: argparse.Namespace) -> None:
    X, y, labels = make_ambiguous_plane(
        N_AMBIGUOUS, ambiguity=AMBIGUITY, random_state=0, return_instance_labels=True
    )
    # The perfect selector sees the positive instance of an ambiguous bag and not the others.
    seen = (labels == 1) | (y[X.bag_index] == 0)
    # All with thresholded RBF features.
    models = {
        "naive": LPBoost(estimator="rbf").fit(X, y),
        "DPBoost": (ours := _TightDPBoost(estimator="rbf").fit(X, y)),
        "perfect selector": LPBoost(estimator="rbf").fit(X.instances[seen], labels[seen]),
        "perfect knowledge": LPBoost(estimator="rbf").fit(X.instances, labels),
    }
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
    say(
        f"\n|I| = {N_AMBIGUOUS}, lambda = {AMBIGUITY}: {int(X.sizes[:N_AMBIGUOUS].sum())} "
        f"ambiguous instances, {X.n_instances} in all. DPBoost: objective {ours.objective_:.4f},\n"
        f"lower bound {ours.lower_bound_:.4f}; dual variables above zero: of "
        f"{ours.n_active_reductions_} of {ours.n_reductions_} reductions in the program\nand of "
        f"{ours.n_active_margins_} of {X.n_instances} margins."
    )


REPORTS = {
    "andrews2003-figure2": ("Andrews & Hofmann 2003, Figure 2: decision boundaries", figure2),
}
