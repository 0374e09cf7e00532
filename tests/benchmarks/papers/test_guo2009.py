"""The tables of Guo (2009), the bounds, and the growth of SDPMIL: end to end at tiny size."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from benchmarks.common.page import Page, kept_page
from benchmarks.common.protocol import Summary, tasks_for
from benchmarks.papers import guo2009, guo2009_bounds
from benchmarks.scales import sdpmil
from milearn import Bags


def options(folder, **changed):
    named = {"out": folder, "fresh": False, "jobs": 1, "fast": True, "repeats": None}
    return argparse.Namespace(**{**named, **changed})


def test_a_table_runs_and_resumes(tmp_path, data_dir, monkeypatch, capsys):
    monkeypatch.setitem(guo2009.TABLES, "guo2009-table1", ("musk1",))
    assert guo2009.run_table("guo2009-table1", options(tmp_path)) == 0
    first = capsys.readouterr().out
    assert "SDP 69.5" in first
    assert "SDPMIL, polished, rbf" in first
    lines = (tmp_path / "guo2009-table1.jsonl").read_text().splitlines()
    assert len(lines) == 8 * 2  # methods with kernels, splits
    record = json.loads(lines[0])
    assert record["result"]["n_train"] == 73  # four fifths of 92
    assert "BagShuffleSplit(2, train_size=0.8" in record["parameters"]["outer"]
    assert guo2009.run_table("guo2009-table1", options(tmp_path)) == 0
    assert capsys.readouterr().out == first
    assert (tmp_path / "guo2009-table1.jsonl").read_text().splitlines() == lines


def test_cells_say_what_is_missing():
    nothing = Summary("musk1", "sdpmil-rbf", *[np.nan] * 5, 0, 2, 0, 0)
    failed = Summary("musk1", "misvc-bag-rbf", 0.75, 0.05, 0.8, 0.1, 0.2, 9, 0, 1, 0)
    rows = guo2009.table([nothing, failed]).rows
    assert rows[0][1:] == ["-", "SDP 69.5"]
    assert rows[1][1] == "75.0 +-  5.0 (1 FAILED)"


def test_random_splits_and_folds_have_keys_of_their_own():
    protocol = {"repeats": 1, "n_splits": 2, "n_inner": 2, "level": "tiny"}
    folds = tasks_for("x", ["digits-tiny"], ["sdpmil-linear"], **protocol)
    splits = tasks_for("x", ["digits-tiny"], ["sdpmil-linear"], **protocol, train_share=0.5)
    assert len({task.key for task in folds + splits}) == 4


def test_bounds_stand_in_their_order(tmp_path, capsys):
    pytest.importorskip("clarabel", reason="the hull needs a cone solver")
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(9, 3)), np.array([0, 2, 4, 6, 7, 9]))
    y = np.array([1, 1, 1, 0, 0])
    _, counted, free, hull = guo2009_bounds.bounds(bags, y, 1.0)
    from tests.oracles import selection_optimum

    best = selection_optimum(bags.instances @ bags.instances.T, bags, y, 1.0)
    assert 0 < free <= counted * 1.01
    # The oracle's precision.
    assert counted <= best * (1 + 1e-7)
    assert hull <= best * (1 + 1e-6)


def test_bounds_of_the_report_are_not_above_the_optimum(tmp_path, monkeypatch):
    size = {"n_positive": 2, "n_negative": 2, "d": 3}
    monkeypatch.setattr(guo2009_bounds, "SIZES", {"2 + 2 bags": size})
    with kept_page(tmp_path / "page.json", Page("guo2009-bounds")) as page:
        assert guo2009_bounds.run_bounds(options(tmp_path)) == 0
    rows = page.tables[0].rows
    assert [row[1] for row in rows] == ["0.1", "1", "10"]
    for row in rows:
        counted, free = (float(cell.split()[0]) for cell in row[3:5])
        # Three digits are printed.
        assert 0 < free <= counted + 1e-3 <= 1.0 + 2e-3


def test_growth_runs(tmp_path, data_dir, monkeypatch, capsys):
    monkeypatch.setitem(sdpmil.SHARES, "elephant", (0.1, 0.2))
    assert sdpmil.run_scale(options(tmp_path)) == 0
    assert "slope" in capsys.readouterr().out


def test_the_slope_is_the_exponent():
    results = [{"n_instances": n, "cpu_seconds": 1e-6 * n**1.5} for n in (100, 300, 900)]
    assert sdpmil.slope(results) == pytest.approx(1.5)
