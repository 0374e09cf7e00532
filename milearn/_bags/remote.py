"""Bags whose instances are in other processes, and methods that compute on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .blocks import Block, PassSource, stacked
from .canonical import bag_positions, is_full
from .container import Bags
from .threads import inner_matrices

Method = Callable[..., Any]


class RemoteBags:
    """Base class of bags of which only the sizes are in this process.

    To scikit-learn they look like a matrix with one row per bag, and selections are lazy. Only
    algorithms that pass over a :meth:`source` support them; for others use :meth:`compute`.

    Attributes
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        First row of each bag and the number of instances.
    shape : tuple of int
        Number of bags and of features.
    dtype : numpy.dtype
        Type of the instance values.
    is_sparse : bool
        Whether the instances are CSR.
    feature_names : ndarray of str or None
    """

    is_remote = True
    ndim = 2
    offsets: np.ndarray
    shape: tuple[int, int]
    dtype: np.dtype
    is_sparse: bool
    feature_names: np.ndarray | None

    # Blocks in this process or of the workers, see PassSource: ``source(block_bytes, dtype)``.
    source: Callable[..., PassSource]
    # ``mapped(function, *arguments)``: ``function(block, *arguments)`` for blocks of the workers.
    mapped: Callable[..., list[Any]]
    # ``transformed(function, *arguments)``: remote bags of the results for each part.
    transformed: Callable[..., Any]
    # These bags, or as Bags if they are small enough for this process.
    local: Callable[[], Any]
    # The same bags without the names of their features.
    unnamed: Callable[[], Any]
    # The bags as Bags in the memory of this process.
    compute: Callable[[], Bags]
    _selected: Callable[[np.ndarray], Any]

    @property
    def sizes(self) -> np.ndarray:
        """Number of instances in each bag, shape (n_bags,)."""
        return np.diff(self.offsets)

    @property
    def n_instances(self) -> int:
        """Number of instances in all bags."""
        return int(self.offsets[-1])

    @property
    def instances(self) -> NoReturn:
        """Not supported, because the instances are not in this process."""
        raise TypeError(_refusal("This"))

    instance_rows = instances

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """The selected bags, which are still remote, or the instances of a bag for an integer."""
        if isinstance(key, tuple):
            if len(key) != 2 or not is_full(key[1]):
                raise IndexError("Distributed bags are selected by bags, not by features.")
            key = key[0]
        if is_full(key):
            return self
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            positions = bag_positions([int(key)], len(self))
            return self._selected(positions).compute()[0]
        if isinstance(key, slice):
            key = np.arange(*key.indices(len(self)))
        return self._selected(bag_positions(key, len(self)))

    def __iter__(self) -> NoReturn:
        raise TypeError(_refusal("A loop over bags"))

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError(_refusal("NumPy"))

    def __repr__(self) -> str:
        sizes = self.sizes
        span = f"{sizes.min()}..{sizes.max()}" if len(self) else "none"
        return (
            f"{type(self).__name__}(n_bags={len(self)}, n_instances={self.n_instances}, "
            f"n_features={self.shape[1]}, sizes={span}, dtype={self.dtype}"
            + (", sparse)" if self.is_sparse else ")")
        )


def _refusal(who: str, alternative: str = "MISVC(kernel='linear')") -> str:
    return (
        f"{who} needs all instances in one process, but these bags lie on the workers of a "
        "cluster: bring them here with bags.compute(), or take what passes over them, such as "
        f"{alternative}."
    )


def check_takes_remote(estimator: Any) -> None:
    """Raise an error for remote bags unless the estimator supports them."""
    takes = getattr(estimator, "_takes_remote_bags", None)
    if takes is None:
        raise TypeError(_refusal("This" if estimator is None else type(estimator).__name__))
    if not takes():
        raise TypeError(_refusal(type(estimator).__name__, estimator._remote_alternative))


# -- methods over blocks ---------------------------------------------------------------------------


def by_blocks(
    bags: Any, function: Callable[..., Any], *arguments: Any, gives_rows: bool = False
) -> Any:
    """``function(bags, *arguments)``, computed in blocks for remote bags.

    Parameters
    ----------
    bags : Bags or RemoteBags
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
        local = inner_matrices(method)

        @wraps(method)
        def of_any(self: Any, X: Any, **others: Any) -> Any:
            if others:
                raise TypeError(f"{type(self).__name__}: {method.__name__} has no {min(others)!r}.")
            if not isinstance(X, RemoteBags):
                return local(self, X)
            check_is_fitted(self)
            return by_blocks(X, _called, self, method.__name__, gives_rows=gives_rows)

        return of_any

    return decorated


def _called(bags: Bags, estimator: Any, name: str) -> Any:
    return getattr(estimator, name)(bags)
