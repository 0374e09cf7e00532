"""The bags and features that are used in a fit of MILSD."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from .._bags import Bags
from .._bags.segments import gather_rows, offsets_of, segment_index
from .._solvers.structured.edges import Edges

# Features whose mean is more than this many standard deviations from zero are centred.
_MEAN_OVER_SPREAD = 100.0
_ROWS_AT_A_TIME = 4096


class ActiveBags:
    """Bags with a label or a link, without features that are zero everywhere.

    Bags and their instances are sorted by their contents, so a fit does not depend on their order.
    Bags without links are not sorted if ``sort`` is False.
    """

    def __init__(
        self,
        bags: Bags,
        labelled: np.ndarray,
        bag_edges: Edges,
        instance_edges: Edges,
        *,
        sort: bool = True,
    ) -> None:
        used = np.zeros(len(bags), dtype=bool)
        used[labelled] = True
        used[bag_edges.nodes] = True
        used[bags.bag_index[instance_edges.nodes]] = True
        chosen = np.flatnonzero(used)
        rows, offsets = gather_rows(bags.offsets, chosen)
        if sort:
            rows, order = _sorted_by_contents(bags.instances, rows, offsets)
            chosen, offsets = chosen[order], offsets_of(np.diff(offsets)[order])
        number = _numbers(chosen, len(bags))
        self.offsets, self.n_features = offsets, bags.shape[1]
        self.labelled = number[labelled]
        self.bag_edges = bag_edges.renumbered(number, len(chosen))
        self.instance_edges = instance_edges.renumbered(_numbers(rows, bags.n_instances), len(rows))
        in_place = not sort and used.all()
        instances = bags.instances if in_place else bags.instances[rows]
        self.columns: Any = slice(None)
        if sparse.issparse(instances):
            self.columns = np.unique(instances.indices)
            instances = instances[:, self.columns]
        elif not (used := instances.any(axis=0)).all():
            # Rows stay contiguous, because solvers gather rows.
            self.columns = np.flatnonzero(used)
            instances = np.take(instances, self.columns, axis=1)
        self.instances = instances
        self.shift = np.zeros(instances.shape[1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def center(self) -> None:
        """Centre dense features far from zero; the intercept compensates for the shift."""
        X = self.instances
        if sparse.issparse(X) or not X.size:
            return
        mean = X.mean(axis=0, dtype=np.float64)
        far = np.abs(mean) > _MEAN_OVER_SPREAD * X.std(axis=0, dtype=np.float64)
        if far.any():
            self.shift = np.where(far, mean, 0.0)
            self.instances = (X - self.shift).astype(X.dtype)

    def all_features(self, weights: np.ndarray) -> np.ndarray:
        """Extend weights of shape (n_problems, n_used) by zeros for the removed features."""
        whole = np.zeros((len(weights), self.n_features))
        whole[:, self.columns] = weights
        return whole


def _numbers(chosen: np.ndarray, n: int) -> np.ndarray:
    """The position of each of n items among the chosen ones."""
    number = np.zeros(n, dtype=np.intp)
    number[chosen] = np.arange(len(chosen))
    return number


def _sorted_by_contents(
    X: Any, rows: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of bags after sorting bags and instances by contents, and the order of the bags."""
    keys = _keys(X)[rows]
    owner = segment_index(offsets)
    within = np.lexsort((keys, owner))
    order = np.argsort(np.add.reduceat(keys[within], offsets[:-1]), kind="stable")
    taken, _ = gather_rows(offsets, order)
    return rows[within][taken], order


def _keys(X: Any) -> np.ndarray:
    """A number for each row that does not depend on its position, up to the last digit."""
    factors = np.random.default_rng(0).random(X.shape[1])
    if sparse.issparse(X):
        return np.asarray(X @ factors)
    # BLAS would round differently depending on the position of a row in a block.
    parts = [(X[part] * factors).sum(axis=1) for part in gen_batches(len(X), _ROWS_AT_A_TIME)]
    return np.concatenate(parts)
