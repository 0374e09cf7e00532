"""Several starts: the lowest end is kept."""

from __future__ import annotations

import numpy as np
import pytest

from milearn._bags.blocks import ArraySource
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.gram import LinearGram
from milearn._solvers.common.screen import ScreenLimits
from milearn._solvers.svm.losses import Hinge
from milearn._solvers.svm.mi_svm_kernel import solve_mi_svm
from milearn._solvers.svm.problem import BinaryProblem
from milearn._solvers.svm.starts import screened_witnesses
from milearn.datasets import make_bags


def overlapping(seed):
    bags, y = make_bags(60, 12, bag_size=(2, 6), flip_y=0.05, random_state=seed)
    return bags, Hinge(np.where(y == 1, 1.0, -1.0), np.full(len(y), 1.0))


@pytest.mark.parametrize("seed", range(3))
def test_the_lowest_end_is_kept(seed):
    bags, loss = overlapping(seed)
    problem = BinaryProblem(LinearGram(bags.instances), bags.offsets, loss.signs, loss.weights)
    source = ArraySource(bags.instances, bags.offsets)
    others = screened_witnesses(source, loss.signs, loss.weights, ScreenLimits(kept=2))
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
