"""Disjunctive programs of an ensemble, and the dual prices that score learners.

With columns h_k of -1 and 1 over the points and F = sum_k alpha_k h_k, alpha >= 0, the program is

    min  sum_k alpha_k + sum_i C_i xi_i + sum_j C_j xi_j                                  (5)
    s.t. max over x in X_i of F(x) + xi_i >= 1   (ambiguous bags i),
         s_j F(x_j) + xi_j >= 1                  (points with a sign, j),    xi >= 0.

Its relaxation is in :mod:`.relaxation`, and numbers of equations are those of Andrews & Hofmann
(2003).

A linear program may have many solutions, and the order of rows and columns determines which one the
simplex method finds. Points are sorted by a hash of their values, so that a fit does not depend on
the order of bags or instances. Equal points, and equal bags of a class, are merged and their costs
are added, so that a weight of two is exactly equivalent to duplicating a bag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from ..._bags.segments import offsets_of
from ..common.cccp import lowest_point

NONE = np.zeros(0, dtype=np.intp)


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

    def margins(self, scores: np.ndarray) -> np.ndarray:
        """Margin of each constraint with a sign, then of each bag, for the scores of all points."""
        return np.concatenate([self.signs * scores[self.points], self.highest(scores)])

    @cached_property
    def flat_members(self) -> tuple[np.ndarray, np.ndarray]:
        """Points of the ambiguous bags, one bag after the other, and the first place of each."""
        flat = np.concatenate([NONE, *self.members])
        return flat, offsets_of([len(block) for block in self.members])[:-1]

    def highest(self, values: np.ndarray) -> np.ndarray:
        """Maximum over each ambiguous bag of values of the points, along the last axis."""
        flat, firsts = self.flat_members
        if not len(firsts):
            return np.zeros((*values.shape[:-1], 0), dtype=values.dtype)
        return np.asarray(np.maximum.reduceat(values[..., flat], firsts, axis=-1))

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
        scores, step = _on_grid(scores, 2.0**-20), -1 if last else 1
        return [block[::step][[int(np.argmax(scores[block[::step]]))]] for block in self.members]

    def restricted(self, members: list[np.ndarray]) -> DisjunctiveProblem:
        """The program with fewer points per bag; a bag of one point is a constraint with a sign."""
        single = np.array([len(block) == 1 for block in members], dtype=bool)
        fixed = [block[0] for block in members if len(block) == 1]
        return DisjunctiveProblem(
            self.n_points,
            [block for block in members if len(block) > 1],
            self.member_costs[~single],
            np.concatenate([self.points, np.array(fixed, dtype=np.intp)]),
            np.concatenate([self.signs, np.ones(len(fixed))]),
            np.concatenate([self.costs, self.member_costs[single]]),
        )


def disjunctive_problem(
    point_of: np.ndarray, offsets: np.ndarray, positive: np.ndarray, costs: np.ndarray
) -> DisjunctiveProblem:
    """Problem (5): positive bags of two or more points are ambiguous, other points have a sign.

    Parameters
    ----------
    point_of : ndarray of shape (n_instances,)
    offsets : ndarray of shape (n_bags + 1,)
    positive : ndarray of bool, shape (n_bags,)
    costs : ndarray of shape (n_bags,)
    """
    ambiguous: dict[tuple[int, ...], float] = {}
    signed = np.repeat(~positive, np.diff(offsets))
    for bag in np.flatnonzero(positive):
        members = np.unique(point_of[offsets[bag] : offsets[bag + 1]])
        if len(members) > 1:
            key = tuple(members.tolist())
            ambiguous[key] = ambiguous.get(key, 0.0) + float(costs[bag])
        else:
            signed[offsets[bag]] = True
    ordered = sorted(ambiguous)
    return DisjunctiveProblem(
        int(point_of.max()) + 1,
        [np.array(key, dtype=np.intp) for key in ordered],
        np.array([ambiguous[key] for key in ordered]),
        *_signed_points(point_of, offsets, positive, costs, signed),
    )


def inherited_problem(
    point_of: np.ndarray, offsets: np.ndarray, positive: np.ndarray, costs: np.ndarray
) -> DisjunctiveProblem:
    """The supervised problem in which every instance has the label of its bag."""
    every = np.ones(len(point_of), dtype=bool)
    signed = _signed_points(point_of, offsets, positive, costs, every)
    return DisjunctiveProblem(int(point_of.max()) + 1, [], np.zeros(0), *signed)


def _signed_points(
    point_of: np.ndarray,
    offsets: np.ndarray,
    positive: np.ndarray,
    costs: np.ndarray,
    used: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, signs and summed costs of the used instances, by the classes of their bags."""
    owner = np.repeat(np.arange(len(positive)), np.diff(offsets))[used]
    points, costs = point_of[used].astype(np.intp), costs[owner]
    # Positive points first, then by point; costs of equal points are added in a fixed order.
    size = int(point_of.max()) + 1
    keys, where = np.unique(np.where(positive[owner], 0, size) + points, return_inverse=True)
    order = np.lexsort((costs, where))
    total = np.zeros(len(keys))
    np.add.at(total, where[order], costs[order])
    return keys % size, np.where(keys < size, 1.0, -1.0), total


@dataclass
class BagPrices:
    """The dual variables of a bag of several disjuncts, the highest of which scores a learner.

    The value of disjunct ``d`` is ``u[d] * max of h over members[d] + weights[d] @ h[points]``.
    """

    members: list[np.ndarray]
    u: np.ndarray
    # Of shapes (n,) and (n_disjuncts, n).
    points: np.ndarray
    weights: np.ndarray

    def disjunct_values(self, H: np.ndarray) -> np.ndarray:
        """Value of each learner in each disjunct, shape (n_disjuncts, n_learners)."""
        out: np.ndarray = self.weights @ H[:, self.points].T.astype(np.float64)
        for d, (block, u) in enumerate(zip(self.members, self.u, strict=True)):
            out[d] += u * H[:, block].max(axis=1)
        return out


@dataclass
class WholeBags:
    """The dual variables of many bags that are one disjunct each, with all their points."""

    # Of shape (n_members,): points, one bag after the other.
    members: np.ndarray
    # Of shape (n_bags,): the place of the first point of each, and its multiplier.
    firsts: np.ndarray
    u: np.ndarray

    def values(self, H: np.ndarray) -> np.ndarray:
        """Sum over the bags of the value of each learner, shape (n_learners,)."""
        if not len(self.u):
            return np.zeros(len(H))
        highest = np.maximum.reduceat(H[:, self.members], self.firsts, axis=1)
        return np.asarray(highest @ self.u)

    def each(self) -> Iterator[BagPrices]:
        """The prices of each bag with a multiplier above zero."""
        blocks = np.split(self.members, self.firsts[1:])
        for block, u in zip(blocks, self.u.tolist(), strict=False):
            if u > 0.0:
                yield BagPrices([block], np.array([u]), NONE, np.zeros((1, 0)))


@dataclass
class DualPrices:
    """The dual variables that determine the score (9) of a learner."""

    # Of shape (n_points,). Signed dual variables of the constraints with a sign, summed by point.
    linear: np.ndarray
    # Bags of one disjunct.
    whole: WholeBags = field(default_factory=lambda: WholeBags(NONE, NONE, np.zeros(0)))
    # Bags of several disjuncts.
    bags: Sequence[BagPrices] = ()
    # Of shape (n_points,). The current F, for learners that are fitted; not used in the score.
    scores: np.ndarray | None = None

    def without_rounding(self) -> DualPrices:
        """The prices rounded to a grid on which sums are exact.

        The order of summation differs between dense and CSR points. If all values are multiples of
        a power of two, and their sizes sum to less than 2**51 of it, the order has no effect.
        """
        size = float(np.abs(self.linear).sum() + np.abs(self.whole.u).sum())
        size += sum(float(np.abs(each.u).sum() + np.abs(each.weights).sum()) for each in self.bags)
        unit = np.ldexp(1.0, np.frexp(size)[1] - 51)
        bags = [
            replace(each, u=_on_grid(each.u, unit), weights=_on_grid(each.weights, unit))
            for each in self.bags
        ]
        whole = replace(self.whole, u=_on_grid(self.whole.u, unit))
        return replace(self, linear=_on_grid(self.linear, unit), bags=bags, whole=whole)


def _on_grid(values: np.ndarray, unit: float) -> np.ndarray:
    return np.asarray(np.rint(values / unit) * unit)


def comparable(values: np.ndarray) -> np.ndarray:
    """Values of the size of one on a grid of 2**-30.

    Sums of the same numbers in a different order are then equal, and the first one is chosen. The
    order of a sum depends on the processor.
    """
    return _on_grid(values, 2.0**-30)


def score_columns(prices: DualPrices, H: np.ndarray) -> np.ndarray:
    """Score (9) of learners, without the final -1: a learner above 1 improves the program.

    Parameters
    ----------
    prices : DualPrices
    H : ndarray of shape (n_learners, n_points), of -1 and 1

    Returns
    -------
    ndarray of shape (n_learners,)
    """
    total: np.ndarray = H @ prices.linear
    for each in prices.bags:
        total += each.disjunct_values(H).max(axis=0)
    total += prices.whole.values(H)
    return total


def weighted_sums(alpha: np.ndarray, H: np.ndarray, at_once: int = 2**22) -> np.ndarray:
    """``alpha @ H`` for columns of bytes (n_learners, n_points).

    At most ``at_once`` entries, or one column, are converted to floating point at once.
    """
    n_learners, n_points = H.shape
    if H.size <= at_once:
        return np.asarray(alpha @ H)
    sums = np.empty(n_points)
    for part in gen_batches(n_points, max(1, at_once // n_learners)):
        sums[part] = alpha @ H[:, part]
    return sums


def fresh_columns(known: set[bytes], columns: np.ndarray) -> np.ndarray:
    """Numbers of the columns that are not in ``known``, to which their bytes (int8) are added."""
    fresh = []
    for k, column in enumerate(np.ascontiguousarray(columns, dtype=np.int8)):
        if column.tobytes() not in known:
            known.add(column.tobytes())
            fresh.append(k)
    return np.array(fresh, dtype=np.intp)
