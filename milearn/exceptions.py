"""Exceptions of the package."""

__all__ = ["SolverError"]


class SolverError(RuntimeError):
    """A solver ended without a solution.

    Raised instead of returning numbers that no optimality condition backs. The message names the
    solver, its status and what to try.
    """
