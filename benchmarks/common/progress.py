"""A progress bar on stderr: stdout carries the tables alone, so that they can go into a file."""

from __future__ import annotations

import sys

from tqdm import tqdm

__all__ = ["progress_bar"]

# Seconds between two states of a bar in a log, which has no lines that can be overwritten.
_EVERY_IN_A_LOG = 5.0


def progress_bar(total: int, *, done: int = 0, label: str = "") -> tqdm:
    """A bar for ``total`` tasks, ``done`` of them by an earlier run."""
    terminal = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=done,
        desc=label,
        file=sys.stderr,
        dynamic_ncols=terminal,
        mininterval=0.1 if terminal else _EVERY_IN_A_LOG,
    )
