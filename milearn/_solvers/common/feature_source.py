"""A source of passes whose instances are explicit features, made block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from .nystroem import FeatureMap
from .passes import Block, PassSource

__all__ = ["FeatureSource"]

# Kernel values that are made at once.
_KERNEL_BYTES = 16 * 2**20


class FeatureSource:
    """The features of all instances of a source; those of a block exist while it is looked at.

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
    rows = block.instances
    made: Any = np.empty((rows.shape[0], features.dim))
    step = max(1, _KERNEL_BYTES // (8 * features.width))
    for first in range(0, rows.shape[0], step):
        part = rows[first : first + step]
        if not sparse.issparse(part):
            part = np.asarray(part, dtype=np.float64)
        made[first : first + step] = features.transform(part)
    return replace(block, instances=made)
