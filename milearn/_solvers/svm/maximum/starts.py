"""The starts of MI-SVM, which belong to the model and not to its solver.

The procedure starts from the mean of each positive bag, and from the highest instances under the
directions of :mod:`..common.screen`. The first start is followed to its end. The others are
followed for one step, and the best of them to its end. The lower objective is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.blocks import PassSource
from ...common.newton import GroupProblem
from ...common.passes import SampleLimits, sampled_source
from ...common.screen import ScreenLimits, highest_rows, screened, targets_of
from ..losses import Hinge

Matrix = Any  # an ndarray or a CSR matrix


def screened_witnesses(
    source: PassSource, loss: Hinge, limits: ScreenLimits | None = None
) -> np.ndarray:
    """Witnesses of the positive bags under each screened direction, (n_starts, n_positive)."""
    positive = loss.signs > 0
    # Without a feature that differs there is no direction to screen.
    if source.n_features == 0 or np.diff(source.offsets)[positive].max() == 1:
        return np.zeros((0, int(positive.sum())), dtype=np.intp)
    targets = targets_of(loss.signs, loss.weights)
    return screened(source, targets, loss.weights, limits).rows[:, positive]


def screened_rows(
    source: PassSource,
    targets: np.ndarray,
    weights: np.ndarray,
    limits: SampleLimits | None = None,
) -> np.ndarray:
    """Highest instance of each bag under the best direction of a screen on a sample of the bags.

    ``targets`` are numbers, with which the highest score should grow.
    """
    limits = SampleLimits.of_whole_bags() if limits is None else limits
    if limits.holds_all(source.n_instances, source.n_features):
        return np.asarray(screened(source, targets_of(targets, weights), weights).rows[0])
    sample, bags = sampled_source(source, np.ones(source.n_bags), limits)
    own = targets_of(targets[bags], weights[bags])
    found = screened(sample, own, weights[bags])
    return np.asarray(highest_rows(source, found.directions[:1])[0])


def svm_problem(rows: Matrix, labels: np.ndarray, costs: np.ndarray) -> GroupProblem:
    """A support vector machine between rows."""
    if sparse.issparse(rows):
        signed = (sparse.diags_array(-labels) @ rows).tocsr()
    else:
        signed = rows * -labels[:, None]
    return GroupProblem(signed, -labels[:, None], np.arange(len(labels) + 1), costs)


def rough_svm(
    rows: Matrix, labels: np.ndarray, costs: np.ndarray, gap_tol: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """The function of a support vector machine between rows."""
    start = np.zeros(rows.shape[1]), np.zeros(1)
    found = svm_problem(rows, labels, costs).solve(start, gap_tol)
    return found.w, found.v
