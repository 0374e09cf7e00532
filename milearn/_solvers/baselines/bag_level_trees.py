r"""Extremely randomised trees that split bags by a share of their instances.

A rule (f, v, r) sends a bag to the right if the share of its instances with :math:`x_f > v` is
above r. With n instances in the bag that is

    #{x_f > v} >= floor(r n) + 1,  so  the (floor(r n) + 1)-th highest value of f is above v:

values that are sorted once within each bag answer a rule by one comparison for each bag, whatever
the number of its instances.

At a node some features are drawn, and several rules for each of them: v is uniform between the
lowest and the highest value of f in the bags of the node, r is uniform in [0, 1). The rule with the
least entropy of the classes on both sides is taken, the first of equal ones. If no rule separates
any bags, four times as many features are drawn, until all of them were.

All trees grow together, level by level: nodes are split in batches of any trees. Each tree draws
from a stream of its own, for its nodes in the order of their level, so that neither the batches nor
the number of threads matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import delayed, effective_n_jobs
from scipy import sparse
from scipy.special import xlogy
from sklearn.utils import gen_batches

from ..._bags.segments import segment_max, segment_min
from ..._bags.threads import Parallel

_PAIRS_AT_ONCE = 2**21
# Values that are sorted at once.
_SORTED_AT_ONCE = 2**22
_MORE_FEATURES = 4
# As a share of the weight of a node: less is rounding, of a side and between two rules.
_NO_WEIGHT, _EQUAL_LOSS = 1e-10, 1e-12


class DenseStatistics:
    """A sorted copy of the instances, feature by feature."""

    def __init__(self, instances: np.ndarray, offsets: np.ndarray) -> None:
        self.sizes = np.diff(offsets)
        n_instances, self.n_features = instances.shape
        self._width, self._last = n_instances, offsets[1:] - 1
        # The values of a feature in a bag are neighbours: the rules at a node read them together.
        values = np.empty((self.n_features, n_instances), dtype=instances.dtype)
        for size in np.unique(self.sizes).tolist():
            bags = np.flatnonzero(self.sizes == size)
            for part in gen_batches(len(bags), max(1, _SORTED_AT_ONCE // (size * self.n_features))):
                rows = (offsets[bags[part]][:, None] + np.arange(size)).ravel()
                block = np.ascontiguousarray(instances[rows].T)
                block.reshape(self.n_features, -1, size).sort(axis=-1)
                values[:, rows] = block
        self._values = values.ravel()

    def at(self, bags: np.ndarray, features: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Values of the features in the bags; rank 0 is the highest value of the bag.

        ``ranks`` has one axis more, the last, than ``bags`` and ``features`` together.
        """
        last = features * self._width + self._last[bags]
        return np.asarray(self._values.take(last[..., None] - ranks))


class SparseStatistics:
    """Sorted entries of each feature in each bag; the values between them are zeros."""

    def __init__(self, instances: Any, offsets: np.ndarray) -> None:
        self.sizes = np.diff(offsets)
        self.n_features = int(instances.shape[1])
        n_bags = len(self.sizes)
        bag_of_entry = np.repeat(np.arange(n_bags), np.diff(instances.indptr[offsets]))
        keys = instances.indices.astype(np.int64) * n_bags + bag_of_entry
        order = np.lexsort((instances.data, keys))
        self._values = instances.data[order]
        self._keys, self._first, counts = np.unique(
            keys[order], return_index=True, return_counts=True
        )
        if not len(self._keys):  # so that every search has a neighbour
            self._keys, self._first, counts = np.array([-1]), np.array([0]), np.array([0])
            self._values = np.zeros(1, dtype=instances.dtype)
        group = np.repeat(np.arange(len(self._keys)), counts)
        self._below = np.bincount(group[self._values[: len(group)] < 0], minlength=len(self._keys))
        self._above = counts - self._below

    def at(self, bags: np.ndarray, features: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """See :meth:`DenseStatistics.at`."""
        keys = features * np.int64(len(self.sizes)) + bags
        group = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        stored = self._keys[group] == keys
        below = np.where(stored, self._below[group], 0)[..., None]
        above = np.where(stored, self._above[group], 0)[..., None]
        first = self._first[group][..., None]
        zeros = self.sizes[bags][..., None] - below - above
        position = below + zeros + above - 1 - ranks
        is_zero = (position >= below) & (ranks >= above)
        # Entries follow each other without the zeros between them.
        entry = first + position - np.where(position < below, 0, zeros)
        return np.asarray(np.where(is_zero, 0, self._values[np.where(is_zero, 0, entry)]))


OrderStatistics = DenseStatistics | SparseStatistics


def order_statistics(instances: Any, offsets: np.ndarray) -> OrderStatistics:
    """Sort the values of each feature within each bag.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    """
    if sparse.issparse(instances):
        return SparseStatistics(instances, offsets)
    return DenseStatistics(instances, offsets)


@dataclass(frozen=True)
class TreeProblem:
    """Bags with classes.

    Attributes
    ----------
    statistics : OrderStatistics
    codes : ndarray of shape (n_bags,)
        Classes, from zero.
    weights : ndarray of shape (n_bags,)
        Above zero.
    order : ndarray of shape (n_bags,), default=None
        Bags in the order in which they are drawn, which should not depend on their positions.
    """

    statistics: OrderStatistics
    codes: np.ndarray
    weights: np.ndarray
    order: np.ndarray | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.codes.max()) + 1


@dataclass(frozen=True)
class TreeOptions:
    """How trees grow.

    Attributes
    ----------
    n_features : int
        Features that are drawn at a node.
    n_rules : int
        Rules that are drawn for each of them.
    max_depth : int or None
    min_weight : float
        Of the bags on either side of a rule.
    max_bags : int or None
        Bags of a tree, drawn without replacement; None for all.
    rules_at_once, pairs_at_once : int
        Pairs of a rule and a bag, and of a tree and a bag, that are looked at together.
    """

    n_features: int
    n_rules: int
    max_depth: int | None = None
    min_weight: float = 0.0
    max_bags: int | None = None
    rules_at_once: int = 2**17
    pairs_at_once: int = _PAIRS_AT_ONCE


@dataclass(frozen=True)
class BagTrees:
    """The nodes of all trees.

    Attributes
    ----------
    feature : ndarray of shape (n_nodes,)
        f of the rule of a node; -1 for a leaf.
    threshold, proportion : ndarray of shape (n_nodes,)
        v and r.
    left : ndarray of shape (n_nodes,)
        The node for other bags; that for bags with a share above r follows it.
    values : ndarray of shape (n_nodes, n_classes)
        Shares of the classes in the weight of the bags of a node.
    roots : ndarray of shape (n_trees,)
    importances : ndarray of shape (n_features,)
        Shares of the features in the decrease of the entropy, averaged over trees.
    """

    feature: np.ndarray
    threshold: np.ndarray
    proportion: np.ndarray
    left: np.ndarray
    values: np.ndarray
    roots: np.ndarray
    importances: np.ndarray


def grow_trees(
    problem: TreeProblem, options: TreeOptions, seeds: Sequence[int], n_jobs: int | None = None
) -> BagTrees:
    """Grow one tree for each seed, in threads."""
    most = max(1, options.pairs_at_once // len(problem.codes))
    n_groups = max(-(-len(seeds) // most), min(effective_n_jobs(n_jobs), len(seeds)))
    groups = [group.tolist() for group in np.array_split(np.array(seeds), n_groups)]
    grown = Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(
        delayed(_grown)(problem, options, group) for group in groups
    )
    first = 0
    for each in grown:
        each.left[:] += first
        each.roots[:] += first
        first += len(each.feature)
    names = "feature", "threshold", "proportion", "left", "values", "roots"
    joined = {name: np.concatenate([getattr(each, name) for each in grown]) for name in names}
    sizes = [len(group) for group in groups]
    importances = np.average([each.importances for each in grown], axis=0, weights=sizes)
    return BagTrees(**joined, importances=importances)


def mean_leaf(
    trees: BagTrees, statistics: OrderStatistics, pairs_at_once: int = _PAIRS_AT_ONCE
) -> np.ndarray:
    """Values of the leaves that the bags are in, averaged over the trees."""
    n_bags, n_trees = len(statistics.sizes), len(trees.roots)
    out = np.zeros((n_bags, trees.values.shape[1]))
    for part in gen_batches(n_bags, max(1, pairs_at_once // n_trees)):
        here = np.arange(n_bags)[part]
        bags, nodes = np.tile(here, n_trees), np.repeat(trees.roots, len(here))
        while len(bags):
            in_leaf = trees.feature[nodes] < 0
            for column, values in zip(out.T, trees.values[nodes[in_leaf]].T, strict=True):
                column += np.bincount(bags[in_leaf], weights=values, minlength=n_bags)
            bags, nodes = bags[~in_leaf], nodes[~in_leaf]
            nodes = trees.left[nodes] + _passes(statistics, bags, trees, nodes)
    return out / n_trees


def _passes(
    statistics: OrderStatistics, bags: np.ndarray, rules: BagTrees | _Rules, nodes: np.ndarray
) -> np.ndarray:
    """Whether each bag has a share above the r of its node."""
    ranks = (rules.proportion[nodes] * statistics.sizes[bags]).astype(np.intp)
    values = statistics.at(bags, rules.feature[nodes], ranks[:, None])[:, 0]
    return np.asarray(values > rules.threshold[nodes])


# -- growth ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Level:
    """Nodes of one level of all trees, with their bags."""

    tree: np.ndarray
    members: np.ndarray
    offsets: np.ndarray

    @property
    def node_of(self) -> np.ndarray:
        """The node of each member."""
        return np.repeat(np.arange(len(self.tree)), np.diff(self.offsets))

    def taken(self, nodes: np.ndarray) -> _Level:
        """Some of the nodes."""
        chosen = np.zeros(len(self.tree), dtype=bool)
        chosen[nodes] = True
        sizes = np.diff(self.offsets)[nodes]
        members = self.members[np.repeat(chosen, np.diff(self.offsets))]
        return _Level(self.tree[nodes], members, np.concatenate([[0], np.cumsum(sizes)]))


@dataclass(frozen=True)
class _Rules:
    """One rule for each node, and the entropy that is left; infinite where none separates bags."""

    feature: np.ndarray
    threshold: np.ndarray
    proportion: np.ndarray
    loss: np.ndarray

    def write_to(self, rules: _Rules, nodes: np.ndarray) -> None:
        """Make these the rules of some nodes among all."""
        for name, values in vars(self).items():
            getattr(rules, name)[nodes] = values


def _grown(problem: TreeProblem, options: TreeOptions, seeds: Sequence[int]) -> BagTrees:
    """The trees of some seeds."""
    streams = [np.random.default_rng(seed) for seed in seeds]
    n_trees, n_bags = len(seeds), len(problem.codes)
    # Bags of a class stay next to each other in every node.
    order = np.arange(n_bags) if problem.order is None else problem.order
    by_class = order[np.argsort(problem.codes[order], kind="stable")]
    drawn = [by_class] * n_trees
    if options.max_bags is not None and options.max_bags < n_bags:
        n_bags = options.max_bags
        sets = [stream.choice(len(by_class), n_bags, replace=False) for stream in streams]
        drawn = [by_class[np.sort(each)] for each in sets]
    level = _Level(np.arange(n_trees), np.concatenate(drawn), np.arange(n_trees + 1) * n_bags)
    levels: list[tuple[np.ndarray, ...]] = []
    first = depth = 0
    while len(level.tree):
        totals = _class_weights(problem, level)
        rules, split = _no_rules(len(level.tree)), np.arange(0)
        if options.max_depth is None or depth < options.max_depth:
            mixed = np.flatnonzero((totals > 0).sum(axis=1) > 1)
            rules = _search(problem, options, level, mixed, streams)
            split = np.flatnonzero(rules.loss < np.inf)
        first += len(level.tree)
        left = np.full(len(level.tree), -1)
        left[split] = first + 2 * np.arange(len(split))
        decrease = np.zeros(len(level.tree))
        decrease[split] = np.maximum(0.0, _entropy(totals[split].T) - rules.loss[split])
        values = totals / totals.sum(axis=1, keepdims=True)
        found = rules.feature, rules.threshold, rules.proportion, left, values
        levels.append((*found, level.tree, decrease))
        level = _children(problem, level, rules, split)
        depth += 1
    feature, threshold, proportion, left, values, tree, decrease = (
        np.concatenate(parts) for parts in zip(*levels, strict=True)
    )
    sums = np.bincount(tree, weights=decrease, minlength=n_trees)
    parts_of_sum = decrease / np.where(sums > 0, sums, 1.0)[tree] / n_trees
    inner, n = feature >= 0, problem.statistics.n_features
    importances = np.bincount(feature[inner], weights=parts_of_sum[inner], minlength=n)
    roots = np.arange(n_trees)
    return BagTrees(feature, threshold, proportion, left, values, roots, importances)


def _children(problem: TreeProblem, level: _Level, rules: _Rules, split: np.ndarray) -> _Level:
    """The next level: the two sides of each node that is split."""
    parents = level.taken(split)
    node = parents.node_of
    child = 2 * node + _passes(problem.statistics, parents.members, rules, split[node])
    sizes = np.bincount(child, minlength=2 * len(split))
    return _Level(
        np.repeat(parents.tree, 2),
        parents.members[np.argsort(child, kind="stable")],
        np.concatenate([[0], np.cumsum(sizes)]),
    )


def _class_weights(problem: TreeProblem, level: _Level) -> np.ndarray:
    """Weights of the classes in each node, shape (n_nodes, n_classes)."""
    n_classes = problem.n_classes
    totals = np.bincount(
        level.node_of * n_classes + problem.codes[level.members],
        weights=problem.weights[level.members],
        minlength=len(level.tree) * n_classes,
    )
    return totals.reshape(-1, n_classes)


def _entropy(weights: np.ndarray) -> np.ndarray:
    """Entropy of the classes times the weight; the classes are on the first axis."""
    total = weights.sum(axis=0)
    return np.asarray(xlogy(total, total) - xlogy(weights, weights).sum(axis=0))


# -- rules -----------------------------------------------------------------------------------------


def _no_rules(n_nodes: int) -> _Rules:
    return _Rules(
        np.full(n_nodes, -1), np.zeros(n_nodes), np.zeros(n_nodes), np.full(n_nodes, np.inf)
    )


def _search(
    problem: TreeProblem,
    options: TreeOptions,
    level: _Level,
    nodes: np.ndarray,
    streams: Sequence[np.random.Generator],
) -> _Rules:
    """The best rules for some nodes of a level."""
    rules = _no_rules(len(level.tree))
    n_all = problem.statistics.n_features
    n_drawn = min(options.n_features, n_all)
    while len(nodes):
        for part in _batches(level, nodes, n_drawn * options.n_rules, options.rules_at_once):
            batch = level.taken(part)
            features = np.empty((len(part), n_drawn), dtype=np.intp)
            draws = np.empty((len(part), 2, n_drawn, options.n_rules))
            # Node by node: a stream must not depend on which nodes are in a batch.
            for number, tree in enumerate(batch.tree.tolist()):
                features[number] = streams[tree].choice(n_all, n_drawn, replace=False)
                streams[tree].random(out=draws[number])
            _take_best(problem, options, batch, features, draws).write_to(rules, part)
        if n_drawn == n_all:
            break
        nodes = nodes[np.isinf(rules.loss[nodes])]
        n_drawn = min(_MORE_FEATURES * n_drawn, n_all)
    return rules


def _batches(level: _Level, nodes: np.ndarray, n_rules: int, at_once: int) -> Iterator[np.ndarray]:
    """Consecutive nodes with a limited number of bags times rules, at least one."""
    ends = np.cumsum(np.diff(level.offsets)[nodes]) * n_rules
    first = 0
    while first < len(nodes):
        done = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + at_once, side="right")))
        yield nodes[first:last]
        first = last


def _take_best(
    problem: TreeProblem,
    options: TreeOptions,
    batch: _Level,
    features: np.ndarray,
    draws: np.ndarray,
) -> _Rules:
    """The best of the drawn rules of each node of a batch."""
    n_nodes, n_drawn = features.shape
    n_rules = options.n_rules
    width = max(1, options.rules_at_once // (len(batch.members) * n_rules))
    losses = np.empty((n_nodes, n_drawn, n_rules))
    thresholds = np.empty_like(losses)
    for part in gen_batches(n_drawn, width):
        thresholds[:, part], losses[:, part] = _evaluated(
            problem, options.min_weight, batch, features[:, part], draws[:, :, part]
        )
    flat = losses.reshape(n_nodes, -1)
    weight = np.add.reduceat(problem.weights[batch.members], batch.offsets[:-1])
    near = flat <= (flat.min(axis=1) + _EQUAL_LOSS * weight)[:, None]
    best, every = np.argmax(near, axis=1), np.arange(n_nodes)
    return _Rules(
        np.where(np.isfinite(flat[every, best]), features[every, best // n_rules], -1),
        thresholds.reshape(n_nodes, -1)[every, best],
        draws[:, 1].reshape(n_nodes, -1)[every, best],
        flat[every, best],
    )


def _evaluated(
    problem: TreeProblem,
    min_weight: float,
    batch: _Level,
    features: np.ndarray,
    draws: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds and losses of rules, shape (n_nodes, n_features, n_rules)."""
    statistics, bags, node = problem.statistics, batch.members, batch.node_of
    sizes = statistics.sizes[bags][:, None, None]
    of_member = features[node]
    low = segment_min(statistics.at(bags[:, None], of_member, sizes - 1)[..., 0], batch.offsets)
    high = segment_max(statistics.at(bags[:, None], of_member, 0 * sizes)[..., 0], batch.offsets)
    uniform, proportions = draws[:, 0], draws[:, 1]
    thresholds = low[..., None] * (1.0 - uniform) + high[..., None] * uniform
    ranks = (proportions[node] * sizes).astype(np.intp)
    above = statistics.at(bags[:, None], of_member, ranks) > thresholds[node]
    right = _summed_by_class(problem, batch, above.reshape(len(bags), -1))
    right = right.reshape(problem.n_classes, *thresholds.shape)
    totals = _class_weights(problem, batch).T[..., None, None]
    # Sums in another order may differ by rounding.
    left = np.maximum(totals - right, 0.0)
    losses = _entropy(right) + _entropy(left)
    lighter = np.minimum(right.sum(axis=0), left.sum(axis=0))
    rounding = _NO_WEIGHT * totals.sum(axis=0)
    losses[(lighter <= rounding) | (lighter < min_weight - rounding)] = np.inf
    return thresholds, losses


def _summed_by_class(problem: TreeProblem, batch: _Level, above: np.ndarray) -> np.ndarray:
    """Weights of the bags that pass each rule, shape (n_classes, n_nodes, n_rules)."""
    n_nodes, bags = len(batch.tree), batch.members
    rows = problem.codes[bags] * n_nodes + batch.node_of
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum(np.bincount(rows, minlength=problem.n_classes * n_nodes))
    pool = sparse.csr_array(
        (problem.weights[bags[order]], order, np.concatenate([[0], ends])),
        shape=(problem.n_classes * n_nodes, len(bags)),
    )
    summed: np.ndarray = pool @ above.astype(np.float64)
    return summed.reshape(problem.n_classes, n_nodes, -1)
