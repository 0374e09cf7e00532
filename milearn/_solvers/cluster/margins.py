"""The margin of an instance for a cluster over the mean of all clusters.

    g_p(x) = k/(k-1) (w_p'x - mean_v w_v'x)

It is linear in the weights for given x and p, and depends only on their differences. It is zero if
there is only one cluster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import Block, PassSource
from ..common.passes import block_scores
from .balance import Balance


def margin_weights(weights: np.ndarray) -> np.ndarray:
    """Weights whose scores are the margins.

    They are k/(k-1) times the weights minus their mean, and zero for one cluster.

    Parameters
    ----------
    weights : ndarray of shape (n_clusters, n_features)

    Returns
    -------
    ndarray of shape (n_clusters, n_features)
    """
    k = len(weights)
    differences: np.ndarray = weights - weights.sum(axis=0) / k
    return differences * (k / max(k - 1, 1))


def best_of_bags(source: PassSource, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Highest score of each bag for each weight vector, and the row that attains it first.

    Parameters
    ----------
    source : PassSource
    weights : ndarray of shape (n_vectors, n_features)

    Returns
    -------
    values : ndarray of shape (n_bags, n_vectors)
    rows : ndarray of int of shape (n_bags, n_vectors)
    """
    shape = (source.n_bags, len(weights))
    values, rows = np.full(shape, -np.inf), np.zeros(shape, dtype=np.intp)
    for first, first_row, best, where in source.map(_best, weights, in_parts=True):
        bags = slice(first, first + len(best))
        higher = best > values[bags]
        values[bags] = np.where(higher, best, values[bags])
        rows[bags] = np.where(higher, first_row + where, rows[bags])
    return values, rows


def _best(block: Block, weights: np.ndarray) -> tuple[int, int, np.ndarray, np.ndarray]:
    found, starts = block_scores(block, weights), block.offsets[:-1]
    best = np.maximum.reduceat(found, starts, axis=1)
    hits = found == np.repeat(best, np.diff(block.offsets), axis=1)
    n_rows = found.shape[1]
    where = np.minimum.reduceat(np.where(hits, np.arange(n_rows), n_rows), starts, axis=1)
    return block.first_bag, block.first_row, best.T, where.T


class LinearisedRisk:
    """Mean hinge loss for fixed witnesses and clusters; an oracle for the cutting planes.

    R(w) = 1/n sum_i [1 - g_{r_i}(z_i)]_+,  with the margin g of the module

    It is convex in the weights, which it takes and whose slopes it gives in the form of
    :meth:`.balance.Balance.split`.

    Parameters
    ----------
    witnesses : ndarray or CSR of shape (n_bags, n_features)
        Bags of one cluster in consecutive rows, the clusters in order.
    counts : ndarray of shape (n_clusters,)
        Bags of each cluster.
    balance : Balance
        The constraint on the weights.
    block_bytes : int, default=2**21
        Size of a block of witnesses that is converted to float64.
    """

    def __init__(
        self,
        witnesses: Any,
        counts: np.ndarray,
        balance: Balance,
        *,
        block_bytes: int = 2**21,
    ) -> None:
        self.witnesses = witnesses
        self.balance = balance
        self.n_bags, self.n_features = witnesses.shape
        self.n_clusters = len(counts)
        self.bounds = np.concatenate([[0], np.cumsum(counts)])
        # Blocks are only needed if the witnesses have to be converted.
        whole = sparse.issparse(witnesses) or witnesses.dtype == np.float64
        self.limit = self.n_bags if whole else max(1, block_bytes // (8 * max(1, self.n_features)))

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        margins = margin_weights(self.balance.join(w, self.n_clusters))
        sums, value = np.zeros_like(margins), 0.0
        for p in range(self.n_clusters):
            for first in range(self.bounds[p], self.bounds[p + 1], self.limit):
                block = self.witnesses[first : min(first + self.limit, self.bounds[p + 1])]
                if not sparse.issparse(block):
                    block = np.asarray(block, dtype=np.float64)
                hinges = np.maximum(1.0 - block @ margins[p], 0.0)
                value += float(hinges.sum())
                sums[p] += (hinges > 0).astype(np.float64) @ block
        slope = margin_weights(sums) / -self.n_bags
        return value / self.n_bags, self.balance.split(slope)
