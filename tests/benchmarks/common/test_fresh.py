"""Work in a fresh process, and what is measured in it."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from benchmarks.common.fresh import TooLong, in_fresh_process
from benchmarks.common.memory import measured

STARTS_A_CHILD = """
import json, pathlib, subprocess, sys, time
task = json.loads(sys.argv[1])
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(task["path"]).write_text(str(child.pid))
time.sleep(60)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    def write(text):
        (tmp_path / "a_module_of_the_test.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        return "a_module_of_the_test"

    return write


def test_the_last_line_is_the_result(module):
    name = module("import sys, json; print('noise'); print(json.dumps([json.loads(sys.argv[1])]))")
    assert in_fresh_process(name, {"a": 1}) == [{"a": 1}]


def test_a_failure_is_its_last_line(module):
    with pytest.raises(RuntimeError, match="ValueError: too small"):
        in_fresh_process(module("raise ValueError('too small')"), {})


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="the system has no /proc to look into")
def test_what_the_process_started_ends_with_it(module, tmp_path):
    path = tmp_path / "pid"
    with pytest.raises(TooLong, match="not finished after"):
        in_fresh_process(module(STARTS_A_CHILD), {"path": str(path)}, timeout=5)
    pid = int(path.read_text())
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


def test_measured_repeats_short_calls_and_returns_the_last_result():
    calls = []

    def work():
        calls.append(np.ones(2**21))
        return len(calls)

    result, value = measured(work, enough=60.0, most=4)
    assert value == len(calls) == result["fits"] == 4
    assert result["peak_mb"] > 8
    assert result["seconds"] > 0
    assert result["wall"] > 0
    assert measured(work, enough=0.0001, most=4)[0]["fits"] == 1
