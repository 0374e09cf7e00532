"""sMIL against the same quadratic program in cvxpy, and stMIL against its objective."""

from __future__ import annotations

from functools import partial

import cvxpy as cp
import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from milearn._solvers.common.gram import KernelGram, LinearGram
from milearn._solvers.svm.sparse_mi import (
    solve_margins,
    solve_transductive,
    sparse_patterns,
)
from tests.toys import two_level_bags

OPTIONS = {"tol": 1e-9}


@pytest.fixture
def problem():
    bags, y = two_level_bags(n_bags=16, shift=1.5)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 16)
    return bags, y == 1, weights


def loss(bags, positive, weights, C, scores):
    """The two sums of the problem, bag by bag, and the cost of an instance of weight one."""
    sides = np.split(scores, bags.offsets[1:-1])
    total = C * weights[positive].sum()
    sizes = bags.sizes
    negative = (weights * sizes)[~positive].sum()
    parts = []
    for part, is_positive, weight in zip(sides, positive, weights, strict=True):
        n = len(part)
        if is_positive:
            parts.append(C * weight * max(0.0, (2 - n) / n - part.mean()))
        else:
            parts.append(total / negative * weight * np.maximum(0, 1 + part).sum())
    return sum(parts)


@pytest.mark.parametrize("C", [0.1, 3.0])
@pytest.mark.parametrize("by_newton", [False, True])
def test_the_objective_is_that_of_cvxpy(problem, C, by_newton):
    bags, positive, weights = problem
    X = bags.instances
    gram = LinearGram(X) if by_newton else KernelGram(X, linear_kernel, 2**20)
    found = solve_margins(gram, sparse_patterns(bags.offsets, positive, weights, C), **OPTIONS)
    w, b = cp.Variable(3), cp.Variable()
    total = C * weights[positive].sum()
    negative = (weights * bags.sizes)[~positive].sum()
    terms = [cp.sum_squares(w) / 2]
    for block, is_positive, weight in zip(bags, positive, weights, strict=True):
        n = len(block)
        if is_positive:
            terms.append(C * weight * cp.pos((2 - n) / n - cp.sum(block @ w) / n - b))
        else:
            terms.append(total / negative * weight * cp.sum(cp.pos(1 + block @ w + b)))
    expected = cp.Problem(cp.Minimize(sum(terms))).solve(solver=cp.CLARABEL)
    assert found.objective == pytest.approx(expected, rel=1e-5)
    assert abs(found.dual_gap) <= 1e-5 * found.objective
    weight = X.T @ found.beta
    value = 0.5 * weight @ weight + loss(bags, positive, weights, C, X @ weight + found.intercept)
    assert value == pytest.approx(found.objective, rel=1e-9)


def test_stmil_lowers_its_own_objective(problem):
    bags, positive, weights = problem
    X, C = bags.instances, 2.0
    gram = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    patterns = sparse_patterns(bags.offsets, positive, weights, C)
    kernel = KernelGram(X, partial(rbf_kernel, gamma=0.3), 2**20)
    rows = np.flatnonzero(positive[bags.bag_index])
    costs = np.full(len(rows), 0.7)

    def value(found):
        scores = gram @ found.beta + found.intercept
        unsigned = costs @ np.maximum(0, 1 - np.abs(scores[rows]))
        norm = 0.5 * found.beta @ gram @ found.beta
        return norm + loss(bags, positive, weights, C, scores) + unsigned

    first = solve_margins(kernel, patterns, **OPTIONS)
    signs = np.where((gram @ first.beta + first.intercept)[rows] > 0, 1.0, -1.0)
    found = solve_transductive(kernel, patterns, (rows, costs, signs), max_iter=50, **OPTIONS)
    assert not found.stopped
    assert value(found) < value(first)
    # The convex bound touches the objective where the signs have converged.
    assert value(found) == pytest.approx(found.objective, rel=1e-6)
    signs = -signs
    limited = solve_transductive(kernel, patterns, (rows, costs, signs), max_iter=1, **OPTIONS)
    assert limited.stopped == "max_iter"
