"""Passes of MI-SVM over all instances, and the working sets of its convex steps.

The working set contains a witness of each positive bag, and the rows of negative bags near or
beyond the margin. The other rows are summed in two rows. By convexity their hinges are lower bounds
of the sums of hinges, so the minimum over the working set is a lower bound of the step. The working
set of a small problem contains all instances.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.blocks import Block, PassSource, stacked, width_of
from ...._bags.segments import gather_rows, segment_argmax, segment_rank
from ...common.descent import WorkingSet
from ...common.newton import GroupProblem
from ...common.sample import SampleLimits
from ...common.witnesses import TieRule

Matrix = Any  # an ndarray or a CSR matrix
Point = tuple[np.ndarray, float]


@dataclass(frozen=True)
class RowLimits:
    """Limits of the rows of negative bags that belong to a working set."""

    # Distance from the margin or from the highest row of a bag, in units of the margin.
    band: float = 0.3
    # Rows of each bag with one slack; more if the band is wider.
    per_bag: int = 4
    # Numbers in all rows.
    numbers: int = 2**25
    # Instances, and numbers in them, up to which all instances belong to the working set.
    whole_rows: int = 20_000
    whole_numbers: int = 2**24
    # The same for instances with at most ``narrow`` numbers: a step over all of them would take
    # longer than a pass, and few rounds are needed.
    narrow: int = 50
    whole_narrow_rows: int = 2_000
    # Numbers in rows of earlier passes that are always kept.
    kept_numbers: int = 2**21
    sample: SampleLimits = field(default_factory=SampleLimits)
    screened: SampleLimits = field(default_factory=SampleLimits.of_whole_bags)
    # Numbers in all instances up to which the means and a screened start are followed on all.
    all_starts: float = 2.0**24
    # Features per instance of the sample above which variances of all instances give one more
    # start, if there are so many instances per feature: the bags of the sample are separable then,
    # whatever their witnesses, and all bags are not. The band at this start is wider by a factor,
    # because a direction without support vectors changes by much.
    features_per_row: float = 1.0
    rows_per_feature: float = 10.0
    wider: float = 3.0
    # Least and largest number of features for which covariances of all instances give one more
    # start. With fewer features the sample shows the same direction; with more, covariances take
    # longer than the fit.
    covariance_features: tuple[int, int] = (256, 1_500)
    # Whether scores of rows in single precision are in double precision.
    precise: bool = False

    def by_variances(self, n_instances: int, n_features: int) -> bool:
        """Whether variances of all instances give a start."""
        n_sampled = self.screened.wanted(n_features)
        many = n_instances > self.rows_per_feature * n_features
        return many and n_features > self.features_per_row * n_sampled

    def by_covariances(self, n_features: int) -> bool:
        """Whether covariances of all instances give a start."""
        least, most = self.covariance_features
        return least <= n_features <= most

    def hold_all(self, n_instances: int, width: float) -> bool:
        """Whether all rows of negative bags belong to the working set."""
        rows = self.whole_rows
        if width <= self.narrow:
            rows = min(rows, self.whole_narrow_rows)
        return n_instances <= rows and n_instances * width <= self.whole_numbers


@dataclass(frozen=True)
class BagCosts:
    """Signs of the bags, costs of their slacks, and whether negative instances have slacks."""

    signs: np.ndarray
    weights: np.ndarray
    by_instance: bool

    @property
    def positive(self) -> np.ndarray:
        return np.flatnonzero(self.signs > 0)

    def at_zero(self, sizes: np.ndarray) -> float:
        """The smallest loss of a constant function; ``sizes`` are the sizes of the bags."""
        negative = self.signs < 0
        slacks = np.where(negative & self.by_instance, sizes, 1)
        sums = [float(self.weights[side] @ slacks[side]) for side in (negative, ~negative)]
        return 2.0 * min(sums)


@dataclass(frozen=True)
class WitnessRows:
    """Witnesses by row number and as vectors; the number of the mean of a bag is -1.

    ``bags`` are positions among the positive bags.
    """

    numbers: np.ndarray
    vectors: Matrix
    bags: np.ndarray

    def moved(self, moves: WitnessRows) -> WitnessRows:
        """The witnesses with new ones for some bags; vectors are replaced in place."""
        if len(moves.bags) == len(self.numbers):
            return moves
        numbers, vectors = self.numbers.copy(), self.vectors
        numbers[moves.bags] = moves.numbers
        if sparse.issparse(vectors):
            place = np.arange(len(numbers))
            place[moves.bags] = len(place) + np.arange(len(moves.bags))
            vectors = stacked([vectors, moves.vectors])[place]
        else:
            vectors[moves.bags] = moves.vectors
        return WitnessRows(numbers, vectors, self.bags)

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Inner products with the weight vector."""
        return np.asarray(self.vectors @ w)


@dataclass(frozen=True)
class MaximumView:
    """Result of a pass over all instances at a point."""

    point: Point
    band: float
    # Highest instances of the positive bags whose witness has changed.
    moves: WitnessRows | None
    # Rows of the negative bags.
    working: WorkingSet
    # Two sums of rows, (2, n_features), and of their costs: if each row has a slack, of the rows
    # beyond the margin and the band; of the highest rows of bags that satisfy the margin by more
    # than the band.
    sums: np.ndarray
    sum_costs: np.ndarray
    # Losses of all negative and of all positive bags.
    loss: float
    positive_loss: float
    # Whether positive bags have several highest instances, and nothing decided between them.
    tied: bool = False
    # Value of the convex step.
    value: float = np.nan

    @property
    def v(self) -> np.ndarray:
        """The intercept."""
        return np.array([self.point[1]])

    @property
    def objective(self) -> float:
        """Value of the problem at the point."""
        w, _ = self.point
        return 0.5 * float(w @ w) + self.loss + self.positive_loss


def view_at(
    source: PassSource,
    point: Point,
    costs: BagCosts,
    limits: RowLimits,
    *,
    held: np.ndarray | None = None,
    before: np.ndarray | None = None,
    rule: TieRule | None = None,
) -> MaximumView:
    """A pass at a point.

    Parameters
    ----------
    source : PassSource
    point : (w, b)
    costs : BagCosts
    limits : RowLimits
    held : ndarray of int of shape (n_positive,), default=None
        Current witnesses; only new ones are gathered.
    before : ndarray of int, default=None
        Bags with rows in the working set of the previous view, also several times.
    rule : TieRule, default=None
        Breaks ties in positive bags; scores then have all digits.
    """
    known = np.zeros(source.n_bags, dtype=bool)
    if before is not None:
        known[before] = True
    if held is not None and held[0] < 0:
        held = None
    parts = source.map(pass_over, point, costs, held, known, limits, source.n_instances, rule)
    witnesses, workings, sums, sum_costs, losses, tied = zip(*parts, strict=True)
    counts, moves = zip(*witnesses, strict=True)
    firsts = np.cumsum(counts) - counts
    loss, positive_loss = np.sum(losses, axis=0)
    return MaximumView(
        point=point,
        band=limits.band,
        moves=WitnessRows(
            np.concatenate([each.numbers for each in moves]),
            stacked([each.vectors for each in moves]),
            np.concatenate([each.bags + n for each, n in zip(moves, firsts, strict=True)]),
        ),
        working=WorkingSet.together(list(workings)),
        sums=np.sum(sums, axis=0),
        sum_costs=np.sum(sum_costs, axis=0),
        loss=float(loss),
        positive_loss=float(positive_loss),
        tied=any(tied),
    )


def pass_over(
    block: Block,
    point: Point,
    costs: BagCosts,
    held: np.ndarray | None,
    before: np.ndarray,
    limits: RowLimits,
    n_instances: int,
    rule: TieRule | None,
) -> tuple[Any, ...]:
    """Part of a block in the fields of a view, from ``moves`` to ``tied``.

    Before the moves stands the number of positive bags; ``before`` tells for each bag whether it
    had rows in the last working set.
    """
    w, b = point
    whole = limits.hold_all(n_instances, block.width)
    # Small problems are solved more precisely, and need scores in double precision.
    scores = block.scores(w, precise=whole or limits.precise or rule is not None)
    scores += b
    signs, weights = costs.signs[block.bags], costs.weights[block.bags]
    highest = segment_argmax(scores, block.offsets)
    top = scores[highest]
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    paid = np.where(signs < 0, weights, 0.0)
    share = np.diff(block.offsets)[negative].sum() / (n_instances * block.width)
    most = None if whole else int(limits.numbers * share)
    if costs.by_instance:
        near, far, loss = _instance_slacks(scores, block.offsets, paid, limits.band, most)
    else:
        near = _bag_slacks(scores, block.offsets, np.where(signs < 0, top, np.inf), limits, most)
        far, loss = np.zeros(len(scores)), float(paid @ np.maximum(1.0 + top, 0.0))
    rows, beyond = np.flatnonzero(near), np.flatnonzero(far)
    owners = np.searchsorted(block.offsets, rows, side="right") - 1
    # Bags with rows in the working set are not summed.
    clear = 1.0 + top[negative] <= (-np.inf if whole else -limits.band)
    inactive = negative[clear & ~before[block.bags][negative]]
    summed = (beyond, far[beyond]), (highest[inactive], weights[inactive])
    witnesses, tied = highest[positive], False
    if rule is not None:
        witnesses, tied = rule.highest(block, scores - b, positive)
    return (
        (len(positive), _moves(block, witnesses, held)),
        WorkingSet(
            block.take(rows, kept_type(block)), rows + block.first_row, owners + block.first_bag
        ),
        np.stack([block.weighted_sum(*each) for each in summed]),
        np.array([each.sum() for _, each in summed]),
        (loss, float(weights[positive] @ np.maximum(1.0 - top[positive], 0.0))),
        tied,
    )


def _instance_slacks(
    scores: np.ndarray, offsets: np.ndarray, paid: np.ndarray, band: float, most: int | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows of the working set, costs of the summed rows, and the loss, with a slack of each row.

    ``paid`` is the cost of each negative bag, and zero for others. ``most`` is a number of rows, or
    None if all of them belong to the working set.
    """
    u, spread = 1.0 + scores, np.repeat(paid, np.diff(offsets))
    loss = float(spread @ np.maximum(u, 0.0))
    if most is None:
        return spread > 0, np.zeros(len(u)), loss
    beyond = (u > 1.0 + band) & (spread > 0)
    near = (u > -band) & ~beyond & (spread > 0)
    most = max(np.count_nonzero(paid), most)
    if np.count_nonzero(near) > most:
        distance = np.abs(u)
        farthest = np.partition(distance[near], most)[most]
        beyond |= near & (u >= farthest)
        near &= distance < farthest
    return near, np.where(beyond, spread, 0.0), loss


def _bag_slacks(
    scores: np.ndarray, offsets: np.ndarray, top: np.ndarray, limits: RowLimits, most: int | None
) -> np.ndarray:
    """Rows of the working set with one slack for each bag.

    ``top`` is the highest score of each negative bag, and infinity for others. A bag has a number
    of rows that does not depend on the other bags of its block, because the order of the bags
    would choose the blocks. ``most`` is a number of rows, or None if all of them belong to it.
    """
    sizes = np.diff(offsets)
    if most is None:
        return np.repeat(np.isfinite(top), sizes)
    near = scores > np.repeat(np.maximum(top, -1.0) - limits.band, sizes)
    wider = (limits.band / RowLimits.band) ** 2
    by_numbers = most * sizes // max(1, int(sizes[np.isfinite(top)].sum()))
    each = np.maximum(2, np.minimum(int(limits.per_bag * wider), by_numbers))
    counts = np.add.reduceat(near, offsets[:-1], dtype=np.intp)
    over = np.flatnonzero(counts > each)
    if len(over):
        # If scores hardly differ, the highest rows of each bag are enough.
        rows, own = gather_rows(offsets, over)
        low = segment_rank(scores[rows], own) >= np.repeat(each[over], np.diff(own))
        near[rows[low]] = False
    return np.asarray(near)


def _moves(block: Block, highest: np.ndarray, held: np.ndarray | None) -> WitnessRows:
    """Highest instances of the positive bags of a block whose witness has changed."""
    bags = np.arange(len(highest))
    if held is not None:
        first, last = np.searchsorted(held, [block.rows.start, block.rows.stop])
        bags = np.flatnonzero(held[first:last] != highest + block.first_row)
    vectors = block.take(highest[bags], kept_type(block))
    return WitnessRows(highest[bags] + block.first_row, vectors, bags)


def kept_type(block: Block) -> Any:
    """Type of gathered rows: that of dense ones, because they are many."""
    return np.float64 if sparse.issparse(block.stored) else block.dtype


def rounding_of(view: MaximumView, costs: BagCosts) -> float:
    """Rounding error of the value of a view whose scores are in single precision.

    The error of a score is in proportion to the norms of w and of the rows. Losses near zero are
    the sums of such errors.
    """
    (w, _), rows = view.point, view.working.rows
    n_rows = rows.shape[0]
    if n_rows == 0 or sparse.issparse(rows):
        return 0.0
    some = np.asarray(rows[np.linspace(0, n_rows - 1, min(n_rows, 256)).astype(np.intp)])
    squared = float(np.einsum("ij,ij->", some, some, dtype=np.float64)) / len(some)
    cost = float(costs.weights.sum())
    if costs.by_instance:
        owners = view.working.owners
        cost = float(costs.weights[costs.positive].sum() + costs.weights[owners].sum())
    return cost * float(np.finfo(np.float32).eps) * float(np.sqrt(squared * (w @ w)))


def joined(
    before: WorkingSet, view: MaximumView, costs: BagCosts, kept: np.ndarray, kept_numbers: int
) -> MaximumView:
    """A view whose working set also has some rows of the previous working set."""
    (w, b), working = view.point, view.working
    extra = np.flatnonzero(kept & ~np.isin(before.numbers, working.numbers))
    u = 1.0 + np.asarray(before.rows @ w)[extra] + b
    if costs.by_instance:
        # Rows inside the band that the pass left out are in one of its sums.
        outside = (u <= -view.band) | (u > 1.0 + view.band)
        extra, u = extra[outside], u[outside]
    most = max(len(working.numbers), int(kept_numbers / width_of(before.rows)))
    if len(extra) > most:
        nearest = np.argpartition(np.abs(u), most)[:most]
        extra, u = extra[nearest], u[nearest]
    sums, sum_costs = view.sums.copy(), view.sum_costs.copy()
    if costs.by_instance:
        # Rows that are now beyond the band move from the sum to the working set.
        moved = costs.weights[before.owners[extra]] * (u > 1.0 + view.band)
        sums[0] -= np.asarray(before.rows[extra].T @ moved)
        sum_costs[0] = max(0.0, sum_costs[0] - float(moved.sum()))
    chosen = np.zeros(len(before.numbers), dtype=bool)
    chosen[extra] = True
    return replace(view, working=working.joined(before, chosen), sums=sums, sum_costs=sum_costs)


def working_set(
    witnesses: Matrix, view: MaximumView, costs: BagCosts, single_numbers: float = 2**22
) -> GroupProblem:
    """The convex step over the working set, with the witnesses first and the sums last.

    Rows in float32 with more than ``single_numbers`` values stay in it: problems of this size are
    not solved to many digits.
    """
    rows, owners = view.working.rows, view.working.owners
    positive, used = costs.positive, view.sum_costs > 0
    n_positive, n_rows = len(positive), rows.shape[0]
    means: Matrix = view.sums[used] / view.sum_costs[used, None]
    if sparse.issparse(witnesses):
        means = sparse.csr_array(means)
    n_all = n_positive + n_rows + means.shape[0]
    single = n_all * rows.shape[1] > single_numbers and rows.dtype == np.float32
    parts, dtype = [-witnesses, rows, means], np.float32 if single else np.float64
    starts = np.arange(n_rows)
    if not costs.by_instance:
        starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]][:n_rows])
    ends = np.arange(n_positive + n_rows, n_all + 1)
    return GroupProblem(
        Z=stacked(parts) if sparse.issparse(witnesses) else np.concatenate(parts, dtype=dtype),
        e=np.r_[-np.ones(n_positive), np.ones(n_all - n_positive)][:, None],
        offsets=np.r_[np.arange(n_positive), n_positive + starts, ends],
        costs=np.r_[costs.weights[positive], costs.weights[owners[starts]], view.sum_costs[used]],
    )
