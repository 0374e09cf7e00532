"""Problems of half a squared norm and a sum of group maxima, and their smoothing.

    min_{w,v}  1/2 |w|^2 + sum_g C_g max(0, max_{r in g} u_r),   u_r = c_r + z_r.w + e_r.v

Row r belongs to one group; v are variables without a norm: the intercept, the width of a tube. A
hinge is a group of one row. The maximum is smoothed by h > 0 around proportions p,

    phi(u) = max_{a >= 0, sum a <= 1}  a.u - h/2 |a - p|^2,

whose maximiser a is the projection of p + u / h onto the simplex. The dual of the problem without
smoothing is, with alpha = C a,

    max_alpha  c.alpha - 1/2 |Z'alpha|^2,   alpha >= 0,  sum_{r in g} alpha_r <= C_g,  E'alpha = 0.

The last groups may cost the square of their maximum instead,

    C_g max(0, max_r u_r)^2 = max_{alpha >= 0}  alpha.u - (sum alpha)^2 / (4 C_g),

where the sum of a is not bounded but loses its square over four in phi and in the dual.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["GroupProblem", "project_groups", "runs"]

Matrix = Any  # an ndarray, a CSR matrix or a RowStack


@dataclass(frozen=True)
class GroupProblem:
    """The rows and groups of a problem.

    Attributes
    ----------
    Z : ndarray, CSR or RowStack of shape (n_rows, n_columns)
        Rows of a group follow each other.
    e : ndarray of shape (n_rows,) or (n_rows, n_free)
        Coefficients of the variables without a norm. The dual point of a certificate is scaled to
        fulfil one equation after the other: those of a later column may not be undone by that.
    offsets : ndarray of shape (n_groups + 1,)
    costs : ndarray of shape (n_groups,), the C_g, above zero
    c : float or ndarray of shape (n_rows,)
    n_squared : int
        How many of the last groups cost the square of their maximum.
    """

    Z: Matrix
    e: np.ndarray
    offsets: np.ndarray
    costs: np.ndarray
    c: float | np.ndarray = 1.0
    n_squared: int = 0

    @property
    def singles(self) -> bool:
        """Whether every group has one row and none is squared."""
        return len(self.e) == len(self.costs) and self.n_squared == 0

    @property
    def free(self) -> np.ndarray:
        """The coefficients ``e`` with two dimensions."""
        return self.e.reshape(len(self.e), -1)

    @property
    def n_plain(self) -> int:
        """Number of groups without a square."""
        return len(self.costs) - self.n_squared

    @cached_property
    def owner(self) -> np.ndarray:
        """The group of each row."""
        return np.repeat(np.arange(len(self.costs)), np.diff(self.offsets))

    @cached_property
    def row_costs(self) -> np.ndarray:
        """The cost of each row's group."""
        return np.asarray(self.costs[self.owner])

    def values(self, w: np.ndarray, v: float | np.ndarray) -> np.ndarray:
        """u of every row."""
        return np.asarray(self.c + self.Z @ w + self.free @ np.atleast_1d(v))

    def objective(self, w: np.ndarray, u: np.ndarray) -> float:
        """The objective without smoothing."""
        top = u if len(u) == len(self.costs) else np.maximum.reduceat(u, self.offsets[:-1])
        losses = np.maximum(top, 0.0)
        if self.n_squared:
            losses[self.n_plain :] **= 2
        return 0.5 * float(w @ w) + float(self.costs @ losses)

    def smoothed(
        self, norm2: float, a: np.ndarray, u: np.ndarray, smoothing: tuple[float, np.ndarray]
    ) -> float:
        """The smoothed objective, given the squared norm of w and the maximiser."""
        h, p = smoothing
        value = 0.5 * norm2 + float(self.row_costs @ (a * u - 0.5 * h * (a - p) ** 2))
        if self.n_squared:
            value -= 0.25 * float(self.costs[self.n_plain :] @ self._squared_sums(a) ** 2)
        return value

    def dual_value(self, alpha: np.ndarray) -> float:
        """The dual objective."""
        normal = np.asarray(self.Z.T @ alpha)
        value = float(np.sum(self.c * alpha)) - 0.5 * float(normal @ normal)
        if self.n_squared:
            value -= 0.25 * float(
                (1.0 / self.costs[self.n_plain :]) @ self._squared_sums(alpha) ** 2
            )
        return value

    def balanced(self, alpha: np.ndarray) -> np.ndarray:
        """alpha with E'alpha = 0: the heavier side is scaled down, which keeps the bounds."""
        alpha = alpha.copy()
        for e in self.free.T:
            parts = e * alpha
            up, down = float(parts[parts > 0].sum()), float(-parts[parts < 0].sum())
            heavy = parts > 0 if up > down else parts < 0
            alpha[heavy] *= min(up, down) / max(up, down, 1e-300)
        return alpha

    def maximiser(
        self, u: np.ndarray, smoothing: tuple[float, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The a of phi of every group, and whether its sum is at its bound."""
        h, p = smoothing
        u = u + h * p
        if len(u) == len(self.costs) and not self.n_squared:
            a = u / h
            return np.clip(a, 0.0, 1.0), a >= 1.0
        a, full = np.zeros(len(u)), np.zeros(len(self.costs), dtype=bool)
        first = self.offsets[self.n_plain]
        # Rows below zero get nothing, for no threshold is negative.
        rows = np.flatnonzero(u[:first] > 0)
        if len(rows):
            group = self.owner[rows]
            a[rows], starts, at_bound = _projected(u[rows], group, h)
            full[group[starts]] = at_bound
        if self.n_squared:
            offsets = self.offsets[self.n_plain :] - first
            a[first:] = _squared_maximiser(u[first:], offsets, h)
        return a, full

    def _squared_sums(self, a: np.ndarray) -> np.ndarray:
        """Sums of a over the groups that are squared."""
        first = self.offsets[self.n_plain]
        sums = np.add.reduceat(a[first:], self.offsets[self.n_plain : -1] - first)
        return np.asarray(sums)


def project_groups(u: np.ndarray, offsets: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Maximiser of a.u - h/2 |a|^2 over a >= 0, sum a <= 1, of every group.

    Returns
    -------
    a : ndarray of shape (n_rows,)
    full : ndarray of shape (n_groups,) of bool
        Whether the sum of the group is one.
    """
    problem = GroupProblem(np.zeros((len(u), 0)), u, offsets, np.ones(len(offsets) - 1))
    return problem.maximiser(u, (h, np.zeros(len(u))))


def runs(group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of equal numbers start, and their lengths; of one number at least."""
    first = np.empty(len(group), dtype=bool)
    first[0] = True
    np.not_equal(group[1:], group[:-1], out=first[1:])
    starts = first.nonzero()[0]
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = len(group) - starts[-1]
    return starts, lengths


def _projected(
    u: np.ndarray, group: np.ndarray, h: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for values above zero with the group of each; where groups start, and fullness."""
    a = u / h
    starts, lengths = runs(group)
    full = np.add.reduceat(a, starts) >= 1.0
    a[starts[full & (lengths == 1)]] = 1.0
    several = full & (lengths > 1)
    rows = np.flatnonzero(np.repeat(several, lengths))
    if len(rows) == 0:
        return a, starts, full
    order = rows[np.lexsort((-u[rows], group[rows]))]
    lengths = lengths[several]
    firsts = np.cumsum(lengths) - lengths
    rank = np.arange(len(order)) - np.repeat(firsts, lengths) + 1
    ordered = u[order]
    total = np.cumsum(ordered)
    before = np.repeat(total[firsts] - ordered[firsts], lengths)
    threshold = (total - before - h) / rank
    # The last row above its threshold gives that of its group.
    counts = np.add.reduceat(ordered > threshold, firsts, dtype=np.intp)
    chosen = threshold[firsts + np.maximum(counts, 1) - 1]
    a[order] = np.maximum(0.0, ordered - np.repeat(chosen, lengths)) / h
    return a, starts, full


def _squared_maximiser(u: np.ndarray, offsets: np.ndarray, h: float) -> np.ndarray:
    """Maximiser of a.u - h/2 |a|^2 - (sum a)^2 / 4 over a >= 0, of every group.

    a = max(0, u - s / 2) / h with s its sum: of the k highest rows, s = sum u / (h + k / 2).
    """
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-u, owner))
    ordered = u[order]
    rank = np.arange(len(u)) - np.repeat(offsets[:-1], sizes) + 1
    total = np.cumsum(ordered)
    before = np.repeat(total[offsets[:-1]] - ordered[offsets[:-1]], sizes)
    threshold = 0.5 * (total - before) / (h + 0.5 * rank)
    # The last row above its threshold gives that of its group; a threshold is never negative.
    counts = np.add.reduceat(ordered > threshold, offsets[:-1], dtype=np.intp)
    chosen = np.maximum(threshold[offsets[:-1] + np.maximum(counts, 1) - 1], 0.0)
    return np.asarray(np.maximum(0.0, u - chosen[owner]) / h)
