"""Bags and instances as points of one space, tied to each other (Cheung & Kwok 2006).

    J(f, b) = 1/2 |f|^2 + g(h(B) + b) + sum_i lambda_i loss(|h(B_i) - max_j h(x_ij)|)

by the concave-convex procedure: the maximum in h(B_i) - max_j h(x_ij) <= t_i is linearised by
shares beta_ij of the instances that attain it, the one in h(x_ij) - h(B_i) <= t_i stays whole. For
a hard maximum, h(B_i) = max_j h(x_ij), the same is done inside g.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._bags.segments import segment_max, segment_sum
from ..common.cccp import CCCPResult, cccp
from .bag_gram import Objects
from .coupled_dual import (
    Coupling,
    Memory,
    StepSolution,
    solve_step,
)
from .losses import Hinge, Tube

__all__ = [
    "CoupledResult",
    "coupled_objective",
    "equal_shares",
    "outcome",
    "solve_coupled",
    "top_shares",
]

_TIE = 1e-7


@dataclass
class CoupledResult:
    """A local minimum of J.

    Attributes
    ----------
    of_bags, of_instances : ndarray
        Coefficients of f over bags and instances.
    intercept, width : float
        b, and half the width of the tube (0 for a classifier).
    objective : float, J at the solution
    history : list of float
    n_iter : int
    converged : bool
    gap : float
        Duality gap of the last convex step, in units of the objective.
    n_rows, n_solves, n_backend : int
        Most rows of a step; dual problems of all steps, and those that needed a backend.
    """

    of_bags: np.ndarray
    of_instances: np.ndarray
    intercept: float
    width: float
    objective: float
    history: list[float]
    n_iter: int
    converged: bool
    gap: float
    n_rows: int
    n_solves: int
    n_backend: int


@dataclass
class _Point:
    objective: float
    gap: float
    linearisation: np.ndarray
    intercept: float
    width: float
    solution: StepSolution


def equal_shares(offsets: np.ndarray) -> np.ndarray:
    """All instances of a bag share equally: the linearisation at f = 0."""
    sizes = np.diff(offsets)
    return np.repeat(1.0 / sizes, sizes)


def top_shares(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The highest instances of each bag share equally; ties are told apart up to rounding."""
    sizes = np.diff(offsets)
    near = _TIE * max(1.0, float(np.abs(scores).max()))
    tied = scores >= np.repeat(segment_max(scores, offsets) - near, sizes)
    return tied / np.repeat(segment_sum(tied.astype(np.float64), offsets), sizes)


def coupled_objective(
    norm2: float,
    bag_scores: np.ndarray,
    highest: np.ndarray,
    loss: Hinge | Tube,
    coupling: Coupling,
) -> tuple[float, float, float]:
    """J with the best intercept, that intercept, and half the width of the tube."""
    scores = highest if coupling.loss == "max" else bag_scores
    intercept, width = loss.free(scores)
    value = 0.5 * norm2 + loss.value(scores, intercept)
    if coupling.loss != "max":
        value += coupling.value(np.abs(bag_scores - highest))
    return value, intercept, width


def solve_coupled(
    objects: Objects,
    loss: Hinge | Tube,
    coupling: Coupling,
    *,
    start: np.ndarray | None = None,
    tol: float,
    max_iter: int,
    qp_solver: str | None = None,
    rows: str = "lazy",
    on_iteration: Callable[[int, float], bool] | None = None,
) -> CoupledResult:
    """Minimise J.

    Parameters
    ----------
    objects : Objects
    loss : Hinge or Tube
    coupling : Coupling
    start : ndarray of shape (n_instances,), default=None
        First shares. None takes the highest instances under the machine without coupling: from
        equal shares, the linearisation at f = 0, nearly every bag is exceeded by an instance, and
        that first problem costs more than all that follow.
    tol, max_iter : see :func:`milearn._solvers.common.cccp.cccp`
    qp_solver : str, default=None
    rows : {"lazy", "all"}, default="lazy"
        Whether rows of instances are generated as they are violated; "all" is there to be
        compared with.
    on_iteration : callable, default=None
    """
    offsets = objects.offsets
    n_rows = n_solves = n_backend = 0

    def step(shares: np.ndarray, before: _Point | None, inner_tol: float) -> _Point:
        nonlocal n_rows, n_solves, n_backend
        memory: Memory | None = None
        first: str | np.ndarray = rows
        if before is not None:
            memory = before.solution.memory
            if rows == "lazy":
                first = before.solution.rows
        solution = solve_step(
            objects,
            loss,
            coupling,
            shares,
            tol=inner_tol,
            qp_solver=qp_solver,
            rows=first,
            memory=memory,
        )
        n_rows = max(n_rows, solution.n_rows)
        n_solves += solution.n_solves
        n_backend += solution.n_backend
        highest = segment_max(solution.scores, offsets)
        value, intercept, width = coupled_objective(
            solution.norm2, solution.bag_scores, highest, loss, coupling
        )
        return _Point(
            objective=value,
            gap=solution.gap,
            linearisation=top_shares(solution.scores, offsets),
            intercept=intercept,
            width=width,
            solution=solution,
        )

    if start is None:
        alone = Coupling("l1", np.zeros(objects.n_bags))
        machine = solve_step(
            objects, loss, alone, equal_shares(offsets), tol=0.1 * tol, qp_solver=qp_solver
        )
        start = top_shares(machine.scores, offsets)
    run = cccp(
        step, start, tol=tol, max_iter=max_iter, inner_tol=0.1 * tol, on_iteration=on_iteration
    )
    point = run.point
    return CoupledResult(
        of_bags=point.solution.of_bags,
        of_instances=point.solution.of_instances,
        n_rows=n_rows,
        n_solves=n_solves,
        n_backend=n_backend,
        **outcome(run),
    )


def outcome(run: CCCPResult) -> dict[str, Any]:
    """What both kinds of results say of a run."""
    of_point = ("intercept", "width", "objective", "gap")
    of_run = ("history", "n_iter", "converged")
    return {
        **{name: getattr(run.point, name) for name in of_point},
        **{name: getattr(run, name) for name in of_run},
    }
