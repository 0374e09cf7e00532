"""What the machines of this package share around a solver: kernel values, reports, results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._solvers.common.gram import KernelGram, LinearGram, clipped_gram

__all__ = ["Runs", "training_gram"]


def training_gram(
    rows: Any,
    name: str | Callable,
    kernel: Callable[[Any, Any], np.ndarray],
    semidefinite: bool,
    cache_bytes: float,
    *,
    stacklevel: int,
) -> LinearGram | KernelGram:
    """Inner products of training rows; an indefinite kernel loses its negative part and warns."""
    if name == "linear":
        return LinearGram(rows)
    gram = KernelGram(rows, kernel, int(cache_bytes))
    if semidefinite:
        return gram
    gram, share = clipped_gram(gram)
    if share < 0:
        warnings.warn(
            "The kernel matrix of the training instances is indefinite (its smallest "
            f"eigenvalue is {share:.1e} of the largest): its negative part was dropped.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    return gram


class Runs:
    """Mixin: what is reported, stored and warned of runs of the concave-convex procedure."""

    verbose: bool | int
    max_iter: int

    def _reporter(self, part: Any, number: int, n_runs: int) -> Callable[[int, float], bool]:
        def report(iteration: int, objective: float) -> bool:
            if self.verbose:
                print(
                    f"[{type(self).__name__}] run {number + 1}/{n_runs}, iteration {iteration}: "
                    f"objective {objective:.6g}"
                )
            return part.step()

        return report

    def _store_run(self, results: list[Any]) -> None:
        """Plain values for a single problem, one entry a problem for several."""
        single = len(results) == 1

        def values(name: str) -> Any:
            found = [getattr(result, name) for result in results]
            return found[0] if single else np.array(found)

        self.objective_ = values("objective")
        histories = [np.array(result.history) for result in results]
        self.objective_history_ = histories[0] if single else histories
        self.gap_ = values("gap")
        self.n_iter_ = values("n_iter")
        self.converged_ = values("converged")

    def _warn_of(self, results: list[Any], tol: float, *, stacklevel: int) -> None:
        """Warn where a run did not settle, or a convex step missed its precision."""
        name = type(self).__name__
        open_ended = sum(not result.converged for result in results)
        if open_ended:
            warnings.warn(
                f"{name} stopped at max_iter={self.max_iter} before it settled in {open_ended} of "
                f"{len(results)} problem(s): raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=stacklevel + 1,
            )
        worst = max(result.gap / max(result.objective, 1e-300) for result in results)
        if worst > tol:
            warnings.warn(
                f"A convex step of {name} was solved to a relative duality gap of {worst:.1e} "
                f"only (tol={tol:.1e}): scale the features, lower C, or raise tol.",
                ConvergenceWarning,
                stacklevel=stacklevel + 1,
            )
