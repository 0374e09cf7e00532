"""Kernels between bags, from a kernel between instances, in blocks that fit into memory.

After Gaertner, Flach, Kowalczyk & Smola (2002), with s(A, B) the sum of k(x, z) over all pairs:

    "set"             s(A, B)
    "mean_set"        s(A, B) / (n_A n_B)
    "normalized_set"  s(A, B) / sqrt(s(A, A) s(B, B))
    "minmax"          k(t(A), t(B)),  t(B) = (minimum, maximum of each feature)

The first three are inner products of scaled sums of images, t_B sum_x phi(x). They only need the
scales t_B and sums over rows of the kernel matrix of the instances, which is computed in blocks and
not stored.

Other kernels between bags compare one vector of each bag, with medians as their widths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import delayed
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.preprocessing import normalize

from .._bags.blocks import BLOCK_BYTES
from .._bags.canonical import canonical_csr
from .._bags.distinct import row_ranks
from .._bags.segments import (
    StoredRuns,
    bag_ranges,
    pooling_matrix,
    segment_index,
    segment_max,
    segment_mean,
    segment_min,
    without_rounding,
)
from .._bags.threads import Parallel
from .memory import block_bytes as cached_bytes
from .pairs import block_shape, own_sums, side_of, squares

BAG_KERNELS = ("normalized_set", "set", "mean_set", "minmax")

# Above these numbers of bags and of instances, medians are computed from the pairs of a sample. For
# bags, unlike instances, all distances are already known.
_SAMPLE = 1000
_SAMPLE_ROWS = 500
# Distances below this fraction of the largest one are zero up to rounding.
_NEGLIGIBLE = 1e-14
# Offsets of rows that are not bags.
_ALONE = np.zeros(1, dtype=np.intp)

Kernel = Callable[[Any, Any], np.ndarray]


def bag_scales(
    name: str, instances: Any, offsets: np.ndarray, kernel: Kernel, *, what: str = "Bag"
) -> np.ndarray:
    """The scale t_B of each bag, shape (n_bags,); zero for a bag whose image is zero.

    Raises
    ------
    ValueError
        If a bag is normalised by a negative similarity to itself.
    """
    n_bags = len(offsets) - 1
    if name in ("set", "minmax"):
        return np.ones(n_bags)
    if name == "mean_set":
        return 1.0 / np.diff(offsets)
    own = own_sums(lambda of, to: kernel(instances[of], instances[to]), offsets, np.asarray)
    return normalising_scales(own, what)


def normalising_scales(own: np.ndarray, what: str = "Bag") -> np.ndarray:
    """1 / sqrt(s(B, B)) of each bag, shape (n_bags,); zero where that similarity is zero.

    Raises
    ------
    ValueError
        If a bag has a negative similarity to itself.
    """
    if (own < 0).any():
        bag = int(np.argmax(own < 0))
        raise ValueError(
            f"{what} {bag} has the similarity {own[bag]:.3g} with itself, by which the normalised "
            "set kernel would divide: choose another bag_kernel, or a kernel that is positive "
            "semidefinite."
        )
    scale = np.zeros(len(own))
    np.divide(1.0, np.sqrt(own), out=scale, where=own > 0)
    return scale


def instance_scales(name: str, instances: Any, kernel: Kernel) -> np.ndarray:
    """The scale of each instance as a bag of one, shape (n_instances,)."""
    alone = np.arange(instances.shape[0] + 1)
    return bag_scales(name, instances, alone, kernel, what="Instance")


def minmax_vectors(instances: Any, offsets: np.ndarray, *, keep_sparse: bool = False) -> Any:
    """Minimum and maximum of each feature of each bag, shape (n_bags, 2 * n_features).

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    keep_sparse : bool, default=False
        Whether the result for CSR instances is CSR, which needs the memory of their entries instead
        of :func:`minmax_bytes`.

    Returns
    -------
    ndarray, or CSR with ``keep_sparse`` for CSR instances
    """
    if sparse.issparse(instances):
        runs = StoredRuns(instances, offsets)
        parts = [runs.matrix(runs.extreme(name)) for name in ("min", "max")]
        # Some of scikit-learn's kernels only accept 32-bit indices.
        extremes = canonical_csr(sparse.hstack(parts, format="csr", dtype=np.float64))
        return extremes if keep_sparse else extremes.toarray()
    lowest, highest = segment_min(instances, offsets), segment_max(instances, offsets)
    return np.concatenate([lowest, highest], axis=1).astype(np.float64, copy=False)


def minmax_bytes(n_bags: int, n_features: int) -> int:
    """Size of the dense matrix of :func:`minmax_vectors`."""
    return 16 * n_bags * n_features


# -- one vector for each bag -----------------------------------------------------------------------


def bag_vectors(name: str, instances: Any, offsets: np.ndarray) -> Any:
    """A vector for each bag: its means, its extremes, or four statistics of each feature.

    Parameters
    ----------
    name : {"mean", "minmax", "statistics"}
        "minmax" is minimum and maximum, "statistics" minimum, maximum, mean and standard
        deviation, in this order.
    instances : ndarray, CSR or rows of a file, of shape (n_instances, n_features)
        Rows that are not in memory are read in blocks of bags.
    offsets : ndarray of shape (n_bags + 1,)

    Returns
    -------
    ndarray or CSR of shape (n_bags, k * n_features), float64
        CSR for CSR instances.
    """
    if not (sparse.issparse(instances) or isinstance(instances, np.ndarray)):
        at_once = max(1, BLOCK_BYTES // (8 * max(1, instances.shape[1])))
        parts = [
            bag_vectors(
                name,
                instances[int(offsets[first]) : int(offsets[last])],
                offsets[first : last + 1] - offsets[first],
            )
            for first, last in bag_ranges(offsets, at_once)
        ]
        return np.concatenate(parts)
    if name == "minmax":
        return minmax_vectors(instances, offsets, keep_sparse=True)
    if sparse.issparse(instances):
        means = _pooled(instances, offsets)
        if name == "mean":
            return means
        # For sparse rows, the mean of squares minus the squared mean does not lose digits.
        variance = _pooled(instances.power(2), offsets) - means.power(2)
        variance.data = np.maximum(variance.data, 0.0)
        # The difference of both is no rounding error only where values differ.
        extremes = minmax_vectors(instances, offsets, keep_sparse=True)
        low, high = extremes[:, : means.shape[1]], extremes[:, means.shape[1] :]
        variance = variance.multiply(low != high).tocsr()
        return sparse.hstack([extremes, means, variance.sqrt()], format="csr")
    means = segment_mean(instances.astype(np.float64, copy=False), offsets)
    if name == "mean":
        return means
    deviations = instances - means[segment_index(offsets)]
    deviations *= deviations
    spread = without_rounding(np.sqrt(segment_mean(deviations, offsets)), means)
    return np.concatenate([minmax_vectors(instances, offsets), means, spread], axis=1)


def _pooled(instances: Any, offsets: np.ndarray) -> Any:
    return sparse.csr_array(pooling_matrix(offsets) @ sparse.csr_array(instances, dtype=np.float64))


def unit_rows(matrix: Any) -> Any:
    """Rows divided by their Euclidean lengths; rows of zeros stay."""
    return normalize(matrix.astype(np.float64), copy=False)


def cosines(left: Any, right: Any) -> np.ndarray:
    """Cosines of the angles between rows, zero for a row of zeros."""
    product = unit_rows(left) @ unit_rows(right).T
    values = product.toarray() if sparse.issparse(product) else np.asarray(product)
    # Rounding depends on the side.
    return 0.5 * (values + values.T) if left is right else values


def squared_distances(left: Any, right: Any) -> np.ndarray:
    """Squared Euclidean distances between rows, exactly zero where they are equal."""
    out = np.empty((left.shape[0], right.shape[0]))
    # In float64: that of float16 rows would have three digits.
    centre = None if sparse.issparse(right) else right.mean(axis=0, dtype=np.float64)
    height, width = block_shape()
    for top in range(0, out.shape[0], height):
        of = slice(top, min(top + height, out.shape[0]))
        rows = side_of(left[of], _ALONE, centre)
        for start in range(top if left is right else 0, out.shape[1], width):
            to = slice(start, min(start + width, out.shape[1]))
            # Recomputed for each block, which is fast and saves the memory of a copy.
            columns = side_of(right[to], _ALONE, centre, right=True)
            out[of, to] = squares(rows, columns, slice(0, None), slice(0, None))
        if left is right:
            out[of, of] = 0.5 * (out[of, of] + out[of, of].T)
            out[of.stop :, of] = out[of, of.stop :].T
    return out


def l1_distances(left: Any, right: Any, n_jobs: int | None = None) -> np.ndarray:
    """Distances between rows by the sum of absolute differences."""
    if sparse.issparse(left) or sparse.issparse(right):
        # scikit-learn requires 32-bit indices here.
        return manhattan_distances(canonical_csr(left), canonical_csr(right))
    step = max(1, cached_bytes() // (8 * max(1, len(right))))
    parts = Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(
        delayed(cdist)(left[first : first + step], right, "cityblock")
        for first in range(0, len(left), step)
    )
    return np.concatenate(parts)


def median_of_rows(
    rows: Any, laplacian: bool, random_state: Any, *, sample: int = _SAMPLE_ROWS
) -> float:
    """Median over pairs of rows of their squared distance, or of the 1-norm of their difference.

    For many rows, only the pairs of a sample are used; see :func:`median_of_pairs`.
    """
    n = rows.shape[0]
    if n > sample:
        # Sample by contents, so that the result does not depend on the order of instances.
        ranked = np.argsort(row_ranks(rows), kind="stable")
        rows = rows[ranked[random_state.choice(n, sample, replace=False)]]
    distances = l1_distances(rows, rows) if laplacian else squared_distances(rows, rows)
    return median_of_pairs(distances, random_state)


def median_of_pairs(distances: np.ndarray, random_state: Any, *, sample: int = _SAMPLE) -> float:
    """Median over the pairs of different objects, from the symmetric matrix of their distances.

    If it is zero, because most pairs are equal, the median of positive distances is returned, or
    one if all objects are equal.

    Parameters
    ----------
    distances : ndarray of shape (n, n)
    random_state : RandomState
        Determines the sample of objects if there are many.
    """
    n = len(distances)
    if n > sample:
        drawn = random_state.choice(n, sample, replace=False)
        distances, n = distances[np.ix_(drawn, drawn)], sample
    if n < 2:
        return 1.0
    values = np.concatenate([distances[i, i + 1 :] for i in range(n)])
    middle, negligible = float(np.median(values)), _NEGLIGIBLE * float(values.max())
    if middle <= negligible:
        positive = values[values > negligible]
        middle = float(np.median(positive)) if len(positive) else 1.0
    return middle
