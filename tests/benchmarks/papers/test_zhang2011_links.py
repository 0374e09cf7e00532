"""Gain by links on WebKB: the records, the paired table and the controls."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from benchmarks.papers import _controls, zhang2011_links
from benchmarks.papers._webkb import Pages
from milearn import Bags
from milearn.datasets import make_bags


@pytest.fixture
def few_pages(monkeypatch):
    bags, y = make_bags(n_bags=30, random_state=0)
    graph = sparse.csr_array((y[:, None] == y) & ~np.eye(30, dtype=bool), dtype=float)
    whole = sparse.csr_matrix(np.array([block.mean(axis=0) for block in bags]))
    pages = Pages(bags, y, whole, {"direct": graph, "cocitation": graph, "coupling": graph})
    monkeypatch.setattr(zhang2011_links, "pages_of", lambda category: pages)


@pytest.mark.parametrize("unit", list(zhang2011_links.UNITS))
def test_every_graph_has_its_record(few_pages, unit):
    for graph in zhang2011_links.GRAPHS:
        task = zhang2011_links.LinkTask("course", unit, graph, 0.3, 0)
        record = zhang2011_links.run_link(task)
        assert "error" not in record, record.get("error")
        result = record["result"]
        assert 0 <= result["accuracy"] <= 1
        assert (result["homophily"] is None) == (graph == "none")
        if graph == "permuted":
            assert result["homophily"] < 1.0
        elif graph != "none":
            assert result["homophily"] == 1.0


def test_table_pairs_the_draws():
    tasks = zhang2011_links.link_tasks(4, fast=False)
    assert len({task.key for task in tasks}) == len(tasks) == 4 * 2 * 3 * 2 * 4
    leads = {"none": 0.0, "cocitation": 0.02, "direct": -0.1, "permuted": 0.0}
    records = {
        task.key: {
            "result": {
                "accuracy": 0.5
                + 0.1 * task.repeat
                + leads[task.method]
                # The first draw of the control differs, and its mean difference is zero.
                + (task.method == "permuted") * [0.03, -0.03, 0.01, -0.01][task.repeat]
                + (task.method == "cocitation") * [0.0, 1e-3, 2e-3, 1e-3][task.repeat],
                "fit_cpu_seconds": 1.0,
            }
        }
        for task in tasks
        if (task.dataset, task.unit, task.ratio) == ("course", "pages", 0.05)
    }
    table = zhang2011_links.link_table(tasks, records)
    rows = {row[3]: row for row in table.rows}
    assert list(rows) == list(zhang2011_links.GRAPHS)
    assert rows["none"][5] == ""
    assert rows["cocitation"][5].startswith("+2.1")
    assert rows["cocitation"][5].endswith("*")
    assert not rows["permuted"][5].endswith("*")
    assert rows["direct"][7] == "4"


def test_holm_multiplies_by_what_is_left():
    np.testing.assert_allclose(
        zhang2011_links.holm([0.04, 0.01, 0.5, 0.03]), [0.09, 0.04, 0.5, 0.09]
    )


def test_permuted_links_keep_all_but_their_nodes():
    graph = sparse.random(30, 30, density=0.1, random_state=0, format="csr")
    moved = _controls.permuted_nodes(graph, np.random.default_rng(0))
    assert (moved != graph).nnz
    np.testing.assert_allclose(np.sort(moved.sum(axis=1)), np.sort(graph.sum(axis=1).A1))
    np.testing.assert_array_equal(np.sort(moved.data), np.sort(graph.data))


def test_permuted_positions_stay_in_their_bags():
    bags, _ = make_bags(5, random_state=0)
    positions = np.arange(bags.n_instances)
    placed = Bags(bags.instances, bags.offsets, instance_data={"coords": positions})
    moved = _controls.permuted_positions(placed, np.random.default_rng(0))
    found = np.asarray(moved.instance_data["coords"])
    assert (found != positions).any()
    for first, last in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        np.testing.assert_array_equal(np.sort(found[first:last]), positions[first:last])
    np.testing.assert_array_equal(np.asarray(placed.instance_data["coords"]), positions)
