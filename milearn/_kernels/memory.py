"""Available memory, a guard before large matrices, and the size of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
from sklearn import get_config

__all__ = ["available_memory", "block_bytes", "require_memory"]

# A block of this size stays in the processor's cache; larger ones are no faster.
_CACHED_BYTES = 8 * 2**20

_CGROUPS = Path("/sys/fs/cgroup")

# Smaller requests are not checked: reading the system's files takes longer than a small fit.
_UNASKED_BYTES = 2**20


def block_bytes() -> int:
    """Size of a block of kernel values or distances.

    It stays in the processor's cache, and within scikit-learn's ``working_memory``, see
    :func:`sklearn.set_config`.
    """
    return max(1, min(_CACHED_BYTES, int(get_config()["working_memory"] * 2**20)))


def available_memory() -> float:
    """Memory that can be taken without swapping, in bytes.

    What the system has available, page cache that it would give back included, and no more than
    the control group of the process (a container) still allows.
    """
    limits = [float(psutil.virtual_memory().available), *_left_in_groups()]
    return min(limits)


def require_memory(needed: float, what: str, remedy: str) -> None:
    """Refuse what does not fit, before it is begun; a MiB is taken to fit.

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
    if needed <= _UNASKED_BYTES:
        return
    available = available_memory()
    if needed > available:
        raise MemoryError(
            f"{what} takes {needed / 2**20:.0f} MiB and {available / 2**20:.0f} MiB are "
            f"available: {remedy}."
        )


def _left_in_groups() -> Iterator[float]:
    """What the control groups of the process leave, of version 2 and of version 1."""
    for limit, usage, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most = (_CGROUPS / limit).read_text().strip()
            used = int((_CGROUPS / usage).read_text())
            lines = (_CGROUPS / limit).with_name("memory.stat").read_text().splitlines()
        except (OSError, ValueError):
            continue
        if most.isdigit():
            # Page cache counts as usage, and is given back when memory runs short.
            returned = sum(int(line.split()[1]) for line in lines if line.split()[0] == cache)
            yield max(0.0, float(int(most) - used + returned))
