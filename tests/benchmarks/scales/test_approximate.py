"""Exact kernels against landmarks: every estimator with the rule has its rows."""

from __future__ import annotations

import argparse
import json
from inspect import signature

import pytest

from benchmarks.scales import _approximate_fit, approximate
from milearn.utils import all_estimators

TINY = {"n_bags": 12, "bag_size": 3, "n_features": 4}


@pytest.mark.parametrize("name", ["MISVC", "MISVR"])
def test_a_fit_is_measured_on_further_bags(name):
    exact, few = (
        _approximate_fit.measure({"estimator": name, **TINY, "n_components": count})
        for count in (None, 3)
    )
    assert (exact["n_components"], few["n_components"]) == (None, 3)
    assert few["objective"] > exact["objective"]
    assert (exact["auc"] is None) == (name == "MISVR")
    assert exact["peak_mib"] > 1


def test_every_estimator_with_the_rule_has_a_case_above_its_limits():
    ruled = {
        name
        for name, estimator in all_estimators()
        if "n_components" in signature(estimator).parameters
        and signature(estimator).parameters["n_components"].default == "auto"
    }
    assert set(approximate.CASES) == ruled
    for task in approximate.tasks_of(fast=False):
        limits = approximate.CASES[task.method][0]
        n_instances = task.n_bags * approximate.BAG_SIZE
        assert task.n_bags > limits.bags or n_instances > limits.instances


def test_the_table_has_a_row_for_each_fit(tmp_path, monkeypatch, capsys):
    found = {"fit_cpu_seconds": 2.0, "predict_cpu_seconds": 0.1, "peak_mib": 300.0, "score": 0.9}
    found |= {"n_components": None, "objective": 12.3456, "auc": None}
    monkeypatch.setattr(approximate, "in_fresh_process", lambda module, task: found)
    arguments = argparse.Namespace(out=tmp_path, fresh=False, fast=True)
    assert approximate.run_approximate(arguments) == 0
    assert capsys.readouterr().out.count("12.35") == 4
    lines = (tmp_path / "approximate.jsonl").read_text().splitlines()
    assert {json.loads(line)["method"] for line in lines} == {"MISVC", "SparseMISVC"}
