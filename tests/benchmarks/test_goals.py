"""The figures of goals are those of the kept tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.commands import goals
from benchmarks.common.output import Page, Table, read_page

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


def page_of(*rows, columns=("fit", "ratio"), title=""):
    return Page("python -m benchmarks some", tables=[Table(columns, rows, title=title)])


def test_the_worst_of_the_rows_counts():
    page = page_of(("one", "1.5"), ("one more", "2.5"), ("two", "9"), ("one", ""))
    assert goals.worst("ratio", fit="one")(page) == 2.5
    assert goals.worst("ratio", fit="one", lowest=True)(page) == 1.5
    with pytest.raises(ValueError, match="No figure under 'ratio'"):
        goals.worst("ratio", fit="three")(page)
    with pytest.raises(ValueError, match="No figure under 'ratio'"):
        goals.worst("ratio", "another title")(page)


def test_figures_of_notes_are_added_up():
    tables = [Table(("a",), [], note=note) for note in ("on 3 of 4 sets", "none", "on 6 of 6 sets")]
    page = Page("some", tables=tables)
    assert goals.noted(r"on (\d+) of (\d+) sets")(page) == 90
    assert goals.noted(r"on (\d+) of")(page) == 9
    with pytest.raises(ValueError, match="No note of 'some'"):
        goals.noted(r"median (\d+)")(page)


def test_a_place_counts_the_lower_ranks():
    title = "mean rank by AUC over 10 sets (1 is best)"
    rows = [("one", "2.5"), ("MIClassifier", "2.1"), ("three", "1.4"), ("four", "2.1")]
    page = page_of(*rows, columns=("method", "rank"), title=title)
    (found,) = [goal for goal in goals.GOALS if goal.page == "stored-folds"]
    assert found.value(page) == 2
    assert not found.met(2)


def test_the_smallest_lead_of_a_survival_model_counts():
    columns = ["deciding instances", "censored", "MICoxPH (max)", "MICoxPH (mean)"]
    columns += ["means", "boosting", "true risk"]
    rows = [
        ("100.0%", "30%", "70.0 ", "73.0*", "72.0 ", "71.0 ", "75.0 "),
        ("10.0%", "30%", "72.5*", "56.0 ", "61.0 ", "60.0 ", "75.0 "),
        ("3.0%", "30%", "70.5*", "75.0 ", "61.0 ", "68.0 ", "75.0 "),
        ("fit, CPU time, median", "", "5.59 s", "0.12 s", "0.11 s", "0.11 s", "-"),
    ]
    (found,) = [goal for goal in goals.GOALS if goal.page == "survival"]
    assert found.value(page_of(*rows, columns=columns)) == 2.5


def test_goals_of_both_directions():
    upper, lower = (goals.Goal("", 2, "some", float, at_least=each) for each in (False, True))
    assert upper.met(2)
    assert upper.met(1)
    assert not upper.met(2.1)
    assert lower.met(2)
    assert lower.met(3)
    assert not lower.met(1.9)


def test_ratios_to_one_svc_come_from_their_column_of_goals():
    columns = ("fit", "ratio", "goal")
    rows = [("MISVC", "1.2", "1 missed"), ("MISVR", "0.8", "1"), ("SVC", "", "")]
    page = page_of(*rows, columns=columns, title="musk2: 102 bags; rbf kernel, C=1")
    found = goals.speed_rows(page)
    assert [row[0] for row in found] == [
        "MISVC / one SVC, musk2, rbf kernel",
        "MISVR / one SVC, musk2, rbf kernel",
    ]
    assert [row[3] for row in found] == ["missed", ""]


def test_every_goal_is_found_in_the_kept_tables(tmp_path, capsys):
    for path in KEPT.glob("*.tables.json"):
        shutil.copy(path, tmp_path)
    assert main(["goals", "--out", str(tmp_path)]) == 0
    (table,) = read_page(tmp_path / "goals.tables.json").tables
    assert len(table.rows) > len(goals.GOALS)
    # A table that is not kept yet was not run; in one that is kept, every goal is found.
    kept = {path.name.partition(".")[0] for path in KEPT.glob("*.tables.json")}
    assert {row[3] for row in table.rows if row[4] in kept} <= {"", "missed"}
    assert {row[3] for row in table.rows if row[4] not in kept} <= {"not run"}
    # A figure that gets worse is missed.
    stated = json.loads((tmp_path / "dask.tables.json").read_text())
    stated["tables"][0]["rows"][1][1] = "100 s"
    (tmp_path / "dask.tables.json").write_text(json.dumps(stated))
    assert main(["goals", "--out", str(tmp_path)]) == 0
    (worse,) = read_page(tmp_path / "goals.tables.json").tables
    changed = [new for new, old in zip(worse.rows, table.rows, strict=True) if new != old]
    assert len(changed) == 1
    assert changed[0][3:] == ["missed", "dask"]
    (tmp_path / "dask.tables.json").unlink()
    assert main(["goals", "--out", str(tmp_path)]) == 0
    (shorter,) = read_page(tmp_path / "goals.tables.json").tables
    assert [row[3] for row in shorter.rows if row[4] == "dask"] == ["not run"]
    assert "not run" in capsys.readouterr().out
