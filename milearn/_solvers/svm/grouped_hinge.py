"""Support vector machine whose slacks belong to groups of patterns.

    min_{w,b} 1/2 |w|^2 + sum_g c_g max_{t in g} [1 - s_g (w.z_t + b)]_+

Pattern t is an instance or a mean of instances, s_g = +-1 the sign and c_g the weight of group g.
With groups of one pattern this is the standard SVM. The dual,

    max_a sum_t a_t - 1/2 |sum_t s_t a_t z_t|^2
    s.t.  a >= 0,  sum_{t in g} a_t <= c_g,  sum_t s_t a_t = 0,

has few a_t above zero. It is solved over a working set of patterns. The patterns outside of it that
violate their margin most are added until the duality gap of the *whole* problem is small enough, so
the returned gap holds for the stated problem and not only for the working set.

The dual problems over working sets are solved by the active set iteration, started from the
previous solution. If it does not converge, libsvm (for groups of one) or a QP backend is used, and
the iteration improves their result. The number of steps of libsvm is limited: on an ill-conditioned
kernel matrix (large C) it takes minutes where an interior point method takes a tenth of a second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._bags.segments import (
    gather_rows,
    segment_index,
    segment_mean,
    segment_min,
)
from ..._compat import LimitedSVC
from ..common.cccp import optimal_intercept, rounding_scale
from ..common.gram import Gram
from ..common.qp import ActiveSet, QPProblem, QPResult, active_set_iterations, polish, solve_qp

# Precision of the dual problems: of libsvm, of a QP backend, and of the active set iteration, which
# improves on them unless the problem is ill-conditioned.
_LIBSVM_TOL = 1e-4
_BACKEND_TOL = 1e-9
_EXACT_RESIDUAL = 1e-10
_MAX_ROUNDS = 500
_N_SEEDS = 100
_DROP_MARGIN = 1.2
_MAX_ADDED_PER_GROUP = 2
_ROUNDS_WITH_PRUNING = 10
_WARM_START_RATIO = 0.05


@dataclass
class Patterns:
    """Patterns to separate, in groups."""

    # Pattern t is the mean of ``rows[row_offsets[t]:row_offsets[t + 1]]``, or one instance if
    # ``row_offsets`` is None.
    rows: np.ndarray
    row_offsets: np.ndarray | None
    # Offsets of the patterns of each group, its sign, and its weight c_g above zero.
    group_offsets: np.ndarray
    signs: np.ndarray
    weights: np.ndarray
    # The required margin of each pattern; 1 if None.
    margins: np.ndarray | None = None

    @property
    def n_patterns(self) -> int:
        """Number of patterns in all groups."""
        return int(self.group_offsets[-1])

    @property
    def shifts(self) -> np.ndarray | float:
        """Constants added to scores so that every required margin is 1."""
        if self.margins is None:
            return 0.0
        return np.repeat(self.signs, np.diff(self.group_offsets)) * (1.0 - self.margins)

    def scores(self, instance_scores: np.ndarray) -> np.ndarray:
        """Score of each pattern with its shift, shape (n_patterns,)."""
        values = instance_scores[self.rows]
        if self.row_offsets is not None:
            values = segment_mean(values, self.row_offsets)
        return np.asarray(values + self.shifts)

    def margins_of(self, chosen: np.ndarray) -> np.ndarray:
        """Required margins of the chosen patterns."""
        return np.ones(len(chosen)) if self.margins is None else self.margins[chosen]

    def expand(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Instance rows of the chosen patterns, and their offsets (None if one row each)."""
        if self.row_offsets is None:
            return self.rows[chosen], None
        index, starts = gather_rows(self.row_offsets, chosen)
        return self.rows[index], starts


def _spread(values: np.ndarray, starts: np.ndarray | None) -> np.ndarray:
    """Coefficients of patterns as coefficients of their instance rows."""
    if starts is None:
        return values
    sizes = np.diff(starts)
    return np.repeat(values / sizes, sizes)


@dataclass
class WorkingSet:
    """State of a solution, for a warm start of a similar problem."""

    # Of each pattern: -1 outside the working set, 0 at zero, 1 free, 2 at its bound.
    status: np.ndarray
    # Of each group: whether it has several patterns in the working set, whose sum is at its bound.
    tight: np.ndarray
    # Sign and margin of each pattern.
    sign: np.ndarray
    margins: np.ndarray
    # Whether the state comes from a solution.
    warm: bool = False
    # Number of patterns that were added or whose signs changed since the last solution.
    changed: int = 0

    @classmethod
    def from_patterns(cls, seeds: np.ndarray, sign: np.ndarray, n_groups: int) -> WorkingSet:
        """A working set of the given patterns, all of them free."""
        status = np.full(len(sign), -1, dtype=np.int8)
        status[seeds] = 1
        return cls(status, np.zeros(n_groups, dtype=bool), sign, np.zeros(len(sign)))

    def with_signs(self, sign: np.ndarray) -> WorkingSet:
        """A start for the same patterns with other signs.

        A pattern whose sign changes is expected at zero if it satisfies its new margin, and
        otherwise at its bound.
        """
        turned = self.sign != sign
        margins = np.where(turned, -self.margins, self.margins)
        status = np.where(turned, np.where(margins > 1.0, 0, 2), self.status).astype(np.int8)
        changed = int((turned & (self.status >= 0)).sum())
        return replace(
            self,
            status=status,
            tight=self.tight.copy(),
            sign=sign,
            margins=margins,
            changed=changed,
        )

    def drop(self, clear: np.ndarray) -> None:
        """Remove patterns at zero that satisfy their margin, but keep one pattern of each sign."""
        dropped = (self.status == 0) & clear
        for sign in (1.0, -1.0):
            own = np.flatnonzero((self.status >= 0) & (self.sign == sign))
            if len(own) and dropped[own].all():
                dropped[own[np.argmin(self.margins[own])]] = False
        self.status[dropped] = -1


@dataclass
class SVMSolution:
    """Solution of the whole problem, with its duality gap."""

    # w = sum_r coef_r x_r over instance rows, which may repeat.
    rows: np.ndarray
    coef: np.ndarray
    # Scores of all instances without the intercept.
    scores: np.ndarray
    intercept: float
    # |w|^2.
    norm2: float
    # Primal value, and its difference from the dual value.
    objective: float
    gap: float
    working: WorkingSet


def solve_grouped_svm(
    gram: Gram,
    patterns: Patterns,
    *,
    tol: float,
    start: WorkingSet | None = None,
) -> SVMSolution:
    """Minimise the grouped hinge loss to a relative duality gap of ``tol``.

    Parameters
    ----------
    gram : Gram
    patterns : Patterns
    tol : float
        Duality gap as a fraction of the objective.
    start : WorkingSet, default=None
        The working set of a solution of a problem with the same groups.

    Returns
    -------
    SVMSolution
        Its ``gap`` exceeds ``tol`` only if the precision of the backend is not sufficient.
    """
    group = segment_index(patterns.group_offsets)
    sign = patterns.signs[group]
    working = None if start is None else start.with_signs(sign)
    # Signs may have changed so that all patterns of the start have the same sign.
    if working is None or len(np.unique(sign[working.status >= 0])) < 2:
        seeds = _seeds(gram, patterns, sign)
        working = WorkingSet.from_patterns(seeds, sign, len(patterns.signs))
    scale, dual = rounding_scale(patterns.weights), None
    for n_solves in range(1, _MAX_ROUNDS + 1):
        chosen = np.flatnonzero(working.status >= 0)
        dual = _GroupedDual(gram, patterns, sign, group, chosen, dual)
        values, intercept = dual.solve(working)
        solution = _certify(gram, patterns, dual, values, working)
        # The intercept is that of the working set. The best intercept for all patterns would move
        # the margin to a violating pattern, which would not be found.
        scores = patterns.scores(solution.scores)
        middle = (scores - patterns.shifts)[dual.chosen].mean()
        working.margins = sign * (scores - middle + intercept)
        added = np.zeros(0, dtype=np.intp)
        if solution.gap > tol * max(solution.objective, scale):
            added = _violators(patterns, group, working)
        if len(added) == 0 or n_solves < _ROUNDS_WITH_PRUNING:
            working.drop(working.margins > _DROP_MARGIN)
        if len(added) == 0:
            break
        working.status[added] = 1
        working.changed = len(added)
    return solution


class _GroupedDual:
    """The dual problem over the working set, in units of the largest weight."""

    def __init__(
        self,
        gram: Gram,
        patterns: Patterns,
        sign: np.ndarray,
        group: np.ndarray,
        chosen: np.ndarray,
        before: _GroupedDual | None,
    ) -> None:
        self.chosen = chosen
        self.sign = sign[chosen]
        # Inner products of the working set before this one are used again.
        known = np.isin(chosen, [] if before is None else before.chosen, assume_unique=True)
        kept, fresh = np.flatnonzero(known), np.flatnonzero(~known)
        self.products = np.empty((len(chosen), len(chosen)))
        if before is not None:
            place = np.searchsorted(before.chosen, chosen[kept])
            self.products[kept[:, None], kept] = before.products[place[:, None], place]
        if len(fresh):
            cross = gram.inner(patterns.expand(chosen[fresh]), patterns.expand(chosen))
            self.products[fresh] = cross
            self.products[:, fresh] = cross.T
        # The equality constraint makes the origin of the feature space arbitrary. With the mean of
        # the patterns as the origin there is no cancellation if they are far from zero.
        middle = self.products.mean(axis=0)
        self.scale = float(patterns.weights.max())
        scaled = self.products - middle
        scaled -= (middle - middle.mean())[:, None]
        scaled *= self.sign
        scaled *= (self.sign * self.scale)[:, None]
        bounds = patterns.weights / self.scale
        # Groups with several patterns in the working set share a bound; a single one has its own.
        mine = group[chosen]
        starts = np.flatnonzero(np.r_[True, mine[1:] != mine[:-1]])
        counts = np.diff(np.r_[starts, len(mine)])
        self.single = np.repeat(counts == 1, counts)
        self.upper = np.where(self.single, bounds[mine], np.inf)
        self.shared = mine[starts[counts > 1]]
        self.members = np.zeros((len(self.shared), len(mine)))
        position = np.repeat(np.cumsum(counts > 1) - 1, counts)
        together = np.flatnonzero(~self.single)
        self.members[position[together], together] = 1.0
        self.margins = patterns.margins_of(chosen)
        self.qp = QPProblem(
            scaled,
            -self.margins,
            G=self.members,
            h=bounds[self.shared],
            A=self.sign[None],
            b=np.zeros(1),
            lb=np.zeros(len(chosen)),
            ub=self.upper,
            rank=gram.rank,
        )

    def solve(self, working: WorkingSet) -> tuple[np.ndarray, float]:
        """Dual variables in the units of the weights, and the multiplier of the equality.

        The multiplier is the intercept for scores relative to the mean of the working set. The
        status of the patterns is stored in ``working``.
        """
        by_libsvm = len(self.shared) == 0 and (self.margins == 1.0).all()
        start, result = self._active_set(working), None
        # After many changes a warm start rarely converges, and libsvm is faster. On Musk2 with an
        # RBF kernel, a warm start in every case would take about 25 % longer.
        near = working.changed <= max(20, _WARM_START_RATIO * len(self.chosen))
        if start is not None and (near or not by_libsvm):
            result = active_set_iterations(self.qp, start, "active-set")
        if result is None or result.residual > _EXACT_RESIDUAL:
            result = self._by_libsvm() if by_libsvm else None
        if result is None or result.residual > _BACKEND_TOL:
            result = solve_qp(self.qp, tol=_BACKEND_TOL)
        working.status[self.chosen] = np.where(
            result.active.lower, 0, np.where(result.active.upper, 2, 1)
        )
        working.tight[self.shared] = result.active.tight
        working.warm = True
        return np.maximum(result.x, 0.0) * self.scale, float(result.y[0])

    def _active_set(self, working: WorkingSet) -> ActiveSet | None:
        if not working.warm:
            return None
        status = working.status[self.chosen]
        at_bound = status == 2
        # If a single pattern was at its bound, the bound of its group is active.
        tight = working.tight[self.shared] | (self.members @ at_bound > 0)
        return ActiveSet(lower=status == 0, upper=at_bound & self.single, tight=tight)

    def _by_libsvm(self) -> QPResult | None:
        """The solution without shared bounds, or None at the limit of steps."""
        svm = LimitedSVC(
            kernel="precomputed",
            C=1.0,
            tol=_LIBSVM_TOL,
            cache_size=1000,
            max_iter=_libsvm_steps(len(self.sign)),
        )
        gram = self.qp.P * self.sign
        gram *= self.sign[:, None]
        svm.fit(gram, self.sign, sample_weight=self.upper)
        if svm.reached_limit_ or (svm.n_iter_ >= svm.max_iter).any():
            return None
        values = np.zeros(len(self.sign))
        values[svm.support_] = np.abs(svm.dual_coef_[0])
        gradient = self.qp.P @ values + self.qp.q + self.sign * svm.intercept_[0]
        at_bound = (values <= 0) | (values >= self.upper * (1 - 1e-12))
        z_box = np.where(at_bound, -gradient, 0.0)
        rough = self.qp.with_residuals(values, svm.intercept_, None, z_box, "libsvm")
        return polish(self.qp, rough)


def _libsvm_steps(n: int) -> int:
    """Number of steps of order n that take about as long as an interior point of order n^3."""
    return max(20_000, n * n // 16)


def _certify(
    gram: Gram, patterns: Patterns, dual: _GroupedDual, values: np.ndarray, working: WorkingSet
) -> SVMSolution:
    """Primal and dual value of the whole problem at the dual variables of the working set."""
    signed = dual.sign * values
    rows, starts = patterns.expand(dual.chosen)
    coef = _spread(signed, starts)
    scores = gram.scores(rows, coef)
    norm2 = float(values @ (dual.qp.P @ values)) / dual.scale
    margins = np.repeat(patterns.signs, np.diff(patterns.group_offsets)) * patterns.scores(scores)
    worst = patterns.signs * segment_min(margins, patterns.group_offsets)
    intercept = optimal_intercept(worst, patterns.signs, patterns.weights)
    hinge = np.maximum(0.0, 1.0 - patterns.signs * (worst + intercept))
    objective = 0.5 * norm2 + float(patterns.weights @ hinge)
    return SVMSolution(
        rows=rows,
        coef=coef,
        scores=scores,
        intercept=intercept,
        norm2=norm2,
        objective=objective,
        # It may be negative by rounding.
        gap=max(0.0, objective - (float(dual.margins @ values) - 0.5 * norm2)),
        working=working,
    )


def _seeds(gram: Gram, patterns: Patterns, sign: np.ndarray) -> np.ndarray:
    """First working set: patterns with the lowest margins for the mean of the positive ones."""
    positive = np.flatnonzero(sign > 0)
    rows, starts = patterns.expand(positive)
    coef = _spread(np.full(len(positive), 1.0 / len(positive)), starts)
    margins = sign * patterns.scores(gram.scores(rows, coef))
    lowest = segment_min(margins, patterns.group_offsets)
    if len(lowest) == len(margins):
        hardest = [
            mine[np.argsort(margins[mine], kind="stable")[:_N_SEEDS]]
            for mine in (positive, np.flatnonzero(sign < 0))
        ]
        return np.concatenate(hardest)
    hits = np.flatnonzero(margins == np.repeat(lowest, np.diff(patterns.group_offsets)))
    return hits[np.searchsorted(hits, patterns.group_offsets[:-1])]


def _violators(patterns: Patterns, group: np.ndarray, working: WorkingSet) -> np.ndarray:
    """Patterns outside the working set whose slack exceeds that of their group.

    These are a few patterns of each group, or for groups of one at most as many as the working set
    has.
    """
    inside, margins = working.status >= 0, working.margins
    held = segment_min(np.where(inside, margins, 1.0), patterns.group_offsets)
    short = np.where(inside, -np.inf, np.minimum(held, 1.0)[group] - margins)
    found = np.flatnonzero(short > 0)
    found = found[np.argsort(-short[found], kind="stable")]
    if len(held) == len(short):
        return found[: max(_N_SEEDS, int(inside.sum()))]
    found = found[np.argsort(group[found], kind="stable")]
    starts = np.flatnonzero(np.r_[True, np.diff(group[found]) != 0])
    rank = np.arange(len(found)) - np.repeat(starts, np.diff(np.r_[starts, len(found)]))
    return found[rank < _MAX_ADDED_PER_GROUP]
