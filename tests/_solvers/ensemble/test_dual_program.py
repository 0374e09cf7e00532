"""Linear programs kept as their duals, against SciPy, while rows and columns come and go."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from milearn._solvers.common.lp import LPModel
from milearn._solvers.ensemble.dual_program import DualProgram


def expected(c, A, b, n_equal=0):
    """min c'x over Ax >= b, the last rows with equality, x >= 0."""
    m = len(b) - n_equal
    equal = (A[m:], b[m:]) if n_equal else (None, None)
    found = linprog(c, A_ub=-A[:m], b_ub=-b[:m], A_eq=equal[0], b_eq=equal[1], method="highs")
    assert found.status == 0, found.message
    return found


def soft_program(seed, n_rows=12, n_columns=6):
    rng = np.random.default_rng(seed)
    G = rng.choice([-1.0, 1.0], size=(n_columns, n_rows))
    costs = rng.uniform(0.1, 1.0, n_rows)
    program = DualProgram()
    program.add_soft_rows(costs)
    rows = np.arange(n_rows)
    columns = program.add_columns(
        np.ones(n_columns),
        starts=n_rows * np.arange(n_columns),
        rows=np.tile(rows, n_columns),
        values=G.ravel(),
    )
    return program, G, costs, columns


def kkt(program, found, c, A, b):
    """Feasible on both sides with equal objectives: the optimum, whatever the vertex."""
    assert (found.x >= 0).all()
    assert (A @ found.x >= b - 1e-8).all()
    assert (A.T @ found.y <= c + 1e-8).all()
    assert c @ found.x == pytest.approx(found.objective, abs=1e-8)
    assert b @ found.y == pytest.approx(found.objective, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_soft_rows_and_columns(seed):
    program, G, costs, *_ = soft_program(seed)
    found = program.solve()
    c, A = np.r_[costs, np.ones(len(G))], np.hstack([np.eye(12), G.T])
    assert found.objective == pytest.approx(expected(c, A, np.ones(12)).fun, abs=1e-9)
    kkt(program, found, c, A, np.ones(12))


@pytest.mark.parametrize("seed", range(5))
def test_rows_on_slacks_and_equations_join_later(seed):
    """Slacks get more entries, so that they are more than bounds; one row is an equation."""
    program, G, costs, columns = soft_program(seed)
    program.solve()
    n = 12 + len(G)
    more = np.zeros((3, n))
    more[0, [0, columns[0]]] = 1.0, -1.0
    more[1, [0, 1, columns[1]]] = 1.0, 2.0, 1.0
    more[2, columns[:4]] = 1.0
    right = np.array([0.5, 1.0, 0.75])
    made = []
    for row, value in zip(more, right, strict=True):
        used = np.flatnonzero(row)
        made += program.add_rows(
            [value], equal=len(made) == 2, starts=[0], columns=used, values=row[used]
        ).tolist()
    late = program.add_columns([0.25], starts=[0], rows=made, values=[1.0, -1.0, 1.0])
    found = program.solve(rows_changed=True)
    c = np.r_[costs, np.ones(len(G)), 0.25]
    A = np.vstack([np.hstack([np.eye(12), G.T]), more])
    A = np.column_stack([A, np.r_[np.zeros(12), 1.0, -1.0, 1.0]])
    b = np.r_[np.ones(12), right]
    assert late.tolist() == [n]
    assert found.objective == pytest.approx(expected(c, A, b, n_equal=1).fun, abs=1e-9)
    kkt(program, found, c, A, b)


def test_removal_keeps_the_basis_of_the_rest():
    program, *_, columns = soft_program(3)
    first = program.solve()
    basic, _ = program.basic()
    idle = columns[basic[columns]]
    assert 0 < len(idle) < len(columns)
    assert (first.x[idle] == 0).all()
    program.remove(idle, [])
    again = program.solve()
    assert again.n_iter == 0
    assert again.objective == pytest.approx(first.objective, abs=1e-12)
    assert again.x[columns] == pytest.approx(first.x[columns], abs=1e-12)


@pytest.mark.parametrize("estimate", ["right", "wrong", "incomplete", "singular"])
def test_an_estimate_of_the_basis_never_changes_the_value(estimate):
    program, *_ = soft_program(1, n_rows=80, n_columns=30)
    known = program.solve()
    again, G, costs, columns = soft_program(1, n_rows=80, n_columns=30)
    free = (known.y > 1e-9) & (known.y < costs - 1e-9)
    used = known.x > 1e-9
    if estimate == "wrong":
        free, used = ~free, ~used
    if estimate == "incomplete":
        free = np.zeros_like(free)
    if estimate == "singular":
        used, free = np.zeros_like(used), np.zeros_like(free)
        used[columns[:2]] = True
        free[np.flatnonzero((G[:2] == G[:2, :1]).all(axis=0))[:2]] = True
        assert used.sum() == free.sum() == 2
    again.set_basis(used, free, known.y >= costs - 1e-9)
    found = again.solve()
    assert found.objective == pytest.approx(known.objective, abs=1e-9)
    if estimate == "right":
        assert found.n_iter <= known.n_iter // 4


def test_the_time_limit_leaves_no_result():
    program, *_ = soft_program(0, n_rows=400, n_columns=200)
    assert program.solve(time_limit=0.0) is None
    assert isinstance(program.dual, LPModel)
