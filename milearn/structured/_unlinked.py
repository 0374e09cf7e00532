"""MILSD without links: the problem of MI-SVM, for the solvers of that."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._solvers.common.cccp import CCCPSolution
from .._solvers.common.gram import LinearGram
from .._solvers.common.options import SolverOptions
from .._solvers.common.passes import ArraySource, width_of
from .._solvers.structured.milsd import StructuredProblem, StructuredSolution
from .._solvers.svm.losses import Hinge
from .._solvers.svm.mi_svm import solve_mi_svm
from .._solvers.svm.mi_svm_primal import solve_mi_svm_primal
from .._solvers.svm.mi_svm_working_set import precision
from .._solvers.svm.problem import BinaryProblem
from .._solvers.svm.sizes import by_passes

__all__ = ["is_mi_svm", "solve_unlinked"]


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
    offsets, costs = problem.offsets, problem.costs[0] * problem.weights
    size = len(problem.signs), int(offsets[-1]), problem.X.shape[1]
    found: CCCPSolution
    named = solver == "auto" and options.qp_solver is not None
    if not named and by_passes(solver, *size):
        source = ArraySource(problem.X, offsets)
        first: Any = "auto" if start is None else start
        gap_tol = max(options.tol**2, precision(problem.X.shape[0], width_of(problem.X)))
        primal = solve_mi_svm_primal(
            source, Hinge(problem.signs, costs), "bag", first, options, gap_tol
        )
        found, w, intercept = primal, primal.w, primal.intercept
    else:
        binary = BinaryProblem(LinearGram(problem.X), offsets, problem.signs, costs)
        # It solves its steps to a tenth of this.
        exact = SolverOptions(
            10.0 * options.tol**2, options.max_iter, options.qp_solver, options.on_iteration
        )
        dual = solve_mi_svm(binary, "bag", start, exact)
        w = np.asarray(problem.X[dual.rows].T @ dual.coef)
        found, intercept = dual, dual.intercept
    risks = problem.risks(np.asarray(problem.X @ w) + intercept)
    return StructuredSolution(
        w=w,
        intercept=intercept,
        risks=risks,
        # The hinges are summed as they are, not modelled by cuts.
        violations=np.zeros(len(risks)),
        step_converged=True,
        n_cutting=0,
        objective=found.objective,
        history=found.history,
        n_iter=found.n_iter,
        stopped=found.stopped,
        dual_gap=found.dual_gap,
        objective_scale=found.objective_scale,
    )
