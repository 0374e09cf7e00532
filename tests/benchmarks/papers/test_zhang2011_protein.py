"""The protein table of Zhang et al. 2011 on a handful of bags."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
from scipy import sparse

from benchmarks.papers import zhang2011_protein
from milearn import Bags
from milearn.datasets import make_bags


@pytest.fixture
def few_proteins(monkeypatch):
    bags, y = make_bags(n_bags=40, random_state=0)
    graph = sparse.csr_array((y[:, None] == y) & ~np.eye(40, dtype=bool), dtype=float)
    X = Bags(bags.instances, bags.offsets, bag_graph=graph)
    monkeypatch.setattr(zhang2011_protein, "_proteins", lambda: (X, y))
    monkeypatch.setattr(zhang2011_protein, "GRID_C", (10.0,))
    monkeypatch.setattr(zhang2011_protein, "GRID_MU", (1.0,))
    return X, y


@pytest.mark.parametrize("method", list(zhang2011_protein.TITLES))
def test_every_row_of_the_protein_table_runs(few_proteins, method, monkeypatch):
    monkeypatch.setattr(zhang2011_protein, "_limited", zhang2011_protein._protein_result)
    record = zhang2011_protein.run_protein_task(zhang2011_protein.ProteinTask("trx", method, 0, 0))
    assert "error" not in record, record.get("error")
    result = record["result"]
    assert 0.0 <= result["auc"] <= 1.0
    if method == "majority":
        assert result["accuracy"] == result["auc"] == 0.5
    else:
        assert result["auc"] > 0.6


def test_the_protein_table_is_printed(few_proteins, tmp_path, capsys, monkeypatch):
    few = {"milsd-knn": "a graph", "majority": "larger class"}
    monkeypatch.setattr(zhang2011_protein, "TITLES", few)
    args = argparse.Namespace(out=tmp_path, repeats=None, fast=True, fresh=False, jobs=1)
    assert zhang2011_protein.run_protein(args) == 0
    printed = capsys.readouterr().out
    assert "40 proteins (20 positive)" in printed
    assert "96.2 / 1.7 s" in printed
    assert "a different experiment" in " ".join(printed.split())


def test_a_fit_that_takes_too_long_is_given_up(monkeypatch):
    def ended(module, task, cpu_timeout):
        assert module == "benchmarks.papers.zhang2011_protein"
        assert zhang2011_protein.ProteinTask(**task).method == "mi-svm"
        raise TimeoutError(f"not finished after {cpu_timeout} CPU s")

    monkeypatch.setattr(zhang2011_protein, "in_fresh_process", ended)
    task = zhang2011_protein.ProteinTask("trx", "mi-svm", 0, 0)
    record = zhang2011_protein.run_protein_task(task)
    assert record["result"] == {"unfinished_cpu_seconds": zhang2011_protein.MAX_CPU_SECONDS}


def test_a_fit_that_fails_is_an_error_of_the_record(in_this_process, monkeypatch):
    # The module takes the fields of a task and no others; it says so before it reads the data.
    monkeypatch.setattr(zhang2011_protein, "in_fresh_process", in_this_process)
    monkeypatch.setattr(zhang2011_protein, "asdict", lambda task: {"unheard": "of"})
    task = zhang2011_protein.ProteinTask("trx", "mi-svm", 0, 0)
    record = zhang2011_protein.run_protein_task(task)
    assert record["error"].startswith("TypeError")
    assert "unheard" in record["error"]
