"""Checks of order: of instances inside bags, of bags, and of the other bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._bags import Bags
from ..._bags.segments import offsets_of
from .data import Problem
from .registry import bag_check, compares_order, predicts
from .tools import (
    REFIT,
    SAME,
    assert_close,
    comparable,
    fit_outputs,
    fitted_on,
    is_random,
    outputs_of,
    reference,
    reordered,
    rows_of,
    taken,
)


@bag_check("noisy", "sparse", "graphs", applies=compares_order)
def check_order_of_instances(estimator: Any, problem: Problem) -> None:
    """The order of instances within bags has no effect on fits and predictions."""
    X, everything = problem.X, np.arange(len(problem.X))
    fitted, outputs = reference(estimator, problem)
    moved, rows = reordered(X)
    expected = taken(outputs, everything, rows)
    assert_close(expected, outputs_of(fitted, moved), SAME, "instances in another order")
    if is_random(estimator, problem):
        return
    expected = taken(comparable(fitted, outputs), everything, rows)
    again = fitted_on(estimator, moved, problem.y)
    assert_close(expected, fit_outputs(again, moved), REFIT, "fitted on instances in another order")


@bag_check("noisy", "sparse", "graphs", applies=compares_order)
def check_order_of_bags(estimator: Any, problem: Problem) -> None:
    """Predictions follow the order of the bags, and the fit does not depend on it."""
    X = problem.X
    fitted, outputs = reference(estimator, problem)
    order = np.random.default_rng(2).permutation(len(X))
    rows = rows_of(X, order)
    expected = taken(outputs, order, rows)
    assert_close(expected, outputs_of(fitted, X[order]), SAME, "bags in another order")
    if is_random(estimator, problem):
        return
    expected = taken(comparable(fitted, outputs), order, rows)
    again = fitted_on(estimator, X[order], None if problem.y is None else problem.y[order])
    assert_close(expected, fit_outputs(again, X[order]), REFIT, "fitted on bags in another order")


@bag_check("dense", "sparse", applies=predicts)
def check_subset_of_bags(estimator: Any, problem: Problem) -> None:
    """The output for a bag without links does not depend on the other bags."""
    X = problem.X
    fitted, whole = reference(estimator, problem)
    for part in (np.arange(3), np.array([len(X) - 1])):
        expected = taken(whole, part, rows_of(X, part))
        assert_close(expected, outputs_of(fitted, X[part]), SAME, f"{len(part)} bag(s) alone")


@bag_check("dense", "sparse", "graphs", applies=predicts)
def check_graphs_are_cut(estimator: Any, problem: Problem) -> None:
    """Selected bags are equivalent to bags whose graphs were sliced explicitly."""
    X, y = problem.X, problem.y
    keep = np.random.default_rng(3).permutation(len(X))[:18]
    rest = np.setdiff1d(np.arange(len(X)), keep)

    def cut(positions: np.ndarray) -> Bags:
        rows = rows_of(X, positions)
        graphs = (X.bag_graph, positions), (X.instance_graph, rows)
        bag_graph, links = (
            None if graph is None else graph.toarray()[np.ix_(index, index)]
            for graph, index in graphs
        )
        offsets = offsets_of(X.sizes[positions])
        return Bags(X.instances[rows], offsets, bag_graph=bag_graph, instance_graph=links)

    labels = None if y is None else y[keep]
    mine = fitted_on(estimator, X[keep], labels)
    other = fitted_on(estimator, cut(keep), labels)
    for positions in (keep, rest):
        assert_close(
            outputs_of(other, cut(positions)), outputs_of(mine, X[positions]), SAME, "selected bags"
        )
