"""Kernels between bags whose scales and widths are learnt on the training bags.

With d the Euclidean distance between instances, and medians over pairs of training bags (over
pairs of training instances for the scale s), times ``width``:

    "mean"        exp(-|m_A - m_B|^2 / median)      m: mean of the instances
    "unit_mean"   the same of instances divided by their lengths
    "minmax"      exp(-|t_A - t_B|_1 / median)      t: minimum and maximum of each feature
    "statistics"  exp(-|t_A - t_B|_1 / median)      t: minimum, mean, maximum and standard
                                                    deviation, each divided by its own deviation
    "set"         S(A, B) / sqrt(S(A, A) S(B, B))   S: sum of exp(-d(a, b)^2 / s) over all pairs
    "mind"        exp(-(D(A, B) + D(B, A)) / (2 median))
                                                    D(A, B): mean_a min_b d(a, b)^2
    "mind_rows"   exp(-|r_A - r_B|^2 / median)      r: D(A, T) for each training bag T,
                                                    standardised and clipped at 3
    "miles_rows"  exp(-|r_A - r_B|^2 / median)      r: max_a exp(-d(a, t)^2 / s) for each training
                                                    instance t, standardised
    "emd"         exp(-E(A, B) / median)            E: earth mover's distance
    "graph"       sum of W_a W_b exp(-d(a, b)^2 / s) over all pairs, see :mod:`.graph`

With ``cosine=True`` instances are divided by their lengths first (but for "mean"). The first four
are then cosines between the vectors of two bags, with nothing standardised; s of "set" is 1/2
times the width, so that exp(-d^2 / s) = exp(-2 d^2); and the rows of "miles_rows" are
max_a cos(a, t), not standardised. An instance without entries is equal to others of its kind and
orthogonal to those with entries. Nothing is centred, and CSR instances stay CSR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from .bag_vectors import (
    bag_vectors,
    cosines,
    l1_distances,
    median_of_pairs,
    median_of_rows,
    squared_distances,
    unit_rows,
)
from .emd import earth_movers
from .graph import graph_kernel, own_graph_kernel, weighted_bags
from .memory import block_bytes, require_memory
from .pairs import PairSums, own_sums, pair_reductions
from .squares import BLOCKS_HELD, Side, columns_of, rows_of

__all__ = [
    "LEARNED_KERNELS",
    "SEMIDEFINITE",
    "LearnedBagKernel",
    "LearnedBagKernels",
    "learn_bag_kernel",
    "learn_bag_kernels",
]

LEARNED_KERNELS = (
    "mean",
    "unit_mean",
    "minmax",
    "statistics",
    "set",
    "mind",
    "mind_rows",
    "miles_rows",
    "emd",
    "graph",
)
# Those whose matrix is positive semidefinite whatever the bags are.
SEMIDEFINITE = (
    "mean",
    "unit_mean",
    "minmax",
    "statistics",
    "set",
    "mind_rows",
    "miles_rows",
    "graph",
)

# Kernels of one vector per bag, and the vector.
_VECTORS = {"mean": "mean", "unit_mean": "mean", "minmax": "minmax", "statistics": "statistics"}
_LAPLACIAN = ("minmax", "statistics")
# Standard deviations at which standardised rows of distances are clipped: a bag that is far from
# all training bags differs from them in every column, and its kernel would vanish. Similarities
# are bounded as they are.
_ROW_CLIP = 3.0
# Scale of exp(-d^2 / s) between rows of unit length.
_COSINE_SCALE = 0.5
# Bytes of rows of similarities to training instances that are made at once.
_ROW_BYTES = 2**27


@dataclass(frozen=True)
class _Part:
    """What one kernel has learnt.

    ``scale`` divides the distances, ``standard`` standardises vectors or rows; ``training`` are
    the training bags' vectors or rows after that, their sums with themselves for "set", or their
    weighted instances for "graph".
    """

    name: str
    scale: float = 1.0
    standard: StandardScaler | None = None
    training: Any = None


class _Bags:
    """Instances as the kernels compare them."""

    def __init__(self, instances: Any, offsets: np.ndarray, cosine: bool) -> None:
        self.raw = sparse.csr_array(instances) if sparse.issparse(instances) else instances
        self.offsets = np.asarray(offsets)
        self.cosine = cosine

    @cached_property
    def scaled(self) -> Any:
        """Rows of which vectors are made."""
        return unit_rows(self.raw) if self.cosine else self.raw

    @cached_property
    def compared(self) -> Any:
        """Rows between which distances are taken."""
        return _directions(self.scaled) if self.cosine else self.raw

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def vectors(self, name: str) -> Any:
        source = self.raw if name == "mean" else self.scaled
        if name == "unit_mean" and source is self.raw:
            source = unit_rows(source)
        return bag_vectors(_VECTORS[name], source, self.offsets)

    def range(self, first: int, last: int) -> tuple[Any, np.ndarray]:
        start, stop = self.offsets[first], self.offsets[last]
        return self.raw[start:stop], self.offsets[first : last + 1] - start


def _directions(unit: Any) -> Any:
    """Unit rows with one more column, which is one for rows of zeros: they have no direction."""
    lengths = abs(unit).sum(axis=1)
    empty = (np.asarray(lengths).ravel() == 0).astype(np.float64)[:, None]
    if sparse.issparse(unit):
        return sparse.hstack([unit, sparse.csr_array(empty)], format="csr")
    return np.hstack([unit, empty])


@dataclass(frozen=True)
class LearnedBagKernels:
    """Several kernels on the same training bags, which share one pass over pairs of instances.

    Attributes
    ----------
    parts : tuple
        What each kernel has learnt.
    columns : Side or None
        Training instances, where a kernel compares instances.
    centre : ndarray of shape (n_features,) or None
        Mean of dense training instances, from which their differences are taken.
    set_scale : float
        Scale s of "set".
    row_scale : float or None
        That of "miles_rows"; None for cosines.
    cosine, is_sparse : bool
        Whether rows are divided by their lengths, and whether the training bags were CSR.
    n_train, n_features : int
    n_jobs : int or None
        Number of threads.
    """

    parts: tuple[_Part, ...]
    columns: Side | None
    centre: np.ndarray | None
    set_scale: float
    row_scale: float | None
    cosine: bool
    is_sparse: bool
    n_train: int
    n_features: int
    n_jobs: int | None

    @property
    def names(self) -> list[str]:
        """Names of the kernels, in the order of the matrices."""
        return [part.name for part in self.parts]

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """Kernels of new bags with the training bags, each of shape (n_new, n_train)."""
        self._check_features(instances)
        new = _Bags(instances, offsets, False)
        sparsely = sparse.issparse(instances)
        _check_memory(self.names, new, self.n_train, 0)
        out = [np.empty((len(new), self.n_train)) for _ in self.parts]
        width = self.n_train
        if "miles_rows" in self.names and self.columns is not None:
            width = len(self.columns.norms)
        width = max(width, _dense_width(new) if sparsely and not self.is_sparse else 0)
        step = max(1, _ROW_BYTES // (8 * width))
        for first in range(0, len(new), step):
            last = min(first + step, len(new))
            rows, inner = new.range(first, last)
            if sparsely != self.is_sparse:
                # As the training bags are stored.
                rows = rows.toarray() if sparsely else sparse.csr_array(rows)
            part = _Bags(rows, inner, self.cosine)
            for values, found in zip(out, self._rows(part), strict=True):
                values[first:last] = found
        return out

    def diagonals(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """Kernels of new bags with themselves, each of shape (n_new,)."""
        self._check_features(instances)
        new = _Bags(instances, offsets, self.cosine)
        found = []
        for part in self.parts:
            values = np.ones(len(new))
            if part.name == "graph":
                bags = weighted_bags(new.compared, new.offsets, self.centre)
                values = own_graph_kernel(bags, part.scale)
            elif self.cosine and part.name in _VECTORS:
                # The cosine with a vector of zeros is zero, that with itself included.
                lengths = abs(new.vectors(part.name)).sum(axis=1)
                values = (np.asarray(lengths).ravel() > 0).astype(np.float64)
            found.append(values)
        return found

    def single(self, position: int) -> LearnedBagKernel:
        """One of the kernels, over the same training instances."""
        alone = replace(self, parts=(self.parts[position],))
        if not _compares_instances(alone.names):
            alone = replace(alone, columns=None, centre=None)
        return LearnedBagKernel(alone)

    def _check_features(self, instances: Any) -> None:
        if instances.shape[1] != self.n_features:
            raise ValueError(
                f"The bags have {instances.shape[1]} features but the kernel was fitted on bags "
                f"with {self.n_features}: both must have the same features."
            )

    def _rows(self, new: _Bags) -> list[np.ndarray]:
        rows, found, scales = None, PairSums(), (self.set_scale, self.row_scale)
        if self.columns is not None:
            rows = rows_of(new.compared, new.offsets, self.centre, self.columns.factor.dtype)
            found = _one_pass(self.names, rows, self.columns, scales, False, self.n_jobs)
        values = []
        for part in self.parts:
            if part.name in _VECTORS and self.cosine:
                values.append(cosines(new.vectors(part.name), part.training))
            elif part.name == "graph":
                bags = weighted_bags(new.compared, new.offsets, self.centre)
                values.append(graph_kernel(bags, part.training, part.scale))
            elif part.name == "set":
                assert rows is not None
                assert found.sums is not None
                dtype = rows.factor.dtype
                other = columns_of(new.compared, new.offsets, self.centre, dtype)
                own = own_sums(rows, other, self.set_scale)
                values.append(found.sums / np.sqrt(own[:, None] * part.training))
            else:
                if part.name == "emd":
                    assert rows is not None
                    assert self.columns is not None
                    distances = earth_movers(
                        rows, self.columns, symmetric=False, n_jobs=self.n_jobs
                    )
                elif part.name == "mind":
                    distances = _symmetric_mean(found)
                else:
                    vectors = _vectors(part.name, new, found)
                    if part.standard is not None:
                        vectors = _standardised(part.name, vectors, part.standard)
                    distances = _distances(part.name, vectors, part.training, self.n_jobs)
                values.append(np.exp(distances / -part.scale))
        return values


@dataclass(frozen=True)
class LearnedBagKernel:
    """One kernel that was learnt on training bags."""

    kernels: LearnedBagKernels

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.kernels.names[0]

    def matrix(self, instances: Any, offsets: np.ndarray) -> np.ndarray:
        """Kernel of new bags with the training bags, shape (n_new, n_train)."""
        return self.kernels.matrices(instances, offsets)[0]

    def diagonal(self, instances: Any, offsets: np.ndarray) -> np.ndarray:
        """Kernel of new bags with themselves, shape (n_new,)."""
        return self.kernels.diagonals(instances, offsets)[0]

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """The matrix as the only one, as :func:`~milearn._kernels.average.average_kernel` asks."""
        return self.kernels.matrices(instances, offsets)

    def diagonals(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """The diagonal as the only one."""
        return self.kernels.diagonals(instances, offsets)


def learn_bag_kernel(
    name: str,
    instances: Any,
    offsets: np.ndarray,
    *,
    width: float = 1.0,
    cosine: bool = False,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> tuple[LearnedBagKernel, np.ndarray]:
    """Learn one kernel on training bags, see :func:`learn_bag_kernels`.

    Returns
    -------
    fitted : LearnedBagKernel
    train : ndarray of shape (n_bags, n_bags)
        Kernel between the training bags.
    """
    fitted, matrices = learn_bag_kernels(
        [name],
        instances,
        offsets,
        width=width,
        cosine=cosine,
        n_jobs=n_jobs,
        random_state=random_state,
    )
    return LearnedBagKernel(fitted), matrices[0]


def learn_bag_kernels(
    names: Sequence[str],
    instances: Any,
    offsets: np.ndarray,
    *,
    width: float = 1.0,
    cosine: bool = False,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> tuple[LearnedBagKernels, list[np.ndarray]]:
    """Learn kernels on training bags, with one pass over the pairs of instances for all.

    Parameters
    ----------
    names : sequence of str
        Some of ``LEARNED_KERNELS``, see the module.
    instances : ndarray or CSR of shape (n_instances, n_features)
        Finite. Dense ones in float32 are compared in float32, in half of the time: kernels then
        differ from those of the same values in float64 by about 1e-6.
    offsets : ndarray of shape (n_bags + 1,)
    width : float, default=1.0
        Factor of the medians; for "miles_rows" of the median between rows alone.
    cosine : bool, default=False
        Rows of unit length and cosines, for text.
    n_jobs : int, default=None
        Number of threads, also in prediction.
    random_state : int, RandomState instance or None, default=None
        Draws the bags or instances whose pairs make the median, where there are more than 1000
        bags or 500 instances.

    Returns
    -------
    fitted : LearnedBagKernels
        Can be pickled; holds the training instances where a kernel compares instances.
    train : list of ndarray of shape (n_bags, n_bags)
        Kernels between the training bags, symmetric.

    Raises
    ------
    ImportError
        For "emd" without POT.
    MemoryError
        Before anything is computed, where the matrices do not fit.
    ValueError
        For an unknown name, and a width that is not positive.
    """
    for name in names:
        if name not in LEARNED_KERNELS:
            known = ", ".join(map(repr, LEARNED_KERNELS))
            raise ValueError(f"The bag kernel {name!r} is unknown: choose from {known}.")
    if not width > 0:
        raise ValueError(f"width={width!r} is not positive: it multiplies the median distance.")
    seed = check_random_state(random_state).randint(2**31 - 1)
    bags = _Bags(instances, offsets, cosine)
    n_instances = bags.raw.shape[0]
    _check_memory(names, bags, len(bags), n_instances)
    rows = columns = centre = None
    set_scale, row_scale = 1.0, None
    found = PairSums()
    if _compares_instances(names):
        if not sparse.issparse(bags.compared):
            centre = bags.compared.mean(axis=0, dtype=np.float64)
        dtype = np.float32 if bags.raw.dtype == np.float32 else np.float64
        rows = rows_of(bags.compared, bags.offsets, centre, dtype)
        columns = columns_of(bags.compared, bags.offsets, centre, dtype)
        if cosine:
            set_scale = width * _COSINE_SCALE
        elif {"set", "miles_rows", "graph"} & set(names):
            row_scale = median_of_rows(bags.compared, False, np.random.RandomState(seed))
            set_scale = width * row_scale
        found = _one_pass(names, rows, columns, (set_scale, row_scale), True, n_jobs)
    parts, matrices = [], []
    for name in names:
        if name == "set":
            assert found.sums is not None
            own = np.diagonal(found.sums).copy()
            parts.append(_Part(name, training=own))
            matrices.append(found.sums / np.sqrt(own[:, None] * own))
            continue
        if cosine and name in _VECTORS:
            vectors = bags.vectors(name)
            parts.append(_Part(name, training=vectors))
            matrices.append(cosines(vectors, vectors))
            continue
        if name == "graph":
            training = weighted_bags(bags.compared, bags.offsets, centre)
            parts.append(_Part(name, set_scale, training=training))
            values = graph_kernel(training, training, set_scale)
            matrices.append(0.5 * (values + values.T))
            continue
        vectors = standard = None
        if name == "emd":
            assert rows is not None
            assert columns is not None
            distances = earth_movers(rows, columns, symmetric=True, n_jobs=n_jobs)
        elif name == "mind":
            distances = _symmetric_mean(found)
        else:
            vectors = _vectors(name, bags, found)
            if name in ("statistics", "mind_rows") or (name == "miles_rows" and not cosine):
                # Distances do not change with the origin: what is not clipped needs no mean.
                standard = StandardScaler(with_mean=name == "mind_rows").fit(vectors)
                vectors = _standardised(name, vectors, standard)
            distances = _distances(name, vectors, vectors, n_jobs)
        scale = width * median_of_pairs(distances, np.random.RandomState(seed))
        parts.append(_Part(name, scale, standard, vectors))
        matrices.append(np.exp(distances / -scale))
    fitted = LearnedBagKernels(
        tuple(parts),
        columns,
        centre,
        set_scale,
        row_scale,
        cosine,
        sparse.issparse(instances),
        len(bags),
        instances.shape[1],
        n_jobs,
    )
    return fitted, matrices


def _dense_width(bags: _Bags) -> int:
    """Numbers that the largest bag takes as a dense matrix."""
    return int(np.diff(bags.offsets).max(initial=1)) * bags.raw.shape[1]


def _compares_instances(names: Sequence[str]) -> bool:
    return any(name not in _VECTORS for name in names)


def _one_pass(
    names: Sequence[str],
    rows: Side,
    columns: Side,
    scales: tuple[float, float | None],
    symmetric: bool,
    n_jobs: int | None,
) -> PairSums:
    """What the kernels need of pairs of instances; ``nearest`` as rows of similarities."""
    means, nearest = "mind" in names or "mind_rows" in names, "miles_rows" in names
    if not (means or nearest or "set" in names):
        return PairSums()
    found = pair_reductions(
        rows,
        columns,
        symmetric=symmetric,
        means=means,
        nearest=nearest,
        scale=scales[0] if "set" in names else None,
        n_jobs=n_jobs,
    )
    if found.nearest is not None:
        # The largest similarity is that of the nearest instance.
        if scales[1] is None:
            found.nearest *= -0.5
            found.nearest += 1.0
        else:
            found.nearest *= -1.0 / scales[1]
            np.exp(found.nearest, out=found.nearest)
    return found


def _symmetric_mean(found: PairSums) -> np.ndarray:
    assert found.there is not None
    assert found.back is not None
    return 0.5 * (found.there + found.back)


def _vectors(name: str, bags: _Bags, found: PairSums) -> Any:
    """One row for each bag, of which a kernel takes the distances."""
    if name == "mind_rows":
        assert found.there is not None
        return found.there
    if name == "miles_rows":
        assert found.nearest is not None
        return found.nearest
    return bags.vectors(name)


def _standardised(name: str, vectors: Any, standard: StandardScaler) -> Any:
    vectors = standard.transform(vectors)
    if name == "mind_rows":
        np.clip(vectors, -_ROW_CLIP, _ROW_CLIP, out=vectors)
    return vectors


def _distances(name: str, left: Any, right: Any, n_jobs: int | None) -> np.ndarray:
    if name in _LAPLACIAN:
        return l1_distances(left, right, n_jobs)
    return squared_distances(left, right)


def _check_memory(names: Sequence[str], left: _Bags, n_right: int, n_instances: int) -> None:
    """Refuse what does not fit, before it is begun; ``n_instances`` of the training bags."""
    cells = (len(names) + 4) * len(left) * n_right
    if _compares_instances(names) and n_instances:
        width = left.raw.shape[1] + 2
        copies = 4 if left.cosine else 2
        cells += copies * (left.raw.nnz if sparse.issparse(left.raw) else n_instances * width)
    if "miles_rows" in names:
        # Similarities, those standardised, and what their variances are computed with.
        cells += 4 * len(left) * n_instances
    require_memory(
        8.0 * cells + BLOCKS_HELD * block_bytes(),
        f"The kernels {', '.join(names)} of {len(left)} x {n_right} bags",
        "learn them on fewer bags, as n_components= of an estimator does, or leave out the kernel "
        "miles_rows, which compares each bag with each training instance",
    )
