"""Growth with the size of the data: what is fitted, what is left out, what is printed."""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.common.plots import plot_sizes
from benchmarks.scales import _size_fit, sizes

BAGS = sizes.AXES[0]


def test_axes_name_estimators_and_sizes_that_are_there():
    known = {"n_bags", "bag_size", "n_features", "n_clusters", "n_links"}
    for axis in sizes.AXES:
        assert set(axis.methods) <= set(_size_fit.ESTIMATORS)
        assert {axis.grows, *axis.fixed} <= known
        assert axis.grows not in axis.fixed
        assert {"n_bags", "bag_size", "n_features"} <= {axis.grows, *axis.fixed}
        assert list(axis.sizes) == sorted(axis.sizes)
    assert {item.name for item in sizes.REPORTS} == {axis.name for axis in sizes.AXES}


@pytest.mark.parametrize("method", list(_size_fit.ESTIMATORS))
def test_every_method_is_measured(method, monkeypatch):
    monkeypatch.setattr(_size_fit, "_ENOUGH_SECONDS", 0.001)
    task = {"method": method, "n_bags": 16, "bag_size": 3, "n_features": 6}
    if method in ("milsd-bag", "milsd-instance", "linkcontentmf"):
        task["n_links"] = 30
    if method in ("m3ic", "bamic"):
        task["n_clusters"] = 3
    result = _size_fit.measure(task)
    assert result["cpu_seconds"] > 0
    assert result["wall_seconds"] > 0
    assert result["peak_mb"] >= 0
    assert result["data_mb"] == 16 * 3 * 6 * 8 / 2**20


@pytest.mark.parametrize("n_links", [1, 40, 190])
def test_a_random_graph_has_the_links_that_were_asked_for(n_links):
    labels = np.arange(20) % 2
    graph = _size_fit.random_graph(labels, n_links).toarray()
    np.testing.assert_array_equal(graph, graph.T)
    assert set(np.unique(graph)) <= {0, 1}
    assert graph.sum() == 2 * n_links
    assert np.trace(graph) == 0
    if n_links == 40:
        assert graph[np.equal.outer(labels, labels)].sum() > 0.6 * graph.sum()


def test_slope_is_the_exponent_over_the_last_three_sizes():
    grown = [5.0, 3.0 * 10**2.5, 3.0 * 100**2.5, 3.0 * 1000**2.5]
    assert sizes.slope([1, 10, 100, 1000], grown) == pytest.approx(2.5)
    assert np.isnan(sizes.slope([10], [1.0]))
    assert np.isnan(sizes.slope([10, 100], [0.0, 1.0]))


def arguments(tmp_path, **options):
    return argparse.Namespace(**{"out": tmp_path, "fresh": False, "fast": False, **options})


def test_slow_methods_are_left_out_of_larger_sizes(tmp_path, monkeypatch, capsys):
    fitted = []

    def made_up(module, task, timeout):
        fitted.append((task["method"], task["n_bags"]))
        if task["method"] == "sdpmil" and task["n_bags"] > 10:
            raise TimeoutError("not finished after 60 s")
        if task["method"] == "bamic":
            raise RuntimeError("no")
        slow = task["method"] == "milsd"
        seconds = 100.0 if slow else task["n_bags"] ** 2 / 1e6
        return {"cpu_seconds": seconds, "peak_mb": float(task["n_bags"]), "warnings": {"Oh": 1}}

    monkeypatch.setattr(sizes, "in_fresh_process", made_up)
    axis = replace(BAGS, sizes=(10, 100, 1000), methods=("milsd", "sdpmil", "m3ic", "bamic"))
    assert sizes.run_axis(arguments(tmp_path), axis=axis) == 1
    assert fitted == [
        *((name, 10) for name in axis.methods),
        *((name, 100) for name in ("sdpmil", "m3ic")),
        ("m3ic", 1000),
    ]
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "M3IC, one random start CPU time 0.1 ms 10.0 ms 1.00 s 2.00 Oh" in lines
    assert "memory 10 MB 100 MB 1000 MB 1.00" in lines
    assert "MILSD, no graph CPU time 100 s - - Oh" in lines
    assert "SDPMIL, linear CPU time 0.1 ms > 60 s - Oh" in lines
    assert "BAMIC, one random start CPU time failed - - RuntimeError: no" in lines
    # Nothing is repeated but what failed.
    del fitted[:]
    assert sizes.run_axis(arguments(tmp_path), axis=axis) == 1
    assert fitted == [("bamic", 10)]


def test_fast_is_two_sizes_of_a_few_methods(tmp_path, monkeypatch, capsys):
    fitted = []

    def made_up(module, task, timeout):
        fitted.append((task["method"], task["n_bags"]))
        return {"cpu_seconds": 0.1, "peak_mb": 1.0, "warnings": {}}

    monkeypatch.setattr(sizes, "in_fresh_process", made_up)
    assert sizes.run_axis(arguments(tmp_path, fast=True), axis=BAGS) == 0
    assert {size for _, size in fitted} == set(BAGS.sizes[:2])
    assert {name for name, _ in fitted} == set(sizes._FAST) & set(BAGS.methods)
    assert "bags" in capsys.readouterr().out


def test_a_small_axis_from_end_to_end(tmp_path, capsys, in_this_process, monkeypatch):
    monkeypatch.setattr(sizes, "in_fresh_process", in_this_process)
    axis = replace(BAGS, sizes=(20, 40), methods=("m3ic",))
    assert sizes.run_axis(arguments(tmp_path), axis=axis) == 0
    assert "M3IC, one random start" in capsys.readouterr().out
    assert len((tmp_path / "bags.jsonl").read_text().splitlines()) == 2


def test_a_plot_of_sizes_is_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    path = plot_sizes({"a": [(10, 0.1), (100, 1.0)], "b": []}, tmp_path / "a.png", size="bags")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert plot_sizes({"b": []}, tmp_path / "b.png", size="bags") is None
