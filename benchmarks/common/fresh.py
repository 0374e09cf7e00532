"""Work in a fresh process: memory that earlier work left behind would hide the next one's peak."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["TooLong", "in_fresh_process"]


class TooLong(Exception):
    """The process was ended because it took too long."""


def in_fresh_process(
    module: str, task: dict[str, Any], *, timeout: float | None = None
) -> dict[str, Any]:
    """What ``python -m module '<task as JSON>'`` prints in its last line, as JSON; one thread.

    Raises
    ------
    TooLong
        After ``timeout`` seconds; whatever the process started has ended with it.
    RuntimeError
        When it fails, with the last line that it wrote on stderr.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(task)],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise TooLong(f"not finished after {time.perf_counter() - start:.0f} s") from error
    finally:
        if process.poll() is None:
            _end(process)
    if process.returncode != 0:
        lines = err.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"exit status {process.returncode}")
    return json.loads(out.strip().splitlines()[-1])


def _end(process: subprocess.Popen[str]) -> None:
    # The whole group: a virtual machine that the process started would go on without it.
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()
