"""Columns of the relaxation: dual prices, learners and copies of their weights."""

from __future__ import annotations

import numpy as np

from .learners import WeakLearner
from .problem import BagPrices, DualPrices, comparable, score_columns
from .relaxation import ZERO_TOL, BagHull, Relaxation


def dual_prices(relaxation: Relaxation, y: np.ndarray | None = None) -> DualPrices:
    """Multipliers of the rows as prices that score learners.

    Parameters
    ----------
    relaxation : Relaxation
    y : ndarray, default=None
        Multipliers by row number; by default, those of the last solution.
    """
    problem = relaxation.problem
    y = np.maximum(0.0, relaxation.result.y if y is None else y)
    linear = problem.linear_prices(relaxation.margin_multipliers(y))
    bags = []
    for number, bag in enumerate(relaxation.bags):
        if y[bag.row] > ZERO_TOL:
            bags.append(BagPrices.of_whole(bag.members, float(y[bag.row])))
        prices = _prices_of_disjuncts(relaxation, number, y)
        if prices is not None:
            bags.append(prices)
    return DualPrices(linear, bags, relaxation.scores)


def _prices_of_disjuncts(relaxation: Relaxation, number: int, y: np.ndarray) -> BagPrices | None:
    problem, bag = relaxation.problem, relaxation.bags[number]
    margins = [
        (block, y[row], owner)
        for owner, each in enumerate(bag.disjuncts)
        for block, row in each.margins
        if y[row] > ZERO_TOL
    ]
    reductions = [
        (owner, j, y[row])
        for owner, each in enumerate(bag.disjuncts)
        for j, row in each.reductions.items()
        if y[row] > ZERO_TOL
    ]
    if not margins and not reductions:
        return None
    used = sorted({j for _, j, _ in reductions})
    position = {j: k for k, j in enumerate(used)}
    weights = np.zeros((len(bag.disjuncts), len(used)))
    for owner, j, value in reductions:
        weights[owner, position[j]] = problem.signs[j] * value
    return BagPrices(
        members=[block for block, _, _ in margins],
        u=np.array([value for _, value, _ in margins]),
        owners=np.array([owner for _, _, owner in margins], dtype=np.intp),
        points=problem.points[used],
        weights=weights,
        eta=np.maximum(0.0, relaxation.result.x[[each.eta for each in bag.disjuncts]]),
        bag=number,
    )


def add_learners(
    relaxation: Relaxation,
    learners: list[WeakLearner],
    columns: np.ndarray,
    prices: DualPrices | None = None,
) -> None:
    """Add learners to the program.

    Parameters
    ----------
    relaxation : Relaxation
    learners : list of WeakLearner
    columns : ndarray of shape (len(learners), n_points), of -1 and 1
    prices : DualPrices, default=None
        The dual variables by which they were chosen. The home of a learner in a bag is the disjunct
        with the highest value for it.
    """
    if not learners:
        return
    problem, n = relaxation.problem, len(learners)
    ambiguous = np.array([bag.row for bag in relaxation.bags], dtype=np.int64)
    there = np.flatnonzero(relaxation.margin_rows >= 0)
    fixed = np.concatenate([relaxation.margin_rows[there], ambiguous])
    entries = np.empty((n, len(fixed)))
    entries[:, : len(there)] = problem.signed(columns, there)
    for k, bag in enumerate(relaxation.bags, start=len(there)):
        entries[:, k] = columns[:, bag.members].max(axis=1)
    rows = [fixed] * n
    values = list(entries)
    paid = {} if prices is None else prices.disjunct_values(columns)
    for number, bag in enumerate(relaxation.bags):
        if not bag.disjuncts:
            continue
        homes = np.argmax(paid[number], axis=0) if number in paid else np.zeros(n, dtype=int)
        parts = [each.entries(problem, columns) for each in bag.disjuncts]
        for k, home in enumerate(homes.tolist()):
            more_rows, coefficients = parts[home]
            rows[k] = np.concatenate([rows[k], more_rows])
            values[k] = np.concatenate([values[k], coefficients[k]])
            bag.add_learner(home)
    alpha = relaxation.model.add_columns(
        np.ones(n),
        starts=np.cumsum([0] + [len(part) for part in rows]),
        rows=np.concatenate(rows),
        values=np.concatenate(values),
    )
    relaxation.alpha_columns += alpha.tolist()
    relaxation.learners += learners
    relaxation.H = np.concatenate([relaxation.H, columns.astype(np.int8)])


def add_copies(relaxation: Relaxation, prices: DualPrices, tol: float, max_copies: int) -> int:
    """Add the copy columns t_k^d that improve most, and return their number."""
    if not len(relaxation.learners):
        return 0
    y = relaxation.result.y
    found: list[tuple[float, int, int, int]] = []
    every = np.arange(len(relaxation.learners))
    for number, values in prices.disjunct_values(relaxation.H).items():
        bag = relaxation.bags[number]
        links = np.array(bag.link_rows)
        cost = np.where(links >= 0, np.maximum(0.0, y[links]), 0.0)
        gain = comparable(values - values[np.array(bag.home_disjunct), every] - cost)
        for place, k in zip(*np.nonzero(gain > tol), strict=True):
            if int(place) not in bag.copy_columns[k]:
                found.append((-gain[place, k], number, int(k), int(place)))
    found.sort()
    wanted: dict[int, list[tuple[int, int]]] = {}
    for _, number, k, place in found[:max_copies]:
        wanted.setdefault(number, []).append((k, place))
    for number, pairs in wanted.items():
        copy_learners(relaxation, relaxation.bags[number], pairs)
    return min(len(found), max_copies)


def copy_learners(relaxation: Relaxation, bag: BagHull, pairs: list[tuple[int, int]]) -> None:
    """Add columns that move learners from their home to other disjuncts of a bag.

    Parameters
    ----------
    relaxation : Relaxation
    bag : BagHull
    pairs : list of (learner, place of the disjunct)
        Pairs with the home of a learner, or that already have a column, are ignored.
    """
    model, problem = relaxation.model, relaxation.problem
    pairs = [(k, d) for k, d in pairs if d != bag.home_disjunct[k] and d not in bag.copy_columns[k]]
    if not pairs:
        return
    unlinked = sorted({k for k, _ in pairs if bag.link_rows[k] < 0})
    links = model.add_rows(
        np.zeros(len(unlinked)),
        starts=np.arange(len(unlinked)),
        columns=[relaxation.alpha_columns[k] for k in unlinked],
        values=np.ones(len(unlinked)),
    )
    for k, row in zip(unlinked, links.tolist(), strict=True):
        bag.link_rows[k] = row
    moved = relaxation.H[[k for k, _ in pairs]]
    targets = np.array([place for _, place in pairs])
    homes = np.array([bag.home_disjunct[k] for k, _ in pairs])
    rows = [np.zeros(0, dtype=np.int64)] * len(pairs)
    values = [np.zeros(0)] * len(pairs)
    for sign, places in ((1.0, targets), (-1.0, homes)):
        for place in np.unique(places).tolist():
            mine = np.flatnonzero(places == place)
            numbers, entries = bag.disjuncts[place].entries(problem, moved[mine])
            for each, coefficients in zip(mine.tolist(), sign * entries, strict=True):
                rows[each] = np.concatenate([rows[each], numbers])
                values[each] = np.concatenate([values[each], coefficients])
    for each, (k, _) in enumerate(pairs):
        rows[each] = np.append(rows[each], bag.link_rows[k])
        values[each] = np.append(values[each], -1.0)
    columns = model.add_columns(
        np.zeros(len(pairs)),
        starts=np.cumsum([0] + [len(part) for part in rows]),
        rows=np.concatenate(rows),
        values=np.concatenate(values),
    )
    for (k, place), column in zip(pairs, columns.tolist(), strict=True):
        bag.copy_columns[k][place] = column


def prune_learners(relaxation: Relaxation, prices: DualPrices, margin: float) -> int:
    """Remove learners without weight and with a score below 1 - margin; return their number."""
    alpha = relaxation.result.x[relaxation.alpha_columns]
    poor = (score_columns(prices, relaxation.H) < 1.0 - margin) & (alpha == 0.0)
    if not poor.any():
        return 0
    split = [bag for bag in relaxation.bags if bag.disjuncts]
    # Only if as many basic variables are removed as columns, so that the rest is still a basis.
    basic_columns, basic_rows = relaxation.model.basic()
    for k in np.flatnonzero(poor).tolist():
        columns, links = _variables_of(relaxation, split, k)
        poor[k] = basic_columns[columns].sum() + basic_rows[links].sum() == len(columns)
    if not poor.any():
        return 0
    removed, kept = np.flatnonzero(poor).tolist(), np.flatnonzero(~poor).tolist()
    columns, links = [], []
    for k in removed:
        mine, my_links = _variables_of(relaxation, split, k)
        columns += mine
        links += my_links
    for bag in split:
        bag.keep_learners(kept)
    relaxation.model.remove(columns, links)
    relaxation.alpha_columns = [relaxation.alpha_columns[k] for k in kept]
    relaxation.learners = [relaxation.learners[k] for k in kept]
    relaxation.H = relaxation.H[kept]
    return len(removed)


def _variables_of(
    relaxation: Relaxation, split: list[BagHull], k: int
) -> tuple[list[int], list[int]]:
    """Columns of a learner, including its copies, and the rows that link them."""
    columns, links = [relaxation.alpha_columns[k]], []
    for bag in split:
        if bag.link_rows[k] >= 0:
            links.append(bag.link_rows[k])
            columns += bag.copy_columns[k].values()
    return columns, links
