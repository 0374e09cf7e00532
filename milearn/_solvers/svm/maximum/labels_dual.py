"""mi-SVM: maximum-margin classification of instances whose labels are variables.

mi-SVM (Andrews et al. 2003) gives every instance of a positive bag a label u_ij, at least one of
them positive:

    J(w, b) = min_u 1/2 |w|^2 + sum_{y_i>0} c_i sum_j [1 - u_ij f(x_ij)]_+
              + sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+
"""

from __future__ import annotations

import numpy as np

from ...._bags.segments import segment_argmax
from ...common.cccp import SolverOptions, cccp, optimal_intercept, rounding_scale
from ..problem import BinaryProblem
from .dual import (
    MISVMPoint,
    MISVMResult,
    result_of_run,
    solve_mi_svm,
    witness_rule,
)
from .grouped_hinge import Patterns, solve_grouped_svm


def solve_instance_labels(
    problem: BinaryProblem,
    start: np.ndarray | None,
    options: SolverOptions,
    others: np.ndarray | None = None,
) -> MISVMResult:
    """Minimise J.

    Parameters
    ----------
    problem : BinaryProblem
    start : ndarray of shape (n_instances,) or None
        First labels of all instances, +1.0 or -1.0. None takes the best ones for a multiple of a
        function of MI-SVM with a slack of each instance, two steps from the means of the positive
        bags: with all instances of positive bags positive, w = 0 can be a fixed point.
    options : SolverOptions
    others : ndarray of int of shape (n_others, n_positive), default=None
        Further starts by witnesses: labels are found in the same manner from the best of them.
    """
    offsets, signs = problem.offsets, problem.signs
    n, costs = problem.n_instances, problem.instance_weights
    rule = witness_rule(problem)
    n_solves = n_backend = 0

    def step(labels: np.ndarray, previous: MISVMPoint | None, inner_tol: float) -> MISVMPoint:
        nonlocal n_solves, n_backend
        solution = solve_grouped_svm(
            problem.gram,
            Patterns(np.arange(n), None, np.arange(n + 1), labels, costs),
            tol=inner_tol,
            start=None if previous is None else previous.solution.working,
        )
        n_solves += solution.n_solves
        n_backend += solution.n_backend
        witnesses = rule.of(solution.scores)
        relabelled = best_labels(solution.scores + solution.intercept, offsets, signs, witnesses)
        intercept = optimal_intercept(solution.scores, relabelled, costs)
        hinge = np.maximum(0.0, 1.0 - relabelled * (solution.scores + intercept))
        return MISVMPoint(
            objective=0.5 * solution.norm2 + float(costs @ hinge),
            dual_gap=solution.gap,
            linearisation=best_labels(solution.scores + intercept, offsets, signs, witnesses),
            intercept=intercept,
            solution=solution,
        )

    def labels_from(witnesses: np.ndarray | None) -> np.ndarray:
        found = solve_mi_svm(problem, "instance", witnesses, SolverOptions(1e-2, 2))
        scores, bags = found.scores - found.intercept, (offsets, signs, costs)
        return widened(scores, found.intercept, found.norm2, bags)[2]

    labels = labels_from(None) if start is None else start
    run = cccp(step, labels, options, 0.1 * options.tol, certified=True)
    if others is not None and len(others) and run.stopped != "callback":
        labels, options = labels_from(others), options.after(run.n_iter)
        second = cccp(step, labels, options, 0.1 * options.tol, certified=True)
        run = min(run, second, key=lambda each: each.point.objective)
    return result_of_run(run, n_solves, n_backend, rounding_scale(costs))


def best_labels(
    scores: np.ndarray,
    offsets: np.ndarray,
    signs: np.ndarray,
    witnesses: np.ndarray | None = None,
) -> np.ndarray:
    """The labels of smallest loss: the signs of the scores, at least one positive per positive bag.

    ``witnesses`` are the rows of the highest instances of the positive bags, by default the first
    ones.
    """
    positive = signs > 0
    if witnesses is None:
        witnesses = segment_argmax(scores, offsets)[positive]
    labels = np.where(np.repeat(positive, np.diff(offsets)) & (scores > 0), 1.0, -1.0)
    labels[witnesses] = 1.0
    return labels


def widened(
    scores: np.ndarray,
    intercept: float,
    norm2: float,
    bags: tuple[np.ndarray, np.ndarray, np.ndarray],
    largest: float = 2.0**10,
) -> tuple[float, float, np.ndarray]:
    """The multiple of a function, doubled while that lowers J, its intercept and best labels.

    Where every instance is labelled, margins are wider than with one of each bag.

    Parameters
    ----------
    scores : ndarray of shape (n_instances,), without the intercept
    intercept, norm2 : float
    bags : offsets, signs, and the weights of all instances
    largest : float
    """
    (offsets, signs, costs), best, factor = bags, np.inf, 1.0
    while factor < largest:
        labels = best_labels(factor * (scores + intercept), offsets, signs)
        b = optimal_intercept(factor * scores, labels, costs)
        hinges = np.maximum(0.0, 1.0 - labels * (factor * scores + b))
        value = 0.5 * factor**2 * norm2 + float(costs @ hinges)
        if value >= best:
            break
        best, found = value, (factor, b, labels)
        factor *= 2.0
    return found
