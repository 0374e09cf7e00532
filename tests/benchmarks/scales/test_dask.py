"""Measurements of distributed bags: what is counted, and what is printed of the processes."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("distributed", reason="Dask is not installed")

from benchmarks.scales import _dask_fit, dask


@dataclass
class Found:
    rows: object
    numbers: np.ndarray
    top: np.ndarray
    loss: float


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_working_set_is_rows_and_their_numbers(form):
    rows = form(np.eye(3))
    found = Found(rows, np.arange(3), np.ones(3), 0.5)
    one = 72 if form is np.asarray else rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    assert _dask_fit.row_bytes([(0, [found, found])]) == 2 * (one + found.numbers.nbytes)
    assert _dask_fit.row_bytes([np.arange(5), 3.0]) == 0


class MadeUpClient:
    def submit(self, function, *arguments, **options):
        return function(*arguments)

    def map(self, function, *columns, **options):
        return [function(*arguments) for arguments in zip(*columns, strict=True)]

    def gather(self, futures, **options):
        return futures


def test_bytes_are_counted_between_two_gathers():
    client = MadeUpClient()
    with _dask_fit.counted(client) as counts:
        for size in (10, 20_000):
            client.gather([*client.map(np.zeros, [size]), client.submit(np.ones, (4, 4))])
        client.gather([client.submit(len, b"x" * 5_000)])
    assert [pair["rows"] for pair in counts] == [128, 128, 0]
    assert counts[1]["up"] == pytest.approx(counts[0]["up"] + 8 * 19_990, abs=100)
    assert counts[2]["down"] > 5_000 > counts[0]["down"]
    assert client.submit(len, b"ab") == 2
    assert client.map(len, [b"ab"]) == [2]
    assert len(counts) == 3


def test_a_process_is_killed_after_a_round_is_sent(monkeypatch):
    killed = []
    monkeypatch.setattr(_dask_fit.os, "kill", lambda *given: killed.append(given))
    client = MadeUpClient()
    with _dask_fit.killing(client, 7, 2):
        assert client.map(len, [b"ab"]) == [2]
        assert not killed
        client.map(len, [b"ab"])
    client.map(len, [b"ab"])
    assert killed == [(7, _dask_fit.signal.SIGKILL)]


FIT = {"wall_seconds": 2.0, "cpu_seconds": 1.0, "objective": 5.0, "gap": 1e-4, "n_passes": 4}
RESULTS = {
    "workers": {
        "n_instances": 1000,
        "here": FIT,
        "workers": {**FIT, "wall_seconds": 4.0},
        "n_partitions": 3,
        "send_seconds": 1.0,
        "largest_pass": 1000,
        "largest_down": 400,
        "largest_up": 600,
        "largest_rows": 2**20,
    },
    "killed": {
        "n_instances": 1000,
        "undisturbed": FIT,
        "disturbed": FIT,
        "round": 3,
        "replaced": True,
    },
    "search": {
        "n_instances": 1000,
        "workers": {"wall_seconds": 1.0, "scores": [0.5, 0.7], "best": 1.0},
        "here": {"wall_seconds": 1.0, "scores": [0.5, 0.75], "best": 1.0},
    },
    "clusters": {"n_instances": 1000, "here": 1.5, "workers": 1.5},
    "refused": {"sentence": "MISVC needs all instances."},
}


def test_what_is_missed_is_said(monkeypatch, tmp_path, capsys):
    asked = []

    def made_up(module, task):
        asked.append((module, task["kind"], task["n_bags"]))
        return RESULTS[task["kind"]]

    monkeypatch.setattr(dask, "in_fresh_process", made_up)
    options = {"out": tmp_path, "fresh": False, "jobs": 1, "fast": True, "repeats": None}
    assert dask.run_dask(argparse.Namespace(**options)) == 0
    sizes = [(kind, small) for kind, (_, small) in dask.SIZES.items()]
    assert asked == [("benchmarks.scales._dask_fit", *pair) for pair in sizes]
    printed = " ".join(capsys.readouterr().out.split())
    assert "ratio of wall times 2.00 (goal 1.5, MISSED)" in printed
    assert "objectives differ by 0e+00 (goal 0.001)" in printed
    assert "1,000 bytes (goal 1,048,576)" in printed
    assert "scores differ by 5e-02" in printed
    assert "The error of a kernel: MISVC needs all instances." in printed
