"""One measurement in a process of its own: ``python -m benchmarks.measure MODULE:FUNCTION JSON``.

A fresh process, because memory that earlier work left behind would hide the next one's peak. It
prints what the function returns for the task, times and memory, as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module


def main(function: str, task: str) -> None:
    """Print the result of a function of a module for a task in JSON."""
    module, _, name = function.partition(":")
    print(json.dumps(getattr(import_module(module), name)(json.loads(task))))


if __name__ == "__main__":
    main(*sys.argv[1:])
