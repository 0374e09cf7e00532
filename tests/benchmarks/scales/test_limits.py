"""Passes, embeddings and a cohort near the limit: the measured processes and what is printed."""

from __future__ import annotations

import argparse
import json
import tempfile

import numpy as np
import pytest

from benchmarks.common import map_file
from benchmarks.scales import _cohort_fit, _embeddings_fit, _passes_fit, cohort, embeddings, passes


def arguments(path):
    return argparse.Namespace(out=path, fresh=False, jobs=1, fast=True, repeats=None)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_fits_are_divided_by_products(tmp_path, monkeypatch, capsys):
    def here(module, task, *, cpu_timeout):
        if "16" in task["dtype"]:
            raise TimeoutError
        return _passes_fit.measure(task)

    monkeypatch.setattr(passes, "in_fresh_process", here)
    storages = {
        "float64": (40_000, 3, 20, "float64", False),
        "float32 mapped": (40_000, 3, 20, "float32", True),
        "float16": (40_000, 3, 200, "float16", False),
    }
    monkeypatch.setattr(passes, "STORAGES", storages)
    once = argparse.Namespace(**{**vars(arguments(tmp_path)), "repeats": 1, "seconds": 9.0})
    assert passes.run_passes(once) == 0
    out = capsys.readouterr().out
    assert out.count("400 x 3") == 6
    assert out.count("ended after 9 s") == 2
    assert "goal 3" in out
    once.only = ["float64"]
    assert passes.run_passes(once) == 0
    assert capsys.readouterr().out.count("400 x 3") == 2
    once.only = ["float65"]
    with pytest.raises(SystemExit, match="The storages are float64"):
        passes.run_passes(once)
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == []


def test_every_embedding_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        map_file, "in_fresh_process", lambda module, task: _embeddings_fit.measure(task)
    )
    monkeypatch.setattr(embeddings, "LARGE", 100 * 400)
    monkeypatch.setattr(embeddings, "BAG_SIZE", 40)
    monkeypatch.setattr(embeddings, "N_FEATURES", 3)
    assert embeddings.run_embeddings(arguments(tmp_path)) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in _embeddings_fit.MODELS)
    assert "10 x 9" in out


def test_a_cohort_is_written_and_fitted_step_by_step(tmp_path, monkeypatch, capsys):
    pytest.importorskip("h5py")

    numbers = []

    class Few:
        def fit(self, bags, y):
            numbers.append(len(bags))

    def here(module, task, *, cpu_timeout):
        if task["step"] == "MIClassifier":
            raise TimeoutError
        return _cohort_fit.measure({**task, "limit_mb": 0})

    monkeypatch.setattr(cohort, "in_fresh_process", here)
    monkeypatch.setattr(_cohort_fit, "MIClassifier", lambda **settings: Few())
    monkeypatch.setattr(cohort, "FAST_SIZES", (40, 10, 5))
    assert cohort.run_cohort(arguments(tmp_path)) == 0
    out = capsys.readouterr().out
    assert all(step in out for step in _cohort_fit.STEPS)
    (record,) = [
        each
        for each in map(json.loads, (tmp_path / "cohort.jsonl").read_text().splitlines())
        if each["method"] == "MISVC, five folds"
    ]
    assert len(record["result"]["auc"]) == len(record["result"]["passes"]) == 5
    assert f"AUC {np.mean(record['result']['auc']):.3f} (" in out
    assert "> 600 s" in out
    assert numbers == [4]
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == []
    # A fit has its map without that step.
    some = argparse.Namespace(**vars(arguments(tmp_path / "fit")), only=["MISVC"])
    assert cohort.run_cohort(some) == 0
    assert "FAILED" not in capsys.readouterr().out
    # What is recorded is shown without a cohort.
    monkeypatch.setattr(cohort, "write_cohort", None)
    some = argparse.Namespace(**vars(arguments(tmp_path)), only=["map", "MISVC"])
    assert cohort.run_cohort(some) == 0
    out = capsys.readouterr().out
    assert "MISVC" in out
    assert "load " not in out
    some.only = ["Map"]
    with pytest.raises(SystemExit, match="The steps are load, map"):
        cohort.run_cohort(some)


def test_a_larger_cohort_is_drawn_into_a_map_and_one_fold_is_fitted(tmp_path, monkeypatch, capsys):
    h5py = pytest.importorskip("h5py")
    _cohort_fit.write_cohort(tmp_path, 40, 100, 5)
    slides = sorted((tmp_path / "slides").iterdir())
    steps = []

    def here(module, task, *, cpu_timeout):
        steps.append(task["step"])
        found = _cohort_fit.measure({**task, "limit_mb": 0})
        (written,) = tmp_path.glob("*/instances.npy")
        instances = np.load(written)
        assert instances.dtype == np.float16
        for rows, slide in zip(np.split(instances, 40), slides, strict=True):
            with h5py.File(slide) as file:
                np.testing.assert_array_equal(rows, file["features"])
        return found

    monkeypatch.setattr(cohort, "in_fresh_process", here)
    monkeypatch.setattr(cohort, "FAST_SIZES", (40, 10, 5))
    assert cohort.run_larger(arguments(tmp_path)) == 0
    out = capsys.readouterr().out
    assert all(step in out for step in _cohort_fit.LARGER_STEPS)
    assert "40 bags of 100 instances" in out
    assert list(tmp_path.glob("*/instances.npy")) == []
    assert cohort.run_larger(arguments(tmp_path)) == 0
    assert capsys.readouterr().out == out
    assert steps == [*_cohort_fit.LARGER_STEPS]
