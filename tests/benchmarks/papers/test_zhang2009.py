"""The tables of Zhang et al. (2009) and the scaling of M3IC, at tiny size."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from benchmarks.common import map_file
from benchmarks.papers import zhang2009
from benchmarks.scales import _m3ic_fit, m3ic
from benchmarks.scales._m3ic_fit import (
    BAG_SIZE,
    N_CLUSTERS,
    concepts,
    write_instances,
)
from milearn import Bags


def small_bags():
    rng = np.random.default_rng(0)
    y = np.arange(18) % 3
    instances = 0.2 * rng.normal(size=(54, 3))
    instances[::3] += 4 * np.eye(3)[y]
    return Bags(instances, np.arange(0, 55, 3)), y


@pytest.fixture
def embedded(monkeypatch):
    """A data set of the tests in the place of the real ones."""
    zhang2009.loaded.cache_clear()
    monkeypatch.setattr(zhang2009, "datasets", lambda: ["corel"])
    monkeypatch.setattr(zhang2009, "_raw", lambda name: small_bags())
    monkeypatch.setattr(zhang2009, "COSTS", (1.0, 16.0))
    monkeypatch.setattr(zhang2009, "BALANCES", (0.0, 1.0))
    yield
    zhang2009.loaded.cache_clear()


def arguments(tmp_path, **options):
    return argparse.Namespace(
        **{"out": tmp_path, "fresh": False, "jobs": 1, "fast": False, "repeats": 1, **options}
    )


def test_table3_runs_and_chooses_the_best_of_the_grid(embedded, tmp_path, capsys):
    assert zhang2009.run_table3(arguments(tmp_path)) == 0
    printed = capsys.readouterr().out
    for title in zhang2009.TITLES.values():
        assert title in printed
    assert "54.0" in printed
    # Records are found again, and the table is the same.
    assert zhang2009.run_table3(arguments(tmp_path)) == 0
    again = capsys.readouterr().out
    assert again.partition("published:")[0] == printed.partition("published:")[0]


def test_the_best_row_is_the_best_record(embedded):
    rows = zhang2009.table3_tasks(["corel"], scalings=("unit",), seeds=1, fast=False)
    tasks = rows["corel/unit/m3ic-grid"]
    assert len(tasks) == 4
    assert len({task.seed for task in tasks}) == 4, "starts are independent between grid points"
    records = {
        task.key: {
            "parameters": task.parameters,
            "result": {"accuracy": 0.5 + 0.1 * number, "sizes": [1, number, 1]},
        }
        for number, task in enumerate(tasks)
    }
    row = zhang2009.table3({"corel/unit/m3ic-grid": tasks}, records).rows[-1]
    assert row[3] == "80.0"
    assert row[-1] == "C=16, balance=1; median of grid 65.0"
    assert "25%" in row


def test_a_failure_is_a_part_of_the_record(embedded):
    task = zhang2009.ClusterTask("t", "corel", "nonsense", "m3ic", (), 0)
    assert "There is no scaling" in zhang2009.run_cluster(task)["error"]


def test_sizes_counts_empty_clusters(monkeypatch, tmp_path, capsys):
    zhang2009.loaded.cache_clear()
    monkeypatch.setattr(zhang2009, "datasets", lambda: ["corel", "corel1000-1"])
    monkeypatch.setattr(zhang2009, "_raw", lambda name: small_bags())
    monkeypatch.setattr(zhang2009, "SMALLEST", (5,))
    tasks = zhang2009.sizes_tasks(seeds=2, fast=False)
    for title, sizes in [("M3IC()", [18, 0, 0]), ("M3IC(min_cluster_size=5)", [6, 6, 6])]:
        result = {"accuracy": 0.5, "sizes": sizes}
        records = {task.key: {"result": result} for task in tasks[title]}
        row = zhang2009.sizes_table({title: tasks[title]}, records).rows[0]
        assert row == [title, "50.0", "2 of 2" if sizes[-1] == 0 else "0 of 2", str(sizes[-1])]
    del tasks["M3IC(margin='runner-up', min_cluster_size=90)"]
    monkeypatch.setattr(zhang2009, "sizes_tasks", lambda **options: tasks)
    assert zhang2009.run_sizes(arguments(tmp_path)) == 0
    printed = capsys.readouterr().out
    assert "BAMIC(metric='mean')" in printed
    zhang2009.loaded.cache_clear()


def test_table4_prints_ratios(embedded, tmp_path, capsys):
    assert zhang2009.run_table4(arguments(tmp_path)) == 0
    printed = capsys.readouterr().out
    assert "M3IC, C=16" in printed
    assert "267.8 s" in printed
    assert "1/" in printed


def test_groups_of_categories_hold_five_of_ten():
    assert all(len(set(group)) == 5 for group in zhang2009.GROUPS)
    assert len(set(zhang2009.GROUPS)) == 5


def test_corel_is_the_positive_bags_of_three_sets(data_dir):
    bags, y = zhang2009.loaded("corel", "unit")
    assert len(bags) == 300
    assert bags.n_instances == 1953
    assert np.bincount(y).tolist() == [100, 100, 100]
    np.testing.assert_allclose(np.linalg.norm(bags.instances, axis=1), 1.0)


def test_instances_are_written_as_asked_for(tmp_path):
    write_instances(tmp_path / "x.npy", 600, 100)
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert X.shape == (600, 100)
    assert X.dtype == np.float32
    scores = X[::BAG_SIZE] @ concepts(100).T
    assert (scores.argmax(axis=1) == np.arange(60) % N_CLUSTERS).all()


def test_scaling_measures_on_a_memory_map_and_removes_its_file(tmp_path, monkeypatch, capsys):
    def here(module, task):
        assert module == "benchmarks.scales._m3ic_fit"
        return json.loads(json.dumps(_m3ic_fit.measure(json.loads(json.dumps(task)))))

    monkeypatch.setattr(map_file, "in_fresh_process", here)
    monkeypatch.setattr(m3ic, "SIZES", (300, 600))
    monkeypatch.setattr(map_file.tempfile, "tempdir", str(tmp_path))
    assert m3ic.run_slope(arguments(tmp_path / "out")) == 0
    printed = capsys.readouterr().out
    assert "slope of log time over log instances" in printed
    assert "(2 of 2)" in printed
    assert not list(tmp_path.glob("milearn-scale-*"))


def test_scaling_in_clusters_and_features_prints_slopes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(m3ic, "N_BAGS", 20)
    monkeypatch.setattr(m3ic, "AT_CLUSTERS", 3)
    monkeypatch.setattr(m3ic, "MANY_CLUSTERS", (2, 4))
    monkeypatch.setattr(m3ic, "MANY_FEATURES", (5, 10))
    monkeypatch.setattr(m3ic, "VARIANTS", {"plain": {"max_iter": 50}})
    assert m3ic.run_many(arguments(tmp_path)) == 0
    printed = capsys.readouterr().out
    assert "plain, clusters: slope" in printed
    assert "plain, features: slope" in printed
