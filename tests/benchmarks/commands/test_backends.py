"""All backends end at the same objective, and the table shows every one that is installed."""

from __future__ import annotations

import pytest
import qpsolvers

from benchmarks.__main__ import build_parser
from benchmarks.commands.backends import (
    BACKENDS,
    LOOPS,
    BackendTask,
    run_task,
)

INSTALLED = [name for name in BACKENDS if name in qpsolvers.available_solvers]


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
