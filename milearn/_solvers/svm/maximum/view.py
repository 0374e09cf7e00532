"""Passes over all instances at a point, and the working set of a convex step of MI-SVM.

The working set holds a witness of each positive bag, and of the negative bags the rows near or
beyond the margin. What is far from it is summed up in two rows, whose hinges bound the sums of
hinges from below by convexity: a minimum over the working set is a lower bound of the step. Where
there are few instances they all belong to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.segments import gather_rows, segment_argmax, segment_max, segment_rank
from ...common.newton import GroupProblem
from ...common.passes import Block, PassSource, stacked, width_of
from ...common.row_stack import below_each_other

__all__ = [
    "BAND",
    "Held",
    "Moved",
    "Pass",
    "Prices",
    "Proportions",
    "joined",
    "kept_type",
    "pass_over",
    "precision",
    "working_set",
]

Matrix = Any  # an ndarray, a CSR matrix or a RowStack

# Rows within this distance of what counts belong to the working set, in units of the margin.
BAND = 0.3
# Rows of a bag in the working set for each of those that have one slack for all rows; more where
# the band is wider.
_PER_BAG = 4
# Numbers in the working set of negative bags, at the most.
_WORKING_NUMBERS = 2**25
# Instances, and numbers in them, up to which they all belong to the working set. Narrow ones are
# kept apart earlier: there a step costs more than a pass, and few rounds find the rows that count.
_FEW_ROWS, _FEW_NUMBERS = 20_000, 2**24
_NARROW, _FEW_NARROW_ROWS = 50, 2_000
# Numbers in rows of earlier passes that stay in it at any size.
_KEPT_NUMBERS = 2**21
# Relative gap of a convex step for so many numbers in all instances, and for more.
_FINE_NUMBERS, _FINE, _COARSE = 2**21, 1e-8, 5e-4


@dataclass(frozen=True)
class Prices:
    """Signs of the bags, costs of their slacks, and whether each instance has one."""

    signs: np.ndarray
    weights: np.ndarray
    by_instance: bool

    @property
    def positive(self) -> np.ndarray:
        return np.flatnonzero(self.signs > 0)


@dataclass(frozen=True)
class Moved:
    """Positive bags whose witness is not the one held, as positions among them; and the witnesses.

    Attributes
    ----------
    positions : ndarray of int of shape (n_moved,)
    witnesses : ndarray of int of shape (n_moved,), the rows
    vectors : matrix of shape (n_moved, n_features), the instances there
    """

    positions: np.ndarray
    witnesses: np.ndarray
    vectors: Matrix


@dataclass
class Held:
    """The witnesses of a convex step, as rows and as instances; -1 stands for the mean of a bag."""

    witnesses: np.ndarray
    vectors: Matrix

    def move(self, moved: Moved) -> None:
        """Take over witnesses that moved, in place: all of them are too large to be held twice."""
        if len(moved.positions) == len(self.witnesses):
            self.witnesses, self.vectors = moved.witnesses, moved.vectors
            return
        self.witnesses = self.witnesses.copy()
        self.witnesses[moved.positions] = moved.witnesses
        if sparse.issparse(self.vectors):
            place = np.arange(len(self.witnesses))
            place[moved.positions] = len(place) + np.arange(len(moved.positions))
            self.vectors = stacked([self.vectors, moved.vectors])[place]
        else:
            self.vectors[moved.positions] = moved.vectors

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Inner products with the weight vector."""
        return np.asarray(below_each_other([self.vectors]) @ w)


@dataclass(frozen=True)
class Pass:
    """What a pass found, in a block or in all.

    Attributes
    ----------
    band : float
        Rows within it are in the working set.
    span : (float, float), the lowest of the highest scores of all bags, and the highest
    moved : Moved, or None where it is known already
    rows, numbers, groups : the working set of negative bags: instances, their rows, their bags
    far, far_cost : weighted sum of the rows beyond the band, and the sum of their weights
    quiet, quiet_cost : the same for the highest rows of bags that keep clear of the margin
    loss, positive_loss : float, of all negative bags, and of all positive ones
    """

    band: float
    span: tuple[float, float]
    moved: Moved | None
    rows: Matrix
    numbers: np.ndarray
    groups: np.ndarray
    far: np.ndarray
    far_cost: float
    quiet: np.ndarray
    quiet_cost: float
    loss: float
    positive_loss: float


def precision(n_instances: int, width: float) -> float:
    """Relative gap of a convex step that suits the numbers in all instances."""
    return _FINE if n_instances * width <= _FINE_NUMBERS else _COARSE


@dataclass(frozen=True)
class Proportions:
    """Proportions of the rows of a working set, by which the next one starts.

    Attributes
    ----------
    positive : ndarray of shape (n_positive,)
    numbers, negative : the rows of negative bags, sorted, and their proportions
    """

    positive: np.ndarray
    numbers: np.ndarray
    negative: np.ndarray

    @property
    def known(self) -> bool:
        """Whether they are those of a solution."""
        return bool(self.positive.any())

    @classmethod
    def none(cls, n_positive: int) -> Proportions:
        return cls(np.zeros(n_positive), np.zeros(0, dtype=np.intp), np.zeros(0))

    @classmethod
    def of_solution(cls, proportions: np.ndarray, found: Pass, n_positive: int) -> Proportions:
        last = n_positive + len(found.numbers)
        return cls(proportions[:n_positive], found.numbers, proportions[n_positive:last])

    def of_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Proportions of given rows, zero for those that are new."""
        found = np.zeros(len(numbers))
        if len(self.numbers):
            place = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
            known = self.numbers[place] == numbers
            found[known] = self.negative[place[known]]
        return found

    def first_of(self, problem: GroupProblem, found: Pass, u: np.ndarray) -> np.ndarray:
        """First proportions; in a group without any the highest row takes all where that pays."""
        n_positive, n_rows = len(self.positive), len(found.numbers)
        proportions = np.zeros(len(u))
        proportions[:n_positive] = self.positive
        proportions[n_positive : n_positive + n_rows] = self.of_rows(found.numbers)
        top = segment_argmax(u, problem.offsets)
        missing = np.add.reduceat(proportions, problem.offsets[:-1]) == 0
        proportions[top[missing & (u[top] > 0)]] = 1.0
        return proportions


def pass_over(
    source: PassSource,
    point: tuple[np.ndarray, float],
    prices: Prices,
    groups: np.ndarray | None = None,
    band: float = BAND,
    witnesses: np.ndarray | None = None,
) -> Pass:
    """A pass at a point.

    Parameters
    ----------
    source : PassSource
    point : (w, b)
    prices : Prices
    groups : ndarray of int, default=None
        The bags with rows in the working set.
    band : float
        Rows within it of what counts come into the working set.
    witnesses : ndarray of int of shape (n_positive,), default=None
        The rows that are held; instances of others are gathered.
    """
    bags = np.zeros(0, dtype=np.intp) if groups is None else groups
    if witnesses is not None and witnesses[0] < 0:
        witnesses = None
    parts = source.map(_look, point, prices, bags, witnesses, (band, source.n_instances))
    firsts = np.cumsum([0, *[n_positive for n_positive, _ in parts[:-1]]])
    parts = [part for _, part in parts]
    moved = [part.moved for part in parts]
    return Pass(
        band=band,
        span=(min(part.span[0] for part in parts), max(part.span[1] for part in parts)),
        moved=Moved(
            np.concatenate([part.positions + n for part, n in zip(moved, firsts, strict=True)]),
            np.concatenate([part.witnesses for part in moved]),
            stacked([part.vectors for part in moved]),
        ),
        rows=below_each_other([part.rows for part in parts]),
        numbers=np.concatenate([part.numbers for part in parts]),
        groups=np.concatenate([part.groups for part in parts]),
        far=np.sum([part.far for part in parts], axis=0),
        far_cost=sum(part.far_cost for part in parts),
        quiet=np.sum([part.quiet for part in parts], axis=0),
        quiet_cost=sum(part.quiet_cost for part in parts),
        loss=sum(part.loss for part in parts),
        positive_loss=sum(part.positive_loss for part in parts),
    )


def _look(
    block: Block,
    point: tuple[np.ndarray, float],
    prices: Prices,
    held: np.ndarray,
    known_witnesses: np.ndarray | None,
    extent: tuple[float, int],
) -> tuple[int, Pass]:
    """Number of positive bags of a block, and what a pass finds there."""
    (w, b), (band, n_instances) = point, extent
    numbers = n_instances * width_of(block.instances)
    few = _FEW_ROWS if width_of(block.instances) > _NARROW else min(_FEW_ROWS, _FEW_NARROW_ROWS)
    whole = n_instances <= few and numbers <= _FEW_NUMBERS
    # Few instances all belong to the working set, and are worth all digits.
    scores = (block.instances.astype(np.float64) @ w if whole else block.scores(w)) + b
    signs, weights = prices.signs[block.bags], prices.weights[block.bags]
    top, highest = segment_max(scores, block.offsets), segment_argmax(scores, block.offsets)
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    rows, offsets = gather_rows(block.offsets, negative)
    owner = np.repeat(negative, np.diff(offsets))
    u, top_u = 1.0 + scores[rows], 1.0 + top[negative]
    band = np.inf if whole else band
    limit = max(len(negative), int(_WORKING_NUMBERS / numbers * len(rows)))
    if prices.by_instance:
        beyond = u > 1.0 + band
        near = (u > -band) & ~beyond
        if int(near.sum()) > limit:
            # The rows nearest to the margin; the others beyond it are summed up.
            nearest = np.partition(np.abs(u), limit)[limit]
            beyond |= near & (u >= nearest)
            near &= np.abs(u) < nearest
        loss = float(weights[owner] @ np.maximum(u, 0.0))
    else:
        beyond = np.zeros(len(u), dtype=bool)
        near = u > np.maximum(1.0 + top[owner], 0.0) - band
        if not whole:
            limit = min(limit, int(_PER_BAG * (band / BAND) ** 2) * len(negative))
        if int(near.sum()) > limit:
            # Where scores hardly differ, the highest rows of each bag stand for the others.
            near &= segment_rank(u, offsets) < max(2, limit // max(1, len(negative)))
        loss = float(weights[negative] @ np.maximum(top_u, 0.0))
    kept = kept_type(block)
    witnesses = highest[positive]
    moved = np.arange(len(positive))
    if known_witnesses is not None:
        first, last = np.searchsorted(known_witnesses, [block.rows.start, block.rows.stop])
        moved = np.flatnonzero(known_witnesses[first:last] != witnesses + block.first_row)
    # A bag with rows in the working set pays there.
    known = np.isin(negative + block.first_bag, held)
    silent = negative[(top_u <= -band) & ~known]
    return len(positive), Pass(
        band=band,
        span=(float(top.min()), float(top.max())),
        moved=Moved(moved, witnesses[moved] + block.first_row, block.take(witnesses[moved], kept)),
        rows=block.take(rows[near], kept),
        numbers=rows[near] + block.first_row,
        groups=owner[near] + block.first_bag,
        far=block.weighted_sum(rows[beyond], weights[owner[beyond]]),
        far_cost=float(weights[owner[beyond]].sum()),
        quiet=block.weighted_sum(highest[silent], weights[silent]),
        quiet_cost=float(weights[silent].sum()),
        loss=loss,
        positive_loss=float(weights[positive] @ np.maximum(1.0 - top[positive], 0.0)),
    )


def kept_type(block: Block) -> Any:
    """Type of gathered rows: products of dense ones convert them as they go, of sparse ones not."""
    return np.float64 if sparse.issparse(block.instances) else block.instances.dtype


def joined(
    before: Pass,
    found: Pass,
    point: tuple[np.ndarray, float],
    prices: Prices,
    kept: np.ndarray,
) -> Pass:
    """The working set of a pass with some rows of the one before."""
    (w, b), extra = point, np.flatnonzero(kept & ~np.isin(before.numbers, found.numbers))
    u = 1.0 + np.asarray(before.rows @ w)[extra] + b
    if prices.by_instance:
        # Rows inside of the band that the pass left out are in its sum.
        outside = (u <= -found.band) | (u > 1.0 + found.band)
        extra, u = extra[outside], u[outside]
    most = max(len(found.numbers), int(_KEPT_NUMBERS / width_of(before.rows)))
    if len(extra) > most:
        nearest = np.argpartition(np.abs(u), most)[:most]
        extra, u = extra[nearest], u[nearest]
    if len(extra) == 0:
        return found
    rows, groups = before.rows[extra], before.groups[extra]
    far, far_cost = found.far, found.far_cost
    if prices.by_instance:
        # Rows that went beyond the band are looked at one by one again.
        weights = prices.weights[groups] * (u > 1.0 + found.band)
        far = far - np.asarray(below_each_other([rows]).T @ weights)
        far_cost = max(0.0, far_cost - float(weights.sum()))
    numbers = np.r_[found.numbers, before.numbers[extra]]
    order = np.argsort(numbers, kind="stable")
    return replace(
        found,
        rows=below_each_other([found.rows, rows], order=order),
        numbers=numbers[order],
        groups=np.r_[found.groups, groups][order],
        far=far,
        far_cost=far_cost,
    )


def working_set(vectors: Matrix, found: Pass, prices: Prices) -> GroupProblem:
    """The convex step over the working set: positive bags first, summed rows last."""
    positive = prices.positive
    n_positive, n_rows = len(positive), found.rows.shape[0]
    sums = [
        (total / cost, cost)
        for total, cost in ((found.far, found.far_cost), (found.quiet, found.quiet_cost))
        if cost > 0
    ]
    parts = [vectors, found.rows]
    if sums:
        means = np.stack([mean for mean, _ in sums])
        parts.append(sparse.csr_array(means) if sparse.issparse(vectors) else means)
    if prices.by_instance:
        starts = np.arange(n_rows)
    else:
        starts = np.flatnonzero(np.r_[True, found.groups[1:] != found.groups[:-1]][:n_rows])
    n_all = n_positive + n_rows + len(sums)
    ends = np.arange(n_positive + n_rows, n_all + 1)
    return GroupProblem(
        Z=below_each_other(parts, [-1.0, 1.0, 1.0][: len(parts)]),
        e=np.r_[-np.ones(n_positive), np.ones(n_all - n_positive)],
        offsets=np.r_[np.arange(n_positive), n_positive + starts, ends],
        costs=np.r_[
            prices.weights[positive],
            prices.weights[found.groups[starts]],
            [cost for _, cost in sums],
        ],
    )
