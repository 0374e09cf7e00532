"""MILSD against the number of links."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.scales import _links_fit, links


def test_a_small_fit_is_measured():
    task = {"data": "generated", "n_bags": 20, "n_links": 40, "C": 0.1, "mu": 1.0, "rounds": 1}
    found = _links_fit.measure(task)
    assert (found["n_bags"], found["n_instances"], found["n_pairs"]) == (20, 100, 40)
    assert found["unlinked_objective"] <= found["misvc_objective"] * (1 + 1e-3)
    assert found["unlinked_objective"] <= found["linked_objective"]
    assert 0 <= found["linked_gap"] <= 1e-6
    row = links._row("some", found)
    assert row[1] == "40"
    assert "some" in row


def test_graph_has_the_pairs_and_mostly_joins_a_class():
    labels = np.arange(200) % 2
    graph = _links_fit.class_graph(labels, 1000)
    assert graph.nnz == 2000
    assert not graph.diagonal().any()
    left, right = graph.nonzero()
    assert np.mean(labels[left] == labels[right]) == pytest.approx(0.8, abs=0.05)


def test_where_it_ends_is_told():
    assert links._row("large", {"timeout": 600.0})[4] == "> 600 s"
