"""The semidefinite relaxation of instance selection (Guo 2009, with a bound on the slacks).

For instances of positive and of negative bags with costs c_i, a bound s on the slacks of instances
of positive bags, and f(x) = w.z + b:

    min  1/2 |w|^2 + sum_pos c_i ( 1/2 (l_i + e_i)^2 - s/2 l_i - 1/2 e_i ) + sum_neg c_i l_i
    s.t. y_i f(x_i) >= 1 - l_i,  l >= 0,  l_pos <= s,  e >= 0,
         sum of e over each positive bag = 1, or >= 1

The upper limit 1 of e needs no constraint: if a sum is 1 the limit is implied, and if a sum is
above 1 its multiplier is zero and every e_i of the bag is at most 1/2.

With few features the problem is solved by an interior point method with predictor and corrector
(Mehrotra 1992), whose linear systems are reduced to the size of w: l and e of each instance and the
multiplier of each bag are eliminated. The sparse solver PIQP does not use this structure. With one
thread it takes 1 to 5 times as long on up to 1,400 instances, and 18 to 36 times on 20,000
instances with 100 features and on 6,500 with 166. With a kernel matrix these systems would have a
row for each instance, and the method of :mod:`.selection_relaxation_kernel` is used. If rounding
limits its precision, the interior point method is also used, on a factor of the kernel matrix, and
the solution with the smaller error is kept.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..._bags.segments import gather_rows, segment_index, segment_sum
from ...exceptions import SolverError
from ..common.low_rank import factor_of
from .selection_relaxation_kernel import Found, MultiplierMethod, RelaxationLoss

# A solution of the method of multipliers is final up to the first of these errors. Up to the second
# it is kept unless the interior point method is more precise.
_GOOD_TOL = 1e-8
# If steps make no progress below this error, the precision is limited by rounding.
_STAGNATION_TOL = 1e-4
_PATIENCE = 3
_MAX_STEPS = 100
_BOUNDARY = 0.995
# Rows with a smaller weight, as a fraction of the largest, are zero up to rounding.
_WEIGHTLESS = 1e-15
# Largest error of a factor as a fraction of the largest kernel value.
_FACTOR_TOL = 1e-6


class RelaxationProblem:
    """Relaxation of a problem, with instances of positive bags first.

    Parameters
    ----------
    features : ndarray of shape (n_instances, r)
        Vectors whose inner products are kernel values; with ``is_kernel`` the kernel matrix.
    offsets : ndarray of shape (n_bags + 1,)
    signs : ndarray of shape (n_bags,), +1.0 or -1.0
    weights : ndarray of shape (n_bags,), the costs, above zero
    slack_bound : float, above zero
    exactly_one : bool
        Whether the e_i of a bag sum to one, or to at least one.
    is_kernel : bool, default=False
        Whether ``features`` is a kernel matrix, shape (n_instances, n_instances). Then w is given
        by coefficients of the instances, in the order of the relaxation.
    """

    def __init__(
        self,
        features: np.ndarray,
        offsets: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        *,
        slack_bound: float,
        exactly_one: bool,
        is_kernel: bool = False,
    ) -> None:
        self.positive_rows, self.bag_offsets = gather_rows(offsets, np.flatnonzero(signs > 0))
        negative_rows, _ = gather_rows(offsets, np.flatnonzero(signs < 0))
        self.rows = np.concatenate([self.positive_rows, negative_rows])
        self.n_positive = len(self.positive_rows)
        self.is_kernel = is_kernel
        self.features = features[np.ix_(self.rows, self.rows)] if is_kernel else features[self.rows]
        self.signs = np.where(np.arange(len(self.rows)) < self.n_positive, 1.0, -1.0)
        self.costs = weights[segment_index(offsets)][self.rows]
        # In units of the largest cost all multipliers are of order one. Costs divided by the unit
        # are equivalent to inner products multiplied by it.
        self.unit = float(self.costs.max())
        self.slack_bound = float(slack_bound)
        self.exactly_one = exactly_one

    def value(self, w: np.ndarray, slacks: np.ndarray, eta: np.ndarray) -> float:
        """The objective of this module."""
        square = w @ self.features @ w if self.is_kernel else w @ w
        return float(0.5 * square + self.costs @ self.losses(slacks, eta))

    def losses(self, slacks: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """The loss of each instance, without its cost."""
        values, above = slacks.copy(), slacks[: self.n_positive]
        values[: self.n_positive] = (
            0.5 * (above + eta) ** 2 - 0.5 * self.slack_bound * above - 0.5 * eta
        )
        return values


@dataclass
class RelaxationResult:
    """A solution of the relaxation with the residuals of its optimality conditions."""

    w: np.ndarray  # with a kernel matrix, coefficients of the instances
    intercept: float
    scores: np.ndarray  # with the intercept, in the original order of the instances
    rows: np.ndarray  # the instances of positive bags
    slacks: np.ndarray
    eta: np.ndarray  # of the instances of positive bags
    value: float
    gap: float
    primal_residual: float  # largest violation of a constraint
    dual_residual: float  # largest entry of the gradient of the Lagrangian, in units of the costs
    unit: float  # the largest cost
    n_iter: int
    solver: str
    failure: str = ""  # why no more precise solution was found, if a method failed

    @property
    def error(self) -> float:
        """The largest of the residuals and the gap relative to objective plus largest cost."""
        gap = self.gap / (self.unit + abs(self.value))
        return max(gap, self.primal_residual, self.dual_residual)


def solve_relaxation(problem: RelaxationProblem, *, tol: float = 1e-8) -> RelaxationResult:
    """Solve the relaxation.

    Parameters
    ----------
    problem : RelaxationProblem
    tol : float, default=1e-8
        Duality gap relative to the objective plus the largest cost, and residuals.

    Raises
    ------
    SolverError
        If no solution is found.
    """
    if not problem.is_kernel:
        return _result(problem, InteriorPointMethod(problem).run(tol), "interior-point")
    if np.ptp(problem.features) == 0:
        # Equal instances: only the intercept counts, and systems of the kernel would be singular.
        flat = copy(problem)
        flat.features, flat.is_kernel = np.zeros((len(problem.rows), 1)), False
        return replace(solve_relaxation(flat, tol=tol), w=np.zeros(len(problem.rows)))
    costs = problem.costs / problem.unit
    loss = RelaxationLoss(costs, problem.bag_offsets, problem.slack_bound, problem.exactly_one)
    found = MultiplierMethod(problem.unit * problem.features, problem.signs, loss).run(tol)
    newton = None
    if found is not None and found.error <= _STAGNATION_TOL:
        newton = _result(problem, found, "newton")
        if found.error <= max(tol, _GOOD_TOL):
            return newton
    try:
        other = _result(problem, _by_factor(problem, tol), "interior-point")
    except SolverError as error:
        if newton is None:
            raise
        return replace(newton, failure=str(error))
    return other if newton is None or other.error <= newton.error else newton


def _by_factor(problem: RelaxationProblem, tol: float) -> Found:
    """Solve the relaxation with a factor of the kernel matrix as features."""
    factored = copy(problem)
    factored.features, factored.is_kernel = factor_of(problem.features.copy(order="F")), False
    largest = float(np.abs(problem.features).max())
    error = np.abs(factored.features @ factored.features.T - problem.features).max()
    if not error <= _FACTOR_TOL * largest:
        raise SolverError(
            f"The kernel matrix of {len(problem.rows)} instances is not positive semidefinite in "
            "double precision: scale the features or lower C, or use another kernel."
        )
    method = InteriorPointMethod(factored)
    found = method.run(tol)
    return replace(found, w=method.alpha)


def _result(problem: RelaxationProblem, found: Found, solver: str) -> RelaxationResult:
    # Convert w, or the coefficients of the instances, from units of the largest cost.
    unit = problem.unit
    w = found.w * (unit * problem.signs if problem.is_kernel else np.sqrt(unit))
    scores = np.empty(len(problem.rows))
    scores[problem.rows] = problem.features @ w + found.b
    return RelaxationResult(
        w=w,
        intercept=found.b,
        scores=scores,
        rows=problem.positive_rows,
        slacks=found.slacks,
        eta=found.eta,
        value=problem.value(w, found.slacks, found.eta),
        gap=found.gap * unit,
        primal_residual=found.primal_residual,
        dual_residual=found.dual_residual,
        unit=unit,
        n_iter=found.n_iter,
        solver=solver,
    )


@dataclass
class _Point:
    """Primal and dual variables, or a direction in them."""

    v: np.ndarray  # w and b
    slacks: np.ndarray  # l
    eta: np.ndarray  # e
    room: np.ndarray  # slack variables of the inequalities: margins, l >= 0, l <= s, e >= 0
    multipliers: np.ndarray  # of the inequalities
    nu: np.ndarray  # multipliers of the sums over bags
    surplus: np.ndarray  # slack variables of the sums; empty if they are equations

    def plus(self, step: float, by: _Point) -> _Point:
        """The point after a step of this length."""
        names = [each.name for each in fields(self)]
        return _Point(*(getattr(self, name) + step * getattr(by, name) for name in names))

    def rooms(self) -> np.ndarray:
        """Slack variables of all inequalities, including the sums unless they are equations."""
        return np.concatenate([self.room, self.surplus])

    def duals(self) -> np.ndarray:
        """Multipliers of all inequalities."""
        return np.concatenate([self.multipliers, self.nu[: len(self.surplus)]])


@dataclass
class _Residuals:
    """Gradient of the Lagrangian in (w, b), l and e; violation of inequalities and of sums."""

    v: np.ndarray
    slacks: np.ndarray
    eta: np.ndarray
    room: np.ndarray
    sums: np.ndarray


class InteriorPointMethod:
    """Mehrotra's predictor-corrector method, with all slack variables and multipliers positive.

    Attributes
    ----------
    Z : ndarray of shape (n_instances, r + 1)
        Signed instances, with inner products in units of the largest cost, and signs.
    alpha : ndarray of shape (n_instances,)
        Multipliers of the margins, after :meth:`run`.
    """

    def __init__(self, problem: RelaxationProblem) -> None:
        n, p = len(problem.signs), problem.n_positive
        self.problem, self.n, self.p, self.s = problem, n, p, problem.slack_bound
        self.c = problem.costs / problem.unit
        self.bags, self.bag = problem.bag_offsets, segment_index(problem.bag_offsets)
        self.Z = np.empty((n, problem.features.shape[1] + 1))
        np.multiply(problem.features, np.sqrt(problem.unit), out=self.Z[:, :-1])
        self.Z[:, -1] = 1.0
        self.Z *= problem.signs[:, None]
        self.scale = max(1.0, float(np.abs(self.Z).max()))
        self.limits = np.repeat([1.0, 0.0, -self.s, 0.0], [n, n, p, p])
        self.n_iter = 0

    def run(self, tol: float) -> Found:
        """Iterate until gap and residuals are below ``tol`` or limited by rounding."""
        point = self._start()
        best, least, waited = point, np.inf, 0
        for _ in range(_MAX_STEPS):
            residuals = self.residuals(point)
            error = self._measured(point, residuals)[-1]
            if error < least:
                best, least, waited = point, error, 0
            else:
                waited += 1
            if error <= tol or (waited >= _PATIENCE and least <= _STAGNATION_TOL):
                break
            try:
                point, self.n_iter = self._advanced(point, residuals), self.n_iter + 1
            except LinAlgError:
                break
        gap, primal, dual, error = self._measured(best, self.residuals(best))
        if not least <= _STAGNATION_TOL:
            raise SolverError(
                f"The relaxation of {self.n} instances was not solved (residuals {primal:.1e} and "
                f"{dual:.1e}, gap {gap:.1e}): scale the features or lower C."
            )
        _, slacks, _, eta = self.split(best.room)
        self.alpha = self.split(best.multipliers)[0]
        return Found(
            best.v[:-1], float(best.v[-1]), slacks, eta, gap, primal, dual, error, self.n_iter
        )

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Values of the inequalities by kind: margins, l >= 0, l <= s, e >= 0."""
        n, p = self.n, self.p
        return np.split(values, [n, 2 * n, 2 * n + p])

    def _start(self) -> _Point:
        n, p, n_bags = self.n, self.p, len(self.bags) - 1
        exactly_one, half = self.problem.exactly_one, 0.5 * self.s
        slacks = np.concatenate([np.full(p, half), np.ones(n - p)])
        eta = 1.0 / np.diff(self.bags)[self.bag]
        c = 0.5 * self.c
        return _Point(
            v=np.zeros(self.Z.shape[1]),
            slacks=slacks,
            eta=eta,
            room=np.concatenate([np.ones(n), slacks, np.full(p, half), eta]),
            multipliers=np.concatenate([c, c, c[:p], c[:p]]),
            nu=np.zeros(n_bags) if exactly_one else np.ones(n_bags),
            surplus=np.ones(0 if exactly_one else n_bags),
        )

    def inequalities(self, moved: np.ndarray, slacks: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Left sides of the inequalities without constants, for ``moved`` = Z (w, b)."""
        return np.concatenate([moved + slacks, slacks, -slacks[: self.p], eta])

    def residuals(self, x: _Point) -> _Residuals:
        p = self.p
        margins, lower, upper, least = self.split(x.multipliers)
        v = -(self.Z.T @ margins)
        v[:-1] += x.v[:-1]
        gradient = self.c - margins - lower
        both = self.c[:p] * (x.slacks[:p] + x.eta)
        gradient[:p] += both - (1.0 + 0.5 * self.s) * self.c[:p] + upper
        eta = both - 0.5 * self.c[:p] - least - x.nu[self.bag]
        left = self.inequalities(self.Z @ x.v, x.slacks, x.eta)
        sums = segment_sum(x.eta, self.bags) - 1.0
        if not self.problem.exactly_one:
            sums -= x.surplus
        return _Residuals(v, gradient, eta, left - self.limits - x.room, sums)

    def _measured(self, x: _Point, residuals: _Residuals) -> tuple[float, float, float, float]:
        """Gap, primal and dual residual, and the largest of them with the relative gap."""
        largest = [float(np.abs(each).max()) for each in vars(residuals).values()]
        losses = self.problem.losses(x.slacks, x.eta)
        objective = float(0.5 * x.v[:-1] @ x.v[:-1] + self.c @ losses)
        gap, primal = float(x.rooms() @ x.duals()), max(largest[3:])
        # The gradient in (w, b) is proportional to the features and is divided by their size.
        dual = max(largest[0] / self.scale, *largest[1:3])
        error = max(gap / (1.0 + abs(objective)), primal, dual)
        return gap, primal, dual, error if np.isfinite(error) else np.inf

    def _advanced(self, x: _Point, residuals: _Residuals) -> _Point:
        system = _Reduced(self, x)
        products = x.rooms() * x.duals()
        affine = system.solve(residuals, -products)
        ahead = x.plus(_length(x, affine, 1.0), affine)
        total = products.sum()
        target = (ahead.rooms() @ ahead.duals() / total) ** 3 * total / len(products)
        # Subtract the second-order change of the products in the step of the predictor.
        wanted = target - products - affine.rooms() * affine.duals()
        step = system.solve(residuals, wanted)
        # Division by small numbers is inaccurate. One step of iterative refinement corrects it; all
        # equations except those of the products are affine.
        wanted = wanted - x.duals() * step.rooms() - x.rooms() * step.duals()
        step = step.plus(1.0, system.solve(self.residuals(x.plus(1.0, step)), wanted))
        return x.plus(_length(x, step, _BOUNDARY), step)


def _length(x: _Point, by: _Point, part: float) -> float:
    """The longest step, at most one, over at most this part of the distance to the boundary."""
    rooms, duals = -by.rooms() / x.rooms(), -by.duals() / x.duals()
    # The largest relative decrease.
    steepest = max(float(rooms.max()), float(duals.max()))
    return 1.0 if steepest <= part else part / steepest


class _Reduced:
    """The Newton system at a point, factored once for predictor and corrector.

    With the quotients D = multiplier/room of the margins, k that of l >= 0 (plus that of l <= s)
    and g that of e >= 0, the unknowns l and e of an instance obey

        [ c + D + k    c   ] [dl]   [ .. - D (y z.dw) ]
        [     c      c + g ] [de] = [ .. + dnu        ]

    so that both are eliminated, and then dnu of each bag. The weights are computed without
    subtractions, to avoid cancellation. With these weights W of the instances and a vector q of
    each bag the matrix that remains is diag(1, .., 1, 0) + Z' W Z + sum_B (Z'q_B)(Z'q_B)'.
    """

    def __init__(self, method: InteriorPointMethod, x: _Point) -> None:
        self.of, self.x = method, x
        p, c, Z = method.p, method.c[: method.p], method.Z
        self.quotients = x.multipliers / x.room
        self.D, k, upper, g = method.split(self.quotients)
        D = self.D[:p]
        k = k.copy()
        k[:p] += upper
        determinant = (D + k[:p]) * (c + g) + c * g
        weight = self.D * k / (self.D + k)
        weight[:p] = D * (k[:p] * (c + g) + c * g) / determinant
        # Inverse of the block of an instance: [[own, cross], [cross, other]].
        self.own = 1.0 / (self.D + k)
        self.own[:p] = (c + g) / determinant
        self.cross = -c / determinant
        self.other = (c + D + k[:p]) / determinant
        self.sums = segment_sum(self.other, method.bags)
        if not method.problem.exactly_one:
            self.sums = self.sums + x.surplus / x.nu
        self.vectors = D * self.cross
        heavy = np.flatnonzero(weight > _WEIGHTLESS * weight.max())
        rows = Z[heavy] * np.sqrt(weight[heavy])[:, None]
        scaled = self.vectors / np.sqrt(self.sums)[method.bag]
        of_bags = np.add.reduceat(scaled[:, None] * Z[:p], method.bags[:-1])
        matrix = rows.T @ rows + of_bags.T @ of_bags
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:-1] += 1.0
        if diagonal[-1] <= 0:
            diagonal[-1] = 1.0
        try:
            self.factor = cho_factor(matrix, check_finite=False)
        except LinAlgError:
            # Near convergence the ratio of weights may be 1e15.
            diagonal += 2.0 * np.finfo(float).eps ** 0.9 * diagonal.max()
            self.factor = cho_factor(matrix, check_finite=False)

    def solve(self, residuals: _Residuals, wanted: np.ndarray) -> _Point:
        """The direction that removes the residuals and changes the products by ``wanted``."""
        of, x, p = self.of, self.x, self.of.p
        wanted, wanted_sums = np.split(wanted, [len(x.room)])
        fixed = wanted / x.room - self.quotients * residuals.room
        margins, lower, upper, least = of.split(fixed)
        right = margins + lower - residuals.slacks
        right[:p] -= upper
        right_eta = least - residuals.eta
        right_bag = -residuals.sums
        if not of.problem.exactly_one:
            right_bag = right_bag + wanted_sums / x.nu
        at_rest = segment_sum(self.cross * right[:p] + self.other * right_eta, of.bags)
        nu_rest = (right_bag - at_rest) / self.sums

        alpha = margins - self.D * self.own * right
        alpha[:p] -= self.vectors * (right_eta + nu_rest[of.bag])
        v = cho_solve(self.factor, of.Z.T @ alpha - residuals.v, check_finite=False)

        moved = of.Z @ v
        nu = nu_rest + segment_sum(self.vectors * moved[:p], of.bags) / self.sums
        left, forced = right - self.D * moved, right_eta + nu[of.bag]
        slacks = self.own * left
        slacks[:p] += self.cross * forced
        eta = self.cross * left[:p] + self.other * forced
        room = of.inequalities(moved, slacks, eta) + residuals.room
        return _Point(
            v=v,
            slacks=slacks,
            eta=eta,
            room=room,
            multipliers=(wanted - x.multipliers * room) / x.room,
            nu=nu,
            surplus=(wanted_sums - x.surplus * nu[: len(x.surplus)]) / x.nu[: len(x.surplus)],
        )
