"""A source of passes over explicit features, computed block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from .nystroem import FeatureMap
from .passes import Block, PassSource

__all__ = ["FeatureSource", "KernelFeatures", "rows_at_once"]

# Number of kernel values that are computed at once and fit into a cache.
_KERNEL_BYTES = 4 * 2**20


class FeatureSource:
    """The features of all instances of a source, with one block of kernel values in memory.

    Parameters
    ----------
    source : PassSource
    features : FeatureMap
    """

    def __init__(self, source: PassSource, features: FeatureMap) -> None:
        self.source, self.features = source, features
        self.n_bags, self.n_instances = source.n_bags, source.n_instances
        self.n_features, self.offsets = features.dim, source.offsets
        self.dtype: np.dtype[Any] = np.dtype(np.float64)

    def map(
        self, function: Callable[..., Any], *arguments: Any, in_parts: bool = False
    ) -> list[Any]:
        """``function(block, *arguments)`` for every block of features, in their order."""
        given = self.features, function, arguments
        return self.source.map(_of_features, *given, in_parts=in_parts)

    def fold(self, function: Callable[..., Any], state: Any, *arguments: Any) -> Any:
        """The last ``state = function(state, block, *arguments)``; large bags come in parts."""
        return self.source.fold(_folded, state, self.features, function, arguments)

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """The features of the given instances."""
        return np.asarray(self.features.transform(self.source.gather(rows)))


def _of_features(
    block: Block, features: FeatureMap, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    return function(_featured(block, features), *arguments)


def _folded(
    state: Any,
    block: Block,
    features: FeatureMap,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> Any:
    return function(state, _featured(block, features), *arguments)


def _featured(block: Block, features: FeatureMap) -> Block:
    return replace(block, stored=KernelFeatures.of_rows(block.instances, features))


def _dense(rows: Any) -> Any:
    return rows if sparse.issparse(rows) else np.asarray(rows, dtype=np.float64)


def rows_at_once(features: FeatureMap) -> int:
    """Maximum number of rows of a block such that its kernel values fit into a cache."""
    return max(1, _KERNEL_BYTES // (8 * features.width))


class KernelFeatures:
    """Features K Q of rows with kernel values K; products do not compute the whole matrix.

    K costs one exponential per entry, and K Q costs many times more. Scores are therefore computed
    as K (Q w), and features only for the requested rows.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_landmarks), the K above
    factor : ndarray of shape (n_landmarks, dim), the Q above
    """

    # Makes products with a sparse matrix on the left use __rmatmul__.
    __array_ufunc__ = None

    def __init__(self, values: np.ndarray, factor: np.ndarray) -> None:
        self.values, self.factor = values, factor
        self.shape = len(values), int(factor.shape[1])
        self.dtype: np.dtype[Any] = np.dtype(np.float64)

    @classmethod
    def of_rows(cls, rows: Any, features: FeatureMap) -> Any:
        """The features of rows of any type; the rows themselves if they are the features."""
        if features.kernel is None:
            return rows
        step = rows_at_once(features)
        parts = [
            features.kernel(_dense(rows[first : first + step]), features.landmarks)
            for first in range(0, rows.shape[0], step)
        ]
        values = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return cls(values, features.factor)

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self.values @ (self.factor @ weights))

    def __rmatmul__(self, left: Any) -> np.ndarray:
        return np.asarray((left @ self.values) @ self.factor)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """The features of some rows."""
        return np.asarray(self.values[rows] @ self.factor)

    @property
    def T(self) -> _Transposed:
        """The transpose, for products with one weight per row."""
        return _Transposed(self)

    def astype(self, dtype: Any) -> np.ndarray:
        """All features."""
        return np.asarray((self.values @ self.factor).astype(dtype, copy=False))


class _Transposed:
    """The transpose of the features of some rows."""

    __array_ufunc__ = None

    def __init__(self, features: KernelFeatures) -> None:
        self.features = features

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self.features.factor.T @ (self.features.values.T @ weights))
