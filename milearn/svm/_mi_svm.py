"""Runs of MI-SVM and mi-SVM: their starts and solvers.

The linear kernel and explicit features are solved over rows, other kernels in the dual over kernel
values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._fit.multi_start import drawn_rows
from .._solvers.common.cccp import CCCPSolution
from .._solvers.svm.losses import Hinge
from .._solvers.svm.mi_svm_kernel import solve_instance_labels, solve_mi_svm
from .._solvers.svm.mi_svm_labels import solve_instance_labels_rows
from .._solvers.svm.problem import BinaryProblem
from .._solvers.svm.starts import screened_witnesses, solve_mi_svm_rows
from ._data import FitData

Report = Callable[[int, float], bool]


def mi_svm_starts(data: FitData, slack: str, loss: Hinge) -> list[Any]:
    """First witnesses, or labels if ``slack`` is "labels"; one array or name per start."""
    init = data.estimator.init
    draw = partial(drawn_rows, data.offsets, data.rng, loss.signs > 0)
    if slack == "labels":
        draw = partial(_random_labels, data, loss)
    first = init
    if not isinstance(init, str):
        first = data.given_witnesses(init)[loss.signs > 0]
    elif init == "random":
        first = draw()
    elif init == "bag":
        first = np.repeat(loss.signs, np.diff(data.offsets))
    return [first, *(draw() for _ in range(data.estimator.n_init - 1))]


def mi_svm_from(
    data: FitData, slack: str, loss: Hinge, start: Any, on_iteration: Report
) -> CCCPSolution:
    """A stationary point of MI-SVM, or of mi-SVM if ``slack`` is "labels", from a start."""
    options = data.options.watched_by(on_iteration)
    if data.over_rows:
        if slack == "labels":
            return solve_instance_labels_rows(data.source(), loss, start, options)
        return solve_mi_svm_rows(data.source(), loss, slack, start, options)
    problem = BinaryProblem(data.gram, data.offsets, loss.signs, loss.weights)
    others = None
    if isinstance(start, str):
        others, start = screened_starts(data, loss) if start == "auto" else None, None
    if slack == "labels":
        return solve_instance_labels(problem, start, options, others)
    return solve_mi_svm(problem, slack, start, options, others)


def screened_starts(data: FitData, loss: Hinge) -> np.ndarray | None:
    """Screened witnesses; of a nonlinear kernel the best ones, as its steps cost more."""
    source = data.screen_source(loss.weights)
    if source is None:
        return None
    found = screened_witnesses(source, loss.signs, loss.weights)
    return found if data.linear else found[:1]


def _random_labels(data: FitData, loss: Hinge) -> np.ndarray:
    """Random labels of the instances of positive bags, at least one positive in each."""
    offsets, sizes = data.offsets, np.diff(data.offsets)
    labels = np.where(data.rng.uniform(size=offsets[-1]) < 0.5, 1.0, -1.0)
    labels[drawn_rows(offsets, data.rng)] = 1.0
    labels[np.repeat(loss.signs < 0, sizes)] = -1.0
    return labels
