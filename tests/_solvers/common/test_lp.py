"""The LP layer: growth, removal, statuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import linprog

from milearn._solvers.common.lp import LPModel
from milearn.exceptions import SolverError


def random_program(seed, m=12, n=9):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.6)
    x = rng.random(n)
    return rng.random(n) + 0.1, A, A @ x - rng.random(m)


def expected(c, A, b):
    found = linprog(c, A_ub=-A, b_ub=-b, method="highs")
    assert found.status == 0
    return found.fun


def add_column(model, cost, column, rows):
    return model.add_columns([cost], starts=[0], rows=rows, values=column)[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("primal", [False, True])
def test_growing_and_shrinking_program_equals_scipy(seed, primal):
    c, A, b = random_program(seed)
    model = LPModel()
    columns = model.add_columns(c[:5])
    rows = model.add_rows(
        b[:8], starts=5 * np.arange(8), columns=np.tile(columns, 8), values=A[:8, :5].ravel()
    )
    slack = model.add_columns([50.0] * 8, starts=np.arange(8), rows=rows, values=np.ones(8))

    def check(found, used, n_rows):
        penalised = np.r_[c[used], np.full(8, 50.0)]
        matrix = np.hstack([A[:n_rows][:, used], np.eye(n_rows, 8)])
        assert found.objective == pytest.approx(expected(penalised, matrix, b[:n_rows]), abs=1e-8)
        assert found.dual_gap <= 1e-8
        assert found.primal_residual <= 1e-9
        assert found.dual_residual <= 1e-9
        # The multipliers are those of the problem: c - A'y >= 0, and their value is the optimum.
        assert (penalised - matrix.T @ found.y[rows[:n_rows]] >= -1e-8).all()

    check(model.solve(primal=primal), np.arange(5), 8)
    for k in range(5, 9):
        new = add_column(model, c[k], A[:8, k], rows)
        columns = np.r_[columns, new]
    check(model.solve(primal=primal), np.arange(9), 8)
    first = model.solve(primal=primal)
    out = np.flatnonzero((first.x[columns] == 0) & (first.reduced[columns] > 1e-9))
    model.remove(columns=columns[out])
    kept = np.setdiff1d(np.arange(9), out)
    again = model.solve(primal=primal)
    assert again.objective == pytest.approx(first.objective, abs=1e-9)
    assert (again.x[columns[out]] == 0).all()
    assert again.n_iter == 0, "what was left is still optimal"
    # New rows, each with a slack of its own: the dual simplex goes on.
    own = model.add_columns([50.0] * 4)
    used = columns[kept]
    model.add_rows(
        b[8:],
        starts=(len(kept) + 1) * np.arange(4),
        columns=np.column_stack([np.tile(used, (4, 1)), own]).ravel(),
        values=np.column_stack([A[8:, kept], np.ones(4)]).ravel(),
    )
    matrix = np.hstack([A[:, kept], np.eye(12)])
    whole = expected(np.r_[c[kept], np.full(12, 50.0)], matrix, b)
    assert model.solve().objective == pytest.approx(whole, abs=1e-8)
    assert model.n_columns == len(kept) + len(slack) + 4
    assert model.n_rows == 12


def test_removal_that_spoils_the_basis_is_solved_from_scratch():
    c, A, b = random_program(3)
    model = LPModel()
    columns = model.add_columns(np.r_[c, np.full(12, 50.0)])
    matrix = np.hstack([A, np.eye(12)])
    rows = model.add_rows(
        b, starts=21 * np.arange(12), columns=np.tile(columns, 12), values=matrix.ravel()
    )
    found = model.solve()
    basic, tight = model.basic()
    assert basic.sum() + tight.sum() == 12
    gone = np.flatnonzero(found.x[columns[:9]] > 0)
    assert len(gone)
    model.remove(columns=columns[gone], rows=rows[:2])
    kept = np.setdiff1d(np.arange(21), gone)
    assert model.solve().objective == pytest.approx(
        expected(np.r_[c, np.full(12, 50.0)][kept], matrix[2:][:, kept], b[2:]), abs=1e-8
    )


@pytest.mark.parametrize(
    ("lower", "upper", "status"), [(1.0, 0.5, "Infeasible"), (-np.inf, np.inf, "Unbounded")]
)
def test_failures_name_the_status(lower, upper, status):
    model = LPModel()
    x = model.add_columns([-1.0])
    model.add_rows([lower], upper, starts=[0], columns=x, values=[1.0])
    with pytest.raises(SolverError, match=rf"not solved by HiGHS \(status: .*{status}"):
        model.solve()


def test_refused_data_is_an_exception():
    model = LPModel()
    x = model.add_columns([1.0])
    with pytest.raises(SolverError, match=r"HiGHS refused adding rows \(status: kError\)"):
        model.add_rows([0.0], starts=[0], columns=[x[0], x[0]], values=[1.0, 2.0])
    with pytest.raises(SolverError, match="no basis"):
        model.basic()


def test_time_that_is_over():
    c, A, b = random_program(0, m=200, n=150)
    model = LPModel()
    columns = model.add_columns(c)
    model.add_rows(b, starts=150 * np.arange(200), columns=np.tile(columns, 200), values=A.ravel())
    assert model.solve(time_limit=0.0) is None
    found = model.solve(time_limit=100.0)
    assert found.objective == pytest.approx(expected(c, A, b), rel=1e-8)


def test_sizes_beyond_32_bits_are_refused():
    """HiGHS would take numbers that wrapped around."""
    model = LPModel()
    x = model.add_columns([1.0, 1.0])
    with pytest.raises(SolverError, match=r"2147483648 entries, .* 32 bits"):
        model.add_rows([0.0, 0.0], starts=[0, 2**31], columns=x, values=[1.0, 1.0])
    model = LPModel(max_index=3)
    x = model.add_columns([1.0, 1.0])
    model.add_rows([0.0], starts=[0], columns=x, values=[1.0, 1.0])
    with pytest.raises(SolverError, match="4 entries"):
        model.add_rows([0.0], starts=[0], columns=x, values=[1.0, 1.0])
    with pytest.raises(SolverError, match="4 columns"):
        model.add_columns([1.0, 1.0])
    with pytest.raises(SolverError, match="4 rows"):
        model.add_rows([0.0, 0.0, 0.0])
    assert (model.n_columns, model.n_rows) == (2, 1)


def test_nothing_is_printed_and_other_models_may_use_another_number_of_threads():
    # By a process of its own: HiGHS prints its version once in a process. One for both, as it takes
    # two seconds to start; as in a new process, the threads are those of the other model.
    code = """
import highspy
from milearn._solvers.common.lp import LPModel

model = LPModel()
model.add_columns([1.0])
model.solve()
print("solved")
highspy.Highs.resetGlobalScheduler(True)
other = highspy.Highs()
other.setOptionValue("output_flag", False)
other.setOptionValue("threads", 2)
other.addVar(1.0, 2.0)
other.changeColCost(0, 1.0)
other.run()
model = LPModel()
x = model.add_columns([1.0])
model.add_rows([3.0], starts=[0], columns=x, values=[1.0])
print(model.solve().objective)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("solved\n")
    assert run.stdout.strip().endswith("3.0")
    assert run.stderr == ""
