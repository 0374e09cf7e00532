"""MI-SVM: maximum-margin classification of bags by their highest instance score.

MI-SVM (Andrews et al. 2003) by the concave-convex procedure, for bags i with signs y_i:

    J(w, b) = 1/2 |w|^2 + sum_{y_i>0} c_i [1 - max_j f(x_ij)]_+ + (negative bags),
    one slack per bag:        sum_{y_i<0} c_i [1 + max_j f(x_ij)]_+
    one slack per instance:   sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+

The hinge of a positive bag is concave in the maximum: a step replaces it by the hinge of one
instance, the witness. The hinge of a negative bag is convex and is not changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..._bags.segments import gather_rows, segment_max
from ..common.cccp import (
    RELATIVE_TIE,
    CCCPResult,
    CCCPSolution,
    SolverOptions,
    cccp,
    optimal_intercept,
    rounding_scale,
)
from ..common.gram import KERNEL_BLOCK_BYTES, Gram
from ..common.passes import HighestInstances, is_constant, mean_difference
from .grouped_hinge import Patterns, SVMSolution, WorkingSet, solve_grouped_svm
from .problem import BinaryProblem

_NO_WITNESSES = np.zeros(0, dtype=np.intp)
# Precision of the one step by which screened starts are compared with each other, and of the run
# from the best of them, which is continued precisely unless its objective exceeds the lowest one by
# more than a fraction.
_TRIAL_TOL = 0.1
ROUGH_TOL = 1e-3
_NEAR_OBJECTIVE = 3e-3


@dataclass(kw_only=True)
class MISVMResult(CCCPSolution):
    """A stationary point of MI-SVM or mi-SVM."""

    # The function sum_r coef_r k(x_r, .) + intercept, its values at all instances, and |w|^2.
    rows: np.ndarray
    coef: np.ndarray
    intercept: float
    scores: np.ndarray
    norm2: float
    # The final working set, from which another run can start.
    working: WorkingSet

    def coefficients(self, gram: Gram) -> np.ndarray:
        """Coefficients of all instances."""
        return np.bincount(*gram.expansion(self.rows, self.coef), minlength=gram.n)


@dataclass
class MISVMPoint:
    """Solution of a convex step; the linearisation has witnesses or labels."""

    objective: float
    dual_gap: float
    linearisation: np.ndarray
    intercept: float
    solution: SVMSolution


def solve_mi_svm(
    problem: BinaryProblem,
    slack: str,
    start: np.ndarray | None,
    options: SolverOptions,
    others: np.ndarray | None = None,
) -> MISVMResult:
    """Minimise J.

    Parameters
    ----------
    problem : BinaryProblem
    slack : {"bag", "instance"}
        Whether a negative bag or each of its instances has a slack.
    start : ndarray of int or None
        Rows of the first witnesses, of shape (n_positive,). None starts from the mean of each
        positive bag, the linearisation at w = 0 in which all instances have the same weight. Of
        several starts, (n_starts, n_positive), each is followed for one step and the best to its
        end.
    options : SolverOptions
    others : ndarray of int of shape (n_others, n_positive), default=None
        Several starts in addition to ``start``; the lower objective is kept.
    """
    if start is not None and start.ndim == 2:
        return _best_of(problem, slack, start, options)
    first = _descend(problem, slack, start, options)
    if others is None or len(others) == 0 or first.stopped == "callback":
        return first
    options = options.after(first.n_iter)
    rough = replace(options, tol=max(options.tol, ROUGH_TOL))
    second = _best_of(problem, slack, others, rough, first.working)
    if second.objective > (1.0 + _NEAR_OBJECTIVE) * first.objective:
        return first
    if second.converged and options.tol < rough.tol:
        second = _continued(problem, slack, second, options)
    return first if first.objective <= second.objective else second


def _best_of(
    problem: BinaryProblem,
    slack: str,
    starts: np.ndarray,
    options: SolverOptions,
    working: WorkingSet | None = None,
) -> MISVMResult:
    """The end of the best start, as one step of each tells."""
    if len(starts) == 1:
        return _descend(problem, slack, starts[0], options, working)
    once, trials = SolverOptions(max(options.tol, _TRIAL_TOL), 1), []
    for witnesses in starts:
        trials.append(_descend(problem, slack, witnesses, once, working))
        working = trials[-1].working
    best = min(trials, key=lambda trial: trial.objective)
    return _descend(problem, slack, best.witnesses, options, best.working)


def _continued(
    problem: BinaryProblem, slack: str, found: MISVMResult, options: SolverOptions
) -> MISVMResult:
    """The precise end of a rough run."""
    left = options.max_iter - found.n_iter
    if left <= 0:
        return replace(found, stopped="max_iter")
    options = replace(options.after(found.n_iter), max_iter=left)
    end = _descend(problem, slack, found.witnesses, options, found.working)
    history = found.history + end.history
    return replace(end, history=history, n_iter=found.n_iter + end.n_iter)


def _descend(
    problem: BinaryProblem,
    slack: str,
    start: np.ndarray | None,
    options: SolverOptions,
    working: WorkingSet | None = None,
) -> MISVMResult:
    """A stationary point from given witnesses, or from the means; ``working`` is of another run."""
    positive = problem.signs > 0
    layout = WitnessLayout(problem, slack)
    rule = witness_rule(problem)
    costs, signs = layout.group_weights, layout.group_signs
    at_zero = 2.0 * min(float(costs[signs > 0].sum()), float(costs[signs < 0].sum()))

    def step(witnesses: np.ndarray, previous: MISVMPoint | None, inner_tol: float) -> MISVMPoint:
        solution = solve_grouped_svm(
            problem.gram,
            layout.patterns(witnesses),
            tol=inner_tol,
            start=working if previous is None else previous.solution.working,
        )
        highest = segment_max(solution.scores, problem.offsets)
        # The best intercept of J for this w: J is then at most the value of the convex step.
        values = highest[np.r_[problem.positive, problem.negative]]
        if slack == "instance":
            values = np.concatenate([highest[positive], solution.scores[layout.negative_rows]])
        intercept = optimal_intercept(values, signs, costs)
        hinge = np.maximum(0.0, 1.0 - signs * (values + intercept))
        objective = 0.5 * solution.norm2 + float(costs @ hinge)
        constant = is_constant(solution.objective, at_zero)
        return MISVMPoint(
            objective=objective,
            dual_gap=solution.gap,
            linearisation=rule.of(solution.scores, constant=constant),
            intercept=intercept,
            solution=solution,
        )

    first = _NO_WITNESSES if start is None else start
    run = cccp(step, first, options, 0.1 * options.tol, certified=True)
    return replace(result_of_run(run, rounding_scale(costs)), witnesses=run.point.linearisation)


def result_of_run(run: CCCPResult, objective_scale: float) -> MISVMResult:
    """The result for the best point of a run."""
    point: MISVMPoint = run.point
    return MISVMResult(
        **run.outcome(),
        objective_scale=objective_scale,
        rows=point.solution.rows,
        coef=point.solution.coef,
        intercept=point.intercept,
        scores=point.solution.scores + point.intercept,
        norm2=point.solution.norm2,
        working=point.solution.working,
    )


def witness_rule(problem: BinaryProblem, tie_tol: float = RELATIVE_TIE) -> HighestInstances:
    """Choice of the highest instance of each positive bag, with a rule for ties.

    At w = 0, for example, all instances tie and any of them linearises the maximum. The choice must
    not depend on the order of instances or on rounding. It is the instance with the highest score
    under the difference of the weighted means of positive and negative bags.

    Parameters
    ----------
    problem : BinaryProblem
    tie_tol : float
        Difference of scores that counts as a tie, as a fraction of the largest score.
    """
    difference = mean_difference(problem.offsets, problem.signs, problem.weights)
    second = partial(_scores_of_means, problem.gram, difference)
    return HighestInstances(problem.offsets, problem.positive, second, tie_tol)


def _scores_of_means(gram: Gram, difference: np.ndarray, rows: np.ndarray) -> np.ndarray:
    scores = np.empty(len(rows))
    step = max(1, KERNEL_BLOCK_BYTES // (8 * gram.n))
    everything = (np.arange(gram.n), None)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        scores[part] = gram.inner((rows[part], None), everything) @ difference
    return scores


class WitnessLayout:
    """Order of the patterns: one of each positive bag, then the instances of the negative bags."""

    def __init__(self, problem: BinaryProblem, slack: str) -> None:
        offsets, weights = problem.offsets, problem.weights
        positive, negative = problem.positive, problem.negative
        self.positive_rows, self.positive_offsets = gather_rows(offsets, positive)
        self.negative_rows, negative_offsets = gather_rows(offsets, negative)
        n_positive, n_rows = len(positive), len(self.negative_rows)
        if slack == "instance":
            sizes = np.diff(offsets)[negative]
            self.group_signs = np.r_[np.ones(n_positive), -np.ones(n_rows)]
            self.group_weights = np.r_[weights[positive], np.repeat(weights[negative], sizes)]
            self.group_offsets = np.arange(n_positive + n_rows + 1)
        else:
            self.group_signs = np.r_[np.ones(n_positive), -np.ones(len(negative))]
            self.group_weights = weights[np.r_[positive, negative]]
            self.group_offsets = np.r_[np.arange(n_positive), n_positive + negative_offsets]

    def patterns(self, witnesses: np.ndarray) -> Patterns:
        """The convex problem for the given witnesses; an empty array means the means of bags."""
        if len(witnesses):
            rows, row_offsets = np.r_[witnesses, self.negative_rows], None
        else:
            rows = np.r_[self.positive_rows, self.negative_rows]
            singles = np.arange(1, len(self.negative_rows) + 1)
            row_offsets = np.r_[self.positive_offsets, self.positive_offsets[-1] + singles]
        return Patterns(rows, row_offsets, self.group_offsets, self.group_signs, self.group_weights)
