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


def _high_water_mark() -> float | None:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = re.search(r"^VmHWM:\s+(\d+) kB", text, flags=re.MULTILINE)
    return None if found is None else 1024.0 * int(found.group(1))


def _reset_high_water_mark() -> bool:
    # Without it the loading of the data would count.
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


class PeakMemory:
    """Largest memory of this process inside of a block.

    Linux keeps a mark of the resident memory and resets it on request; psutil reads none that can
    be reset. Elsewhere, and for another reading, a thread looks every five milliseconds.

    Parameters
    ----------
    reading : callable, default=resident
        Bytes that the process holds now.

    Attributes
    ----------
    before, peak : float
        The reading when the block began, and the largest one inside, in bytes.
    looks : int
        How often the thread looked; 0 where the system kept the mark.
    """

    def __init__(self, reading: Callable[[], float] = resident) -> None:
        self.reading = reading
        self.before = self.peak = 0.0
        self.looks = 0

    def __enter__(self) -> PeakMemory:
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        if self.reading is not resident or not _reset_high_water_mark():
            self._thread = threading.Thread(target=self._watch, daemon=True)
        self.before = self.peak = self.reading()
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._thread is None:
            self.peak = _high_water_mark() or self.reading()
            return
        self._over.set()
        self._thread.join()
        self.peak = max(self.peak, self.reading())

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            self.peak, self.looks = max(self.peak, self.reading()), self.looks + 1

    @property
    def above(self) -> float:
        """The peak above the reading before, in bytes."""
        return max(0.0, self.peak - self.before)


class Stopwatch:
    """CPU and wall time since it was made: the two that every record names."""

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
    enough: float,
    most: int,
    reading: Callable[[], float] = resident,
) -> tuple[dict[str, Any], Any]:
    """Shortest CPU and wall time of some calls, peak memory of the first; and the last's result.

    A short call is repeated until ``enough`` seconds are spent, at most ``most`` times, and the
    shortest time counts: whatever else the computer does can only add to it.
    """
    times: list[dict[str, float]] = []
    spent, value = 0.0, None
    memory = PeakMemory(reading)
    while spent < enough and len(times) < most:
        if times:
            watch = Stopwatch()
            value = work()
            times.append(watch.seconds())
        else:
            with memory:
                watch = Stopwatch()
                value = work()
                times.append(watch.seconds())
        spent += times[-1]["wall_seconds"]
    result = {
        **{name: min(each[name] for each in times) for name in times[0]},
        "fits": len(times),
        "peak_mb": memory.above / 2**20,
        "before_mb": memory.before / 2**20,
        "highest_mb": memory.peak / 2**20,
    }
    return result, value


def limit_cpu(seconds: float | None) -> None:
    """End this process after so many further CPU seconds, where the system can (Linux)."""
    if seconds is not None:
        _limit("RLIMIT_CPU", math.ceil(time.process_time() + seconds))


def limit_memory(mib: float | None) -> None:
    """Refuse memory of this process beyond so many MiB, where the system can (Linux)."""
    if mib is not None:
        _limit("RLIMIT_DATA", int(mib * 2**20))


def _limit(name: str, value: int) -> None:
    process = psutil.Process()
    if hasattr(process, "rlimit"):
        _, hard = process.rlimit(getattr(psutil, name))
        process.rlimit(getattr(psutil, name), (value, hard))
