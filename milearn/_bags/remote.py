"""Rows that are in other processes, and methods that compute on bags of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .blocks import Block, stacked
from .container import Bags
from .threads import inner_matrices

Method = Callable[..., Any]


def refusal(who: str, alternative: str = "MISVC(kernel='linear')") -> str:
    """The message for what needs all instances of distributed bags."""
    return (
        f"{who} needs all instances in one process, but these bags lie on the workers of a "
        "cluster: bring them here with bags.compute(), or take what passes over them, such as "
        f"{alternative}."
    )


def check_takes_remote(estimator: Any) -> None:
    """Raise an error for remote bags unless the estimator supports them."""
    takes = getattr(estimator, "_takes_remote_bags", None)
    if takes is None:
        raise TypeError(refusal("This" if estimator is None else type(estimator).__name__))
    if not takes():
        raise TypeError(refusal(type(estimator).__name__, estimator._remote_alternative))


# -- methods over blocks ---------------------------------------------------------------------------


def by_blocks(
    bags: Any, function: Callable[..., Any], *arguments: Any, gives_rows: bool = False
) -> Any:
    """``function(bags, *arguments)``, computed in blocks for remote bags.

    Parameters
    ----------
    bags : Bags
    function : callable
        Returns one result per bag, or one per instance.
    *arguments
    gives_rows : bool, default=False
        Whether the results are row numbers within the bags passed to the function.
    """
    if not bags.is_remote:
        return function(bags, *arguments)
    given = (function, bags.feature_names, gives_rows, arguments)
    return stacked(bags.mapped(_of_block, *given))


def _of_block(
    block: Block,
    function: Callable[..., Any],
    names: np.ndarray | None,
    gives_rows: bool,
    arguments: tuple[Any, ...],
) -> Any:
    found = function(Bags(block.instances, block.offsets, feature_names=names), *arguments)
    return found + block.first_row if gives_rows else found


def over_blocks(*, gives_rows: bool = False) -> Callable[[Method], Method]:
    """Decorator for methods with one result per bag or instance, which then support remote bags."""

    def decorated(method: Method) -> Method:
        local = inner_matrices()(method)

        @wraps(method)
        def of_any(self: Any, X: Any, **others: Any) -> Any:
            if others:
                raise TypeError(f"{type(self).__name__}: {method.__name__} has no {min(others)!r}.")
            if not (isinstance(X, Bags) and X.is_remote):
                return local(self, X)
            check_is_fitted(self)
            return by_blocks(X, _called, self, method.__name__, gives_rows=gives_rows)

        return of_any

    return decorated


def _called(bags: Bags, estimator: Any, name: str) -> Any:
    return getattr(estimator, name)(bags)
