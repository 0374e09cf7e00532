"""Options and budgets of boosting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BoostingOptions:
    """Limits and tolerances of the search for learners, reductions and nodes."""

    # Tolerance for scores above 1 and for violations of reductions.
    tol: float = 1e-6
    # Maximum number of learners in the program, and of reductions.
    n_estimators: int = 1000
    max_rows: int = 50
    # Whether to branch on the disjunctions until the relative gap of the bounds is ``2 * tol``.
    branch: bool = False
    # Maximum number of nodes of the search tree.
    max_nodes: int = 1000
    # If there are more coefficients of learners in rows than this, no reductions are added, and the
    # products of numbers in all Newton steps of a fit are limited.
    large_entries: int = 2**21
    max_products: int = 3 * 2**37


def auto_learners(n_rows: int, products: int = 2**31) -> int:
    """The number of learners for ``n_estimators="auto"``, between 50 and 1,000.

    The cost of a Newton step is the number of rows times the square of the number of learners. It
    is limited to ``products``.
    """
    return int(np.clip(np.sqrt(products / max(1, n_rows)), 50, 1000))


class Budget:
    """Rule for an early stop: after a number of seconds, or by a callback.

    Parameters
    ----------
    time_limit : float, default=None
        Seconds from now.
    on_iteration : callable, default=None
        ``on_iteration(iteration, objective, **facts)`` is called at every report; it returns True
        to stop.
    clock : callable, default=time.monotonic
        Returns the time in seconds.

    Attributes
    ----------
    reason : {"", "time_limit", "callback", "work"}
        Reason why the budget is exhausted.
    cut : str
        The reason, if work was skipped because of it.
    spent : int
        Products of numbers so far.
    """

    def __init__(
        self,
        time_limit: float | None = None,
        on_iteration: Callable[..., bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._end = np.inf if time_limit is None else clock() + time_limit
        self._on_iteration = on_iteration
        self._n_reports = 0
        self.reason = ""
        self.cut = ""
        self.spent = 0

    def spend(self, products: int, limit: int) -> None:
        """Add products of numbers; beyond the limit the budget is exhausted."""
        self.spent += products
        if self.spent > limit and not self.reason:
            self.reason = "work"

    def stops(self) -> bool:
        """Whether remaining work has to be skipped; if so, the reason is stored in ``cut``."""
        if not self.reason and self._clock() >= self._end:
            self.reason = "time_limit"
        self.cut = self.reason
        return bool(self.cut)

    def report(self, objective: float, **facts: float) -> None:
        """Report an iteration to the callback, which may ask to stop."""
        self._n_reports += 1
        if self._on_iteration is None:
            return
        if self._on_iteration(self._n_reports, objective, **facts) and not self.reason:
            self.reason = "callback"
