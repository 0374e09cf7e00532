"""The record of a task: one schema, both clocks, failures and warnings in words."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass

from benchmarks.common.records import environment
from benchmarks.common.tasks import SCHEMA, record_of


@dataclass(frozen=True)
class Task:
    dataset: str = "musk1"
    method: str = "svc"

    @property
    def key(self):
        return f"{self.dataset}/{self.method}"


def test_a_record_says_what_was_done_and_how_long_by_both_clocks():
    def work(task):
        warnings.warn("slow", RuntimeWarning, stacklevel=1)
        warnings.warn("slower", RuntimeWarning, stacklevel=1)
        time.sleep(0.2)
        return {"accuracy": 0.5}

    record = record_of(Task(), work, seed=3, method="another name")
    assert {**record, "cpu_seconds": 0, "wall_seconds": 0} == {
        "schema": SCHEMA,
        "key": "musk1/svc",
        "dataset": "musk1",
        "method": "another name",
        "seed": 3,
        "versions": environment(),
        "result": {"accuracy": 0.5},
        "cpu_seconds": 0,
        "wall_seconds": 0,
        "warnings": {"RuntimeWarning": 2},
    }
    assert record["wall_seconds"] >= 0.2 > record["cpu_seconds"] >= 0
    assert json.loads(json.dumps(record)) == record


def test_a_failure_is_a_part_of_the_record():
    record = record_of(Task(), lambda task: 1 / 0)
    assert record["error"] == "ZeroDivisionError: division by zero"
    assert "result" not in record
    assert record["warnings"] == {}
