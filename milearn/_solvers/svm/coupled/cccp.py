"""Bags and instances as points of the same space, with coupled scores (Cheung & Kwok 2006).

    J(f, b) = 1/2 |f|^2 + g(h(B) + b) + sum_i lambda_i loss(|h(B_i) - max_j h(x_ij)|)

is minimised by the concave-convex procedure. The maximum in h(B_i) - max_j h(x_ij) <= t_i is
linearised by a subgradient beta_ij: weights of the instances that attain it. The constraints
h(x_ij) - h(B_i) <= t_i are convex and are not changed. For a hard maximum,
h(B_i) = max_j h(x_ij), the same is done within g.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from ...._bags.segments import segment_max, segment_sum
from ...common.cccp import CCCPSolution, SolverOptions, cccp
from ...common.passes import HighestInstances, is_constant
from ..losses import BagLoss, Coupling, Tube
from .dual import StepSolution, solve_step
from .gram import BagGram

# Relative difference of scores that counts as rounding.
_TIE_TOL = 1e-7


@dataclass(kw_only=True)
class CoupledSolution(CCCPSolution):
    """A stationary point of J; ``width`` is half the width of the tube (0 for a classifier)."""

    intercept: float
    width: float


@dataclass(kw_only=True)
class CoupledResult(CoupledSolution):
    """A stationary point of J over bags and instances."""

    # Coefficients of f.
    coef: np.ndarray


@dataclass
class _DualPoint:
    objective: float
    dual_gap: float
    linearisation: np.ndarray
    intercept: float
    width: float
    solution: StepSolution


def equal_subgradient(offsets: np.ndarray) -> np.ndarray:
    """Equal weights for all instances of a bag: the linearisation at f = 0."""
    sizes = np.diff(offsets)
    return np.repeat(1.0 / sizes, sizes)


def top_subgradient(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Equal weights for the highest instances of each bag, which tie up to rounding."""
    sizes = np.diff(offsets)
    near = _TIE_TOL * max(1.0, float(np.abs(scores).max()))
    tied = scores >= np.repeat(segment_max(scores, offsets) - near, sizes)
    return np.asarray(tied / np.repeat(segment_sum(tied.astype(np.float64), offsets), sizes))


def coupled_objective(
    norm2: float,
    bag_scores: np.ndarray,
    highest: np.ndarray,
    loss: BagLoss,
    coupling: Coupling,
) -> tuple[float, float, float]:
    """J with the best intercept, that intercept, and half the width of the tube."""
    scores = highest if coupling.hard else bag_scores
    intercept, width = loss.free(scores)
    value = 0.5 * norm2 + loss.value(scores, intercept)
    if not coupling.hard:
        value += coupling.value(np.abs(bag_scores - highest))
    return value, intercept, width


def solve_coupled(
    bags: BagGram,
    loss: BagLoss,
    coupling: Coupling,
    start: str | np.ndarray,
    options: SolverOptions,
) -> CoupledResult:
    """Minimise J.

    Parameters
    ----------
    bags : BagGram
    loss : Hinge or Tube
    coupling : Coupling
    start : {"auto", "mean"} or ndarray of int of shape (n_bags,)
        First linearisation: the highest instances under the SVM without coupling, or for a hard
        maximum under the SVM of the means; the mean of each bag; or given rows. With the means, the
        linearisation at f = 0, nearly every bag would have a violated constraint, and the first
        problem would take longer than all others.
    options : SolverOptions
    """
    offsets, scale = bags.offsets, loss.objective_scale
    # The dual has products of targets and weights, which lose the digits of far targets.
    loss, middle = loss.centred()
    size, zeros, everyone = loss.standardised()[2], np.zeros(bags.n_bags), np.arange(bags.n_bags)
    at_zero = loss.value(zeros, loss.free(zeros)[0])
    # At w = 0 all instances tie, and a hard maximum would stop there with equal weights. Ties are
    # broken in favour of the instance that is highest along a descent direction of the loss of the
    # means.
    descent = cast(Tube, loss).descent() if coupling.hard else zeros
    rule = HighestInstances(offsets, everyone, lambda rows: (descent @ bags.cross)[rows])

    def linearise(scores: np.ndarray, value: float) -> np.ndarray:
        """The subgradient at scores of all instances with the value of their problem."""
        if not coupling.hard:
            return top_subgradient(scores, offsets)
        found = np.zeros(len(scores))
        found[rule.of(scores / size, constant=is_constant(value, at_zero))] = 1.0
        return found

    def step(subgradient: np.ndarray, previous: _DualPoint | None, inner_tol: float) -> _DualPoint:
        cuts = None if previous is None else previous.solution.cuts
        solution = solve_step(bags, loss, coupling, subgradient, tol=inner_tol, cuts=cuts)
        highest = segment_max(solution.scores, offsets)
        value, intercept, width = coupled_objective(
            solution.norm2, solution.bag_scores, highest, loss, coupling
        )
        return _DualPoint(
            objective=value,
            dual_gap=solution.gap,
            linearisation=linearise(solution.scores, solution.objective),
            intercept=intercept,
            width=width,
            solution=solution,
        )

    first = equal_subgradient(offsets)
    if not isinstance(start, str):
        first = np.bincount(start, minlength=bags.n_instances).astype(np.float64)
    elif start == "auto":
        free = Coupling("l1", zeros)
        svm = solve_step(bags, loss, free, first, tol=0.1 * options.tol)
        first = linearise(svm.scores, svm.objective)
    run = cccp(step, first, options, 0.1 * options.tol, certified=True)
    point: _DualPoint = run.point
    return CoupledResult(
        **run.outcome(),
        witnesses=np.flatnonzero(point.linearisation) if coupling.hard else None,
        objective_scale=scale,
        intercept=middle + point.intercept,
        width=point.width,
        coef=bags.expansion(point.solution.of_bags, point.solution.of_instances),
    )
