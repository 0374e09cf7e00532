"""A stationary point of the problem of MILSD by the concave-convex procedure.

Concave terms are replaced by their linearisation at the current point: the maximum of a positive
bag, and in each of

    s_p f_p - s_q f_q <= s_p f_p - s_q f(x_q*),    s_q f_q - s_p f_p <= s_q f_q - s_p f(x_p*)

the maximum that is subtracted, by its highest instance. The terms of negative bags and of links
between instances are convex and are not changed.

A convex step starts from the function and the proportions of the previous step. It stops when its
gap is small, or after a few Newton steps if these have lowered the objective enough and changed the
witnesses, because the next convex step makes more progress. The last step is always solved to its
precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..common.cccp import CCCPSolution, SolverOptions, cccp
from ..common.newton.engine import FIRST_SMOOTHING, WARM_SMOOTHING, NewtonSolution, solve
from .problem import LinkedProblem
from .step import LinkedStep, LinkedTerms

# The linearisation at w = 0, where all instances of a bag have equal weights.
MEANS = np.zeros(0, dtype=np.intp)
# Number of Newton steps after which a convex step may stop early, if it has lowered the objective
# by this multiple of the decrease at which the procedure stops.
_STEPS_AT_A_TIME, _ENOUGH = 6, 2.0
# Lower limit of the relative gap, which is due to rounding.
_LEAST_GAP_TOL = 1e-10


@dataclass(kw_only=True)
class LinkedSolution(CCCPSolution):
    """A stationary point; ``risks`` are the three sums in J."""

    w: np.ndarray
    intercept: float
    risks: np.ndarray
    n_passes: int = 0


@dataclass
class _Point:
    """A convex solution with its best intercept, and the linearisation of the next step."""

    objective: float
    dual_gap: float
    linearisation: np.ndarray
    risks: np.ndarray
    w: np.ndarray
    intercept: float
    solution: NewtonSolution
    # Whether the gap is small enough, or the step was stopped early on purpose.
    converged: bool


def solve_milsd(
    problem: LinkedProblem, options: SolverOptions, start: np.ndarray | None = None
) -> LinkedSolution:
    """A stationary point by the concave-convex procedure with Newton's method inside.

    Parameters
    ----------
    problem : LinkedProblem
    options : SolverOptions
        A convex step is solved to a relative gap of the square of ``tol``.
    start : ndarray of int, default=None
        First linearisation: a row of each bag of ``problem.linearised``. None starts from w = 0,
        where all instances of a bag have equal weights.
    """
    terms = LinkedTerms(problem)
    no_function = np.zeros(problem.X.shape[1]), np.zeros(terms.free.shape[1])
    constant = _constant(problem)
    last: _Point

    def is_closed(solution: NewtonSolution, gap_tol: float) -> bool:
        return solution.gap <= gap_tol * max(abs(solution.objective), problem.scale)

    def point_of(solution: NewtonSolution, gap_tol: float) -> _Point:
        w, (value, intercept, risks) = solution.w, constant
        scores = np.asarray(problem.X @ w)
        if value <= solution.objective + gap_tol * abs(solution.objective):
            # A constant is as good: use w = 0, because a tiny w would break ties of instances.
            w, scores = np.zeros_like(w), np.zeros_like(scores)
        else:
            intercept = problem.best_intercept(scores)
            risks = problem.risks(scores + intercept)
        return _Point(
            objective=0.5 * float(w @ w) + float(problem.costs @ risks),
            dual_gap=solution.gap,
            linearisation=problem.witnesses(scores),
            risks=risks,
            w=w,
            intercept=intercept,
            solution=solution,
            converged=is_closed(solution, gap_tol),
        )

    def step(witnesses: np.ndarray, before: _Point | None, gap_tol: float) -> _Point:
        """Solve the convex problem for given witnesses, from the previous point."""
        nonlocal last
        reached = constant[0] if before is None else before.objective
        tol, early = options.tol * abs(reached), None

        def ended(solution: NewtonSolution) -> bool:
            nonlocal early
            if is_closed(solution, gap_tol):
                return True
            if reached - solution.objective <= _ENOUGH * tol:
                return False
            point = point_of(solution, gap_tol)
            repeated = np.array_equal(point.linearisation, witnesses)
            if repeated or reached - point.objective <= tol:
                return False
            # Another step follows in any case.
            early = replace(point, converged=True)
            return True

        if before is None:
            first, centre = no_function, terms.first
            smoothing = FIRST_SMOOTHING
        else:
            first = before.w, np.full(len(no_function[1]), before.intercept)
            centre = before.solution.proportions
            smoothing = max(WARM_SMOOTHING, before.solution.smoothing)
        convex = LinkedStep(terms, terms.linear(witnesses, problem.linearised))
        found = solve(
            convex, *first, centre, ended, smoothing=smoothing, steps_at_a_time=_STEPS_AT_A_TIME
        )
        last = point_of(found, gap_tol) if early is None else early
        return last

    gap_tol = max(options.tol**2, _LEAST_GAP_TOL)
    run = cccp(step, MEANS if start is None else start, options, inner_tol=gap_tol)
    outcome = run.outcome()
    if last is not run.point:
        # The last step found no better point, and its bound belongs to the witnesses of the point.
        outcome["dual_gap"] = max(0.0, run.point.objective - last.solution.lower_bound)
    if not (run.stopped or last.converged):
        outcome["stopped"] = "gap"
    return LinkedSolution(
        w=run.point.w,
        intercept=run.point.intercept,
        risks=run.point.risks,
        objective_scale=problem.scale,
        **outcome,
    )


def _constant(problem: LinkedProblem) -> tuple[float, float, np.ndarray]:
    """Objective, intercept and risks of the best function with w = 0."""
    zero = np.zeros(problem.X.shape[0])
    intercept = problem.best_intercept(zero)
    risks = problem.risks(zero + intercept)
    return float(problem.costs @ risks), intercept, risks
