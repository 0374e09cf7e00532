"""Maximum margin clustering of bags: witnesses by streaming, convex steps by cutting planes.

    min 1/2 sum_p |w_p|^2 + C/n sum_i [1 - max_j g(x_ij)]_+,   |(w_p - w_q)'m| <= balance,
    g(x) = k/(k-1) (max_u w_u'x - mean_v w_v'x),   m = sum_i mean_j x_ij

The concave-convex procedure keeps of every bag one witness and one cluster; what is left is a
convex risk of n hinges with one slack. A pass over all instances happens once a step, in blocks,
so that the instances may lie in a memory map; the cutting plane sees the witnesses alone. Weights
always sum to zero over the clusters: the mean is not worth its norm and counts nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.segments import bag_ranges, segment_max
from ..common.cccp import cccp
from ..common.cutting_plane import cutting_plane

__all__ = ["ClusterResult", "InstanceStream", "LinearisedRisk", "max_margin_clusters"]

# Instances at a time, in float64: a block stays in a core's cache.
_BLOCK_BYTES = 2**21
# Witnesses are kept in float64 up to this size, larger ones in the type of the instances.
_WITNESS_BYTES = 2**27
_MOST_CUTS = 1000
# Share of a sum of absolute values below which the sum itself is noise.
_ROUNDING = 1e-12


class InstanceStream:
    """All instances, read in blocks of whole bags; a bag larger than a block is read in parts.

    Parameters
    ----------
    instances : ndarray (also a memory map) or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    block_bytes : int
        Size of a block in float64.
    """

    def __init__(
        self, instances: Any, offsets: np.ndarray, *, block_bytes: int = _BLOCK_BYTES
    ) -> None:
        self.instances, self.offsets = instances, offsets
        self.n_bags, self.n_features = len(offsets) - 1, int(instances.shape[1])
        n_instances = max(1, int(instances.shape[0]))
        width = self.n_features
        if sparse.issparse(instances):
            width = max(1, instances.nnz // n_instances)
        self.limit = max(1, block_bytes // (8 * width))

    def choose(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row of the highest instance of each bag, its cluster, and its margin g.

        Of several that are equal the one of the first cluster, then the first of the bag.
        """
        centred = _centred(weights)
        rows = np.empty(self.n_bags, dtype=np.intp)
        clusters = np.empty(self.n_bags, dtype=np.intp)
        margins = np.empty(self.n_bags)
        for first, last in bag_ranges(self.offsets, self.limit):
            if last - first == 1:
                rows[first], clusters[first], margins[first] = self._best_of_one(centred, first)
                continue
            start, bags = self.offsets[first], slice(first, last)
            scores = self._scores(centred, start, self.offsets[last])
            top, clusters[bags] = _highest(scores, self.offsets[first : last + 1] - start)
            rows[bags], margins[bags] = start + top, scores[clusters[bags], top]
        return rows, clusters, margins

    def _best_of_one(self, centred: np.ndarray, bag: int) -> tuple[int, int, float]:
        found = (-1, -1, -np.inf)
        for start in range(self.offsets[bag], self.offsets[bag + 1], self.limit):
            scores = self._scores(centred, start, min(start + self.limit, self.offsets[bag + 1]))
            top, cluster = (
                int(each[0]) for each in _highest(scores, np.array([0, scores.shape[1]]))
            )
            value = float(scores[cluster, top])
            if value > found[2] or (value == found[2] and cluster < found[1]):
                found = start + top, cluster, value
        return found

    def decide(self, weights: np.ndarray) -> np.ndarray:
        """Highest score of each bag for each cluster, shape (n_bags, n_clusters)."""
        centred = _centred(weights)
        values = np.empty((self.n_bags, len(weights)))
        for first, last in bag_ranges(self.offsets, self.limit):
            offsets = self.offsets[first : last + 1]
            if last - first == 1:
                parts = range(offsets[0], offsets[1], self.limit)
                values[first] = np.max(
                    [
                        self._scores(centred, start, min(start + self.limit, offsets[1])).max(
                            axis=1
                        )
                        for start in parts
                    ],
                    axis=0,
                )
            else:
                scores = self._scores(centred, offsets[0], offsets[-1])
                values[first:last] = np.maximum.reduceat(
                    scores, offsets[:-1] - offsets[0], axis=1
                ).T
        return values

    def score(self, weights: np.ndarray) -> np.ndarray:
        """Score of each instance for each cluster, shape (n_instances, n_clusters)."""
        n_instances, centred = self.offsets[-1], _centred(weights)
        values = np.empty((n_instances, len(weights)))
        for start in range(0, n_instances, self.limit):
            stop = min(start + self.limit, n_instances)
            values[start:stop] = self._scores(centred, start, stop).T
        return values

    def _scores(self, weights: np.ndarray, start: int, stop: int) -> np.ndarray:
        block = self.instances[start:stop]
        if sparse.issparse(block):
            return np.ascontiguousarray((block @ weights.T).T, dtype=np.float64)
        # Digits of float64 whatever the type: the choice is then the same for all of them.
        return weights @ np.asarray(block, dtype=np.float64).T

    def sum_of_means(self) -> np.ndarray:
        """m, the sum over bags of their mean instance, shape (n_features,).

        Entries that rounding alone explains are zero.
        """
        total, size = np.zeros(self.n_features), np.zeros(self.n_features)
        for first, last in bag_ranges(self.offsets, self.limit):
            sizes = np.diff(self.offsets[first : last + 1])
            shares = np.repeat(1.0 / sizes, sizes)
            start, stop = self.offsets[first], self.offsets[last]
            for row in range(start, stop, self.limit):
                end = min(row + self.limit, stop)
                block, share = self.instances[row:end], shares[row - start : end - start]
                if not sparse.issparse(block):
                    block = np.asarray(block, dtype=np.float64)
                total += share @ block
                size += share @ abs(block)
        return np.where(np.abs(total) > _ROUNDING * size, total, 0.0)

    def gather(self, rows: np.ndarray) -> Any:
        """The given instances, in float64 where that is not too large."""
        taken = self.instances[rows]
        if sparse.issparse(taken) or 8 * taken.size <= _WITNESS_BYTES:
            taken = taken.astype(np.float64, copy=False)
        return taken


def _centred(weights: np.ndarray) -> np.ndarray:
    """k/(k-1) times what the weights differ from their mean; zero for one cluster."""
    k = len(weights)
    return (weights - weights.sum(axis=0) / k) * (k / max(k - 1, 1))


def _highest(scores: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column of the highest entry of each segment of columns, and its row (the cluster)."""
    best = scores.max(axis=0)
    hits = np.flatnonzero(best == np.repeat(segment_max(best, offsets), np.diff(offsets)))
    clusters = scores[:, hits].argmax(axis=0)
    if len(hits) == len(offsets) - 1:
        return hits, clusters
    bags = np.searchsorted(offsets, hits, side="right") - 1
    order = np.lexsort((hits, clusters, bags))
    chosen = order[np.searchsorted(bags, np.arange(len(offsets) - 1))]
    return hits[chosen], clusters[chosen]


class LinearisedRisk:
    """Mean hinge of bags whose witness and cluster are fixed; an oracle for the cutting plane.

    R(w) = 1/n sum_i [1 - k/(k-1) (w_{r_i} - mean_v w_v)'z_i]_+

    Parameters
    ----------
    witnesses : ndarray or CSR of shape (n_bags, n_features)
        Bags of one cluster in consecutive rows, the clusters in order.
    counts : ndarray of shape (n_clusters,)
        Bags of each cluster.
    normal : ndarray of shape (n_features,), default=None
        Unit vector on which no weight may stand: slopes are made orthogonal to it.
    """

    def __init__(
        self, witnesses: Any, counts: np.ndarray, *, normal: np.ndarray | None = None
    ) -> None:
        self.witnesses, self.normal = witnesses, normal
        self.n_bags, self.n_features = witnesses.shape
        self.bounds = np.concatenate([[0], np.cumsum(counts)])
        dense = not sparse.issparse(witnesses)
        # Blocks only where they have to be converted.
        self.limit = (
            max(1, _BLOCK_BYTES // (8 * max(1, self.n_features)))
            if dense and witnesses.dtype != np.float64
            else self.n_bags
        )

    def __call__(self, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        k = len(self.bounds) - 1
        centred = _centred(w.reshape(k, -1))
        sums = np.zeros((k, self.n_features))
        value = 0.0
        for p in range(k):
            for first in range(self.bounds[p], self.bounds[p + 1], self.limit):
                last = min(first + self.limit, self.bounds[p + 1])
                block = self.witnesses[first:last]
                if not sparse.issparse(block):
                    block = np.asarray(block, dtype=np.float64)
                hinges = np.maximum(1.0 - block @ centred[p], 0.0)
                value += float(hinges.sum())
                sums[p] += (hinges > 0).astype(np.float64) @ block
        slope = _centred(sums) / -self.n_bags
        if self.normal is not None:
            slope -= np.outer(slope @ self.normal, self.normal)
        return np.array([value / self.n_bags]), slope.reshape(1, -1), np.zeros((1, 0))


@dataclass
class _Step:
    """A convex solution, and the linearisation of the next problem."""

    weights: np.ndarray
    objective: float
    gap: float
    linearisation: np.ndarray
    converged: bool
    calls: int


@dataclass
class ClusterResult:
    """A local minimum.

    Attributes
    ----------
    weights : ndarray of shape (n_clusters, n_features)
    rows, clusters : ndarray of shape (n_bags,)
        Witness and cluster of each bag.
    objective : float
        Value of the problem at the weights.
    history : list of float
    n_iter : int
        Convex steps.
    converged : bool
    gap : float
        Duality gap of the last convex step, in units of the objective.
    inner_converged : bool
        Whether every convex step reached its precision.
    n_cuts : int
        Cuts made in all steps together.
    """

    weights: np.ndarray
    rows: np.ndarray
    clusters: np.ndarray
    objective: float
    history: list[float]
    n_iter: int
    converged: bool
    gap: float
    inner_converged: bool
    n_cuts: int


def max_margin_clusters(
    stream: InstanceStream,
    start: np.ndarray,
    C: float,
    *,
    balance: float | None,
    tol: float,
    cutting_plane_tol: float,
    max_iter: int,
    mean_sum: np.ndarray | None = None,
    qp_solver: str | None = None,
    on_iteration: Callable[[int, float], bool] | None = None,
) -> ClusterResult:
    """One run of the concave-convex procedure.

    Parameters
    ----------
    stream : InstanceStream
    start : ndarray of shape (n_clusters, n_features)
        Weights that choose the first witnesses and clusters; their length does not matter.
    C : float
    balance : float or None
        None leaves the constraint out.
    tol : float
        Relative decrease of the objective at which to stop.
    cutting_plane_tol : float
        Precision of the risk of a convex step.
    max_iter : int
        Most convex steps.
    mean_sum : ndarray of shape (n_features,), default=None
        ``stream.sum_of_means()``, where it is known already.
    qp_solver : str, default=None
    on_iteration : callable, default=None
        Called with the step's number and objective; True asks to stop.
    """
    k, d = start.shape
    hard, bound, normal = _balance_rows(stream, k, balance, mean_sum)

    def risk_of(linearisation: np.ndarray) -> LinearisedRisk:
        rows, clusters = linearisation
        order = np.argsort(clusters, kind="stable")
        counts = np.bincount(clusters, minlength=k)
        return LinearisedRisk(stream.gather(rows[order]), counts, normal=normal)

    def measured(weights: np.ndarray) -> tuple[float, np.ndarray]:
        rows, clusters, margins = stream.choose(weights)
        hinges = np.maximum(1.0 - margins, 0.0)
        objective = 0.5 * float(np.sum(weights * weights)) + C * float(hinges.mean())
        return objective, np.stack([rows, clusters])

    calls, all_converged = 0, True

    def step(linearisation: np.ndarray, previous: Any, precision: float) -> _Step:
        nonlocal calls, all_converged
        solved = cutting_plane(
            risk_of(linearisation),
            k * d,
            np.array([C]),
            tols=precision,
            hard=hard,
            hard_bound=bound,
            max_iter=_MOST_CUTS,
            start=None if previous is None else (previous.weights.ravel(), np.zeros(0)),
            qp_solver=qp_solver,
        )
        calls += solved.n_iter
        all_converged &= solved.converged
        weights = solved.w.reshape(k, d)
        objective, following = measured(weights)
        return _Step(weights, objective, solved.gap, following, solved.converged, calls)

    rows, clusters, _ = stream.choose(start)
    run = cccp(
        step,
        np.stack([rows, clusters]),
        tol=tol,
        max_iter=max_iter,
        inner_tol=cutting_plane_tol,
        on_iteration=on_iteration,
    )
    best = run.point
    return ClusterResult(
        weights=best.weights,
        rows=best.linearisation[0],
        clusters=best.linearisation[1],
        objective=best.objective,
        history=run.history,
        n_iter=run.n_iter,
        converged=run.converged,
        gap=best.gap,
        inner_converged=all_converged,
        n_cuts=calls,
    )


def _balance_rows(
    stream: InstanceStream, k: int, balance: float | None, mean_sum: np.ndarray | None
) -> tuple[np.ndarray | None, float, np.ndarray | None]:
    """The constraints as rows and bound, or as a direction in which no weight may point."""
    if balance is None or np.isinf(balance) or k == 1:
        return None, 0.0, None
    m = stream.sum_of_means() if mean_sum is None else mean_sum
    length = float(np.linalg.norm(m))
    if length == 0:
        return None, 0.0, None
    if balance == 0:
        # Weights that sum to zero and agree on m are zero on it.
        return None, 0.0, m / length
    # In units of the direction: the dual program is then scaled like its cuts.
    first, second = np.triu_indices(k, 1)
    pairs = np.arange(len(first))
    rows = np.zeros((len(first), k, stream.n_features))
    rows[pairs, first] = m / length
    rows[pairs, second] = -m / length
    return rows.reshape(len(first), -1), balance / length, None
