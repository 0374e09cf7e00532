"""The tables of Cheung & Kwok (2006): splits, searches and how rows are printed."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from benchmarks.papers import cheung2006


def arguments(path, **options):
    chosen = {"out": path, "fresh": False, "jobs": 1, "fast": True, "repeats": None}
    return argparse.Namespace(**{**chosen, **options})


def test_validation_parts_are_of_the_training_half_and_hold_every_class():
    y = np.repeat(np.arange(10), 50)
    parts = cheung2006._parts(y, 3, 0)
    assert len(parts) == 3
    for fit, check in parts:
        assert len(np.intersect1d(fit, check)) == 0
        assert len(fit) + len(check) == len(y)
        assert set(y[check]) == set(range(10))


def test_table1_on_few_classes(data_dir, tmp_path, monkeypatch, capsys):
    bags, y = cheung2006.images()
    few = np.flatnonzero(y < 3)[::3]
    monkeypatch.setattr(cheung2006, "images", lambda: (bags[few], y[few]))
    monkeypatch.setattr(cheung2006, "GAMMAS", {"rbf": (0.7,)})
    monkeypatch.setattr(cheung2006, "COSTS", (3.0,))
    assert cheung2006.run_table1(arguments(tmp_path, repeats=2)) == 0
    printed = capsys.readouterr().out
    assert "Gaussian, CoupledMISVC()" in printed
    assert "85.2 +- 1.3" in printed
    assert "(2 of 2)" in printed


def test_table2_of_one_set(data_dir, tmp_path, capsys):
    assert cheung2006.run_table2(arguments(tmp_path)) == 0
    printed = capsys.readouterr().out
    assert "lj_16_30_2" in printed
    assert "0.0699" in printed


def test_irrelevant_features_leave_the_rest_alone(data_dir):
    bags, y, part = cheung2006.molecules("lj_16_30_2", 0)
    more, same, _ = cheung2006.molecules("lj_16_30_2+20", 0)
    assert more.shape == (120, 50)
    np.testing.assert_array_equal(more.instances[:, :30], bags.instances)
    np.testing.assert_array_equal(same, y)
    assert np.bincount(part).tolist() == [60, 60]


def test_regression_of_a_small_part(data_dir, monkeypatch):
    monkeypatch.setattr(cheung2006, "WIDTHS", (0.5,))
    monkeypatch.setattr(cheung2006, "COSTS_2", (10.0,))
    monkeypatch.setattr(cheung2006, "NUS", (0.6,))
    monkeypatch.setattr(cheung2006, "PRODUCTS", (0.01,))
    results = {
        method: cheung2006.regress(cheung2006.Task("cheung2006-table2", "lj_16_30_2", method, 0))
        for method in ("svm", "ours")
    }
    for result in results.values():
        assert 0 < result["mse"] < 0.04  # the variance of the values is above
    assert results["ours"]["chosen"]["coupling"] == pytest.approx(0.001)


def test_a_failed_task_is_a_record(data_dir, monkeypatch):
    monkeypatch.setattr(cheung2006, "_svr", lambda *args: 1 / 0)
    task = cheung2006.Task("cheung2006-table2", "lj_16_30_2", "svm", 0)
    assert cheung2006.run_task(task)["error"].startswith("ZeroDivisionError")
