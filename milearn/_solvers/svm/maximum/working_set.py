"""Working set of patterns of a support vector machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["INITIAL_TOL", "WorkingSet"]

# Precision of the first dual problem.
INITIAL_TOL = 1e-7


@dataclass
class WorkingSet:
    """State of a solution, for a warm start of a neighbouring problem.

    Attributes
    ----------
    status : ndarray of int8, shape (n_patterns,)
        -1 outside the working set, 0 at zero, 1 free, 2 at its bound.
    tight : ndarray of bool, shape (n_groups,)
        Whether a group of several patterns in the working set spends its whole weight.
    sign, margins : ndarray of shape (n_patterns,)
        Sign and margin of each pattern.
    warm : bool
        Whether all of it comes from a solution.
    libsvm_failed : bool
        Whether libsvm has run into its limit of steps.
    inexact : bool
        Whether a solution near that of the problem before had a residual that was too large.
    changed : int
        Patterns added or turned since that solution.
    precision : float
        At which dual problems were last found exact.
    """

    status: np.ndarray
    tight: np.ndarray
    sign: np.ndarray
    margins: np.ndarray
    warm: bool = False
    libsvm_failed: bool = False
    inexact: bool = False
    changed: int = 0
    precision: float = INITIAL_TOL

    @classmethod
    def from_patterns(cls, seeds: np.ndarray, sign: np.ndarray, n_groups: int) -> WorkingSet:
        """The given patterns, all of them free."""
        status = np.full(len(sign), -1, dtype=np.int8)
        status[seeds] = 1
        return cls(status, np.zeros(n_groups, dtype=bool), sign, np.zeros(len(sign)))

    def with_signs(self, sign: np.ndarray) -> WorkingSet:
        """A start for the same patterns with other signs.

        A pattern that changes sides either clears its margin there or, most likely, stands at
        its bound.
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
        """Leave out patterns at zero that clear their margin; of each sign one stays at least.

        They would only make the next problem larger.
        """
        dropped = (self.status == 0) & clear
        for sign in (1.0, -1.0):
            own = np.flatnonzero((self.status >= 0) & (self.sign == sign))
            if len(own) and dropped[own].all():
                dropped[own[np.argmin(self.margins[own])]] = False
        self.status[dropped] = -1
