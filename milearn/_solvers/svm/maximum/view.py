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
class _RowSum:
    """A weighted sum of rows, and the sum of their weights."""

    vector: np.ndarray
    cost: float

    @classmethod
    def of_block(cls, block: Block, rows: np.ndarray, weights: np.ndarray) -> _RowSum:
        return cls(block.weighted_sum(rows, weights), float(weights.sum()))

    @classmethod
    def nothing(cls, n_features: int) -> _RowSum:
        return cls(np.zeros(n_features), 0.0)

    @classmethod
    def total(cls, parts: list[_RowSum]) -> _RowSum:
        vectors = [part.vector for part in parts]
        return cls(np.sum(vectors, axis=0), sum(part.cost for part in parts))

    def without(self, rows: Matrix, weights: np.ndarray) -> _RowSum:
        vector = self.vector - np.asarray(rows.T @ weights)
        return _RowSum(vector, max(0.0, self.cost - float(weights.sum())))


@dataclass(frozen=True)
class MaximumView:
    """Result of a pass over a block or over all instances at a point."""

    point: Point
    band: float
    # Highest instances of the positive bags whose witness has changed.
    moves: WitnessRows | None
    # The working set of the negative bags.
    rows: Matrix
    numbers: np.ndarray
    bags: np.ndarray
    # Sum of the rows beyond the margin and the band, if each row has a slack.
    beyond: _RowSum
    # Sum of the highest rows of bags that satisfy the margin by more than the band.
    inactive: _RowSum
    # Losses of all negative and of all positive bags.
    loss: float
    positive_loss: float
    # Value of the convex step.
    value: float = np.nan
    # Whether positive bags have several highest instances, and nothing decided between them.
    tied: bool = False

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
    *,
    held: np.ndarray | None = None,
    before: np.ndarray | None = None,
    band: float | None = None,
    limits: RowLimits | None = None,
    rule: TieRule | None = None,
) -> MaximumView:
    """A pass at a point.

    Parameters
    ----------
    source : PassSource
    point : (w, b)
    costs : BagCosts
    held : ndarray of int of shape (n_positive,), default=None
        Current witnesses; only new ones are gathered.
    before : ndarray of int, default=None
        Bags with rows in the working set of the previous view, also several times.
    band : float, default=None
        Replaces the band of the limits.
    limits : RowLimits, default=None
    rule : TieRule, default=None
        Breaks ties in positive bags; scores then have all digits.
    """
    limits = RowLimits() if limits is None else limits
    limits = limits if band is None else replace(limits, band=band)
    known = np.zeros(source.n_bags, dtype=bool)
    if before is not None:
        known[before] = True
    if held is not None and held[0] < 0:
        held = None
    extent = limits, source.n_instances
    parts = source.map(_view_of_block, point, costs, held, known, extent, rule)
    firsts = np.cumsum([0, *[n_positive for n_positive, _ in parts]])
    views = [view for _, view in parts]
    moves = [view.moves for view in views]
    return MaximumView(
        point=point,
        band=limits.band,
        moves=WitnessRows(
            np.concatenate([each.numbers for each in moves]),
            stacked([each.vectors for each in moves]),
            np.concatenate([each.bags + n for each, n in zip(moves, firsts[:-1], strict=True)]),
        ),
        rows=stacked([view.rows for view in views]),
        numbers=np.concatenate([view.numbers for view in views]),
        bags=np.concatenate([view.bags for view in views]),
        beyond=_RowSum.total([view.beyond for view in views]),
        inactive=_RowSum.total([view.inactive for view in views]),
        loss=sum(view.loss for view in views),
        positive_loss=sum(view.positive_loss for view in views),
        tied=any(view.tied for view in views),
    )


def _view_of_block(
    block: Block,
    point: Point,
    costs: BagCosts,
    held: np.ndarray | None,
    before: np.ndarray,
    extent: tuple[RowLimits, int],
    rule: TieRule | None,
) -> tuple[int, MaximumView]:
    """Number of positive bags of a block, and its view."""
    (w, b), (limits, n_instances) = point, extent
    whole = limits.hold_all(n_instances, block.width)
    # Small problems are solved more precisely, and need scores in double precision.
    precise = whole or limits.precise or rule is not None
    scores = block.scores(w, precise=precise)
    scores += b
    signs, weights = costs.signs[block.bags], costs.weights[block.bags]
    highest = segment_argmax(scores, block.offsets)
    top = scores[highest]
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    sizes = np.diff(block.offsets)
    n_rows = int(sizes[negative].sum())
    share = n_rows / (n_instances * block.width)
    limits = replace(limits, numbers=int(limits.numbers * share))
    if costs.by_instance:
        spread = np.repeat(np.where(signs < 0, weights, 0.0), sizes)
        near, beyond = _near_the_margin(1.0 + scores, spread > 0, len(negative), whole, limits)
        loss = float(spread @ np.maximum(1.0 + scores, 0.0))
        far = np.flatnonzero(beyond)
        further = _RowSum.of_block(block, far, spread[far])
    else:
        level = np.where(signs < 0, top, np.inf)
        near = _near_the_top(scores, block.offsets, level, whole, limits)
        further = _RowSum.nothing(block.stored.shape[1])
        loss = float(weights[negative] @ np.maximum(1.0 + top[negative], 0.0))
    rows = np.flatnonzero(near)
    owner = np.searchsorted(block.offsets, rows, side="right") - 1
    # Bags with rows in the working set are not summed.
    clear = 1.0 + top[negative] <= (-np.inf if whole else -limits.band)
    inactive = negative[clear & ~before[block.bags][negative]]
    witnesses, tied = highest[positive], False
    if rule is not None:
        witnesses, tied = rule.highest(block, scores - b, positive)
    return len(positive), MaximumView(
        point=point,
        band=limits.band,
        moves=_moves(block, witnesses, held),
        rows=block.take(rows, kept_type(block)),
        numbers=rows + block.first_row,
        bags=owner + block.first_bag,
        beyond=further,
        inactive=_RowSum.of_block(block, highest[inactive], weights[inactive]),
        loss=loss,
        positive_loss=float(weights[positive] @ np.maximum(1.0 - top[positive], 0.0)),
        tied=tied,
    )


def _near_the_margin(
    u: np.ndarray, negative: np.ndarray, n_bags: int, whole: bool, limits: RowLimits
) -> tuple[np.ndarray, np.ndarray]:
    """Negative rows with slacks that belong to the working set, and those that are summed."""
    if whole:
        return negative, np.zeros(len(u), dtype=bool)
    beyond = u > 1.0 + limits.band
    near = (u > -limits.band) & ~beyond & negative
    beyond &= negative
    most = max(n_bags, limits.numbers)
    if np.count_nonzero(near) > most:
        distance = np.abs(u)
        farthest = np.partition(distance[near], most)[most]
        beyond |= near & (u >= farthest)
        near &= distance < farthest
    return near, beyond


def _near_the_top(
    scores: np.ndarray, offsets: np.ndarray, top: np.ndarray, whole: bool, limits: RowLimits
) -> np.ndarray:
    """Rows of bags with one slack that belong to the working set.

    ``top`` is the highest score of each negative bag, and infinity for others. A bag has a number
    of rows that does not depend on the other bags of its block, because the order of the bags
    would choose the blocks.
    """
    sizes = np.diff(offsets)
    if whole:
        return np.repeat(np.isfinite(top), sizes)
    near = scores > np.repeat(np.maximum(top, -1.0) - limits.band, sizes)
    wider = (limits.band / RowLimits.band) ** 2
    n_rows = int(sizes[np.isfinite(top)].sum())
    by_numbers = limits.numbers * sizes // max(1, n_rows)
    most = np.maximum(2, np.minimum(int(limits.per_bag * wider), by_numbers))
    counts = np.add.reduceat(near, offsets[:-1], dtype=np.intp)
    over = np.flatnonzero(counts > most)
    if len(over):
        # If scores hardly differ, the highest rows of each bag are enough.
        rows, own = gather_rows(offsets, over)
        low = segment_rank(scores[rows], own) >= np.repeat(most[over], np.diff(own))
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
    (w, _), n_rows = view.point, view.rows.shape[0]
    if n_rows == 0 or sparse.issparse(view.rows):
        return 0.0
    some = np.asarray(view.rows[np.linspace(0, n_rows - 1, min(n_rows, 256)).astype(np.intp)])
    squared = float(np.einsum("ij,ij->", some, some, dtype=np.float64)) / len(some)
    cost = float(costs.weights.sum())
    if costs.by_instance:
        cost = float(costs.weights[costs.positive].sum() + costs.weights[view.bags].sum())
    return cost * float(np.finfo(np.float32).eps) * float(np.sqrt(squared * (w @ w)))


def joined(
    before: MaximumView, view: MaximumView, costs: BagCosts, kept: np.ndarray, kept_numbers: int
) -> MaximumView:
    """A view whose working set also has some rows of the previous working set."""
    (w, b), known = view.point, np.isin(before.numbers, view.numbers)
    extra = np.flatnonzero(kept & ~known)
    u = 1.0 + np.asarray(before.rows @ w)[extra] + b
    if costs.by_instance:
        # Rows inside the band that the pass left out are in one of its sums.
        outside = (u <= -view.band) | (u > 1.0 + view.band)
        extra, u = extra[outside], u[outside]
    most = max(len(view.numbers), int(kept_numbers / width_of(before.rows)))
    if len(extra) > most:
        nearest = np.argpartition(np.abs(u), most)[:most]
        extra, u = extra[nearest], u[nearest]
    if len(extra) == 0:
        return view
    rows, bags, beyond = before.rows[extra], before.bags[extra], view.beyond
    if costs.by_instance:
        # Rows that are now beyond the band move from the sum to the working set.
        beyond = beyond.without(rows, costs.weights[bags] * (u > 1.0 + view.band))
    numbers = np.r_[view.numbers, before.numbers[extra]]
    order = np.argsort(numbers, kind="stable")
    return replace(
        view,
        rows=stacked([view.rows, rows])[order],
        numbers=numbers[order],
        bags=np.r_[view.bags, bags][order],
        beyond=beyond,
    )


def working_set(
    witnesses: Matrix, view: MaximumView, costs: BagCosts, single_numbers: float = 2**22
) -> GroupProblem:
    """The convex step over the working set, with the witnesses first and the sums last.

    Rows in float32 with more than ``single_numbers`` values stay in it: problems of this size are
    not solved to many digits.
    """
    positive = costs.positive
    n_positive, n_rows = len(positive), view.rows.shape[0]
    sums = [each for each in (view.beyond, view.inactive) if each.cost > 0]
    parts = [-witnesses, view.rows]
    if sums:
        means = np.stack([each.vector / each.cost for each in sums])
        parts.append(sparse.csr_array(means) if sparse.issparse(witnesses) else means)
    n_all = n_positive + n_rows + len(sums)
    single = n_all * view.rows.shape[1] > single_numbers and view.rows.dtype == np.float32
    dtype = np.float32 if single else np.float64
    starts = np.arange(n_rows)
    if not costs.by_instance:
        starts = np.flatnonzero(np.r_[True, view.bags[1:] != view.bags[:-1]][:n_rows])
    ends = np.arange(n_positive + n_rows, n_all + 1)
    row_costs = costs.weights[view.bags[starts]]
    return GroupProblem(
        Z=stacked(parts) if sparse.issparse(witnesses) else np.concatenate(parts, dtype=dtype),
        e=np.r_[-np.ones(n_positive), np.ones(n_all - n_positive)][:, None],
        offsets=np.r_[np.arange(n_positive), n_positive + starts, ends],
        costs=np.r_[costs.weights[positive], row_costs, [each.cost for each in sums]],
    )
