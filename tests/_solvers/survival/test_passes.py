"""Proportional hazards by passes: cvxpy for a step, enumeration of witnesses, working sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags
from milearn._bags.blocks import ArraySource
from milearn._bags.segments import segment_argmax
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.descent import RowLimits
from milearn._solvers.survival.likelihood import PartialLikelihood
from milearn._solvers.survival.passes import (
    RISK_LIMITS,
    CoxProblem,
    CoxStart,
    solve_cox_maximum,
    solve_cox_mean,
)
from tests.bags import random_bags
from tests.oracles import cox_optimum, cox_step, partial_likelihood

OPTIONS = SolverOptions(1e-6, 100)


def to(tol):
    return SolverOptions(tol, 100)


# The smallest working sets: a step goes through many rounds.
NARROW = RowLimits(band=0.01, all_rows=0, numbers=0, per_bag=1)


def random_outcomes(seed, bags, ties):
    """Events, times, weights, some of which are zero, and the treatment of ties."""
    rng, n = np.random.default_rng(1000 + seed), len(bags)
    events = rng.random(n) < 0.7
    events[0] = True
    times = rng.integers(1, 8, n).astype(float) if seed % 2 else rng.random(n)
    weights = np.ones(n) if seed % 3 else rng.integers(0, 4, n).astype(float)
    weights[0] = 1.0
    return events, times, weights, ties


def problem_of(bags, outcomes, C, block_bytes=2000):
    source = ArraySource(bags.instances, bags.offsets, block_bytes)
    return CoxProblem(source, PartialLikelihood(*outcomes), C)


def random_problem(seed, C, *, n_bags=12, d=3, largest=4):
    bags = random_bags(seed, n_bags, d, largest)
    outcomes = random_outcomes(seed, bags, "efron" if seed % 4 < 2 else "breslow")
    return bags, outcomes, problem_of(bags, outcomes, C)


def objective_at(bags, outcomes, C, w):
    """The objective in w, and the highest instances there."""
    scores = np.asarray(bags.instances @ w)
    top = segment_argmax(scores, bags.offsets)
    events, times, weights, ties = outcomes
    value = 0.5 * w @ w + C * partial_likelihood(scores[top], events, times, weights, ties)
    return value, top


# -- the procedure ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [RISK_LIMITS, NARROW], ids=["everything", "narrow"])
def test_problems_without_a_rising_history(limits):
    for seed in range(20):
        C = (0.1, 10.0)[seed % 2]
        bags, outcomes, problem = random_problem(seed, C)
        found = solve_cox_maximum(problem, CoxStart(), to(1e-8), limits=limits)
        assert found.converged
        history = np.array(found.history)
        assert (np.diff(history) <= 1e-12 * np.abs(history[1:])).all()
        value, _ = objective_at(bags, outcomes, C, found.w)
        assert found.objective == pytest.approx(value, rel=1e-12)
        assert found.objective == history[-1]
        assert len(history) == found.n_iter
        assert found.dual_gap <= 1e-8 * max(found.objective_scale, 1e-3)


@pytest.mark.parametrize("C", [3.0, 1e7])
@pytest.mark.parametrize("limits", [RISK_LIMITS, NARROW], ids=["everything", "narrow"])
def test_the_gap_belongs_to_the_highest_instances_of_the_solution(limits, C):
    for seed in range(4):
        bags, outcomes, problem = random_problem(seed, C, n_bags=30)
        found = solve_cox_maximum(problem, CoxStart(), to(1e-6), limits=limits)
        value, top = objective_at(bags, outcomes, C, found.w)
        least, _ = cox_step(bags, outcomes, C, top)
        assert value - least <= found.dual_gap + 1e-6 * max(1.0, C / 3.0)


def test_enumeration_of_witnesses():
    """No point is below the best choice, and the best of some starts attains it."""
    attained = 0
    for seed in range(5):
        bags, outcomes, problem = random_problem(seed, 5.0, n_bags=6, d=2, largest=3)
        best = cox_optimum(bags, outcomes, 5.0)
        rng = np.random.default_rng(seed)
        rows = [bags.offsets[:-1] + rng.integers(0, bags.sizes) for _ in range(5)]
        starts = [CoxStart(), *(CoxStart(each) for each in rows)]
        found = min(solve_cox_maximum(problem, start, to(1e-8)).objective for start in starts)
        assert found >= best - 1e-5
        attained += found <= best + 1e-5
    assert attained >= 4


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_first_step_from_given_witnesses_is_that_of_cvxpy(seed, C):
    bags, outcomes, problem = random_problem(seed, C)
    rows = bags.offsets[1:] - 1
    once = replace(OPTIONS, max_iter=1)
    found = solve_cox_maximum(problem, CoxStart(rows, held=True), replace(once, tol=1e-9))
    _, w = cox_step(bags, outcomes, C, rows)
    np.testing.assert_allclose(found.w, w, atol=1e-3)
    # The objective is that of the original problem.
    assert found.objective == pytest.approx(objective_at(bags, outcomes, C, found.w)[0])


# -- kinds of input --------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [RISK_LIMITS, NARROW], ids=["everything", "narrow"])
@pytest.mark.parametrize("d", [3, 40])
def test_sparse_rows_and_threads_change_nothing(limits, d):
    bags = random_bags(3, 20, d, 8, zeros=0.5)
    outcomes = random_outcomes(3, bags, "breslow")
    expected = solve_cox_maximum(
        problem_of(bags, outcomes, 1.0), CoxStart(), to(1e-9), limits=limits
    )
    csr = Bags(sparse.csr_array(bags.instances), bags.offsets)
    given = PartialLikelihood(*outcomes)
    threads = ArraySource(bags.instances, bags.offsets, 2000, n_jobs=2)
    for problem in (problem_of(csr, outcomes, 1.0), CoxProblem(threads, given, 1.0)):
        found = solve_cox_maximum(problem, CoxStart(), to(1e-9), limits=limits)
        np.testing.assert_allclose(found.w, expected.w, atol=1e-6)


def test_few_passes_over_large_bags():
    """The working set is a small part of the instances, and few passes find the same minimum."""
    bags = random_bags(0, 60, 5, 300)
    outcomes = random_outcomes(1, bags, "breslow")
    everything, part = (
        solve_cox_maximum(problem_of(bags, outcomes, 0.1), CoxStart(), to(1e-6), limits=each)
        for each in (RowLimits(all_rows=2**20), RowLimits(all_rows=0))
    )
    assert part.objective == pytest.approx(everything.objective, rel=1e-5)
    assert part.n_passes <= 3 * everything.n_passes


# -- special cases ---------------------------------------------------------------------------------


def test_means_are_a_convex_problem():
    for seed in range(6):
        bags, outcomes, problem = random_problem(seed, 2.0)
        found = solve_cox_mean(problem, to(1e-9))
        means = np.add.reduceat(bags.instances, bags.offsets[:-1]) / bags.sizes[:, None]
        alone = Bags.singletons(means)
        value, w = cox_step(alone, outcomes, 2.0, np.arange(len(bags)))
        assert found.objective == pytest.approx(value, rel=1e-6)
        np.testing.assert_allclose(found.w, w, atol=1e-4)
        assert found.n_passes == 1


def test_bags_of_one_instance_are_a_convex_problem():
    """Their minimum is found to all digits, not to the tolerance of a step."""
    bags = Bags.singletons(random_bags(1, 30, 4, 1).instances)
    outcomes = random_outcomes(1, bags, "breslow")
    problem = problem_of(bags, outcomes, 1.0)
    found = solve_cox_maximum(problem, CoxStart(), to(1e-6))
    slopes = problem.likelihood.slopes(bags.instances @ found.w) - problem.likelihood.event_weights
    np.testing.assert_allclose(found.w, -bags.instances.T @ slopes, atol=1e-6)
    assert found.n_iter == 1


def test_bags_that_are_censored_before_any_event_do_not_count():
    bags = random_bags(2, 10, 3, 4)
    events = np.arange(10) >= 3
    times = np.arange(10, dtype=float)
    given = events, times, np.ones(10), "breslow"
    expected = solve_cox_maximum(problem_of(bags, given, 1.0), CoxStart(), to(1e-9))
    rest = slice(3, None)
    later = events[rest], times[rest], np.ones(7), "breslow"
    found = solve_cox_maximum(problem_of(bags[rest], later, 1.0), CoxStart(), to(1e-9))
    np.testing.assert_allclose(found.w, expected.w, atol=1e-8)


def test_nothing_to_learn_is_the_zero_solution():
    """An event at which nobody else is at risk has no loss."""
    bags = random_bags(0, 4, 3, 4)
    given = np.array([False, False, False, True]), np.arange(4.0), np.ones(4), "breslow"
    found = solve_cox_maximum(problem_of(bags, given, 1.0), CoxStart(), to(1e-6))
    assert found.converged
    np.testing.assert_allclose(found.w, 0.0, atol=1e-6)
    assert found.objective == pytest.approx(0.0, abs=1e-9)


def test_the_procedure_leaves_zero_where_all_instances_tie():
    """With drawn witnesses the first step ends at w = 0; the falling loss of the means decides."""
    rng = np.random.default_rng(3)
    bags = random_bags(3, 20, 2, 30)
    risks = rng.normal(size=20)
    instances = bags.instances.copy()
    instances[bags.offsets[:-1], 0] += 4 * np.maximum(risks, 0)
    bags = Bags(instances, bags.offsets)
    outcomes = np.ones(20, dtype=bool), np.exp(-3 * risks), np.ones(20), "breslow"
    problem = problem_of(bags, outcomes, 1.0)
    at_zero = problem.likelihood.log_sums(np.zeros(20))
    drawn = CoxStart(bags.offsets[:-1] + rng.integers(0, bags.sizes), held=True)
    once = solve_cox_maximum(problem, drawn, replace(OPTIONS, max_iter=1, tol=1e-8))
    assert once.objective == pytest.approx(at_zero, rel=1e-6)
    assert solve_cox_maximum(problem, drawn, to(1e-8)).objective < 0.9 * at_zero
