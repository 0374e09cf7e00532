"""Memory of the running process, as the system counts it."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

__all__ = ["anonymous", "peak", "reset_peak", "resident"]


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
