"""An interior point method for linear programs whose rows all have slacks.

The program and its dual are

    min  a'alpha + c'xi    s.t.  G'alpha + E'b + xi - v = r,   alpha, xi, v >= 0,
    max  r'y               s.t.  G y + s = a,  E y = 0,  0 <= y <= c,  s >= 0,

with a row of G for each column of the program, to which columns are added and removed between two
Newton steps (Mehrotra 1992), and a row of E for each free variable. By default a and r are ones.
The cost of a step is the number of rows times the square of the number of columns.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsyrk
from sklearn.utils import gen_batches

_BOUNDARY = 0.99
# Relative increase of the diagonal of a singular system.
_NUDGE = 1e-11
# Larger matrices may be stored in bytes; they are converted in blocks of this number of rows.
BLOCK = 8192


@dataclass
class Point:
    """An iterate, which is positive except for b, or a direction."""

    alpha: np.ndarray
    s: np.ndarray
    y: np.ndarray
    v: np.ndarray
    t: np.ndarray
    xi: np.ndarray
    b: np.ndarray

    def pairs(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """The variables whose products are zero at the optimum."""
        return (self.alpha, self.s), (self.y, self.v), (self.t, self.xi)

    def length(self, by: Point) -> float:
        """The longest step, at most one, that stays away from the boundary."""
        steepest = max(
            float((-change / value).max(initial=0.0))
            for values, changes in zip(self.pairs(), by.pairs(), strict=True)
            for value, change in zip(values, changes, strict=True)
        )
        return 1.0 if steepest <= _BOUNDARY else _BOUNDARY / steepest

    def plus(self, step: float, by: Point) -> Point:
        """The point after a step."""
        return Point(*(getattr(self, f.name) + step * getattr(by, f.name) for f in fields(self)))

    def gap(self) -> float:
        """The sum of all products."""
        return float(sum(a @ b for a, b in self.pairs()))

    @property
    def size(self) -> int:
        """Number of products."""
        return len(self.alpha) + 2 * len(self.y)


class SoftMarginLP:
    """The program of the current columns, with an iterate.

    Parameters
    ----------
    costs : ndarray of shape (n_rows,)
        Costs of the slacks.
    y : ndarray of shape (n_rows,), default=None
        First multipliers, strictly between zero and ``costs``; by default half of ``costs``.
    free : ndarray of shape (n_free, n_rows), default=None
        The matrix E.
    right : ndarray of shape (n_rows,), default=None
        Right sides of the rows, zero or more.
    dtype : dtype, default=float64
        Of the matrix G.
    """

    def __init__(
        self,
        costs: np.ndarray,
        y: np.ndarray | None = None,
        free: np.ndarray | None = None,
        right: np.ndarray | None = None,
        dtype: Any = np.float64,
    ) -> None:
        r, none = len(costs), np.zeros(0)
        self.costs, self.column_costs = costs, none
        self.right = np.ones(r) if right is None else right
        self.free = np.zeros((0, r)) if free is None else free
        self.G = np.zeros((0, r), dtype=dtype)
        y = 0.5 * costs if y is None else y
        self.at = Point(none, none, y, np.ones(r), costs - y, np.ones(r), np.zeros(len(self.free)))

    @property
    def mu(self) -> float:
        """The barrier parameter of the iterate."""
        return self.at.gap() / self.at.size

    def times(self, y: np.ndarray) -> np.ndarray:
        """G y."""
        out = np.zeros(len(self.G))
        for part in gen_batches(len(y), BLOCK):
            out += self._part(part) @ y[part]
        return out

    def back(self, alpha: np.ndarray) -> np.ndarray:
        """G' alpha."""
        parts = gen_batches(self.G.shape[1], BLOCK)
        return np.concatenate([alpha @ self._part(part) for part in parts])

    def _part(self, columns: slice) -> np.ndarray:
        return np.asarray(self.G[:, columns].astype(np.float64, copy=False))

    def _factor(self, theta: np.ndarray, nudge: float) -> tuple[np.ndarray, bool]:
        """The factor of the system of alpha and b, with a relative increase of its diagonal."""
        k = len(self.G) + len(self.free)
        out = np.zeros((k, k), order="F")
        root = np.sqrt(theta)
        for part in gen_batches(len(theta), BLOCK):
            scaled = np.empty((k, len(root[part])))
            np.multiply(self.G[:, part], root[part], out=scaled[: len(self.G)])
            np.multiply(self.free[:, part], root[part], out=scaled[len(self.G) :])
            # The transpose of a C-ordered array is a Fortran-ordered array.
            out = dsyrk(1.0, scaled.T, trans=1, beta=1.0, c=out, lower=1, overwrite_c=1)
        diagonal = np.einsum("ii->i", out)
        diagonal[: len(self.G)] += self.at.s / self.at.alpha
        diagonal *= 1.0 + nudge
        factor: tuple[np.ndarray, bool] = cho_factor(
            out, lower=True, overwrite_a=True, check_finite=False
        )
        return factor

    def value(self) -> float:
        """Value of the program at the weights of the iterate, with the least slacks."""
        alpha = self.at.alpha
        slacks = np.maximum(0.0, self.right - self.back(alpha))
        return float(self.column_costs @ alpha + self.costs @ slacks)

    def add(self, entries: np.ndarray, costs: np.ndarray | float = 1.0) -> None:
        """Add columns, with small weights."""
        mu, at = self.mu, self.at
        costs = np.broadcast_to(costs, len(entries))
        slack = costs - entries @ at.y
        slack = np.maximum(np.abs(slack), np.sqrt(mu))
        self.column_costs = np.concatenate([self.column_costs, costs])
        self.G = np.concatenate([self.G, entries.astype(self.G.dtype, copy=False)])
        at.s = np.concatenate([at.s, slack])
        at.alpha = np.concatenate([at.alpha, mu / slack])

    def keep(self, kept: np.ndarray) -> None:
        """Remove the other columns."""
        self.column_costs = self.column_costs[kept]
        self.G, self.at.s, self.at.alpha = self.G[kept], self.at.s[kept], self.at.alpha[kept]

    def advance(self, least_mu: float) -> None:
        """A predictor-corrector step with a barrier parameter of at least ``least_mu``."""
        x, k = self.at, len(self.G)
        residual_y = self.right - self.back(x.alpha) - x.b @ self.free - x.xi + x.v
        residual_s = self.column_costs - self.times(x.y) - x.s
        residual_t = self.costs - x.y - x.t
        theta = 1.0 / (x.xi / x.t + x.v / x.y)
        try:
            factor = self._factor(theta, 0.0)
        except LinAlgError:
            # Columns that differ only in rows without weight are equal near the end.
            factor = self._factor(theta, _NUDGE)

        def direction(wanted: list[np.ndarray]) -> Point:
            for_alpha, for_y, for_t = wanted
            right = residual_y - (for_t - x.xi * residual_t) / x.t + for_y / x.y
            of_alpha = self.times(theta * right) - residual_s + for_alpha / x.alpha
            of_b = self.free @ (theta * right + x.y)
            solved = cho_solve(factor, np.r_[of_alpha, of_b], check_finite=False)
            alpha, b = solved[:k], solved[k:]
            y = theta * (right - self.back(alpha) - b @ self.free)
            t = residual_t - y
            return Point(
                alpha=alpha,
                s=(for_alpha - x.s * alpha) / x.alpha,
                y=y,
                v=(for_y - x.v * y) / x.y,
                t=t,
                xi=(for_t - x.xi * t) / x.t,
                b=b,
            )

        mu = self.mu
        products = [a * b for a, b in x.pairs()]
        affine = direction([-each for each in products])
        ahead = x.plus(x.length(affine), affine).gap() / x.size
        target = max((ahead / mu) ** 3 * mu, min(mu, least_mu))
        second = [a * b for a, b in affine.pairs()]
        step = direction([target - one - two for one, two in zip(products, second, strict=True)])
        self.at = x.plus(x.length(step), step)
