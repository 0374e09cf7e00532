"""Work in a fresh process, and what is measured in it."""

from __future__ import annotations

import os
import time

import numpy as np
import psutil
import pytest

from benchmarks.common import fresh, memory
from benchmarks.common.fresh import in_fresh_process, scratch_folder
from benchmarks.common.memory import PeakMemory, measured, resident

STARTS_A_CHILD = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(task["path"]).write_text(str(child.pid))
time.sleep(60)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    def write(text):
        body = "\n".join(f"    {line}" for line in text.strip().splitlines())
        (tmp_path / "a_module_of_the_test.py").write_text(f"def work(task):\n{body}\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        return "a_module_of_the_test:work"

    return write


def test_the_last_line_is_the_result(module):
    name = module("print('noise'); return [task]")
    assert in_fresh_process(name, {"a": 1}) == [{"a": 1}]


def test_a_failure_is_its_last_line(module):
    with pytest.raises(RuntimeError, match="ValueError: too small"):
        in_fresh_process(module("raise ValueError('too small')"), {})


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_the_process_started_ends_with_it(module, tmp_path, monkeypatch):
    path = tmp_path / "pid"
    begin = time.monotonic()

    # The time is up when the child is there: a slow start does not matter.
    def clock():
        return 100.0 if path.exists() or time.monotonic() - begin > 60 else 0.0

    monkeypatch.setattr(fresh, "_cpu_seconds", lambda pid: clock())
    with pytest.raises(TimeoutError, match="not finished after 5 CPU s"):
        in_fresh_process(module(STARTS_A_CHILD), {"path": str(path)}, cpu_timeout=5)
    pid = int(path.read_text())
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


def test_cpu_time_ends_a_process_that_works(module):
    with pytest.raises(TimeoutError, match=r"not finished after 0\.2 CPU s"):
        in_fresh_process(module("while True: pass"), {}, cpu_timeout=0.2)


@pytest.mark.parametrize("marked", [True, False])
def test_the_peak_is_seen_after_the_memory_is_given_back(marked, monkeypatch):
    if not marked:  # as where the system keeps no mark that can be reset
        monkeypatch.setattr(memory, "_reset_high_water_mark", lambda: False)
    with PeakMemory() as seen:
        block = np.ones(2**23)  # 64 MB
        time.sleep(0.05)
        del block
    assert seen.above > 50 * 2**20
    assert seen.peak > resident() / 2
    assert (seen.looks > 0) == (not marked or not memory._reset_high_water_mark())


def test_measured_repeats_short_calls_and_returns_the_last_result():
    calls = []

    def work():
        # 64 MB: malloc takes what is above 32 MB from the system, whatever the heap has left.
        calls.append(np.ones(2**23).sum())
        return len(calls)

    result, value = measured(work, enough=60.0, most=4)
    assert value == len(calls) == result["fits"] == 4
    assert result["peak_mb"] > 50
    assert result["cpu_seconds"] > 0
    assert result["wall_seconds"] > 0
    assert measured(work, enough=0.0001, most=4)[0]["fits"] == 1


def test_a_folder_without_room_is_refused_before_anything_is_written():
    with scratch_folder(10) as folder:
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(OSError, match=r"are needed in .* set TMPDIR"), scratch_folder(10**18):
        pass
