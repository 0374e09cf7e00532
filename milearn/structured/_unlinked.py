"""MILSD without links: the problem of MI-SVM, for the solvers of that."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._solvers.common.cccp import CCCPSolution
from .._solvers.common.gram import LinearGram
from .._solvers.common.options import SolverOptions
from .._solvers.common.or_primal import or_primal
from .._solvers.common.passes import ArraySource, width_of
from .._solvers.structured.milsd import StructuredProblem, StructuredSolution
from .._solvers.svm.losses import Hinge
from .._solvers.svm.maximum.dual import solve_mi_svm
from .._solvers.svm.maximum.rows import solve_mi_svm_primal
from .._solvers.svm.maximum.view import precision
from .._solvers.svm.problem import BinaryProblem
from .._solvers.svm.sizes import by_passes

__all__ = ["is_mi_svm", "judge", "solve_unlinked"]

# Difference of objectives up to which w is what multipliers stand for: relative to the objective,
# and to what its gap is measured against.
_ROUNDING, _REST = 1e-9, 1e-3


def is_mi_svm(problem: StructuredProblem) -> bool:
    """Whether a problem is that of MI-SVM: an intercept, no links, and a label of every bag."""
    n_links = len(problem.bag_edges) + len(problem.instance_edges)
    weighted = (problem.signs != 0) & (problem.weights > 0)
    return problem.fit_intercept and n_links == 0 and bool(weighted.all())


def solve_unlinked(
    problem: StructuredProblem,
    options: SolverOptions,
    start: np.ndarray | None = None,
    solver: str = "auto",
) -> StructuredSolution:
    """A local minimum of a problem for which :func:`is_mi_svm` holds.

    Parameters
    ----------
    problem : StructuredProblem
    options : SolverOptions
        A convex step is solved to a relative gap of the square of ``tol``; where it goes by passes
        to what suits many instances, if that is larger.
    start : ndarray of int, default=None
        A row of each positive bag; the mean of each when None.
    solver : {"auto", "dual", "primal"}, default="auto"
        "auto" goes by the size, and to the dual where a ``qp_solver`` is named.
    """
    named = solver == "auto" and options.qp_solver is not None
    size = len(problem.signs), int(problem.offsets[-1]), problem.X.shape[1]
    if not named and by_passes(solver, *size):
        return _by_passes(problem, options, start)
    return or_primal(
        partial(_by_dual, problem, options, start),
        partial(_by_passes, problem, options, start),
        judge,
    )


def judge(found: StructuredSolution) -> tuple[bool, float]:
    """What :func:`or_primal` asks of a solution by cutting planes or by multipliers."""
    return not found.out_of_digits, found.objective


def _by_passes(
    problem: StructuredProblem, options: SolverOptions, start: np.ndarray | None
) -> StructuredSolution:
    source = ArraySource(problem.X, problem.offsets)
    loss = Hinge(problem.signs, problem.costs[0] * problem.weights)
    gap_tol = max(options.tol**2, precision(problem.X.shape[0], width_of(problem.X)))
    first: Any = "auto" if start is None else start
    found = solve_mi_svm_primal(source, loss, "bag", first, options, gap_tol)
    solution = _solution(problem, found, (found.w, found.intercept), gap_tol)
    solution.n_passes = found.n_passes
    return solution


def _by_dual(
    problem: StructuredProblem, options: SolverOptions, start: np.ndarray | None
) -> StructuredSolution:
    binary = BinaryProblem(
        LinearGram(problem.X), problem.offsets, problem.signs, problem.costs[0] * problem.weights
    )
    # It solves its steps to a tenth of this.
    exact = SolverOptions(
        10.0 * options.tol**2, options.max_iter, options.qp_solver, options.on_iteration
    )
    found = solve_mi_svm(binary, "bag", start, exact)
    w = np.asarray(problem.X[found.rows].T @ found.coef)
    return _solution(problem, found, (w, found.intercept), exact.tol)


def _solution(
    problem: StructuredProblem,
    found: CCCPSolution,
    function: tuple[np.ndarray, float],
    gap_tol: float,
) -> StructuredSolution:
    """The result at w and b, whose objective is that of the problem as stated."""
    w, intercept = function
    risks = problem.risks(np.asarray(problem.X @ w) + intercept)
    objective = 0.5 * float(w @ w) + float(problem.costs @ risks)
    size = max(abs(found.objective), found.objective_scale)
    # Of hinges that should be zero rounding leaves a share of their costs.
    rounding = _ROUNDING * abs(found.objective) + _REST * found.objective_scale
    exact = abs(objective - found.objective) <= rounding
    closed = exact and found.dual_gap <= gap_tol * size
    return StructuredSolution(
        w=w,
        intercept=intercept,
        risks=risks,
        # The hinges are summed as they are, not modelled by cuts.
        violations=np.zeros(len(risks)),
        step_converged=closed or bool(found.stopped),
        n_cutting=0,
        out_of_digits=not closed and not found.stopped,
        objective=found.objective if exact else objective,
        history=found.history,
        n_iter=found.n_iter,
        stopped=found.stopped,
        dual_gap=found.dual_gap if exact else found.dual_gap + abs(objective - found.objective),
        objective_scale=found.objective_scale,
    )
