"""The benchmark of MIClassifier's size rules: each side is forced, at sizes near its limit."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields, replace

import pytest

from benchmarks.scales.automatic_limits import CASES, N_FEATURES, run_limits, tasks_of
from milearn.auto._plan import SizeLimits, size_plan
from milearn.datasets import make_bags

# Numbers of landmarks and of trees, a limit of MIRegressor, and one of storage.
OTHERS = {"bag_landmarks", "float64_numbers", "instance_landmarks", "tree_values", "trees"}


def test_every_rule_has_a_case():
    names = {field.name for field in fields(SizeLimits)} - OTHERS
    assert sorted(case.limit for case in CASES.values()) == sorted(names)


@pytest.mark.parametrize("name", ["2,500 instances", "400 test bags", "20,000 instances"])
def test_a_case_is_near_its_limit(name):
    case, (exact, cheap) = CASES[name], [t for t in tasks_of(False) if t.dataset == name]
    bags, _ = make_bags(case.n_bags, N_FEATURES, bag_size=case.bag_size)
    limits = SizeLimits()
    chosen, wanted = (
        size_plan(bags, replace(limits, **{case.limit: value}))
        for value in (getattr(limits, case.limit), exact.value)
    )
    above = size_plan(bags, replace(limits, **{case.limit: cheap.value}))
    assert chosen == (above if name == "400 test bags" else wanted)
    assert above != wanted


def test_both_sides_run(tmp_path, monkeypatch, capsys):
    for name in set(CASES) - {"2,500 instances"}:
        monkeypatch.delitem(CASES, name)
    options = argparse.Namespace(out=tmp_path, fresh=False, jobs=1, fast=True, repeats=None)
    assert run_limits(options) == 0
    printed = capsys.readouterr().out
    assert "exact RBF" in printed
    assert "150 landmarks" in printed
    lines = (tmp_path / "automatic-limits.jsonl").read_text().splitlines()
    exact, cheap = (json.loads(line)["result"]["skipped"] for line in lines)
    assert exact == []
    assert "RBF kernel values with more than 150 of" in cheap[0]
