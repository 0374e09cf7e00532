"""Memory and time of the running process."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

_LOOK_EVERY = 0.005


def resident() -> float:
    """Memory that this process holds now, in bytes."""
    return float(psutil.Process().memory_info().rss)


def anonymous() -> float:
    """Memory that this process holds now and that no file backs, in bytes.

    Pages of a memory map come and go as the system likes; this leaves them out, where the system
    counts them (Linux), and is the same as :func:`resident` elsewhere.
    """
    now = psutil.Process().memory_info()
    return float(now.rss - getattr(now, "shared", 0))


def _high_water_mark() -> float:
    text = Path("/proc/self/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB", text, flags=re.MULTILINE)
    return 1024.0 * int(found[1]) if found else resident()


def _reset_high_water_mark() -> bool:
    # Without it the loading of the data would count.
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


class PeakMemory:
    """Largest memory of this process inside of a block, in MiB, and its CPU and wall time.

    Linux keeps a mark of the resident memory and resets it on request. Elsewhere, and for another
    reading, a thread looks every five milliseconds.

    Parameters
    ----------
    reading : callable, default=resident
        Bytes that the process holds now.
    """

    def __init__(self, reading: Callable[[], float] = resident) -> None:
        self.reading = reading

    def __enter__(self) -> PeakMemory:
        self._over, self._thread = threading.Event(), None
        if self.reading is not resident or not _reset_high_water_mark():
            self._thread = threading.Thread(target=self._watch, daemon=True)
        self._before = self._peak = self.reading()
        if self._thread is not None:
            self._thread.start()
        self.watch = Stopwatch()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds = self.watch.seconds()
        if self._thread is None:
            self._peak = _high_water_mark()
            return
        self._over.set()
        self._thread.join()
        self._peak = max(self._peak, self.reading())

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            self._peak = max(self._peak, self.reading())

    @property
    def found(self) -> dict[str, float]:
        """Times, and memory before, at the peak, and of the peak above that before."""
        above = max(0.0, self._peak - self._before)
        named = {"before_mb": self._before, "highest_mb": self._peak, "peak_mb": above}
        return {**self.seconds, **{name: value / 2**20 for name, value in named.items()}}


class Stopwatch:
    """CPU and wall time since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def seconds(self, prefix: str = "") -> dict[str, float]:
        """``{"cpu_seconds": ..., "wall_seconds": ...}``, with a prefix before the names."""
        return {
            f"{prefix}cpu_seconds": round(time.process_time() - self._cpu, 6),
            f"{prefix}wall_seconds": round(time.perf_counter() - self._wall, 6),
        }


def measured(
    work: Callable[[], Any],
    *,
    enough: float = 0.5,
    most: int = 5,
    reading: Callable[[], float] = resident,
) -> tuple[dict[str, Any], Any]:
    """Shortest CPU and wall time of some calls, memory of the first; and the last's result.

    A short call is repeated until ``enough`` seconds are spent, at most ``most`` times, and the
    shortest time counts: whatever else the computer does can only add to it.
    """
    with PeakMemory(reading) as memory:
        value = work()
    times = [memory.seconds]
    while sum(each["wall_seconds"] for each in times) < enough and len(times) < most:
        watch = Stopwatch()
        value = work()
        times.append(watch.seconds())
    return memory.found | {name: min(each[name] for each in times) for name in times[0]}, value


def limit_cpu(seconds: float) -> None:
    """End this process after so many further CPU seconds, where the system can (Linux)."""
    _limit("RLIMIT_CPU", math.ceil(time.process_time() + seconds))


def limit_memory(mib: float) -> None:
    """Refuse memory of this process beyond so many MiB, where the system can (Linux)."""
    _limit("RLIMIT_DATA", int(mib * 2**20))


def _limit(name: str, value: int) -> None:
    process = psutil.Process()
    if hasattr(process, "rlimit"):
        _, hard = process.rlimit(getattr(psutil, name))
        process.rlimit(getattr(psutil, name), (value, hard))
