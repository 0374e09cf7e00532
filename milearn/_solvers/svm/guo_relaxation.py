"""The semidefinite relaxation of instance selection (Guo 2009, with a bound on the slacks).

For the instances of positive bags (first) and of negative ones, with costs c_i, a bound s on the
slacks of the first and f(x) = w.z + b:

    min  1/2 |w|^2 + sum_pos c_i ( 1/2 (l_i + e_i)^2 - s/2 l_i - 1/2 e_i ) + sum_neg c_i l_i
    s.t. y_i f(x_i) >= 1 - l_i,  l >= 0,  l_pos <= s,  e >= 0,
         sum of e over each positive bag = 1, or >= 1

The upper limit 1 of e needs no constraint: where a sum is 1 it is implied, and where a sum is
above 1 its multiplier is zero and every e_i of the bag at most 1/2.

It is solved by a primal-dual interior point method (Mehrotra 1992) whose linear systems are
reduced to the size of w: l, e and the multipliers of the bags are eliminated instance by instance
and bag by bag. A general sparse solver takes ten to twenty times as long, for it factors the rows
of all instances entry by entry; ``qp_solver`` names one all the same, for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import qpsolvers
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..._bags.segments import gather_rows, segment_index, segment_sum
from ...exceptions import SolverError
from ..common.qp import call_backend, check_qp_solver, sparse_columns

__all__ = ["RelaxationProblem", "RelaxationResult", "solve_relaxation"]

_MOST_STEPS = 100
_BOUNDARY = 0.995
# Below this error, steps that bring nothing mean that rounding has the last word.
_STAGNANT = 1e-4
_PATIENCE = 3
_REFINEMENTS = 1
# A row of less weight than this, beside the heaviest, is lost in rounding anyway.
_WEIGHTLESS = 1e-15


class RelaxationProblem:
    """The data in the order of the relaxation: instances of positive bags, then the others.

    Parameters
    ----------
    features : ndarray of shape (n_instances, r)
        Vectors with the inner products of the kernel.
    offsets : ndarray of shape (n_bags + 1,)
    signs : ndarray of shape (n_bags,), +1.0 or -1.0
    weights : ndarray of shape (n_bags,), the costs, above zero
    slack_bound : float, above zero
    exactly_one : bool
        Whether the e_i of a bag sum to one, or to one at least.
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
    ) -> None:
        positive = np.flatnonzero(signs > 0)
        self.positive_rows, self.bag_offsets = gather_rows(offsets, positive)
        self.negative_rows, _ = gather_rows(offsets, np.flatnonzero(signs < 0))
        self.rows = np.concatenate([self.positive_rows, self.negative_rows])
        self.n_positive = len(self.positive_rows)
        self.features = features[self.rows]
        self.signs = np.where(np.arange(len(self.rows)) < self.n_positive, 1.0, -1.0)
        self.costs = weights[segment_index(offsets)][self.rows]
        self.slack_bound = float(slack_bound)
        self.exactly_one = exactly_one

    def value(self, w: np.ndarray, slacks: np.ndarray, eta: np.ndarray) -> float:
        """The objective above."""
        p = self.n_positive
        above, costs = slacks[:p], self.costs[:p]
        bags = 0.5 * (above + eta) ** 2 - 0.5 * self.slack_bound * above - 0.5 * eta
        return float(0.5 * w @ w + costs @ bags + self.costs[p:] @ slacks[p:])


@dataclass
class RelaxationResult:
    """A solution of the relaxation with the residuals of its optimality conditions.

    Attributes
    ----------
    w, intercept : ndarray of shape (r,) and float
    scores : ndarray of shape (n_instances,)
        Scores in the order of the instances as they were given, with the intercept.
    rows : ndarray of int
        The instances of positive bags, in the order of ``eta`` and first in ``slacks``.
    slacks : ndarray of shape (n_instances,), instances of positive bags first
    eta : ndarray of shape (n_positive_instances,)
    value : float
        The objective.
    gap : float
        Its distance from the value of the dual.
    primal_residual, dual_residual : float
        Largest violation of a constraint, and largest entry of the gradient of the Lagrangian
        as a share of the largest cost.
    unit : float
        The largest cost.
    n_iter : int
    solver : str
    """

    w: np.ndarray
    intercept: float
    scores: np.ndarray
    rows: np.ndarray
    slacks: np.ndarray
    eta: np.ndarray
    value: float
    gap: float
    primal_residual: float
    dual_residual: float
    unit: float
    n_iter: int
    solver: str

    @property
    def error(self) -> float:
        """The largest of residuals and gap, the gap as a share of objective plus largest cost."""
        gap = self.gap / (self.unit + abs(self.value))
        return max(gap, self.primal_residual, self.dual_residual)


def solve_relaxation(
    problem: RelaxationProblem, *, tol: float = 1e-8, qp_solver: str | None = None
) -> RelaxationResult:
    """Solve the relaxation.

    Parameters
    ----------
    problem : RelaxationProblem
    tol : float, default=1e-8
        Duality gap as a share of the objective (plus the largest cost), and residuals.
    qp_solver : str, default=None
        A backend of qpsolvers that takes sparse matrices, instead of the method of this module.

    Raises
    ------
    SolverError
        When no solution is found.
    """
    if qp_solver is not None:
        return _by_backend(problem, tol, check_qp_solver(qp_solver))
    # In units of the largest cost all multipliers are of order one.
    unit = float(problem.costs.max())
    method = _InteriorPoint(problem, unit)
    best = method.run(tol)
    w = best.w * np.sqrt(unit)
    return RelaxationResult(
        w=w,
        intercept=best.b,
        scores=_in_order(problem, problem.features @ w + best.b),
        rows=problem.positive_rows,
        slacks=best.slacks,
        eta=best.eta,
        value=problem.value(w, best.slacks, best.eta),
        gap=method.gap * unit,
        primal_residual=method.primal_residual,
        dual_residual=method.dual_residual,
        unit=unit,
        n_iter=method.n_iter,
        solver="interior-point",
    )


def _in_order(problem: RelaxationProblem, values: np.ndarray) -> np.ndarray:
    ordered = np.empty(len(values))
    ordered[problem.rows] = values
    return ordered


@dataclass
class _Point:
    """Primal and dual variables, or a direction in them."""

    w: np.ndarray
    b: float
    slacks: np.ndarray  # l
    eta: np.ndarray  # e
    surplus: np.ndarray  # of the margins
    room: np.ndarray  # s - l, kept beside l so that it never rounds to zero
    excess: np.ndarray  # of the sums over bags; empty where they are equations
    alpha: np.ndarray  # multipliers of the margins
    kappa: np.ndarray  # of l >= 0
    upsilon: np.ndarray  # of l <= s
    rho: np.ndarray  # of e >= 0
    nu: np.ndarray  # of the sums over bags

    def moved(self, step: float, by: _Point) -> _Point:
        return _Point(*(x + step * dx for x, dx in zip(self.parts(), by.parts(), strict=True)))

    def parts(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())


class _InteriorPoint:
    """Mehrotra's predictor and corrector, every variable and multiplier above zero throughout."""

    def __init__(self, problem: RelaxationProblem, unit: float) -> None:
        self.p = problem.n_positive
        self.s = problem.slack_bound
        self.y = problem.signs
        self.c = problem.costs / unit
        self.bags = problem.bag_offsets
        self.bag = segment_index(problem.bag_offsets)
        self.exactly_one = problem.exactly_one
        n, r = problem.features.shape
        # Signed rows (z, 1); sqrt(unit) moves the cost from the slacks to the features.
        self.Z = np.empty((n, r + 1))
        np.multiply(problem.features, np.sqrt(unit), out=self.Z[:, :r])
        self.Z[:, r] = 1.0
        self.Z *= self.y[:, None]
        self.n_iter = 0
        self.gap = self.primal_residual = self.dual_residual = np.inf

    def run(self, tol: float) -> _Point:
        """Steps until gap and residuals are below ``tol``, or the best that rounding allows."""
        point = self._start()
        best, least, waited = point, np.inf, 0
        for self.n_iter in range(_MOST_STEPS):
            residuals = self._residuals(point)
            error = self._measure(point, residuals)
            if error < least:
                best, least, waited = point, error, 0
            else:
                waited += 1
            if error <= tol or (waited >= _PATIENCE and least <= _STAGNANT):
                break
            try:
                point = self._advance(point, residuals)
            except LinAlgError:
                break
        self._measure(best, self._residuals(best))
        if not least <= _STAGNANT:
            raise SolverError(
                f"The relaxation of {len(self.y)} instances was not solved (residuals "
                f"{self.primal_residual:.1e} and {self.dual_residual:.1e}, gap {self.gap:.1e}): "
                "scale the features or lower C."
            )
        return best

    def _start(self) -> _Point:
        n, p, n_bags = len(self.y), self.p, len(self.bags) - 1
        slacks = np.concatenate([np.full(p, 0.5 * self.s), np.ones(n - p)])
        sizes = np.diff(self.bags)
        one = np.ones
        excess = np.zeros(0) if self.exactly_one else one(n_bags)
        return _Point(
            w=np.zeros(self.Z.shape[1] - 1),
            b=0.0,
            slacks=slacks,
            eta=1.0 / sizes[self.bag],
            surplus=one(n),
            room=np.full(p, 0.5 * self.s),
            excess=excess,
            alpha=0.5 * self.c,
            kappa=0.5 * self.c,
            upsilon=0.5 * self.c[:p],
            rho=0.5 * self.c[:p],
            nu=np.zeros(n_bags) if self.exactly_one else one(n_bags),
        )

    def _residuals(self, x: _Point) -> tuple[np.ndarray, ...]:
        """Gradient of the Lagrangian in (w, b), l and e; violation of margins and of sums."""
        p = self.p
        omega = np.append(x.w, 0.0) - self.Z.T @ x.alpha
        slope = self.c.copy()
        slope[:p] *= x.slacks[:p] + x.eta - 0.5 * self.s
        slope -= x.alpha + x.kappa
        slope[:p] += x.upsilon
        eta = self.c[:p] * (x.slacks[:p] + x.eta - 0.5) - x.rho - x.nu[self.bag]
        margin = self.Z @ np.append(x.w, x.b) - 1.0 + x.slacks - x.surplus
        sums = segment_sum(x.eta, self.bags) - 1.0
        if not self.exactly_one:
            sums -= x.excess
        return omega, slope, eta, margin, sums

    def _complementarity(self, x: _Point) -> float:
        return float(sum(part.sum() for part in self._products(x, x)))

    def _measure(self, x: _Point, residuals: tuple[np.ndarray, ...]) -> float:
        """Store gap and residuals; the largest of them, the gap as a share of the objective."""
        omega, slope, eta, margin, sums = residuals
        p = self.p
        both = x.slacks[:p] + x.eta
        bags = 0.5 * both**2 - 0.5 * self.s * x.slacks[:p] - 0.5 * x.eta
        objective = float(0.5 * x.w @ x.w + self.c[:p] @ bags + self.c[p:] @ x.slacks[p:])
        self.gap = self._complementarity(x)
        self.primal_residual = float(max(np.abs(margin).max(), np.abs(sums).max()))
        # The gradient in (w, b) grows with the features: it is judged by their size.
        self.dual_residual = float(
            max(
                np.abs(omega).max() / max(1.0, np.abs(self.Z).max()),
                np.abs(slope).max(),
                np.abs(eta).max(),
            )
        )
        error = max(
            self.gap / (1.0 + abs(objective)),
            self.primal_residual,
            self.dual_residual,
        )
        return error if np.isfinite(error) else np.inf

    def _advance(self, x: _Point, residuals: tuple[np.ndarray, ...]) -> _Point:
        system = _Reduced(self, x)
        products = self._products(x, x)
        mu = self._complementarity(x) / sum(map(len, products))
        affine = system.direction(residuals, tuple(-part for part in products))
        ahead = x.moved(self._length(x, affine, 1.0), affine)
        target = (self._complementarity(ahead) / self._complementarity(x)) ** 3 * mu
        # What the predictor's step would add to the products in second order is taken off.
        second = self._products(affine, affine)
        wanted = tuple(
            target - first - extra for first, extra in zip(products, second, strict=True)
        )
        step = system.direction(residuals, wanted)
        return x.moved(self._length(x, step, _BOUNDARY), step)

    def _products(self, x: _Point, by: _Point) -> tuple[np.ndarray, ...]:
        """Multipliers of the first point times the constraints of the second."""
        parts = (
            x.alpha * by.surplus,
            x.kappa * by.slacks,
            x.upsilon * by.room,
            x.rho * by.eta,
        )
        return parts if self.exactly_one else (*parts, x.nu * by.excess)

    def _length(self, x: _Point, by: _Point, share: float) -> float:
        """The longest step, up to one, that keeps a share of the way to the boundary."""
        pairs = [
            (x.surplus, by.surplus),
            (x.slacks, by.slacks),
            (x.room, by.room),
            (x.eta, by.eta),
            (x.alpha, by.alpha),
            (x.kappa, by.kappa),
            (x.upsilon, by.upsilon),
            (x.rho, by.rho),
        ]
        if not self.exactly_one:
            pairs += [(x.excess, by.excess), (x.nu, by.nu)]
        # The steepest relative decrease; zero where everything grows.
        steepest = max(float((-change / value).max()) for value, change in pairs)
        return 1.0 if steepest <= share else share / steepest


class _Reduced:
    """The Newton system at a point, factored once for predictor and corrector.

    With the quotients D = alpha/surplus, k = kappa/l (+ upsilon/(s - l)) and g = rho/e the
    unknowns l and e of an instance obey

        [ c + D + k    c   ] [dl]   [ .. - D (y z.dw) ]
        [     c      c + g ] [de] = [ .. + dnu        ]

    so that both, then dnu of each bag, are eliminated. Written out, nothing is subtracted.
    """

    def __init__(self, method: _InteriorPoint, x: _Point) -> None:
        self.of, self.x = method, x
        p = method.p
        self.D = x.alpha / x.surplus
        k = x.kappa / x.slacks
        weight = np.empty_like(self.D)
        weight[p:] = self.D[p:] * k[p:] / (self.D[p:] + k[p:])
        self.k_negative = self.D[p:] + k[p:]
        c, D = method.c[:p], self.D[:p]
        k_bag = k[:p] + x.upsilon / x.room
        g = x.rho / x.eta
        h_eta = c + g
        determinant = (D + k_bag) * h_eta + c * g
        weight[:p] = D * (k_bag * h_eta + c * g) / determinant
        # Inverse of the block of an instance: [[own, cross], [cross, other]].
        self.own = h_eta / determinant
        self.cross = -c / determinant
        self.other = (c + D + k_bag) / determinant
        self.sums = segment_sum(self.other, method.bags)
        if not method.exactly_one:
            self.sums = self.sums + x.excess / x.nu
        self.pull = D * self.cross
        heavy = weight > _WEIGHTLESS * weight.max()
        rows = method.Z[heavy] * np.sqrt(weight[heavy])[:, None]
        bags = segment_sum(self.pull[:, None] * method.Z[:p], method.bags)
        self.bags = bags / np.sqrt(self.sums)[:, None]
        matrix = rows.T @ rows + self.bags.T @ self.bags
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:-1] += 1.0
        try:
            self.factor = cho_factor(matrix, check_finite=False)
        except LinAlgError:
            # Near the end the weights differ by fifteen digits.
            diagonal += 1e-14 * diagonal.max()
            self.factor = cho_factor(matrix, overwrite_a=True, check_finite=False)

    def direction(
        self, residuals: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]
    ) -> _Point:
        """The Newton direction that takes the residuals to zero and changes products as wanted.

        Divisions by what is nearly zero lose digits; solving once more for what is left of the
        equations brings them back.
        """
        found = self._solve(residuals, wanted)
        for _ in range(_REFINEMENTS):
            found = found.moved(1.0, self._solve(*self._left(found, residuals, wanted)))
        return found

    def _left(
        self, by: _Point, residuals: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]
    ) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        of, x, p = self.of, self.x, self.of.p
        omega, slope, eta, margin, sums = residuals
        both = of.c[:p] * (by.slacks[:p] + by.eta)
        slope = slope - by.alpha - by.kappa
        slope[:p] += both + by.upsilon
        sums = sums + segment_sum(by.eta, of.bags)
        left = (
            omega + np.append(by.w, 0.0) - of.Z.T @ by.alpha,
            slope,
            eta + both - by.rho - by.nu[of.bag],
            margin + of.Z @ np.append(by.w, by.b) + by.slacks - by.surplus,
            sums if of.exactly_one else sums - by.excess,
        )
        changes = zip(wanted, of._products(x, by), of._products(by, x), strict=True)
        return left, tuple(want - one - two for want, one, two in changes)

    def _solve(self, residuals: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]) -> _Point:
        of, x, p = self.of, self.x, self.of.p
        omega, slope, eta, margin, sums = residuals
        want_alpha, want_kappa, want_upsilon, want_rho = wanted[:4]
        fixed = want_alpha / x.surplus - self.D * margin
        right = fixed - slope + want_kappa / x.slacks
        right[:p] -= want_upsilon / x.room
        right_eta = want_rho / x.eta - eta
        right_bag = -sums if of.exactly_one else wanted[4] / x.nu - sums
        own, cross, other = self.own, self.cross, self.other
        at_rest = segment_sum(cross * right[:p] + other * right_eta, of.bags)
        nu_rest = (right_bag - at_rest) / self.sums

        alpha = fixed.copy()
        alpha[p:] -= self.D[p:] * right[p:] / self.k_negative
        alpha[:p] -= self.D[:p] * (own * right[:p] + cross * right_eta)
        alpha[:p] -= self.pull * nu_rest[of.bag]
        step = cho_solve(self.factor, of.Z.T @ alpha - omega, check_finite=False)

        moved = of.Z @ step
        nu = nu_rest + segment_sum(self.pull * moved[:p], of.bags) / self.sums
        left = right - self.D * moved
        slacks = np.empty_like(left)
        slacks[p:] = left[p:] / self.k_negative
        forced = right_eta + nu[of.bag]
        slacks[:p] = own * left[:p] + cross * forced
        eta_step = cross * left[:p] + other * forced
        surplus = moved + slacks + margin
        return _Point(
            w=step[:-1],
            b=float(step[-1]),
            slacks=slacks,
            eta=eta_step,
            surplus=surplus,
            room=-slacks[:p],
            excess=np.zeros(0) if of.exactly_one else (wanted[4] - x.excess * nu) / x.nu,
            alpha=(want_alpha - x.alpha * surplus) / x.surplus,
            kappa=(want_kappa - x.kappa * slacks) / x.slacks,
            upsilon=(want_upsilon + x.upsilon * slacks[:p]) / x.room,
            rho=(want_rho - x.rho * eta_step) / x.eta,
            nu=nu,
        )


# -- by a general solver -------------------------------------------------------------------------


def sparse_program(problem: RelaxationProblem) -> qpsolvers.Problem:
    """The relaxation as a sparse quadratic program in (w, b, l, e)."""
    n, r = problem.features.shape
    p, n_bags = problem.n_positive, len(problem.bag_offsets) - 1
    c = problem.costs
    width = r + 1 + n + p
    # The square of l + e: each with itself and each with the other.
    both = np.r_[r + 1 : r + 1 + p, r + 1 + n : width]
    rows = np.concatenate([np.arange(r), both, both])
    columns = np.concatenate([np.arange(r), both, np.roll(both, p)])
    entries = np.concatenate([np.ones(r), np.tile(c[:p], 4)])
    P = sparse.coo_array((entries, (rows, columns)), (width, width))
    q = np.concatenate([np.zeros(r + 1), -0.5 * problem.slack_bound * c[:p], c[p:], -0.5 * c[:p]])
    signed = np.column_stack([problem.features, np.ones(n)]) * problem.signs[:, None]
    G = sparse.hstack([-signed, -sparse.eye_array(n), sparse.coo_array((n, p))])
    h = -np.ones(n)
    members = sparse.csr_array((np.ones(p), np.arange(p), problem.bag_offsets), (n_bags, p))
    sums = sparse.hstack([sparse.coo_array((n_bags, r + 1 + n)), members])
    lower = np.concatenate([np.full(r + 1, -np.inf), np.zeros(n + p)])
    upper = np.full(width, np.inf)
    upper[r + 1 : r + 1 + p] = problem.slack_bound
    if problem.exactly_one:
        A, b = sparse_columns(sums), np.ones(n_bags)
    else:
        A, b = None, None
        G, h = sparse.vstack([G, -sums]), np.concatenate([h, -np.ones(n_bags)])
    return qpsolvers.Problem(sparse_columns(P), q, sparse_columns(G), h, A, b, lb=lower, ub=upper)


def _by_backend(problem: RelaxationProblem, tol: float, solver: str) -> RelaxationResult:
    program = sparse_program(problem)
    solution = call_backend(program, solver, tol)
    if solution.x is None or not solution.found:
        raise SolverError(
            f"The relaxation of {len(problem.rows)} instances was not solved by {solver}: scale "
            "the features, lower C, or leave qp_solver out."
        )
    n, r = problem.features.shape
    unit = float(problem.costs.max())
    x = solution.x
    slacks, eta = x[r + 1 : r + 1 + n], x[r + 1 + n :]
    return RelaxationResult(
        w=x[:r],
        intercept=float(x[r]),
        scores=_in_order(problem, problem.features @ x[:r] + x[r]),
        rows=problem.positive_rows,
        slacks=slacks,
        eta=eta,
        value=problem.value(x[:r], slacks, eta),
        gap=float(solution.duality_gap()),
        primal_residual=float(solution.primal_residual()),
        dual_residual=float(solution.dual_residual()) / unit,
        unit=unit,
        n_iter=0,
        solver=solver,
    )
