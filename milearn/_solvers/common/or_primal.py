"""One rule for what double precision allows no dual: a linear problem has its primal behind it.

The weights are w = sum_r a_r x_r. Of features of size 10^8 a non-separable problem has multipliers
that cancel in this sum to more digits than double precision has: a quadratic program over them is
not solved, or w is not the function that its kernel values speak of. The primal has w itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ...exceptions import SolverError

__all__ = ["or_primal"]


class _Solution(Protocol):
    @property
    def objective(self) -> float: ...


S = TypeVar("S", bound=_Solution)


def or_primal(
    dual: Callable[[], S], primal: Callable[[], S], judge: Callable[[S], tuple[bool, float]]
) -> S:
    """The solution of the dual; where that misses its precision, the better one of both.

    Parameters
    ----------
    dual, primal : callable
        Each solves the same problem from the same start.
    judge : callable
        ``judge(found)`` tells of a solution of the dual whether it is as precise as was asked for,
        or was stopped on the way, and the objective that its weights really have: infinite where
        they are not the function that the solution speaks of.

    Raises
    ------
    milearn.exceptions.SolverError
        When the primal is not solved either.
    """
    try:
        found = dual()
    except SolverError:
        return primal()
    precise, objective = judge(found)
    if precise:
        return found
    other = primal()
    return found if objective <= other.objective else other
