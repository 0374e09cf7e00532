"""The benchmark of minima: its tables, and what bounds what."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.common.page import read_page


def test_bounds_are_below_all_objectives(tmp_path, capsys):
    assert main(["minima", "--fast", "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "minima.jsonl").read_text())
    result = record["result"]
    objectives, bounds = result["objectives"], result["bounds"]
    assert {"means", "auto", "random", "annealing"} <= set(objectives)
    lowest = min(objectives.values())
    # The precision of each solver.
    assert all(0 < bound <= lowest * (1 + 1e-4) for bound in bounds.values())
    assert bounds["branches"] == pytest.approx(lowest, rel=1e-3)
    assert max(bounds["SDPMIL"], bounds["WellSVC"]) < bounds["branches"]
    assert len(result["starts"]) == 20
    assert min(result["starts"]) == objectives["random"]
    assert objectives["auto"] <= objectives["means"] * (1 + 1e-6)

    printed = capsys.readouterr().out
    page = read_page(tmp_path / "minima.tables.json")
    first, second = page.tables
    assert str(first) in printed
    row = dict(zip(first.columns, first.rows[0], strict=True))
    assert row["branches"] == "optimum"
    assert float(row["means"]) == pytest.approx(objectives["means"] / lowest, abs=1e-3)
    assert float(row["reached %"]) == pytest.approx(
        100 * sum(each <= 1.01 * lowest for each in result["starts"]) / 20
    )
    assert len(second.rows) == 1
