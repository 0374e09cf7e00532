"""Trees that split bags by a proportion of instances, against plain loops over the instances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from milearn._solvers.baselines.bag_level_trees import (
    TreeOptions,
    TreeProblem,
    grow_trees,
    mean_leaf,
    order_statistics,
)


def drawn(seed, n_bags=30, n_features=7, n_classes=3, rounded=True):
    """Bags with many ties, whose classes depend on a proportion of instances."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    X = rng.standard_normal((offsets[-1], n_features)) + rng.standard_normal(n_features)
    X[:, 3] = 0.5
    X = np.round(X) if rounded else X
    share = np.add.reduceat(X[:, 0] > 0, offsets[:-1]) / sizes
    codes = (share > 0.3).astype(int) + (n_classes > 2) * (share > 0.6)
    codes[: n_classes - 1] = np.arange(1, n_classes)
    codes[n_classes] = 0
    return X, offsets, codes, rng.choice([1.0, 2.0, 0.5], n_bags)


# -- oracle ----------------------------------------------------------------------------------------


def goes_right(block, rule):
    feature, threshold, proportion = rule
    count = sum(1 for x in block[:, feature] if x > threshold)
    return count > proportion * len(block)


def entropy(members, codes, weights):
    total = sum(weights[b] for b in members)
    found = 0.0
    for c in set(codes[members].tolist()):
        part = sum(weights[b] for b in members if codes[b] == c)
        found -= part * math.log(part / total)
    return found


def slow_tree(blocks, codes, weights, options, seed):
    """A tree as nested lists: a dict of proportions, or (rule, left, right)."""
    rng = np.random.default_rng(seed)
    n_features, n_classes = blocks[0].shape[1], codes.max() + 1

    def best_rule(members, drawn):
        features = rng.choice(n_features, drawn, replace=False)
        uniform, proportions = rng.random((2, drawn, options.n_rules))
        candidates = []
        for j, f in enumerate(features):
            values = [x for b in members for x in blocks[b][:, f]]
            low, high = min(values), max(values)
            for k in range(options.n_rules):
                v = low * (1 - uniform[j, k]) + high * uniform[j, k]
                rule = (f, v, proportions[j, k])
                sides = [b for b in members if not goes_right(blocks[b], rule)]
                other = [b for b in members if goes_right(blocks[b], rule)]
                weight = min(sum(weights[b] for b in part) for part in (sides, other))
                if sides and other and weight >= options.min_weight:
                    loss = entropy(sides, codes, weights) + entropy(other, codes, weights)
                    candidates.append((loss, rule, sides, other))
        least = min((each[0] for each in candidates), default=math.inf)
        return next((each for each in candidates if each[0] <= least + 1e-10), None)

    root = {"members": list(range(len(blocks)))}
    level, depth = [root], 0
    while level:
        for node in level:
            total = sum(weights[b] for b in node["members"])
            node["values"] = [
                sum(weights[b] for b in node["members"] if codes[b] == c) / total
                for c in range(n_classes)
            ]
        open_nodes = [node for node in level if len(set(codes[node["members"]].tolist())) > 1]
        if options.max_depth is not None and depth >= options.max_depth:
            open_nodes = []
        count = min(options.n_features, n_features)
        while open_nodes:
            left_over = []
            for node in open_nodes:
                found = best_rule(node["members"], count)
                if found is None:
                    left_over.append(node)
                    continue
                _, node["rule"], left, right = found
                node["children"] = [{"members": left}, {"members": right}]
            if count == n_features:
                break
            open_nodes, count = left_over, min(4 * count, n_features)
        level = [child for node in level for child in node.get("children", [])]
        depth += 1
    return root


def slow_values(node, block):
    while "rule" in node:
        node = node["children"][int(goes_right(block, node["rule"]))]
    return node["values"]


def slow_mean(data, options, seeds, tests):
    X, offsets, codes, weights = data
    blocks = np.split(X, offsets[1:-1])
    trees = [slow_tree(blocks, codes, weights, options, seed) for seed in seeds]
    return np.mean([[slow_values(tree, block) for block in tests] for tree in trees], axis=0)


# -- tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounded", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("max_depth", "min_weight"), [(None, 0.0), (2, 0.0), (None, 4.0)])
def test_trees_are_those_of_plain_loops(rounded, n_classes, max_depth, min_weight):
    data = drawn(5, n_classes=n_classes, rounded=rounded)
    X, offsets, codes, weights = data
    options, seeds = TreeOptions(2, 3, max_depth, min_weight), [4, 11, 12]
    new, new_offsets, *_ = drawn(6, rounded=rounded)
    expected = slow_mean(data, options, seeds, np.split(new, new_offsets[1:-1]))
    assert 0 < expected.min(initial=1, where=expected > 0) < 1
    for kind in (np.asarray, sparse.csr_array):
        problem = TreeProblem(order_statistics(kind(X), offsets), codes, weights)
        for n_jobs in (1, 2):
            trees = grow_trees(problem, options, seeds, n_jobs)
            found = mean_leaf(trees, order_statistics(kind(new), new_offsets))
            np.testing.assert_allclose(found, expected, atol=1e-12)


def test_batches_do_not_matter():
    X, offsets, codes, weights = drawn(0)
    problem = TreeProblem(order_statistics(X, offsets), codes, weights)
    whole = mean_leaf(grow_trees(problem, TreeOptions(3, 4), [1, 2, 3]), problem.statistics)
    small = TreeOptions(3, 4, rules_at_once=7, pairs_at_once=40)
    parts = grow_trees(problem, small, [1, 2, 3])
    np.testing.assert_array_equal(mean_leaf(parts, problem.statistics, pairs_at_once=40), whole)


def test_matrices_without_entries_have_zeros():
    statistics = order_statistics(sparse.csr_array((3, 2)), np.array([0, 1, 3]))
    assert not statistics.at(np.array([0, 1]), np.array([1, 0]), np.zeros((2, 1), int)).any()
