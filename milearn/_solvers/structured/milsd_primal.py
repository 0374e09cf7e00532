"""MILSD in the primal: the concave-convex procedure with convex steps by Newton's method.

The problem and its linearisation are those of :mod:`.milsd`. A step begins with the function and
the proportions of the one before. It ends where its gap is small, or after a few Newton steps when
these have gained enough and name other witnesses: the next step, from these, goes further. A step
that could be the last one is always solved to the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..common.cccp import cccp
from ..common.options import SolverOptions
from .link_newton import FIRST_SMOOTHING, WARM_SMOOTHING, StepSolution, solve_linked_step
from .linked_step import LinkedStep, LinkedTerms
from .milsd import MEANS, LinearisedProblem, StructuredProblem, StructuredSolution

__all__ = ["by_newton", "solve_structured_primal"]

# Instances and links together up to which cutting planes are about as quick as Newton's method.
_SIZE_LIMIT_OF_CUTS = 1_000
# Below this a gap is rounding.
_MIN_GAP_TOL = 1e-10
# A step may end before its gap is small where its gain is so many times what ends the procedure.
_ENOUGH = 2.0
_MAX_STEPS = 1000


def by_newton(solver: str, n_instances: int, n_links: int) -> bool:
    """Whether convex steps go to Newton's method instead of cutting planes.

    Parameters
    ----------
    solver : {"auto", "dual", "primal"}
        "auto" leaves it to the size.
    n_instances, n_links : int
    """
    return n_instances + n_links > _SIZE_LIMIT_OF_CUTS if solver == "auto" else solver == "primal"


@dataclass
class _PrimalPoint:
    """A convex solution with its best intercept, and the linearisation of the next problem."""

    objective: float
    dual_gap: float
    linearisation: np.ndarray
    risks: np.ndarray
    w: np.ndarray
    intercept: float
    solution: StepSolution
    # Whether the gap is as small as asked for, or the step ended early on purpose.
    converged: bool


def solve_structured_primal(
    problem: StructuredProblem, options: SolverOptions, start: np.ndarray | None = None
) -> StructuredSolution:
    """A local minimum by the concave-convex procedure with Newton's method inside.

    Parameters
    ----------
    problem : StructuredProblem
    options : SolverOptions
        A convex step is solved to a relative gap of the square of ``tol``. ``qp_solver`` is not
        used.
    start : ndarray of int, default=None
        First linearisation: a row of each bag of :func:`.milsd.linearised_bags`. None starts from
        w = 0, where all instances of a bag share equally.
    """
    procedure = _Procedure(problem, options)
    gap_tol = max(options.tol**2, _MIN_GAP_TOL)
    run = cccp(procedure.step, MEANS if start is None else start, options, inner_tol=gap_tol)
    point = run.point
    return StructuredSolution(
        w=point.w,
        intercept=point.intercept,
        risks=point.risks,
        # The sums are summed as they are, not modelled by cuts.
        violations=np.zeros(len(point.risks)),
        step_converged=point.converged,
        n_cutting=0,
        objective_scale=procedure.scale,
        **run.outcome(),
    )


class _Procedure:
    """The convex steps of one problem."""

    def __init__(self, problem: StructuredProblem, options: SolverOptions) -> None:
        self.problem, self.options = problem, options
        self.linearised = LinearisedProblem(problem)
        self.terms = LinkedTerms(problem)
        self.scale = self.linearised.objective_scale
        n_instances, self.n_columns = problem.X.shape
        self.no_scores = np.zeros(n_instances)
        self.constant = problem.best_intercept(self.no_scores) if problem.fit_intercept else 0.0
        self.constant_risks = problem.risks(self.no_scores + self.constant)
        self.constant_value = float(problem.costs @ self.constant_risks)

    def step(
        self, witnesses: np.ndarray, before: _PrimalPoint | None, gap_tol: float
    ) -> _PrimalPoint:
        """Solve the convex problem at the given witnesses, from the point before."""
        reached = self.constant_value if before is None else before.objective
        tol = self.options.tol * abs(reached)
        early: _PrimalPoint | None = None

        def ended(solution: StepSolution) -> bool:
            nonlocal early
            if self._closed(solution, gap_tol):
                return True
            gained = reached - solution.objective
            if gained <= _ENOUGH * tol:
                return False
            # Another step follows this one, whatever is left of it.
            point = self._point(solution, gap_tol)
            repeated = np.array_equal(point.linearisation, witnesses)
            if repeated or reached - point.objective <= tol:
                return False
            early = replace(point, converged=True)
            return True

        linear = self.terms.linear(witnesses, self.linearised.bags)
        if before is None:
            first, centre = (np.zeros(self.n_columns), 0.0), self.terms.first_proportions()
            smoothing = FIRST_SMOOTHING
        else:
            first, centre = (before.w, before.intercept), before.solution.proportions
            smoothing = max(WARM_SMOOTHING, before.solution.smoothing)
        found = solve_linked_step(
            LinkedStep(self.terms, linear),
            first,
            centre,
            smoothing=smoothing,
            ended=ended,
            max_steps=_MAX_STEPS,
        )
        return self._point(found, gap_tol) if early is None else early

    def _closed(self, solution: StepSolution, gap_tol: float) -> bool:
        return solution.gap <= gap_tol * max(abs(solution.objective), self.scale)

    def _point(self, solution: StepSolution, gap_tol: float) -> _PrimalPoint:
        problem, w = self.problem, solution.w
        scores = np.asarray(problem.X @ w)
        if self.constant_value <= solution.objective + gap_tol * abs(solution.objective):
            # Nothing is better than a constant. What is left of w would choose between instances.
            w, scores = np.zeros_like(w), self.no_scores
            intercept, risks = self.constant, self.constant_risks
        else:
            intercept = problem.best_intercept(scores) if problem.fit_intercept else 0.0
            risks = problem.risks(scores + intercept)
        return _PrimalPoint(
            objective=0.5 * float(w @ w) + float(problem.costs @ risks),
            dual_gap=solution.gap,
            linearisation=self.linearised.witnesses(scores),
            risks=risks,
            w=w,
            intercept=intercept,
            solution=solution,
            converged=self._closed(solution, gap_tol),
        )
