"""Edges of a graph as arrays, for the total variation of scores along them.

    sum_e r_e | s_p f_p - s_q f_q |,   e = (p, q),   s_p = 1 / sqrt(degree of p)

where r_e is the weight of the edge divided by the number of links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Edges:
    """Edges of a graph, each pair of nodes once and sorted, with left < right."""

    left: np.ndarray
    right: np.ndarray
    # Weight of both directions divided by the number of links.
    weights: np.ndarray
    # 1 / sqrt(degree) of the two nodes.
    left_scale: np.ndarray
    right_scale: np.ndarray
    n_nodes: int

    @classmethod
    def joined(cls, first: Edges, second: Edges) -> Edges:
        """The edges of two graphs, with the nodes of the second after those of the first."""
        n, names = first.n_nodes, ("left", "right", "weights", "left_scale", "right_scale")
        second = replace(second, left=second.left + n, right=second.right + n)
        both = {name: [getattr(each, name) for each in (first, second)] for name in names}
        parts = {name: np.concatenate(arrays) for name, arrays in both.items()}
        return cls(**parts, n_nodes=n + second.n_nodes)

    def __len__(self) -> int:
        return len(self.left)

    @property
    def nodes(self) -> np.ndarray:
        """Nodes with an edge, sorted."""
        return np.asarray(np.unique(np.concatenate([self.left, self.right])))

    @property
    def scale_difference(self) -> np.ndarray:
        """Derivative of the difference of each edge by a constant added to every score."""
        return np.asarray(self.left_scale - self.right_scale)

    @cached_property
    def matrix(self) -> Any:
        """CSR matrix of the differences, of shape (n_edges, n_nodes)."""
        ends = np.stack([self.left, self.right], axis=1).ravel()
        scales = np.stack([self.left_scale, -self.right_scale], axis=1).ravel()
        begins, shape = np.arange(0, 2 * len(self) + 1, 2), (len(self), self.n_nodes)
        return sparse.csr_array((scales, ends, begins), shape=shape)

    @cached_property
    def adjoint(self) -> Any:
        """The transpose of :attr:`matrix`."""
        return self.matrix.T.tocsr()

    def differences(self, scores: np.ndarray) -> np.ndarray:
        """s_p f_p - s_q f_q of each edge."""
        return np.asarray(self.matrix @ scores)

    def total_variation(self, scores: np.ndarray) -> float:
        """The sum above, for scores of all nodes."""
        return float(self.weights @ np.abs(self.differences(scores)))

    def laplacian(self, chosen: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, Any]:
        """Nodes of chosen edges, and the matrix of their weighted sum of squared differences."""
        left, right, weights = self.left[chosen], self.right[chosen], weights[chosen]
        used = np.zeros(self.n_nodes, dtype=bool)
        used[left] = used[right] = True
        nodes, number = np.flatnonzero(used), np.cumsum(used) - 1
        left, right, n = number[left], number[right], len(nodes)
        a, c = self.left_scale[chosen], self.right_scale[chosen]
        diagonal = np.bincount(left, weights * a * a, n) + np.bincount(right, weights * c * c, n)
        # Edges are sorted by their left node, so half of the matrix is already in CSR order.
        begins = np.r_[0, np.cumsum(np.bincount(left, minlength=n))]
        half = sparse.csr_array((-weights * a * c, right, begins), shape=(n, n))
        return nodes, half + half.T + sparse.diags_array(diagonal, format="csr", dtype=np.float64)

    def renumbered(self, number: np.ndarray, n_nodes: int) -> Edges:
        """The edges with node ``p`` renumbered as ``number[p]``."""
        left, right = number[self.left], number[self.right]
        turned = left > right
        left, right = np.where(turned, right, left), np.where(turned, left, right)
        order = np.argsort(left * n_nodes + right)
        return Edges(
            left[order],
            right[order],
            self.weights[order],
            np.where(turned, self.right_scale, self.left_scale)[order],
            np.where(turned, self.left_scale, self.right_scale)[order],
            n_nodes,
        )


def edges_of(graph: Any) -> Edges:
    """The edges of a directed or undirected graph with nonnegative weights.

    Links from a node to itself and links of weight zero are ignored. The degree of a node is the
    sum of the weights of its outgoing links, or of its incoming links if there are no outgoing
    ones. The weights of both directions of a link are added, because their absolute differences are
    equal.

    Parameters
    ----------
    graph : CSR matrix of shape (n_nodes, n_nodes), without duplicates
    """
    links = sparse.coo_array(graph)
    keep = (links.row != links.col) & (links.data != 0)
    rows, columns = links.row[keep].astype(np.intp), links.col[keep].astype(np.intp)
    given = links.data[keep].astype(np.float64)
    n = graph.shape[0]
    out = np.bincount(rows, weights=given, minlength=n)
    degree = np.where(out > 0, out, np.bincount(columns, weights=given, minlength=n))
    scale = np.zeros(n)
    scale[degree > 0] = 1.0 / np.sqrt(degree[degree > 0])
    keys = np.minimum(rows, columns) * n + np.maximum(rows, columns)
    pairs, which = np.unique(keys, return_inverse=True)
    left, right = pairs // max(n, 1), pairs % max(n, 1)
    weights = np.bincount(which, weights=given, minlength=len(pairs)) / max(len(given), 1)
    return Edges(left, right, weights, scale[left], scale[right], n)
