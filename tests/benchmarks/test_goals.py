"""The figures of goals are those of the kept tables."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.__main__ import main
from benchmarks.commands.goals import GOALS, KEPT_PAGES
from benchmarks.common.output import number, read_page


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
    assert number(cell) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("cell", ["", "converged", "-", "higher than MISVC (3.2)"])
def test_a_cell_without_a_figure_is_refused(cell):
    with pytest.raises(ValueError, match="holds no figure"):
        number(cell)


def test_every_goal_is_found_in_the_kept_tables(tmp_path):
    for path in KEPT_PAGES.glob("*.tables.json"):
        shutil.copy(path, tmp_path)

    def rows():
        assert main(["goals", "--out", str(tmp_path)]) == 0
        (table,) = read_page(tmp_path / "goals.tables.json").tables
        return table.rows

    kept = rows()
    assert [row[0] for row in kept] == [goal["text"] for goal in GOALS]
    for goal, row in zip(GOALS, kept, strict=True):
        assert row[3] in ("", f"missed: {goal.get('reason')}")
    # A figure that gets worse is missed.
    path = tmp_path / "milsd-links.tables.json"
    (cell,) = (row[4] for row in read_page(path).tables[0].rows if row[0].endswith("100,000 bags"))
    path.write_text(path.read_text().replace(cell, "900 s"))
    (changed,) = (new for new, old in zip(rows(), kept, strict=True) if new != old)
    assert changed[2:] == ["900 s", "missed", "scale milsd-links"]
    path.unlink()
    assert [row[3] for row in rows() if row[4] == "milsd-links"] == ["not run"]
