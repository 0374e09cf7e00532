"""Bags and instances as points of one space, tied to each other (Cheung & Kwok 2006).

    J(f, b) = 1/2 |f|^2 + g(h(B) + b) + sum_i lambda_i loss(|h(B_i) - max_j h(x_ij)|)

by the concave-convex procedure: the maximum in h(B_i) - max_j h(x_ij) <= t_i is linearised by a
subgradient beta_ij, weights of the instances that attain it; the one in h(x_ij) - h(B_i) <= t_i
stays whole. For a hard maximum, h(B_i) = max_j h(x_ij), the same is done inside g.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...._bags.segments import segment_max, segment_sum
from ...common.cccp import CCCPSolution, cccp
from ...common.options import SolverOptions
from ...common.witnesses import Witnesses
from ..losses import BagLoss, Coupling
from .dual import StepSolution, solve_step
from .dual_qp import WarmStart
from .gram import BagGram

__all__ = [
    "CoupledResult",
    "CoupledSolution",
    "coupled_objective",
    "equal_subgradient",
    "solve_coupled",
    "top_subgradient",
]

# Relative difference of scores that rounding may cause.
_TIE_TOL = 1e-7


@dataclass(kw_only=True)
class CoupledSolution(CCCPSolution):
    """A local minimum of J.

    Attributes
    ----------
    intercept, width : float
        b, and half the width of the tube (0 for a classifier).
    """

    intercept: float
    width: float


@dataclass(kw_only=True)
class CoupledResult(CoupledSolution):
    """A local minimum of J over bags and instances.

    Attributes
    ----------
    of_bags, of_instances : ndarray
        Coefficients of f over bags and instances.
    n_cuts, n_solves, n_backend : int
        Largest number of cuts of a step; dual problems of all steps, and those that needed a
        backend.
    """

    of_bags: np.ndarray
    of_instances: np.ndarray
    n_cuts: int
    n_solves: int
    n_backend: int


@dataclass
class _DualPoint:
    objective: float
    dual_gap: float
    linearisation: np.ndarray
    intercept: float
    width: float
    solution: StepSolution


def equal_subgradient(offsets: np.ndarray) -> np.ndarray:
    """The same weight for all instances of a bag: the linearisation at f = 0."""
    sizes = np.diff(offsets)
    return np.repeat(1.0 / sizes, sizes)


def top_subgradient(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The same weight for the highest instances of each bag, which tie up to rounding."""
    sizes = np.diff(offsets)
    near = _TIE_TOL * max(1.0, float(np.abs(scores).max()))
    tied = scores >= np.repeat(segment_max(scores, offsets) - near, sizes)
    return np.asarray(tied / np.repeat(segment_sum(tied.astype(np.float64), offsets), sizes))


def highest_of_hard(bags: BagGram, loss: BagLoss) -> Callable[[np.ndarray], np.ndarray]:
    """The subgradient of a hard maximum that takes one instance of each bag.

    At w = 0 all instances tie, and equal weights would end the procedure there. Ties go to the
    instance that is highest along the direction in which the loss of the means falls.
    """
    falling = -loss.slopes(np.zeros(bags.n_bags), loss.free(np.zeros(bags.n_bags))[0])
    size = loss.standardised()[2]

    def along(rows: np.ndarray) -> np.ndarray:
        return np.asarray((falling @ bags.means())[rows])

    rule = Witnesses(bags.offsets, np.arange(bags.n_bags), along)

    def subgradient(scores: np.ndarray) -> np.ndarray:
        found = np.zeros(len(scores))
        found[rule.of(scores / size)] = 1.0
        return found

    return subgradient


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
    start: np.ndarray | None,
    options: SolverOptions,
    cuts: str = "lazy",
) -> CoupledResult:
    """Minimise J.

    Parameters
    ----------
    bags : BagGram
    loss : Hinge or Tube
    coupling : Coupling
    start : ndarray of shape (n_instances,) or None
        First subgradient. None takes the highest instances under the SVM without coupling: from
        equal weights, the linearisation at f = 0, nearly every bag is exceeded by an instance, and
        that first problem costs more than all that follow.
    options : SolverOptions
    cuts : {"lazy", "all"}, default="lazy"
        Whether the constraints of instances are generated as they are violated; "all" is there to
        be compared with.
    """
    offsets = bags.offsets
    n_cuts = n_solves = n_backend = 0
    linearise = (
        highest_of_hard(bags, loss) if coupling.hard else partial(top_subgradient, offsets=offsets)
    )

    def step(subgradient: np.ndarray, previous: _DualPoint | None, inner_tol: float) -> _DualPoint:
        nonlocal n_cuts, n_solves, n_backend
        warm_start: WarmStart | None = None
        first: str | np.ndarray = cuts
        if previous is not None:
            warm_start = previous.solution.warm_start
            if cuts == "lazy":
                first = previous.solution.cuts
        solution = solve_step(
            bags,
            loss,
            coupling,
            subgradient,
            tol=inner_tol,
            cuts=first,
            warm_start=warm_start,
        )
        n_cuts = max(n_cuts, solution.n_cuts)
        n_solves += solution.n_solves
        n_backend += solution.n_backend
        highest = segment_max(solution.scores, offsets)
        value, intercept, width = coupled_objective(
            solution.norm2, solution.bag_scores, highest, loss, coupling
        )
        return _DualPoint(
            objective=value,
            dual_gap=solution.gap,
            linearisation=linearise(solution.scores),
            intercept=intercept,
            width=width,
            solution=solution,
        )

    if start is None:
        svm = solve_step(
            bags,
            loss,
            Coupling.none(bags.n_bags),
            equal_subgradient(offsets),
            tol=0.1 * options.tol,
        )
        start = top_subgradient(svm.scores, offsets)
    run = cccp(step, start, options, 0.1 * options.tol, certified=True)
    point: _DualPoint = run.point
    return CoupledResult(
        **run.outcome(),
        objective_scale=loss.objective_scale,
        intercept=point.intercept,
        width=point.width,
        of_bags=point.solution.of_bags,
        of_instances=point.solution.of_instances,
        n_cuts=n_cuts,
        n_solves=n_solves,
        n_backend=n_backend,
    )
