"""The margin of an instance for a cluster, over the mean of all clusters or over the next one.

    "mean"       g_p(x) = k/(k-1) (w_p'x - mean_v w_v'x)
    "runner-up"  g_p(x) = w_p'x - max_{q != p} w_q'x

For two clusters they are the same. Both are concave in the weights for given x and p, and depend
only on differences of weights. The margin is zero if there is only one cluster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import Block, PassSource
from ..common.passes import Matrix, Scores, block_scores
from .balance import Balance


def margin_weights(weights: np.ndarray) -> np.ndarray:
    """Weights whose scores are the margins over the mean.

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


def runner_up_scores(block: Block, weights: np.ndarray) -> np.ndarray:
    """Margins over the largest other score, of shape (n_clusters, n_rows)."""
    scores = np.array(block_scores(block, weights))
    if len(scores) == 1:
        return np.zeros_like(scores)
    columns = np.arange(scores.shape[1])
    first = scores.argmax(axis=0)
    highest = scores[first, columns]
    scores[first, columns] = -np.inf
    second = scores.max(axis=0)
    scores -= highest
    scores[first, columns] = highest - second
    return scores


def scores_of(margin: str, weights: np.ndarray) -> tuple[np.ndarray, Scores]:
    """Weights, and the function of a block and weights that computes the margins of its instances.

    Parameters
    ----------
    margin : {"mean", "runner-up"}
    weights : ndarray of shape (n_clusters, n_features)
    """
    if margin == "mean":
        return margin_weights(weights), block_scores
    return weights, runner_up_scores


def best_of_bags(
    source: PassSource, weights: np.ndarray, scores: Scores
) -> tuple[np.ndarray, np.ndarray]:
    """Highest score of each bag for each weight vector, and the row that attains it first.

    Parameters
    ----------
    source : PassSource
    weights : ndarray of shape (n_vectors, n_features)
    scores : callable
        See :func:`scores_of`.

    Returns
    -------
    values : ndarray of shape (n_bags, n_vectors)
    rows : ndarray of int of shape (n_bags, n_vectors)
    """
    shape = (source.n_bags, len(weights))
    values, rows = np.full(shape, -np.inf), np.zeros(shape, dtype=np.intp)
    for first, first_row, best, where in source.map(_best, weights, scores, in_parts=True):
        bags = slice(first, first + len(best))
        higher = best > values[bags]
        values[bags] = np.where(higher, best, values[bags])
        rows[bags] = np.where(higher, first_row + where, rows[bags])
    return values, rows


def _best(
    block: Block, weights: np.ndarray, scores: Scores
) -> tuple[int, int, np.ndarray, np.ndarray]:
    found, starts = scores(block, weights), block.offsets[:-1]
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
    margin : {"mean", "runner-up"}, default="mean"
    balance : Balance, default=None
        The constraint on the weights.
    block_bytes : int, default=2**21
        Size of a block of witnesses that is converted to float64, or scored for all clusters.
    """

    def __init__(
        self,
        witnesses: Any,
        counts: np.ndarray,
        *,
        margin: str = "mean",
        balance: Balance | None = None,
        block_bytes: int = 2**21,
    ) -> None:
        self.witnesses = witnesses
        self.balance = Balance() if balance is None else balance
        self.n_bags, self.n_features = witnesses.shape
        self.n_clusters = len(counts)
        self.bounds = np.concatenate([[0], np.cumsum(counts)])
        self.owner = np.repeat(np.arange(self.n_clusters), counts)
        # Do not store the bound method: a reference cycle would keep the bags in memory until the
        # next garbage collection.
        self.margin = margin
        width, whole = self.n_features, sparse.issparse(witnesses)
        if margin == "mean":
            # Blocks are only needed if the witnesses have to be converted.
            whole = whole or witnesses.dtype == np.float64
        else:
            width, whole = max(width, self.n_clusters), False
        self.limit = self.n_bags if whole else max(1, block_bytes // (8 * max(1, width)))

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        sums = self._over_mean if self.margin == "mean" else self._over_runner_up
        value, slope = sums(self.balance.join(w, self.n_clusters))
        return value / self.n_bags, self.balance.split(slope / -self.n_bags)

    def _block(self, first: int, last: int) -> Matrix:
        block = self.witnesses[first:last]
        return block if sparse.issparse(block) else np.asarray(block, dtype=np.float64)

    def _over_mean(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        margins = margin_weights(weights)
        sums, value = np.zeros_like(weights), 0.0
        for p in range(self.n_clusters):
            for first in range(self.bounds[p], self.bounds[p + 1], self.limit):
                block = self._block(first, min(first + self.limit, self.bounds[p + 1]))
                hinges = np.maximum(1.0 - block @ margins[p], 0.0)
                value += float(hinges.sum())
                sums[p] += (hinges > 0).astype(np.float64) @ block
        return value, margin_weights(sums)

    def _over_runner_up(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        sums, value = np.zeros_like(weights), 0.0
        if self.n_clusters == 1:
            return float(self.n_bags), sums
        for first in range(0, self.n_bags, self.limit):
            last = min(first + self.limit, self.n_bags)
            block, own = self._block(first, last), self.owner[first:last]
            rows = np.arange(last - first)
            scores = np.asarray(block @ weights.T)
            mine = scores[rows, own]
            scores[rows, own] = -np.inf
            next_best = scores.argmax(axis=1)
            hinges = np.maximum(1.0 - mine + scores[rows, next_best], 0.0)
            value += float(hinges.sum())
            active = np.flatnonzero(hinges > 0)
            signs = np.repeat([1.0, -1.0], len(active))
            vectors = np.concatenate([own[active], next_best[active]])
            shape = (self.n_clusters, last - first)
            chosen = sparse.csr_array((signs, (vectors, np.tile(active, 2))), shape=shape)
            part = chosen @ block
            sums += part.toarray() if sparse.issparse(part) else part
        return value, sums
