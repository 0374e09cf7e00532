r"""The 1-norm support vector machine of many bags by an interior point method.

The program of :mod:`.one_norm` over some features, where Z has the entries y_i s_ik, and its dual:

    min  sum_k (u_k + v_k) + c'xi    s.t.  Z (u - v) + y b + xi - tau = 1,   u, v, xi, tau >= 0,
    max  sum_i a_i    s.t.  Z'a + p = 1,  -Z'a + q = 1,  y'a = 0,  a + t = c,   a, t, p, q >= 0.

Newton steps (Mehrotra 1992) eliminate all but w = u - v and b: a system of the number of features.
Between two steps, features are added whose constraint the multipliers a violate, and features that
are not likely to be used are removed. Multipliers that are scaled to be feasible for all features
give the lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

from ..common.cccp import optimal_intercept

_BOUNDARY = 0.99
_MAX_STEPS = 200
# Steps without progress of the gap after which rounding is the reason.
_PATIENCE = 25
_PROGRESS = 0.95
_FEATURES_PER_STEP = 50
# The barrier parameter as a fraction of the gap over all features.
_AHEAD = 0.1
# Features are idle if their weights are at most this fraction of the largest one, and their
# constraint has at least this slack. They are removed if they are a fifth of all.
_IDLE, _IDLE_SLACK, _IDLE_SHARE = 1e-4, 0.05, 0.2


@dataclass
class InteriorWeights:
    """Weights and bounds."""

    # Of shape (n_features,).
    coef: np.ndarray
    # Of the dual at multipliers that are feasible for all features.
    lower_bound: float
    # Number of Newton steps.
    n_iter: int


@dataclass
class _Point:
    """An iterate, which is positive except for b, or a direction."""

    u: np.ndarray
    v: np.ndarray
    p: np.ndarray
    q: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    t: np.ndarray
    xi: np.ndarray
    b: float

    def pairs(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        return (self.u, self.p), (self.v, self.q), (self.a, self.tau), (self.t, self.xi)

    def length(self, by: _Point) -> float:
        """The longest step, at most one, that stays away from the boundary."""
        steepest = max(
            float((-change / value).max(initial=0.0))
            for values, changes in zip(self.pairs(), by.pairs(), strict=True)
            for value, change in zip(values, changes, strict=True)
        )
        return 1.0 if steepest <= _BOUNDARY else _BOUNDARY / steepest

    def plus(self, step: float, by: _Point) -> _Point:
        return _Point(*(getattr(self, f.name) + step * getattr(by, f.name) for f in fields(self)))

    def gap(self) -> float:
        return float(sum(one @ other for one, other in self.pairs()))

    @property
    def size(self) -> int:
        return 2 * (len(self.u) + len(self.a))

    def keep(self, kept: np.ndarray) -> None:
        """Remove all other features."""
        self.u, self.v, self.p, self.q = self.u[kept], self.v[kept], self.p[kept], self.q[kept]


class _Search:
    """The features of the program, the iterate and the bound."""

    def __init__(self, rows: np.ndarray, signs: np.ndarray, costs: np.ndarray) -> None:
        self.rows, self.signs, self.costs = rows, signs, costs
        n = len(signs)
        positive = signs > 0
        less = min(costs[positive].sum(), costs[~positive].sum())
        share = np.where(positive, less / costs[positive].sum(), less / costs[~positive].sum())
        a = 0.5 * share * costs
        a /= max(1.0, np.abs((a * signs) @ rows).max(initial=0.0))
        none = np.zeros(0)
        self.at = _Point(none, none, none, none, a, np.ones(n), costs - a, np.ones(n), 0.0)
        self.features = np.zeros(0, dtype=np.intp)
        self.Z = np.zeros((n, 0), order="F")
        self.bound = 0.0
        self.best_value, self.best = np.inf, np.zeros(0)
        self.best_features = self.features

    # -- the data of all features ------------------------------------------------------------------

    def price(self) -> bool:
        """Update the bound, add violated features, and return whether there were any."""
        a = np.clip(self.at.a, 0.0, self.costs)
        sides = [float(a[self.signs == sign].sum()) for sign in (1.0, -1.0)]
        a *= min(sides) / np.where(self.signs > 0, *sides)
        products = np.abs((a * self.signs) @ self.rows)
        self.bound = max(self.bound, float(a.sum()) / max(1.0, products.max(initial=0.0)))
        products[self.features] = 0.0
        order = np.argsort(-products, kind="stable")[:_FEATURES_PER_STEP]
        new = order[products[order] > 1.0]
        if len(new):
            self._add(new)
        return bool(len(new))

    def _add(self, new: np.ndarray) -> None:
        at, mu = self.at, self.mu
        columns = self.signs[:, None] * self.rows[:, new]
        self.Z = np.asfortranarray(np.concatenate([self.Z, columns], axis=1))
        self.features = np.concatenate([self.features, new])
        products = columns.T @ at.a
        p, q = (np.maximum(np.abs(1.0 - s * products), np.sqrt(mu)) for s in (1.0, -1.0))
        at.p, at.q = np.concatenate([at.p, p]), np.concatenate([at.q, q])
        at.u, at.v = np.concatenate([at.u, mu / p]), np.concatenate([at.v, mu / q])

    def drop_idle(self) -> None:
        """Remove the features that are not likely to be used, if there are many."""
        at = self.at
        used = np.maximum(at.u, at.v)
        idle = (used <= _IDLE * used.max(initial=0.0)) & (np.minimum(at.p, at.q) > _IDLE_SLACK)
        if idle.sum() > _IDLE_SHARE * len(idle):
            kept = np.flatnonzero(~idle)
            at.keep(kept)
            self.features, self.Z = self.features[kept], np.asfortranarray(self.Z[:, kept])

    # -- the program of some features --------------------------------------------------------------

    @property
    def mu(self) -> float:
        return self.at.gap() / self.at.size

    def offer(self) -> float:
        """Store the weights of the iterate, without small ones, if they are the best."""
        at = self.at
        coef = np.where(at.u > at.p, at.u, 0.0) - np.where(at.v > at.q, at.v, 0.0)
        for each in (at.u - at.v, coef):
            value = self._value(each)
            # A solution without small weights is preferred if it is as good.
            if value <= self.best_value * (1.0 + 1e-9):
                self.best_value = min(value, self.best_value)
                self.best, self.best_features = each, self.features
        return self.best_value

    def _value(self, coef: np.ndarray) -> float:
        scores = self.signs * (self.Z @ coef)
        b = optimal_intercept(scores, self.signs, self.costs)
        lost = self.costs @ np.maximum(0.0, 1.0 - self.signs * (scores + b))
        return float(np.abs(coef).sum() + lost)

    def advance(self, least_mu: float) -> None:
        """A predictor-corrector step with a barrier parameter of at least ``least_mu``."""
        x, Z, y = self.at, self.Z, self.signs
        products = Z.T @ x.a
        r1 = 1.0 - Z @ (x.u - x.v) - y * x.b - x.xi + x.tau
        r2, r3, r4 = 1.0 - products - x.p, 1.0 + products - x.q, -float(y @ x.a)
        r5 = self.costs - x.a - x.t
        theta = 1.0 / (x.xi / x.t + x.tau / x.a)
        spread = x.u / x.p + x.v / x.q
        factor = self._factor(theta, spread)

        def direction(wanted: list[np.ndarray]) -> _Point:
            for_u, for_v, for_a, for_t = wanted
            right = theta * (r1 - (for_t - x.xi * r5) / x.t + for_a / x.a)
            g = (for_u - x.u * r2) / x.p - (for_v - x.v * r3) / x.q
            system = np.append(Z.T @ right + g / spread, y @ right - r4)
            solved = cho_solve(factor, system, check_finite=False)
            w, b = solved[:-1], float(solved[-1])
            a = right - theta * (Z @ w + y * b)
            # Equal to Z.T @ a, without rounding that a large u / p would multiply.
            steps = (w - g) / spread
            p, q, t = r2 - steps, r3 + steps, r5 - a
            return _Point(
                u=(for_u - x.u * p) / x.p,
                v=(for_v - x.v * q) / x.q,
                p=p,
                q=q,
                a=a,
                tau=(for_a - x.tau * a) / x.a,
                t=t,
                xi=(for_t - x.xi * t) / x.t,
                b=b,
            )

        mu = self.mu
        first = [one * other for one, other in x.pairs()]
        affine = direction([-each for each in first])
        ahead = x.plus(x.length(affine), affine).gap() / x.size
        target = max((ahead / mu) ** 3 * mu, min(mu, least_mu))
        second = [one * other for one, other in affine.pairs()]
        step = direction([target - one - two for one, two in zip(first, second, strict=True)])
        self.at = x.plus(x.length(step), step)

    def _factor(self, theta: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, bool]:
        """Cholesky factor of the system in w and b."""
        k = self.Z.shape[1]
        matrix = np.zeros((k + 1, k + 1), order="F")
        scaled = np.empty((len(theta), k + 1), order="F")
        root = np.sqrt(theta)
        np.multiply(self.Z, root[:, None], out=scaled[:, :k])
        scaled[:, k] = root * self.signs
        matrix = dsyrk(1.0, scaled, trans=1, beta=0.0, c=matrix, lower=1, overwrite_c=1)
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:k] += 1.0 / spread
        factor: tuple[np.ndarray, bool] = cho_factor(
            matrix, lower=True, overwrite_a=True, check_finite=False
        )
        return factor


def interior_one_norm(
    rows: np.ndarray, signs: np.ndarray, costs: np.ndarray, *, tol: float = 1e-6
) -> InteriorWeights:
    """Weights of all features with a relative gap of ``tol``, unless rounding ends the search.

    Parameters
    ----------
    rows : ndarray of shape (n_bags, n_features)
    signs : ndarray of shape (n_bags,), of -1 and 1, both of which occur
    costs : ndarray of shape (n_bags,), above zero
    tol : float, default=1e-6
    """
    search = _Search(rows, signs, costs)
    search.price()
    least, waited, n_iter = np.inf, 0, 0
    while True:
        gap = search.offer() - search.bound
        waited = 0 if gap < _PROGRESS * least else waited + 1
        least = min(least, gap)
        if gap <= tol * max(1.0, search.best_value) or waited > _PATIENCE or n_iter >= _MAX_STEPS:
            break
        try:
            search.advance(_AHEAD * gap / search.at.size)
        except LinAlgError:  # the system is singular up to rounding
            break
        n_iter += 1
        search.drop_idle()
        search.price()
    coef = np.zeros(rows.shape[1])
    coef[search.best_features] = search.best
    return InteriorWeights(coef, search.bound, n_iter)
