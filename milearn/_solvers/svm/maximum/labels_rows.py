"""mi-SVM with a linear kernel in the primal, by passes over the instances.

The problem is that of :mod:`.labels_dual`. A convex step (labels held) is an SVM over all
instances. Rows near the margin are in its working set one by one. Those beyond it, whose hinges are
linear there, and those that keep clear of it are summed up, by their labels and the intervals of
their margins, in a few rows whose hinges bound the sums of hinges from below by convexity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ...._bags.segments import segment_argmax, segment_max
from ...common.cccp import CCCPSolution
from ...common.descent import (
    EVERYTHING,
    MAX_PASSES,
    Matrix,
    descend,
)
from ...common.newton import GroupProblem, solve_groups
from ...common.options import SolverOptions
from ...common.passes import Block, PassSource, rows_of_block, stacked, width_of
from ...common.piecewise import optimal_intercept
from ...common.rounding import rounding_scale
from ..losses import Hinge
from .rows import solve_mi_svm_primal

__all__ = ["PrimalLabelsResult", "solve_instance_labels_primal"]

# Rows with a margin within this distance of one belong to the working set.
_BAND = 0.3
# Numbers in the rows that a pass adds to the working set, at the most.
_WORKING_NUMBERS = 2**22
_START_TOL = 1e-2
_LARGEST_FACTOR = 2.0**10
# Rows on which a first function for given labels is found, per feature and at least.
_SAMPLE_PER_FEATURE, _SAMPLE = 100, 4_000
# Rows beside the working set are summed up between these margins, by label.
_MARGINS = np.array([-3.0, -1.0, -0.5, 0.0, 0.4, 1.0, 1.5, 2.0, 3.0, 5.0])
_N_SUMS = 2 * (len(_MARGINS) + 1)


@dataclass(kw_only=True)
class PrimalLabelsResult(CCCPSolution):
    """A local minimum.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    intercept : float
    n_passes : int
        Passes over all instances.
    """

    w: np.ndarray
    intercept: float
    n_passes: int


@dataclass(frozen=True)
class _Sums:
    """Weighted sums of rows by label and margin, and the sums of their weights.

    Attributes
    ----------
    vectors : ndarray of shape (n_sums, n_features)
    costs : ndarray of shape (n_sums,)
    """

    vectors: np.ndarray
    costs: np.ndarray


@dataclass(frozen=True)
class _SeenLabels:
    """What a pass saw, in a block or in all.

    Attributes
    ----------
    value, objective : float
        Of a block the losses alone, without ``w``.
    w, v : ndarray, the point, with the best intercept
    step_v : ndarray of shape (1,)
        The intercept for which rows are near or beside the margin under the labels held.
    linearisation : ndarray of int8 of shape (n_instances,)
        The best labels.
    numbers, rows : the working set for the labels held and for the best ones
    costs : ndarray, weights of these rows
    of_held, of_best : _Sums, of the rows beside them
    """

    value: float
    objective: float
    w: np.ndarray
    v: np.ndarray
    step_v: np.ndarray
    linearisation: np.ndarray
    numbers: np.ndarray
    rows: Matrix
    costs: np.ndarray
    of_held: _Sums
    of_best: _Sums


def solve_instance_labels_primal(
    source: PassSource,
    loss: Hinge,
    start: str | np.ndarray,
    options: SolverOptions,
    gap_tol: float,
    max_passes: int = MAX_PASSES,
) -> PrimalLabelsResult:
    """mi-SVM with a linear kernel.

    Parameters
    ----------
    source : PassSource
    loss : Hinge
    start : {"auto", "mean"} or ndarray of shape (n_instances,)
        First labels of all instances, 1 or -1, or whose signs give them: MI-SVM with a slack of
        each instance, from its own start, or the SVM between the means of positive bags and
        negative instances.
    options : SolverOptions
        ``qp_solver`` is not used.
    gap_tol : float
        Relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes.
    """
    model = _Labels(source, loss)
    if not isinstance(start, str):
        held = np.asarray(start, dtype=np.int8)
        w, v = model.first_function(held)
    else:
        once = SolverOptions(options.tol, 1)
        first = solve_mi_svm_primal(source, loss, "instance", start, once, _START_TOL)
        model.n_passes = first.n_passes
        w, v, held = model.scaled(first.w, np.array([first.intercept]))
    rough = isinstance(start, str) and start == "auto"
    found = descend(model, (w, v), held, options, gap_tol, rough=rough, max_passes=max_passes)
    return PrimalLabelsResult(
        **found.outcome(),
        objective_scale=rounding_scale(loss.weights),
        w=found.w,
        intercept=float(found.v[0]),
        n_passes=model.n_passes,
    )


class _Labels:
    """The problem as a :class:`.descent.PassModel`; labels are the linearisation."""

    def __init__(self, source: PassSource, loss: Hinge) -> None:
        self.source, self.loss = source, loss
        self.n_passes = 0

    def scaled(self, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The multiple of a function, doubled while that lowers J, and the best labels there.

        Where every instance is labelled, margins are wider than with one of each bag.
        """
        self.n_passes += 1
        found = self.source.map(_label, w, v, self.loss)
        scores, _, costs = (np.concatenate(each) for each in zip(*found, strict=True))
        best, factor = np.inf, 1.0
        while factor < _LARGEST_FACTOR:
            at = scores * factor, v * factor
            labels = np.concatenate(self.source.map(_labels_of, *at, self.loss))
            intercept = optimal_intercept(at[0], labels.astype(np.float64), costs)
            hinges = np.maximum(0.0, 1.0 - labels * (at[0] + intercept))
            value = 0.5 * factor**2 * float(w @ w) + float(costs @ hinges)
            if value >= best:
                break
            best, point = value, (factor * w, np.array([intercept]), labels)
            factor *= 2.0
        return point

    def first_function(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A rough SVM for given labels on instances at equal distances."""
        source = self.source
        wanted = max(_SAMPLE, _SAMPLE_PER_FEATURE * source.n_features)
        wanted = min(wanted, max(_SAMPLE, _WORKING_NUMBERS // source.n_features))
        rows = np.arange(0, source.n_instances, max(1, source.n_instances // wanted))
        weights = np.concatenate(source.map(_weights_at, rows, self.loss.weights))
        weights *= source.n_instances / len(rows)
        sample = stacked(source.map(rows_of_block, rows))
        problem = _signed(sample, labels[rows].astype(np.float64), weights)
        found = solve_groups(problem, np.zeros(source.n_features), np.zeros(1), gap_tol=0.05)
        return found.w, found.v

    def look(self, w: np.ndarray, v: np.ndarray, held: np.ndarray) -> _SeenLabels:
        """Pass over all instances: once for the best intercept, once for what belongs to it."""
        self.n_passes += 2
        source = self.source
        scored = source.map(_label, w, v, self.loss)
        scores = np.concatenate([found for found, _, _ in scored])
        labels = np.concatenate([found for _, found, _ in scored])
        costs = np.concatenate([found for _, _, found in scored])
        best = np.array([optimal_intercept(scores, labels.astype(np.float64), costs)])
        parts = source.map(_look, scores, (v, best), held, self.loss)
        norm = 0.5 * float(w @ w)
        return _SeenLabels(
            value=norm + sum(part.value for part in parts),
            objective=norm + sum(part.objective for part in parts),
            w=w,
            v=best,
            step_v=v,
            linearisation=np.concatenate([part.linearisation for part in parts]),
            numbers=np.concatenate([part.numbers for part in parts]),
            rows=stacked([part.rows for part in parts]),
            costs=np.concatenate([part.costs for part in parts]),
            of_held=_total([part.of_held for part in parts]),
            of_best=_total([part.of_best for part in parts]),
        )

    def joined(self, before: _SeenLabels, seen: _SeenLabels, held: np.ndarray) -> _SeenLabels:
        """The working set of a pass with the rows of the one before, for the labels held.

        Rows that crossed the margin between the two passes join it: in the sums they would cross
        it again, back and forth.
        """
        self.n_passes += 1
        known = np.union1d(before.numbers, seen.numbers)
        points = (before.w, before.step_v), (seen.w, seen.step_v)
        parts = self.source.map(_crossed, points, held, self.loss, known)
        crossed = np.concatenate([numbers for numbers, _, _ in parts])
        extra = ~np.isin(before.numbers, seen.numbers)
        numbers = np.r_[before.numbers[extra], crossed]
        rows = stacked([before.rows[extra], *[rows for _, rows, _ in parts]])
        costs = np.concatenate([before.costs[extra], *[costs for _, _, costs in parts]])
        labels = held[numbers].astype(np.float64)
        kind = _kinds(labels, labels * (np.asarray(rows @ seen.w) + seen.step_v[0]))
        # They are in the sums of the rows beside the working set.
        taken = _summed(rows, kind, costs)
        left = seen.of_held.costs - taken.costs
        # What rounding leaves of a sum whose rows are all known is no row.
        gone = left <= 1e-12 * seen.of_held.costs
        vectors = seen.of_held.vectors - taken.vectors
        return replace(
            seen,
            numbers=np.r_[seen.numbers, numbers],
            rows=stacked([seen.rows, rows]),
            costs=np.r_[seen.costs, costs],
            of_held=_Sums(np.where(gone[:, None], 0.0, vectors), np.where(gone, 0.0, left)),
        )

    def advanced(self, seen: _SeenLabels) -> _SeenLabels:
        """The working set of the best labels."""
        return replace(seen, of_held=seen.of_best, step_v=seen.v)

    def problem(self, held: np.ndarray, seen: _SeenLabels) -> tuple[GroupProblem, np.ndarray]:
        """The SVM over a working set, summed rows last."""
        sums = seen.of_held
        used = np.flatnonzero(sums.costs > 0)
        means: Matrix = sums.vectors[used] / sums.costs[used, None]
        if sparse.issparse(seen.rows):
            means = sparse.csr_array(means)
        labels = np.r_[
            held[seen.numbers].astype(np.float64), np.where(used < _N_SUMS // 2, 1.0, -1.0)
        ]
        costs = np.r_[seen.costs, sums.costs[used]]
        keys = np.r_[seen.numbers, np.full(len(used), -1)]
        return _signed(stacked([seen.rows, means]), labels, costs), keys

    def same(self, left: np.ndarray, right: np.ndarray) -> bool:
        """Whether the labels are the same."""
        return bool(np.array_equal(left, right))


def _kinds(labels: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """Which of the sums a row belongs to, those of the label 1 first."""
    return np.searchsorted(_MARGINS, margins) + (labels < 0) * (_N_SUMS // 2)


def _signed(rows: Matrix, labels: np.ndarray, costs: np.ndarray) -> GroupProblem:
    if sparse.issparse(rows):
        signed = (sparse.diags_array(-labels) @ rows).tocsr()
    else:
        signed = rows * -labels[:, None]
    return GroupProblem(signed, -labels[:, None], np.arange(len(labels) + 1), costs)


def _total(parts: list[_Sums]) -> _Sums:
    return _Sums(
        np.sum([part.vectors for part in parts], axis=0),
        np.sum([part.costs for part in parts], axis=0),
    )


def _weights_at(block: Block, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    mine = rows[(rows >= block.rows.start) & (rows < block.rows.stop)] - block.first_row
    owner = np.searchsorted(block.offsets, mine, side="right") - 1
    return np.asarray(weights[block.bags][owner])


def _best_labels(scores: np.ndarray, block: Block, positive: np.ndarray) -> np.ndarray:
    """Labels of least loss; ``positive`` says which bags are."""
    own = np.repeat(positive, np.diff(block.offsets))
    labels = np.where(own & (scores > 0), 1, -1).astype(np.int8)
    without = positive & (segment_max(scores, block.offsets) <= 0)
    labels[segment_argmax(scores, block.offsets)[without]] = 1
    return labels


def _label(
    block: Block, w: np.ndarray, v: np.ndarray, loss: Hinge
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores without the intercept, best labels with it, and weights of all instances."""
    scores = block.scores(w)
    labels = _best_labels(scores + v[0], block, loss.signs[block.bags] > 0)
    return scores, labels, np.repeat(loss.weights[block.bags], np.diff(block.offsets))


def _labels_of(block: Block, scores: np.ndarray, v: np.ndarray, loss: Hinge) -> np.ndarray:
    return _best_labels(scores[block.rows] + v[0], block, loss.signs[block.bags] > 0)


def _look(
    block: Block,
    scores: np.ndarray,
    intercepts: tuple[np.ndarray, np.ndarray],
    held: np.ndarray,
    loss: Hinge,
) -> _SeenLabels:
    """The convex step at the first intercept, the objective at the second."""
    own, (step_v, best_v), width = scores[block.rows], intercepts, width_of(block.instances)
    best = _best_labels(own + best_v[0], block, loss.signs[block.bags] > 0)
    held, band = held[block.rows], _BAND if len(scores) * width > EVERYTHING else np.inf
    per_row = _WORKING_NUMBERS / (len(scores) * width)
    weights = np.repeat(loss.weights[block.bags], np.diff(block.offsets))
    margins, best_margins = held * (own + step_v[0]), best * (own + best_v[0])
    distance = np.minimum(np.abs(1.0 - margins), np.abs(1.0 - best_margins))
    near = distance <= band
    limit = max(1, int(per_row * len(held)))
    if int(near.sum()) > limit:
        near = distance < np.partition(distance, limit)[limit]
    of_held = _sums_of(block, ~near, held, margins, weights)
    if np.array_equal(held, best) and step_v[0] == best_v[0]:
        of_best = of_held
    else:
        of_best = _sums_of(block, ~near, best, best_margins, weights)
    rows = np.flatnonzero(near)
    return _SeenLabels(
        value=float(weights @ np.maximum(0.0, 1.0 - margins)),
        objective=float(weights @ np.maximum(0.0, 1.0 - best_margins)),
        w=own[:0],
        v=best_v,
        step_v=step_v,
        linearisation=best,
        numbers=rows + block.first_row,
        rows=block.take(rows),
        costs=weights[rows],
        of_held=of_held,
        of_best=of_best,
    )


def _crossed(
    block: Block,
    points: tuple[tuple[np.ndarray, np.ndarray], ...],
    held: np.ndarray,
    loss: Hinge,
    known: np.ndarray,
) -> tuple[np.ndarray, Matrix, np.ndarray]:
    """Numbers, rows and weights of instances that crossed the margin between two points."""
    labels = held[block.rows]
    one, other = (1.0 - labels * (block.scores(w) + v[0]) for w, v in points)
    crossed = one * other < 0
    mine = known[(known >= block.rows.start) & (known < block.rows.stop)]
    crossed[mine - block.first_row] = False
    rows = np.flatnonzero(crossed)
    per_row = _WORKING_NUMBERS / (len(held) * width_of(block.instances))
    limit = max(1, int(per_row * len(labels)))
    if len(rows) > limit:
        # Those that a sum may misjudge by most.
        size = np.minimum(np.abs(one), np.abs(other))[rows]
        rows = np.sort(rows[np.argpartition(-size, limit)[:limit]])
    owner = np.searchsorted(block.offsets, rows, side="right") - 1
    return rows + block.first_row, block.take(rows), loss.weights[block.bags][owner]


def _sums_of(
    block: Block, beside: np.ndarray, labels: np.ndarray, margins: np.ndarray, weights: np.ndarray
) -> _Sums:
    if not beside.any():
        return _Sums(np.zeros((_N_SUMS, block.instances.shape[1])), np.zeros(_N_SUMS))
    return _summed(block.instances, _kinds(labels, margins), np.where(beside, weights, 0.0))


def _summed(rows: Matrix, kinds: np.ndarray, weights: np.ndarray) -> _Sums:
    n = len(kinds)
    spread = sparse.csc_array((weights, kinds, np.arange(n + 1)), shape=(_N_SUMS, n))
    sums: Matrix = spread @ rows
    if sparse.issparse(sums):
        sums = sums.toarray()
    costs = np.bincount(kinds, weights=weights, minlength=_N_SUMS)
    return _Sums(np.asarray(sums, dtype=np.float64), costs)
