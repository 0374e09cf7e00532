"""Interior point method for the relaxation of instance selection (Guo 2009).

A primal-dual method with predictor and corrector (Mehrotra 1992) whose linear systems are reduced
to the size of w: l, e and the multipliers of the bags are eliminated instance by instance and bag
by bag, with the names of :mod:`.relaxation`. On few features (580 instances of 20) a sparse
solver such as PIQP is as quick; with more (1,495 of 150) it takes six times as long, and Clarabel
about twelve times, for they factor the rows of all instances entry by entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ...._bags.segments import segment_index, segment_sum
from ....exceptions import SolverError
from .newton import Found
from .problem import RelaxationProblem

__all__ = ["InteriorPoint", "InteriorPointMethod"]

_MAX_STEPS = 100
_BOUNDARY = 0.995
# Below this error, steps that bring nothing mean that rounding has the last word.
_STAGNATION_TOL = 1e-4
_PATIENCE = 3
_REFINEMENTS = 1


@dataclass
class InteriorPoint:
    """Primal and dual variables, or a direction in them."""

    w: np.ndarray
    b: float
    slacks: np.ndarray  # l
    eta: np.ndarray  # e
    margin_slack: np.ndarray  # of the margins
    upper_slack: np.ndarray  # s - l, kept beside l so that it never rounds to zero
    sum_slack: np.ndarray  # of the sums over bags; empty where they are equations
    alpha: np.ndarray  # multipliers of the margins
    kappa: np.ndarray  # of l >= 0
    upsilon: np.ndarray  # of l <= s
    rho: np.ndarray  # of e >= 0
    nu: np.ndarray  # of the sums over bags

    def plus(self, step: float, by: InteriorPoint) -> InteriorPoint:
        """The point after a step of this length."""
        return InteriorPoint(
            *(x + step * dx for x, dx in zip(self.parts(), by.parts(), strict=True))
        )

    def parts(self) -> tuple[Any, ...]:
        """All variables, in the order of the class."""
        return tuple(vars(self).values())


class InteriorPointMethod:
    """Mehrotra's predictor and corrector, every variable and multiplier above zero throughout."""

    def __init__(self, problem: RelaxationProblem, unit: float) -> None:
        self.p = problem.n_positive
        self.s = problem.slack_bound
        self.y = problem.signs
        self.c = problem.costs / unit
        self.bags = problem.bag_offsets
        self.bag = segment_index(problem.bag_offsets)
        self.exactly_one = problem.exactly_one
        # The unit moves the cost from the slacks to the inner products.
        self.geometry = problem.geometry(unit)
        self.n_iter = 0
        self.gap = self.primal_residual = self.dual_residual = np.inf

    def run(self, tol: float) -> InteriorPoint:
        """Steps until gap and residuals are below ``tol``, or the best that rounding allows."""
        point = self._start()
        best, least, waited = point, np.inf, 0
        for self.n_iter in range(_MAX_STEPS):
            residuals = self._residuals(point)
            error = self._measure(point, residuals)
            if error < least:
                best, least, waited = point, error, 0
            else:
                waited += 1
            if error <= tol or (waited >= _PATIENCE and least <= _STAGNATION_TOL):
                break
            try:
                point = self._advance(point, residuals)
            except LinAlgError:
                break
        self._measure(best, self._residuals(best))
        if not least <= _STAGNATION_TOL:
            raise SolverError(
                f"The relaxation of {len(self.y)} instances was not solved (residuals "
                f"{self.primal_residual:.1e} and {self.dual_residual:.1e}, gap {self.gap:.1e}): "
                "scale the features or lower C."
            )
        return best

    def found(self, point: InteriorPoint) -> Found:
        """A point with the residuals of the last measurement."""
        gap, primal, dual = self.gap, self.primal_residual, self.dual_residual
        error = max(gap, primal, dual)
        return Found(point.w, point.b, point.slacks, point.eta, gap, primal, dual, error)

    def _start(self) -> InteriorPoint:
        n, p, n_bags = len(self.y), self.p, len(self.bags) - 1
        slacks = np.concatenate([np.full(p, 0.5 * self.s), np.ones(n - p)])
        sizes = np.diff(self.bags)
        one = np.ones
        sum_slack = np.zeros(0) if self.exactly_one else one(n_bags)
        return InteriorPoint(
            w=np.zeros(self.geometry.width),
            b=0.0,
            slacks=slacks,
            eta=1.0 / sizes[self.bag],
            margin_slack=one(n),
            upper_slack=np.full(p, 0.5 * self.s),
            sum_slack=sum_slack,
            alpha=0.5 * self.c,
            kappa=0.5 * self.c,
            upsilon=0.5 * self.c[:p],
            rho=0.5 * self.c[:p],
            nu=np.zeros(n_bags) if self.exactly_one else one(n_bags),
        )

    def _residuals(self, x: InteriorPoint) -> tuple[np.ndarray, ...]:
        """Gradient of the Lagrangian in (w, b), l and e; violation of margins and of sums."""
        p = self.p
        omega = np.append(x.w, 0.0) - self.geometry.times_rows(x.alpha)
        gradient = self.c.copy()
        gradient[:p] *= x.slacks[:p] + x.eta - 0.5 * self.s
        gradient -= x.alpha + x.kappa
        gradient[:p] += x.upsilon
        eta = self.c[:p] * (x.slacks[:p] + x.eta - 0.5) - x.rho - x.nu[self.bag]
        margin = self.geometry.rows_times(np.append(x.w, x.b)) - 1.0 + x.slacks - x.margin_slack
        sums = segment_sum(x.eta, self.bags) - 1.0
        if not self.exactly_one:
            sums -= x.sum_slack
        return omega, gradient, eta, margin, sums

    def _complementarity(self, x: InteriorPoint) -> float:
        return float(sum(part.sum() for part in self._products(x, x)))

    def _measure(self, x: InteriorPoint, residuals: tuple[np.ndarray, ...]) -> float:
        """Store gap and residuals; the largest of them, the gap as a share of the objective."""
        omega, gradient, eta, margin, sums = residuals
        p = self.p
        both = x.slacks[:p] + x.eta
        bags = 0.5 * both**2 - 0.5 * self.s * x.slacks[:p] - 0.5 * x.eta
        square = self.geometry.square(x.w)
        objective = float(0.5 * square + self.c[:p] @ bags + self.c[p:] @ x.slacks[p:])
        self.gap = self._complementarity(x)
        self.primal_residual = float(max(np.abs(margin).max(), np.abs(sums).max()))
        # The gradient in (w, b) grows with the features: it is judged by their size.
        self.dual_residual = float(
            max(
                self.geometry.residual(omega),
                np.abs(gradient).max(),
                np.abs(eta).max(),
            )
        )
        error = max(
            self.gap / (1.0 + abs(objective)),
            self.primal_residual,
            self.dual_residual,
        )
        return error if np.isfinite(error) else np.inf

    def _advance(self, x: InteriorPoint, residuals: tuple[np.ndarray, ...]) -> InteriorPoint:
        system = _Reduced(self, x)
        products = self._products(x, x)
        mu = self._complementarity(x) / sum(map(len, products))
        affine = system.direction(residuals, tuple(-part for part in products), refinements=0)
        ahead = x.plus(self._length(x, affine, 1.0), affine)
        target = (self._complementarity(ahead) / self._complementarity(x)) ** 3 * mu
        # What the predictor's step would add to the products in second order is taken off.
        second = self._products(affine, affine)
        wanted = tuple(
            target - first - extra for first, extra in zip(products, second, strict=True)
        )
        step = system.direction(residuals, wanted)
        return x.plus(self._length(x, step, _BOUNDARY), step)

    def _products(self, x: InteriorPoint, by: InteriorPoint) -> tuple[np.ndarray, ...]:
        """Multipliers of the first point times the constraints of the second."""
        parts = (
            x.alpha * by.margin_slack,
            x.kappa * by.slacks,
            x.upsilon * by.upper_slack,
            x.rho * by.eta,
        )
        return parts if self.exactly_one else (*parts, x.nu * by.sum_slack)

    def _length(self, x: InteriorPoint, by: InteriorPoint, part: float) -> float:
        """The longest step, up to one, that goes at most this part of the way to the boundary."""
        pairs = [
            (x.margin_slack, by.margin_slack),
            (x.slacks, by.slacks),
            (x.upper_slack, by.upper_slack),
            (x.eta, by.eta),
            (x.alpha, by.alpha),
            (x.kappa, by.kappa),
            (x.upsilon, by.upsilon),
            (x.rho, by.rho),
        ]
        if not self.exactly_one:
            pairs += [(x.sum_slack, by.sum_slack), (x.nu, by.nu)]
        # The steepest relative decrease; zero where everything grows.
        steepest = max(float((-change / value).max()) for value, change in pairs)
        return 1.0 if steepest <= part else part / steepest


class _Reduced:
    """The Newton system at a point, factored once for predictor and corrector.

    With the quotients D = alpha/margin_slack, k = kappa/l (+ upsilon/(s - l)) and g = rho/e the
    unknowns l and e of an instance obey

        [ c + D + k    c   ] [dl]   [ .. - D (y z.dw) ]
        [     c      c + g ] [de] = [ .. + dnu        ]

    so that both, then dnu of each bag, are eliminated. Written out, nothing is subtracted.
    """

    def __init__(self, method: InteriorPointMethod, x: InteriorPoint) -> None:
        self.of, self.x = method, x
        p = method.p
        self.D = x.alpha / x.margin_slack
        k = x.kappa / x.slacks
        weight = np.empty_like(self.D)
        weight[p:] = self.D[p:] * k[p:] / (self.D[p:] + k[p:])
        self.k_negative = self.D[p:] + k[p:]
        c, D = method.c[:p], self.D[:p]
        k_bag = k[:p] + x.upsilon / x.upper_slack
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
            self.sums = self.sums + x.sum_slack / x.nu
        self.pull = D * self.cross
        self.system = method.geometry.system(
            weight, self.pull / np.sqrt(self.sums)[method.bag], method.bags
        )

    def direction(
        self,
        residuals: tuple[np.ndarray, ...],
        wanted: tuple[np.ndarray, ...],
        refinements: int = _REFINEMENTS,
    ) -> InteriorPoint:
        """The Newton direction that takes the residuals to zero and changes products as wanted.

        Divisions by what is nearly zero lose digits; solving once more for what is left of the
        equations brings them back. A predictor does without.
        """
        found = self._solve(residuals, wanted)
        for _ in range(refinements):
            found = found.plus(1.0, self._solve(*self._left(found, residuals, wanted)))
        return found

    def _left(
        self, by: InteriorPoint, residuals: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]
    ) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        of, x, p = self.of, self.x, self.of.p
        omega, gradient, eta, margin, sums = residuals
        both = of.c[:p] * (by.slacks[:p] + by.eta)
        gradient = gradient - by.alpha - by.kappa
        gradient[:p] += both + by.upsilon
        sums = sums + segment_sum(by.eta, of.bags)
        left = (
            omega + np.append(by.w, 0.0) - of.geometry.times_rows(by.alpha),
            gradient,
            eta + both - by.rho - by.nu[of.bag],
            margin + of.geometry.rows_times(np.append(by.w, by.b)) + by.slacks - by.margin_slack,
            sums if of.exactly_one else sums - by.sum_slack,
        )
        changes = zip(wanted, of._products(x, by), of._products(by, x), strict=True)
        return left, tuple(want - one - two for want, one, two in changes)

    def _solve(
        self, residuals: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]
    ) -> InteriorPoint:
        of, x, p = self.of, self.x, self.of.p
        omega, gradient, eta, margin, sums = residuals
        want_alpha, want_kappa, want_upsilon, want_rho = wanted[:4]
        fixed = want_alpha / x.margin_slack - self.D * margin
        right = fixed - gradient + want_kappa / x.slacks
        right[:p] -= want_upsilon / x.upper_slack
        right_eta = want_rho / x.eta - eta
        right_bag = -sums if of.exactly_one else wanted[4] / x.nu - sums
        own, cross, other = self.own, self.cross, self.other
        at_rest = segment_sum(cross * right[:p] + other * right_eta, of.bags)
        nu_rest = (right_bag - at_rest) / self.sums

        alpha = fixed.copy()
        alpha[p:] -= self.D[p:] * right[p:] / self.k_negative
        alpha[:p] -= self.D[:p] * (own * right[:p] + cross * right_eta)
        alpha[:p] -= self.pull * nu_rest[of.bag]
        step = self.system(of.geometry.times_rows(alpha) - omega)

        moved = of.geometry.rows_times(step)
        nu = nu_rest + segment_sum(self.pull * moved[:p], of.bags) / self.sums
        left = right - self.D * moved
        slacks = np.empty_like(left)
        slacks[p:] = left[p:] / self.k_negative
        forced = right_eta + nu[of.bag]
        slacks[:p] = own * left[:p] + cross * forced
        eta_step = cross * left[:p] + other * forced
        margin_slack = moved + slacks + margin
        return InteriorPoint(
            w=step[:-1],
            b=float(step[-1]),
            slacks=slacks,
            eta=eta_step,
            margin_slack=margin_slack,
            upper_slack=-slacks[:p],
            sum_slack=np.zeros(0) if of.exactly_one else (wanted[4] - x.sum_slack * nu) / x.nu,
            alpha=(want_alpha - x.alpha * margin_slack) / x.margin_slack,
            kappa=(want_kappa - x.kappa * slacks) / x.slacks,
            upsilon=(want_upsilon + x.upsilon * slacks[:p]) / x.upper_slack,
            rho=(want_rho - x.rho * eta_step) / x.eta,
            nu=nu,
        )
