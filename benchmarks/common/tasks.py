"""The record of a task: one schema for every command."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from .memory import Stopwatch
from .records import environment

__all__ = ["SCHEMA", "record_of"]

# 3: "cpu_seconds" and "wall_seconds", in the record and in its result.
SCHEMA = 3


def record_of(task: Any, work: Callable[[Any], dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Do the work of a task and make its record.

    An exception becomes part of the record: one task that fails must neither end a night's run
    nor vanish from its table.

    Parameters
    ----------
    task : dataclass with a ``key``
        Its fields enter the record.
    work : callable
        ``work(task)`` returns the result, which can be written as JSON.
    **fields
        Further fields of the record.

    Returns
    -------
    dict
        ``schema``, ``key``, the task's fields and the further ones, ``versions``; ``result``, or
        ``error`` in words; ``cpu_seconds`` and ``wall_seconds`` of the work in this process, and
        ``warnings``, counted by category.
    """
    record = {
        "schema": SCHEMA,
        "key": task.key,
        **asdict(task),
        **fields,
        "versions": environment(),
    }
    watch = Stopwatch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record["result"] = work(task)
        except Exception as error:
            record["error"] = f"{type(error).__name__}: {error}"
    record.update(watch.seconds())
    record["warnings"] = dict(Counter(item.category.__name__ for item in caught))
    return record
