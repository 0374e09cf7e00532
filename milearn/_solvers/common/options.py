"""Options of the iterative solvers of the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class SolverOptions:
    """Stopping criteria of an outer iteration, and a callback for each step."""

    # Relative decrease of the objective at which to stop.
    tol: float
    # Maximum number of outer iterations.
    max_iter: int
    # Called with the number of the iteration and the objective; True asks to stop.
    on_iteration: Callable[[int, float], bool] | None = None

    def watched_by(self, on_iteration: Callable[[int, float], bool] | None) -> SolverOptions:
        """The options with another function to call at each step."""
        return replace(self, on_iteration=on_iteration)

    def after(self, n_iter: int) -> SolverOptions:
        """The same options for a run that follows one of so many iterations."""
        watch = self.on_iteration
        if watch is None:
            return self
        return self.watched_by(lambda n, value: watch(n_iter + n, value))
