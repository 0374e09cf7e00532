"""Graphs of nearest bags, and of instances that are near each other in space."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

from .._bags import Bags
from .._bags.annotations import array_of
from .._bags.canonical import check_choice, check_positive
from .._bags.kinds import numbers
from .._bags.names import bag_text
from .._bags.segments import bag_ranges, offsets_of
from .._fit.validation import check_bags
from .._solvers.common.cccp import RELATIVE_TIE
from ..metrics import bag_distances

# Maximum average number of neighbours, including ties, per requested neighbour.
_MOST_PER_NEIGHBOUR = 20
_PAIRS_AT_A_TIME = 2**20


def knn_bag_graph(
    X: Any,
    n_neighbors: int = 5,
    *,
    metric: Any = "mean",
    kernel: Any = None,
    mutual: bool = False,
    n_jobs: int | None = None,
) -> sparse.csr_array:
    """Build an undirected graph that connects each bag with its nearest bags.

    Read more in the :ref:`User Guide <methods_links>`.

    .. versionadded:: 0.1.0

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
        :obj:`joblib.parallel_config` context; -1 means all processors.

    Returns
    -------
    csr_array of shape (n_bags, n_bags)
        Symmetric, without diagonal.

    Raises
    ------
    ValueError
        If ``n_neighbors`` is below one, or distances have the wrong shape or are not finite.

    See Also
    --------
    link_graph : Build a graph from links.
    spatial_graph : Build a graph of instances.
    milearn.metrics.bag_distances : Distances between bags.

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
    check_positive(n_neighbors=n_neighbors)
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


def spatial_graph(
    bags: Bags,
    k: int | None = None,
    radius: float | None = None,
    *,
    coords: str = "coords",
    weights: str | Callable[[np.ndarray], Any] = "uniform",
) -> sparse.csr_array:
    """Build an undirected graph that connects instances of a bag that are near each other.

    Instances of different bags are not connected.

    Read more in the :ref:`User Guide <methods_links>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    bags : Bags
        With positions of the instances in ``bags.instance_data[coords]``, of shape (n_instances,)
        or (n_instances, n_dimensions).
    k : int, default=None
        Number of nearest neighbours of each instance; all other instances of the bag if there are
        fewer. Instances at the same distance as the last neighbour are included, so the graph does
        not depend on the order of the instances. Two instances are connected if one is a neighbour
        of the other.
    radius : float, default=None
        Largest distance of connected instances, in the unit of the coordinates. With ``k``, the
        nearest instances within the radius. At least one of ``k`` and ``radius`` is required.
    coords : str, default="coords"
        Name of the positions in ``bags.instance_data``.
    weights : {"uniform", "gaussian"} or callable, default="uniform"
        Weights of the links. "uniform": 1. "gaussian": :math:`\\exp(-d^2 / 2 s^2)` of the distance
        :math:`d`, where :math:`s` is the median distance along the links of the bag, or 1 if this
        is 0. A callable takes an array of distances and returns one weight per distance.

    Returns
    -------
    csr_array of shape (n_instances, n_instances)
        Symmetric, without diagonal.

    Raises
    ------
    ValueError
        If ``k`` and ``radius`` are both None or too small, positions are missing or not finite,
        thousands of instances have the same position, or weights have the wrong shape.
    TypeError
        If ``bags`` is not :class:`~milearn.Bags`, or ``k`` is not an integer.

    See Also
    --------
    milearn.datasets.load_bag_folder : Reads positions together with the features.
    MILSD : Uses the graph of the instances.

    Notes
    -----
    Compare results with those of the same graph after permuting the positions within each bag. An
    improvement that remains is not due to the positions.

    References
    ----------
    D. Zhang, Y. Liu, L. Si, J. Zhang, R. D. Lawrence. Multiple Instance Learning on Structured
    Data. NIPS 24, 2011.

    Examples
    --------
    >>> from milearn import Bags
    >>> from milearn.structured import spatial_graph
    >>> positions = [[0, 0], [0, 1], [5, 5], [0, 0], [0, 1]]
    >>> features = [[1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> bags = Bags(features, [0, 3, 5], instance_data={"coords": positions})
    >>> graph = spatial_graph(bags, radius=1.5)
    >>> graph.toarray()
    array([[0., 1., 0., 0., 0.],
           [1., 0., 0., 0., 0.],
           [0., 0., 0., 0., 0.],
           [0., 0., 0., 0., 1.],
           [0., 0., 0., 1., 0.]])
    >>> bags.with_instance_graph(graph)
    Bags(n_bags=2, n_instances=5, n_features=1, sizes=2..3, dtype=float64, instance_graph,
    instance_data=['coords_0', 'coords_1'])
    """
    if not isinstance(bags, Bags):
        raise TypeError(f"bags is {type(bags).__name__}: pass Bags with instance_data[{coords!r}].")
    k, radius = _checked(k, radius)
    if not callable(weights):
        check_choice("weights", weights, ("uniform", "gaussian"))
    positions = _positions(bags, coords)
    rows, columns, values = [], [], []
    for first, last in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        left, right = _pairs(positions[first:last], k, radius)
        distances = np.linalg.norm(positions[first + left] - positions[first + right], axis=1)
        rows.append(first + left)
        columns.append(first + right)
        values.append(_weights(weights, distances))
    n = bags.n_instances
    if not rows:
        return sparse.csr_array((n, n))
    left, right, weight = (np.concatenate(parts) for parts in (rows, columns, values))
    half = sparse.coo_array((weight, (left, right)), shape=(n, n))
    return sparse.csr_array(half + half.T)


def _checked(k: Any, radius: Any) -> tuple[int | None, float | None]:
    if k is None and radius is None:
        raise ValueError("k and radius are both None: give a number of neighbours or a radius.")
    if k is not None:
        check_positive(k=k)
    if radius is not None and not (isinstance(radius, Real) and 0 < float(radius) < np.inf):
        raise ValueError(f"radius={radius!r} must be a number above 0.")
    return k, None if radius is None else float(radius)


def _positions(bags: Bags, name: str) -> np.ndarray:
    values = array_of(bags.instance_data, name)
    what = f"instance_data[{name!r}]"
    positions = np.column_stack([numbers(each, what) for each in np.atleast_2d(values.T)])
    wrong = ~np.isfinite(positions).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"instance_data[{name!r}] of instance {row} in {bag_text(bags, bags.bag_index[row])} "
            "is not finite."
        )
    return positions


def _pairs(points: np.ndarray, k: int | None, radius: float | None) -> tuple[Any, Any]:
    """Connected pairs of points, each once, with the smaller index first."""
    tree = cKDTree(points)
    n = len(points)
    if k is None:
        pairs = tree.query_pairs(radius, output_type="ndarray")
        return pairs[:, 0], pairs[:, 1]
    if n == 1:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    # The point itself is among the k + 1 nearest points, or ties with them.
    reach = tree.query(points, k=[min(k, n - 1) + 1])[0][:, 0]
    reach = reach * (1.0 + RELATIVE_TIE)
    if radius is not None:
        reach = np.minimum(reach, radius)
    counts = tree.query_ball_point(points, reach, return_length=True)
    if counts.sum() > max(_MOST_PER_NEIGHBOUR * k * n, _PAIRS_AT_A_TIME):
        raise ValueError(
            f"{n} instances of a bag have {counts.sum()} neighbours for k={k}, because up to "
            f"{counts.max()} of them are as near as the last one: give positions that differ, or a "
            "radius."
        )
    parts = []
    for first, last in bag_ranges(offsets_of(counts), _PAIRS_AT_A_TIME):
        near = tree.query_ball_point(points[first:last], reach[first:last])
        left = np.repeat(np.arange(first, last), counts[first:last])
        right = np.fromiter(chain.from_iterable(near), np.intp, len(left))
        keys = np.minimum(left, right) * n + np.maximum(left, right)
        parts.append(np.unique(keys[left != right]))
    keys = np.unique(np.concatenate(parts))
    return keys // n, keys % n


def _weights(weights: Any, distances: np.ndarray) -> np.ndarray:
    if callable(weights):
        values = np.asarray(weights(distances), dtype=np.float64)
        if values.shape != distances.shape:
            raise ValueError(
                f"weights returned the shape {values.shape} for {len(distances)} distances: return "
                "one weight per distance."
            )
        return values
    if weights == "uniform" or not len(distances):
        return np.ones(len(distances))
    scale = float(np.median(distances)) or 1.0
    return np.exp(-0.5 * (distances / scale) ** 2)
