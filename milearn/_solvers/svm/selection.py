"""Selection of one instance from each positive bag: relaxation, rounding, SVM, descent.

    min over one instance j_i of each positive bag, w, b:
        J = 1/2 |w|^2 + sum_{y_i>0} c_i [1 - f(x_ij_i)]_+ + sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+

is problem (3) of Guo (2009). Selecting more than one instance of a bag only adds to the cost, so
"one" and "at least one" have the same optimum. At given (w, b) the best choice is the highest
instance of each bag: (3) is MI-SVM with one slack per instance, and its concave-convex procedure
descends from any selection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._bags.segments import gather_rows, segment_index
from ..common.cccp import CCCPSolution
from ..common.options import SolverOptions
from ..common.passes import PassSource, instance_scores
from ..common.pivoted_cholesky import (
    centered_kernel,
    kernel_features,
    needs_kernel,
    sparse_features,
)
from ..common.rounding import rounding_scale
from .guo_relaxation import RelaxationProblem, RelaxationResult, solve_relaxation
from .guo_sdp import solve_three_cones
from .losses import Hinge
from .maximum.dual import MISVMResult, solve_mi_svm, witness_rule
from .maximum.grouped_hinge import Patterns, solve_grouped_svm
from .maximum.rows import PrimalMISVMResult, solve_mi_svm_primal
from .problem import BinaryProblem
from .selection_bound import SelectionBound, bound_selection

__all__ = [
    "ByPasses",
    "PrimalSelectionResult",
    "SelectionResult",
    "SelectionSettings",
    "relaxation_problem",
    "solve_selection",
]

# The relaxation is of first order in what it decides: it is solved well beyond ``tol``, and
# scores that differ by less than its own precision tie.
_RELAXATION_TOL = 1e-4
_TIE_TOL = 1e-6


@dataclass(frozen=True)
class SelectionSettings:
    """Which relaxation is solved, and what follows it.

    Attributes
    ----------
    slack_bound, exactly_one
        See :class:`.guo_relaxation.RelaxationProblem`.
    conic : bool
        Whether to hand the three matrix inequalities to a conic solver.
    tight : bool
        Whether to mix selections: for a lower bound, and for the best of the selections mixed.
    polish : bool
        Whether to go on by the concave-convex procedure.
    n_components, max_bytes
        See :func:`milearn._solvers.common.pivoted_cholesky.kernel_features`.
    """

    slack_bound: float
    exactly_one: bool
    conic: bool
    tight: bool
    polish: bool
    n_components: int | None
    max_bytes: float


@dataclass(kw_only=True)
class _Selected:
    """What the relaxation says of a point of (3) that came from it.

    Attributes
    ----------
    relaxation : RelaxationResult
    selected : ndarray of shape (n_positive_bags,)
        Row of the instance that stands for each positive bag.
    bound : SelectionBound or None
        Mixture of selections, where it was asked for.
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
    def eta(self) -> np.ndarray:
        """Degree in [0, 1] to which that relaxation selects each of ``relaxation.rows``."""
        return self.relaxation.eta if self.bound is None else self.bound.eta


@dataclass(kw_only=True)
class SelectionResult(_Selected, MISVMResult):
    """A point of (3), as an expansion over instances."""


@dataclass(kw_only=True)
class PrimalSelectionResult(_Selected, PrimalMISVMResult):
    """A point of (3), as a weight vector."""


@dataclass(frozen=True)
class ByPasses:
    """How the SVM of a selection is solved over many instances with a linear kernel.

    Attributes
    ----------
    source : PassSource
    gap_tol : float
        Relative duality gap.
    """

    source: PassSource
    gap_tol: float

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Scores of all instances without the intercept."""
        return np.asarray(instance_scores(self.source, w[None])[:, 0])

    def solve(
        self, problem: BinaryProblem, start: np.ndarray, options: SolverOptions
    ) -> PrimalMISVMResult:
        """MI-SVM with one slack per instance, from a selection."""
        loss = Hinge(problem.signs, problem.weights)
        return solve_mi_svm_primal(self.source, loss, "instance", start, options, self.gap_tol)


def solve_selection(
    problem: BinaryProblem,
    settings: SelectionSettings,
    options: SolverOptions,
    by_passes: ByPasses | None = None,
) -> SelectionResult | PrimalSelectionResult:
    """Solve the relaxation, select the highest instances, fit an SVM on them.

    Parameters
    ----------
    problem : BinaryProblem
    settings : SelectionSettings
    options : SolverOptions
        ``tol`` is the relative duality gap of the SVM; the relaxation is solved to a small part
        of it. ``max_iter`` is the maximum number of steps of the concave-convex procedure.
    by_passes : ByPasses, default=None
        Solves the SVM of a selection, and goes on from it; not with ``settings.tight``, which asks
        for many SVMs and their dual variables.
    """
    # A bound of the approximated problem would bound nothing.
    columns = None if settings.tight else settings.n_components
    # Where there are fewer components than instances, they are cheaper than the kernel matrix; and
    # what else is made of the relaxation needs them.
    plain = not (settings.tight or settings.conic) and options.qp_solver is None
    relaxed = relaxation_problem(
        problem,
        slack_bound=settings.slack_bound,
        exactly_one=settings.exactly_one,
        n_components=columns,
        implicit=plain and columns is None,
        max_bytes=settings.max_bytes,
    )
    if settings.conic:
        relaxation = solve_three_cones(relaxed)
    else:
        relaxation = solve_relaxation(
            relaxed, tol=_RELAXATION_TOL * options.tol, qp_solver=options.qp_solver
        )
    selected = witness_rule(problem, tie_tol=_TIE_TOL).of(relaxation.scores)
    if by_passes is not None and not settings.tight:
        passed = _passed(problem, selected, relaxation, options, by_passes)
        if _asks_to_stop(passed, settings, options) or not settings.polish:
            return passed
        return _polished_by_passes(problem, passed, options, by_passes)
    rounded = fit_selected(problem, selected, relaxation, options)
    if settings.tight:
        place = np.empty(len(relaxed.rows), dtype=np.intp)
        place[relaxed.rows] = np.arange(len(relaxed.rows))
        bound = bound_selection(relaxed, place[selected])
        # The first of them is the one that is fitted already.
        for choice in relaxed.rows[bound.selections[1:]]:
            other = fit_selected(problem, choice, relaxation, options)
            rounded = min(rounded, other, key=lambda each: each.objective)
        rounded.bound = bound
    if _asks_to_stop(rounded, settings, options):
        return rounded
    return _polished(problem, rounded, options) if settings.polish else rounded


def relaxation_problem(
    problem: BinaryProblem,
    *,
    slack_bound: float,
    exactly_one: bool,
    n_components: int | None = None,
    implicit: bool = True,
    max_bytes: float = np.inf,
) -> RelaxationProblem:
    """The relaxation on what is the least to work with.

    Few columns are taken as they are. With ``implicit`` many sparse ones stay sparse, and of a
    kernel there is the matrix only; without it, and with ``n_components``, both are factored.
    """
    gram = problem.gram
    features: Any = sparse_features(gram) if implicit else None
    is_kernel = features is None and implicit and needs_kernel(gram)
    if is_kernel:
        features = centered_kernel(gram, max_bytes=max_bytes)
    elif features is None:
        features = kernel_features(gram, n_components=n_components, max_bytes=max_bytes)
    return RelaxationProblem(
        features,
        problem.offsets,
        problem.signs,
        problem.weights,
        slack_bound=slack_bound,
        exactly_one=exactly_one,
        is_kernel=is_kernel,
        max_bytes=max_bytes,
    )


def _asks_to_stop(
    rounded: CCCPSolution, settings: SelectionSettings, options: SolverOptions
) -> bool:
    """Report the SVM of the selection; where that is the end it is noted."""
    if options.on_iteration is None or not options.on_iteration(1, rounded.objective):
        return False
    if settings.polish:
        rounded.stopped = "callback"
    return True


def fit_selected(
    problem: BinaryProblem,
    selected: np.ndarray,
    relaxation: RelaxationResult,
    options: SolverOptions,
) -> SelectionResult:
    """The SVM between the selected instances and all instances of negative bags."""
    negative, weights = problem.negative, problem.weights
    rows, inside = gather_rows(problem.offsets, negative)
    patterns = Patterns(
        rows=np.concatenate([selected, rows]),
        row_offsets=None,
        group_offsets=np.arange(len(selected) + len(rows) + 1),
        signs=np.repeat([1.0, -1.0], [len(selected), len(rows)]),
        weights=np.concatenate(
            [weights[problem.positive], np.repeat(weights[negative], np.diff(inside))]
        ),
    )
    svm = solve_grouped_svm(
        problem.gram, patterns, tol=0.1 * options.tol, qp_solver=options.qp_solver
    )
    return SelectionResult(
        rows=svm.rows,
        coef=svm.coef,
        intercept=svm.intercept,
        scores=svm.scores + svm.intercept,
        norm2=svm.norm2,
        objective=svm.objective,
        history=[svm.objective],
        n_iter=1,
        stopped="",
        dual_gap=svm.gap,
        objective_scale=rounding_scale(patterns.weights),
        n_solves=svm.n_solves,
        n_backend=svm.n_backend,
        relaxation=relaxation,
        selected=selected,
    )


def _passed(
    problem: BinaryProblem,
    selected: np.ndarray,
    relaxation: RelaxationResult,
    options: SolverOptions,
    by_passes: ByPasses,
) -> PrimalSelectionResult:
    """The same SVM by passes: one step of MI-SVM, whose value is that of the selection."""
    found = by_passes.solve(problem, selected, SolverOptions(options.tol, 1))
    scores = by_passes.scores(found.w) + found.intercept
    signs = problem.signs[segment_index(problem.offsets)]
    hinges = problem.instance_weights * np.maximum(0.0, 1.0 - signs * scores)
    used = signs < 0
    used[selected] = True
    value = 0.5 * float(found.w @ found.w) + float(hinges[used].sum())
    facts = {**vars(found), "objective": value, "history": [value], "stopped": ""}
    return PrimalSelectionResult(**facts, relaxation=relaxation, selected=selected)


def _polished_by_passes(
    problem: BinaryProblem,
    rounded: PrimalSelectionResult,
    options: SolverOptions,
    by_passes: ByPasses,
) -> PrimalSelectionResult:
    watched = options.watched_by(_from_second_step(options))
    run = by_passes.solve(problem, rounded.selected, watched)
    n_passes = rounded.n_passes + run.n_passes
    if run.objective > rounded.objective:
        rounded.n_iter, rounded.n_passes = run.n_iter, n_passes
        rounded.history *= run.n_iter
        return rounded
    facts = {**vars(run), "history": [rounded.objective, *run.history[1:]], "n_passes": n_passes}
    scores = by_passes.scores(run.w) + run.intercept
    return PrimalSelectionResult(
        **facts,
        relaxation=rounded.relaxation,
        selected=witness_rule(problem).of(scores),
        bound=rounded.bound,
    )


def _from_second_step(options: SolverOptions) -> Callable[[int, float], bool]:
    def report(iteration: int, objective: float) -> bool:
        # The first step solves the SVM of the selection once more, which was reported.
        if iteration == 1 or options.on_iteration is None:
            return False
        return options.on_iteration(iteration, objective)

    return report


def _polished(
    problem: BinaryProblem, rounded: SelectionResult, options: SolverOptions
) -> SelectionResult:
    watched = options.watched_by(_from_second_step(options))
    run = solve_mi_svm(problem, "instance", rounded.selected, watched)
    if run.objective > rounded.objective:
        # The same SVM, solved twice, within its precision.
        rounded.n_iter = run.n_iter
        rounded.history *= run.n_iter
        return rounded
    return SelectionResult(
        **{
            **vars(run),
            "history": [rounded.objective, *run.history[1:]],
            "n_solves": run.n_solves + rounded.n_solves,
            "n_backend": run.n_backend + rounded.n_backend,
        },
        relaxation=rounded.relaxation,
        selected=witness_rule(problem).of(run.scores),
        bound=rounded.bound,
    )
