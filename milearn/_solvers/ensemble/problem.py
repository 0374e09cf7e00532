"""Disjunctive programs of an ensemble, and the dual prices that score learners.

With columns h_k of -1 and 1 over the points and F = sum_k alpha_k h_k, alpha >= 0, the program is

    min  sum_k alpha_k + sum_i C_i xi_i + sum_j C_j xi_j                                  (5)
    s.t. max over x in X_i of F(x) + xi_i >= 1   (ambiguous bags i),
         s_j F(x_j) + xi_j >= 1                  (points with a sign, j),    xi >= 0.

Its relaxation is in :mod:`.relaxation`, and numbers of equations are those of Andrews & Hofmann
(2003).

A linear program may have many solutions, and the order of rows and columns determines which one is
found. Points are sorted by a hash of their values, so that a fit does not depend on the order of
bags or instances. Equal points, and equal bags of a class, are merged and their costs are added, so
that a weight of two is exactly equivalent to duplicating a bag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from ..._bags.distinct import distinct_points, row_hashes
from ..._bags.segments import offsets_of
from ..._bags.types import Matrix
from ..common.cccp import lowest_point

NONE = np.zeros(0, dtype=np.intp)


def ordered_points(X: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of a matrix, in an order that does not depend on the units of the columns.

    Rows are sorted by the hashes of their values in units of the largest value of each column,
    rounded to a power of two. Multiplication by powers of two is exact, so that it changes nothing.

    Returns
    -------
    rows : ndarray of shape (n_points,)
        A row of X for each point.
    point_of : ndarray of shape (n_rows,)
    """
    rows, point_of = distinct_points(X)
    points = X[rows]
    largest = abs(points).max(axis=0)
    largest = largest.toarray() if sparse.issparse(points) else largest
    points = points * np.exp2(np.clip(-np.frexp(np.ravel(largest))[1], -1000, 1000))
    hashes = row_hashes(points.tocsr() if sparse.issparse(points) else points)
    # Rows that differ by less than the smallest number in these units keep their order.
    order = np.argsort(hashes, kind="stable")
    return rows[order], np.argsort(order)[point_of]


@dataclass(frozen=True, eq=False)
class Unions:
    """Sets of points of which the highest counts: ambiguous bags, or disjuncts of them."""

    # Points, one set after the other, and the place of the first point of each set.
    members: np.ndarray
    firsts: np.ndarray
    # The bag of each set, in ascending order.
    bag: np.ndarray

    @classmethod
    def of(cls, sets: Sequence[np.ndarray], bag: np.ndarray) -> Unions:
        """Sets of points of some bags."""
        firsts = offsets_of([*map(len, sets)])[:-1]
        return cls(np.concatenate([NONE, *sets]), firsts, bag)

    @cached_property
    def several(self) -> np.ndarray:
        """Mask of the sets whose bag has several."""
        return np.asarray(np.bincount(self.bag)[self.bag] > 1)

    @cached_property
    def groups(self) -> np.ndarray:
        """The first set of each bag."""
        return np.flatnonzero(np.diff(self.bag, prepend=-1))

    def highest(self, values: np.ndarray) -> np.ndarray:
        """Maximum over each set of values of the points, along the last axis."""
        return np.asarray(np.maximum.reduceat(values[..., self.members], self.firsts, axis=-1))


_NO_UNIONS = Unions(NONE, NONE, NONE)


@dataclass
class DisjunctiveProblem:
    """The data of (5); points are given by their numbers, without features."""

    n_points: int
    # Points of each ambiguous bag, at least two, and the costs of these bags.
    members: list[np.ndarray]
    member_costs: np.ndarray
    # Of shape (r,): point, sign and cost of each constraint with a sign.
    points: np.ndarray
    signs: np.ndarray
    costs: np.ndarray

    def signed(self, columns: np.ndarray, constraints: Any = slice(None)) -> np.ndarray:
        """Values of learners in constraints with a sign, shape (n_learners, n_constraints)."""
        return np.asarray(self.signs[constraints] * columns[:, self.points[constraints]])

    @cached_property
    def bags(self) -> Unions:
        """The ambiguous bags."""
        return Unions.of(self.members, np.arange(len(self.members)))

    def margins(self, scores: np.ndarray) -> np.ndarray:
        """Margin of each constraint with a sign, then of each bag, for the scores of all points."""
        return np.concatenate([self.signs * scores[self.points], self.bags.highest(scores)])

    def value(self, alpha: np.ndarray, scores: np.ndarray) -> float:
        """Value of (5) for weights and the scores F of all points."""
        r, lacking = len(self.points), np.maximum(0.0, 1.0 - self.margins(scores))
        return float(alpha.sum() + self.member_costs @ lacking[r:] + self.costs @ lacking[:r])

    def best_factor(self, alpha: np.ndarray, scores: np.ndarray) -> float:
        """The factor of the weights that minimises (5).

        The highest point of a bag does not depend on the factor, so the value is convex in it.
        """
        margins, costs = self.margins(scores), np.concatenate([self.costs, self.member_costs])
        gains = costs * margins
        fall, rising = float(gains.sum() - alpha.sum()), gains > 0
        return lowest_point(1.0 / margins[rising], gains[rising], fall) if fall > 0 else 0.0

    def witnesses(self, scores: np.ndarray, *, last: bool = False) -> list[np.ndarray]:
        """The highest point of each bag; the first or the last of those that are nearly equal."""
        # Scores are as precise as linear programs.
        scores, step = comparable(scores, 2.0**-20), -1 if last else 1
        return [block[::step][[int(np.argmax(scores[block[::step]]))]] for block in self.members]

    def restricted(self, witnesses: list[np.ndarray]) -> DisjunctiveProblem:
        """The linear program with one point of each bag, which has a positive sign."""
        points = np.concatenate([self.points, *witnesses])
        signs = np.append(self.signs, np.ones(len(witnesses)))
        costs = np.append(self.costs, self.member_costs)
        return DisjunctiveProblem(self.n_points, [], np.zeros(0), points, signs, costs)


def disjunctive_problem(
    positive: np.ndarray,
    point_of: np.ndarray,
    offsets: np.ndarray,
    costs: np.ndarray,
    inherited: bool = False,
) -> DisjunctiveProblem:
    """Problem (5): positive bags of two or more points are ambiguous, other points have a sign.

    Parameters
    ----------
    positive : ndarray of bool, shape (n_bags,)
    point_of : ndarray of shape (n_instances,)
    offsets : ndarray of shape (n_bags + 1,)
    costs : ndarray of shape (n_bags,)
    inherited : bool, default=False
        Whether every instance has the sign of its bag instead: the supervised problem.
    """
    ambiguous: dict[tuple[int, ...], float] = {}
    signed = np.repeat(~positive | inherited, np.diff(offsets))
    for bag in np.flatnonzero(positive & (not inherited)):
        members = np.unique(point_of[offsets[bag] : offsets[bag + 1]])
        if len(members) > 1:
            key = tuple(members.tolist())
            ambiguous[key] = ambiguous.get(key, 0.0) + float(costs[bag])
        else:
            signed[offsets[bag]] = True
    n_points, ordered = int(point_of.max()) + 1, sorted(ambiguous)
    owner = np.repeat(np.arange(len(positive)), np.diff(offsets))[signed]
    # Positive points first, then by point; costs of equal points are added in a fixed order.
    keys = np.where(positive[owner], 0, n_points) + point_of[signed]
    keys, where = np.unique(keys, return_inverse=True)
    order = np.lexsort((costs[owner], where))
    return DisjunctiveProblem(
        n_points,
        [np.array(key, dtype=np.intp) for key in ordered],
        np.array([ambiguous[key] for key in ordered]),
        keys % n_points,
        np.where(keys < n_points, 1.0, -1.0),
        np.bincount(where[order], costs[owner][order]),
    )


@dataclass
class DualPrices:
    """The dual variables that determine the score (9) of a learner.

    It is ``linear @ h``, plus for each bag the highest value of its disjuncts, which is
    ``u[d] * max of h over d + weights[d] @ h``.
    """

    # Of shape (n_points,). Signed dual variables of the constraints with a sign, summed by point.
    linear: np.ndarray
    disjuncts: Unions = _NO_UNIONS
    # Of shapes (n_disjuncts,) and (n_disjuncts, n_points), CSR; None without reductions.
    u: np.ndarray = field(default_factory=lambda: np.zeros(0))
    weights: Matrix = None
    # Of shape (n_points,). The current F, for learners that are fitted; not used in the score.
    scores: np.ndarray | None = None

    def disjunct_values(self, H: np.ndarray) -> np.ndarray:
        """Value of each learner in each disjunct, shape (n_learners, n_disjuncts)."""
        values = self.u * self.disjuncts.highest(H)
        return values if self.weights is None else np.asarray(values + (self.weights @ H.T).T)

    def score(self, H: np.ndarray) -> np.ndarray:
        """Score (9) of learners, without the final -1: above 1 one improves the program.

        Parameters
        ----------
        H : ndarray of shape (n_learners, n_points), of -1 and 1

        Returns
        -------
        ndarray of shape (n_learners,)
        """
        highest = np.maximum.reduceat(self.disjunct_values(H), self.disjuncts.groups, axis=1)
        return np.asarray(H @ self.linear + highest.sum(axis=1))

    def without_rounding(self) -> DualPrices:
        """The prices rounded to a grid on which sums are exact.

        The order of summation differs between dense and CSR points. If all values are multiples of
        a power of two, and their sizes sum to less than 2**51 of it, the order has no effect.
        """
        size = np.abs(self.linear).sum() + np.abs(self.u).sum()
        size += 0.0 if self.weights is None else abs(self.weights).sum()
        unit, weights = np.ldexp(1.0, np.frexp(size)[1] - 51), self.weights
        if weights is not None:
            weights = weights.copy()
            weights.data = comparable(weights.data, unit)
        linear, u = comparable(self.linear, unit), comparable(self.u, unit)
        return replace(self, linear=linear, u=u, weights=weights)


def comparable(values: np.ndarray, unit: float = 2.0**-30) -> np.ndarray:
    """Values, by default of the size of one, on a grid.

    Sums of the same numbers in a different order are then equal, and the first one is chosen. The
    order of a sum depends on the processor.
    """
    return np.asarray(np.rint(values / unit) * unit)


def weighted_sums(alpha: np.ndarray, H: np.ndarray, at_once: int = 2**22) -> np.ndarray:
    """``alpha @ H`` for columns of bytes (n_learners, n_points).

    At most ``at_once`` entries, or one column, are converted to floating point at once.
    """
    n_learners, n_points = H.shape
    sums = np.empty(n_points)
    for part in gen_batches(n_points, max(1, at_once // max(1, n_learners))):
        sums[part] = alpha @ H[:, part]
    return sums
