"""Losses of bag scores: the hinge of a classifier, the tube of nu-regression, and the coupling.

A score h(B) does not contain the intercept. The best intercept and the best width of the tube for
given scores have closed forms:

    hinge   c_i [1 - y_i (h_i + b)]_+
    tube    nu eps sum_i c_i + sum_i c_i [|y_i - h_i - b| - eps]_+,   minimised over eps >= 0
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.cccp import RELATIVE_TIE, optimal_intercept, rounding_scale


@dataclass
class Coupling:
    """The loss between the score of a bag and its highest instance score."""

    # "l1", "l2", "epsilon_insensitive" or "max".
    loss: str
    # The lambda_i of the bags; not used by "max".
    weights: np.ndarray
    # Difference without a cost, for "epsilon_insensitive".
    epsilon: float = 0.0

    @property
    def hard(self) -> bool:
        """Whether a bag's score is the highest score of its instances."""
        return self.loss == "max"

    @property
    def squared(self) -> bool:
        """Whether the loss is the squared difference."""
        return self.loss == "l2"

    @property
    def margin(self) -> float:
        """Largest difference without a cost."""
        return self.epsilon if self.loss == "epsilon_insensitive" else 0.0

    def value(self, differences: np.ndarray) -> float:
        """sum_i lambda_i loss(t_i) for nonnegative or signed differences t."""
        excess = np.maximum(0.0, differences - self.margin)
        return float(self.weights @ (excess**2 if self.squared else excess))


@dataclass(frozen=True)
class DualColumns:
    """Coefficients of the dual variables of one side of a loss, one entry per bag."""

    # Factor of the bag's score in the constraint of the variable.
    sign: np.ndarray
    # Linear term of the dual objective.
    gain: np.ndarray
    # Coefficient in the equation of the intercept.
    equation: np.ndarray
    # Coefficient in the constraint for the width of the tube.
    tube: np.ndarray

    def take(self, bags: np.ndarray) -> DualColumns:
        """The entries of some bags."""
        return DualColumns(self.sign[bags], self.gain[bags], self.equation[bags], self.tube[bags])


@dataclass
class Hinge:
    """The hinge loss of a classifier."""

    # Of shape (n_bags,), +1.0 or -1.0.
    signs: np.ndarray
    # Of shape (n_bags,), above zero.
    weights: np.ndarray

    @property
    def objective_scale(self) -> float:
        """See :func:`..common.cccp.rounding_scale`."""
        return rounding_scale(self.weights)

    def free(self, scores: np.ndarray) -> tuple[float, float]:
        """The best intercept, and zero because a hinge has no tube."""
        return optimal_intercept(scores, self.signs, self.weights), 0.0

    def value(self, scores: np.ndarray, intercept: float) -> float:
        """The loss with a given intercept."""
        margins = self.signs * (scores + intercept)
        return float(self.weights @ np.maximum(0.0, 1.0 - margins))

    def dual_columns(self) -> list[DualColumns]:
        """The only side of the hinge."""
        ones = np.ones(len(self.signs))
        return [DualColumns(self.signs, ones, self.signs, 0.0 * ones)]

    @property
    def tube_limit(self) -> None:
        """A hinge has no tube."""
        return None

    def centred(self) -> tuple[Hinge, float]:
        """The same loss."""
        return self, 0.0

    def standardised(self) -> tuple[Hinge, float, float]:
        """The same loss, whose unit is the margin."""
        return self, 0.0, 1.0


@dataclass
class Tube:
    """The loss of nu-support vector regression."""

    # Of shape (n_bags,).
    targets: np.ndarray
    # Of shape (n_bags,), above zero.
    weights: np.ndarray
    # Fraction of the weight that may be outside the tube.
    nu: float

    @property
    def objective_scale(self) -> float:
        """See :func:`..common.cccp.rounding_scale`."""
        return rounding_scale(self.weights, float(np.abs(self.targets).max()))

    def free(self, scores: np.ndarray) -> tuple[float, float]:
        """The best intercept and half the width of the tube.

        For a tube [b - eps, b + eps] the loss is a sum of two parts, one for each edge. A fraction
        nu / 2 of the weight is beyond each edge.
        """
        residuals = self.targets - scores
        upper = weighted_tail(residuals, self.weights, 0.5 * self.nu)
        lower = -weighted_tail(-residuals, self.weights, 0.5 * self.nu)
        if upper < lower:
            upper = lower = 0.5 * (upper + lower)
        return 0.5 * (upper + lower), 0.5 * (upper - lower)

    def value(self, scores: np.ndarray, intercept: float) -> float:
        """The loss with a given intercept and the best width."""
        gaps = np.abs(self.targets - scores - intercept)
        width = max(0.0, weighted_tail(gaps, self.weights, self.nu))
        outside = np.maximum(0.0, gaps - width)
        return float(self.nu * width * self.weights.sum() + self.weights @ outside)

    def split(self, upper: np.ndarray, lower: np.ndarray) -> tuple[float, float]:
        """The best intercept and the loss with different scores for the two sides of the tube.

        Values of ``upper`` above and values of ``lower`` below the tube have a cost:
        nu eps sum c + sum c_i ([u_i + b - y_i - eps]_+ + [y_i - l_i - b - eps]_+).
        """
        weights = self.weights
        above, below = upper - self.targets, self.targets - lower
        # Edges p = eps - b and q = eps + b, each with a fraction nu / 2 of the weight beyond it.
        half = 0.5 * self.nu
        p, q = weighted_tail(above, weights, half), weighted_tail(below, weights, half)
        if p + q < 0:
            # The tube has no width: b is the median of both sides.
            q = weighted_tail(np.concatenate([-above, below]), np.concatenate([weights] * 2), 0.5)
            p = -q
        value = half * weights.sum() * (p + q)
        value += weights @ (np.maximum(0.0, above - p) + np.maximum(0.0, below - q))
        return 0.5 * (q - p), float(value)

    def dual_columns(self) -> list[DualColumns]:
        """The upper and the lower side of the tube."""
        ones = np.ones(len(self.targets))
        return [
            DualColumns(-ones, -self.targets, -ones, ones),
            DualColumns(ones, self.targets, ones, ones),
        ]

    @property
    def tube_limit(self) -> float:
        """The sum of the dual variables is at most ``nu`` times the sum of the weights."""
        return self.nu

    def centred(self) -> tuple[Tube, float]:
        """The loss of y - m with the mean m, and m."""
        middle = float(np.average(self.targets, weights=self.weights))
        return Tube(self.targets - middle, self.weights, self.nu), middle

    def standardised(self) -> tuple[Tube, float, float]:
        """The loss of (y - m) / s with weights divided by s, so that J is divided by s**2."""
        loss, middle = self.centred()
        spread = float(np.sqrt(np.average(loss.targets**2, weights=self.weights)))
        size = spread if spread > 1e-9 * abs(middle) else 1.0
        return Tube(loss.targets / size, self.weights / size, self.nu), middle, size

    def descent(self) -> np.ndarray:
        """A change of all scores from zero that lowers the loss: towards targets off the tube."""
        half = 0.5 * self.nu
        above = _tail_weights(self.targets, self.weights, half)
        below = _tail_weights(-self.targets, self.weights, half)
        return np.asarray(above - below)


BagLoss = Hinge | Tube


def _tail_weights(values: np.ndarray, weights: np.ndarray, fraction: float) -> np.ndarray:
    """The part of each weight in the given fraction of largest values; equal values share."""
    order = np.argsort(-values, kind="stable")
    total = np.cumsum(weights[order])
    wanted = fraction * total[-1]
    edge = values[order[min(int(np.searchsorted(total, wanted)), len(values) - 1)]]
    tie = RELATIVE_TIE * float(np.abs(values).max())
    taken = np.where(values > edge + tie, weights, 0.0)
    tied = np.abs(values - edge) <= tie
    taken[tied] = (wanted - taken.sum()) * weights[tied] / weights[tied].sum()
    return taken


def weighted_tail(values: np.ndarray, weights: np.ndarray, fraction: float) -> float:
    """The point with the given fraction of weight above it, or the middle of all such points."""
    order = np.argsort(-values, kind="stable")
    total = np.cumsum(weights[order])
    wanted = fraction * total[-1]
    rounding = 1e-12 * total[-1]
    first = min(int(np.searchsorted(total, wanted - rounding)), len(values) - 1)
    at = values[order[first]]
    if abs(total[first] - wanted) <= rounding and first + 1 < len(values):
        return float(0.5 * (at + values[order[first + 1]]))
    return float(at)
