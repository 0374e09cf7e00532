"""The race of the starts: rough runs compare them, and the better one is continued precisely."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import sparse

from milearn._bags.blocks import ArraySource
from milearn._bags.segments import segment_argmax
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.passes import SampleLimits
from milearn._solvers.common.screen import ScreenLimits
from milearn._solvers.svm.losses import Hinge
from milearn._solvers.svm.maximum import dual, rows
from milearn._solvers.svm.maximum.dual import solve_mi_svm
from milearn._solvers.svm.maximum.rows import screened_witnesses, solve_mi_svm_rows
from milearn._solvers.svm.maximum.view import RowLimits
from milearn._solvers.svm.problem import BinaryProblem
from milearn.datasets import make_bags
from milearn.svm._fit import Kernel, memory_limit, training_gram
from tests.bags import tissues


def overlapping(seed):
    bags, y = make_bags(60, 12, bag_size=(2, 6), flip_y=0.05, random_state=seed)
    return bags, Hinge(np.where(y == 1, 1.0, -1.0), np.full(len(y), 1.0))


def by_dual(bags, loss):
    gram = training_gram(bags.instances, Kernel.inner_product(), memory_limit())
    problem = BinaryProblem(gram, bags.offsets, loss.signs, loss.weights)
    source = ArraySource(bags.instances, bags.offsets)
    others = screened_witnesses(source, loss, ScreenLimits(kept=1))
    return solve_mi_svm(problem, "bag", None, SolverOptions(1e-6, 100), others)


def by_rows(bags, loss):
    source, options = ArraySource(bags.instances, bags.offsets), SolverOptions(1e-6, 100)
    return solve_mi_svm_rows(source, loss, "bag", "auto", options, 1e-8)


@pytest.mark.parametrize("solve", [by_dual, by_rows])
@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_was_rough_ends_precisely(solve, seed, monkeypatch):
    bags, loss = overlapping(seed)
    found = solve(bags, loss)
    for module in (dual, rows):
        monkeypatch.setattr(module, "ROUGH_TOL", 0.0)
    precise = solve(bags, loss)
    assert found.objective <= precise.objective * (1.0 + dual._NEAR_OBJECTIVE)
    assert found.converged
    assert found.dual_gap <= 1e-6 * found.objective
    assert found.n_iter == len(found.history)
    assert np.all(np.diff(found.history) <= 1e-9 * found.objective)
    assert found.history[-1] == pytest.approx(found.objective, rel=1e-9)


@pytest.mark.parametrize("seed", [1, 3])
def test_the_end_is_not_above_that_of_the_means(seed):
    bags, y = make_bags(
        600, 12, bag_size=(5, 12), concept_distance=3.0, flip_y=0.1, random_state=seed
    )
    source = ArraySource(bags.instances, bags.offsets)
    loss, options = Hinge(np.where(y == 1, 1.0, -1.0), np.ones(len(y))), SolverOptions(1e-6, 100)
    means, found = (
        solve_mi_svm_rows(source, loss, "bag", start, options, 1e-8) for start in ("mean", "auto")
    )
    assert found.objective <= means.objective * (1.0 + 1e-9)


@cache
def few_words(n_bags=2000, n_features=900, size=5, seed=0):
    """Texts of twenty words; one text of a positive bag has some of ten words of its class."""
    rng = np.random.RandomState(seed)
    rows = np.repeat(np.arange(size * n_bags), 20)
    columns, values = rng.randint(n_features, size=len(rows)), rng.uniform(size=len(rows))
    X = sparse.coo_array((values, (rows, columns)), (size * n_bags, n_features)).tolil()
    y = np.arange(n_bags) % 2
    for row in size * np.flatnonzero(y) + rng.randint(size, size=n_bags // 2):
        X[row, rng.randint(10, size=4)] = 1.0
    return ArraySource(X.tocsr(), np.arange(0, size * n_bags + 1, size)), 2.0 * y - 1.0


@pytest.mark.parametrize("slack", ["bag", "instance"])
def test_all_instances_give_a_start_where_a_sample_has_more_features_than_rows(slack):
    source, signs = few_words()
    loss, options = Hinge(signs, np.ones(len(signs))), SolverOptions(1e-6, 100)
    few = SampleLimits(instances=100, per_feature=0, bags=10)
    ends = [
        solve_mi_svm_rows(
            source,
            loss,
            slack,
            "auto",
            options,
            1e-4,
            limits=RowLimits(
                all_starts=0.0,
                screened=few,
                features_per_row=features_per_row,
                covariance_features=(1, 0),
            ),
        )
        for features_per_row in (1.0, np.inf)
    ]
    assert all(end.converged for end in ends)
    assert ends[0].objective < 0.99 * ends[1].objective
    w, b, y = ends[0].w, ends[0].intercept, signs
    scores = source.instances @ w + b
    tops = np.maximum.reduceat(scores, source.offsets[:-1])
    hinges = np.maximum(0.0, 1.0 - y * tops)
    if slack == "instance":
        each = np.add.reduceat(np.maximum(0.0, 1.0 + scores), source.offsets[:-1])
        hinges = np.where(y > 0, hinges, each)
    assert ends[0].objective == pytest.approx(0.5 * w @ w + hinges.sum(), rel=1e-6)


@pytest.mark.parametrize("slack", ["bag", "instance"])
def test_covariances_of_all_instances_give_a_start_that_a_sample_misses(slack):
    X, offsets, y, moved = tissues(0, n_bags=160, size=60)
    source, loss = ArraySource(X, offsets), Hinge(2.0 * y - 1.0, np.full(len(y), 0.1))
    few = SampleLimits(instances=100, per_feature=10, numbers=2**20, bags=30)
    limits = RowLimits(all_starts=0.0, screened=few, covariance_features=(1, 1_000))
    options = SolverOptions(1e-6, 100)
    found, without = (
        solve_mi_svm_rows(source, loss, slack, "auto", options, 1e-4, limits=each)
        for each in (limits, replace(limits, covariance_features=(1, 0)))
    )
    assert found.converged
    assert found.objective < 0.5 * without.objective
    assert moved[segment_argmax(X @ found.w, offsets)[y == 1]].mean() > 0.9
