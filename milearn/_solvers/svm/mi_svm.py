"""Maximum-margin classification of bags whose score is their highest instance score.

MI-SVM (Andrews et al. 2003) by the concave-convex procedure, for bags i with signs y_i:

    J(w, b) = 1/2 |w|^2 + sum_{y_i>0} c_i [1 - max_j f(x_ij)]_+ + (negative bags),
    one slack a bag:        sum_{y_i<0} c_i [1 + max_j f(x_ij)]_+
    one slack an instance:  sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+

The hinge of a positive bag is concave in the maximum: a step replaces it by the hinge of one
instance, the witness. The hinge of a negative bag is convex and stays whole.

mi-SVM gives every instance of a positive bag a label u_ij, at least one of them positive:

    J(w, b) = min_u 1/2 |w|^2 + sum_{y_i>0} c_i sum_j [1 - u_ij f(x_ij)]_+
              + sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._bags.segments import (
    gather_rows,
    segment_argmax,
    segment_index,
    segment_max,
    segment_sum,
)
from ..common.cccp import cccp
from ..common.gram import BLOCK_BYTES
from .grouped_hinge import (
    Patterns,
    SVMSolution,
    optimal_intercept,
    solve_grouped_svm,
)

__all__ = ["HardMaxResult", "Witnesses", "solve_instance_labels", "solve_witnesses"]


_TIE = 1e-9
_NO_WITNESSES = np.zeros(0, dtype=np.intp)


@dataclass
class HardMaxResult:
    """A local minimum of one of the two problems.

    Attributes
    ----------
    rows, coef, intercept : the function sum_r coef_r k(x_r, .) + intercept
    scores : ndarray of shape (n_instances,), with the intercept
    objective : float, J recomputed at the solution
    history : list of float
    n_iter : int
    converged : bool
    gap : float
        Duality gap of the last convex step, in units of the objective.
    n_solves, n_backend : int
        Dual problems over all steps, and how many of them needed a backend.
    """

    rows: np.ndarray
    coef: np.ndarray
    intercept: float
    scores: np.ndarray
    objective: float
    history: list[float]
    n_iter: int
    converged: bool
    gap: float
    n_solves: int
    n_backend: int


@dataclass
class _Point:
    objective: float
    gap: float
    linearisation: np.ndarray
    intercept: float
    solution: SVMSolution


def solve_witnesses(
    gram: Any,
    offsets: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    *,
    slack: str,
    start: np.ndarray | None = None,
    tol: float,
    max_iter: int,
    qp_solver: str | None = None,
    on_iteration: Callable[[int, float], bool] | None = None,
) -> HardMaxResult:
    """MI-SVM.

    Parameters
    ----------
    gram : LinearGram or KernelGram
    offsets : ndarray of shape (n_bags + 1,)
    signs : ndarray of shape (n_bags,), +1.0 or -1.0
    weights : ndarray of shape (n_bags,), above zero
    slack : {"bag", "instance"}
        Whether a negative bag or each of its instances has a slack.
    start : ndarray of int, default=None
        Row of the first witness of each positive bag. None starts from the mean of each positive
        bag, the linearisation at w = 0 in which all instances share equally.
    tol, max_iter : see :func:`milearn._solvers.common.cccp.cccp`
    qp_solver : str, default=None
    on_iteration : callable, default=None
    """
    positive = signs > 0
    layout = _WitnessLayout(offsets, signs, weights, slack)
    highest = Witnesses(gram, offsets, signs, weights)
    n_solves = n_backend = 0

    def step(witnesses: np.ndarray, before: _Point | None, inner_tol: float) -> _Point:
        nonlocal n_solves, n_backend
        solution = solve_grouped_svm(
            gram,
            layout.patterns(witnesses),
            tol=inner_tol,
            qp_solver=qp_solver,
            start=None if before is None else before.solution.working,
        )
        n_solves += solution.n_solves
        n_backend += solution.n_backend
        best = segment_max(solution.scores, offsets)
        # Given w the best intercept of J itself, which is never above that of the convex step.
        if slack == "bag":
            values, sides, costs = best, signs, weights
        else:
            values = np.concatenate([best[positive], solution.scores[layout.negative_rows]])
            sides, costs = layout.group_signs, layout.group_weights
        intercept = optimal_intercept(values, sides, costs)
        hinge = np.maximum(0.0, 1.0 - sides * (values + intercept))
        return _Point(
            objective=0.5 * solution.norm2 + float(costs @ hinge),
            gap=solution.gap,
            linearisation=highest.of(solution.scores),
            intercept=intercept,
            solution=solution,
        )

    first = _NO_WITNESSES if start is None else start
    run = cccp(
        step, first, tol=tol, max_iter=max_iter, inner_tol=0.1 * tol, on_iteration=on_iteration
    )
    return _result(run, n_solves, n_backend)


class Witnesses:
    """The highest instance of each positive bag; what rounding cannot tell apart goes by means.

    Instances tie exactly where w vanishes on all that distinguishes them, as it does at w = 0.
    Any of them linearises the maximum. So that order and arithmetic do not choose, the instance is
    taken that is highest under the difference of the weighted means of positive and negative bags.
    ``tie`` is what scores may differ by, as a share of the largest.
    """

    def __init__(
        self,
        gram: Any,
        offsets: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        tie: float = _TIE,
    ) -> None:
        self.gram = gram
        self.tie = tie
        self.bags = np.flatnonzero(signs > 0)
        self.rows, self.offsets = gather_rows(offsets, self.bags)
        side = np.where(signs > 0, weights[signs > 0].sum(), weights[signs < 0].sum())
        sizes = np.diff(offsets)
        self.means = np.repeat(signs * weights / (side * sizes), sizes)
        self._second = np.full(len(self.rows), np.nan)

    def of(self, scores: np.ndarray) -> np.ndarray:
        """Row of the witness of each positive bag, shape (n_positive,)."""
        mine = scores[self.rows]
        top = segment_max(mine, self.offsets)
        near = self.tie * max(1.0, float(np.abs(mine).max()))
        tied = mine >= np.repeat(top - near, np.diff(self.offsets))
        several = np.repeat(
            segment_sum(tied.astype(np.intp), self.offsets) > 1, np.diff(self.offsets)
        )
        ranking = np.where(tied, 0.0, -np.inf)
        asked = np.flatnonzero(tied & several)
        if len(asked):
            ranking[asked] = self._mean_difference(asked)
        return self.rows[segment_argmax(ranking, self.offsets)]

    def _mean_difference(self, asked: np.ndarray) -> np.ndarray:
        unknown = asked[np.isnan(self._second[asked])]
        step = max(1, BLOCK_BYTES // (8 * self.gram.n))
        everything = (np.arange(self.gram.n), None)
        for start in range(0, len(unknown), step):
            part = unknown[start : start + step]
            self._second[part] = self.gram.inner((self.rows[part], None), everything) @ self.means
        return self._second[asked]


class _WitnessLayout:
    """Positive bags first, one pattern each; then the instances of the negative bags."""

    def __init__(
        self, offsets: np.ndarray, signs: np.ndarray, weights: np.ndarray, slack: str
    ) -> None:
        positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
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
        """The convex problem for the given witnesses; none stands for the means."""
        if len(witnesses):
            rows, row_offsets = np.r_[witnesses, self.negative_rows], None
        else:
            rows = np.r_[self.positive_rows, self.negative_rows]
            singles = np.arange(1, len(self.negative_rows) + 1)
            row_offsets = np.r_[self.positive_offsets, self.positive_offsets[-1] + singles]
        return Patterns(rows, row_offsets, self.group_offsets, self.group_signs, self.group_weights)


def solve_instance_labels(
    gram: Any,
    offsets: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    *,
    start: np.ndarray | None = None,
    tol: float,
    max_iter: int,
    qp_solver: str | None = None,
    on_iteration: Callable[[int, float], bool] | None = None,
) -> HardMaxResult:
    """mi-SVM.

    ``start`` are the first labels of all instances. None takes those that the machine between the
    means of the positive bags and the negative instances gives: with all instances of positive
    bags positive, w = 0 can be a fixed point.
    """
    n = int(offsets[-1])
    costs = weights[segment_index(offsets)]
    highest = Witnesses(gram, offsets, signs, weights)
    n_solves = n_backend = 0

    def step(labels: np.ndarray, before: _Point | None, inner_tol: float) -> _Point:
        nonlocal n_solves, n_backend
        solution = solve_grouped_svm(
            gram,
            Patterns(np.arange(n), None, np.arange(n + 1), labels, costs),
            tol=inner_tol,
            qp_solver=qp_solver,
            start=None if before is None else before.solution.working,
        )
        n_solves += solution.n_solves
        n_backend += solution.n_backend
        witnesses = highest.of(solution.scores)
        scores = solution.scores + solution.intercept
        relabelled = best_labels(scores, offsets, signs, witnesses)
        intercept = optimal_intercept(solution.scores, relabelled, costs)
        hinge = np.maximum(0.0, 1.0 - relabelled * (solution.scores + intercept))
        return _Point(
            objective=0.5 * solution.norm2 + float(costs @ hinge),
            gap=solution.gap,
            linearisation=best_labels(solution.scores + intercept, offsets, signs, witnesses),
            intercept=intercept,
            solution=solution,
        )

    first = start
    if first is None:
        means = _WitnessLayout(offsets, signs, weights, "instance").patterns(_NO_WITNESSES)
        machine = solve_grouped_svm(gram, means, tol=0.1 * tol, qp_solver=qp_solver)
        scores = machine.scores + machine.intercept
        first = best_labels(scores, offsets, signs, highest.of(machine.scores))
    run = cccp(
        step, first, tol=tol, max_iter=max_iter, inner_tol=0.1 * tol, on_iteration=on_iteration
    )
    return _result(run, n_solves, n_backend)


def best_labels(
    scores: np.ndarray, offsets: np.ndarray, signs: np.ndarray, witnesses: np.ndarray
) -> np.ndarray:
    """The labels of least loss: the sign of the score, one positive at least in a positive bag.

    ``witnesses`` are the rows of the highest instances of the positive bags.
    """
    positive = signs > 0
    labels = np.where(positive[segment_index(offsets)] & (scores > 0), 1.0, -1.0)
    barren = segment_max(labels, offsets)[positive] < 0
    labels[witnesses[barren]] = 1.0
    return labels


def _result(run: Any, n_solves: int, n_backend: int) -> HardMaxResult:
    point = run.point
    return HardMaxResult(
        rows=point.solution.rows,
        coef=point.solution.coef,
        intercept=point.intercept,
        scores=point.solution.scores + point.intercept,
        objective=point.objective,
        history=run.history,
        n_iter=run.n_iter,
        converged=run.converged,
        gap=point.gap,
        n_solves=n_solves,
        n_backend=n_backend,
    )
