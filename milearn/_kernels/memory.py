"""Available memory, a guard before large matrices, and the size of blocks."""

from __future__ import annotations

from pathlib import Path

import psutil
from sklearn import get_config

# A block of this size fits into the processor's cache. Larger blocks are not faster.
_CACHED_BYTES = 8 * 2**20


def block_bytes() -> int:
    """Size of a block of kernel values or distances.

    It fits into the processor's cache and into scikit-learn's ``working_memory``, see
    :func:`sklearn.set_config`.
    """
    return max(1, min(_CACHED_BYTES, int(get_config()["working_memory"] * 2**20)))


def available_memory(group: Path = Path("/sys/fs/cgroup")) -> float:
    """Memory that can be allocated without swapping, in bytes.

    This is the available memory of the system, including reclaimable page cache, limited by the
    control group (version 2) of the process (a container), whose files are in ``group``.
    """
    available = float(psutil.virtual_memory().available)
    try:
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        statistics = dict(map(str.split, (group / "memory.stat").read_text().splitlines()))
    except (OSError, ValueError):
        return available
    # Page cache counts as usage, but is reclaimed if memory is low.
    left = limit - used + int(statistics.get("inactive_file", 0))
    return min(available, max(0.0, float(left)))


def require_memory(needed: float, what: str, remedy: str) -> None:
    """Raise an error if the required memory is not available.

    Up to a MiB is not checked, because reading the system's files takes longer than a small fit.

    Parameters
    ----------
    needed : float
        Bytes.
    what : str
        Subject of the message, such as "The kernel matrix of 3 x 4 bags".
    remedy : str

    Raises
    ------
    MemoryError
    """
    if needed <= 2**20:
        return
    available = available_memory()
    if needed > available:
        raise MemoryError(
            f"{what} takes {needed / 2**20:.0f} MiB and {available / 2**20:.0f} MiB are "
            f"available: {remedy}."
        )
