"""The best selection of one instance of each positive bag, by branches and by annealing."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common.selections import Selections, annealed, branch_and_bound
from milearn import Bags
from tests.oracles import selection_optimum


def few_bags(seed, sizes=(3, 2, 3, 1, 2, 3)):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(sizes)]
    y = (np.arange(len(sizes)) % 2 == 0).astype(int)
    return Bags(rng.normal(size=(offsets[-1], 3)), offsets), y


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_branches_find_the_optimum_of_an_enumeration(seed, C):
    bags, y = few_bags(seed)
    found = branch_and_bound(Selections(bags, y, C))
    best = selection_optimum(bags.instances @ bags.instances.T, bags, y, C)
    assert found.closed
    # The tolerance of the search and of its support vector machines.
    assert found.lower <= best * (1 + 1e-6)
    assert found.lower == pytest.approx(best, rel=3e-4)
    assert found.upper == pytest.approx(best, rel=3e-4)
    labels = np.repeat(y, bags.sizes)
    assert found.selection.shape == (3,)
    assert found.n_solved <= 3 + 9 + 27
    assert labels.sum() == len(Selections(bags, y, C).rows)


def test_a_search_that_is_stopped_has_a_valid_bound():
    bags, y = few_bags(0)
    best = selection_optimum(bags.instances @ bags.instances.T, bags, y, 1.0)
    stopped = branch_and_bound(Selections(bags, y, 1.0), max_solved=3)
    # The node that reaches the limit is finished.
    assert 3 <= stopped.n_solved < 6
    assert not stopped.closed
    assert 0 < stopped.lower < best <= stopped.upper * (1 + 1e-6)


def test_a_known_solution_is_not_found_again():
    bags, y = few_bags(1)
    best = selection_optimum(bags.instances @ bags.instances.T, bags, y, 1.0)
    found = branch_and_bound(Selections(bags, y, 1.0), upper=best)
    assert found.selection is None
    assert found.closed
    assert found.upper == best


def test_annealing_ends_at_a_selection_that_is_not_above_its_first():
    bags, y = few_bags(1)
    problem = Selections(bags, y, 1.0)
    first = problem.solved(problem.first()).lower
    rows = annealed(problem, 60, np.random.RandomState(0))
    best = selection_optimum(bags.instances @ bags.instances.T, bags, y, 1.0)
    assert problem.solved(rows).lower == pytest.approx(best, rel=1e-3)
    assert problem.solved(rows).lower < first
    np.testing.assert_array_equal(
        np.searchsorted(problem.offsets, rows, side="right") - 1, np.arange(3)
    )
    np.testing.assert_array_equal(bags.instances[problem.places], problem.rows)
