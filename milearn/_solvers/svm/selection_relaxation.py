"""The semidefinite relaxation of instance selection (Guo 2009, with a bound on the slacks).

For instances of positive and of negative bags with costs c_i, a bound s on the slacks of instances
of positive bags, and f(x) = w.z + b:

    min  1/2 |w|^2 + sum_pos c_i ( 1/2 (l_i + e_i)^2 - s/2 l_i - 1/2 e_i ) + sum_neg c_i l_i
    s.t. y_i f(x_i) >= 1 - l_i,  l >= 0,  l_pos <= s,  e >= 0,
         sum of e over each positive bag = 1, or >= 1

The upper limit 1 of e needs no constraint: if a sum is 1 the limit is implied, and if a sum is
above 1 its multiplier is zero and every e_i of the bag is at most 1/2.

The problem is solved by an interior point method with predictor and corrector (Mehrotra 1992). Its
linear systems are reduced to the size of w: l and e of each instance and the multiplier of each bag
are eliminated. With a kernel matrix w is given by coefficients of the instances, and Woodbury's
formula reduces the systems to instances and bags whose weight in the system is above zero.

The sparse solver PIQP does not use this structure. With one thread it takes 1 to 5 times as long on
up to 1,400 instances, and 18 to 36 times on 20,000 instances with 100 features and on 6,500 with
166.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..._bags.segments import gather_rows, segment_index, segment_sum
from ...exceptions import SolverError
from ..common.gram import Gram

# If steps make no progress below this error, the precision is limited by rounding.
_STAGNATION_TOL = 1e-4
_PATIENCE = 3
_MAX_STEPS = 100
_BOUNDARY = 0.995
_REFINEMENTS = 2
# Rows with a smaller weight, as a fraction of the largest, are zero up to rounding.
_WEIGHTLESS = 1e-15

_Solve = Callable[[np.ndarray], np.ndarray]


def instance_features(
    gram: Gram, n_components: int | None = None, max_bytes: float = np.inf
) -> tuple[np.ndarray, bool]:
    """The smallest representation of all instances, centred, and whether it is the kernel matrix.

    It is their used columns unless these are more than instances; then a factor of the kernel
    matrix of ``n_components`` columns, if these are fewer than instances; then the matrix. With an
    intercept, the origin of the feature space is arbitrary, and a common offset would cost digits.

    Parameters
    ----------
    gram : Gram
    n_components : int, default=None
        Maximum number of columns of the factor.
    max_bytes : float
        Maximum size of the kernel matrix.

    Returns
    -------
    features : ndarray of shape (n_instances, n_columns), new
        In Fortran order if it is the kernel matrix.
    is_kernel : bool

    Raises
    ------
    MemoryError
        If the kernel matrix would be larger than ``max_bytes``.
    """
    features: Any = gram.vectors()
    n = gram.n
    if sparse.issparse(features):
        used = np.unique(features.indices)
        features = features[:, used if len(used) else [0]]
        features = features.astype(np.float64).toarray() if len(used) <= n else None
    elif features is not None and features.shape[1] > n:
        features = None
    if features is None and n_components is not None and n_components < n:
        features = _greedy(gram, n_components)
    if features is not None:
        return np.asarray(features - features.mean(axis=0)), False
    if 8 * n * n > max_bytes:
        raise MemoryError(
            f"The fit needs the kernel matrix of {n} x {n} instances "
            f"({8 * n * n / 2**20:.0f} MiB): raise working_memory by sklearn.set_config, or "
            "set n_components to use a low-rank approximation."
        )
    matrix = np.array(gram.inner(np.arange(n), np.arange(n)), order="F")
    middle = matrix.mean(axis=0)
    matrix -= middle
    matrix -= (middle - middle.mean())[:, None]
    return matrix, True


def _greedy(gram: Gram, n_components: int, block: int = 256) -> np.ndarray:
    """Pivoted Cholesky with one kernel row per step; the pivot has the largest residual."""
    n, rest = gram.n, np.empty(gram.n)
    for first in range(0, n, block):
        mine = np.arange(first, min(first + block, n))
        rest[mine] = np.diagonal(gram.inner(mine, mine))
    # In the first step of an RBF kernel all instances tie. A projection of the instances breaks the
    # tie, independently of their order and multiplicity.
    own = np.asarray(gram.instances @ np.cos(np.arange(1.0, gram.instances.shape[1] + 1.0)))
    stop = 1e-10 * float(rest.max())
    factor = np.zeros((n, n_components), order="F")
    for step in range(n_components):
        largest = float(rest.max())
        if largest <= stop:
            return factor[:, : max(step, 1)]
        tied = np.flatnonzero(rest >= largest * (1.0 - 1e-9))
        pivot = tied[np.argmax(own[tied])]
        column = gram.inner(np.array([pivot]), np.arange(n))[0]
        column = column - factor[:, :step] @ factor[pivot, :step]
        factor[:, step] = column / np.sqrt(column[pivot])
        rest -= factor[:, step] ** 2
        rest[pivot] = 0.0
        np.maximum(rest, 0.0, out=rest)
    return factor


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
    error: float  # the largest of the residuals and the gap over objective plus largest cost
    n_iter: int


def solve_relaxation(problem: RelaxationProblem, *, tol: float = 1e-8) -> RelaxationResult:
    """Solve the relaxation, to ``tol`` or to the precision that rounding allows.

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
    method = _InteriorPointMethod(problem)
    x = best = method.first
    found, waited, n_iter = method.errors(x), 0, 0
    while n_iter < _MAX_STEPS and not found[-1] <= tol:
        try:
            x = method.advanced(x)
        except LinAlgError:
            break
        n_iter += 1
        errors = method.errors(x)
        waited += 1
        if errors[-1] < found[-1]:
            best, found, waited = x, errors, 0
        elif waited >= _PATIENCE and found[-1] <= _STAGNATION_TOL:
            break
    objective, gap, primal, dual, error = found
    if not error <= _STAGNATION_TOL:
        raise SolverError(
            f"The relaxation of {len(problem.rows)} instances was not solved (residuals "
            f"{primal:.1e} and {dual:.1e}, gap {gap:.1e}): scale the features or lower C."
        )
    v, _, _, _, slacks, _, eta, *_ = method.parts(best)
    # Convert w, or the coefficients of the instances, from units of the largest cost.
    unit = problem.unit
    w = v[:-1] * (unit * problem.signs if problem.is_kernel else np.sqrt(unit))
    scores = np.empty(len(problem.rows))
    scores[problem.rows] = problem.features @ w + v[-1]
    return RelaxationResult(
        w=w,
        intercept=float(v[-1]),
        scores=scores,
        rows=problem.positive_rows,
        slacks=slacks,
        eta=eta,
        value=unit * objective,
        gap=gap * unit,
        primal_residual=primal,
        dual_residual=dual,
        error=error,
        n_iter=n_iter,
    )


class _InteriorPointMethod:
    """The steps of the method, with all slack variables and multipliers positive.

    A point is an array of w and b; l; e; the slack variables of the margins, of l >= 0, l <= s and
    e >= 0, and of the sums if these are inequalities; and the multipliers of all of these and of
    the sums. Vectors in the space of w are given by coefficients of the signed instances if there
    is a kernel matrix.
    """

    def __init__(self, problem: RelaxationProblem) -> None:
        n, p = len(problem.signs), problem.n_positive
        self.problem, self.n, self.p, self.s = problem, n, p, problem.slack_bound
        self.c = problem.costs / problem.unit
        self.bags, self.bag = problem.bag_offsets, segment_index(problem.bag_offsets)
        n_bags = len(self.bags) - 1
        n_sums = 0 if problem.exactly_one else n_bags
        # Signed instances, or their inner products, in units of the largest cost.
        self.Z = problem.features * problem.signs[:, None]
        self.Z *= problem.unit if problem.is_kernel else np.sqrt(problem.unit)
        if problem.is_kernel:
            self.Z *= problem.signs
            self.size = np.sqrt(max(1.0, float(self.Z.diagonal().max())))
        else:
            self.size = max(1.0, float(np.abs(self.Z).max()))
        lengths = [self.Z.shape[1] + 1, n, p, n, n, p, p, n_sums, n, n, p, p, n_bags]
        self.ends = np.cumsum(lengths)
        self.rooms = slice(self.ends[2], self.ends[7])
        self.duals = slice(self.ends[7], self.ends[11] + n_sums)
        self.first, half = np.ones(self.ends[-1]), 0.5 * self.s
        v, slacks, eta, _, lower, upper, least, _, *duals, nu = self.parts(self.first)
        v[:], slacks[:p], eta[:], upper[:] = 0.0, half, 1.0 / np.diff(self.bags)[self.bag], half
        lower[:], least[:] = slacks, eta
        for dual in duals:
            dual[:] = 0.5 * self.c[: len(dual)]
        nu[:] = 0.0 if problem.exactly_one else 1.0

    def parts(self, x: np.ndarray) -> list[np.ndarray]:
        """The 13 parts of a point."""
        return np.split(x, self.ends[:-1])

    def margins(self, v: np.ndarray) -> np.ndarray:
        """Signed scores of the instances."""
        return np.asarray(self.Z @ v[:-1] + v[-1] * self.problem.signs)

    def gradient(self, alpha: np.ndarray) -> np.ndarray:
        """Sums of the signed instances and of the signs with these coefficients."""
        w = alpha if self.problem.is_kernel else self.Z.T @ alpha
        return np.append(w, self.problem.signs @ alpha)

    def residuals(self, x: np.ndarray) -> list[np.ndarray]:
        """The gradient of the Lagrangian in (w, b), l and e; violations of all constraints."""
        p, parts = self.p, self.parts(x)
        v, slacks, eta, *rooms, surplus = parts[:8]
        margins, lower, upper, least, nu = parts[8:]
        of_v = -self.gradient(margins)
        of_v[:-1] += v[:-1]
        of_slacks = self.c - margins - lower
        both = self.c[:p] * (slacks[:p] + eta)
        of_slacks[:p] += both - (1.0 + 0.5 * self.s) * self.c[:p] + upper
        of_eta = both - 0.5 * self.c[:p] - least - nu[self.bag]
        limits = [self.margins(v) + slacks - 1.0, slacks, self.s - slacks[:p], eta]
        violations = np.concatenate(limits) - np.concatenate(rooms)
        sums = segment_sum(eta, self.bags) - 1.0
        if len(surplus):
            sums -= surplus
        return [of_v, of_slacks, of_eta, violations, sums]

    def errors(self, x: np.ndarray) -> tuple[float, float, float, float, float]:
        """Objective, gap, primal and dual residual, and the largest of these with relative gap."""
        of_v, of_slacks, of_eta, violations, sums = self.residuals(x)
        v, slacks, eta, *_ = self.parts(x)
        w, of_w = v[:-1], of_v[:-1]
        is_kernel = self.problem.is_kernel
        square = w @ (self.Z @ w) if is_kernel else w @ w
        losses, above = slacks.copy(), slacks[: self.p]
        losses[: self.p] = 0.5 * (above + eta) ** 2 - 0.5 * self.s * above - 0.5 * eta
        objective = float(0.5 * square + self.c @ losses)
        # The gradient in w is proportional to the features and is divided by their size.
        short = np.sqrt(max(0.0, of_w @ (self.Z @ of_w))) if is_kernel else np.abs(of_w).max()
        gradients = np.concatenate([[max(short, abs(of_v[-1])) / self.size], of_slacks, of_eta])
        gap, dual = float(x[self.rooms] @ x[self.duals]), float(np.abs(gradients).max())
        primal = max(float(np.abs(violations).max()), float(np.abs(sums).max()))
        error = max(gap / (1.0 + abs(objective)), primal, dual)
        return objective, gap, primal, dual, error if np.isfinite(error) else np.inf

    def advanced(self, x: np.ndarray) -> np.ndarray:
        """The point after a step of predictor and corrector."""
        residuals, solve = self.residuals(x), self._newton(x)
        rooms, duals = x[self.rooms], x[self.duals]
        products = rooms * duals
        affine = solve(residuals, -products)
        ahead = x + _length(rooms, duals, affine[self.rooms], affine[self.duals], 1.0) * affine
        total = products.sum()
        target = (ahead[self.rooms] @ ahead[self.duals] / total) ** 3 * total / len(products)
        # Subtract the second-order change of the products in the step of the predictor.
        wanted = target - products - affine[self.rooms] * affine[self.duals]
        step = solve(residuals, wanted)
        # Division by small numbers is inaccurate. Iterative refinement corrects it; all equations
        # except those of the products are affine.
        for _ in range(_REFINEMENTS):
            error = wanted - duals * step[self.rooms] - rooms * step[self.duals]
            step += solve(self.residuals(x + step), error)
        return x + _length(rooms, duals, step[self.rooms], step[self.duals], _BOUNDARY) * step

    def _newton(self, x: np.ndarray) -> Callable[[list[np.ndarray], np.ndarray], np.ndarray]:
        """The Newton system at a point, for given residuals and changes of the products.

        With the quotients D = multiplier/room of the margins, k that of l >= 0 (plus that of
        l <= s) and g that of e >= 0, the unknowns l and e of an instance obey

            [ c + D + k    c   ] [dl]   [ .. - D (y z.dw) ]
            [     c      c + g ] [de] = [ .. + dnu        ]

        so that both are eliminated, and then dnu of each bag. The weights are computed without
        subtractions, to avoid cancellation. With these weights W of the instances and a vector q of
        each bag the matrix that remains is diag(1, .., 1, 0) + Z' W Z + sum_B (Z'q_B)(Z'q_B)'.
        """
        p, c, bags, bag = self.p, self.c[: self.p], self.bags, self.bag
        room, surplus = np.concatenate(self.parts(x)[3:7]), self.parts(x)[7]
        multipliers, nu = np.concatenate(self.parts(x)[8:12]), self.parts(x)[12]
        quotients, kinds = multipliers / room, np.array([self.n, 2 * self.n, 2 * self.n + p])
        D, k, upper, g = np.split(quotients, kinds)
        k = k.copy()
        k[:p] += upper
        inner = k[:p] * (c + g) + c * g
        determinant = D[:p] * (c + g) + inner
        weight = D * k / (D + k)
        weight[:p] = D[:p] * inner / determinant
        # Inverse of the block of an instance: [[own, cross], [cross, other]].
        own = 1.0 / (D + k)
        own[:p] = (c + g) / determinant
        cross, other = -c / determinant, (c + D[:p] + k[:p]) / determinant
        of_bags = segment_sum(other, bags)
        if len(surplus):
            of_bags = of_bags + surplus / nu
        vectors = D[:p] * cross
        reduced = self._reduced(weight, vectors / np.sqrt(of_bags)[bag])

        def solve(residuals: list[np.ndarray], wanted: np.ndarray) -> np.ndarray:
            of_v, of_slacks, of_eta, violations, sums = residuals
            wanted, wanted_sums = np.split(wanted, [len(room)])
            margins, lower, ceiling, least = np.split(wanted / room - quotients * violations, kinds)
            right = margins + lower - of_slacks
            right[:p] -= ceiling
            right_eta, right_bag = least - of_eta, -sums
            if len(surplus):
                right_bag = right_bag + wanted_sums / nu
            at_rest = segment_sum(cross * right[:p] + other * right_eta, bags)
            nu_rest = (right_bag - at_rest) / of_bags
            alpha = margins - D * own * right
            alpha[:p] -= vectors * (right_eta + nu_rest[bag])
            v = reduced(self.gradient(alpha) - of_v)
            moved = self.margins(v)
            by_nu = nu_rest + segment_sum(vectors * moved[:p], bags) / of_bags
            left, forced = right - D * moved, right_eta + by_nu[bag]
            slacks = own * left
            slacks[:p] += cross * forced
            eta = cross * left[:p] + other * forced
            by_room = np.concatenate([moved + slacks, slacks, -slacks[:p], eta]) + violations
            by_surplus = (wanted_sums - surplus * by_nu[: len(surplus)]) / nu[: len(surplus)]
            by_multipliers = (wanted - multipliers * by_room) / room
            return np.concatenate([v, slacks, eta, by_room, by_surplus, by_multipliers, by_nu])

        return solve

    def _reduced(self, weight: np.ndarray, vectors: np.ndarray) -> _Solve:
        """The inverse of the matrix that remains.

        With the rows T, the square roots of the weights and the vectors q of the bags, it is
        diag(1, .., 1, 0) + (T Z)'(T Z).
        """
        signs, p = self.problem.signs, self.p
        heavy = np.flatnonzero(weight > _WEIGHTLESS * weight.max())
        m = len(heavy)
        T = sparse.csr_array(
            (
                np.concatenate([np.sqrt(weight[heavy]), vectors]),
                (
                    np.concatenate([np.arange(m), m + self.bag]),
                    np.concatenate([heavy, np.arange(p)]),
                ),
            ),
            shape=(m + len(self.bags) - 1, self.n),
        )
        rows, ones = T @ self.Z, T @ signs
        if not self.problem.is_kernel:
            rows = np.concatenate([rows, ones[:, None]], axis=1)
            matrix = rows.T @ rows
            matrix[np.arange(len(matrix) - 1), np.arange(len(matrix) - 1)] += 1.0
            if matrix[-1, -1] <= 0:
                matrix[-1, -1] = 1.0
            return partial(cho_solve, _factor(matrix), check_finite=False)
        matrix = np.ascontiguousarray(T @ rows.T)
        matrix[np.arange(len(matrix)), np.arange(len(matrix))] += 1.0
        inverse = partial(cho_solve, _factor(matrix), check_finite=False)
        solved_ones = inverse(ones)
        curvature = float(ones @ solved_ones) or 1.0

        def solve(right: np.ndarray) -> np.ndarray:
            u = inverse(rows @ right[:-1])
            b = (right[-1] - float(ones @ u)) / curvature
            return np.append(right[:-1] - T.T @ (u + b * solved_ones), b)

        return solve


def _factor(matrix: np.ndarray) -> tuple[np.ndarray, bool]:
    """The factor of a positive definite matrix, whose diagonal may be increased."""
    try:
        return cho_factor(matrix.T, lower=True, check_finite=False)  # type: ignore[no-any-return]
    except LinAlgError:
        # Near convergence the ratio of weights may be 1e15.
        matrix[np.diag_indices(len(matrix))] += (
            2.0 * np.finfo(float).eps ** 0.9 * matrix.diagonal().max()
        )
        return cho_factor(matrix.T, lower=True, check_finite=False)  # type: ignore[no-any-return]


def _length(
    rooms: np.ndarray, duals: np.ndarray, by_rooms: np.ndarray, by_duals: np.ndarray, part: float
) -> float:
    """The longest step, at most one, over at most this part of the distance to the boundary."""
    # The largest relative decrease.
    steepest = max(float((-by_rooms / rooms).max()), float((-by_duals / duals).max()))
    return 1.0 if steepest <= part else part / steepest
