r"""Gradient boosting of the noisy-or likelihood of bags (MILBoost).

An instance with score F is positive with probability p = 1 / (1 + e^-F), and a bag if one of its
instances is. With s_i = -sum_j log(1 - p_ij) = sum_j log(1 + e^F_ij) the negative log-likelihood is

    L(F) = sum_{positive} -c_i log(1 - e^-s_i) + sum_{negative} c_i s_i .

A round fits a learner h with values of -1 and 1 to the weights w_x = -dL/dF_x, which are larger for
more likely instances of a positive bag, and moves along it to a minimum of L(F + a h).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

# Largest step, at which odds change by e^8. For separable data there is no minimum along a learner.
_LARGEST_STEP = 4.0
_FIRST_STEP = 0.125
_STEP_TOL = 1e-10
_HALVINGS = 40
_LARGEST_EXPONENT = 700.0
_SMALLEST = 1e-300

# Weights of points -> a learner and its values on the points, or None.
Learn = Callable[[np.ndarray], tuple[Any, np.ndarray] | None]


@dataclass(frozen=True)
class BoostingProblem:
    """Bags of points, positive and negative, with their costs."""

    # The point of each instance; learners are fitted to distinct points, of shape (n_instances,).
    point_of: np.ndarray
    # Of shape (n_bags + 1,).
    offsets: np.ndarray
    positive: np.ndarray
    # Of shape (n_bags,).
    costs: np.ndarray
    n_points: int

    def loss(self, scores: np.ndarray) -> float:
        """L for the scores of the points."""
        s = _softplus_sums(scores[self.point_of], self.offsets)
        return float(self.costs @ np.where(self.positive, -log_complement(s), s))


@dataclass
class BoostingSolution:
    """An ensemble b + sum_k a_k h_k with its loss."""

    learners: list[Any]
    # The a_k, above zero, of shape (n_iter_,).
    steps: np.ndarray
    intercept: float
    objective: float
    # Losses of the constant and after each round.
    history: list[float]

    @property
    def n_iter(self) -> int:
        """Number of rounds."""
        return len(self.learners)


def log_odds(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)) of bags from the scores of their instances."""
    s = _softplus_sums(scores, offsets)
    odds: np.ndarray = s + log_complement(s)
    # Bags of one instance separately, to avoid rounding.
    alone = np.diff(offsets) == 1
    odds[alone] = scores[offsets[:-1][alone]]
    return odds


def noisy_or_weights(problem: BoostingProblem, scores: np.ndarray) -> np.ndarray:
    """-dL/dF of the points, shape (n_points,)."""
    inside = scores[problem.point_of]
    s = _softplus_sums(inside, problem.offsets)
    by_bag = np.where(
        problem.positive,
        1.0 / np.expm1(np.minimum(np.maximum(s, _SMALLEST), _LARGEST_EXPONENT)),
        -1.0,
    )
    by_instance = np.repeat(problem.costs * by_bag, np.diff(problem.offsets)) * expit(inside)
    return np.bincount(problem.point_of, by_instance, minlength=problem.n_points)


def boost_noisy_or(
    problem: BoostingProblem, learn: Learn, *, n_rounds: int, rate: float, tol: float
) -> BoostingSolution:
    """Boost until no learner lowers the loss, or for a number of rounds.

    Parameters
    ----------
    problem : BoostingProblem
    learn : callable
        ``learn(weights)`` returns a learner and its values of -1 and 1 on the points, shape
        (n_points,), that have a large inner product with the weights, or None.
    n_rounds : int
    rate : float
        Factor on every step, in (0, 1].
    tol : float
        Smallest gain of a learner as a fraction of the absolute weights, and smallest loss and
        decrease of a round as fractions of the loss of the constant.
    """
    scores = np.zeros(problem.n_points)
    ones = np.ones(problem.n_points)
    # The constant with the smallest loss, in steps of limited size.
    intercept, step = 0.0, _LARGEST_STEP
    while abs(step) >= _LARGEST_STEP:
        slope = float(noisy_or_weights(problem, scores).sum())
        step = np.sign(slope) * _line_search(problem, scores, np.sign(slope) * ones)
        intercept += step
        scores = scores + step
    history = [problem.loss(scores)]
    learners: list[Any] = []
    steps: list[float] = []
    converged = False
    while len(learners) < n_rounds and not converged:
        weights = noisy_or_weights(problem, scores)
        total = float(np.abs(weights).sum())
        found = learn(weights / total) if total > 0 else None
        if found is None or found[1] @ weights <= tol * total:
            break
        learner, values = found
        step = rate * _line_search(problem, scores, values)
        loss = problem.loss(scores + step * values)
        if not loss < history[-1]:
            break
        converged = min(loss, history[-1] - loss) <= tol * history[0]
        scores = scores + step * values
        learners.append(learner)
        steps.append(step)
        history.append(loss)
    return BoostingSolution(learners, np.array(steps), intercept, history[-1], history)


def _line_search(problem: BoostingProblem, scores: np.ndarray, values: np.ndarray) -> float:
    """A step along a descent direction to a zero of the slope, at most the largest step."""
    along = problem, scores, values
    if _slope(0.0, *along) >= 0:
        return 0.0
    low, high = 0.0, _FIRST_STEP
    while _slope(high, *along) < 0 and high < _LARGEST_STEP:
        low, high = high, min(2.0 * high, _LARGEST_STEP)
    # SciPy keeps a reference to the function, but not to its arguments.
    rising = _slope(high, *along) >= 0
    step = float(brentq(_slope, low, high, args=along, xtol=_STEP_TOL)) if rising else high
    # The loss along a learner may not be convex, so the zero may be a maximum.
    start = problem.loss(scores)
    for _ in range(_HALVINGS):
        if problem.loss(scores + step * values) < start:
            return step
        step *= 0.5
    return 0.0


def _slope(step: float, problem: BoostingProblem, scores: np.ndarray, values: np.ndarray) -> float:
    return -float(noisy_or_weights(problem, scores + step * values) @ values)


def _softplus_sums(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    return np.asarray(np.add.reduceat(np.logaddexp(0.0, scores), offsets[:-1]))


def log_complement(s: np.ndarray) -> np.ndarray:
    """log(1 - exp(-s)) without cancellation."""
    s = np.maximum(s, _SMALLEST)
    near = s < np.log(2.0)
    held = np.where(near, s, 1.0)
    return np.where(near, np.log(-np.expm1(-held)), np.log1p(-np.exp(-np.where(near, 1.0, s))))
