"""MI-SVM and mi-SVM over kernel values, by the concave-convex procedure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..common.cccp import CCCPSolution, SolverOptions, cccp, lowest
from ..common.gram import Gram
from ..common.passes import HighestInstances, mean_difference
from .objectives import BagHinge, InstanceLabels
from .working_set import Solution, WorkingSet, solve_step

# Gap of the step from the means of bags, of which only the witnesses count.
_ROUGH = 1e-2


@dataclass(frozen=True)
class BinaryProblem:
    """Bags of two classes."""

    # Inner products of the instances; bag i has the instances ``offsets[i]:offsets[i + 1]``.
    gram: Gram
    offsets: np.ndarray
    # +1.0 or -1.0 for each bag, and the cost of its loss, above zero.
    signs: np.ndarray
    weights: np.ndarray


@dataclass(kw_only=True)
class KernelSolution(CCCPSolution):
    """A stationary point of MI-SVM or mi-SVM."""

    # The function sum_r coef_r k(x_r, .) + intercept, its values at all instances, and |w|^2.
    coef: np.ndarray
    intercept: float
    scores: np.ndarray
    norm2: float
    working: WorkingSet | None


@dataclass
class _Point:
    objective: float
    dual_gap: float
    linearisation: np.ndarray
    intercept: float
    solution: Solution
    # From which another step can start.
    working: WorkingSet | None


def descend(
    gram: Gram,
    objective: Any,
    start: np.ndarray | None,
    options: SolverOptions,
    working: WorkingSet | None = None,
) -> KernelSolution:
    """A stationary point of an objective.

    Parameters
    ----------
    gram : Gram
    objective : object
        See :mod:`.objectives`.
    start : ndarray or None
        The first linearisation; the means of bags if None.
    options : SolverOptions
    working : WorkingSet, default=None
        That of a similar run.
    """

    def step(linearisation: np.ndarray, previous: _Point | None, tol: float) -> _Point:
        means = previous is None and start is None
        known = working if previous is None else previous.working
        found = solve_step(
            gram,
            objective.step(None if means else linearisation),
            tol=tol,
            rough=_ROUGH if means else 0.0,
            start=None if means else known,
        )
        # The patterns of the means are not those of witnesses.
        after = None if means else found.working
        value, intercept = objective.value(found.scores, found.norm2, found.intercept)
        linearisation = objective.linearised(found.scores, intercept, found.objective)
        return _Point(value, found.gap, linearisation, intercept, found, after)

    first = np.zeros(0) if start is None else start
    run = cccp(step, first, options, 0.1 * options.tol, certified=True)
    point: _Point = run.point
    return KernelSolution(
        **run.outcome(),
        objective_scale=objective.scale,
        witnesses=point.linearisation,
        coef=gram.expansion(point.solution.coef),
        intercept=point.intercept,
        scores=point.solution.scores + point.intercept,
        norm2=point.solution.norm2,
        working=point.working,
    )


def solve_mi_svm(
    problem: BinaryProblem,
    slack: str,
    start: np.ndarray | None,
    options: SolverOptions,
    others: np.ndarray | None = None,
) -> KernelSolution:
    """Minimise J of MI-SVM.

    Parameters
    ----------
    problem : BinaryProblem
    slack : {"bag", "instance"}
        Whether a negative bag or each of its instances has a slack.
    start : ndarray of int or None
        Rows of the first witnesses, of shape (n_positive,), or of several starts, of shape
        (n_starts, n_positive). None starts from the mean of each positive bag, the linearisation at
        w = 0 in which all instances have the same weight.
    options : SolverOptions
    others : ndarray of int of shape (n_others, n_positive), default=None
        Several starts in addition to ``start``; the lowest objective is kept.
    """
    given = problem.offsets, problem.signs, problem.weights
    objective = BagHinge(*given, slack, witness_rule(problem))
    starts = [*start] if start is not None and start.ndim == 2 else [start]
    starts += [] if others is None else [*others]
    ends: list[KernelSolution] = []
    working, n_iter = None, 0
    for each in starts:
        ends.append(descend(problem.gram, objective, each, options.after(n_iter), working))
        working, n_iter = ends[-1].working, n_iter + ends[-1].n_iter
        if ends[-1].stopped == "callback":
            break
    return lowest(ends)


def solve_instance_labels(
    problem: BinaryProblem,
    start: np.ndarray | None,
    options: SolverOptions,
    others: np.ndarray | None = None,
) -> KernelSolution:
    """Minimise J of mi-SVM.

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
    objective = InstanceLabels(problem.offsets, problem.signs, problem.weights)

    def labels_from(witnesses: np.ndarray | None) -> np.ndarray:
        found = solve_mi_svm(problem, "instance", witnesses, SolverOptions(1e-2, 2))
        scores = found.scores - found.intercept
        return objective.widened(scores, found.intercept, found.norm2)[2]

    run = descend(problem.gram, objective, labels_from(None) if start is None else start, options)
    if others is not None and len(others) and run.stopped != "callback":
        again = options.after(run.n_iter)
        second = descend(problem.gram, objective, labels_from(others), again)
        run = lowest([run, second])
    run.witnesses = None
    return run


# Differences of scores that count as a tie, as a fraction of the largest score. Steps on kernel
# values of low rank are no more precise.
_TIE_TOL = 1e-6


def witness_rule(problem: BinaryProblem) -> HighestInstances:
    """Choice of the highest instance of each positive bag, with a rule for ties.

    At w = 0, for example, all instances tie and any of them linearises the maximum. The choice must
    not depend on the order of instances or on rounding. It is the instance with the highest score
    under the difference of the weighted means of positive and negative bags.
    """
    difference = mean_difference(problem.offsets, problem.signs, problem.weights)
    second = partial(problem.gram.scores, difference)
    return HighestInstances(problem.offsets, np.flatnonzero(problem.signs > 0), second, _TIE_TOL)
