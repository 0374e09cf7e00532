"""Exceptions of the package."""

__all__ = ["SolverError"]


class SolverError(RuntimeError):
    """A solver failed.

    Raised instead of returning results that violate the optimality conditions. The message contains
    the solver, its status and advice.

    .. versionadded:: 0.1.0
    """
