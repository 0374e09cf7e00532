"""Several starts: the lowest end is kept."""

from __future__ import annotations

import numpy as np
import pytest

from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.gram import LinearGram
from milearn._solvers.common.screen import ScreenLimits, screened
from milearn._solvers.svm import working_set
from milearn._solvers.svm.losses import Hinge
from milearn._solvers.svm.mi_svm_kernel import BinaryProblem, solve_mi_svm
from milearn._solvers.svm.mi_svm_rows import solve_mi_svm_rows
from milearn.datasets import make_bags
from tests.oracles import maximum_step


def overlapping(seed):
    bags, y = make_bags(60, 12, bag_size=(2, 6), flip_y=0.05, random_state=seed)
    gram, signs, weights = LinearGram(bags.instances), np.where(y == 1, 1.0, -1.0), np.ones(len(y))
    return bags, BinaryProblem(gram, bags.offsets, signs, weights)


@pytest.mark.parametrize("seed", range(3))
def test_the_lowest_end_is_kept(seed):
    bags, problem = overlapping(seed)
    found = screened(bags.source(), problem.signs, problem.weights, ScreenLimits(kept=2))
    others = found.rows[:, problem.signs > 0]
    options = SolverOptions(1e-6, 100)
    found = solve_mi_svm(problem, "bag", None, options, others)
    ends = [solve_mi_svm(problem, "bag", each, options) for each in (None, *others)]
    best = min(ends, key=lambda end: end.objective)
    assert found.objective == pytest.approx(best.objective, rel=1e-9)
    assert found.converged
    assert found.dual_gap <= 1e-6 * found.objective
    assert found.n_iter == len(found.history)
    assert np.all(np.diff(found.history) <= 1e-9 * found.objective)
    assert found.history[-1] == pytest.approx(found.objective, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_run_whose_first_step_is_rough_ends_precisely(seed, monkeypatch):
    bags, problem = overlapping(seed)
    monkeypatch.setattr(working_set, "_PRECISE_PATTERNS", 0)
    monkeypatch.setattr(working_set, "active_set_iterations", lambda *given: None)
    found = solve_mi_svm(problem, "bag", None, SolverOptions(1e-6, 100))
    assert found.converged
    assert found.dual_gap <= 1e-6 * found.objective
    best = maximum_step(bags, problem.signs > 0, problem.weights, "bag", found.witnesses)
    assert found.objective - found.dual_gap <= best * (1 + 1e-6)


@pytest.mark.parametrize("over_rows", [False, True])
def test_a_callback_that_stops_a_later_start_is_the_reason(over_rows):
    bags, y = make_bags(40, 8, bag_size=(2, 6), flip_y=0.05, random_state=1)
    signs, weights = np.where(y == 1, 1.0, -1.0), np.ones(len(y))
    problem = BinaryProblem(LinearGram(bags.instances), bags.offsets, signs, weights)
    others = screened(bags.source(), signs, weights, ScreenLimits(kept=1)).rows[:, signs > 0]

    def run(start, others, on_iteration=None):
        options = SolverOptions(1e-6, 100, on_iteration)
        if over_rows:
            return solve_mi_svm_rows(bags.source(), Hinge(signs, weights), "bag", start, options)
        return solve_mi_svm(problem, "bag", None, options, others)

    first = run("mean", None)
    assert first.converged
    both = run("auto", others, lambda n, value: n > first.n_iter)
    # The end of the first start is kept.
    assert both.objective == pytest.approx(first.objective, rel=1e-12)
    assert both.stopped == "callback"
