"""Work in a fresh process, and what is measured in it."""

from __future__ import annotations

import os
import time

import numpy as np
import psutil
import pytest

from benchmarks.common import fresh, memory
from benchmarks.common.fresh import in_fresh_process, within
from benchmarks.common.memory import PeakMemory, measured

# It prints a result, fails, or starts a process that would go on without it.
MODULE = """
def work(task):
    import pathlib, subprocess, sys, time
    if task == "fail":
        raise ValueError("too small")
    if isinstance(task, dict):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        pathlib.Path(task["path"]).write_text(str(child.pid))
        time.sleep(60)
    print("noise")
    return [task]
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / "a_module_of_the_test.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return "a_module_of_the_test:work"


def test_the_last_line_is_the_result_or_the_error(work):
    assert in_fresh_process(work, "a") == ["a"]
    with pytest.raises(RuntimeError, match="ValueError: too small"):
        in_fresh_process(work, "fail")


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_the_process_started_ends_with_it(work, tmp_path, monkeypatch):
    path = tmp_path / "pid"
    begin = time.monotonic()

    # The time is up when the child is there: a slow start does not matter.
    def clock(pid):
        return 100.0 if path.exists() or time.monotonic() - begin > 60 else 0.0

    monkeypatch.setattr(fresh, "_cpu_seconds", clock)
    assert within(work, {"path": str(path)}, 5) == {"timeout": 5}
    pid = int(path.read_text())
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


@pytest.mark.parametrize("marked", [True, False])
def test_measured_repeats_short_calls_and_sees_memory_that_is_given_back(marked, monkeypatch):
    if not marked:  # as where the system keeps no mark that can be reset
        monkeypatch.setattr(memory, "_reset_high_water_mark", lambda: False)
    calls = []

    def work():
        # 64 MB: malloc takes what is above 32 MB from the system, whatever the heap has left.
        held = np.ones(2**23)
        time.sleep(0.02)  # readings that are taken now and then see all of it
        calls.append(held.sum())
        return len(calls)

    result, value = measured(work, enough=60.0, most=4)
    assert value == len(calls) == 4
    assert result["peak_mb"] > 50
    assert result["cpu_seconds"] > 0
    assert result["wall_seconds"] > 0
    with PeakMemory() as seen:
        pass
    assert seen.found["peak_mb"] < 50
