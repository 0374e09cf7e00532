"""Memory and time of the running process, as the system counts them."""

from __future__ import annotations

import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["anonymous", "measured", "peak", "reset_peak", "resident"]


def _status(field: str) -> float | None:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = re.search(rf"^{field}:\s+(\d+) kB", text, flags=re.MULTILINE)
    return None if found is None else 1024.0 * int(found.group(1))


def reset_peak() -> None:
    """Forget the high-water mark of this process, where the system lets one."""
    # Linux forgets the high-water mark on request; without it the loading of the data would
    # count, and the mark that getrusage shows even survives from the parent through exec.
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak() -> float:
    """Most memory that this process held at once, in bytes."""
    mark = _status("VmHWM")
    if mark is not None:
        return mark
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def resident() -> float:
    """Memory that this process holds now, in bytes."""
    now = _status("VmRSS")
    return peak() if now is None else now


def anonymous() -> float:
    """Memory that this process holds now and that no file backs, in bytes (0 where unknown).

    Pages of a memory map come and go as the system likes; this leaves them out.
    """
    now = _status("RssAnon")
    return 0.0 if now is None else now


def measured(work: Callable[[], Any], *, enough: float, most: int) -> tuple[dict[str, Any], Any]:
    """Shortest CPU and wall time of some calls, peak memory of the first; and the last's result.

    A short call is repeated until ``enough`` seconds are spent, at most ``most`` times, and the
    shortest time counts: what else the machine does can only add to it.
    """
    reset_peak()
    before = resident()
    seconds: list[float] = []
    walls: list[float] = []
    above, value = 0.0, None
    while sum(walls) < enough and len(walls) < most:
        wall, start = time.perf_counter(), time.process_time()
        value = work()
        seconds.append(time.process_time() - start)
        walls.append(time.perf_counter() - wall)
        if len(walls) == 1:
            above = max(0.0, peak() - before)
    result = {
        "seconds": min(seconds),
        "wall": min(walls),
        "fits": len(walls),
        "peak_mb": above / 2**20,
    }
    return result, value
