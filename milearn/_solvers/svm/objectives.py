r"""The problems of the support vector machines over kernel values: J and its convex steps.

An objective sees scores of all instances, and neither storage nor kernels nor solvers. It has

* ``value(scores, norm2, intercept)``, J and the best intercept near the given one;
* ``linearised(scores, intercept, value)``, what replaces the concave part, witnesses or labels,
  after a step of that value;
* ``step(linearisation)``, the convex step as :class:`Groups`.

Both problems are those of Andrews et al. (2003) for bags i with signs y_i and costs c_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ..._bags.segments import (
    gather_rows,
    pooling_matrix,
    segment_argmax,
    segment_index,
    segment_max,
    segment_min,
)
from ..common.cccp import optimal_intercept, rounding_scale
from ..common.passes import HighestInstances, is_constant


@dataclass(frozen=True)
class Groups:
    """min 1/2 |w|^2 + sum_g c_g max_{t in g} [m_t - s_g (f_t + b)]_+ with f = P scores.

    Pattern t, a row of ``P`` of shape (n_patterns, n_instances), is an instance or the mean of
    several; s_g is a sign and c_g above zero.
    """

    P: sparse.csr_array
    offsets: np.ndarray
    signs: np.ndarray
    costs: np.ndarray
    # The m_t of all patterns.
    margins: np.ndarray

    @classmethod
    def of_rows(
        cls, rows: np.ndarray, n: int, offsets: np.ndarray, signs: np.ndarray, costs: np.ndarray
    ) -> Groups:
        """Patterns of one of n instances each, with margins of one."""
        P = sparse.csr_array((np.ones(len(rows)), rows, np.arange(len(rows) + 1)), (len(rows), n))
        return cls(P, offsets, signs, costs, np.ones(len(rows)))

    @cached_property
    def owner(self) -> np.ndarray:
        """The group of each pattern."""
        return segment_index(self.offsets)

    @cached_property
    def sign(self) -> np.ndarray:
        """The sign of each pattern."""
        return np.asarray(self.signs[self.owner])

    def value(self, scores: np.ndarray, norm2: float) -> tuple[float, float]:
        """The value of the step for scores of the patterns, and the best intercept."""
        worst = segment_min(self.sign * scores + 1.0 - self.margins, self.offsets)
        b = optimal_intercept(self.signs * worst, self.signs, self.costs)
        hinge = np.maximum(0.0, 1.0 - worst - self.signs * b)
        return 0.5 * norm2 + float(self.costs @ hinge), b


class BagHinge:
    """MI-SVM.

    J(w, b) = 1/2 |w|^2 + sum_{y_i>0} c_i [1 - max_j f(x_ij)]_+ + (negative bags),
    one slack per bag:        sum_{y_i<0} c_i [1 + max_j f(x_ij)]_+
    one slack per instance:   sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+

    The hinge of a positive bag is concave in the maximum: a step replaces it by the hinge of one
    instance, the witness. The hinge of a negative bag is convex and is not changed.
    """

    def __init__(
        self,
        offsets: np.ndarray,
        signs: np.ndarray,
        costs: np.ndarray,
        slack: str,
        highest: HighestInstances,
    ) -> None:
        self.offsets, self.by_instance = offsets, slack == "instance"
        self.positive, self.negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
        self.rows, own = gather_rows(offsets, self.negative)
        bags = self.negative
        if self.by_instance:
            bags, own = np.repeat(bags, np.diff(own)), np.arange(len(self.rows) + 1)
        n = len(self.positive)
        self.group_offsets = np.r_[np.arange(n), n + own]
        self.signs = np.repeat([1.0, -1.0], [n, len(bags)])
        self.costs = costs[np.r_[self.positive, bags]]
        self.scale, self.highest = rounding_scale(self.costs), highest
        sides = (float(self.costs[self.signs == side].sum()) for side in (1, -1))
        self.at_zero = 2.0 * min(sides)

    def value(self, scores: np.ndarray, norm2: float, intercept: float) -> tuple[float, float]:
        """J, at most the value of a step with these scores."""
        tops = segment_max(scores, self.offsets)
        below = scores[self.rows] if self.by_instance else tops[self.negative]
        values = np.r_[tops[self.positive], below]
        b = optimal_intercept(values, self.signs, self.costs)
        hinge = np.maximum(0.0, 1.0 - self.signs * (values + b))
        return 0.5 * norm2 + float(self.costs @ hinge), b

    def linearised(self, scores: np.ndarray, intercept: float, value: float) -> np.ndarray:
        """The witnesses; all instances tie where the value of the step is that of a constant."""
        return self.highest.of(scores, constant=is_constant(value, self.at_zero))

    def step(self, witnesses: np.ndarray | None) -> Groups:
        """The convex step for witnesses, or for the means of positive bags."""
        n, rows = int(self.offsets[-1]), self.rows
        given = self.group_offsets, self.signs, self.costs
        if witnesses is not None:
            return Groups.of_rows(np.r_[witnesses, rows], n, *given)
        below = Groups.of_rows(rows, n, *given)
        P = sparse.vstack([pooling_matrix(self.offsets)[self.positive], below.P], format="csr")
        return Groups(P, *given, np.ones(P.shape[0]))


class InstanceLabels:
    """mi-SVM: every instance of a positive bag has a label u_ij, at least one of them positive.

    J(w, b) = min_u 1/2 |w|^2 + sum_{y_i>0} c_i sum_j [1 - u_ij f(x_ij)]_+
              + sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+

    For given labels this is an SVM over all instances.
    """

    def __init__(self, offsets: np.ndarray, signs: np.ndarray, costs: np.ndarray) -> None:
        self.offsets, self.positive = offsets, np.flatnonzero(signs > 0)
        self.inside = np.repeat(signs > 0, np.diff(offsets))
        self.costs = np.repeat(costs, np.diff(offsets))
        self.scale = rounding_scale(costs)

    def value(self, scores: np.ndarray, norm2: float, intercept: float) -> tuple[float, float]:
        """J with the best intercept for the labels at the given one."""
        labels = self.linearised(scores, intercept)
        b = optimal_intercept(scores, labels, self.costs)
        hinge = np.maximum(0.0, 1.0 - labels * (scores + b))
        return 0.5 * norm2 + float(self.costs @ hinge), b

    def linearised(
        self, scores: np.ndarray, intercept: float, value: float | None = None
    ) -> np.ndarray:
        """The labels of smallest loss: the signs of the scores, at least one positive per bag."""
        labels = np.where(self.inside & (scores + intercept > 0), 1.0, -1.0)
        labels[segment_argmax(scores, self.offsets)[self.positive]] = 1.0
        return labels

    def step(self, labels: np.ndarray) -> Groups:
        """The support vector machine for labels."""
        n = len(labels)
        return Groups.of_rows(np.arange(n), n, np.arange(n + 1), labels, self.costs)

    def widened(
        self, scores: np.ndarray, intercept: float, norm2: float
    ) -> tuple[float, float, np.ndarray]:
        """The multiple of a function, doubled while that lowers J, its intercept and labels.

        Where every instance is labelled, margins are wider than with one of each bag.
        """
        best, factor = np.inf, 1.0
        while factor < 2.0**10:
            value, b = self.value(factor * scores, factor**2 * norm2, factor * intercept)
            if value >= best:
                break
            best, found = value, (factor, b, self.linearised(scores, intercept))
            factor *= 2.0
        return found
