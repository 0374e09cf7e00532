"""Results as JSON lines: written as they come, read back so that a second run goes on.

One record is one line. A line is written by a single call and flushed to the disk before the
next task's result is taken, so that a run that is stopped loses at most the task in progress. A
line that does not parse (the disk was full, the power went out, somebody edited the file) is
reported and skipped, never fatal: its task is simply run again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .memory import Stopwatch
from .output import UNKNOWN, Page, kept_page

# 3: "cpu_seconds" and "wall_seconds", in the record and in its result.
SCHEMA = 3
_PACKAGES = ("milearn", "scikit-learn", "numpy", "scipy", "qpsolvers", "osqp", "joblib")


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr)


class RecordFile:
    """A file of JSON lines with one record per task, known by the record's ``key``.

    Parameters
    ----------
    path : Path
        The file; its folder is made when the first record is written.
    fresh : bool, default=False
        Whether to start anew. The old file is kept beside the new one as ``*.old``: hours of
        work should not hang on one option.
    report : callable, default: print on stderr
        Takes the sentences about lines that were skipped.
    """

    def __init__(
        self, path: Path, *, fresh: bool = False, report: Callable[[str], None] = _to_stderr
    ) -> None:
        self.path = Path(path)
        self.report = report
        self._lock = FileLock(f"{self.path}.lock", timeout=0)
        if fresh and self.path.exists():
            self.path.replace(self.path.with_name(self.path.name + ".old"))

    def read(self) -> dict[str, dict[str, Any]]:
        """Records by key; of several with one key the last one counts."""
        records: dict[str, dict[str, Any]] = {}
        if not self.path.exists():
            return records
        for number, line in enumerate(self.path.read_bytes().splitlines(), start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode("utf-8"))
            except (UnicodeDecodeError, json.JSONDecodeError) as error:
                reason = getattr(error, "msg", None) or getattr(error, "reason", "unreadable")
                self.report(f"{self.path.name}, line {number} skipped: no JSON record ({reason}).")
                continue
            if not isinstance(record, dict) or not isinstance(record.get("key"), str):
                self.report(f"{self.path.name}, line {number} skipped: a record without a key.")
                continue
            records[record["key"]] = record
        return records

    def append(self, record: dict[str, Any]) -> None:
        """Write one record and wait until it is on the disk."""
        if not isinstance(record.get("key"), str):
            raise ValueError("A record needs a key.")
        line = json.dumps(record, sort_keys=True, allow_nan=False).encode("utf-8") + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+", buffering=0) as file:
            # A run that was killed in the middle of a line leaves it without an end: without
            # this the next record would be glued to it and lost as well.
            if file.seek(0, os.SEEK_END) > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())

    def __enter__(self) -> RecordFile:
        """Hold the file for this run: two runs at once would do every task twice."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise SystemExit(
                f"Another run is writing to {self.path.name}: wait for it, or choose another "
                "folder with --out."
            ) from error
        return self

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


def digest(value: Any) -> str:
    """Short fingerprint of a JSON-able value: settings that differ give keys that differ."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:10]


@cache
def source_digest() -> str:
    """Fingerprint of the package's source.

    The version of a development checkout stays the same while its code changes; this tells
    results of one state from those of another.
    """
    import milearn

    folder = Path(milearn.__file__).resolve().parent
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(path.relative_to(folder).as_posix().encode("utf-8"))
        total.update(path.read_bytes())
    return total.hexdigest()[:10]


@cache
def commit() -> str:
    """The commit of the checkout, with ``-dirty`` where files were changed since."""
    folder = Path(__file__).resolve().parents[2]
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
    except OSError:  # no git here
        return "not recorded"
    return done.stdout.strip() if done.returncode == 0 else "not recorded"


def processor() -> str:
    """The model of the processor, as the system names it."""
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text("utf-8"))
    except OSError:  # another system
        found = None
    return found[1] if found else platform.processor() or UNKNOWN


@cache
def environment() -> dict[str, str]:
    """Versions and the processor, on which a result depends; nothing that identifies the user."""
    versions = {"python": platform.python_version(), "milearn_source": source_digest()}
    versions["processor"] = processor()
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def mixed_sources(records: Iterable[dict[str, Any]]) -> int:
    """How many records were made by another state of the package than the present one."""
    now = source_digest()
    return sum(record.get("versions", {}).get("milearn_source") != now for record in records)


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


@contextmanager
def recorded_page(path: Path, command: str) -> Iterator[None]:
    """What is shown and said inside is kept for ``report``, with the state that it comes from."""
    page = Page(command=f"python -m benchmarks {command}", commit=commit())
    page.versions = {
        name: value for name, value in environment().items() if name != "milearn_source"
    }
    with kept_page(path, page):
        yield
        if page.milearn_source == UNKNOWN:
            page.milearn_source = source_digest()
