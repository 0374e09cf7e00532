"""Options that every iterative solver of the package understands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

__all__ = ["SolverOptions"]


@dataclass(frozen=True)
class SolverOptions:
    """When an outer iteration stops, and what is called at each step.

    Attributes
    ----------
    tol : float
        Relative decrease of the objective at which to stop.
    max_iter : int
        Maximum number of outer iterations.
    on_iteration : callable or None
        Called with the number of the iteration and the objective; True asks to stop.
    """

    tol: float
    max_iter: int
    on_iteration: Callable[[int, float], bool] | None = None

    def watched_by(self, on_iteration: Callable[[int, float], bool] | None) -> SolverOptions:
        """The same options with another function to call at each step."""
        return replace(self, on_iteration=on_iteration)
