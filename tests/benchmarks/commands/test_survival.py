"""The command that compares risks of patients, and the recipe of its bags."""

from __future__ import annotations

import numpy as np

from benchmarks.__main__ import main
from benchmarks.common.page import read_page
from benchmarks.common.survival import Cohort, draw_patients
from milearn.metrics import concordance_index


def test_the_recipe_censors_the_wanted_share_and_few_instances_decide():
    for share, censored in ((0.1, 0.3), (0.1, 0.6)):
        cohort = Cohort(2000, 500, 10, 3, share, censored)
        data = draw_patients(cohort, 0)
        # Two standard deviations of a share of 2,000.
        assert abs((~data.y["event"]).mean() - censored) < 0.023
        assert data.y_test["event"].all()
        assert 0.7 < concordance_index(data.y_test, data.risk) < 0.8
    again = draw_patients(cohort, 0)
    np.testing.assert_array_equal(again.train.instances, data.train.instances)
    np.testing.assert_array_equal(again.y, data.y)


def test_the_table_comes_from_records(tmp_path, capsys):
    line = ["survival", "--fast", "--methods", "cox-max", "cox-mean", "true", "--out"]
    assert main([*line, str(tmp_path)]) == 0
    (table,) = read_page(tmp_path / "survival.tables.json").tables
    assert table.columns[2:] == ["MICoxPH (max)", "MICoxPH (mean)", "true risk"]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["deciding instances"] for row in rows[:2]] == ["100.0%", "5.0%"]
    few = rows[1]
    assert few["MICoxPH (max)"].endswith("*")
    assert float(few["MICoxPH (max)"][:-1]) > float(few["MICoxPH (mean)"]) + 10
    assert float(few["true risk"]) > float(few["MICoxPH (max)"][:-1])
    capsys.readouterr()
    assert main([*line, str(tmp_path)]) == 0
    assert "6 of 6 records are there already" in capsys.readouterr().err
    assert read_page(tmp_path / "survival.tables.json").tables == [table]
