"""The active set iteration: tiny programs against all of their active sets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from milearn._solvers.common.qp import ActiveSet, QPProblem, active_set_iterations


def random_program(seed):
    """Strictly convex, three variables in a box and one inequality; each binds in some seeds."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3))
    P = np.diag(rng.uniform(1.0, 3.0, 3)) + 0.1 * root @ root.T
    q = 2.0 * rng.normal(size=3)
    G = rng.normal(size=(1, 3))
    return QPProblem(P, q, G=G, h=rng.uniform(0.1, 0.6, 1), lb=np.zeros(3), ub=np.ones(3))


def enumerated(problem):
    """The optimum, by trying which constraints hold with equality; the set it is found with."""
    found = []
    for fixed in product((None, 0.0, 1.0), repeat=3):
        for tight in (False, True):
            free = np.flatnonzero([value is None for value in fixed])
            x = np.array([0.0 if value is None else value for value in fixed])
            rows = problem.G if tight else problem.G[:0]
            size = len(free) + len(rows)
            system = np.zeros((size, size))
            system[: len(free), : len(free)] = problem.P[np.ix_(free, free)]
            system[len(free) :, : len(free)] = rows[:, free]
            system[: len(free), len(free) :] = rows[:, free].T
            right = np.r_[-(problem.q + problem.P @ x)[free], problem.h[: len(rows)] - rows @ x]
            if size and np.linalg.matrix_rank(system) < size:
                continue
            x[free] = np.linalg.solve(system, right)[: len(free)]
            inside = (x > -1e-12).all() and (x < 1 + 1e-12).all()
            if inside and (problem.G @ x < problem.h + 1e-12).all():
                found.append((0.5 * x @ problem.P @ x + problem.q @ x, tuple(x)))
    return np.array(min(found)[1])


def wrong_starts():
    """Sets without constraints, at lower bounds, at upper bounds, and a mixture of them."""
    no, yes = np.zeros(3, dtype=bool), np.array([True, True, False])
    for tight in (False, True):
        held = np.array([tight])
        yield ActiveSet(lower=no, upper=no, tight=held)
        yield ActiveSet(lower=yes, upper=no, tight=held)
        yield ActiveSet(lower=no, upper=yes, tight=held)
        yield ActiveSet(lower=~yes, upper=yes & np.array([True, False, True]), tight=held)


def test_whatever_the_start_a_result_is_the_optimum_and_its_set_binds():
    solved, bound = 0, np.zeros(3, dtype=int)
    for seed in range(12):
        problem = random_program(seed)
        expected = enumerated(problem)
        for start in wrong_starts():
            result = active_set_iterations(problem, start, "active-set")
            if result is None:
                continue
            solved += 1
            np.testing.assert_allclose(result.x, expected, atol=1e-12)
            assert result.residual < 1e-12
            np.testing.assert_array_equal(result.active.lower, expected < 1e-12)
            np.testing.assert_array_equal(result.active.upper, expected > 1 - 1e-12)
            bound += [
                result.active.lower.any(),
                result.active.upper.any(),
                result.active.tight.any(),
            ]
    # Convergence is not promised: one program cycles from most starts.
    assert solved >= 80
    assert (bound > 5).all(), "each kind of constraint holds somewhere"


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e8])
def test_what_is_not_determined_stays_near_the_given_point(scale):
    # Every point with x1 + 2 x2 = 5 is a minimum; the third variable is pushed to its bound.
    a = np.array([1.0, 2.0, 0.0])
    P = scale * (np.outer(a, a) + np.diag([0.0, 0.0, 1.0]))
    problem = QPProblem(
        P, scale * np.array([-5.0, -10.0, -2.0]), lb=np.full(3, -9.0), ub=np.array([9.0, 9.0, 1.0])
    )
    no, none = np.zeros(3, dtype=bool), np.zeros(0, dtype=bool)
    for x in (None, np.array([4.0, 1.0, 0.0])):
        found = active_set_iterations(problem, ActiveSet(no, no, none, x), "active-set")
        near = np.zeros(3) if x is None else x
        nearest = near + a * (5.0 - a @ near) / 5.0
        nearest[2] = 1.0
        # The matrix is regularised by 1e-11, so rounding moves such a point by 1e-16 / 1e-11.
        np.testing.assert_allclose(found.x, nearest, atol=1e-4)
        assert found.active.upper.tolist() == [False, False, True]


def test_without_free_variables_there_is_nothing_to_solve():
    problem, every = random_program(0), np.ones(3, dtype=bool)
    start = ActiveSet(lower=every, upper=~every, tight=np.zeros(1, dtype=bool))
    assert active_set_iterations(problem, start, "active-set") is None
