"""What a graph adds to an objective: edges as arrays, ready for sums.

    sum_e r_e | s_p f_p - s_q f_q |,   e = (p, q),   s_p = 1 / sqrt(degree of p)

with r_e the weight of the edge as a share of the number of links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["Edges", "edges_of"]


@dataclass(frozen=True)
class Edges:
    """Edges of a graph, each pair of nodes once.

    Attributes
    ----------
    left, right : ndarray of int of shape (n_edges,), left < right
    shares : ndarray of shape (n_edges,)
        Weight of both directions over the number of links.
    left_scale, right_scale : ndarray of shape (n_edges,)
        1 / sqrt(degree) of the two nodes.
    n_nodes : int
    """

    left: np.ndarray
    right: np.ndarray
    shares: np.ndarray
    left_scale: np.ndarray
    right_scale: np.ndarray
    n_nodes: int

    def __len__(self) -> int:
        return len(self.left)

    @property
    def nodes(self) -> np.ndarray:
        """Nodes with an edge, sorted."""
        return np.unique(np.concatenate([self.left, self.right]))

    @property
    def tilt(self) -> np.ndarray:
        """How fast the difference of an edge grows with a constant added to every score."""
        return self.left_scale - self.right_scale

    def differences(self, scores: np.ndarray) -> np.ndarray:
        """s_p f_p - s_q f_q of each edge."""
        return self.left_scale * scores[self.left] - self.right_scale * scores[self.right]

    def roughness(self, scores: np.ndarray) -> float:
        """The sum above, for scores of all nodes."""
        return float(self.shares @ np.abs(self.differences(scores)))

    def renumbered(self, number: np.ndarray, n_nodes: int) -> Edges:
        """The same edges where node ``p`` has become ``number[p]``, the order being kept."""
        return Edges(
            number[self.left],
            number[self.right],
            self.shares,
            self.left_scale,
            self.right_scale,
            n_nodes,
        )


def edges_of(graph: Any) -> Edges:
    """The edges of a directed or undirected graph with weights that are not negative.

    Links from a node to itself and links of weight zero are left out before anything is counted.
    The degree is the sum of the weights of the outgoing links; a node that only has incoming ones
    takes their sum. Both directions of a link stand under one absolute value, so they are added.

    Parameters
    ----------
    graph : CSR matrix of shape (n_nodes, n_nodes), without duplicates
    """
    links = sparse.coo_array(graph)
    keep = (links.row != links.col) & (links.data != 0)
    rows, columns = links.row[keep].astype(np.intp), links.col[keep].astype(np.intp)
    weights = links.data[keep].astype(np.float64)
    n = graph.shape[0]
    out = np.bincount(rows, weights=weights, minlength=n)
    degree = np.where(out > 0, out, np.bincount(columns, weights=weights, minlength=n))
    scale = np.zeros(n)
    scale[degree > 0] = 1.0 / np.sqrt(degree[degree > 0])
    pairs, which = np.unique(
        np.minimum(rows, columns) * n + np.maximum(rows, columns), return_inverse=True
    )
    left, right = pairs // max(n, 1), pairs % max(n, 1)
    shares = np.bincount(which, weights=weights, minlength=len(pairs)) / max(len(weights), 1)
    return Edges(left, right, shares, scale[left], scale[right], n)
