"""Working set of patterns of a support vector machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Precision of the first dual problem.
INITIAL_TOL = 1e-7


@dataclass
class WorkingSet:
    """State of a solution, for a warm start of a similar problem."""

    # Of each pattern: -1 outside the working set, 0 at zero, 1 free, 2 at its bound.
    status: np.ndarray
    # Of each group: whether it has several patterns in the working set, whose sum is at its bound.
    tight: np.ndarray
    # Sign and margin of each pattern.
    sign: np.ndarray
    margins: np.ndarray
    # Whether the state comes from a solution.
    warm: bool = False
    # Whether libsvm has reached its limit of steps.
    libsvm_failed: bool = False
    # Whether the residual of a warm start was too large.
    inexact: bool = False
    # Number of patterns that were added or whose signs changed since the last solution.
    changed: int = 0
    # Precision of the last dual problem.
    precision: float = INITIAL_TOL

    @classmethod
    def from_patterns(cls, seeds: np.ndarray, sign: np.ndarray, n_groups: int) -> WorkingSet:
        """A working set of the given patterns, all of them free."""
        status = np.full(len(sign), -1, dtype=np.int8)
        status[seeds] = 1
        return cls(status, np.zeros(n_groups, dtype=bool), sign, np.zeros(len(sign)))

    def with_signs(self, sign: np.ndarray) -> WorkingSet:
        """A start for the same patterns with other signs.

        A pattern whose sign changes is expected at zero if it satisfies its new margin, and
        otherwise at its bound.
        """
        turned = self.sign != sign
        margins = np.where(turned, -self.margins, self.margins)
        status = np.where(turned, np.where(margins > 1.0, 0, 2), self.status).astype(np.int8)
        changed = int((turned & (self.status >= 0)).sum())
        return replace(
            self,
            status=status,
            tight=self.tight.copy(),
            sign=sign,
            margins=margins,
            changed=changed,
            inexact=False,
        )

    def drop(self, clear: np.ndarray) -> None:
        """Remove patterns at zero that satisfy their margin, but keep one pattern of each sign."""
        dropped = (self.status == 0) & clear
        for sign in (1.0, -1.0):
            own = np.flatnonzero((self.status >= 0) & (self.sign == sign))
            if len(own) and dropped[own].all():
                dropped[own[np.argmin(self.margins[own])]] = False
        self.status[dropped] = -1
