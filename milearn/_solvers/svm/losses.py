"""Losses of bag scores: the hinge of a classifier, the tube of nu-regression, and the coupling.

A score is h(B) without the intercept; the intercept, and the width of the tube, are the best for
the scores at hand and come out in closed form:

    hinge   c_i [1 - y_i (h_i + b)]_+
    tube    nu eps sum_i c_i + sum_i c_i [|y_i - h_i - b| - eps]_+,   minimised over eps >= 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..common.piecewise import optimal_intercept
from ..common.rounding import rounding_scale

__all__ = ["BagLoss", "Coupling", "Hinge", "Tube", "weighted_tail"]


@dataclass
class Coupling:
    """How a bag's score is tied to its highest instance score.

    Attributes
    ----------
    loss : {"l1", "l2", "epsilon_insensitive", "max"}
    weights : ndarray of shape (n_bags,)
        The lambda_i; not used by "max".
    epsilon : float
        Difference that is free of charge, for "epsilon_insensitive".
    """

    loss: str
    weights: np.ndarray
    epsilon: float = 0.0

    @classmethod
    def none(cls, n_bags: int) -> Coupling:
        """Bags and instances that have nothing to do with each other."""
        return cls("l1", np.zeros(n_bags))

    @property
    def hard(self) -> bool:
        """Whether a bag's score is the highest score of its instances."""
        return self.loss == "max"

    @property
    def squared(self) -> bool:
        """Whether differences cost their squares."""
        return self.loss == "l2"

    @property
    def margin(self) -> float:
        """What a difference may amount to before it costs."""
        return self.epsilon if self.loss == "epsilon_insensitive" else 0.0

    def value(self, differences: np.ndarray) -> float:
        """sum_i lambda_i loss(t_i) of non-negative or signed differences t."""
        excess = np.maximum(0.0, differences - self.margin)
        return float(self.weights @ (excess**2 if self.squared else excess))


@dataclass(frozen=True)
class DualColumns:
    """Data of the dual variables of one side of a loss, an entry per bag.

    Attributes
    ----------
    sign : ndarray
        Factor of the bag's score in the constraint that the variable belongs to.
    gain : ndarray
        Linear term of the dual objective.
    equation : ndarray
        Coefficient in the equation of the intercept.
    tube : ndarray
        Coefficient in the limit that the width of the tube puts on all variables together.
    """

    sign: np.ndarray
    gain: np.ndarray
    equation: np.ndarray
    tube: np.ndarray

    def take(self, bags: np.ndarray) -> DualColumns:
        """The entries of some bags."""
        return DualColumns(self.sign[bags], self.gain[bags], self.equation[bags], self.tube[bags])


class BagLoss(Protocol):
    """A loss of the bags' scores.

    Attributes
    ----------
    weights : ndarray of shape (n_bags,), above zero
    """

    weights: np.ndarray

    @property
    def objective_scale(self) -> float:
        """See :func:`.common.rounding.rounding_scale`."""

    def free(self, scores: np.ndarray) -> tuple[float, float]:
        """The best intercept, and half the width of the tube."""

    def value(self, scores: np.ndarray, intercept: float) -> float:
        """The loss with a given intercept."""

    def slopes(self, scores: np.ndarray, intercept: float) -> np.ndarray:
        """A subgradient by the scores, shape (n_bags,)."""

    def split(self, upper: np.ndarray, lower: np.ndarray) -> tuple[float, float]:
        """The best intercept and the loss where its two sides see different scores.

        The side that grows with a score sees ``upper``, the one that falls with it ``lower``.
        """

    def split_slopes(self, upper: np.ndarray, lower: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A subgradient of :meth:`split` by the upper and the lower scores."""

    def dual_columns(self) -> list[DualColumns]:
        """The sides of the loss; of two, the first is the one that grows with a score."""

    @property
    def tube_limit(self) -> float | None:
        """Part of all weights that the dual variables may take together; None without a tube."""

    def standardised(self) -> tuple[Any, float, float]:
        """The loss of (y - m) / s, and m and s, where targets y have a spread s."""


@dataclass
class Hinge:
    """The hinge loss of a classifier.

    Attributes
    ----------
    signs : ndarray of shape (n_bags,), +1.0 or -1.0
    weights : ndarray of shape (n_bags,), above zero
    """

    signs: np.ndarray
    weights: np.ndarray

    @property
    def objective_scale(self) -> float:
        """See :func:`.common.rounding.rounding_scale`."""
        return rounding_scale(self.weights)

    def free(self, scores: np.ndarray) -> tuple[float, float]:
        """The best intercept, and the width of the tube: a hinge has none."""
        return optimal_intercept(scores, self.signs, self.weights), 0.0

    def value(self, scores: np.ndarray, intercept: float) -> float:
        """The loss with a given intercept."""
        margins = self.signs * (scores + intercept)
        return float(self.weights @ np.maximum(0.0, 1.0 - margins))

    def slopes(self, scores: np.ndarray, intercept: float) -> np.ndarray:
        """A subgradient by the scores, shape (n_bags,)."""
        margins = self.signs * (scores + intercept)
        return np.where(margins < 1.0, -self.signs * self.weights, 0.0)

    def split(self, upper: np.ndarray, lower: np.ndarray) -> tuple[float, float]:
        """Refused: a hinge with a hard maximum is MI-SVM, see :mod:`.maximum.dual`."""
        raise NotImplementedError("The hard maximum with a hinge is MI-SVM: use solve_mi_svm.")

    def split_slopes(self, upper: np.ndarray, lower: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Refused, as :meth:`split`."""
        raise NotImplementedError("The hard maximum with a hinge is MI-SVM: use solve_mi_svm.")

    def dual_columns(self) -> list[DualColumns]:
        """The one side of the hinge."""
        ones = np.ones(len(self.signs))
        return [DualColumns(self.signs, ones, self.signs, 0.0 * ones)]

    @property
    def tube_limit(self) -> None:
        """A hinge has no tube."""
        return None

    def standardised(self) -> tuple[Hinge, float, float]:
        """The same loss: its unit is the margin."""
        return self, 0.0, 1.0


@dataclass
class Tube:
    """The loss of nu-support vector regression.

    Attributes
    ----------
    targets : ndarray of shape (n_bags,)
    weights : ndarray of shape (n_bags,), above zero
    nu : float in (0, 1]
        Part of the weight that may lie outside the tube.
    """

    targets: np.ndarray
    weights: np.ndarray
    nu: float

    @property
    def objective_scale(self) -> float:
        """See :func:`.common.rounding.rounding_scale`."""
        return rounding_scale(self.weights, float(np.abs(self.targets).max()))

    def free(self, scores: np.ndarray) -> tuple[float, float]:
        """The best intercept and half the width of the tube.

        For a tube [b - eps, b + eps] the loss falls into two parts: each edge leaves nu / 2 of
        the weight beyond it.
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
        """The best intercept and the loss where the two sides of the tube see different scores.

        ``upper`` must not lie above the tube, ``lower`` not below it:
        nu eps sum c + sum c_i ([u_i + b - y_i - eps]_+ + [y_i - l_i - b - eps]_+).
        """
        weights = self.weights
        above, below = upper - self.targets, self.targets - lower
        # Edges p = eps - b and q = eps + b, each with nu / 2 of the weight beyond it.
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
        """The width is free: together the variables take ``nu`` of all weights."""
        return self.nu

    def standardised(self) -> tuple[Tube, float, float]:
        """The loss of (y - m) / s with the weights over s; it is 1 / s**2 of the whole problem."""
        middle = float(np.average(self.targets, weights=self.weights))
        centred = self.targets - middle
        spread = float(np.sqrt(np.average(centred**2, weights=self.weights)))
        size = spread if spread > 1e-9 * abs(middle) else 1.0
        return Tube(centred / size, self.weights / size, self.nu), middle, size

    def slopes(self, scores: np.ndarray, intercept: float) -> np.ndarray:
        """A subgradient by the scores: the part nu of largest residuals pays, the edge less."""
        residuals = self.targets - scores - intercept
        paid = _tail_weights(np.abs(residuals), self.weights, self.nu)
        return np.asarray(-np.sign(residuals) * paid)

    def split_slopes(self, upper: np.ndarray, lower: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A subgradient of :meth:`split` by the upper and the lower scores."""
        weights, half = self.weights, 0.5 * self.nu
        above, below = upper - self.targets, self.targets - lower
        if weighted_tail(above, weights, half) + weighted_tail(below, weights, half) >= 0:
            return (
                _tail_weights(above, weights, half),
                -_tail_weights(below, weights, half),
            )
        both = _tail_weights(np.concatenate([-above, below]), np.concatenate([weights] * 2), 0.5)
        n = len(weights)
        return weights - both[:n], -both[n:]


def _tail_weights(values: np.ndarray, weights: np.ndarray, fraction: float) -> np.ndarray:
    """The part of each weight that belongs to the fraction ``fraction`` with the largest values."""
    order = np.argsort(-values, kind="stable")
    total = np.cumsum(weights[order])
    left = np.clip(fraction * total[-1] - (total - weights[order]), 0.0, None)
    taken = np.zeros(len(values))
    taken[order] = np.minimum(left, weights[order])
    return taken


def weighted_tail(values: np.ndarray, weights: np.ndarray, fraction: float) -> float:
    """The point with ``fraction`` of the weight above it; the middle where an interval has it."""
    order = np.argsort(-values, kind="stable")
    total = np.cumsum(weights[order])
    wanted = fraction * total[-1]
    rounding = 1e-12 * total[-1]
    first = min(int(np.searchsorted(total, wanted - rounding)), len(values) - 1)
    at = values[order[first]]
    if abs(total[first] - wanted) <= rounding and first + 1 < len(values):
        return float(0.5 * (at + values[order[first + 1]]))
    return float(at)
