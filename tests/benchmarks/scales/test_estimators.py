"""Estimators with their defaults at three sizes: what is measured, kept, and printed."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

from benchmarks.scales import _estimator_fit, estimators
from milearn.utils import all_estimators

TINY = {"n_bags": 12, "bag_size": 3, "n_features": 4}


@pytest.mark.parametrize("name", ["MILBoost", "BagStatistics", "M3IC", "MICoxPH", "OrdinalMISVC"])
def test_a_fit_and_a_prediction_are_measured(name, tmp_path):
    progress = tmp_path / "progress.json"
    found = _estimator_fit.measure({"estimator": name, **TINY, "progress": str(progress)})
    assert found["stage"] == "done"
    assert found["fit_seconds"] > 0
    assert found["predict_seconds"] >= 0
    assert found["fit_peak_mib"] > 1
    assert json.loads(progress.read_text())["stage"] == "predict"


def test_a_refusal_is_kept_in_words(monkeypatch):
    class Small(BaseEstimator):
        def fit(self, X, y):
            if X.n_instances > 500:
                raise MemoryError("too many instances: use fewer")
            return self

    monkeypatch.setattr(_estimator_fit, "all_estimators", lambda: [("Small", Small)])
    found = _estimator_fit.measure({"estimator": "Small", **TINY, "bag_size": 50})
    assert found["refusal"] == "MemoryError: too many instances: use fewer"
    assert "predict_seconds" not in found


def arguments(tmp_path, **options):
    return argparse.Namespace(**{"out": tmp_path, "fresh": False, "fast": False, **options})


def result(fit, predict, peak=300.0, **more):
    found = {"stage": "done", "fit_seconds": fit, "fit_peak_mib": peak, "warnings": {}}
    if predict is not None:
        found |= {"predict_seconds": predict, "predict_peak_mib": 10.0}
    return found | more


def test_the_table_has_times_refusals_and_limits(tmp_path, monkeypatch, capsys):
    fitted = []

    def made_up(module, task, cpu_timeout):
        fitted.append((task["estimator"], task["n_bags"]))
        if task["estimator"] == "MISVC":
            if task["n_bags"] == 300:
                return result(50.0, None, refusal="MemoryError: after an hour", stage="fit")
            return result(0.2, None, refusal="MemoryError: no", stage="fit")
        if task["n_bags"] == 2000:
            return result(1.0, 0.5, warnings={"ConvergenceWarning": 1})
        known = {"stage": "fit"} if task["n_bags"] == 300 else result(2.0, None, stage="predict")
        Path(task["progress"]).write_text(json.dumps(known))
        status = signal.SIGXCPU if task["n_bags"] == 300 else signal.SIGKILL
        raise RuntimeError(f"exit status {-status}")

    monkeypatch.setattr(estimators, "in_fresh_process", made_up)
    assert estimators.run_defaults(arguments(tmp_path, only=["MISVC"])) == 0
    assert estimators.run_defaults(arguments(tmp_path, only=["M3IC"])) == 0
    sizes = [n_bags for n_bags, _, _ in estimators.SIZES]
    assert fitted == [(name, size) for name in ("MISVC", "M3IC") for size in sizes]
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert (
        "M3IC 1.0 0.5 300 > 60 - - 2.0 killed 300 A: ConvergenceWarning; C: exit status -9" in lines
    )
    # What an earlier call found is in the table too.
    assert lines.count("MISVC 0.2 - 300 50.0 - 300 0.2 - 300 A, B, C: refused") == 2
    assert any("3 of 6 end within 60 s" in line for line in lines)
    assert any(line.endswith("missed: M3IC B, M3IC C, MISVC B.") for line in lines)
    assert "MISVC A: MemoryError: no" in lines
    assert any(line.endswith("more than 0.5 s: none.") for line in lines)
    # Nothing is repeated.
    del fitted[:]
    assert estimators.run_defaults(arguments(tmp_path, only=["M3IC"])) == 0
    assert estimators.run_defaults(arguments(tmp_path, recorded=True)) == 0
    assert fitted == []
    assert "6 of 6" in capsys.readouterr().out


def test_slow_predictions_are_named(tmp_path, monkeypatch, capsys):
    times = {2000: (1.0, 0.5), 300: (20.0, 1.9), 20_000: (20.0, 2.1)}

    def made_up(module, task, cpu_timeout):
        return result(*times[task["n_bags"]])

    monkeypatch.setattr(estimators, "in_fresh_process", made_up)
    assert estimators.run_defaults(arguments(tmp_path, only=["BAMIC"])) == 0
    printed = capsys.readouterr().out
    assert (
        "Predictions that take more than 10 % of the fit, and more than 0.5 s: BAMIC C." in printed
    )


def test_all_public_estimators_and_no_others(tmp_path, monkeypatch, capsys):
    fitted = []

    def made_up(module, task, cpu_timeout):
        fitted.append(task["estimator"])
        return result(1.0, 0.5)

    monkeypatch.setattr(estimators, "in_fresh_process", made_up)
    assert estimators.run_defaults(arguments(tmp_path, fast=True)) == 0
    assert fitted == [name for name, _ in all_estimators()]
    with pytest.raises(SystemExit, match="Unknown estimators: Nothing"):
        estimators.run_defaults(arguments(tmp_path, only=["Nothing"]))


def test_settings_are_compared_by_objective_and_accuracy(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_estimator_fit, "_FRESH_BAGS", 20)
    stated = {"estimator": "MILES", **TINY, "settings": {"n_prototypes": 5}}
    found = _estimator_fit.compare(stated)
    assert found["lower_bound_"] <= found["objective_"] * (1 + 1e-9)
    assert 0 <= found["accuracy"] <= 1

    def made_up(module, task, cpu_timeout):
        if task["settings"] == {"max_samples": None}:
            Path(task["progress"]).write_text(json.dumps({"stage": "fit"}))
            raise TimeoutError
        return {"fit_seconds": 2.0, "accuracy": 0.87, "objective_": 3.25, "stage": "fit"}

    monkeypatch.setattr(estimators, "in_fresh_process", made_up)
    assert estimators.run_pairs(arguments(tmp_path, only=["BLRT", "MILES"])) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "BLRT 4,000 x 10 x 20 max_samples=None > 120" in lines
    assert "max_samples=2000 2.0 3.25 87.0" in lines
    assert {pair.name for pair in estimators.PAIRS} < {name for name, _ in all_estimators()}
