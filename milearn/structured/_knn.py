"""Graphs of nearest bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._fit.validation import check_bags
from .._solvers.common.rounding import RELATIVE_TIE
from ..metrics import bag_distances
from ._graphs import check_neighbors

__all__ = ["knn_bag_graph"]


def knn_bag_graph(
    X: Any,
    n_neighbors: int = 5,
    *,
    metric: Any = "mean",
    kernel: Any = None,
    mutual: bool = False,
    n_jobs: int | None = None,
) -> sparse.csr_array:
    """Undirected graph that joins each bag with its nearest ones, all links of weight 1.

    Parameters
    ----------
    X : bags, see :class:`milearn.Bags`
        The bags to join, or a matrix of their distances.
    n_neighbors : int, default=5
        Neighbours of a bag; all others where there are fewer. Bags as near as the last one are
        neighbours too, so that the order of the bags does not choose between them.
    metric : {"min", "max", "mean"}, callable, or "precomputed", default="mean"
        A Hausdorff distance of :func:`milearn.metrics.bag_distances`; a callable that takes
        :class:`~milearn.Bags` and returns distances of shape (n_bags, n_bags); "precomputed" takes
        ``X`` for such a matrix.
    kernel : callable, default=None
        Takes :class:`~milearn.Bags` and returns a kernel matrix of shape (n_bags, n_bags), whose
        distances :math:`k(A, A) + k(B, B) - 2 k(A, B)` then stand in for ``metric``.
    mutual : bool, default=False
        Whether both bags have to be neighbours of the other, or one of them.
    n_jobs : int, default=None
        Number of parallel jobs for the Hausdorff distances. None means 1 unless in a
        :func:`joblib.parallel_config` context, -1 means all processors.

    Returns
    -------
    csr_array of shape (n_bags, n_bags)
        Symmetric, without diagonal.

    Raises
    ------
    ValueError
        For fewer than one neighbour, and distances of another shape or that are not finite.

    Notes
    -----
    Computing Hausdorff distances looks at all pairs of instances. A graph made of the features
    tells a linear model what unlabelled bags look like, and nothing else: it is not a graph of
    links, and a result with it is not one with those.

    Examples
    --------
    >>> from milearn.structured import knn_bag_graph
    >>> bags = [[[0.0]], [[0.1]], [[5.0]], [[5.2], [5.1]]]
    >>> knn_bag_graph(bags, n_neighbors=1).toarray()
    array([[0., 1., 0., 0.],
           [1., 0., 0., 0.],
           [0., 0., 0., 1.],
           [0., 0., 1., 0.]])
    """
    n_neighbors = check_neighbors("n_neighbors", n_neighbors)
    distances = _distances(X, metric, kernel, n_jobs)
    n = len(distances)
    if n < 2:
        return sparse.csr_array((n, n))
    np.fill_diagonal(distances, np.inf)
    last = min(n_neighbors, n - 1) - 1
    reach = np.partition(distances, last, axis=1)[:, last]
    near = distances <= (reach + RELATIVE_TIE * reach.max())[:, None]
    joined = near & near.T if mutual else near | near.T
    np.fill_diagonal(joined, False)
    rows, columns = np.nonzero(joined)
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))


def _distances(X: Any, metric: Any, kernel: Any, n_jobs: int | None) -> np.ndarray:
    """A matrix of distances that may be written into."""
    if kernel is not None:
        bags = check_bags(X)
        gram = _square(kernel(bags), len(bags), "kernel")
        own = np.diagonal(gram)
        return own[:, None] + own[None, :] - 2.0 * gram
    if isinstance(metric, str) and metric == "precomputed":
        return _square(X, len(X), "X").copy()
    bags = check_bags(X)
    if callable(metric):
        return _square(metric(bags), len(bags), "metric").copy()
    return bag_distances(bags, metric=metric, n_jobs=n_jobs)


def _square(matrix: Any, n: int, name: str) -> np.ndarray:
    values = np.asarray(matrix, dtype=np.float64)
    if values.shape != (n, n):
        raise ValueError(f"{name} gives shape {values.shape} for {n} bags: it must be ({n}, {n}).")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} gives values that are not finite.")
    return values
