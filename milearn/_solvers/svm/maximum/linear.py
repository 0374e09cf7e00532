"""Linear MI-SVM in the dual: its weights, and rows as the fallback."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ....exceptions import SolverError
from ...common.descent import PassSolution
from ...common.gram import LinearGram
from .dual import MISVMResult

Result = TypeVar("Result")


def dual_or_rows(by_dual: Callable[[], Result], by_rows: Callable[[], Result]) -> Result:
    """The solution in the dual, or over rows if the dual is not solved.

    For large features the multipliers of the dual, or the weights that they give, are not precise
    enough. The problem over rows has the weights as variables.
    """
    try:
        return by_dual()
    except SolverError:
        return by_rows()


def with_weights(
    found: MISVMResult, gram: LinearGram, *, largest_loss: float = 1e-6
) -> PassSolution:
    """A solution of the dual with its weight vector.

    Parameters
    ----------
    found : MISVMResult
    gram : LinearGram
    largest_loss : float
        Largest difference between scores by weights and by multipliers, as a fraction of the
        largest score. A constant difference is moved to the intercept.

    Raises
    ------
    SolverError
        If the difference is larger: the weights are not precise enough.
    """
    w = np.asarray(gram.weights(found.rows, found.coef))
    lost = found.scores - np.asarray(gram.instances @ w)
    intercept = float(lost.mean())
    size = max(1.0, float(np.abs(found.scores).max()))
    if np.abs(lost - intercept).max() > largest_loss * size:
        raise SolverError(
            "The weights of the linear model are not precise enough for features of this size: "
            "scale the features."
        )
    return PassSolution(
        objective=found.objective,
        history=found.history,
        n_iter=found.n_iter,
        stopped=found.stopped,
        dual_gap=found.dual_gap,
        witnesses=found.witnesses,
        objective_scale=found.objective_scale,
        w=w,
        v=np.array([intercept]),
        n_passes=0,
    )
