"""Linear models by passes: the measured processes and what is printed of them."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from benchmarks.common import map_file
from benchmarks.scales import _linear_fit, _out_of_core_fit, linear, out_of_core


def arguments(path, **options):
    chosen = {"out": path, "fresh": False, "jobs": 1, "fast": True, "repeats": None}
    return argparse.Namespace(**{**chosen, **options})


SIZES = {"n_bags": 60, "n_features": 4, "bag_size": [2, 6], "slack": "bag"}


def test_a_point_has_a_ratio_for_every_cost():
    found = _linear_fit.measure({"kind": "ratio", "costs": [0.1, 1.0], **SIZES})
    assert found["linear_svc"] > 0
    for cost in ("0.1", "1.0"):
        assert found[cost]["cpu_seconds"] > 0
        assert found[cost]["gap"] <= 1e-3
        assert found[cost]["converged"]


def test_texts_are_of_unit_length():
    bags, y = _linear_fit.sparse_bags(30, 500)
    norms = np.sqrt(bags.instances.multiply(bags.instances).sum(axis=1))
    np.testing.assert_allclose(norms, 1.0)
    assert bags.n_instances == 20 * len(y)
    task = {**SIZES, "kind": "time", "sparse": True, "n_bags": 30, "n_features": 500}
    assert _linear_fit.measure(task)["n_instances"] == 600


def test_tables_say_what_was_missed(monkeypatch, tmp_path, capsys):
    asked = []

    def made_up(module, task):
        asked.append(task)
        fit = {"cpu_seconds": 0.5, "passes": 30, "gap": 1e-2, "converged": False}
        costs = {str(cost): fit for cost in task.get("costs", ())}
        return {"n_instances": 9874, "linear_svc": 0.1, **costs, **fit}

    monkeypatch.setattr(linear, "in_fresh_process", made_up)
    assert linear.run_points(arguments(tmp_path)) == 0
    out = capsys.readouterr().out
    assert out.count("0.1 s, 20 passes, gap 0.001") == 6
    assert out.count("NOT CONVERGED") == 6
    assert [task["slack"] for task in asked] == ["bag", "instance"]
    assert linear.run_slopes(arguments(tmp_path)) == 0
    assert "goal for the slope 1.1" in capsys.readouterr().out
    assert linear.run_others(arguments(tmp_path)) == 0
    assert capsys.readouterr().out.count("NOT CONVERGED") == 3 * len(_linear_fit.OTHERS)


def test_real_sets_are_set_side_by_side(data_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(linear, "in_fresh_process", lambda module, task: _linear_fit.measure(task))
    monkeypatch.setattr(linear, "COSTS", (1.0,))
    assert linear.run_real(arguments(tmp_path)) == 0
    out = capsys.readouterr().out
    assert out.count("musk1") == 4
    assert "another minimum" not in out
    assert "HIGHER" not in out


def test_a_file_is_written_fitted_from_and_removed(tmp_path, monkeypatch, capsys):
    paths = []

    def here(module, task):
        paths.append(task["path"])
        return _out_of_core_fit.measure(task)

    monkeypatch.setattr(map_file, "in_fresh_process", here)
    monkeypatch.setattr(out_of_core, "LARGE", 100 * 8000)
    monkeypatch.setattr(out_of_core, "N_FEATURES", 5)
    assert out_of_core.run_map(arguments(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "peak anonymous memory" in out
    assert "NOT CONVERGED" not in out
    assert len(paths) == 2
    for path in paths:
        with pytest.raises(FileNotFoundError):
            np.load(path)
