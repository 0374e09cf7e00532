"""All backends end at the same objective, and the table shows every one that is installed."""

from __future__ import annotations

import numpy as np
import pytest
import qpsolvers

from benchmarks.__main__ import build_parser
from benchmarks.commands.backends import (
    BACKENDS,
    LOOPS,
    BackendTask,
    only_backend,
    run_task,
)
from milearn._solvers.common.qp import QPProblem, solve_qp
from milearn.exceptions import SolverError

INSTALLED = [name for name in BACKENDS if name in qpsolvers.available_solvers]


def test_programs_go_to_the_named_backend_alone():
    ones = np.ones(2)
    infeasible = QPProblem(
        np.eye(2), np.zeros(2), A=ones[None], b=np.array([5.0]), lb=0 * ones, ub=ones
    )
    with only_backend("osqp"), pytest.raises(SolverError, match=r"was not solved \(osqp"):
        solve_qp(infeasible)
    with pytest.raises(SolverError, match=r"was not solved \(piqp.*; osqp"):
        solve_qp(infeasible)


@pytest.mark.parametrize("loop", LOOPS)
def test_backends_agree(loop):
    results = [run_task(BackendTask("concept-tiny", loop, name, 0)) for name in INSTALLED]
    assert all("result" in record for record in results), results
    objectives = [record["result"]["objective"] for record in results]
    assert objectives == pytest.approx([objectives[0]] * len(objectives), rel=1e-5)
    assert all(record["result"]["gap"] <= 1e-5 for record in results)


def test_command_prints_a_row_a_backend_and_resumes(tmp_path, capsys):
    options = ["backends", "--dataset", "concept-tiny", "--rounds", "1", "--out", str(tmp_path)]
    for _ in range(2):
        args = build_parser().parse_args(options)
        assert args.main(args) == 0
        out = capsys.readouterr().out
        for title in LOOPS.values():
            assert title in out
        for name in INSTALLED:
            assert sum(line.startswith(name) for line in out.splitlines()) == len(LOOPS)
    lines = (tmp_path / "backends.jsonl").read_text().splitlines()
    assert len(lines) == len(LOOPS) * len(INSTALLED)
