"""Exceptions of the package."""

__all__ = ["SolverError"]


class SolverError(RuntimeError):
    """Error of a solver that did not find a valid solution.

    Raised instead of returning results that violate the optimality conditions. The message contains
    the solver, its status and advice.

    .. versionadded:: 0.1.0

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.exceptions import SolverError
    >>> from milearn.svm import MISVC
    >>> X, y = make_bags(n_bags=20, random_state=0)
    >>> try:
    ...     accuracy = MISVC().fit(X, y).score(X, y)
    ... except SolverError:
    ...     accuracy = float("nan")
    >>> accuracy
    1.0
    """
