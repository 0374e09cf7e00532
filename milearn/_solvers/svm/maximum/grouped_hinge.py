"""The support vector svm whose slacks belong to groups of patterns.

    min_{w,b} 1/2 |w|^2 + sum_g c_g max_{t in g} [1 - s_g (w.z_t + b)]_+

Pattern t is an instance or a mean of instances, s_g = +-1 the sign and c_g the weight of group g.
Groups of one pattern are the ordinary SVM. The dual,

    max_a sum_t a_t - 1/2 |sum_t s_t a_t z_t|^2
    s.t.  a >= 0,  sum_{t in g} a_t <= c_g,  sum_t s_t a_t = 0,

has few a_t above zero. It is solved over a working set of patterns; the patterns outside it that
violate their margin most are added until primal and dual of the *whole* problem meet, so the gap
that is returned holds for the problem as stated, not for the working set.

The small dual problems go first to the active set iteration, started from the solution before;
where that does not converge, to libsvm (groups of one) or to a QP backend. libsvm has a limit of
steps: on an ill-conditioned kernel (linear, large C) it takes minutes for what an interior point
does in a tenth of a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._bags.segments import (
    gather_rows,
    segment_index,
    segment_mean,
    segment_min,
)
from ...._compat import LimitedSVC
from ...common.active_set import active_set_iterations, polish
from ...common.gram import Gram
from ...common.piecewise import optimal_intercept
from ...common.qp import ActiveSet, QPProblem, QPResult, solve_qp, solve_qp_near
from ...common.rounding import rounding_scale
from .working_set import INITIAL_TOL, WorkingSet

__all__ = ["Patterns", "SVMSolution", "solve_grouped_svm"]

# Above 1e-11 by rounding: INITIAL_TOL is divided by a hundred twice.
_MIN_TOL = 1.001e-11
_EXACT_RESIDUAL = 1e-10
# By which a hundredth of the precision has to lower the residual at the least.
_PROGRESS = 0.5
_MAX_ROUNDS = 500
_N_SEEDS = 100
_DROP_MARGIN = 1.2
_MAX_ADDED_PER_GROUP = 2
_ROUNDS_WITH_PRUNING = 10
_WARM_START_RATIO = 0.05


@dataclass
class Patterns:
    """Patterns that are to be separated, in groups.

    Attributes
    ----------
    rows : ndarray of int
        Instance rows of all patterns, one after the other.
    row_offsets : ndarray of shape (n_patterns + 1,) or None
        Pattern t is the mean of ``rows[row_offsets[t]:row_offsets[t + 1]]``; None when each
        pattern is one instance.
    group_offsets : ndarray of shape (n_groups + 1,)
        Patterns of each group.
    signs : ndarray of shape (n_groups,), +1.0 or -1.0
    weights : ndarray of shape (n_groups,), the bounds c_g, above zero
    margins : ndarray of shape (n_patterns,) or None
        What each pattern has to reach on its side of the boundary; 1 when None.
    """

    rows: np.ndarray
    row_offsets: np.ndarray | None
    group_offsets: np.ndarray
    signs: np.ndarray
    weights: np.ndarray
    margins: np.ndarray | None = None

    @property
    def n_patterns(self) -> int:
        """Number of patterns in all groups."""
        return int(self.group_offsets[-1])

    @property
    def shifts(self) -> np.ndarray | float:
        """What is added to scores, so that every margin is 1."""
        if self.margins is None:
            return 0.0
        return np.repeat(self.signs, np.diff(self.group_offsets)) * (1.0 - self.margins)

    def scores(self, instance_scores: np.ndarray) -> np.ndarray:
        """Score of each pattern with its shift, shape (n_patterns,)."""
        values = instance_scores[self.rows]
        if self.row_offsets is not None:
            values = segment_mean(values, self.row_offsets)
        return np.asarray(values + self.shifts)

    def reach(self, chosen: np.ndarray) -> np.ndarray:
        """Margins of the chosen patterns."""
        return np.ones(len(chosen)) if self.margins is None else self.margins[chosen]

    def expand(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Instance rows of the chosen patterns, and where each starts (None: one row each)."""
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
class SVMSolution:
    """Solution of the whole problem, with its certificate.

    Attributes
    ----------
    rows, coef : ndarray
        The function sum_r coef_r x_r over instance rows (a row may come twice).
    scores : ndarray of shape (n_instances,)
        Scores of all instances, without the intercept.
    intercept : float
    norm2 : float
        |w|^2.
    objective, gap : float
        Value of the primal, and its distance from the value of the dual.
    working : WorkingSet
    n_solves, n_backend : int
        Dual problems that were solved, and how many of them needed a backend.
    """

    rows: np.ndarray
    coef: np.ndarray
    scores: np.ndarray
    intercept: float
    norm2: float
    objective: float
    gap: float
    working: WorkingSet
    n_solves: int = 0
    n_backend: int = 0


def solve_grouped_svm(
    gram: Gram,
    patterns: Patterns,
    *,
    tol: float,
    start: WorkingSet | None = None,
    sharp: bool = True,
) -> SVMSolution:
    """Minimise the grouped hinge loss to a relative duality gap of ``tol``.

    Parameters
    ----------
    gram : Gram
    patterns : Patterns
    tol : float
        Duality gap as a share of the objective.
    start : WorkingSet, default=None
        That of a solution of a problem with the same groups.
    sharp : bool, default=True
        Whether the dual variables are made as good as double precision allows, which is more than
        ``tol`` asks for: the gap is of second order in them.

    Returns
    -------
    SVMSolution
        Its ``gap`` is what was reached; it exceeds ``tol`` only when the backend at its tightest
        setting could do no better.
    """
    group = segment_index(patterns.group_offsets)
    sign = patterns.signs[group]
    working = None if start is None else start.with_signs(sign)
    # Signs may have turned so that the patterns of the start are all on one side: no problem then.
    if working is None or len(np.unique(sign[working.status >= 0])) < 2:
        seeds = _seeds(gram, patterns, sign)
        working = WorkingSet.from_patterns(seeds, sign, len(patterns.signs))
    products = _InnerProducts(gram, patterns)
    scale = rounding_scale(patterns.weights)
    n_solves, n_backend = 0, 0
    precision = max(working.precision, INITIAL_TOL * 1e-2)
    # The solution before the precision was tightened, and its residual.
    coarse: tuple[SVMSolution, float] | None = None
    while True:
        dual = _GroupedDual(products, patterns, sign, group, np.flatnonzero(working.status >= 0))
        values, result = dual.solve(working, precision)
        n_solves += 1
        n_backend += result.solver != "active-set"
        solution = _certify(gram, patterns, dual, values, working)
        if coarse is not None and result.residual > _PROGRESS * coarse[1]:
            # The conditioning allows no more digits: a tighter try would take as long for nothing.
            solution = min((solution, result.residual), coarse, key=lambda pair: pair[1])[0]
            precision = _MIN_TOL
        solution.n_solves, solution.n_backend = n_solves, n_backend
        # Under the multiplier, which is the intercept of the working set: the one that is best for
        # all patterns would hide a violator by moving the margin onto it.
        scores = patterns.scores(solution.scores)
        middle = (scores - patterns.shifts)[dual.chosen].mean()
        working.margins = sign * (scores - middle + result.y[0])
        # The gap is of second order in w: an inexact solution is made as good as it gets.
        exact = result.residual <= _EXACT_RESIDUAL or precision <= _MIN_TOL
        closed = solution.gap <= tol * max(solution.objective, scale)
        done = (closed and (exact or not sharp)) or n_solves >= _MAX_ROUNDS
        added = np.zeros(0, dtype=np.intp)
        if not closed:
            added = _violators(patterns, group, working)
        if done or len(added) == 0 or n_solves < _ROUNDS_WITH_PRUNING:
            working.drop(working.margins > _DROP_MARGIN)
        if done or (len(added) == 0 and precision <= _MIN_TOL):
            working.precision = precision
            return solution
        working.status[added] = 1
        working.changed = len(added)
        coarse = None
        if len(added) == 0:
            coarse = solution, result.residual
            precision = max(precision * 1e-2, _MIN_TOL)
            working.warm = False


class _InnerProducts:
    """Inner products among a working set; those of patterns in the set before it are kept."""

    def __init__(self, gram: Gram, patterns: Patterns) -> None:
        self.gram = gram
        self.patterns = patterns
        self.chosen = np.zeros(0, dtype=np.intp)
        self.matrix = np.zeros((0, 0))

    def among(self, chosen: np.ndarray) -> np.ndarray:
        """The matrix for ``chosen`` (ascending); not to be written to."""
        known = np.isin(chosen, self.chosen, assume_unique=True)
        kept, fresh = np.flatnonzero(known), np.flatnonzero(~known)
        before = np.searchsorted(self.chosen, chosen[kept])
        matrix = np.empty((len(chosen), len(chosen)))
        matrix[kept[:, None], kept] = self.matrix[before[:, None], before]
        if len(fresh):
            expand = self.patterns.expand
            cross = self.gram.inner(expand(chosen[fresh]), expand(chosen))
            matrix[fresh] = cross
            matrix[:, fresh] = cross.T
        self.chosen, self.matrix = chosen, matrix
        return matrix


class _GroupedDual:
    """The dual problem over the working set, in units of the largest weight."""

    def __init__(
        self,
        products: _InnerProducts,
        patterns: Patterns,
        sign: np.ndarray,
        group: np.ndarray,
        chosen: np.ndarray,
    ) -> None:
        self.chosen = chosen
        self.sign = sign[chosen]
        plain = products.among(chosen)
        # The equality makes the origin of the feature space arbitrary; in the middle of the
        # patterns no digits are lost to an offset that they share.
        middle = plain.mean(axis=0)
        self.scale = float(patterns.weights.max())
        scaled = plain - middle
        scaled -= (middle - middle.mean())[:, None]
        scaled *= self.sign
        scaled *= (self.sign * self.scale)[:, None]
        bounds = patterns.weights / self.scale
        # Groups with several patterns here share a bound; a pattern alone has its own.
        mine = group[chosen]
        starts = np.flatnonzero(np.r_[True, mine[1:] != mine[:-1]])
        counts = np.diff(np.r_[starts, len(mine)])
        self.alone = np.repeat(counts == 1, counts)
        self.upper = np.where(self.alone, bounds[mine], np.inf)
        self.shared = mine[starts[counts > 1]]
        self.members = np.zeros((len(self.shared), len(mine)))
        position = np.repeat(np.cumsum(counts > 1) - 1, counts)
        together = np.flatnonzero(~self.alone)
        self.members[position[together], together] = 1.0
        self.reach = patterns.reach(chosen)
        self.qp = QPProblem(
            scaled,
            -self.reach,
            G=self.members,
            h=bounds[self.shared],
            A=self.sign[None],
            b=np.zeros(1),
            lb=np.zeros(len(chosen)),
            ub=self.upper,
            rank=products.gram.rank,
        )

    def solve(self, working: WorkingSet, precision: float) -> tuple[np.ndarray, QPResult]:
        """Dual variables in the units of the weights, and the result in the problem's own.

        Its multiplier of the equality is the intercept for scores counted from the mean of the
        working set. How the patterns stand is noted in ``working``.
        """
        start = self._active_set(working)
        result = None
        by_libsvm = len(self.shared) == 0 and (self.reach == 1.0).all()
        if by_libsvm and not working.libsvm_failed:
            # Where much has changed the warm start rarely converges and libsvm is quicker: on Musk2
            # with an RBF kernel, trying it always costs about a quarter more.
            near = working.changed <= max(20, _WARM_START_RATIO * len(self.chosen))
            result = self._solve_alone(start if near else None, precision)
            working.libsvm_failed = result is None
        if result is None and start is not None and not working.inexact:
            result = solve_qp_near(self.qp, start, tol=precision)
            if result.residual > _EXACT_RESIDUAL:
                # Digits are scarce here, and those of the whole problem are the better ones.
                working.inexact, result, start = True, None, None
        if result is None:
            result = solve_qp(self.qp, tol=precision, start=start)
        working.status[self.chosen] = np.where(
            result.active.lower, 0, np.where(result.active.upper, 2, 1)
        )
        working.tight[self.shared] = result.active.tight
        working.warm = True
        return np.maximum(result.x, 0.0) * self.scale, result

    def _active_set(self, working: WorkingSet) -> ActiveSet | None:
        if not working.warm:
            return None
        status = working.status[self.chosen]
        at_bound = status == 2
        # A pattern that was alone at its bound and has got company: the group is at its bound.
        tight = working.tight[self.shared] | (self.members @ at_bound > 0)
        return ActiveSet(lower=status == 0, upper=at_bound & self.alone, tight=tight)

    def _solve_alone(self, start: ActiveSet | None, precision: float) -> QPResult | None:
        """No bound is shared: libsvm solves it, and the active set iteration sharpens it."""
        if start is not None:
            warm = active_set_iterations(self.qp, start, "active-set")
            if warm is not None and warm.residual <= precision:
                return warm
        # The limit is part of the plan: beyond it a QP backend takes over.
        svm = LimitedSVC(
            kernel="precomputed",
            C=1.0,
            tol=1e4 * precision,
            cache_size=1000,
            max_iter=_libsvm_steps(len(self.sign)),
        )
        plain = self.qp.P * self.sign
        plain *= self.sign[:, None]
        svm.fit(plain, self.sign, sample_weight=self.upper)
        if svm.reached_limit_ or (svm.n_iter_ >= svm.max_iter).any():
            return None
        values = np.zeros(len(self.sign))
        values[svm.support_] = np.abs(svm.dual_coef_[0])
        rough = self.qp.with_residuals(
            values, svm.intercept_, None, self._bound_multipliers(values, svm), "libsvm"
        )
        return polish(self.qp, rough)

    def _bound_multipliers(self, values: np.ndarray, svm: LimitedSVC) -> np.ndarray:
        gradient = self.qp.P @ values + self.qp.q + self.sign * svm.intercept_[0]
        at_upper = values >= self.upper * (1 - 1e-12)
        return np.where(values <= 0, -gradient, np.where(at_upper, -gradient, 0.0))


def _libsvm_steps(n: int) -> int:
    """As many steps, each of order n, as cost about what an interior point of order n^3 does."""
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
        # Below zero by rounding.
        gap=max(0.0, objective - (float(dual.reach @ values) - 0.5 * norm2)),
        working=working,
    )


def _seeds(gram: Gram, patterns: Patterns, sign: np.ndarray) -> np.ndarray:
    """Patterns to begin with: the hardest for the mean of the positive ones, some of each group."""
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
    """Patterns outside the working set whose margin falls short of their group's slack.

    Of a group of several the worst few, of groups of one all, up to the size of the working set.
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
