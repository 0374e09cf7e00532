"""Scaling of MISVC: the measured processes and what is printed of them."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.scales import _misvc_fit, misvc


def arguments(path, **options):
    chosen = {"out": path, "fresh": False, "jobs": 1, "fast": True, "repeats": None}
    return argparse.Namespace(**{**chosen, **options})


def test_one_fit_is_measured(monkeypatch):
    monkeypatch.setattr(_misvc_fit, "N_NEW", 20)
    monkeypatch.setattr(_misvc_fit, "N_COMPONENTS", 30)
    result = _misvc_fit.measure({"kind": "fit", "size": 600, "seed": 0})
    assert result["cpu_seconds"] > 0
    assert result["wall_seconds"] > 0
    assert result["peak_mb"] > result["data_mb"]
    assert result["gap"] <= 1e-5 * result["objective"]


def test_gram_without_the_pairs():
    result = _misvc_fit.measure({"kind": "gram", "size": 20, "seed": 0})
    assert result["trace"] == pytest.approx(20.0)


def test_constraints_as_violated_are_as_good_as_all(data_dir, tmp_path, capsys):
    task = misvc.ScaleTask("misvc-rows", "elephant", "rows", 40, 0)
    found = misvc.lazy_against_all(task)
    assert found["n_bags"] == 40
    assert found["lazy"]["objective"] == pytest.approx(found["all"]["objective"], rel=1e-8)
    assert found["lazy"]["n_cuts"] < found["all"]["n_cuts"]
    assert misvc.run_rows(arguments(tmp_path)) == 0
    assert "objectives differ by" in capsys.readouterr().out


def test_what_is_asked_of_the_process_of_its_own(monkeypatch, tmp_path, capsys):
    asked = []

    def made_up(module, task):
        asked.append((module, task))
        return {"cpu_seconds": 1.5, "peak_mb": 200.0, "data_mb": 3.0, "trace": 200.0}

    monkeypatch.setattr(misvc, "in_fresh_process", made_up)
    assert misvc.run_gram(arguments(tmp_path)) == 0
    task = {"kind": "gram", "size": 200, "seed": 0}
    assert asked == [("benchmarks.scales._misvc_fit", task)]
    assert "200 MB" in capsys.readouterr().out


def test_an_error_is_a_record(monkeypatch):
    monkeypatch.setattr(misvc, "in_process", lambda task: 1 / 0)
    record = misvc.run_task(misvc.ScaleTask("misvc-instances", "concepts", "fit", 10, 0))
    assert record["error"].startswith("ZeroDivisionError")
