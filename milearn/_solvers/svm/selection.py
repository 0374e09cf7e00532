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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..._bags.blocks import PassSource
from ..._bags.segments import segment_index
from ..common.cccp import CCCPSolution, SolverOptions
from ..common.passes import instance_scores
from .losses import Hinge
from .mi_svm_kernel import BinaryProblem, solve_mi_svm, witness_rule
from .mi_svm_rows import TRIAL, solve_mi_svm_rows
from .selection_relaxation import (
    RelaxationProblem,
    RelaxationResult,
    instance_features,
    solve_relaxation,
)

# The selection depends on small differences of scores. The relaxation is therefore solved more
# precisely than to ``tol``.
_RELAXATION_TOL = 1e-4


@dataclass(frozen=True)
class SelectionSettings:
    """The relaxation, and the steps that follow it."""

    # See :class:`.selection_relaxation.RelaxationProblem`.
    slack_bound: float
    exactly_one: bool
    # Whether to continue with the concave-convex procedure.
    polish: bool
    # See :func:`.selection_relaxation.instance_features`.
    n_components: int | None
    max_bytes: float


@dataclass(kw_only=True)
class SelectionResult(CCCPSolution):
    """A solution of (3) and the relaxation that it was rounded from."""

    svm: Any  # of the dual, or by passes
    selected: np.ndarray  # row of the selected instance of each positive bag
    relaxation: RelaxationResult


def solve_selection(
    problem: BinaryProblem,
    settings: SelectionSettings,
    options: SolverOptions,
    rows: PassSource | None = None,
    others: np.ndarray | None = None,
) -> SelectionResult:
    """Solve the relaxation, select the highest instances, fit an SVM on them.

    Parameters
    ----------
    problem : BinaryProblem
    settings : SelectionSettings
    options : SolverOptions
        ``tol`` is the relative duality gap of the SVM; the relaxation is solved to a fraction of
        it. ``max_iter`` is the maximum number of steps of the concave-convex procedure.
    rows : PassSource, default=None
        The SVMs are solved by passes over these instances instead of in the dual.
    others : ndarray of int of shape (n_others, n_positive), default=None
        Further starts of the concave-convex procedure; the lowest objective is kept.
    """
    signs, weights = problem.signs, problem.weights
    features, is_kernel = instance_features(problem.gram, settings.n_components, settings.max_bytes)
    relaxed = RelaxationProblem(
        features,
        problem.offsets,
        signs,
        weights,
        slack_bound=settings.slack_bound,
        exactly_one=settings.exactly_one,
        is_kernel=is_kernel,
    )
    relaxation = solve_relaxation(relaxed, tol=_RELAXATION_TOL * options.tol)
    selected = witness_rule(problem).of(relaxation.scores)
    solve = partial(_mi_svm, problem, rows)
    # The SVM of the selection: one step of MI-SVM, with the value of the selection.
    svm = solve(selected, SolverOptions(options.tol, 1))
    owner = segment_index(problem.offsets)
    used = signs[owner] < 0
    used[selected] = True
    loss = Hinge(signs[owner[used]], weights[owner[used]])
    if rows is None:
        scores, norm2 = svm.scores - svm.intercept, svm.norm2
    else:
        scores, norm2 = instance_scores(rows, svm.w[None])[:, 0], float(svm.w @ svm.w)
    intercept, _ = loss.free(scores[used])
    value = 0.5 * norm2 + loss.value(scores[used], intercept)
    own: dict[str, Any] = {"v": np.array([intercept])}
    if rows is None:
        own = {"intercept": intercept, "scores": scores + intercept}
    svm = replace(svm, objective=value, history=[value], stopped="", **own)
    best = SelectionResult(
        **svm.outcome(),
        objective_scale=svm.objective_scale,
        svm=svm,
        selected=selected,
        relaxation=relaxation,
    )
    stops = options.on_iteration is not None and options.on_iteration(1, best.objective)
    if not settings.polish:
        return best
    if stops:
        best.stopped = "callback"
        return best
    return _polished(best, solve, options, others)


def _mi_svm(
    problem: BinaryProblem, rows: PassSource | None, start: np.ndarray, options: SolverOptions
) -> Any:
    """MI-SVM with one slack per instance, from a selection or from the best of several."""
    if rows is None:
        return solve_mi_svm(problem, "instance", start, options)
    loss = Hinge(problem.signs, problem.weights)
    if start.ndim == 2:
        # Of several starts, the one whose first steps end lowest.
        ends = [solve_mi_svm_rows(rows, loss, "instance", each, TRIAL) for each in start]
        start = start[int(np.argmin([end.objective for end in ends]))]
    return solve_mi_svm_rows(rows, loss, "instance", start, options)


def _polished(
    rounded: SelectionResult,
    solve: Callable[[np.ndarray, SolverOptions], Any],
    options: SolverOptions,
    others: np.ndarray | None,
) -> SelectionResult:
    """The lowest minimum of MI-SVM from the selection and the other starts."""
    watch, watched = options.on_iteration, options
    if watch is not None:
        # The first step solves the SVM of the selection again, which has already been reported.
        watched = options.watched_by(lambda n, value: n > 1 and watch(n, value))
    run = solve(rounded.selected, watched)
    if run.objective <= rounded.objective:
        run.history[0] = rounded.objective
    if others is not None and len(others) and run.stopped != "callback":
        second = solve(others, options.after(run.n_iter))
        # Two runs that end in one minimum differ by rounding.
        if second.objective < (1 - 1e-6) * run.objective:
            run = second
        elif second.stopped == "callback":
            run.stopped = "callback"
    if run.objective > rounded.objective:
        # The same SVM was solved twice, to within its precision.
        history = rounded.history * run.n_iter
        return replace(rounded, n_iter=run.n_iter, history=history, stopped=run.stopped)
    if hasattr(run, "n_passes"):
        run.n_passes += rounded.svm.n_passes
    at_end = run.outcome() | {"witnesses": run.witnesses, "selected": run.witnesses}
    return replace(rounded, **at_end, svm=run)
