"""Selection of one instance from each positive bag: relaxation, rounding, machine, descent.

    min over one instance j_i of each positive bag, w, b:
        J = 1/2 |w|^2 + sum_{y_i>0} c_i [1 - f(x_ij_i)]_+ + sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+

is problem (3) of Guo (2009). Selecting more than one instance of a bag only adds to the cost, so
"one" and "at least one" have the same optimum. At given (w, b) the best choice is the highest
instance of each bag: (3) is MI-SVM with a slack an instance, and its concave-convex procedure
descends from any selection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._bags.segments import gather_rows
from ..common.pivoted_cholesky import kernel_features
from .grouped_hinge import Patterns, solve_grouped_svm
from .guo_relaxation import RelaxationProblem, RelaxationResult, solve_relaxation
from .guo_sdp import solve_three_cones
from .mi_svm import HardMaxResult, Witnesses, solve_witnesses
from .selection_bound import SelectionBound, bound_selection

__all__ = ["SelectionResult", "solve_selection"]

# The relaxation is of first order in what it decides: it is solved well beyond ``tol``, and
# scores that differ by less than its own precision tie.
_RELAXATION_SHARE = 1e-4
_TIE = 1e-6


@dataclass
class SelectionResult(HardMaxResult):
    """A point of (3) that came from the relaxation.

    Attributes
    ----------
    relaxation : RelaxationResult
    selected : ndarray of shape (n_positive_bags,)
        Row of the instance that stands for each positive bag.
    bound : SelectionBound or None
        What the mixture of selections says, where it was asked for.
    """

    relaxation: RelaxationResult
    selected: np.ndarray
    bound: SelectionBound | None = None

    @property
    def lower_bound(self) -> float:
        """No point of (3) lies below; zero, which is trivial, without a mixture."""
        return 0.0 if self.bound is None else self.bound.lower_bound

    @property
    def relaxation_value(self) -> float:
        """Value of the relaxation that was asked for."""
        return self.relaxation.value if self.bound is None else self.bound.lower_bound

    @property
    def shares(self) -> np.ndarray:
        """Share of each instance of ``relaxation.rows`` in that relaxation."""
        return self.relaxation.eta if self.bound is None else self.bound.shares


def solve_selection(
    gram: Any,
    offsets: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    *,
    slack_bound: float,
    exactly_one: bool,
    conic: bool,
    tight: bool,
    polish: bool,
    n_components: int | None,
    most_bytes: float,
    tol: float,
    max_iter: int,
    qp_solver: str | None = None,
    on_iteration: Callable[[int, float], bool] | None = None,
) -> SelectionResult:
    """Solve the relaxation, select the highest instances, fit the machine on them.

    Parameters
    ----------
    gram : LinearGram or KernelGram
    offsets : ndarray of shape (n_bags + 1,)
    signs : ndarray of shape (n_bags,), +1.0 or -1.0
    weights : ndarray of shape (n_bags,), above zero
    slack_bound, exactly_one : see :class:`RelaxationProblem`
    conic : bool
        Whether to hand the three matrix inequalities to a conic solver.
    tight : bool
        Whether to mix selections: for a lower bound, and for the best of the selections mixed.
    polish : bool
        Whether to go on by the concave-convex procedure.
    n_components, most_bytes : see :func:`kernel_features`
    tol : float
        Relative duality gap of the machine; the relaxation is solved to a small part of it.
    max_iter : int
        Most steps of the concave-convex procedure.
    qp_solver : str, default=None
    on_iteration : callable, default=None
    """
    # A bound of the approximated problem would bound nothing.
    columns = None if tight else n_components
    problem = RelaxationProblem(
        kernel_features(gram, n_components=columns, most_bytes=most_bytes),
        offsets,
        signs,
        weights,
        slack_bound=slack_bound,
        exactly_one=exactly_one,
    )
    if conic:
        relaxation = solve_three_cones(problem)
    else:
        relaxation = solve_relaxation(problem, tol=_RELAXATION_SHARE * tol, qp_solver=qp_solver)
    selected = Witnesses(gram, offsets, signs, weights, tie=_TIE).of(relaxation.scores)
    rounded = fit_selected(
        gram, offsets, signs, weights, selected, relaxation, tol=tol, qp_solver=qp_solver
    )
    if tight:
        place = np.empty(len(problem.rows), dtype=np.intp)
        place[problem.rows] = np.arange(len(problem.rows))
        bound = bound_selection(problem, place[selected])
        # The first of them is the one that is fitted already.
        for choice in problem.rows[bound.selections[1:]]:
            other = fit_selected(
                gram, offsets, signs, weights, choice, relaxation, tol=tol, qp_solver=qp_solver
            )
            rounded = min(rounded, other, key=lambda each: each.objective)
        rounded.bound = bound
    if on_iteration is not None and on_iteration(1, rounded.objective):
        return rounded
    if not polish:
        return rounded
    return _polished(
        rounded,
        gram,
        offsets,
        signs,
        weights,
        tol=tol,
        max_iter=max_iter,
        qp_solver=qp_solver,
        on_iteration=on_iteration,
    )


def fit_selected(
    gram: Any,
    offsets: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    selected: np.ndarray,
    relaxation: RelaxationResult,
    *,
    tol: float,
    qp_solver: str | None,
) -> SelectionResult:
    """The machine between the selected instances and all instances of negative bags."""
    negative = np.flatnonzero(signs < 0)
    rows, inside = gather_rows(offsets, negative)
    patterns = Patterns(
        rows=np.concatenate([selected, rows]),
        row_offsets=None,
        group_offsets=np.arange(len(selected) + len(rows) + 1),
        signs=np.repeat([1.0, -1.0], [len(selected), len(rows)]),
        weights=np.concatenate([weights[signs > 0], np.repeat(weights[negative], np.diff(inside))]),
    )
    machine = solve_grouped_svm(gram, patterns, tol=0.1 * tol, qp_solver=qp_solver)
    return SelectionResult(
        rows=machine.rows,
        coef=machine.coef,
        intercept=machine.intercept,
        scores=machine.scores + machine.intercept,
        objective=machine.objective,
        history=[machine.objective],
        n_iter=1,
        converged=True,
        gap=machine.gap,
        n_solves=machine.n_solves,
        n_backend=machine.n_backend,
        relaxation=relaxation,
        selected=selected,
    )


def _polished(
    rounded: SelectionResult,
    gram: Any,
    offsets: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    *,
    on_iteration: Callable[[int, float], bool] | None,
    **options: Any,
) -> SelectionResult:
    def report(iteration: int, objective: float) -> bool:
        return on_iteration is not None and on_iteration(iteration + 1, objective)

    run = solve_witnesses(
        gram,
        offsets,
        signs,
        weights,
        slack="instance",
        start=rounded.selected,
        on_iteration=report,
        **options,
    )
    if run.objective > rounded.objective:
        # The same machine, solved twice, within its precision.
        rounded.n_iter += run.n_iter
        rounded.history.append(rounded.objective)
        return rounded
    return SelectionResult(
        **{
            **vars(run),
            "history": [rounded.objective, *run.history],
            "n_iter": run.n_iter + 1,
            "n_solves": run.n_solves + rounded.n_solves,
            "n_backend": run.n_backend + rounded.n_backend,
        },
        relaxation=rounded.relaxation,
        selected=Witnesses(gram, offsets, signs, weights).of(run.scores),
        bound=rounded.bound,
    )
