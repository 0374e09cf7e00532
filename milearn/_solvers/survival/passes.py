"""Cox's partial likelihood of bags that are at risk as their highest instances, by passes.

    J(w) = 1/2 |w|^2 + C [ G(f) - sum over events of c_i f_i ],    f_i = max_k w.x_ik

with G of :mod:`.likelihood`. The concave-convex procedure replaces the f_i of events, which enter
with a minus, by the scores of their highest instances; in G the maxima stay. The working set has
the rows near the top of each bag that is at risk, and of the witnesses only their sum. The
procedure is described in :mod:`..common.descent`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..._bags.blocks import Block, PassSource
from ..._bags.segments import gather_rows, segment_argmax
from ..common.cccp import SolverOptions, rounding_scale
from ..common.descent import Duals, PassSolution, RowLimits, WorkingSet, descend, near_the_top
from ..common.passes import SampleLimits, bag_means, gather, sampled_source
from ..common.screen import ScreenLimits, screened
from .likelihood import PartialLikelihood
from .problem import RiskProblem

Matrix = Any  # an ndarray or a CSR matrix

# The likelihood without a model is a hundred times what a model gains: gaps are relative to it.
_START_TOL = 1e-4
_ROUGH_TOL = 2.5e-4
# Difference of scores, which are logarithms of risks, up to which the instances of a bag tie.
_TIED_SCORES = 1e-6
_NOTHING = np.zeros(0)
# Gap of the one step on all bags by which two starts are compared, and the bags of the screen.
_TRIAL_TOL = 5e-4
# A step over more rows takes longer than the few passes that find the rows that count.
RISK_LIMITS = RowLimits(per_bag=2**21, numbers=2**21, all_rows=2**15)
# Numbers in all instances up to which scores are computed in float64.
_DIGITS = 2**20
_SCREENED = SampleLimits(per_feature=2**20, numbers=2**24, bags=200, tol=1e-4, max_passes=30)


@dataclass(frozen=True)
class CoxProblem:
    """Bags, the likelihood of their scores, and its cost C."""

    source: PassSource
    likelihood: PartialLikelihood
    C: float


@dataclass(frozen=True)
class CoxStart:
    """Where the procedure begins: at a function, by default that of bags of one vector each.

    Attributes
    ----------
    rows : ndarray of int of shape (n_bags,), default=None
        An instance of each bag; the mean of its instances if None.
    held : bool
        Whether the rows are also the first linearisation. By default, it has the highest instances
        under the function.
    w : ndarray of shape (n_features,), default=None
        The function itself.
    """

    rows: np.ndarray | None = None
    held: bool = False
    w: np.ndarray | None = None


@dataclass(frozen=True)
class _Witnesses:
    """Instances of the bags with events, and the weighted sum of them."""

    rows: np.ndarray
    total: np.ndarray


@dataclass(frozen=True)
class _RiskView:
    """A pass over all instances.

    Attributes
    ----------
    highest : _Witnesses
        The highest instances of bags with events.
    working : WorkingSet
    objective, value : float
        Value of the problem and of the convex step.
    v : ndarray of shape (0,)
        There are no variables without a norm.
    """

    highest: _Witnesses
    working: WorkingSet
    objective: float
    value: float
    v: ClassVar[np.ndarray] = _NOTHING


def solve_cox_maximum(
    problem: CoxProblem,
    start: CoxStart | None,
    options: SolverOptions,
    on_iteration: Any = None,
    *,
    limits: RowLimits = RISK_LIMITS,
    max_passes: int = 500,
) -> PassSolution:
    """A stationary point of J; the minimum, if all bags have one instance.

    Parameters
    ----------
    problem : CoxProblem
    start : CoxStart or None
        None for the problem of :func:`solve_cox_mean`.
    options : SolverOptions
        ``tol`` is the relative duality gap of a convex step.
    on_iteration : callable, default=None
        Called with the number and the objective of each step; it returns True to stop.
    limits : RowLimits
    max_passes : int
        Maximum number of passes.
    """
    if start is None or problem.source.n_instances == problem.source.n_bags:
        return solve_cox_mean(problem, options.watched_by(on_iteration))
    model = _Maximum(problem, limits)
    if on_iteration is not None:
        options = options.watched_by(lambda n, value: on_iteration(n, value + model.lowest))
    w, witnesses = model.first(start)
    found = descend(
        model,
        (w, _NOTHING),
        witnesses,
        options,
        rough=witnesses is None,
        rough_tol=_ROUGH_TOL,
        objective_scale=rounding_scale(np.array([problem.C * problem.likelihood.n_events])),
        max_passes=max_passes,
    )
    found.linearisation = None
    return _with_constant(found, model)


def solve_cox_mean(problem: CoxProblem, options: SolverOptions) -> PassSolution:
    """The minimum of J with the mean of each bag in place of its highest instance."""
    model = _Maximum(problem, RISK_LIMITS)
    start = np.zeros(problem.source.n_features), _NOTHING
    found = model.of_vectors().solve(start, options.tol)
    if options.on_iteration is not None:
        options.on_iteration(1, found.objective + model.lowest)
    solution = PassSolution(
        objective=found.objective,
        history=[found.objective],
        n_iter=1,
        stopped="",
        dual_gap=found.gap,
        w=found.w,
        v=_NOTHING,
        n_passes=model.n_passes,
    )
    return _with_constant(solution, model)


def _with_constant(found: PassSolution, model: _Maximum) -> PassSolution:
    """The result with the constant that was left out, which may make J negative."""
    found.objective_scale = found.objective
    found.objective += model.lowest
    found.history = (np.array(found.history) + model.lowest).tolist()
    return found


class _Maximum:
    """The problem for :func:`..common.descent.descend`; J without the constant L.lowest."""

    def __init__(self, problem: CoxProblem, limits: RowLimits) -> None:
        self.source, self.C, self.limits = problem.source, problem.C, limits
        likelihood, source = problem.likelihood, problem.source
        self.lowest = problem.C * likelihood.lowest
        # Bags that are never at risk at an event take no part.
        self.used = np.sort(likelihood.subjects)
        self.likelihood = likelihood.of(self.used)
        # Weights of events; NaN for other bags.
        self.weights = np.full(source.n_bags, np.nan)
        self.weights[self.used] = self.likelihood.event_weights
        self.n_passes = 0

    # -- first functions -----------------------------------------------------------------------

    def of_vectors(self, rows: np.ndarray | None = None) -> RiskProblem:
        """The problem of bags of one vector each: the given rows, by default the means."""
        self.n_passes += 1
        if rows is not None:
            vectors = gather(self.source, rows[self.used])
        else:
            vectors = bag_means(self.source, np.float64)
            if len(self.used) < self.source.n_bags:
                vectors = vectors[self.used]
        linear = np.asarray(vectors.T @ self.likelihood.event_weights)
        offsets = np.arange(len(self.used) + 1)
        return RiskProblem(vectors, offsets, linear, self.likelihood, self.C)

    def first(self, start: CoxStart) -> tuple[np.ndarray, _Witnesses | None]:
        """The function of a start or a rough solution of its problem, and its linearisation."""
        rows = start.rows
        if start.w is not None:
            return start.w, None
        problem = self.of_vectors(rows)
        w = problem.solve((np.zeros(self.source.n_features), _NOTHING), _START_TOL).w
        if rows is None or not start.held:
            return w, None
        return w, _Witnesses(rows[self.used[self.likelihood.event_weights > 0]], problem.linear)

    # -- the model -----------------------------------------------------------------------------

    @cached_property
    def falling(self) -> np.ndarray:
        """The direction in which the losses of the means decrease from w = 0."""
        given = self.likelihood
        slopes = given.event_weights - given.slopes(np.zeros(len(self.used)))
        return np.asarray(self.of_vectors().Z[:-1].T @ slopes)

    def view(
        self, w: np.ndarray, v: np.ndarray, witnesses: _Witnesses | None, guide: Any = None
    ) -> _RiskView:
        """Pass over all instances; witnesses are the highest ones under the guide, by default w."""
        self.n_passes += 1
        along, n_instances = w if guide is None else guide, self.source.n_instances
        parts = self.source.map(_look, w, along, self.weights, self.limits, n_instances)
        tops, rows, totals, working, spreads = zip(*parts, strict=True)
        if guide is None and max(spreads) <= _TIED_SCORES:
            # Where all instances tie, another direction decides between them.
            return self.view(w, v, witnesses, self.falling)
        given, top = self.likelihood, np.concatenate(tops)
        fixed = 0.5 * float(w @ w) + self.C * (given.log_sums(top) - given.lowest)
        return _RiskView(
            highest=_Witnesses(np.concatenate(rows), np.sum(totals, axis=0)),
            working=WorkingSet.together(working),
            objective=fixed - self.C * float(given.event_weights @ top),
            value=np.nan if witnesses is None else fixed - self.C * float(witnesses.total @ w),
        )

    def with_rows_of(self, before: _RiskView, view: _RiskView, witnesses: _Witnesses) -> _RiskView:
        """The view with the working set of the one before it."""
        return replace(view, working=view.working.joined(before.working))

    def next_step(
        self, witnesses: _Witnesses | None, before: _RiskView | None, view: _RiskView, duals: Duals
    ) -> tuple[_Witnesses, _RiskView]:
        """The highest instances, and the view with the rows of the step before that count."""
        if before is not None:
            old = before.working
            view = replace(view, working=view.working.joined(old, duals.of(old.numbers) > 0))
        return view.highest, view

    def is_fixed_point(self, witnesses: _Witnesses, view: _RiskView) -> bool:
        """Whether the same instances are the highest."""
        return bool(np.array_equal(witnesses.rows, view.highest.rows))

    def problem(self, witnesses: _Witnesses, view: _RiskView) -> tuple[RiskProblem, np.ndarray]:
        """The convex step over a working set."""
        working = view.working
        offsets = np.searchsorted(working.owners, np.append(self.used, self.source.n_bags))
        step = RiskProblem(working.rows, offsets, witnesses.total, self.likelihood, self.C)
        return step, working.numbers


# -- starts --------------------------------------------------------------------------------------


def martingale_residuals(likelihood: PartialLikelihood, weights: np.ndarray) -> np.ndarray:
    """Residuals of subjects with these weights for scores of zero; their weighted sum is zero.

    The weight of an event less the number that is expected: the slopes of the losses. Their sum
    over a group is that of the log-rank test.
    """
    pull = likelihood.event_weights - likelihood.slopes(np.zeros(likelihood.n))
    return np.asarray(np.divide(pull, weights, out=np.zeros(len(pull)), where=weights > 0))


def screened_starts(
    problem: CoxProblem, weights: np.ndarray, limits: SampleLimits = _SCREENED
) -> list[CoxStart]:
    """The means of bags and the best directions, or one start that a sample and a trial select.

    The highest score of a bag should grow with its martingale residual.

    Parameters
    ----------
    problem : CoxProblem
    weights : ndarray of shape (n_bags,)
    limits : SampleLimits
        The bags of the screen. Where they are not all, its directions and the means are followed
        on them, to the tolerance and by the passes given there, and for one step on all bags.
    """
    source, likelihood = problem.source, problem.likelihood
    if source.n_instances == source.n_bags:
        return [CoxStart()]
    if limits.holds_all(source.n_instances, source.n_features):
        targets = martingale_residuals(likelihood, weights)
        if not (targets.max() > 0 > targets.min()):
            # Nothing is expected but what happened. Residuals of one sign are rounding.
            return [CoxStart()]
        found = screened(source, targets, weights, ScreenLimits(kept=2))
        return [CoxStart(), *map(CoxStart, found.rows)]
    signs = np.where(likelihood.event_weights > 0, 1.0, -1.0)
    sample, bags = sampled_source(source, signs, limits)
    everything = replace(limits, instances=sample.n_instances)
    part = replace(problem, source=sample, likelihood=likelihood.of(bags))
    starts = screened_starts(part, weights[bags], everything)
    best = _best_end(part, starts, SolverOptions(limits.tol, 100), limits.max_passes)
    return [_best_end(problem, [CoxStart(), best], SolverOptions(_TRIAL_TOL, 1))]


def _best_end(
    problem: CoxProblem, starts: list[CoxStart], options: SolverOptions, max_passes: int = 500
) -> CoxStart:
    """The lowest end of the procedure, as a start."""
    ends = [solve_cox_maximum(problem, start, options, max_passes=max_passes) for start in starts]
    return CoxStart(w=min(ends, key=lambda end: end.objective).w)


# -- functions of a block ------------------------------------------------------------------------


def _look(
    block: Block,
    w: np.ndarray,
    guide: np.ndarray,
    weights: np.ndarray,
    limits: RowLimits,
    n_instances: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, WorkingSet, float]:
    """What a pass sees in a block: highest scores, rows and sum of the witnesses, working set.

    The last value is the largest difference of scores in a bag. ``weights`` are those of events,
    NaN for bags never at risk.
    """
    n_bags, exact = len(weights), n_instances * block.width <= _DIGITS
    scores = block.scores(w, precise=exact)
    leading = scores if guide is w else block.scores(guide, precise=exact)
    weights = weights[block.bags]
    used = np.flatnonzero(~np.isnan(weights))
    rows, offsets = gather_rows(block.offsets, used)
    own = scores[rows]
    highest = segment_argmax(leading[rows], offsets)
    top = np.maximum.reduceat(own, offsets[:-1])
    near = np.ones(len(own), dtype=bool)
    if not limits.hold_all(n_instances, block.width):
        near = near_the_top(own, offsets, top, limits.band, limits.of_bag(n_bags, block.width))
        near[highest] = True
    events = weights[used] > 0
    witnesses = rows[highest[events]]
    total = block.weighted_sum(witnesses, weights[used][events])
    working = WorkingSet.of_block(block, rows[near], np.float64 if exact else block.dtype)
    spread = float((top - np.minimum.reduceat(own, offsets[:-1])).max(initial=0.0))
    return top, witnesses + block.first_row, total, working, spread
