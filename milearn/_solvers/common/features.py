"""Explicit features whose inner products approximate those of a kernel (Nystroem's method).

The features of an instance are z(x) = Q' k(L, x) with landmarks L, so that z(x).z(x') is the inner
product of the projections of x and x' onto the span of the landmarks. Features are computed in
blocks and not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from ..._bags.blocks import Block, PassSource
from ..._bags.distinct import row_ranks
from ..._bags.segments import pooling_matrix, segment_index
from .gram import Kernel, Matrix, warn_of_indefinite

# Kernel values that are computed at once and fit into a cache.
_KERNEL_BYTES = 4 * 2**20
# Eigenvalues of the landmarks below this fraction of the largest one are rounding errors.
_NEGLIGIBLE_DIRECTION = 1e-10
AUTO = "auto"


@dataclass(frozen=True)
class FeatureMap:
    """Explicit features of rows by landmarks of a kernel.

    Parameters
    ----------
    kernel : callable
        ``kernel(A, B)`` returns the matrix of shape (len(A), len(B)).
    landmarks : ndarray or CSR of shape (n_landmarks, n_columns)
    factor : ndarray of shape (n_landmarks, dim)
        Q above.
    chosen : ndarray of shape (n_landmarks,)
        Rows of the landmarks in the training instances.
    """

    kernel: Kernel
    landmarks: Matrix
    factor: np.ndarray
    chosen: np.ndarray

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.factor.shape[1])

    @property
    def rows_at_once(self) -> int:
        """Number of rows whose values in the computation of features fit into a cache."""
        return max(1, _KERNEL_BYTES // (8 * len(self.factor)))

    def transform(self, rows: Matrix) -> np.ndarray:
        """Features of rows, (n_rows, dim)."""
        out = np.empty((rows.shape[0], self.factor.shape[1]))
        for part, values in self._values(rows):
            np.matmul(values, self.factor, out=out[part])
        return out

    def lazily(self, rows: Matrix) -> KernelFeatures:
        """Features of rows, of which only the kernel values are computed."""
        return KernelFeatures(np.concatenate([K for _, K in self._values(rows)]), self.factor)

    def sums(self, rows: Matrix, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Weighted sums of features over each bag's rows, (n_bags, dim)."""
        matrix, owner = pooling_matrix(offsets, weights), segment_index(offsets)
        total = np.zeros((len(offsets) - 1, len(self.factor)))
        for part, values in self._values(rows):
            bags = slice(int(owner[part.start]), int(owner[part.stop - 1]) + 1)
            total[bags] += matrix[bags, part] @ values
        return np.asarray(total @ self.factor)

    def _values(self, rows: Matrix) -> Iterator[tuple[slice, np.ndarray]]:
        """Kernel values of some rows at a time with the landmarks."""
        for first in range(0, rows.shape[0], self.rows_at_once):
            some = rows[first : first + self.rows_at_once]
            if not sparse.issparse(some):
                some = np.asarray(some, dtype=np.float64)
            yield slice(first, first + some.shape[0]), self.kernel(some, self.landmarks)


def landmark_features(
    rows: Matrix, kernel: Kernel, n_components: int, rng: np.random.RandomState
) -> FeatureMap:
    """Explicit features by landmarks among the rows.

    Parameters
    ----------
    rows : ndarray or CSR of shape (n, n_columns)
    kernel : callable
        ``kernel(A, B)`` returns the matrix of shape (len(A), len(B)).
    n_components : int
        Number of landmarks, which are all distinct rows if there are not more.
    rng : RandomState

    Returns
    -------
    FeatureMap

    Warns
    -----
    UserWarning
        If the kernel of the landmarks is indefinite.
    """
    chosen = choose_landmarks(rows, n_components, rng)
    landmarks = rows[chosen]
    matrix = np.asarray(kernel(landmarks, landmarks), dtype=np.float64)
    factor, smallest = whitening(matrix)
    if smallest < -1e-10:
        warn_of_indefinite(smallest, "landmarks")
    return FeatureMap(kernel, landmarks, factor, chosen)


def choose_landmarks(rows: Matrix, n_landmarks: int, rng: Any) -> np.ndarray:
    """Indices of rows sampled without replacement from the distinct rows, or all of these.

    The sample does not depend on the order of the rows or on their multiplicity.
    """
    _, first = np.unique(row_ranks(rows), return_index=True)
    if len(first) <= n_landmarks:
        return first
    return np.asarray(first[rng.permutation(len(first))[:n_landmarks]])


def whitening(
    matrix: np.ndarray, negligible: float = _NEGLIGIBLE_DIRECTION
) -> tuple[np.ndarray, float]:
    """Q with Q Q' the inverse of a kernel matrix on its positive part, so that k(x, L) Q are
    features of x, and the smallest eigenvalue as a fraction of the largest."""
    values, vectors = eigh(0.5 * (matrix + matrix.T))
    largest = float(np.abs(values).max())
    keep = values > negligible * largest
    if not keep.any():
        return np.zeros((len(matrix), 1)), 0.0
    return vectors[:, keep] / np.sqrt(values[keep]), float(values[0] / largest)


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

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self.values @ (self.factor @ weights))

    def __rmatmul__(self, left: Any) -> np.ndarray:
        return np.asarray((left @ self.values) @ self.factor)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """The features of some rows."""
        return np.asarray(self.values[rows] @ self.factor)

    def astype(self, dtype: Any) -> np.ndarray:
        """All features."""
        return np.asarray((self.values @ self.factor).astype(dtype, copy=False))


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
    return replace(block, stored=features.lazily(block.instances))


# -- the number of landmarks ----------------------------------------------------------------------


@dataclass(frozen=True)
class ComponentLimits:
    """Sizes up to which a kernel between instances is exact, and the landmarks beyond.

    Up to these sizes exact fits take less than a minute and 2 GB on overlapping classes.

    Attributes
    ----------
    instances : int
        Instances of an exact kernel, whose matrix has one row and column for each.
    bags : int
        Bags of an exact fit, whose quadratic programs have a variable for each.
    landmarks : int
        Number of landmarks above either.
    pairs : float
        Pairs of an instance and an instance of a landmark, if landmarks are bags. There are fewer
        landmarks if they would have more pairs, but at least ``fewest``.
    entries : float
        Features of all instances, if they are in memory; otherwise infinite. There are fewer
        landmarks, but at least ``fewest``, if there would be more features.
    fewest : int
    """

    instances: int = 8_000
    bags: int = 2_000
    landmarks: int = 300
    pairs: float = np.inf
    entries: float = np.inf
    fewest: int = 30


# Of a kernel between bags; of a relaxation, whose time grows with the square of the landmarks; and
# where the features of all instances are in memory, in several copies.
BAG_LIMITS = ComponentLimits(instances=20_000, bags=1_000, pairs=1e9)
RELAXATION_LIMITS = ComponentLimits(instances=6_600, bags=500, landmarks=100)
STORED_LIMITS = ComponentLimits(entries=2**25)


def auto_components(
    n_components: Any, n_bags: int, n_instances: int, limits: ComponentLimits | None = None
) -> int | None:
    """The number of landmarks of a fit; None for the exact kernel.

    Parameters
    ----------
    n_components : int, "auto" or None
        The parameter of an estimator. A number and None are returned as they are.
    n_bags, n_instances : int
        Sizes of the used bags.
    limits : ComponentLimits, default=None

    Returns
    -------
    int or None
    """
    if not isinstance(n_components, str):
        return None if n_components is None else int(n_components)
    limits = ComponentLimits() if limits is None else limits
    if n_instances <= limits.instances and n_bags <= limits.bags:
        return None
    affordable = min(limits.pairs * n_bags / n_instances, limits.entries) / n_instances
    return int(max(min(limits.fewest, limits.landmarks), min(limits.landmarks, affordable)))
