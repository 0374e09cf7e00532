"""Graphs of bags and of instances, and their homophily."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._bags.canonical import canonical_graph, check_choice
from .._bags.kinds import targets
from .._fit.validation import missing_labels


def link_graph(links: Any, n: int | None = None, kind: str = "direct") -> sparse.csr_array:
    r"""Build a graph from links between nodes: direct, co-citation or coupling.

    With :math:`A_{pq} = 1` where p links to q, and its row and column sums as diagonal matrices
    :math:`D_{out}` and :math:`D_{in}`,

    ================  ===================================  =========================================
    ``kind``          weights                              two nodes are linked if
    ================  ===================================  =========================================
    ``"direct"``      :math:`A`                            one links to the other (directed)
    ``"cocitation"``  :math:`A^T D_{out}^{-1} A`           a third one links to both
    ``"coupling"``    :math:`A D_{in}^{-1} A^T`            both link to a third one
    ================  ===================================  =========================================

    In a co-citation graph, a node with many outgoing links connects their targets only weakly. In a
    coupling graph, a node with many incoming links connects their sources only weakly. Links of a
    node to itself, repeated links and the diagonal are removed.

    Read more in the :ref:`User Guide <methods_links>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    links : array-like of shape (2, n_links), or sparse matrix of shape (n, n)
        Sources in the first row and targets in the second, or an adjacency matrix, of which only
        the sparsity pattern is used.
    n : int, default=None
        Number of nodes; needed unless ``links`` is a matrix.
    kind : {"direct", "cocitation", "coupling"}, default="direct"
        Type of the graph.

    Returns
    -------
    csr_array of shape (n, n)
        Weights of the links, without diagonal.

    Raises
    ------
    ValueError
        If ``kind`` is unknown, ``n`` is missing, or a link refers to a node that does not exist.

    See Also
    --------
    homophily : Fraction of links between nodes of the same class.

    Examples
    --------
    >>> from milearn.structured import link_graph
    >>> links = [[0, 0, 3], [1, 2, 2]]  # 0 links to 1 and 2, 3 links to 2
    >>> link_graph(links, 4, kind="cocitation").toarray()
    array([[0. , 0. , 0. , 0. ],
           [0. , 0. , 0.5, 0. ],
           [0. , 0.5, 0. , 0. ],
           [0. , 0. , 0. , 0. ]])
    """
    check_choice("kind", kind, ("direct", "cocitation", "coupling"))
    rows, columns, n = _pairs(links, n)
    keep = rows != columns
    codes = np.unique(rows[keep] * n + columns[keep])
    rows, columns = codes // max(n, 1), codes % max(n, 1)
    A = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    if kind == "cocitation":
        A = (_divided(A.sum(axis=1)) @ A).T @ A
    elif kind == "coupling":
        A = A @ _divided(A.sum(axis=0)) @ A.T
    graph = sparse.csr_array(A - sparse.diags_array(A.diagonal()))
    graph.eliminate_zeros()
    graph.sort_indices()
    return graph


def homophily(
    graph: Any,
    y: Any,
    *,
    weighted: bool = False,
    average: str = "link",
    unlabeled: Any = None,
) -> float:
    """Compute the fraction of links that connect two nodes of the same class.

    Smoothing along a graph can only help if this fraction is well above that of random links,
    which is the sum of the squared proportions of the classes, 0.5 for two classes of equal size.

    Read more in the :ref:`User Guide <methods_links>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    graph : array-like or sparse matrix of shape (n, n)
        Nonnegative weights. Links of a node to itself are ignored.
    y : array-like of shape (n,)
        Class of each node. Links to nodes without a class (NaN, None) are ignored. For an instance
        graph pass ``y[bags.bag_index]``.
    weighted : bool, default=False
        Whether to weight links by their weight in the graph.
    average : {"link", "node"}, default="link"
        "link": the fraction over all links, in which nodes with many links have more influence.
        "node": the fraction among the incoming and outgoing links of each node, averaged over
        nodes. A few large, fully connected groups make the first high, regardless of the other
        nodes.
    unlabeled : label, default=None
        A value of ``y`` that marks nodes without a class, in addition to NaN and None.

    Returns
    -------
    float
        Between 0 and 1; NaN if there are no links between nodes with a class.

    Raises
    ------
    ValueError
        If ``average`` is unknown, or the graph has the wrong shape or weights that are negative or
        not finite.

    See Also
    --------
    link_graph : Build a graph from links.
    MILSD : Uses graphs.

    References
    ----------
    J. Zhu, Y. Yan, L. Zhao, M. Heimann, L. Akoglu, D. Koutra. Beyond Homophily in Graph Neural
    Networks. NeurIPS 33, 2020.

    Examples
    --------
    >>> from milearn.structured import homophily, link_graph
    >>> graph = link_graph([[0, 1, 2], [1, 2, 3]], 4)
    >>> round(homophily(graph, ["a", "a", "b", "b"]), 3)
    0.667
    """
    check_choice("average", average, ("link", "node"))
    labels = np.asarray(targets(y))
    if labels.ndim != 1:
        raise ValueError(f"y has {labels.ndim} dimensions: give one class per node.")
    graph = check_graph(graph, len(labels), "graph", "nodes with a class in y")
    missing = missing_labels(labels, unlabeled)
    codes = np.full(len(labels), -1, dtype=np.intp)
    codes[~missing] = np.unique(np.array(labels[~missing].tolist()), return_inverse=True)[1]
    links = sparse.coo_array(graph)
    counted = (links.row != links.col) & (links.data > 0)
    counted &= (codes[links.row] >= 0) & (codes[links.col] >= 0)
    if not counted.any():
        return float("nan")
    left, right = links.row[counted], links.col[counted]
    same = codes[left] == codes[right]
    weights = links.data[counted] if weighted else np.ones(len(left))
    if average == "link":
        return float(weights @ same / weights.sum())
    both = np.concatenate([left, right])
    total = np.bincount(both, weights=np.tile(weights, 2), minlength=len(labels))
    agreed = np.bincount(both, weights=np.tile(weights * same, 2), minlength=len(labels))
    return float(np.mean(agreed[total > 0] / total[total > 0]))


def check_graph(graph: Any, n: int, name: str, what: str) -> sparse.csr_array:
    """Validate a graph with finite, nonnegative weights, and convert it to CSR."""
    links = canonical_graph(graph, n, name, what)
    if links is None:
        raise ValueError(f"{name} is None: give the weights of the links between the {what}.")
    wrong = ~np.isfinite(links.data) | (links.data < 0)
    if wrong.any():
        entry = int(np.argmax(wrong))
        row = int(np.searchsorted(links.indptr, entry, side="right")) - 1
        raise ValueError(
            f"{name} has the weight {links.data[entry]} between {row} and {links.indices[entry]}: "
            "weights must be finite and not negative; use 0 for no link."
        )
    return links


def links_of(graph: Any, n: int, name: str, what: str) -> sparse.csr_array:
    """The validated graph; None becomes a graph without links."""
    return sparse.csr_array((n, n)) if graph is None else check_graph(graph, n, name, what)


def _pairs(links: Any, n: int | None) -> tuple[np.ndarray, np.ndarray, int]:
    if sparse.issparse(links):
        if links.ndim != 2 or links.shape[0] != links.shape[1]:
            raise ValueError(f"links has shape {links.shape}: an adjacency matrix must be square.")
        if n is not None and n != links.shape[0]:
            raise ValueError(f"n={n} but links is a matrix of {links.shape[0]} nodes.")
        found = sparse.coo_array(links)
        there = found.data != 0
        n = int(links.shape[0])
        return found.row[there].astype(np.intp), found.col[there].astype(np.intp), n
    pairs = np.asarray(links)
    if pairs.size == 0:
        pairs = pairs.reshape(2, 0).astype(np.intp)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"links has shape {pairs.shape} and type {pairs.dtype}: give two rows of integers, "
            "sources and targets, or a sparse adjacency matrix."
        )
    if n is None:
        raise ValueError("n is missing: give the number of nodes.")
    outside = (pairs < 0) | (pairs >= n)
    if outside.any():
        wrong = int(np.argmax(outside.any(axis=0)))
        raise ValueError(
            f"Link {wrong} goes from {pairs[0, wrong]} to {pairs[1, wrong]} but there are {n} "
            f"nodes, 0 to {n - 1}."
        )
    pairs = pairs.astype(np.intp)
    return pairs[0], pairs[1], int(n)


def _divided(degrees: np.ndarray) -> sparse.dia_array:
    return sparse.diags_array(1.0 / np.maximum(degrees, 1.0))
