"""The figures of goals are those of the kept tables."""

from __future__ import annotations

import shutil

from benchmarks.__main__ import main
from benchmarks.commands.goals import GOALS, KEPT_PAGES
from benchmarks.common.output import read_page


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
    path = tmp_path / "ratios.tables.json"
    (cell,) = (row[-1] for row in read_page(path).tables[0].rows if row[0] == "MIClassifier")
    path.write_text(path.read_text().replace(cell, "900 s"))
    (changed,) = (new for new, old in zip(rows(), kept, strict=True) if new != old)
    assert changed[2:] == ["900 s", "missed", "ratios"]
    path.unlink()
    assert {row[3] for row in rows() if row[4] == "ratios"} == {"not run"}
