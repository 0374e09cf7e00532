"""WEKA over our ARFF files: the same problems, where WEKA and a Java compiler are installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.commands._speed_fit import OURS
from benchmarks.common import weka as _weka
from benchmarks.common.peers import hinge_objective
from milearn.datasets import make_bags

needs_weka = pytest.mark.skipif(
    not _weka.installed(), reason="WEKA or a Java compiler is not installed (Debian: weka)"
)


@pytest.fixture(scope="module")
def data():
    return make_bags(n_bags=30, n_features=5, bag_size=(2, 6), flip_y=0.1, random_state=0)


def measure(name, data, kernel="linear", C=0.5, **options):
    bags, y = data
    return _weka.measure(
        f"weka-{name}",
        {"kernel": kernel, "C": C},
        bags,
        y,
        gamma=0.2,
        repeats=_weka.Repeats(enough=0.01, most=2, longest=30.0),
        timeout=120.0,
        **options,
    )


@needs_weka
@pytest.mark.parametrize("name", list(_weka.WEKA))
def test_every_classifier_reads_our_file_and_is_measured(name):
    # MIEMDD was seen not to end on bags with wrong labels.
    data = make_bags(n_bags=20, n_features=3, bag_size=(2, 4), random_state=0)
    train = np.arange(0, 16)
    result, solution = measure(name, data, split=(data[0], train))
    assert result["wall_seconds"] > 0
    assert result["predict_wall_seconds"] > 0
    assert 0.5 <= result["train_accuracy"] <= 1
    assert 0 <= result["test_accuracy"] <= 1
    assert (solution is not None) == (name in ("MISMO", "MISVM"))


@needs_weka
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_mismo_solves_the_problem_of_the_set_kernel(data, kernel):
    bags, y = data
    _, solution = measure("MISMO", data, kernel)
    ours = OURS["setkernel-sum"].build(kernel, 0.2, 0.5).fit(bags, y)
    value = hinge_objective(*solution, bags, y, 0.5, "setkernel-sum")
    assert value == pytest.approx(ours.objective_, rel=2e-3)
    assert value >= ours.objective_ * (1 - 1e-6)


@needs_weka
def test_the_scores_of_misvm_are_those_of_instances_in_our_order(data):
    bags, _ = data
    _, (square_norm, scores) = measure("MISVM", data)
    columns = np.column_stack([bags.instances, np.ones(bags.n_instances)])
    weights = np.linalg.lstsq(columns, scores, rcond=None)[0]
    np.testing.assert_allclose(columns @ weights, scores, atol=1e-8)
    assert square_norm == pytest.approx(float(np.sum(weights[:-1] ** 2)))


def test_what_the_timer_prints_is_read():
    text = (
        "fit_memory 2097152\nfit 0.5 0.25\nfit_wall 0.75 0.5\npredict_memory 1048576\n"
        "predict 0.125\npredict_wall 0.25\nsquare_norm 4\nscores 1 -2\ntest_accuracy 0.75\n"
    )
    result, solution = _weka._read(text)
    assert result == {
        "cpu_seconds": 0.25,
        "wall_seconds": 0.5,
        "fits": 2,
        "peak_mb": 2.0,
        "predict_cpu_seconds": 0.125,
        "predict_wall_seconds": 0.25,
        "predict_peak_mb": 1.0,
        "test_accuracy": 0.75,
    }
    assert solution[0] == 4
    np.testing.assert_array_equal(solution[1], [1, -2])


def test_a_failure_of_java_is_an_error_in_words(data, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "Exception: no such class\n  at main\n")
    monkeypatch.setattr(_weka.subprocess, "run", lambda *args, **options: failed)
    monkeypatch.setattr(_weka, "find_jar", lambda: Path("weka.jar"))
    with pytest.raises(RuntimeError, match="no such class"):
        measure("MILR", data)


def test_weka_without_a_compiler_is_told(monkeypatch):
    monkeypatch.setattr(_weka.shutil, "which", lambda name: None if name == "javac" else name)
    monkeypatch.setattr(_weka, "find_jar", lambda: Path("weka.jar"))
    assert _weka.installed() == {}
    assert "default-jdk-headless" in _weka.missing()
    monkeypatch.setattr(_weka, "find_jar", lambda: None)
    assert _weka.missing() is None
