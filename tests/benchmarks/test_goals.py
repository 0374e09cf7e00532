"""The figures of goals are those of the kept tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.commands import goals
from benchmarks.common.output import read_page

KEPT = Path(__file__).resolve().parents[2] / "docs" / "results"


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("14.8 s", 14.8),
        ("59.1 ms", 0.0591),
        ("3,815 MB", 3815.0),
        ("2 MiB", 2.097152),
        ("8e-05", 8e-5),
        ("-2.4", -2.4),
        ("2.5 missed", 2.5),
        ("1.42, 1.40 [1.38, 1.45] x MISVC", 1.42),
    ],
)
def test_figures_of_cells_are_read_in_one_unit(cell, value):
    assert goals.number(cell) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("cell", ["", "converged", "-", "higher than MISVC (3.2)"])
def test_a_cell_without_a_figure_is_refused(cell):
    with pytest.raises(ValueError, match="holds no figure"):
        goals.number(cell)


def test_every_goal_is_found_in_the_kept_tables(tmp_path, capsys):
    for path in KEPT.glob("*.tables.json"):
        shutil.copy(path, tmp_path)
    assert main(["goals", "--out", str(tmp_path)]) == 0
    (table,) = read_page(tmp_path / "goals.tables.json").tables
    assert len(table.rows) == len(goals.GOALS) <= 30
    named = dict(zip((goal.text for goal in goals.GOALS), table.rows, strict=True))
    for goal in goals.GOALS:
        text, _, _, remark, command = named[goal.text]
        assert text == goal.text
        # A table that is not kept yet was not run; in one that is kept, every goal is found.
        kept = (KEPT / f"{goal.page}.tables.json").is_file()
        assert goal.page.startswith(command.split()[-1])  # "needles-shares" is of "needles"
        assert remark in ({"", f"missed: {goal.reason}"} if kept else {"not run"})
    # A figure that gets worse is missed.
    stated = json.loads((tmp_path / "milsd-links.tables.json").read_text())
    stated["tables"][0]["rows"][3][4] = "900 s"
    (tmp_path / "milsd-links.tables.json").write_text(json.dumps(stated))
    assert main(["goals", "--out", str(tmp_path)]) == 0
    (worse,) = read_page(tmp_path / "goals.tables.json").tables
    changed = [new for new, old in zip(worse.rows, table.rows, strict=True) if new != old]
    assert len(changed) == 1
    assert changed[0][3:] == ["missed", "scale milsd-links"]
    (tmp_path / "milsd-links.tables.json").unlink()
    assert main(["goals", "--out", str(tmp_path)]) == 0
    (shorter,) = read_page(tmp_path / "goals.tables.json").tables
    assert [row[3] for row in shorter.rows if row[4] == "milsd-links"] == ["not run"]
    assert "not run" in capsys.readouterr().out
