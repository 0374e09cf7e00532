"""Work in a fresh process: memory that earlier work left behind would hide the next one's peak.

``python -m benchmarks.common.fresh MODULE:FUNCTION JSON`` prints what the function returns for the
task as one line of JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

_LOOK_EVERY = 0.2


def in_fresh_process(
    function: str, task: dict[str, Any], cpu_timeout: float = float("inf")
) -> dict[str, Any]:
    """What a function returns for a task; one thread.

    Parameters
    ----------
    function : str
        ``"benchmarks.scales.linear:fit"``, which takes the task.
    task : dict
        Can be written as JSON.
    cpu_timeout : float, default=inf
        CPU time in seconds after which the process is ended.

    Raises
    ------
    TimeoutError
        After ``cpu_timeout``; whatever the process started has ended with it.
    RuntimeError
        When it fails, with the last line that it wrote on stderr.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.common.fresh", function, json.dumps(task)],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C of a terminal reaches this process alone, which ends the other.
        start_new_session=True,
    )
    try:
        while True:
            try:
                out, err = process.communicate(timeout=_LOOK_EVERY)
                break
            except subprocess.TimeoutExpired:
                if _cpu_seconds(process.pid) > cpu_timeout:
                    raise TimeoutError(f"not finished after {cpu_timeout:g} CPU s") from None
    finally:
        if process.poll() is None:
            _end(process)
    if process.returncode != 0:
        lines = err.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"exit status {process.returncode}")
    return json.loads(out.strip().splitlines()[-1])


def within(function: str, task: dict[str, Any], cpu_timeout: float) -> dict[str, Any]:
    """The same, or ``{"timeout": cpu_timeout}``: no error, which would be tried again."""
    try:
        return in_fresh_process(function, task, cpu_timeout)
    except TimeoutError:
        return {"timeout": cpu_timeout}


def _cpu_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _end(process: subprocess.Popen[str]) -> None:
    # With its children: a worker that the process started would go on without it.
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    for each in (process, *started):
        try:
            each.kill()
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
    with tempfile.TemporaryDirectory(prefix="milearn-scale-") as folder:
        free = shutil.disk_usage(folder).free
        if free < 1.2 * needed:
            raise OSError(
                f"{needed / 2**30:.1f} GiB are needed in {Path(folder).parent} and "
                f"{free / 2**30:.1f} are free: set TMPDIR to a larger disk."
            )
        yield Path(folder)


if __name__ == "__main__":
    _module, _, _function = sys.argv[1].partition(":")
    print(json.dumps(getattr(import_module(_module), _function)(json.loads(sys.argv[2]))))
