"""Kernels between bags whose scales and widths are learnt on the training bags, and averages.

With d the Euclidean distance between instances, and medians over pairs of training bags (over
pairs of training instances for the scale s), times ``width``:

    "mean"              exp(-|m_A - m_B|^2 / median)    m: mean of the instances
    "unit_mean"         the same of instances divided by their lengths
    "minmax_laplacian"  exp(-|t_A - t_B|_1 / median)    t: minimum and maximum of each feature
    "statistics"        exp(-|t_A - t_B|_1 / median)    t: minimum, mean, maximum and standard
                                                        deviation, each divided by its own deviation
    "set_median"        S(A, B) / sqrt(S(A, A) S(B, B)) S: sum of exp(-d(a, b)^2 / s) over all pairs
    "mind"              exp(-(D(A, B) + D(B, A)) / (2 median))
                                                        D(A, B): mean_a min_b d(a, b)^2
    "mind_rows"         exp(-|r_A - r_B|^2 / median)    r: D(A, T) for each training bag T,
                                                        standardised and clipped at 3
    "miles_rows"        exp(-|r_A - r_B|^2 / median)    r: max_a exp(-d(a, t)^2 / s) for each
                                                        training instance t, standardised
    "emd"               exp(-E(A, B) / median)          E: earth mover's distance
    "graph"             sum of W_a W_b exp(-d(a, b)^2 / s) over all pairs, see :func:`graph_kernel`

With ``cosine=True`` instances are divided by their lengths first (except for "mean"). The first
four are then cosines between the vectors of two bags, and nothing is standardised; s of
"set_median" is 1/2 times the width, so that exp(-d^2 / s) = exp(-2 d^2); and the rows of
"miles_rows" are max_a cos(a, t), not standardised. An instance without entries is equal to others
of its kind and orthogonal to those with entries. Nothing is centred, and CSR instances stay CSR.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from .._bags.canonical import check_choice
from .._bags.segments import segment_mean
from .bag import (
    bag_vectors,
    cosines,
    l1_distances,
    median_of_pairs,
    median_of_rows,
    squared_distances,
    unit_rows,
)
from .memory import block_bytes, require_memory
from .pairs import (
    BLOCKS_HELD,
    PairReductions,
    PreparedRows,
    earth_movers,
    gaussians,
    own_sums,
    pair_reductions,
    side_of,
    squares,
)

# Standardised rows of distances are clipped at this value. A bag that is far from all training bags
# differs from them in every column, and its kernel would vanish. Similarities are already bounded.
_ROW_CLIP = 3.0
# Scale of exp(-d^2 / s) between rows of unit length.
_COSINE_SCALE = 0.5
# A centred matrix is zero up to rounding if its trace is below this fraction of the trace before.
_CONSTANT = 1e-12


# -- bags and training instances -------------------------------------------------------------------


class _Bags:
    """Instances in the representation that the kernels compare."""

    rows: PreparedRows
    found: PairReductions

    def __init__(self, instances: Any, offsets: np.ndarray, cosine: bool) -> None:
        self.raw = sparse.csr_array(instances) if sparse.issparse(instances) else instances
        self.offsets = np.asarray(offsets)
        self.cosine = cosine

    @cached_property
    def scaled(self) -> Any:
        """Rows from which vectors are computed."""
        return unit_rows(self.raw) if self.cosine else self.raw

    @cached_property
    def compared(self) -> Any:
        """Rows between which distances are computed; those of zeros have their own direction."""
        if not self.cosine:
            return self.raw
        lengths = np.asarray(abs(self.scaled).sum(axis=1)).ravel()
        empty = (lengths == 0).astype(np.float64)[:, None]
        if sparse.issparse(self.scaled):
            return sparse.hstack([self.scaled, sparse.csr_array(empty)], format="csr")
        return np.hstack([self.scaled, empty])

    @cached_property
    def _statistics(self) -> np.ndarray:
        return bag_vectors("statistics", self.raw, self.offsets)

    def vectors(self, name: str, rows: Any) -> Any:
        """The :func:`.bag.bag_vectors` of ``rows``; instances in a file are read once."""
        if rows is not self.raw or sparse.issparse(rows) or isinstance(rows, np.ndarray):
            return bag_vectors(name, rows, self.offsets)
        columns = np.split(self._statistics, 4, axis=1)
        chosen = {"mean": columns[2:3], "minmax": columns[:2], "statistics": columns}[name]
        return np.concatenate(chosen, axis=1)

    def __len__(self) -> int:
        return len(self.offsets) - 1


# -- kernels ---------------------------------------------------------------------------------------

# By name: what is compared, the distance between its vectors, and whether similarities of instances
# have the scale s. Compared are a vector of each bag; reductions of one pass over the pairs of
# instances ("means", "nearest" and "sums", see :mod:`.pairs`); or the instances themselves.
_VECTORS = ("mean", "minmax", "statistics")
_KERNELS = {
    "mean": ("mean", "squared", False),
    "unit_mean": ("mean", "squared", False),
    "minmax_laplacian": ("minmax", "l1", False),
    "statistics": ("statistics", "l1", False),
    "set_median": ("sums", None, True),
    "mind": ("means", None, False),
    "mind_rows": ("means", "squared", False),
    "miles_rows": ("nearest", "squared", True),
    "emd": ("instances", None, False),
    "graph": ("instances", None, True),
}
LEARNED_KERNELS = tuple(_KERNELS)


def compares_instances(name: str) -> bool:
    """Whether a kernel needs distances between instances, and not only a vector for each bag."""
    return _KERNELS[name][0] not in _VECTORS


class _Kernel:
    """A learnt kernel: similarities of bags, or exp(-distance / scale) with a median distance."""

    def __init__(self, name: str, cosine: bool) -> None:
        check_choice("bag_kernel", name, LEARNED_KERNELS)
        self.name, self.cosine = name, cosine
        self.needs, self.metric, self.scaled = _KERNELS[name]
        self.is_cosine = cosine and self.needs in _VECTORS
        self.is_similarity = self.is_cosine or name in ("set_median", "graph")
        self.standard: StandardScaler | None = None
        # Distances do not depend on the origin, so centring is not needed without clipping.
        if name == "mind_rows":
            self.standard = StandardScaler()
        elif name in ("statistics", "miles_rows") and not cosine:
            self.standard = StandardScaler(with_mean=False)

    def learn(self, bags: _Bags, fitted: LearnedBagKernels, width: float, seed: int) -> np.ndarray:
        """Learn on the training bags; returns their kernel matrix."""
        values = self._compared(bags, fitted, training=True)
        if self.is_similarity:
            return values
        self.scale = width * median_of_pairs(values, np.random.RandomState(seed))
        return np.exp(values / -self.scale)

    def matrix(self, bags: _Bags, fitted: LearnedBagKernels) -> np.ndarray:
        """Kernel of new bags with the training bags."""
        values = self._compared(bags, fitted, training=False)
        return values if self.is_similarity else np.exp(values / -self.scale)

    def _compared(self, bags: _Bags, fitted: LearnedBagKernels, *, training: bool) -> np.ndarray:
        """Similarities to, or distances from, the training bags."""
        if self.name == "mind":
            return np.asarray(0.5 * (bags.found.to_columns + bags.found.to_rows))
        if self.name == "emd":
            assert fitted.columns is not None
            return earth_movers(bags.rows, fitted.columns, symmetric=training, n_jobs=fitted.n_jobs)
        if self.name == "graph":
            new = weighted_bags(bags.compared, bags.offsets, fitted.centre)
            if training:
                self.training = new
            return graph_kernel(new, self.training, fitted.scale)
        if self.name == "set_median":
            if training:
                own = self.own = np.diagonal(bags.found.sums).copy()
            else:
                dtype = bags.rows.factor.dtype
                columns = side_of(bags.compared, bags.offsets, fitted.centre, dtype, right=True)
                values_of = partial(squares, bags.rows, columns, exact=False)
                own = own_sums(values_of, bags.offsets, partial(gaussians, fitted.scale))
            return np.asarray(bags.found.sums / np.sqrt(own[:, None] * self.own))
        vectors = self._vectors(bags, fitted.row_scale)
        if self.standard is not None:
            if training:
                self.standard.fit(vectors)
            vectors = self.standard.transform(vectors)
        if self.name == "mind_rows":
            np.clip(vectors, -_ROW_CLIP, _ROW_CLIP, out=vectors)
        if training:
            self.training = vectors
        if self.is_cosine:
            return cosines(vectors, self.training)
        if self.metric == "l1":
            return l1_distances(vectors, self.training, fitted.n_jobs)
        return squared_distances(vectors, self.training)

    def _vectors(self, bags: _Bags, row_scale: float | None) -> Any:
        """A vector for each bag."""
        if self.needs == "means":
            return bags.found.to_columns
        if self.needs == "nearest":
            # The nearest instance has the largest similarity.
            if row_scale is None:
                return 1.0 - 0.5 * bags.found.nearest
            values = bags.found.nearest / -row_scale
            return np.exp(values, out=values)
        rows = bags.raw if self.name == "mean" else bags.scaled
        if self.name == "unit_mean" and not bags.cosine:
            rows = unit_rows(rows)
        return bags.vectors(self.needs, rows)


# -- learning --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnedBagKernels:
    """Several kernels on the same training bags, which share one pass over pairs of instances."""

    kernels: list[_Kernel]
    cosine: bool
    is_sparse: bool
    n_train: int
    n_features: int
    n_jobs: int | None = None
    # Training instances, if instances are compared, and the mean subtracted from dense ones.
    columns: PreparedRows | None = None
    centre: np.ndarray | None = None
    # Scale s of "set_median" and "graph", and of "miles_rows", which is None for cosines.
    scale: float = 1.0
    row_scale: float | None = None

    def compare(self, bags: _Bags, symmetric: bool) -> None:
        """One pass over pairs of instances, for all kernels."""
        if self.columns is None:
            return
        bags.rows = side_of(bags.compared, bags.offsets, self.centre, self.columns.factor.dtype)
        needs = {kernel.needs for kernel in self.kernels}
        if needs & {"means", "nearest", "sums"}:
            # Exponentials do not require precise small squares.
            exact = bool(needs & {"means", "nearest"})
            bags.found = pair_reductions(
                partial(squares, bags.rows, self.columns, exact=exact),
                bags.offsets,
                self.columns.offsets,
                symmetric=symmetric,
                pool=segment_mean if "means" in needs else None,
                nearest="nearest" in needs,
                similarity=partial(gaussians, self.scale) if "sums" in needs else None,
                n_jobs=self.n_jobs,
            )

    def matrices(
        self, instances: Any, offsets: np.ndarray, row_bytes: int = 2**27
    ) -> list[np.ndarray]:
        """Kernels of new bags with the training bags, each of shape (n_new, n_train).

        New bags are compared in parts, whose values take up to ``row_bytes``.
        """
        new = _Bags(instances, offsets, False)
        sparsely = sparse.issparse(instances)
        _check_memory(self.kernels, new, self.n_train, 0)
        out = [np.empty((len(new), self.n_train)) for _ in self.kernels]
        # Values per new bag that are in memory at the same time.
        width = self.n_train
        if self.columns is not None and any(kernel.needs == "nearest" for kernel in self.kernels):
            width = max(width, len(self.columns.norms))
        if sparsely and not self.is_sparse:
            width = max(width, int(np.diff(new.offsets).max(initial=1)) * self.n_features)
        step = max(1, row_bytes // (8 * width))
        for first in range(0, len(new), step):
            last = min(first + step, len(new))
            inner = new.offsets[first : last + 1]
            rows, inner = new.raw[inner[0] : inner[-1]], inner - inner[0]
            if sparsely != self.is_sparse:
                # Use the same format as for the training bags.
                rows = rows.toarray() if sparsely else sparse.csr_array(rows)
            part = _Bags(rows, inner, self.cosine)
            self.compare(part, symmetric=False)
            for values, kernel in zip(out, self.kernels, strict=True):
                values[first:last] = kernel.matrix(part, self)
        return out

    def matrix(self, instances: Any, offsets: np.ndarray) -> np.ndarray:
        """The matrix of the first kernel."""
        return self.matrices(instances, offsets)[0]


def learn_bag_kernel(
    name: str, instances: Any, offsets: np.ndarray, **options: Any
) -> tuple[LearnedBagKernels, np.ndarray]:
    """Learn one kernel, see :func:`learn_bag_kernels`; returns its matrix of the training bags."""
    fitted, matrices = learn_bag_kernels([name], instances, offsets, **options)
    return fitted, matrices[0]


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
    instances : ndarray, CSR or rows of a file, of shape (n_instances, n_features)
        Finite. Only kernels of one vector per bag take rows of a file.
        Dense ones in float32 are compared in float32, in half of the time: kernels then
        differ from those of the same values in float64 by about 1e-6.
    offsets : ndarray of shape (n_bags + 1,)
    width : float, default=1.0
        Factor of the medians; for "miles_rows" only of the median between rows.
    cosine : bool, default=False
        Rows of unit length and cosines, for text.
    n_jobs : int, default=None
        Number of threads, also in prediction.
    random_state : int, RandomState instance or None, default=None
        Determines the sample of bags or instances on which the medians are computed if there are
        more than 1000 bags or 500 instances.

    Returns
    -------
    fitted : LearnedBagKernels
        Can be pickled; contains the training instances if a kernel compares instances.
    train : list of ndarray of shape (n_bags, n_bags)
        Kernels between the training bags, symmetric.

    Raises
    ------
    ImportError
        For "emd" without POT.
    MemoryError
        If the matrices do not fit into memory. This is checked before any computation.
    ValueError
        If a name is unknown, or the width is not positive.
    """
    kernels = [_Kernel(name, cosine) for name in names]
    if not width > 0:
        raise ValueError(f"width={width!r} is not positive: it multiplies the median distance.")
    seed = check_random_state(random_state).randint(2**31 - 1)
    bags = _Bags(instances, offsets, cosine)
    _check_memory(kernels, bags, len(bags), bags.raw.shape[0])
    shared: dict[str, Any] = {}
    if any(map(compares_instances, names)):
        centre = None
        if not sparse.issparse(bags.compared):
            centre = bags.compared.mean(axis=0, dtype=np.float64)
        dtype = np.float32 if bags.raw.dtype == np.float32 else np.float64
        columns = side_of(bags.compared, bags.offsets, centre, dtype, right=True)
        shared = {"columns": columns, "centre": centre, "scale": width * _COSINE_SCALE}
        if not cosine and any(kernel.scaled for kernel in kernels):
            scale = median_of_rows(bags.compared, False, np.random.RandomState(seed))
            shared |= {"scale": width * scale, "row_scale": scale}
    fitted = LearnedBagKernels(
        kernels,
        cosine,
        sparse.issparse(instances),
        len(bags),
        instances.shape[1],
        n_jobs,
        **shared,
    )
    fitted.compare(bags, symmetric=True)
    return fitted, [kernel.learn(bags, fitted, width, seed) for kernel in kernels]


def _check_memory(kernels: Sequence[_Kernel], left: _Bags, n_right: int, n_instances: int) -> None:
    """Raise an error if the matrices do not fit; the training bags hold ``n_instances``."""
    cells = (len(kernels) + 4) * len(left) * n_right
    if n_instances and not {kernel.needs for kernel in kernels} <= set(_VECTORS):
        width = left.raw.shape[1] + 2
        copies = 4 if left.cosine else 2
        cells += copies * (left.raw.nnz if sparse.issparse(left.raw) else n_instances * width)
    if any(kernel.needs == "nearest" for kernel in kernels):
        # Distances, similarities, standardised similarities, and a copy to compute variances.
        cells += 5 * len(left) * n_instances
    require_memory(
        8.0 * cells + BLOCKS_HELD * block_bytes(),
        f"The kernels {', '.join(each.name for each in kernels)} of {len(left)} x {n_right} bags",
        "learn them on fewer bags, as by n_components=, or without the kernel miles_rows",
    )


# -- averages --------------------------------------------------------------------------------------


class FittedKernels(Protocol):
    """One or several kernels between bags that were fitted on the same training bags."""

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """Kernels of new bags with the training bags, each of shape (n_new, n_train)."""
        ...


@dataclass(frozen=True)
class ScaledKernels:
    """Kernels of scaled instances as kernels of the instances before scaling."""

    # A fitted transformer and not its bound method, which skops cannot load.
    scaler: Any
    kernels: FittedKernels

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """See :class:`FittedKernels`."""
        scaled = self.scaler.transform(instances)
        # A scaler with an output of its own gives frames.
        rows = scaled if sparse.issparse(scaled) else np.asarray(scaled)
        return self.kernels.matrices(rows, offsets)


@dataclass(frozen=True)
class AverageKernel:
    r"""Weighted average of kernels, each centred with the training bags' means and scaled.

    With :math:`m(B)` the mean of :math:`k(B, T)` over the training bags :math:`T`, and
    :math:`\bar m` the mean of :math:`m` over them,

    .. math::

        \sum_q w_q \frac{n}{\operatorname{tr} \tilde K_q} \tilde k_q(A, B), \qquad
        \tilde k(A, B) = k(A, B) - m(A) - m(B) + \bar m,

    where :math:`\tilde K` is the centred matrix of the n training bags: each kernel is an inner
    product of images whose training mean is zero and whose mean squared length is one.
    """

    kernels: Sequence[FittedKernels]
    # Of shape (n_kernels, n_train). m of the training bags, by each kernel.
    means: np.ndarray
    # Of shape (n_kernels,). Weight times n over the trace; zero for a kernel that is the same for
    # all training bags.
    factors: np.ndarray

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """The average as the only one of :class:`FittedKernels`."""
        out = np.zeros((len(offsets) - 1, self.means.shape[1]))
        given = (
            values for kernels in self.kernels for values in kernels.matrices(instances, offsets)
        )
        for values, means, factor in zip(given, self.means, self.factors, strict=True):
            centred = values - values.mean(axis=1)[:, None]
            centred -= means - means.mean()
            centred *= factor
            out += centred
        return [out]


def average_kernel(
    kernels: Sequence[FittedKernels], train: Iterable[np.ndarray], weights: Sequence[float]
) -> tuple[AverageKernel, np.ndarray]:
    """Average fitted kernels.

    Parameters
    ----------
    kernels : sequence of FittedKernels
    train : iterable of ndarray of shape (n_train, n_train)
        Matrices of the training bags by each kernel, those of the first of ``kernels`` first. They
        are taken one after the other and not changed.
    weights : sequence of float
        One for each matrix, above zero; divided by their sum.

    Returns
    -------
    average : AverageKernel
    train : ndarray of shape (n_train, n_train)
        The average of the training bags; its rows have the mean zero, its trace is n_train.
    """
    proportions = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    means, factors = [], []
    out: Any = 0.0
    for values, share in zip(train, proportions, strict=True):
        row_means = values.mean(axis=0)
        centred = values - row_means
        centred -= row_means[:, None]
        centred += row_means.mean()
        trace = float(np.trace(centred))
        # A centred constant kernel is zero up to rounding.
        constant = trace <= _CONSTANT * float(np.trace(values))
        means.append(row_means)
        factors.append(0.0 if constant else share * len(values) / trace)
        centred *= factors[-1]
        out = centred if len(means) == 1 else np.add(out, centred, out=out)
    return AverageKernel(kernels, np.array(means), np.array(factors)), out


# Distances that exceed the mean by less than this are equal to it, as in bags of two instances.
_EQUAL = 1e-6
# Number of matrices of pairs of instances that are in memory at the same time.
_HELD = 2


@dataclass(frozen=True)
class WeightedBags:
    """Instances of bags, centred if dense, with weights that sum to one in each bag."""

    instances: Any
    offsets: np.ndarray
    weights: np.ndarray


def weighted_bags(instances: Any, offsets: np.ndarray, centre: np.ndarray | None) -> WeightedBags:
    """Bags with the weights of their graphs.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    centre : ndarray of shape (n_features,) or None
        It is subtracted from dense instances to avoid cancellation in distances.
    """
    if not sparse.issparse(instances):
        instances = instances.astype(np.float64) - (0.0 if centre is None else centre)
    return WeightedBags(instances, offsets, degree_weights(instances, offsets))


def degree_weights(instances: Any, offsets: np.ndarray) -> np.ndarray:
    """One over the number of links of each instance, normalised to a sum of one in each bag."""
    weights = np.ones(int(offsets[-1]))
    largest = int(np.diff(offsets).max())
    require_memory(
        _HELD * 8.0 * largest**2,
        f"The graph kernel of bags of up to {largest} instances",
        "draw some instances of large bags, or use another kernel",
    )
    for first, last in pairwise(offsets):
        size = int(last - first)
        if size > 1:
            distances = euclidean_distances(instances[first:last])
            limit = distances.sum() / (size * (size - 1)) * (1.0 + _EQUAL)
            own = 1.0 / (distances <= limit).sum(axis=1)
            weights[first:last] = own / own.sum()
    return weights


def graph_kernel(left: WeightedBags, right: WeightedBags, scale: float) -> np.ndarray:
    """The kernel of each bag on the left with each on the right, as graphs (miGraph), in blocks.

    In the graph of a bag, two instances are linked if their distance is at most the mean distance
    between two instances of the bag, and each instance is linked to itself. The weight W of an
    instance is one over its number of links. With a scale s, the kernel is

        k(A, B) = sum_a sum_b W_a W_b exp(-d(a, b)^2 / s) / (sum_a W_a sum_b W_b),

    in which a clique of many similar instances counts as one (Zhou, Sun & Li, 2009).
    """

    def values_of(of: slice, to: slice) -> np.ndarray:
        squared = euclidean_distances(left.instances[of], right.instances[to], squared=True)
        values = gaussians(scale, squared)
        values *= left.weights[of, None]
        values *= right.weights[to]
        return values

    symmetric = left is right
    return pair_reductions(
        values_of, left.offsets, right.offsets, symmetric=symmetric, similarity=np.asarray
    ).sums
