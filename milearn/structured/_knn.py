"""Graphs of nearest bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._fit.validation import check_bags
from .._solvers.common.rounding import RELATIVE_TIE
from ..metrics import bag_distances
from ._graphs import check_neighbors


def knn_bag_graph(
    X: Any,
    n_neighbors: int = 5,
    *,
    metric: Any = "mean",
    kernel: Any = None,
    mutual: bool = False,
    n_jobs: int | None = None,
) -> sparse.csr_array:
    """Undirected graph that connects each bag with its nearest bags, with weights of 1.

    Parameters
    ----------
    X : bags, see :class:`milearn.Bags`
        The bags to connect, or a matrix of their distances.
    n_neighbors : int, default=5
        Number of neighbours of a bag; all other bags if there are fewer. Bags at the same distance
        as the last neighbour are included, so the graph does not depend on the order of the bags.
    metric : {"min", "max", "mean"}, callable, or "precomputed", default="mean"
        A Hausdorff distance of :func:`milearn.metrics.bag_distances`; a callable that takes
        :class:`~milearn.Bags` and returns distances of shape (n_bags, n_bags); or "precomputed" if
        ``X`` is such a matrix.
    kernel : callable, default=None
        Takes :class:`~milearn.Bags` and returns a kernel matrix of shape (n_bags, n_bags), whose
        distances :math:`k(A, A) + k(B, B) - 2 k(A, B)` are used instead of ``metric``.
    mutual : bool, default=False
        Whether two bags are connected only if each is a neighbour of the other. By default, one
        direction is sufficient.
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
        If ``n_neighbors`` is below one, or distances have the wrong shape or are not finite.

    Notes
    -----
    Hausdorff distances are computed from all pairs of instances. A graph that is built from the
    features only adds information about unlabelled bags to a linear model. Results with such a
    graph are not comparable to results with a graph of links.

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
    """A writable matrix of distances."""
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
        raise ValueError(
            f"{name} returned shape {values.shape} for {n} bags: it must be ({n}, {n})."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} returned values that are not finite.")
    return values
