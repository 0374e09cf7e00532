"""mi-SVM: maximum-margin classification of instances whose labels are variables.

mi-SVM (Andrews et al. 2003) gives every instance of a positive bag a label u_ij, at least one of
them positive:

    J(w, b) = min_u 1/2 |w|^2 + sum_{y_i>0} c_i sum_j [1 - u_ij f(x_ij)]_+
              + sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+

For given labels this is an SVM over all instances: in the dual over inner products, or by passes
over rows. The working set of a pass contains the rows near the margin. The other rows are summed by
label and by interval of the margin. By convexity the hinge of such a sum is a lower bound of the
sum of hinges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import Block, PassSource, stacked
from ..common.cccp import SolverOptions, lowest, optimal_intercept, rounding_scale
from ..common.descent import Duals, PassSolution, RowLimits, WorkingSet, descend
from ..common.newton import GroupProblem
from ..common.passes import rows_of_block
from .losses import Hinge
from .mi_svm_rows import SCREENED, solve_mi_svm_rows, starts_of
from .objectives import InstanceLabels, MISVMProblem

Matrix = Any  # an ndarray or a CSR matrix

# Rows outside of the working set are summed in these intervals of the margin, by label.
_MARGINS = np.array([-3.0, -1.0, -0.5, 0.0, 0.4, 1.0, 1.5, 2.0, 3.0, 5.0])
_N_SUMS = 2 * (len(_MARGINS) + 1)
# Gap of the function of the first labels.
_START_TOL = 0.05
# Passes of a run.
_MOST_PASSES = 500


# -- over rows -------------------------------------------------------------------------------------


# The working set has all rows up to a million numbers, or those near the margin.
LABEL_LIMITS = RowLimits(numbers=2**22, all_rows=2**20)


@dataclass(frozen=True)
class LabelsView:
    """Result of a pass over all instances at a point.

    Attributes
    ----------
    value, objective : float
        Values of the convex step and of the problem.
    w, v : ndarray
        The point with the best intercept.
    step_v : ndarray of shape (1,)
        The intercept of the convex step.
    labels : ndarray of int of shape (n_instances,)
        The best labels.
    working : WorkingSet
        It serves the fixed labels and the best labels.
    of_fixed, of_best : ndarray of shape (n_sums, n_features + 1)
        Weighted sums of the other rows by label and margin, under the fixed labels and under the
        best labels; the last column has the sums of the weights.
    """

    value: float
    objective: float
    w: np.ndarray
    v: np.ndarray
    step_v: np.ndarray
    labels: np.ndarray
    working: WorkingSet
    of_fixed: np.ndarray
    of_best: np.ndarray


def solve_instance_labels_rows(
    source: PassSource,
    loss: Hinge,
    start: str | np.ndarray,
    options: SolverOptions,
    *,
    limits: RowLimits = LABEL_LIMITS,
) -> PassSolution:
    """mi-SVM over rows.

    Parameters
    ----------
    source : PassSource
    loss : Hinge
    start : {"auto", "mean"} or ndarray of shape (n_instances,)
        First labels of all instances, 1 or -1: given, or the best ones for a multiple of a function
        of MI-SVM with a slack of each instance, two steps from its start of this name. "auto" has
        two starts where there are few instances; the lower objective is kept.
    options : SolverOptions
        ``tol`` is the relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes.
    limits : RowLimits
    """
    model = _Labels(source, loss, limits)
    scale = rounding_scale(loss.weights)

    def run(
        first: str | np.ndarray, options: SolverOptions, *, rough: bool = False
    ) -> PassSolution:
        """A descent from the labels of a function of MI-SVM, two steps from a start."""
        # Where steps are solved precisely, the same start has the same labels as in the dual.
        few = SolverOptions(max(1e-3, 20.0 * options.tol), 2)
        found = solve_mi_svm_rows(source, loss, "instance", first, few, limits=limits)
        model.n_passes += found.n_passes
        at, most = model.widened(found.w, found.intercept), model.n_passes + _MOST_PASSES
        return descend(model, *at, options, rough=rough, objective_scale=scale, max_passes=most)

    if not isinstance(start, str):
        labels = np.asarray(start, dtype=np.int8)
        given = model.first_function(labels), labels
        best = descend(model, *given, options, objective_scale=scale, max_passes=_MOST_PASSES)
    elif start == "auto" and not SCREENED.holds_all(source.n_instances, source.n_features):
        best = run("auto", options, rough=True)
    else:
        best = run("mean", options)
        others: list[Any] = []
        if start == "auto" and best.stopped != "callback":
            ranks = (loss.signs > 0).astype(np.intp)
            problem = MISVMProblem(source, ranks, loss.weights, by_instance=True)
            _, *others = starts_of(problem)
        for rows in others:
            second = run(rows, options.after(best.n_iter))
            best = lowest([best, second])
    best.linearisation, best.n_passes = None, model.n_passes
    return best


class _Labels:
    """The problem for :func:`..common.descent.descend`; labels are the linearisation."""

    def __init__(self, source: PassSource, loss: Hinge, limits: RowLimits) -> None:
        self.source, self.loss, self.limits = source, loss, limits
        self.objective = InstanceLabels(source.offsets, loss.signs, loss.weights)
        self.costs = self.objective.costs
        self.n_passes = 0

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Scores of all instances."""
        parts = self.source.map(_scores_of, w, self.source.n_instances, self.limits)
        return np.concatenate(parts)

    def best_labels(self, scores: np.ndarray) -> np.ndarray:
        """Labels of smallest loss."""
        return self.objective.linearised(scores, 0.0).astype(np.int8)

    def widened(self, w: np.ndarray, b: float) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """A multiple of a function, and the best labels there."""
        self.n_passes += 1
        scores = self.scores(w)
        factor, intercept, labels = self.objective.widened(scores, b, float(w @ w))
        return (factor * w, np.array([intercept])), labels.astype(np.int8)

    def first_function(
        self, labels: np.ndarray, n_rows: int = 4_000, per_feature: int = 100
    ) -> tuple[np.ndarray, np.ndarray]:
        """A rough SVM for given labels on instances at equal distances."""
        n, d = self.source.n_instances, self.source.n_features
        wanted = max(n_rows, min(per_feature * d, self.limits.numbers // d))
        rows = np.arange(0, n, max(1, n // wanted))
        sample = stacked(self.source.map(rows_of_block, rows))
        costs = self.costs[rows] * (n / len(rows))
        step = svm_problem(sample, labels[rows].astype(np.float64), costs)
        found = step.solve((np.zeros(d), np.zeros(1)), _START_TOL)
        return found.w, found.v

    # -- the model --

    def view(self, w: np.ndarray, v: np.ndarray, fixed: np.ndarray) -> LabelsView:
        """Two passes over all instances: for the best intercept, and for the view at it."""
        self.n_passes += 2
        scores = self.scores(w)
        labels = self.best_labels(scores + v[0])
        best = np.array([optimal_intercept(scores, labels.astype(np.float64), self.costs)])
        labels, norm = self.best_labels(scores + best[0]), 0.5 * float(w @ w)
        steps = (fixed, v[0]), (labels, best[0])
        values = [float(self.costs @ np.maximum(0, 1 - y * (scores + b))) for y, b in steps]
        parts = self.source.map(_rows_and_sums, scores, steps, self.loss.weights, self.limits)
        workings, of_fixed, of_best = zip(*parts, strict=True)
        return LabelsView(
            value=norm + values[0],
            objective=norm + values[1],
            w=w,
            v=best,
            step_v=v,
            labels=labels,
            working=WorkingSet.together(workings),
            of_fixed=np.sum(of_fixed, axis=0),
            of_best=np.sum(of_best, axis=0),
        )

    def with_rows_of(self, before: LabelsView, view: LabelsView, fixed: np.ndarray) -> LabelsView:
        """The view with the working set of the previous one, for the fixed labels.

        Rows that crossed the margin between the two passes are added. As parts of the sums they
        could cross it again and again.
        """
        self.n_passes += 1
        known = np.union1d(before.working.numbers, view.working.numbers)
        points = (before.w, before.step_v), (view.w, view.step_v)
        parts = self.source.map(_crossed, points, fixed, known, self.limits)
        extra = ~np.isin(before.working.numbers, view.working.numbers)
        added = WorkingSet.together([before.working.only(extra), *parts])
        costs, labels = self.costs[added.numbers], fixed[added.numbers].astype(np.float64)
        margins = labels * (np.asarray(added.rows @ view.w) + view.step_v[0])
        left = view.of_fixed - _sums_of_rows(added.rows, _kinds(labels, margins), costs)
        # A sum without rows is zero up to rounding.
        left[left[:, -1] <= 1e-12 * view.of_fixed[:, -1]] = 0.0
        return replace(view, working=WorkingSet.together([view.working, added]), of_fixed=left)

    def next_step(
        self, fixed: np.ndarray, before: LabelsView | None, view: LabelsView, duals: Duals
    ) -> tuple[np.ndarray, LabelsView]:
        """The best labels, and the view with the working set for them."""
        return view.labels, replace(view, of_fixed=view.of_best, step_v=view.v)

    def is_fixed_point(self, fixed: np.ndarray, view: LabelsView) -> bool:
        """Whether the labels are the same."""
        return bool(np.array_equal(fixed, view.labels))

    def problem(self, fixed: np.ndarray, view: LabelsView) -> tuple[GroupProblem, np.ndarray]:
        """The SVM over a working set, with the sums last."""
        sums, working = view.of_fixed, view.working
        used = np.flatnonzero(sums[:, -1] > 0)
        means: Matrix = sums[used, :-1] / sums[used, -1:]
        if sparse.issparse(working.rows):
            means = sparse.csr_array(means)
        sides = np.where(used < _N_SUMS // 2, 1.0, -1.0)
        labels = np.r_[fixed[working.numbers].astype(np.float64), sides]
        costs = np.r_[self.costs[working.numbers], sums[used, -1]]
        keys = np.r_[working.numbers, np.full(len(used), -1)]
        return svm_problem(stacked([working.rows, means]), labels, costs), keys


def svm_problem(rows: Any, labels: np.ndarray, costs: np.ndarray) -> GroupProblem:
    """A support vector machine between rows."""
    if sparse.issparse(rows):
        signed = (sparse.diags_array(-labels) @ rows).tocsr()
    else:
        signed = rows * -labels[:, None]
    return GroupProblem(signed, -labels[:, None], np.arange(len(labels) + 1), costs)


def _kinds(labels: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """The sum that each row belongs to; the sums of label 1 come first."""
    return np.searchsorted(_MARGINS, margins) + (labels < 0) * (_N_SUMS // 2)


def _sums_of_rows(rows: Matrix, kinds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted sums of the rows of each kind, with the sums of the weights as the last column."""
    n = len(kinds)
    spread = sparse.csc_array((weights, kinds, np.arange(n + 1)), shape=(_N_SUMS, n))
    sums: Matrix = spread @ rows
    if sparse.issparse(sums):
        sums = sums.toarray()
    costs = np.bincount(kinds, weights=weights, minlength=_N_SUMS)
    return np.column_stack([np.asarray(sums, dtype=np.float64), costs])


# -- functions of a block --------------------------------------------------------------------------


def _scores_of(block: Block, w: np.ndarray, n_instances: int, limits: RowLimits) -> np.ndarray:
    # Small problems are solved more precisely, and need scores in double precision.
    return block.scores(w, precise=limits.hold_all(n_instances, block.width))


def _most_rows(block: Block, n_instances: int, limits: RowLimits) -> int:
    return max(1, int(limits.share(n_instances, block.width) * block.stored.shape[0]))


def _rows_and_sums(
    block: Block,
    scores: np.ndarray,
    steps: tuple[tuple[np.ndarray, float], ...],
    bag_weights: np.ndarray,
    limits: RowLimits,
) -> tuple[WorkingSet, np.ndarray, np.ndarray]:
    """Rows near the margin in either step, and sums of the other rows in each step."""
    own, n, instances = block.rows, len(scores), block.instances
    band = np.inf if limits.hold_all(n, block.width) else limits.band
    sides = [labels[own] for labels, _ in steps]
    margins = [y * (scores[own] + b) for y, (_, b) in zip(sides, steps, strict=True)]
    distance = np.minimum(*(np.abs(1.0 - each) for each in margins))
    near, most = distance <= band, _most_rows(block, n, limits)
    if int(near.sum()) > most:
        near = distance < np.partition(distance, most)[most]
    weights = np.repeat(bag_weights[block.bags], np.diff(block.offsets))
    rows, others = np.flatnonzero(near), np.where(near, 0.0, weights)
    sums = [np.zeros((_N_SUMS, instances.shape[1] + 1))] * 2
    if len(rows) < len(near):
        kinds = [_kinds(y, each) for y, each in zip(sides, margins, strict=True)]
        sums = [_sums_of_rows(instances, each, others) for each in kinds]
    return WorkingSet.of_block(block, rows), sums[0], sums[1]


def _crossed(
    block: Block,
    points: tuple[tuple[np.ndarray, np.ndarray], ...],
    fixed: np.ndarray,
    known: np.ndarray,
    limits: RowLimits,
) -> WorkingSet:
    """Instances that crossed the margin between two points."""
    labels = fixed[block.rows]
    one, other = (
        1.0 - labels * (_scores_of(block, w, len(fixed), limits) + v[0]) for w, v in points
    )
    crossed = one * other < 0
    mine = known[(known >= block.rows.start) & (known < block.rows.stop)]
    crossed[mine - block.first_row] = False
    rows, most = np.flatnonzero(crossed), _most_rows(block, len(fixed), limits)
    if len(rows) > most:
        # Keep the rows for which the bound by a sum is worst.
        size = np.minimum(np.abs(one), np.abs(other))[rows]
        rows = np.sort(rows[np.argpartition(-size, most)[:most]])
    return WorkingSet.of_block(block, rows)
