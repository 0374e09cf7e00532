"""The command on ordered classes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.commands import ordinal
from benchmarks.common.page import read_page


@pytest.mark.parametrize("name", ordinal.SETS)
def test_sets_have_all_grades(name):
    X, y = ordinal.SETS[name](0)
    assert 100 < len(X) == len(y) <= ordinal.N_BAGS
    assert set(y) == {0, 1, 2, 3}
    assert np.bincount(y).min() >= 15


def test_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(ordinal, "N_BAGS", 40)
    monkeypatch.setattr(ordinal, "COSTS", {"C": [0.1]})
    line = ["ordinal", "--repeats", "1", "--folds", "2", "--sets", "generated"]
    assert main([*line, "--out", str(tmp_path)]) == 0
    (table,) = read_page(tmp_path / "ordinal.tables.json").tables
    assert [row[1] for row in table.rows] == [*ordinal.METHODS]
    assert all(0 <= float(row[2]) <= 3 for row in table.rows)
