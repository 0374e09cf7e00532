"""The disjunctive program against the full linear program, and against all choices of witnesses."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from milearn import Bags
from milearn._bags.distinct import distinct_points
from milearn._solvers.ensemble.dpboost import BoostingOptions, solve_disjunctive
from milearn._solvers.ensemble.pools import ClassifierPool, make_pool
from milearn._solvers.ensemble.problem import disjunctive_problem
from milearn._solvers.ensemble.relaxation import most_violated
from milearn.ensemble import DPBoost, LPBoost
from tests._solvers.ensemble.oracles import all_columns, enumerated, solved

# -- oracles: every column and every row, by SciPy ------------------------------------------------


def full_relaxation(problem, H):
    """Value of (7): every copy, slack and reduction a column or row of its own."""
    K, r, p = len(H), len(problem.points), len(problem.members)
    names = [("a", k) for k in range(K)] + [("j", j) for j in range(r)]
    names += [("i", i) for i in range(p)]
    for i, block in enumerate(problem.members):
        for x in block:
            names += [("eta", i, x), ("i", i, x)]
            names += [("a", i, x, k) for k in range(K)] + [("j", i, x, j) for j in range(r)]
    place = {name: n for n, name in enumerate(names)}
    cost = np.zeros(len(names))
    cost[:K], cost[K : K + r], cost[K + r : K + r + p] = 1.0, problem.costs, problem.member_costs
    above, equal = [], []

    def row(entries, right, into):
        line = np.zeros(len(names) + 1)
        for name, value in entries:
            line[place[name]] += value
        line[-1] = right
        into.append(line)

    margins = problem.signs[:, None] * H[:, problem.points].T
    for j in range(r):
        row([*((("a", k), margins[j, k]) for k in range(K)), (("j", j), 1.0)], 1.0, above)
    for i, block in enumerate(problem.members):
        row([(("eta", i, x), 1.0) for x in block], 1.0, equal)
        for kind, count in (("a", K), ("j", r)):
            for k in range(count):
                copies = [((kind, i, x, k), -1.0) for x in block]
                row([((kind, k), 1.0), *copies], 0.0, equal)
        row([(("i", i), 1.0), *((("i", i, x), -1.0) for x in block)], 0.0, equal)
        for x in block:
            mine = [(("a", i, x, k), H[k, x]) for k in range(K)]
            row([*mine, (("i", i, x), 1.0), (("eta", i, x), -1.0)], 0.0, above)
            for j in range(r):
                mine = [(("a", i, x, k), margins[j, k]) for k in range(K)]
                row([*mine, (("j", i, x, j), 1.0), (("eta", i, x), -1.0)], 0.0, above)
    above, equal = np.array(above), np.array(equal)
    E = None if not len(equal) else (equal[:, :-1], equal[:, -1])
    return solved(cost, above[:, :-1], above[:, -1], E)


@cache
def small_problem(seed, n_bags=3, d=2, C=1.0):
    """Ambiguous bags, negative bags and a positive singleton, all from one distribution."""
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(rng.integers(2, 5), d)) for _ in range(n_bags)]
    blocks += [rng.normal(size=(rng.integers(2, 5), d)) for _ in range(n_bags)]
    blocks += [rng.normal(size=(1, d)) + 0.5]
    positive = np.r_[np.ones(n_bags, bool), np.zeros(n_bags, bool), True]
    bags = Bags.from_list([np.round(block, 2) for block in blocks])
    rows, point_of = distinct_points(bags.instances)
    problem = disjunctive_problem(positive, point_of, bags.offsets, np.full(len(bags), C))
    return problem, bags.instances[rows], bags, positive.astype(int)


# Every seed and every C: searches take longer than relaxations.
CASES = [(0, 0.3), (2, 1.0), (4, 5.0), (15, 1.0)]
SEARCHED = [(0, 5.0), (2, 0.3), (2, 1.0)]


@cache
def relaxed(seed, C, max_rows=10_000):
    problem, X, _, _ = small_problem(seed, C=C)
    options = BoostingOptions(tol=1e-9, n_estimators=1000, max_rows=max_rows)
    return solve_disjunctive(problem, pool=make_pool("stump", X, 1), options=options)


@cache
def branched(seed, C):
    _, _, bags, y = small_problem(seed, C=C)
    return DPBoost(C=C, tol=1e-8, branch=True).fit(bags, y)


@pytest.mark.parametrize(("seed", "C"), CASES)
def test_generated_program_reaches_the_full_one(seed, C):
    problem, X, _, _ = small_problem(seed, C=C)
    found = relaxed(seed, C)
    # Rounding may end the last programs, whose rows are many, above a gap of 1e-7.
    assert found.stopped in ("", "rounding")
    expected = full_relaxation(problem, all_columns(X))
    assert found.relaxation_value == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert found.lower_bound == pytest.approx(expected, rel=1e-7, abs=1e-7)


def test_reductions_are_needed_somewhere():
    """Without this the test above could pass by the relaxation without reductions."""
    raised = 0
    for seed, C in CASES:
        with_rows, without = relaxed(seed, C), relaxed(seed, C, max_rows=0)
        assert with_rows.n_reductions <= 1000
        assert without.lower_bound <= with_rows.lower_bound + 1e-8
        assert without.n_reductions == 0
        raised += with_rows.lower_bound > without.lower_bound + 1e-4
    assert raised >= 2


@pytest.mark.parametrize(("seed", "C"), SEARCHED)
def test_bounds_enclose_the_optimum_and_branching_reaches_it(seed, C):
    problem, X, bags, y = small_problem(seed, C=C)
    optimum = enumerated(problem, all_columns(X))
    model = DPBoost(C=C, tol=1e-8).fit(bags, y)
    assert model.lower_bound_ <= optimum + 1e-7
    assert optimum <= model.objective_ + 1e-7
    exact = branched(seed, C)
    assert exact.objective_ == pytest.approx(optimum, rel=1e-6)
    assert exact.lower_bound_ == pytest.approx(optimum, rel=1e-6)
    assert exact.converged_


def test_branching_is_needed_somewhere():
    gaps = []
    for seed, C in SEARCHED:
        model = branched(seed, C)
        gaps.append(model.objective_ - model.relaxation_value_)
        assert model.n_nodes_ >= 1
    assert max(gaps) > 1e-3


def test_objective_is_that_of_the_problem():
    problem, _, bags, y = small_problem(1)
    model = DPBoost(C=1.0).fit(bags, y)
    scores = model.instance_decision_function(bags)
    total = model.alpha_.sum()
    for bag in range(len(bags)):
        mine = scores[bags.offsets[bag] : bags.offsets[bag + 1]]
        if y[bag]:
            total += max(0.0, 1.0 - mine.max())
        else:
            total += np.maximum(0.0, 1.0 + mine).sum()
    assert model.objective_ == pytest.approx(total, rel=1e-9)
    assert (np.diff(model.objective_history_) <= 0).all()
    assert model.objective_history_[-1] == model.objective_
    assert model.optimality_gap_ == model.objective_ - model.lower_bound_
    assert (model.decision_function(bags) == np.maximum.reduceat(scores, bags.offsets[:-1])).all()
    assert len(problem.members) == 3


def test_equals_lpboost_without_ambiguous_bags():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=40) > 0).astype(int)
    ours, theirs = DPBoost(C=0.5).fit(X, y), LPBoost(C=0.5).fit(X, y)
    assert ours.objective_ == theirs.objective_
    assert ours.learners_ == theirs.learners_
    assert (ours.decision_function(X) == theirs.decision_function(X)).all()
    H = all_columns(X)
    signs = np.where(y == 1, 1.0, -1.0)
    A = np.hstack([signs[:, None] * H.T, np.eye(40)])
    optimum = solved(np.r_[np.ones(len(H)), np.full(40, 0.5)], A, np.ones(40))
    assert theirs.objective_ == pytest.approx(optimum, rel=1e-7)
    assert theirs.lower_bound_ == pytest.approx(optimum, rel=2e-6)


def test_fixed_pool_of_a_classifier_is_bounded():
    """With generated learners only, the bounds hold for these learners."""
    problem, X, _, _ = small_problem(3)
    pool = ClassifierPool(X, DecisionTreeClassifier(max_depth=1, random_state=0))
    options = BoostingOptions(branch=True, max_rows=10_000)
    found = solve_disjunctive(problem, pool=pool, options=options)
    assert not pool.exact
    assert found.lower_bound <= found.objective
    assert found.objective == pytest.approx(enumerated(problem, found.H.astype(float)), rel=1e-6)


def test_rounding_does_not_choose_among_equal_violations():
    rng = np.random.default_rng(0)
    excess = rng.integers(-2, 4, (6, 30)) / 7
    expected = most_violated(excess, 1e-6, 40)
    for _ in range(3):
        noisy = excess + rng.normal(scale=1e-15, size=excess.shape)
        assert most_violated(noisy, 1e-6, 40) == expected
