"""Disjunctive programs: values and restrictions."""

from __future__ import annotations

import numpy as np
import pytest

from milearn._solvers.ensemble.problem import DisjunctiveProblem


def test_problem_value_and_restriction():
    problem = DisjunctiveProblem(
        4,
        [np.array([0, 1])],
        np.array([2.0]),
        np.array([2, 3]),
        np.array([-1.0, 1.0]),
        np.array([1.0, 3.0]),
    )
    scores = np.array([0.5, -1.0, 0.25, 2.0])
    assert problem.value(np.array([1.5]), scores) == pytest.approx(1.5 + 2 * 0.5 + 1.25)
    single = problem.restricted(problem.witnesses(scores))
    assert not single.members
    assert single.points.tolist() == [2, 3, 0]
    assert single.value(np.array([1.5]), scores) == problem.value(np.array([1.5]), scores)
