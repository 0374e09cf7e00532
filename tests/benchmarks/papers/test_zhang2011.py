"""The tables of Zhang et al. 2011 on a handful of pages."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from benchmarks.papers import _webkb, zhang2011, zhang2011_fit
from milearn import Bags
from milearn.datasets import make_bags


@pytest.fixture
def few_pages(monkeypatch):
    bags, y = make_bags(n_bags=60, random_state=0)
    graph = sparse.csr_array((y[:, None] == y) & ~np.eye(60, dtype=bool), dtype=float)
    pool = np.array([block.mean(axis=0) for block in bags])
    pages = zhang2011.Pages(
        bags=bags,
        y=y,
        whole=sparse.csr_matrix(pool),
        graphs=dict.fromkeys(("direct", "cocitation", "coupling"), graph),
    )
    monkeypatch.setattr(zhang2011, "pages_of", lambda category: pages)
    monkeypatch.setattr(zhang2011, "GRID_C", (0.5, 5.0))
    monkeypatch.setattr(zhang2011, "GRID_MU", (1.0,))
    monkeypatch.setattr(zhang2011, "N_INNER", 2)
    zhang2011._without_graph.cache_clear()
    zhang2011._page_factors.cache_clear()
    yield pages
    zhang2011._without_graph.cache_clear()
    zhang2011._page_factors.cache_clear()


@pytest.mark.parametrize("method", list(zhang2011.TITLES))
def test_every_row_of_the_web_table_runs(few_pages, method):
    record = zhang2011.run_web(zhang2011.WebTask("course", method, 0.3, 0))
    assert "error" not in record, record.get("error")
    result = record["result"]
    assert result["n_labelled"] + result["n_test"] == 60
    assert 0.0 <= result["accuracy"] <= 1.0
    assert result["fit_cpu_seconds"] >= 0
    assert result["fit_wall_seconds"] > 0


def test_choice_prefers_no_graph_where_it_is_as_good(few_pages, monkeypatch):
    task = zhang2011.WebTask("course", "milsd-cocitation", 0.3, 1)
    train = zhang2011.labelled(task, few_pages.y)
    C, without = zhang2011._without_graph("course", 0.3, 1)
    assert C in [cost * len(train) for cost in zhang2011.GRID_C]
    real = zhang2011._inner_scores
    for lead, expected in ((0.0, 0.0), (1e-15, 0.0), (0.1, 1.0), (-0.1, 0.0)):
        monkeypatch.setattr(
            zhang2011, "_inner_scores", lambda *args, lead=lead: [without + lead] * len(args[-1])
        )
        _, chosen, _ = zhang2011._milsd(task, few_pages, train)
        assert chosen == {"C": C, "mu": expected * C}
    monkeypatch.setattr(zhang2011, "_inner_scores", real)
    grid = [{"C": C, "mu": 0.0}, {"C": C, "mu": C}]
    alone = [zhang2011._inner_scores(task, few_pages, train, "direct", [each])[0] for each in grid]
    assert zhang2011._inner_scores(task, few_pages, train, "direct", grid) == alone


def test_tasks_are_the_promised_ones():
    tasks = zhang2011.web_tasks(None, fast=False)
    assert len({task.key for task in tasks}) == len(tasks)
    runs = [t for t in tasks if (t.dataset, t.method, t.ratio) == ("faculty", "mu=0", 0.05)]
    assert len(runs) == 20
    assert {task.ratio for task in tasks} == {0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5}
    assert {task.method for task in tasks if task.ratio == 0.2} == set(zhang2011.TITLES)
    fast = zhang2011.web_tasks(None, fast=True)
    assert {task.repeat for task in fast} == {0}


def test_differences_are_those_of_the_same_run(few_pages):
    tasks = [zhang2011.WebTask("course", "mu=0", 0.3, repeat) for repeat in range(3)]
    tasks += [zhang2011.WebTask("course", "milsd-direct", 0.3, repeat) for repeat in (0, 2)]
    accuracy = {("mu=0", 0): 0.5, ("mu=0", 1): 0.1, ("mu=0", 2): 0.6}
    accuracy |= {("milsd-direct", 0): 0.6, ("milsd-direct", 2): 0.9}
    records = {
        task.key: {
            "result": {
                "accuracy": accuracy[task.method, task.repeat],
                "fit_cpu_seconds": 1.0,
            }
        }
        for task in tasks
    }
    (table,) = zhang2011.web_tables(tasks, records)
    row = next(row for row in table.rows if "direct" in row[0])
    assert row[2] == "+20.0 +- 10.0"


def test_a_fit_is_measured_beside_the_one_without_a_graph(few_pages, monkeypatch):
    asked = []

    def here(module, task):
        assert module == "benchmarks.papers.zhang2011_fit"
        asked.append(task["graph_weights"])
        return json.loads(json.dumps(zhang2011_fit.measure(json.loads(json.dumps(task)))))

    monkeypatch.setattr(zhang2011, "in_fresh_process", here)
    monkeypatch.setattr(zhang2011_fit, "pages_of", lambda category: few_pages)
    sparse_bags = few_pages.bags.with_instances(sparse.csr_matrix(few_pages.bags.instances))
    monkeypatch.setattr(
        zhang2011_fit, "with_graph", lambda pages, kind: _with(sparse_bags, pages.graphs[kind])
    )
    task = zhang2011.FitTask("course", 0.3, 1.0, 0.1, ratio=0.3, rounds=1)
    record = zhang2011.run_web(task)
    assert "error" not in record, record.get("error")
    assert asked == [[0.0], [1.0, 0.0]]
    result = record["result"]
    assert result["n_labelled"] == 18
    assert result["n_bags"] == 60
    for name in ("fit_cpu_seconds", "fit_wall_seconds", "without_cpu_seconds"):
        assert result[name] > 0
    assert result["without_peak_mb"] >= 0
    assert result["process_mb"] > result["dense_mb"] > 0
    (row,) = zhang2011.fit_table([task], {task.key: record}).rows
    assert row[0] == "course, 60 pages, 18 labelled"


def _with(bags, graph):
    return Bags(bags.instances, bags.offsets, bag_graph=graph)


def test_a_fit_on_the_real_pages(data_dir, in_this_process):
    task = {"dataset": "course", "cost": 0.3, "tol": 0.1, "ratio": 0.05, "repeat": 0}
    result = in_this_process(
        "benchmarks.papers.zhang2011_fit", {**task, "graph_weights": [0.0], "rounds": 0}
    )
    _webkb._stemmed.cache_clear()
    _webkb.pages_of.cache_clear()
    assert result["n_labelled"] < result["n_bags"]
    assert 0 < result["process_mb"] < result["dense_mb"]


def test_a_failed_process_is_an_error_of_the_record(in_this_process, monkeypatch):
    # Without any data folder: that there is no such category is known before the data are read.
    monkeypatch.setattr(zhang2011, "in_fresh_process", in_this_process)
    record = zhang2011.run_web(zhang2011.FitTask("unheard of", 0.3, 1.0, 0.1, rounds=1))
    assert "There is no category 'unheard of'" in record["error"]


def test_labels_are_drawn_class_by_class(few_pages):
    train = zhang2011.labelled(zhang2011.WebTask("course", "mu=0", 0.2, 3), few_pages.y)
    assert len(train) == 12
    assert few_pages.y[train].sum() == 6
