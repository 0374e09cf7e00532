"""A progress bar: tqdm's on a terminal when it is importable, else plain lines on stderr."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

__all__ = ["Progress"]


class Progress:
    """Counts finished tasks.

    Parameters
    ----------
    total : int
        Tasks in all.
    done : int, default=0
        Tasks that an earlier run finished; the estimate of the time left ignores them.
    label : str
    stream : text stream, default=stderr
        stdout carries the tables alone, so that they can be piped into a file.
    every : float, default=5
        Seconds between two plain lines: a bar redrawn by carriage returns fills a log file.
    """

    def __init__(
        self,
        total: int,
        *,
        done: int = 0,
        label: str = "",
        stream: TextIO | None = None,
        every: float = 5.0,
    ) -> None:
        self.total = total
        self.done = self.start = done
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.every = every
        self._begin = self._shown = time.monotonic()
        self._bar: Any = None
        if self.stream.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._bar = tqdm(
                total=total, initial=done, desc=label, file=self.stream, dynamic_ncols=True
            )

    def advance(self, what: str = "") -> None:
        """One task more is finished; ``what`` names it."""
        self.done += 1
        if self._bar is not None:
            self._bar.set_postfix_str(what, refresh=False)
            self._bar.update(1)
            return
        now = time.monotonic()
        if self.done == self.total or now - self._shown >= self.every:
            self._shown = now
            left = (now - self._begin) / (self.done - self.start) * (self.total - self.done)
            print(
                f"{self.label} {self.done}/{self.total}, about {left:.0f} s left  {what}".rstrip(),
                file=self.stream,
                flush=True,
            )

    def write(self, message: str) -> None:
        """A line that does not tear the bar."""
        if self._bar is not None:
            self._bar.write(message, file=self.stream)
        else:
            print(message, file=self.stream, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
