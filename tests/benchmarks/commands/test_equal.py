"""Objectives and accuracies beside those of another checkout: differences are reported and fail."""

from __future__ import annotations

import ast
import json

import numpy as np
import pytest

from benchmarks.__main__ import build_parser
from benchmarks.commands import equal
from milearn.datasets import make_bags
from milearn.utils import all_estimators

NAMES = ("MISVC, max, bag slack, linear", "CoupledMISVR, rbf", "BAMIC, mean", "SingleInstance, SVC")


@pytest.fixture
def few_bags(monkeypatch):
    bags, y = make_bags(n_bags=20, n_features=4, bag_size=3, random_state=0)
    monkeypatch.setattr(equal, "load", lambda name: None if name == "musk1" else (bags, y))
    return bags, y


def run(tmp_path, *options):
    line = ["equal", "--datasets", "musk1", "digits", "--settings", *NAMES]
    args = build_parser().parse_args([*line, "--out", str(tmp_path), *map(str, options)])
    return args.main(args)


def test_every_estimator_has_a_setting():
    made = [make() for make in equal.SETTINGS.values()]
    names = {type(model).__name__ for model in made}
    names |= {
        type(step).__name__ for model in made for step in getattr(model, "named_steps", {}).values()
    }
    # The data sets have no columns of bags.
    left_out = {"InstanceTransformer", "BagData", "AppendBagData"}
    assert {name for name, _ in all_estimators()} - names == left_out


def test_the_same_again_is_equal_and_a_change_fails(few_bags, tmp_path, capsys):
    assert run(tmp_path) == 0
    path = tmp_path / "equal.json"
    assert "musk1 is left out" in capsys.readouterr().out
    results = json.loads(path.read_text())["results"]
    assert list(results) == [f"digits: {name}" for name in NAMES]
    assert results["digits: SingleInstance, SVC"]["objective"] is None
    for result in results.values():
        assert 0.4 <= result["cv_accuracy"] <= 1
        assert 0.5 <= result["accuracy"] <= 1
    reference = tmp_path / "other.json"
    path.rename(reference)
    assert run(tmp_path, "--reference", reference) == 0
    assert "4 of 4 compared, 0 differences" in capsys.readouterr().out
    results["digits: BAMIC, mean"]["objective"] *= 1 + 1e-5
    reference.write_text(json.dumps({"results": results}))
    assert run(tmp_path, "--reference", reference) == 1
    out = capsys.readouterr().out
    assert "digits: BAMIC, mean  objective" in out
    assert "4 of 4 compared, 1 differences" in out


def test_objectives_may_differ_by_a_millionth_and_accuracies_not_at_all():
    old = {"a": {"objective": 2.0, "accuracy": 0.5}, "b": {"objective": None, "accuracy": 0.5}}
    assert equal.compare(old, old) == []
    new = {"a": {"objective": 2.0 + 1e-6, "accuracy": 0.5 + 1e-7}, "c": {"accuracy": 1.0}}
    assert [line[:2] for line in equal.compare(new, old)] == [("a", "accuracy")]
    new = {"a": {"objective": 2.0 + 4e-6, "accuracy": 0.5}, "b": {"error": "ValueError: no"}}
    found = equal.compare(new, old)
    assert [line[:2] for line in found] == [("a", "objective"), ("b", "accuracy"), ("b", "error")]
    assert found[0][-1] == "+2.0e-06"


def test_nothing_in_common_is_no_success(few_bags, tmp_path, capsys):
    reference = tmp_path / "other.json"
    reference.write_text('{"results": {"another": {}}}')
    assert run(tmp_path, "--reference", reference) == 1
    assert "Nothing was compared" in capsys.readouterr().out


def test_a_failure_is_told_and_fails(few_bags, tmp_path, monkeypatch, capsys):
    def broken():
        raise RuntimeError("no luck")

    monkeypatch.setitem(equal.SETTINGS, NAMES[0], broken)
    assert run(tmp_path) == 1
    assert f"FAILED: digits: {NAMES[0]}: RuntimeError: no luck" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="There is no setting 'x'"):
        equal.main(build_parser().parse_args(["equal", "--settings", "x"]))


def test_the_file_imports_public_names_alone():
    with open(equal.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [module for module in modules if module and module.startswith("milearn")]
    assert ours
    assert not any(part.startswith("_") for module in ours for part in module.split("."))
    assert all(len(module.split(".")) <= 2 for module in ours)


def test_bags_are_standardised_and_linked(monkeypatch):
    bags, y = equal.load("digits")
    assert len(bags) == len(y) == 100
    assert bags.bag_graph is not None
    varying = bags.instances.std(axis=0) > 0
    np.testing.assert_allclose(bags.instances[:, varying].std(axis=0), 1)
