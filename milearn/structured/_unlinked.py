"""MILSD without links is MI-SVM, which has solvers of its own."""

from __future__ import annotations

import numpy as np

from .._bags.blocks import ArraySource, width_of
from .._solvers.common.descent import precision
from .._solvers.common.gram import LinearGram
from .._solvers.common.options import SolverOptions
from .._solvers.structured.milsd import LinkedSolution
from .._solvers.structured.problem import LinkedProblem
from .._solvers.svm.losses import Hinge
from .._solvers.svm.maximum.dual import solve_mi_svm
from .._solvers.svm.maximum.linear import dual_or_rows, with_weights
from .._solvers.svm.maximum.rows import RowsSolution, solve_mi_svm_rows
from .._solvers.svm.maximum.starts import screened_witnesses
from .._solvers.svm.problem import BinaryProblem, suits_rows


def is_mi_svm(problem: LinkedProblem) -> bool:
    """Whether a problem has an intercept and no links, and every bag a label and a weight."""
    n_links = len(problem.bag_edges) + len(problem.instance_edges)
    weighted = (problem.signs != 0) & (problem.weights > 0)
    return bool(problem.fit_intercept and n_links == 0 and weighted.all())


def solve_unlinked(
    problem: LinkedProblem, options: SolverOptions, start: np.ndarray | None = None
) -> LinkedSolution:
    """A local minimum of a problem for which :func:`is_mi_svm` holds.

    ``start`` is a row of each positive bag; the solver chooses its start when it is None.
    """
    loss = Hinge(problem.signs, problem.costs[0] * problem.weights)
    gap_tol = max(options.tol**2, precision(problem.X.shape[0], width_of(problem.X)))
    source, n_bags = ArraySource(problem.X, problem.offsets), len(problem.signs)

    def by_rows() -> RowsSolution:
        first = "auto" if start is None else start
        return solve_mi_svm_rows(source, loss, "bag", first, options, gap_tol)

    def by_dual() -> RowsSolution:
        gram = LinearGram(problem.X)
        bags = BinaryProblem(gram, problem.offsets, loss.signs, loss.weights)
        # Without a feature that differs there is no direction to screen.
        chosen = start is None and problem.X.shape[1] > 0
        others = screened_witnesses(source, loss) if chosen else None
        return with_weights(solve_mi_svm(bags, "bag", start, options, others), gram)

    if suits_rows((n_bags, *problem.X.shape), n_bags):
        found = by_rows()
    else:
        found = dual_or_rows(by_dual, by_rows)
    size = max(abs(found.objective), found.objective_scale)
    return LinkedSolution(
        w=found.w,
        intercept=found.intercept,
        risks=problem.risks(np.asarray(problem.X @ found.w) + found.intercept),
        # The solver warns if it is stopped early.
        step_converged=found.dual_gap <= gap_tol * size or bool(found.stopped),
        n_passes=found.n_passes,
        objective=found.objective,
        history=found.history,
        n_iter=found.n_iter,
        stopped=found.stopped,
        dual_gap=found.dual_gap,
        objective_scale=found.objective_scale,
    )
