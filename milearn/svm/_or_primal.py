"""A linear problem over multipliers, with the primal behind it where they have too few digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._fit.multi_start import relative_gap
from .._solvers.common.cccp import CCCPSolution
from .._solvers.common.or_primal import or_primal
from ._formulations import Formulation, Report, TrainingBags
from ._functions import BagFunction

__all__ = ["OrPrimal"]

# Difference of scores, as a share of the largest, up to which w is what multipliers stand for: that
# which is seen, and that which rounding may make of other orders of the same sum.
_SEEN, _POSSIBLE = 1e-8, 1e-6
_EPS = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class OrPrimal:
    """The dual formulation of a linear problem; the primal one where it has too few digits.

    Attributes
    ----------
    training : TrainingBags
    dual, primal : Formulation
        Of the same problem.
    """

    training: TrainingBags
    dual: Formulation
    primal: Formulation

    @property
    def bag_score_is_max(self) -> bool:
        """Whether a bag scores as its highest instance does."""
        return self.dual.bag_score_is_max

    @property
    def gap_tol(self) -> float:
        """Relative duality gap that a convex step may end with."""
        return max(self.dual.gap_tol, self.primal.gap_tol)

    def starts(self, loss: Any, rng: np.random.RandomState) -> list[Any]:
        """Pairs of a start of the dual and one of the primal."""
        behind = self.primal.starts(loss, deepcopy(rng))
        return [
            (start, behind[min(number, len(behind) - 1)])
            for number, start in enumerate(self.dual.starts(loss, rng))
        ]

    def solve(self, loss: Any, start: Any, on_iteration: Report) -> CCCPSolution:
        """A local minimum of the problem with this loss, from this pair of starts."""
        return or_primal(
            partial(self.dual.solve, loss, start[0], on_iteration),
            partial(self.primal.solve, loss, start[1], on_iteration),
            self._judge,
        )

    def _judge(self, found: CCCPSolution) -> tuple[bool, float]:
        if not _is_exact(found, self.training.instances):
            return False, math.inf
        closed = relative_gap(found) <= self.dual.gap_tol
        return bool(found.stopped) or closed, found.objective

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        """The function of the results times ``sign``, and its fitted attributes."""
        by_passes = [hasattr(result, "n_passes") for result in results]
        if all(by_passes):
            return self.primal.function(results, sign)
        if not any(by_passes):
            return self.dual.function(results, sign)
        pairs = zip(results, by_passes, strict=True)
        parts = [(self.primal if p else self.dual).function([each], sign) for each, p in pairs]
        # What one of the two does not have is not there.
        attributes = {
            name: np.concatenate([own[name] for _, own in parts])
            for name in ("coef_", "intercept_")
            if all(name in own for _, own in parts)
        }
        return SideBySide(tuple(function for function, _ in parts)), attributes


@dataclass(frozen=True)
class SideBySide:
    """Functions of one score each as one function of several."""

    parts: tuple[BagFunction, ...]

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, k)."""
        return np.hstack([part.instance_scores(bags) for part in self.parts])

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, k)."""
        return np.hstack([part.bag_scores(bags) for part in self.parts])


def _is_exact(found: Any, instances: Any) -> bool:
    """Whether the sum of the rows gives the scores and the norm that kernel values gave."""
    if not hasattr(found, "rows"):
        return True
    rows = instances[found.rows]
    w = np.asarray(rows.T @ found.coef)
    largest = max(1.0, float(np.abs(found.scores).max()))
    # What the order of the terms may change in w, and that in scores beside their mean.
    rounding = _EPS * np.asarray(abs(rows).T @ np.abs(found.coef))
    if sparse.issparse(instances):
        spread = np.ravel(abs(instances).max(axis=0).toarray())
    else:
        spread = np.abs(instances - instances.mean(axis=0)).max(axis=0)
    if float(rounding @ spread) > _POSSIBLE * largest:
        return False
    lost = np.asarray(instances @ w) - found.scores
    close = float(np.abs(lost - lost.mean()).max()) <= _SEEN * largest
    norm_lost = abs(float(w @ w) - found.norm2)
    return close and norm_lost <= _SEEN * max(abs(found.objective), found.objective_scale)
