"""The problem of MILSD: maximum margin over bags with graphs (Zhang et al. 2011).

For bags i with signs y_i in {-1, 0, 1} (0: unlabelled), f(x) = w.x + b and f_i = max_j f(x_ij):

    J(w, b) = 1/2 |w|^2 + c_0 sum_{y_i != 0} a_i [1 - y_i f_i]_+
              + c_1 sum_{(p,q) in bag graph} r_pq | s_p f_p - s_q f_q |
              + c_2 sum_{(p,q) in instance graph} r_pq | s_p f(x_p) - s_q f(x_q) |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._bags.segments import segment_max
from ..common.cccp import lowest_point, rounding_scale
from ..common.passes import HighestInstances, mean_difference
from .edges import Edges


@dataclass(frozen=True)
class LinkedProblem:
    """The data of one problem; ``weights`` are the a_i and ``costs`` the c_k above."""

    X: Any
    offsets: np.ndarray
    signs: np.ndarray
    weights: np.ndarray
    costs: np.ndarray
    bag_edges: Edges
    instance_edges: Edges
    fit_intercept: bool

    def risks(self, scores: np.ndarray) -> np.ndarray:
        """The three sums at scores of all instances, intercept included."""
        best = segment_max(scores, self.offsets)
        hinge = np.maximum(0.0, 1.0 - self.signs * best)[self.signs != 0]
        return np.array(
            [
                self.weights[self.signs != 0] @ hinge,
                self.bag_edges.total_variation(best),
                self.instance_edges.total_variation(scores),
            ]
        )

    def best_intercept(self, scores: np.ndarray) -> float:
        """The b that minimises J for given w, or the middle of all minimisers.

        ``scores`` do not contain the intercept. J is convex and piecewise linear in b: a hinge has
        a break at y - f, and an edge has one where its difference is zero.
        """
        if not self.fit_intercept:
            return 0.0
        best = segment_max(scores, self.offsets)
        labelled = self.signs != 0
        hinges = self.costs[0] * self.weights[labelled]
        breaks, changes = [self.signs[labelled] - best[labelled]], [hinges]
        fall = hinges[self.signs[labelled] > 0].sum()
        parts = ((self.bag_edges, best), (self.instance_edges, scores))
        for cost, (edges, values) in zip(self.costs[1:], parts, strict=True):
            slope = edges.scale_difference
            moving = np.abs(slope) > 1e-12
            breaks.append(-edges.differences(values)[moving] / slope[moving])
            steep = cost * edges.weights[moving] * np.abs(slope[moving])
            changes.append(2.0 * steep)
            fall += steep.sum()
        return lowest_point(np.concatenate(breaks), np.concatenate(changes), float(fall))

    @cached_property
    def scale(self) -> float:
        """Objective below which a relative gap would be dominated by rounding."""
        return rounding_scale(self.costs[0] * self.weights[self.signs != 0])

    # -- linearisation ---------------------------------------------------------------------------

    @cached_property
    def linearised(self) -> np.ndarray:
        """The bags whose maximum is linearised: positive bags, and bags with a link."""
        return np.asarray(np.union1d(np.flatnonzero(self.signs > 0), self.bag_edges.nodes))

    def witnesses(self, scores: np.ndarray) -> np.ndarray:
        """Row of the highest instance of each linearised bag.

        Ties up to rounding are broken by the difference of the class means, so that the choice does
        not depend on the order of the instances.
        """
        return self._highest.of(scores)

    @cached_property
    def _highest(self) -> HighestInstances:
        # A function that does not refer to self: a reference cycle would keep X in memory.
        X = self.X
        difference = np.asarray(X.T @ mean_difference(self.offsets, self.signs, self.weights))
        return HighestInstances(self.offsets, self.linearised, lambda: X @ difference)
