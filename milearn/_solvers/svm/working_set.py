"""One convex step over kernel values: a support vector machine whose slacks belong to groups.

    min_{w,b} 1/2 |w|^2 + sum_g c_g max_{t in g} [m_t - s_g (w.z_t + b)]_+

With groups of one pattern this is the standard SVM, see :class:`.objectives.Groups`. The dual,

    max_a sum_t m_t a_t - 1/2 |sum_t s_t a_t z_t|^2
    s.t.  a >= 0,  sum_{t in g} a_t <= c_g,  sum_t s_t a_t = 0,

has few a_t above zero. It is solved over a working set of patterns. The patterns outside of it that
violate their margin most are added until the duality gap of the *whole* problem is small enough, so
the returned gap holds for the stated problem and not only for the working set.

Near the previous solution the active set iteration is the quickest, and exact. Otherwise the rows
of a factor of the products are explicit features of the patterns, and Newton's method over rows
solves the problem: roughly while patterns are missing, and then to a precision from which the
active set iteration makes it exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, solve_triangular
from scipy.linalg.lapack import dpotrf

from ..._bags.segments import segment_min, segment_rank
from ..common.cccp import rounding_scale
from ..common.gram import Gram
from ..common.newton import GroupProblem
from ..common.qp import ActiveSet, QPProblem, QPResult, active_set_iterations, polish
from .objectives import Groups

# The working set is solved to the first share of the gap of the whole problem, at least to the
# second one of the wanted gap, and from the third number on as precisely as the engine can.
_SHARE, _LAST, _FINE, _ENGINE_TOL = 0.2, 0.5, 1e-4, 1e-9
_EXACT_RESIDUAL = 1e-10
# Share of the rows of a factor that is added to its diagonal against rounding.
_JITTER = 1e-13
# Patterns of a working set that is always solved precisely.
_PRECISE_PATTERNS = 500
_MAX_ROUNDS = 500
_TINY = 1e-300
_N_SEEDS = 20
_DROP_MARGIN = 1.2
_MAX_ADDED_PER_GROUP = 2
_ROUNDS_WITH_PRUNING = 10
# Patterns that have changed, at most, where the active set iteration is tried.
_CHANGED_PATTERNS, _CHANGED_SHARE = 20, 0.05


@dataclass
class WorkingSet:
    """State of a solution, for a warm start of a similar problem."""

    # Of each pattern: whether it is in the working set, its share of the cost of its group, its
    # sign, and its margin.
    inside: np.ndarray
    shares: np.ndarray
    sign: np.ndarray
    margins: np.ndarray
    intercept: float = 0.0
    # Number of patterns that were added or whose signs changed since the last solution; None before
    # the first one.
    changed: int | None = None
    # Whether the active set iteration of this step has converged so far.
    converges: bool = True

    def with_signs(self, sign: np.ndarray) -> WorkingSet:
        """A start for the same patterns with other signs.

        A pattern whose sign changes is expected at zero if it satisfies its new margin, and
        otherwise at its bound.
        """
        turned = self.sign != sign
        margins = np.where(turned, -self.margins, self.margins)
        shares = np.where(turned, margins <= 1.0, self.shares)
        changed = int((turned & self.inside).sum())
        return WorkingSet(self.inside.copy(), shares, sign, margins, self.intercept, changed)

    def drop(self, clear: np.ndarray) -> None:
        """Remove patterns at zero that satisfy their margin, but keep one pattern of each sign."""
        dropped = self.inside & (self.shares == 0) & clear
        for sign in (1.0, -1.0):
            own = np.flatnonzero(self.inside & (self.sign == sign))
            if len(own) and dropped[own].all():
                dropped[own[np.argmin(self.margins[own])]] = False
        self.inside[dropped] = False


@dataclass
class _Function:
    """A function over the working set: coefficients of all instances, |w|^2, and the dual value."""

    coef: np.ndarray
    norm2: float
    bound: float


@dataclass
class Solution:
    """Solution of the whole problem, with its duality gap."""

    # w = sum_r coef_r x_r over all instances.
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


def solve_step(
    gram: Gram,
    groups: Groups,
    *,
    tol: float,
    rough: float = 0.0,
    start: WorkingSet | None = None,
) -> Solution:
    """Minimise the grouped hinge loss to a relative duality gap of ``tol``.

    Parameters
    ----------
    gram : Gram
    groups : Groups
    tol : float
        Duality gap as a fraction of the objective.
    rough : float
        Gap that is enough for many patterns where the active set iteration does not converge.
    start : WorkingSet, default=None
        The working set of a solution of a problem with the same groups.

    Returns
    -------
    Solution
        Its ``gap`` exceeds ``tol`` only if the precision of the solvers is not sufficient.
    """
    working = None if start is None else start.with_signs(groups.sign)
    # Signs may have changed so that all patterns of the start have the same sign.
    if working is None or len(np.unique(groups.sign[working.inside])) < 2:
        working = _seeds(gram, groups)
    scale, dual, aim = rounding_scale(groups.costs), None, _SHARE
    for n_solves in range(1, _MAX_ROUNDS + 1):
        dual = _Dual(gram, groups, np.flatnonzero(working.inside), dual)
        few = len(dual.chosen) <= _PRECISE_PATTERNS
        enough = tol if few or working.converges else max(tol, rough)
        solution = _certified(gram, groups, dual.solve(working, max(aim, _LAST * enough)), working)
        # The intercept is that of the working set. The best intercept for all patterns would move
        # the margin to a violating pattern, which would not be found.
        scores = groups.P @ solution.scores
        level = scores[dual.chosen].mean() - working.intercept
        working.margins = groups.sign * (scores - level) + 1.0 - groups.margins
        left = solution.gap / max(solution.objective, scale)
        enough = tol if few or working.converges else max(tol, rough)
        added = _violators(groups, working) if left > enough else np.zeros(0, dtype=np.intp)
        if len(added) == 0 or n_solves < _ROUNDS_WITH_PRUNING:
            working.drop(working.margins > _DROP_MARGIN)
        if len(added) == 0 and (left <= enough or aim <= _ENGINE_TOL):
            break
        aim = _SHARE * (min(left, aim) if len(added) == 0 else left)
        # New patterns are expected between their bounds.
        working.inside[added], working.shares[added] = True, _TINY
        working.changed = len(added)
    return solution


class _Dual:
    """The dual problem over the working set, in units of the largest cost."""

    def __init__(
        self, gram: Gram, groups: Groups, chosen: np.ndarray, before: _Dual | None
    ) -> None:
        self.groups, self.chosen, self.rank = groups, chosen, gram.rank
        self.sign, self.margins = groups.sign[chosen], groups.margins[chosen]
        self.own = groups.P[chosen]
        # Inner products of the working set before this one are used again.
        known = np.isin(chosen, [] if before is None else before.chosen, assume_unique=True)
        kept, fresh = np.flatnonzero(known), np.flatnonzero(~known)
        self.products = np.empty((len(chosen), len(chosen)))
        if before is not None:
            place = np.searchsorted(before.chosen, chosen[kept])
            self.products[kept[:, None], kept] = before.products[place[:, None], place]
        if len(fresh):
            (left, some), (right, all_of_them) = map(compact, (self.own[fresh], self.own))
            cross = (all_of_them @ (some @ gram.inner(left, right)).T).T
            self.products[fresh] = cross
            self.products[:, fresh] = cross.T
        # The equality constraint makes the origin of the feature space arbitrary. With the mean of
        # the patterns as the origin there is no cancellation if they are far from zero.
        middle = self.products.mean(axis=0)
        self.scale = float(groups.costs.max())
        self.P = self.products - middle
        self.P -= (middle - middle.mean())[:, None]
        self.P *= self.sign
        self.P *= (self.sign * self.scale)[:, None]
        # Groups with several patterns in the working set share a bound; a single one has its own.
        self.group = groups.owner[chosen]
        self.starts = np.flatnonzero(np.r_[True, self.group[1:] != self.group[:-1]])
        counts = np.diff(np.r_[self.starts, len(chosen)])
        self.single, shared = np.repeat(counts == 1, counts), self.group[self.starts[counts > 1]]
        self.bounds, self.shared = groups.costs / self.scale, shared
        self.members = np.asarray(shared[:, None] == self.group, dtype=np.float64)

    @cached_property
    def qp(self) -> QPProblem:
        """The quadratic program."""
        return QPProblem(
            self.P,
            -self.margins,
            G=self.members,
            h=self.bounds[self.shared],
            A=self.sign[None],
            b=np.zeros(1),
            lb=np.zeros(len(self.chosen)),
            ub=np.where(self.single, self.bounds[self.group], np.inf),
            rank=self.rank,
        )

    def solve(self, working: WorkingSet, aim: float) -> _Function:
        """The function and a lower bound, exactly or to a relative gap of ``aim``.

        The shares and the intercept, for scores relative to the mean of the working set, are stored
        in ``working``.
        """
        shares, result = working.shares[self.chosen], None
        near = max(_CHANGED_PATTERNS, _CHANGED_SHARE * len(self.chosen))
        if working.changed is None or working.converges or working.changed <= near:
            result = active_set_iterations(self.qp, self._active(shares), "active-set")
            working.converges = result is not None and result.residual <= _EXACT_RESIDUAL
        if result is None or result.residual > _EXACT_RESIDUAL:
            values, of_function, intercept = self._by_newton(working, aim)
            if aim <= _FINE:
                result = polish(self.qp, self._rough(values, intercept))
                working.converges = result.residual <= _EXACT_RESIDUAL
        working.shares[:] = 0.0
        if result is not None:
            values, intercept = np.maximum(result.x, 0.0), float(result.y[0])
            of_function = values
            # Bounds hold exactly where they are active, so that they are active in a warm start.
            values[result.active.lower] = 0.0
            values[result.active.upper] = self.bounds[self.group[result.active.upper]]
        working.shares[self.chosen] = values / self.bounds[self.group]
        working.intercept, working.changed = intercept, 0
        bound = float(self.margins @ values) - 0.5 * float(values @ (self.P @ values))
        signed = self.sign * of_function
        return _Function(
            coef=self.scale * (self.own.T @ (signed - signed.mean())),
            norm2=self.scale * float(of_function @ (self.P @ of_function)),
            bound=self.scale * bound,
        )

    def _active(self, shares: np.ndarray) -> ActiveSet:
        """The active constraints of shares."""
        full = np.add.reduceat(shares, self.starts) >= 1.0 - 1e-9
        tight = np.zeros(len(self.bounds), dtype=bool)
        tight[self.group[self.starts[full]]] = True
        return ActiveSet(
            lower=shares <= 0.0,
            upper=self.single & tight[self.group],
            tight=tight[self.shared],
        )

    def _by_newton(self, working: WorkingSet, aim: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Dual variables, coefficients of the function, whose gap is ``aim``, and its intercept.

        Both are found over the rows of a factor of the products.
        """
        n, costs = len(self.sign), self.bounds[self.group[self.starts]]
        level = float(np.diagonal(self.P).max(initial=0.0)) or 1.0
        factor, failed = dpotrf(self.P + _JITTER * level * np.eye(n), lower=1, clean=1)
        if failed:
            values, vectors = eigh(self.P, check_finite=False)
            factor = vectors * np.sqrt(np.maximum(values, abs(_JITTER) * level))
        # Products with negative eigenvalues, by rounding, are not those of the factor.
        products = factor @ factor.T if failed else self.P
        offsets = np.r_[self.starts, n]
        problem = GroupProblem(-factor, -self.sign, offsets, costs, self.margins, products=products)
        w, b, warm = np.zeros(n), 0.0, None
        if working.changed is not None:
            shares, b = working.shares[self.chosen], working.intercept
            w = factor.T @ problem.balanced(problem.row_costs * shares)
            warm = problem.first(shares, problem.values(w, b))
        found = problem.solve((w, b), aim if aim > _FINE else _ENGINE_TOL, warm)
        if failed:
            of_function = vectors @ (found.w / np.linalg.norm(factor, axis=0))
        else:
            of_function = solve_triangular(factor, found.w, trans=1, lower=True)
        values = problem.balanced(problem.coefficients(found.proportions))
        return values, of_function, float(found.v)

    def _rough(self, values: np.ndarray, intercept: float) -> QPResult:
        """Values and an intercept with the multipliers of the constraints that they meet."""
        gradient = self.P @ values - self.margins + self.sign * intercept
        of_groups = [max(0.0, float((-gradient[own > 0]).max())) for own in self.members]
        z = np.array(of_groups) if len(of_groups) else np.zeros(0)
        z_box = -(gradient + self.members.T @ z)
        inner = (values > 0) & (values < self.qp.ub * (1 - 1e-12))
        z_box[inner] = 0.0
        return self.qp.with_residuals(values, np.array([intercept]), z, z_box, "newton")


def compact(P: sparse.csr_array) -> tuple[np.ndarray, sparse.csr_array]:
    """The columns that occur, and the matrix of these columns."""
    used, place = np.unique(P.indices, return_inverse=True)
    return used, sparse.csr_array((P.data, place, P.indptr), shape=(P.shape[0], len(used)))


def _certified(gram: Gram, groups: Groups, found: _Function, working: WorkingSet) -> Solution:
    """The value of a function over all patterns, and its gap."""
    scores = gram.scores(found.coef)
    objective, intercept = groups.value(groups.P @ scores, found.norm2)
    return Solution(
        coef=found.coef,
        scores=scores,
        intercept=intercept,
        norm2=found.norm2,
        objective=objective,
        # It may be negative by rounding.
        gap=max(0.0, objective - found.bound),
        working=working,
    )


def _seeds(gram: Gram, groups: Groups) -> WorkingSet:
    """First working set: patterns with the lowest margins for the mean of the positive ones."""
    sign, positive = groups.sign, groups.sign > 0
    scores = groups.P @ gram.scores(groups.P.T @ (positive / positive.sum()))
    margins = sign * scores + 1.0 - groups.margins
    # One of each group; if these are all patterns, some of each sign.
    inside = segment_rank(-margins, groups.offsets) == 0
    if inside.all():
        ends = np.array([0, len(sign)])
        inside = np.any(
            [
                segment_rank(np.where(sign == side, -margins, -np.inf), ends) < _N_SEEDS
                for side in (1.0, -1.0)
            ],
            axis=0,
        )
    return WorkingSet(inside, _TINY * inside, sign, np.zeros(len(sign)))


def _violators(groups: Groups, working: WorkingSet) -> np.ndarray:
    """Patterns outside the working set whose slack exceeds that of their group.

    These are a few patterns of each group, or for groups of one at most as many as the working set
    has.
    """
    inside, margins = working.inside, working.margins
    held = segment_min(np.where(inside, margins, 1.0), groups.offsets)
    short = np.where(inside, -np.inf, np.minimum(held, 1.0)[groups.owner] - margins)
    found = np.flatnonzero(short > 0)
    if len(held) == len(short):
        order = np.argsort(-short[found], kind="stable")
        return found[order[: max(_N_SEEDS, int(inside.sum()))]]
    most = max(_MAX_ADDED_PER_GROUP, int(inside.sum()) // len(held))
    return found[segment_rank(short, groups.offsets)[found] < most]
