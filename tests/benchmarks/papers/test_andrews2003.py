"""The reports on DPBoost, at tiny size."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.papers import andrews2003
from benchmarks.scales import dpboost
from milearn._solvers.common.lp import LPModel
from milearn.datasets import make_ambiguous_plane, make_bags
from milearn.ensemble import DPBoost

TASK = andrews2003.PlaneTask("andrews2003-figure1", 3, 10, repeat=0, fold=2)


def arguments(tmp_path, **options):
    return argparse.Namespace(
        **{"out": tmp_path, "fresh": False, "jobs": 1, "fast": False, "repeats": 1, **options}
    )


@pytest.fixture
def small_sets(monkeypatch):
    def load(name):
        bags, y = make_bags(n_bags=16, n_features=4, random_state=len(name))
        return SimpleNamespace(bags=bags, y=y)

    monkeypatch.setattr(andrews2003, "load", load)
    monkeypatch.setattr(dpboost, "load", load)
    monkeypatch.setattr(andrews2003, "REAL", ("fox", "tiger"))


def test_grid_is_the_papers_without_the_margin():
    points, sides = andrews2003.grid()
    assert 300 < len(points) < 441
    assert set(sides) == {-1, 1}
    exact = SimpleNamespace(
        instance_decision_function=lambda X: X[:, 1] - 0.5 - 0.25 * np.sin(6.2831853 * X[:, 0])
    )
    assert andrews2003.grid_accuracy(exact) == 1.0
    flat = SimpleNamespace(instance_decision_function=lambda X: -np.ones(len(X)))
    assert andrews2003.grid_accuracy(flat) == np.mean(sides < 0)


def test_the_selector_sees_one_instance_of_an_ambiguous_bag(monkeypatch):
    X, y, labels = make_ambiguous_plane(5, random_state=0, return_instance_labels=True)
    seen = {}

    class Spy:
        def __init__(self, C, estimator, **options):
            self.place = len(seen)

        def fit(self, instances, given):
            seen[self.place] = (instances, given)
            return self

    monkeypatch.setattr(andrews2003, "LPBoost", Spy)
    monkeypatch.setattr(andrews2003, "_TightDPBoost", Spy)
    andrews2003.four_models(X, y, labels, 1.0)
    naive, ours, selector, knowledge = (seen[k] for k in range(4))
    assert naive[0] is ours[0] is X
    assert len(selector[0]) == len(y)
    assert (selector[1] == y).all()
    assert len(knowledge[0]) == X.n_instances
    assert (knowledge[1] == labels).all()


def test_a_fold_of_figure_1_is_the_same_again():
    record, again = andrews2003.run_plane(TASK), andrews2003.run_plane(TASK)
    assert "error" not in record
    assert record["result"] == again["result"]
    assert set(record["result"]["accuracy"]) == set(andrews2003.PUBLISHED)


def test_figure_1_prints_means_and_draws(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(andrews2003, "LAMBDAS", (1, 3))
    monkeypatch.setattr(andrews2003, "COUNTS", (10,))
    monkeypatch.setattr(andrews2003, "N_FOLDS", 2)
    assert andrews2003.figure1(arguments(tmp_path)) == 0
    printed = capsys.readouterr().out
    assert "perfect selector" in printed
    assert "(4 of 4)" in printed
    assert (tmp_path / "andrews2003-figure1.png").stat().st_size > 10_000


def test_the_table_averages_over_folds():
    def result(accuracy):
        return {
            "accuracy": dict.fromkeys(andrews2003.PUBLISHED, accuracy),
            "relative_gap": 0.0,
            "active_margins": 0.125,
            "active_reductions": 0.0,
            "learners": 3,
        }

    table = andrews2003.figure1_table({(20, 3): [result(0.8), result(0.9)]})
    assert table.rows[-1].count("85.0 +-  5.0") == 4
    assert "12.5" in table.rows[-1]


def test_figure_2_draws_the_four_boundaries(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    few = lambda n_ambiguous, **options: make_ambiguous_plane(6, **options)  # noqa: E731
    monkeypatch.setattr(andrews2003, "make_ambiguous_plane", few)
    assert andrews2003.figure2(arguments(tmp_path)) == 0
    assert "published" in capsys.readouterr().out
    assert (tmp_path / "andrews2003-figure2.png").stat().st_size > 10_000


def test_real_sets_are_run_by_folds(small_sets, tmp_path, capsys):
    assert andrews2003.real(arguments(tmp_path, fast=True)) == 0
    printed = capsys.readouterr().out
    assert "(4 of 4)" in printed  # the first set alone
    assert "LPBoost, naive" in printed
    assert " MB" in printed


def test_programs_are_solved_warm_and_from_scratch(small_sets, tmp_path, capsys):
    solve = LPModel.solve
    bags, y = make_bags(n_bags=12, random_state=0)
    with dpboost.solved_twice() as totals:
        DPBoost().fit(bags, y)
    assert LPModel.solve is solve
    assert totals.programs > 1
    assert 0 < totals.warm_steps < totals.scratch_steps
    assert dpboost.warm(arguments(tmp_path)) == 0
    assert "fit ratio" in capsys.readouterr().out
