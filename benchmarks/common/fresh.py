"""Work in a fresh process: memory that earlier work left behind would hide the next one's peak."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

_LOOK_EVERY = 0.2


def in_fresh_process(
    function: str,
    task: dict[str, Any],
    *,
    timeout: float | None = None,
    cpu_timeout: float | None = None,
) -> dict[str, Any]:
    """What ``benchmarks.measure`` prints of a function and a task; one thread.

    Parameters
    ----------
    function : str
        ``"benchmarks.scales.linear:ratios"``, which takes the task.
    task : dict
        Can be written as JSON.
    timeout : float, default=None
        Wall time in seconds after which the process is ended.
    cpu_timeout : float, default=None
        CPU time in seconds after which the process is ended.

    Raises
    ------
    TimeoutError
        After either of them; whatever the process started has ended with it.
    RuntimeError
        When it fails, with the last line that it wrote on stderr.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.measure", function, json.dumps(task)],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C of a terminal reaches this process alone, which ends the other.
        start_new_session=True,
    )
    try:
        out, err = _communicate(process, timeout, cpu_timeout)
    finally:
        if process.poll() is None:
            _end(process)
    if process.returncode != 0:
        lines = err.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"exit status {process.returncode}")
    return json.loads(out.strip().splitlines()[-1])


def _communicate(
    process: subprocess.Popen[str], timeout: float | None, cpu_timeout: float | None
) -> tuple[str, str]:
    begin = time.perf_counter()
    while True:
        spent = time.perf_counter() - begin
        left = None if timeout is None else max(0.0, timeout - spent)
        if left == 0.0:
            raise TimeoutError(f"not finished after {spent:.0f} s")
        if cpu_timeout is not None:
            if _cpu_seconds(process.pid) > cpu_timeout:
                raise TimeoutError(f"not finished after {cpu_timeout:g} CPU s")
            left = _LOOK_EVERY if left is None else min(left, _LOOK_EVERY)
        try:
            return process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            continue


def _cpu_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _end(process: subprocess.Popen[str]) -> None:
    # With its children: a virtual machine that the process started would go on without it.
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    process.kill()
    for child in started:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    process.communicate()


@contextmanager
def scratch_folder(needed: int) -> Iterator[Path]:
    """A folder for so many bytes, which is removed in the end.

    Raises
    ------
    OSError
        Where the disk has too little room.
    """
    folder = Path(tempfile.mkdtemp(prefix="milearn-scale-"))
    try:
        free = shutil.disk_usage(folder).free
        if free < 1.2 * needed:
            raise OSError(
                f"{needed / 2**30:.1f} GiB are needed in {folder.parent} and {free / 2**30:.1f} "
                "are free: set TMPDIR to a larger disk."
            )
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
