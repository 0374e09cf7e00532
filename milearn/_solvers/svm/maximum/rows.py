"""MI-SVM over rows: a linear kernel or explicit features, solved in a few passes.

The problem J(w, b) is defined in :mod:`.dual`. The witnesses of the positive bags are fixed in a
convex step. :mod:`.view` describes the working set of a step, and :mod:`...common.descent` the
procedure. Witnesses change only if J decreases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.blocks import Block, PassSource, product, stacked
from ...._bags.segments import gather_rows, pooling_matrix, segment_max
from ...common.cccp import SolverOptions, rounding_scale
from ...common.descent import Duals, PassSolution, Witnesses, descend
from ...common.newton import GroupProblem
from ...common.passes import (
    SampleLimits,
    TieRule,
    instance_scores,
    is_constant,
    mean_difference,
    rows_of_block,
    sample_of,
    sampled_source,
    weighted_sum,
)
from ...common.screen import (
    ScreenLimits,
    highest_rows,
    refined_by_variances,
    screened,
    targets_of,
)
from ..losses import Hinge
from .dual import ROUGH_TOL
from .view import BagCosts, RowLimits, View, joined, rounding_of, view_at, working_set

# Up to this relative gap ties are broken by a rule, as over kernel values.
_FINE = 1e-4
# A constant solution of a step has a value of at most this times that of w = 0, by its precision.
_LIKE_CONSTANT = 1.01
# Instances per feature from which variances of all instances may give a start. The band at this
# start is wider, because a direction without support vectors changes by much.
_ROWS_PER_FEATURE, _WIDER = 10.0, 3.0


def solve_mi_svm_rows(
    source: PassSource,
    loss: Hinge,
    slack: str,
    start: str | np.ndarray,
    options: SolverOptions,
    gap_tol: float,
    *,
    max_passes: int = 200,
    limits: RowLimits | None = None,
) -> PassSolution:
    """MI-SVM over rows.

    Parameters
    ----------
    source : PassSource
    loss : Hinge
    slack : {"bag", "instance"}
        Whether a negative bag or each of its instances has a slack.
    start : {"auto", "mean"} or ndarray of int
        First witnesses: the best of several starts (on a sample of the bags where there are many
        instances), the mean of each bag, or given rows of shape (n_positive,). Of several starts,
        (n_starts, n_positive), the one with the lowest first objective is followed.
    options : SolverOptions
        ``tol`` is not used.
    gap_tol : float
        Relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes of each run.
    limits : RowLimits, default=None
    """
    costs = BagCosts(loss.signs, loss.weights, slack == "instance")
    model = _Model(source, costs, limits or RowLimits(), gap_tol, max_passes)
    if not isinstance(start, str) or start != "auto":
        found = model.run(start, options, gap_tol)
    elif source.n_instances * source.n_features <= model.limits.all_starts:
        found = _lower_end(model, options, gap_tol)
    else:
        found = _end_of_many(model, options, gap_tol)
    numbers = found.held.numbers
    found.witnesses, found.held = numbers if (numbers >= 0).all() else None, None
    found.n_passes = model.n_passes
    return found


class _Model:
    """The problem for :func:`...common.descent.descend`; witnesses are the linearisation."""

    def __init__(
        self,
        source: PassSource,
        costs: BagCosts,
        limits: RowLimits,
        gap_tol: float,
        max_passes: int = 200,
    ) -> None:
        self.source, self.costs, self.limits = source, costs, limits
        # Ties matter where steps are solved exactly.
        self.gap_tol, self.fine = gap_tol, gap_tol <= _FINE
        self.second: np.ndarray | None = None
        self.n_passes, self.max_passes, self.band = 0, max_passes, limits.band
        self.at_zero = costs.at_zero(np.diff(source.offsets))
        self._negative_rows: np.ndarray | None = None

    def run(
        self,
        start: str | np.ndarray | tuple[np.ndarray, np.ndarray],
        options: SolverOptions,
        gap_tol: float,
        held: Witnesses | None = None,
    ) -> PassSolution:
        """The end of a descent from witnesses, from the best of several, or from a point."""
        point: Any = start
        if isinstance(start, np.ndarray) and start.ndim == 2:
            starts = [self.given(rows) for rows in start]
            values = [self.objective(each) for each, _ in starts] if len(starts) > 1 else [0.0]
            point, held = starts[int(np.argmin(values))]
        elif not isinstance(start, tuple):
            point, held = self.given(start)
        elif held is not None and held.vectors is None:
            held = Witnesses(
                held.numbers, stacked(self.source.map(rows_of_block, held.numbers, None))
            )
        scale, most = rounding_scale(self.costs.weights), self.n_passes + self.max_passes
        rough = held is None
        return descend(
            self, point, held, options, gap_tol, rough=rough, objective_scale=scale, max_passes=most
        )

    def given(self, start: str | np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], Witnesses]:
        """Given rows or the means as witnesses, and the function between them and negatives."""
        self.n_passes += 1
        source, costs, positive = self.source, self.costs, self.costs.positive
        if isinstance(start, str):
            held = Witnesses(np.full(len(positive), -1), stacked(source.map(_means, costs.signs)))
        else:
            held = Witnesses(start, stacked(source.map(rows_of_block, start, None)))
        if self._negative_rows is None:
            # Instances of negative bags of a sample, in their order.
            sample = self.limits.sample
            self.n_passes += not sample.holds_all(source.n_instances, source.n_features)
            bags, rows, sizes = sample_of(source, costs.signs, sample)
            self._negative_rows = np.sort(rows[np.repeat(costs.signs[bags] < 0, sizes)])
        rows = self._negative_rows
        bags = np.searchsorted(source.offsets, rows, side="right") - 1
        point = rough_svm(
            stacked([held.vectors, stacked(source.map(rows_of_block, rows))]),
            np.r_[np.ones(len(positive)), -np.ones(len(rows))],
            np.r_[costs.weights[positive], costs.weights[bags]],
        )
        return point, held

    def objective(self, point: tuple[np.ndarray, np.ndarray]) -> float:
        """The value of the problem at a point, by a pass."""
        self.n_passes += 1
        w, v = point
        return view_at(self.source, (w, float(v[0])), self.costs, self.limits).objective

    # -- the model --

    def view(
        self, w: np.ndarray, v: np.ndarray, held: Witnesses | None, before: View | None
    ) -> View:
        """Pass over all instances."""
        point = w, float(v[0])
        view = self._view(point, before, constant=False)
        if held is None:
            return view
        hinges = np.maximum(0.0, 1.0 - product(held.vectors, w) - point[1])
        value = 0.5 * float(w @ w) + view.negative_loss
        value += float(self.costs.weights[self.costs.positive] @ hinges)
        highest = view.highest
        # Above that of w = 0, the point is not the solution of its step.
        if is_constant(value, self.at_zero) and value <= _LIKE_CONSTANT * self.at_zero:
            highest = self._view(point, None, constant=True).highest
        return replace(view, value=value, highest=highest)

    def _view(self, point: tuple[np.ndarray, float], before: View | None, constant: bool) -> View:
        """Pass over all instances; another one where ties or lost digits are met."""
        while True:
            if constant and self.second is None:
                self._break_ties()
            self.n_passes += 1
            rule = TieRule(self.second, constant) if constant or self.fine else None
            limits = replace(self.limits, band=self.band)
            owners = None if before is None else before.working.owners
            view = view_at(self.source, point, self.costs, limits, before=owners, rule=rule)
            single = not self.limits.precise and self.source.dtype != np.float64
            if single and rounding_of(view, self.costs) > self.gap_tol * view.objective:
                # The digits of the scores do not suffice for the gap.
                self.limits = replace(self.limits, precise=True)
                continue
            if not view.tied:
                return view
            self._break_ties()

    def _break_ties(self) -> None:
        """Pass over all instances: the difference of the means of both classes breaks ties."""
        self.n_passes += 1
        offsets, costs = self.source.offsets, self.costs
        each = mean_difference(offsets, costs.signs, costs.weights)
        self.second = weighted_sum(self.source, each[offsets[:-1]])

    def joined(self, before: View, view: View, held: Witnesses) -> View:
        """The view with the working set of the previous one; the next band is wider.

        Otherwise rows outside of the working set could alternate between two rounds.
        """
        everything = np.ones(len(before.working.numbers), dtype=bool)
        view = joined(before, view, self.costs, self.band, everything)
        self.band *= 1.5
        # The highest instances of this view are not the witnesses of a later step.
        return replace(view, highest=held)

    def advanced(
        self, held: Witnesses | None, before: View | None, view: View, duals: Duals
    ) -> tuple[Witnesses, View]:
        """The highest instances, and the view with the support vectors of the previous step."""
        if before is not None:
            kept = duals.of(before.working.numbers) > 0
            view = joined(before, view, self.costs, self.band, kept)
        self.band = self.limits.band
        if held is not None:
            # They are many, and are gathered again if a run continues from them.
            held.vectors = None
        return view.highest, view

    def unchanged(self, held: Witnesses, view: View) -> bool:
        """Whether no witness has changed."""
        return bool(np.array_equal(held.numbers, view.highest.numbers))

    def problem(self, held: Witnesses, view: View) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over the working set; a witness has the key of its bag."""
        many = np.inf if self.limits.precise else 2**22
        problem = working_set(held.vectors, view, self.costs, many)
        keys = np.full(len(problem.e), -1)
        n_positive, numbers = len(held.numbers), view.working.numbers
        keys[:n_positive] = self.source.n_instances + np.arange(n_positive)
        keys[n_positive : n_positive + len(numbers)] = numbers
        return problem, keys


# -- starts ----------------------------------------------------------------------------------------


def screened_witnesses(
    source: PassSource, loss: Hinge, limits: ScreenLimits | None = None
) -> np.ndarray:
    """Witnesses of the positive bags under each screened direction, (n_starts, n_positive)."""
    positive = loss.signs > 0
    # Without a feature that differs there is no direction to screen.
    if source.n_features == 0 or np.diff(source.offsets)[positive].max() == 1:
        return np.zeros((0, int(positive.sum())), dtype=np.intp)
    targets = targets_of(loss.signs, loss.weights)
    return screened(source, targets, loss.weights, limits).rows[:, positive]


def screened_rows(
    source: PassSource,
    targets: np.ndarray,
    weights: np.ndarray,
    limits: SampleLimits | None = None,
) -> np.ndarray:
    """Highest instance of each bag under the best direction of a screen on a sample of the bags.

    ``targets`` are numbers, with which the highest score should grow.
    """
    limits = SampleLimits.of_whole_bags() if limits is None else limits
    if limits.holds_all(source.n_instances, source.n_features):
        return np.asarray(screened(source, targets_of(targets, weights), weights).rows[0])
    sample, bags = sampled_source(source, np.ones(source.n_bags), limits)
    own = targets_of(targets[bags], weights[bags])
    found = screened(sample, own, weights[bags])
    return np.asarray(highest_rows(source, found.directions[:1])[0])


def svm_problem(rows: Any, labels: np.ndarray, costs: np.ndarray) -> GroupProblem:
    """A support vector machine between rows."""
    if sparse.issparse(rows):
        signed = (sparse.diags_array(-labels) @ rows).tocsr()
    else:
        signed = rows * -labels[:, None]
    return GroupProblem(signed, -labels[:, None], np.arange(len(labels) + 1), costs)


def rough_svm(
    rows: Any, labels: np.ndarray, costs: np.ndarray, gap_tol: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """The function of a support vector machine between rows."""
    start = np.zeros(rows.shape[1]), np.zeros(1)
    found = svm_problem(rows, labels, costs).solve(start, gap_tol)
    return found.w, found.v


def _lower_end(model: _Model, options: SolverOptions, gap_tol: float) -> PassSolution:
    """The lower end of the descents from the means and from screened witnesses.

    The first is that of ``start="mean"``, so that the end is never above it. The second is rough,
    and is followed precisely if it ends below.
    """
    source, costs = model.source, model.costs
    first = model.run("mean", options, gap_tol)
    if first.stopped == "callback":
        return first
    rest, trial_tol = options.after(first.n_iter), max(gap_tol, ROUGH_TOL)
    if model.limits.screened.holds_all(source.n_instances, source.n_features):
        others = screened_witnesses(source, Hinge(costs.signs, costs.weights))
        if len(others) == 0:
            return first
        second = model.run(others, rest, trial_tol)
    else:
        second = model.run(_start_on_sample(model, options, means=False), rest, trial_tol)
    left = options.max_iter - second.n_iter
    if second.converged and second.objective < first.objective and gap_tol < trial_tol and left > 0:
        rest = replace(rest.after(second.n_iter), max_iter=left)
        end = model.run((second.w, second.v), rest, gap_tol, second.held)
        # The last steps of the rough run may be lower within their precision.
        kept = [value for value in second.history if value >= end.history[0]]
        end.history = kept + end.history
        end.n_iter = len(end.history)
        second = end
    return min(first, second, key=lambda end: end.objective)


def _end_of_many(model: _Model, options: SolverOptions, gap_tol: float) -> PassSolution:
    """The end from the start of a sample of the bags, or from a lower one of all of them."""
    source, limits, costs = model.source, model.limits, model.costs
    start: Any = _start_on_sample(model, options, means=True)
    targets, n_features = targets_of(costs.signs, costs.weights), source.n_features
    many = source.n_instances > _ROWS_PER_FEATURE * n_features
    if many and n_features > limits.features_per_row * limits.screened.wanted(n_features):
        other = _best_multiple(model, refined_by_variances(source, targets, costs.weights))
        model.n_passes += 4
        model.band = _WIDER * limits.band
        start = min(other, start, key=model.objective)
    elif limits.covariance_features[0] <= n_features <= limits.covariance_features[1]:
        screen = ScreenLimits(candidates=0, kept=1)
        found = screened(source, targets, costs.weights, screen)
        model.n_passes += 4 + screen.rounds
        other = _best_multiple(model, found.directions[0])
        if model.objective(other) < model.objective(start):
            start = found.rows[0, costs.signs > 0]
    return model.run(start, options, gap_tol)


def _best_multiple(model: _Model, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best multiple of a direction, and its intercept: an SVM of the score of each slack."""
    model.n_passes += 1
    w, costs, offsets = w / np.linalg.norm(w), model.costs, model.source.offsets
    scores = instance_scores(model.source, w[None])[:, 0]
    values, labels, weights = segment_max(scores, offsets), costs.signs, costs.weights
    if costs.by_instance:
        negative = np.flatnonzero(labels < 0)
        rows, own = gather_rows(offsets, negative)
        values = np.r_[values[costs.positive], scores[rows]]
        labels = np.r_[np.ones(len(costs.positive)), -np.ones(len(rows))]
        weights = np.r_[weights[costs.positive], np.repeat(weights[negative], np.diff(own))]
    factor, v = rough_svm(values[:, None], labels, weights, gap_tol=1e-2)
    return factor[0] * w, v


def _start_on_sample(
    model: _Model, options: SolverOptions, *, means: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The best end of rough descents on a sample of the bags, with or without the means."""
    costs, limits, source = model.costs, model.limits.screened, model.source
    model.n_passes += not limits.holds_all(source.n_instances, source.n_features)
    sample, bags = sampled_source(source, costs.signs, limits)
    part = replace(costs, signs=costs.signs[bags], weights=costs.weights[bags])
    everything = replace(limits, instances=sample.n_instances)
    within = replace(model.limits, screened=everything)
    own = _Model(sample, part, within, limits.tol, limits.max_passes)
    # The descents have as many passes, whether or not the sample is sampled again.
    holds = within.sample.holds_all(sample.n_instances, sample.n_features)
    own.max_passes += 0 if holds else 1
    options = options.watched_by(None)
    others = np.zeros(0)
    if not means:
        others = screened_witnesses(sample, Hinge(part.signs, part.weights))
    if len(others):
        found = own.run(others, options, limits.tol)
    else:
        found = _lower_end(own, options, limits.tol)
    return found.w, found.v


# -- functions of a block --------------------------------------------------------------------------


def _means(block: Block, signs: np.ndarray) -> Any:
    rows, offsets = gather_rows(block.offsets, np.flatnonzero(signs[block.bags] > 0))
    return pooling_matrix(offsets) @ block.take(rows)
