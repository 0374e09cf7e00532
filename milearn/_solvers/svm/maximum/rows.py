"""MI-SVM over rows: a linear kernel or explicit features, solved in a few passes.

The problem J(w, b) is defined in :mod:`.dual`. The witnesses of the positive bags are fixed in a
convex step. :mod:`.view` describes the working set of a step, and :mod:`..common.descent` the
procedure. Witnesses change only if J decreases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.blocks import Block, PassSource, stacked
from ...._bags.segments import gather_rows, pooling_matrix, segment_max
from ...common.cccp import CCCPSolution, SolverOptions, rounding_scale
from ...common.descent import Descent, Duals, PassLimits, descend
from ...common.newton import GroupProblem
from ...common.passes import instance_scores, rows_of_block
from ...common.sample import SampleLimits, sample_of, sampled_source
from ...common.screen import (
    ScreenLimits,
    highest_rows,
    refined_by_variances,
    screened,
    targets_of,
)
from ...common.witnesses import TieRule, is_constant
from ..losses import Hinge
from .dual import ROUGH_TOL
from .view import (
    BagCosts,
    Matrix,
    MaximumView,
    RowLimits,
    WitnessRows,
    joined,
    kept_type,
    rounding_of,
    view_at,
    working_set,
)

# Up to this relative gap ties are broken by a rule, as in the dual.
_FINE = 1e-4
# A constant solution of a step has a value of at most this times that of w = 0, by its precision.
_LIKE_CONSTANT = 1.01


@dataclass(kw_only=True)
class RowsSolution(CCCPSolution):
    """A local minimum with its weight vector and the number of passes over all instances."""

    w: np.ndarray
    intercept: float
    n_passes: int

    @classmethod
    def of(cls, found: Descent, weights: np.ndarray, n_passes: int) -> RowsSolution:
        return cls(
            **found.outcome(),
            objective_scale=rounding_scale(weights),
            w=found.w,
            intercept=float(found.v[0]),
            n_passes=n_passes,
        )


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
) -> RowsSolution:
    """MI-SVM over rows.

    Parameters
    ----------
    source : PassSource
    loss : Hinge
    slack : {"bag", "instance"}
        Whether a negative bag or each of its instances has a slack.
    start : {"auto", "mean"} or ndarray of int
        First witnesses: the best of several starts (on a sample of the bags where
        there are many instances), the mean of each bag, or given rows of shape (n_positive,). Of
        several starts, (n_starts, n_positive), each is followed for one step and the best to its
        end.
    options : SolverOptions
        ``tol`` is not used.
    gap_tol : float
        Relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes.
    limits : RowLimits, default=None
    """
    limits = RowLimits() if limits is None else limits
    costs = BagCosts(loss.signs, loss.weights, slack == "instance")
    model = _Maximum(source, costs, limits, gap_tol)
    settings: dict[str, Any] = {
        "limits": PassLimits(max_passes),
        "objective_scale": rounding_scale(loss.weights),
    }
    if isinstance(start, np.ndarray) and start.ndim == 2:
        found = _best_of(model, start, options, gap_tol, settings)
    elif not isinstance(start, str) or start != "auto":
        found = descend(model, *model.given(start), options, gap_tol, **settings)
    elif source.n_instances * source.n_features <= limits.all_starts:
        found = _best(model, loss, options, gap_tol, settings)
    else:
        point, held = _start_of_many(model, loss, options)
        found = descend(model, point, held, options, gap_tol, rough=True, **settings)
    result = RowsSolution.of(found, loss.weights, model.n_passes)
    numbers = found.held.numbers
    return replace(result, witnesses=numbers if (numbers >= 0).all() else None)


class _Maximum:
    """The problem as a :class:`.descent.PassModel`."""

    def __init__(
        self, source: PassSource, costs: BagCosts, limits: RowLimits, gap_tol: float
    ) -> None:
        self.source, self.costs, self.limits = source, costs, limits
        # Ties matter where steps are solved exactly.
        self.gap_tol, self.fine = gap_tol, gap_tol <= _FINE
        self.second: np.ndarray | None = None
        self.n_passes, self.band = 0, limits.band
        self.at_zero = costs.at_zero(np.diff(source.offsets))

    def given(self, start: str | np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], WitnessRows]:
        """Given rows or the means as witnesses, and the function between them and negatives."""
        self.n_passes += 1
        source, costs, positive = self.source, self.costs, self.costs.positive
        numbers = np.full(len(positive), -1) if isinstance(start, str) else start
        if isinstance(start, str):
            vectors = stacked(source.map(_means, costs.signs))
        else:
            vectors = stacked(source.map(_rows_as_kept, start))
        rows = self._negative_rows
        bags = np.searchsorted(source.offsets, rows, side="right") - 1
        point = rough_svm(
            stacked([vectors, stacked(source.map(rows_of_block, rows))]),
            np.r_[np.ones(len(positive)), -np.ones(len(rows))],
            np.r_[costs.weights[positive], costs.weights[bags]],
        )
        return point, WitnessRows(numbers, vectors, np.arange(len(positive)))

    @cached_property
    def _negative_rows(self) -> np.ndarray:
        """Instances of negative bags of a sample, in their order."""
        source, signs, sample = self.source, self.costs.signs, self.limits.sample
        self.n_passes += not sample.holds_all(source.n_instances, source.n_features)
        bags, rows, sizes = sample_of(source, signs, sample)
        return np.sort(rows[np.repeat(signs[bags] < 0, sizes)])

    # -- the model --

    def view(
        self,
        w: np.ndarray,
        v: np.ndarray,
        held: WitnessRows | None,
        before: MaximumView | None,
    ) -> MaximumView:
        """Pass over all instances."""
        b, numbers = float(v[0]), None if held is None else held.numbers
        view = self._view((w, b), numbers, None if before is None else before.working.owners)
        if held is None:
            return view
        hinges, norm = np.maximum(0.0, 1.0 - held.scores(w) - b), 0.5 * float(w @ w)
        positives = self.costs.weights[self.costs.positive]
        value = norm + view.loss + float(positives @ hinges)
        moves = view.moves
        # Above that of w = 0, the point is not the solution of its step.
        if is_constant(value, self.at_zero) and value <= _LIKE_CONSTANT * self.at_zero:
            moves = self._view((w, b), numbers, None, constant=True).moves
        return replace(view, value=value, moves=moves)

    def _view(
        self,
        point: tuple[np.ndarray, float],
        held: np.ndarray | None,
        before: np.ndarray | None,
        constant: bool = False,
    ) -> MaximumView:
        """Pass over all instances; another one where ties are met for the first time."""
        if constant:
            self._know_means()
        self.n_passes += 1
        rule = TieRule(self.second, constant) if constant or self.fine else None
        limits = replace(self.limits, band=self.band)
        view = view_at(self.source, point, self.costs, limits, held=held, before=before, rule=rule)
        if not self._is_precise(view):
            self.limits = replace(self.limits, precise=True)
            return self._view(point, held, before, constant)
        if not view.tied:
            return view
        self._know_means()
        return self._view(point, held, before)

    def _is_precise(self, view: MaximumView) -> bool:
        """Whether the digits of the scores suffice for the gap."""
        if self.limits.precise or self.source.dtype == np.float64:
            return True
        return rounding_of(view, self.costs) <= self.gap_tol * view.objective

    def _know_means(self) -> None:
        """The difference of the means of both classes, which breaks ties (:func:`witness_rule`)."""
        if self.second is None:
            self.n_passes += 1
            self.second = np.sum(self.source.map(_mean_difference, self.costs), axis=0)

    def joined(self, before: MaximumView, view: MaximumView, held: WitnessRows) -> MaximumView:
        """The view with the working set of the previous one; the next band is wider.

        Otherwise rows outside of the working set could alternate between two rounds.
        """
        self.band *= 1.5
        kept = np.ones(len(before.working.numbers), dtype=bool)
        return joined(before.working, view, self.costs, kept, self.limits.kept_numbers)

    def advanced(
        self,
        held: WitnessRows | None,
        before: MaximumView | None,
        view: MaximumView,
        duals: Duals,
    ) -> tuple[WitnessRows, MaximumView]:
        """The highest instances, and the view with the support vectors of the previous step."""
        self.band, moves = self.limits.band, view.moves
        assert moves is not None
        view = replace(view, moves=None)
        if before is not None:
            kept = duals.of(before.working.numbers) > 0
            view = joined(before.working, view, self.costs, kept, self.limits.kept_numbers)
        return (moves if held is None else held.moved(moves)), view

    def unchanged(self, held: WitnessRows, view: MaximumView) -> bool:
        """Whether no witness has changed."""
        return view.moves is None or len(view.moves.bags) == 0

    def problem(self, held: WitnessRows, view: MaximumView) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over the working set; a witness has the key of its bag."""
        many = np.inf if self.limits.precise else 2**22
        problem = working_set(held.vectors, view, self.costs, many)
        keys = np.full(len(problem.e), -1)
        n_positive = len(held.numbers)
        keys[:n_positive] = self.source.n_instances + np.arange(n_positive)
        keys[n_positive : n_positive + len(view.working.numbers)] = view.working.numbers
        return problem, keys


# -- starts ----------------------------------------------------------------------------------------
#
# The procedure starts from the mean of each positive bag, and from the highest instances under the
# directions of :mod:`..common.screen`. The first start is followed to its end. The others are
# followed for one step, and the best of them to its end. The lower objective is kept.


def screened_witnesses(
    source: PassSource, loss: Hinge, limits: ScreenLimits | None = None
) -> np.ndarray:
    """Witnesses of the positive bags under each screened direction, (n_starts, n_positive)."""
    positive = loss.signs > 0
    if np.diff(source.offsets)[positive].max() == 1:
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


def svm_problem(rows: Matrix, labels: np.ndarray, costs: np.ndarray) -> GroupProblem:
    """A support vector machine between rows."""
    if sparse.issparse(rows):
        signed = (sparse.diags_array(-labels) @ rows).tocsr()
    else:
        signed = rows * -labels[:, None]
    return GroupProblem(signed, -labels[:, None], np.arange(len(labels) + 1), costs)


def rough_svm(
    rows: Matrix, labels: np.ndarray, costs: np.ndarray, gap_tol: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """The function of a support vector machine between rows."""
    problem = svm_problem(rows, labels, costs)
    found = problem.solve((np.zeros(rows.shape[1]), np.zeros(1)), gap_tol)
    return found.w, found.v


def _means(block: Block, signs: np.ndarray) -> Matrix:
    rows, offsets = gather_rows(block.offsets, np.flatnonzero(signs[block.bags] > 0))
    return pooling_matrix(offsets) @ block.take(rows)


def _mean_difference(block: Block, costs: BagCosts) -> np.ndarray:
    signs, weights = costs.signs, costs.weights
    totals = np.where(signs > 0, weights[signs > 0].sum(), weights[signs < 0].sum())
    sizes = np.diff(block.offsets)
    share = (signs * weights / totals)[block.bags] / sizes
    return block.weighted_sum(np.arange(int(block.offsets[-1])), np.repeat(share, sizes))


def _rows_as_kept(block: Block, rows: np.ndarray) -> Matrix:
    return rows_of_block(block, rows, kept_type(block))


def _best(
    model: _Maximum,
    loss: Hinge,
    options: SolverOptions,
    gap_tol: float,
    settings: dict[str, Any],
) -> Descent:
    """The lower end of the descents from the means and from screened witnesses.

    The first is that of ``start="mean"``, so that the end is never above it. The second is rough,
    and is followed precisely if it ends below.
    """
    source = model.source
    first = descend(model, *model.given("mean"), options, gap_tol, **settings)
    if first.stopped == "callback":
        return first
    own, rest = options, options.after(first.n_iter)
    rough_tol = max(gap_tol, ROUGH_TOL)
    if model.limits.screened.holds_all(source.n_instances, source.n_features):
        others = screened_witnesses(source, loss)
        if len(others) == 0:
            return first
        second = _best_of(model, others, rest, rough_tol, settings)
    else:
        point = _start_on_sample(model, loss, own, means=False)
        more = _more_passes(model, settings)
        second = descend(model, point, None, rest, rough_tol, rough=True, **more)
    if second.objective < first.objective and second.stopped != "callback":
        second = _continued(model, second, rest, gap_tol, settings)
    return min(first, second, key=lambda end: end.objective)


def _continued(
    model: _Maximum,
    found: Descent,
    options: SolverOptions,
    gap_tol: float,
    settings: dict[str, Any],
) -> Descent:
    """The precise end of a rough descent."""
    if not found.converged or found.dual_gap <= gap_tol * max(
        found.objective, settings["objective_scale"]
    ):
        return found
    left = options.max_iter - found.n_iter
    if left <= 0:
        found.stopped = "max_iter"
        return found
    options = replace(options.after(found.n_iter), max_iter=left)
    more = _more_passes(model, settings)
    end = descend(model, (found.w, found.v), found.held, options, gap_tol, **more)
    end.follow(found)
    return end


def _more_passes(model: _Maximum, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings for another descent, with as many passes as the first one."""
    return {**settings, "limits": PassLimits(model.n_passes + settings["limits"].max_passes)}


def _best_of(
    model: _Maximum,
    starts: np.ndarray,
    options: SolverOptions,
    gap_tol: float,
    settings: dict[str, Any],
) -> Descent:
    """The end of the best start, by the objective at the function between its witnesses."""
    best, lowest = None, np.inf
    for rows in starts:
        point, held = model.given(rows)
        found = lowest if len(starts) == 1 else model.view(*point, None, None).objective
        if best is None or found < lowest:
            best, lowest = (point, held), found
    assert best is not None
    return descend(model, *best, options, gap_tol, **_more_passes(model, settings))


def _start_of_many(
    model: _Maximum, loss: Hinge, options: SolverOptions
) -> tuple[tuple[np.ndarray, np.ndarray], WitnessRows | None]:
    """The start for many instances: that of a sample of the bags, or a lower one of all of them."""
    source, limits = model.source, model.limits
    point = _start_on_sample(model, loss, options, means=True)
    targets = targets_of(loss.signs, loss.weights)
    if limits.by_variances(source.n_instances, source.n_features):
        w = refined_by_variances(source, targets, loss.weights)
        model.n_passes += 4
        points = _best_multiple(model, w), point
        model.band = limits.wider * limits.band
        return min(points, key=lambda each: _objective_at(model, each)), None
    if limits.by_covariances(source.n_features):
        screen = ScreenLimits(candidates=0, kept=1)
        found = screened(source, targets, loss.weights, screen)
        model.n_passes += 4 + screen.rounds
        other = _best_multiple(model, found.directions[0])
        if _objective_at(model, other) < _objective_at(model, point):
            return model.given(found.rows[0, loss.signs > 0])
    return point, None


def _best_multiple(model: _Maximum, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best multiple of a direction, and its intercept."""
    w = w / np.linalg.norm(w)
    values, labels, costs = _slack_scores(model, w)
    factor, v = rough_svm(values[:, None], labels, costs, gap_tol=1e-2)
    return factor[0] * w, v


def _slack_scores(model: _Maximum, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The score, the sign and the cost of each slack."""
    model.n_passes += 1
    source, costs = model.source, model.costs
    scores = instance_scores(source, w[None])[:, 0]
    highest = segment_max(scores, source.offsets)
    if not costs.by_instance:
        return highest, costs.signs, costs.weights
    positive, negative = costs.positive, np.flatnonzero(costs.signs < 0)
    rows, offsets = gather_rows(source.offsets, negative)
    values = np.concatenate([highest[positive], scores[rows]])
    labels = np.concatenate([np.ones(len(positive)), -np.ones(len(rows))])
    weights = np.repeat(costs.weights[negative], np.diff(offsets))
    return values, labels, np.concatenate([costs.weights[positive], weights])


def _objective_at(model: _Maximum, point: tuple[np.ndarray, np.ndarray]) -> float:
    w, v = point
    values, labels, costs = _slack_scores(model, w)
    return 0.5 * float(w @ w) + float(costs @ np.maximum(0.0, 1.0 - labels * (values + v[0])))


def _start_on_sample(
    model: _Maximum, loss: Hinge, options: SolverOptions, *, means: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The best end of rough descents on a sample of the bags, with or without the means."""
    costs, limits = model.costs, model.limits.screened
    model.n_passes += not limits.holds_all(model.source.n_instances, model.source.n_features)
    sample, bags = sampled_source(model.source, costs.signs, limits)
    part = replace(costs, signs=costs.signs[bags], weights=costs.weights[bags])
    everything = replace(limits, instances=sample.n_instances)
    own = _Maximum(sample, part, replace(model.limits, screened=everything), limits.tol)
    # The descents have as many passes, whether or not the sample is sampled again.
    n_before = 0 if own.limits.sample.holds_all(sample.n_instances, sample.n_features) else 1
    settings = {
        "limits": PassLimits(n_before + limits.max_passes),
        "objective_scale": rounding_scale(part.weights),
    }
    own_loss, options = Hinge(part.signs, part.weights), options.watched_by(None)
    others = None if means else screened_witnesses(sample, own_loss)
    if others is None or len(others) == 0:
        found = _best(own, own_loss, options, limits.tol, settings)
    else:
        found = _best_of(own, others, options, limits.tol, settings)
    return found.w, found.v
