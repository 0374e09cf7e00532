"""The command that compares exact with greedy folds of sites."""

from __future__ import annotations

import numpy as np

from benchmarks.__main__ import main
from benchmarks.commands import sites
from benchmarks.common.page import read_page


def test_every_site_has_a_patient():
    cohort = sites.Cohort(9, 50, 3, 2)
    y, site = sites.draw(cohort, 0)
    assert set(site) == set(range(9))
    assert set(y) == {0, 1, 2}
    assert len(y) == len(site) == 50


def test_exact_folds_are_at_least_as_good_as_greedy_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(sites, "COHORTS", (sites.Cohort(9, 50, 2, 3),))
    assert main(["sites", "--draws", "3", "--out", str(tmp_path)]) == 0
    (table,) = read_page(tmp_path / "sites.tables.json").tables
    row = dict(zip(table.columns, table.rows[0], strict=True))
    greedy, exact, bound = (float(row[name]) for name in ("greedy %", "exact %", "bound %"))
    np.testing.assert_allclose(exact, bound)
    assert bound < greedy
    assert row["proved"] == "3 of 3"
