"""A pass of MI-SVM over all instances, and the working set of its convex step.

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

from ...._bags.blocks import Block, PassSource, product, stacked, width_of
from ...._bags.segments import gather_rows, segment_argmax, segment_rank
from ...common.descent import Witnesses, WorkingSet
from ...common.newton import GroupProblem
from ...common.passes import SampleLimits, TieRule

# Numbers in an instance up to which a step over many of them takes longer than a pass, and few
# rounds are needed.
_NARROW = 50
# Numbers in rows of earlier passes that are always kept.
_KEPT_NUMBERS = 2**21


@dataclass(frozen=True)
class RowLimits:
    """Limits of the rows of negative bags that belong to a working set, and of the starts."""

    # Distance from the margin or from the highest row of a bag, in units of the margin.
    band: float = 0.3
    # Rows of each bag with one slack; more if the band is wider.
    per_bag: int = 4
    # Numbers in all rows.
    numbers: int = 2**25
    # Instances, and numbers in them, up to which all instances belong to the working set.
    whole_rows: int = 20_000
    whole_numbers: int = 2**24
    # The same for instances with few numbers.
    whole_narrow_rows: int = 2_000
    sample: SampleLimits = field(default_factory=SampleLimits)
    screened: SampleLimits = field(default_factory=SampleLimits.of_whole_bags)
    # Numbers in all instances up to which the means and a screened start are followed on all.
    all_starts: float = 2.0**24
    # Features per instance of the sample above which variances of all instances give one more
    # start: the bags of the sample are separable then, and all bags are not.
    features_per_row: float = 1.0
    # Least and largest number of features for which covariances of all instances give one more
    # start. With fewer features the sample shows the same direction; with more, covariances take
    # longer than the fit.
    covariance_features: tuple[int, int] = (256, 1_500)
    # Whether scores of rows in single precision are in double precision.
    precise: bool = False

    def hold_all(self, n_instances: int, width: float) -> bool:
        """Whether all rows of negative bags belong to the working set."""
        rows = self.whole_rows
        if width <= _NARROW:
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
        slacks = np.where((self.signs < 0) & self.by_instance, sizes, 1) * self.weights
        return 2.0 * float(min(slacks[self.signs < 0].sum(), slacks[self.signs > 0].sum()))


@dataclass(frozen=True)
class View:
    """Result of a pass over a block or over all instances at a point (w, b).

    Attributes
    ----------
    highest : Witnesses
        The highest instances of the positive bags.
    working : WorkingSet
        Rows of negative bags.
    beyond : ndarray of shape (n_features + 1,)
        Weighted sum of the rows beyond the margin and the band, if each row has a slack; the last
        number is the sum of their weights.
    inactive : ndarray of shape (n_features + 1,)
        The same for the highest rows of bags that satisfy the margin by more than the band.
    negative_loss, positive_loss : float
    tied : bool
        Whether positive bags have several highest instances, and nothing decided between them.
    objective, value : float
        Value of the problem and of the convex step, if this is a view of all instances.
    """

    highest: Witnesses
    working: WorkingSet
    beyond: np.ndarray
    inactive: np.ndarray
    negative_loss: float
    positive_loss: float
    tied: bool
    point: tuple[np.ndarray, float]
    objective: float = np.nan
    value: float = np.nan

    @property
    def v(self) -> np.ndarray:
        """The intercept."""
        return np.array([self.point[1]])


def view_at(
    source: PassSource,
    point: tuple[np.ndarray, float],
    costs: BagCosts,
    limits: RowLimits,
    *,
    before: np.ndarray | None = None,
    rule: TieRule | None = None,
) -> View:
    """A pass at a point (w, b).

    Parameters
    ----------
    source : PassSource
    point : tuple of ndarray and float
    costs : BagCosts
    limits : RowLimits
    before : ndarray of int, default=None
        Bags with rows in the working set of the previous view, also several times.
    rule : TieRule, default=None
        Breaks ties in positive bags; scores then have all digits.
    """
    known = np.zeros(source.n_bags, dtype=bool)
    if before is not None:
        known[before] = True
    parts = source.map(pass_over, point, costs, limits, source.n_instances, known, rule)
    negative, positive = (
        sum(getattr(part, name) for part in parts) for name in ("negative_loss", "positive_loss")
    )
    beyond, inactive = (
        np.sum([getattr(part, name) for part in parts], axis=0) for name in ("beyond", "inactive")
    )
    tied, working = any(part.tied for part in parts), [part.working for part in parts]
    highest = Witnesses.together([part.highest for part in parts])
    del parts  # and the witnesses of each block, before the rows are copied
    return View(
        highest=highest,
        working=WorkingSet.together(working),
        beyond=beyond,
        inactive=inactive,
        negative_loss=negative,
        positive_loss=positive,
        tied=tied,
        point=point,
        objective=0.5 * float(point[0] @ point[0]) + negative + positive,
    )


def pass_over(
    block: Block,
    point: tuple[np.ndarray, float],
    costs: BagCosts,
    limits: RowLimits,
    n_instances: int,
    known: np.ndarray,
    rule: TieRule | None,
) -> View:
    """A pass over a block; bags that are ``known`` are not summed."""
    w, b = point
    whole = limits.hold_all(n_instances, block.width)
    # Small problems are solved more precisely, and need scores in double precision.
    scores = block.scores(w, precise=whole or limits.precise or rule is not None)
    scores += b
    signs, weights = costs.signs[block.bags], costs.weights[block.bags]
    highest = segment_argmax(scores, block.offsets)
    top = scores[highest]
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    sizes = np.diff(block.offsets)
    most = int(limits.numbers * sizes[negative].sum() / (n_instances * block.width))
    beyond = np.zeros(0, dtype=np.intp)
    spread = np.repeat(np.where(signs < 0, weights, 0.0), sizes)
    if whole:
        near = spread > 0
    elif costs.by_instance:
        most = max(len(negative), most)
        near, far = _near_the_margin(1.0 + scores, spread > 0, limits.band, most)
        beyond = np.flatnonzero(far)
    else:
        level = np.where(signs < 0, top, np.inf)
        near = _near_the_top(scores, block.offsets, level, limits, most)
    if costs.by_instance:
        loss = float(spread @ np.maximum(1.0 + scores, 0.0))
    else:
        loss = float(weights[negative] @ np.maximum(1.0 + top[negative], 0.0))
    rows = np.flatnonzero(near)
    clear = np.zeros(len(negative), dtype=bool)
    if not whole:
        clear = (1.0 + top[negative] <= -limits.band) & ~known[block.bags][negative]
    inactive = negative[clear]
    witnesses, tied = highest[positive], False
    if rule is not None:
        witnesses, tied = rule.highest(block, scores - b, positive)
    # Gathered rows in the type of dense ones, because they are many.
    kept_type: Any = np.float64 if sparse.issparse(block.stored) else block.dtype
    return View(
        highest=Witnesses(witnesses + block.first_row, block.take(witnesses, kept_type)),
        working=WorkingSet.of_block(block, rows, kept_type),
        beyond=_sum_of_rows(block, beyond, spread[beyond]),
        inactive=_sum_of_rows(block, highest[inactive], weights[inactive]),
        negative_loss=loss,
        positive_loss=float(weights[positive] @ np.maximum(1.0 - top[positive], 0.0)),
        tied=tied,
        point=point,
    )


def _sum_of_rows(block: Block, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.append(block.weighted_sum(rows, weights), weights.sum())


def _near_the_margin(
    u: np.ndarray, negative: np.ndarray, band: float, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Negative rows with slacks that belong to the working set, and those that are summed."""
    beyond = u > 1.0 + band
    near = (u > -band) & ~beyond & negative
    beyond &= negative
    if np.count_nonzero(near) > most:
        distance = np.abs(u)
        farthest = np.partition(distance[near], most)[most]
        beyond |= near & (u >= farthest)
        near &= distance < farthest
    return near, beyond


def _near_the_top(
    scores: np.ndarray, offsets: np.ndarray, top: np.ndarray, limits: RowLimits, most: int
) -> np.ndarray:
    """Rows of bags with one slack that belong to the working set, about ``most`` of all.

    ``top`` is the highest score of each negative bag, and infinity for others. A bag has a number
    of rows that does not depend on the other bags of its block, because the order of the bags
    would choose the blocks.
    """
    sizes = np.diff(offsets)
    near = scores > np.repeat(np.maximum(top, -1.0) - limits.band, sizes)
    wider = (limits.band / RowLimits.band) ** 2
    by_numbers = most * sizes // max(1, int(sizes[np.isfinite(top)].sum()))
    few = np.maximum(1, np.minimum(int(limits.per_bag * wider), by_numbers))
    over = np.flatnonzero(np.add.reduceat(near, offsets[:-1], dtype=np.intp) > few)
    if len(over):
        # If scores hardly differ, the highest rows of each bag are enough.
        rows, own = gather_rows(offsets, over)
        low = segment_rank(scores[rows], own) >= np.repeat(few[over], np.diff(own))
        near[rows[low]] = False
    return np.asarray(near)


def rounding_of(view: View, costs: BagCosts) -> float:
    """Rounding error of the value of a view whose scores are in single precision.

    The error of a score is in proportion to the norms of w and of the rows. Losses near zero are
    the sums of such errors.
    """
    rows, (w, _) = view.working.rows, view.point
    if rows.shape[0] == 0 or sparse.issparse(rows):
        return 0.0
    some = np.linspace(0, len(rows) - 1, min(len(rows), 256)).astype(np.intp)
    squared = float(np.square(rows[some], dtype=np.float64).sum()) / len(some)
    cost = float(costs.weights.sum())
    if costs.by_instance:
        owners = view.working.owners
        cost = float(costs.weights[costs.positive].sum() + costs.weights[owners].sum())
    return cost * float(np.finfo(np.float32).eps) * float(np.sqrt(squared * (w @ w)))


def joined(before: View, view: View, costs: BagCosts, band: float, kept: np.ndarray) -> View:
    """A view, with its band, whose working set also has some rows of the previous one."""
    (w, b), old, beyond = view.point, before.working, view.beyond
    u = 1.0 + product(old.rows, w) + b
    kept = kept & ~np.isin(old.numbers, view.working.numbers)
    if costs.by_instance:
        # Rows inside the band that the pass left out are in one of its sums.
        kept &= (u <= -band) | (u > 1.0 + band)
    most = max(len(view.working.numbers), int(_KEPT_NUMBERS / width_of(old.rows)))
    if np.count_nonzero(kept) > most:
        kept &= np.abs(u) <= np.partition(np.abs(u[kept]), most - 1)[most - 1]
    if costs.by_instance:
        # Rows that are now beyond the band move from the sum to the working set.
        moved = np.flatnonzero(kept & (u > 1.0 + band))
        weights = costs.weights[old.owners[moved]]
        beyond = beyond - np.append(np.asarray(old.rows[moved].T @ weights), weights.sum())
        beyond[-1] = max(0.0, beyond[-1])
    return replace(view, working=view.working.joined(old, kept), beyond=beyond)


def working_set(
    witnesses: Any, view: View, costs: BagCosts, single_numbers: float = 2**22
) -> GroupProblem:
    """The convex step over the working set, with the witnesses first and the sums last.

    Rows in float32 with more than ``single_numbers`` values stay in it: problems of this size are
    not solved to many digits.
    """
    rows, owners, positive = view.working.rows, view.working.owners, costs.positive
    n_positive, n_rows = len(positive), rows.shape[0]
    sums = np.array([each for each in (view.beyond, view.inactive) if each[-1] > 0])
    parts = [witnesses, rows]
    if len(sums):
        means = sums[:, :-1] / sums[:, -1:]
        parts.append(sparse.csr_array(means) if sparse.issparse(witnesses) else means)
    n_all = n_positive + n_rows + len(sums)
    single = n_all * rows.shape[1] > single_numbers and rows.dtype == np.float32
    starts = np.arange(n_rows)
    if not costs.by_instance:
        starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]][:n_rows])
    ends = np.arange(n_positive + n_rows, n_all + 1)
    dtype = np.float32 if single else np.float64
    if sparse.issparse(witnesses):
        Z = stacked([-witnesses, *parts[1:]])
    else:
        Z = np.concatenate(parts, dtype=dtype)
        np.negative(Z[:n_positive], out=Z[:n_positive])
    return GroupProblem(
        Z=Z,
        e=np.r_[-np.ones(n_positive), np.ones(n_all - n_positive)][:, None],
        offsets=np.r_[np.arange(n_positive), n_positive + starts, ends],
        costs=np.r_[
            costs.weights[positive], costs.weights[owners[starts]], sums[:, -1] if len(sums) else []
        ],
    )
