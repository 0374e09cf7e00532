"""Averages of bag kernels over scalings of the instances, learnt on training bags.

No labels are used. A kernel matrix is centred and scaled to trace n before it is averaged; for new
bags, with the means and the trace of the training bags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import delayed, effective_n_jobs
from scipy import sparse
from sklearn.base import clone

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.rows_on_disk import computed_when_read, is_read_in_blocks, row_blocks, without_names
from .._bags.segments import bag_ranges
from .._bags.threads import Parallel
from .._kernels.learned import (
    LEARNED_KERNELS,
    FittedKernels,
    ScaledKernels,
    average_kernel,
    learn_bag_kernels,
)
from .._kernels.memory import require_memory
from ..preprocessing import ClippedScaler
from ..preprocessing._instance_transformer import ScaledInPlace

# The default averages; the data sets on which they were chosen: benchmarks/commands/automatic.py.
DENSE_KERNELS = (
    "mean",
    "minmax_laplacian",
    "statistics",
    "set_median",
    "mind",
    "mind_rows",
    "miles_rows",
)
TEXT_KERNELS = ("mean", "minmax_laplacian")
# Kernels between statistics of each feature, which are computed from blocks of dense instances.
_BY_STATISTICS = ("mean", "minmax_laplacian", "statistics")

# Instances with at most this fraction of nonzero entries are compared by angles, like texts.
_TEXT_DENSITY = 0.05
# Up to this value the sum of squares over features does not overflow.
_LARGEST = 1e145
# Number of instances of new bags per block.
_ROWS = 8192

Term = tuple[Any, float]


# -- plans -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelPlan:
    """Kernels and scalings of an average, before the fit."""

    terms: tuple[Term, ...]
    # None is no scaling.
    scalings: tuple[Any, ...]
    # The widths of kernels as a multiple of median distances.
    width: float
    # Whether instances are compared by angles.
    cosine: bool

    @property
    def normalised(self) -> bool:
        """Whether matrices are centred and scaled, which a single kernel is not."""
        return len(self.terms) * len(self.scalings) > 1


def kernel_terms(bag_kernel: Any, text: bool) -> tuple[Term, ...]:
    """Kernels and weights of the parameter ``bag_kernel``; "average" depends on ``text``.

    Raises
    ------
    ValueError
        For unknown names, weights that are not positive, and an empty list.
    """
    if isinstance(bag_kernel, str) and bag_kernel == "average":
        return tuple((name, 1.0) for name in (TEXT_KERNELS if text else DENSE_KERNELS))
    listed = bag_kernel if isinstance(bag_kernel, list) else [bag_kernel]
    if not listed:
        raise ValueError("bag_kernel is an empty list: name at least one kernel.")
    terms = [entry if isinstance(entry, tuple) else (entry, 1.0) for entry in listed]
    for term in terms:
        if len(term) != 2 or not (callable(term[0]) or term[0] in LEARNED_KERNELS):
            raise ValueError(
                f"bag_kernel={term[0] if len(term) == 2 else term!r} is unknown: choose from "
                f"'average', 'precomputed', {', '.join(map(repr, LEARNED_KERNELS))}, a callable, "
                "or a list of these and of (kernel, weight)."
            )
        if not (np.isfinite(term[1]) and term[1] > 0):
            raise ValueError(
                f"bag_kernel gives {term[0]!r} the weight {term[1]!r}: weights must be positive."
            )
    return tuple((kernel, float(weight)) for kernel, weight in terms)


def default_scalings() -> tuple[Any, ...]:
    """The four clipped scalings of dense instances.

    If a feature is nearly always zero, a new bag may have a z-score of twenty in it. Without
    clipping, its kernel values with all training bags would vanish.
    """
    return (
        ClippedScaler("standard", clip=3.0),
        ClippedScaler("standard", clip=10.0),
        ClippedScaler("minmax"),
        ClippedScaler("quantile", clip=3.0, n_quantiles=200, random_state=0),
    )


def is_text(bags: Bags) -> bool:
    """Whether at most 5 % of the entries are nonzero, in dense or sparse storage."""
    entries = sum(bags.source(dtype=bags.dtype).map(_n_nonzero, in_parts=True))
    return bool(0 < entries <= _TEXT_DENSITY * bags.n_instances * bags.shape[1])


def _n_nonzero(block: Block) -> int:
    rows = block.instances
    return int(np.count_nonzero(rows.data if sparse.issparse(rows) else rows))


def as_kind(bags: Any, text: bool) -> Any:
    """The bags with texts as CSR, and other instances as a dense matrix."""
    if bags.is_sparse == text:
        return bags
    return bags._transformed(_as_kind, text)


def _as_kind(bags: Bags, text: bool) -> Bags:
    if text:
        if is_read_in_blocks(bags):
            parts = [sparse.csr_array(rows) for _, _, rows in row_blocks(bags, np.float64)]
            return bags.with_instances(sparse.vstack(parts, format="csr"))
        return bags.with_instances(sparse.csr_array(bags.instances))
    require_memory(
        8 * bags.n_instances * bags.shape[1],
        f"The dense matrix of {bags.n_instances} x {bags.shape[1]} instances",
        "reduce their features, for instance by TruncatedSVD in an InstanceTransformer",
    )
    return bags.with_instances(bags.instances.toarray())


# -- learnt averages -------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelAverage:
    """A kernel or an average of several, learnt on ``n_train`` distinct training bags."""

    fitted: FittedKernels
    # Whether instances are converted to CSR, or to a dense matrix.
    text: bool

    def rows(self, bags: Bags) -> np.ndarray:
        """Kernel of new bags with the training bags, shape (n_new, n_train)."""
        bags = as_kind(bags, self.text)
        rows, blocks = bags.instance_rows, []
        for first, last in bag_ranges(bags.offsets, _ROWS):
            start, stop = int(bags.offsets[first]), int(bags.offsets[last])
            inner = bags.offsets[first : last + 1] - start
            instances = rows[start:stop].astype(np.float64, copy=False)
            blocks += self.fitted.matrices(instances, inner)
        return np.concatenate(blocks)


@dataclass(frozen=True)
class _CalledKernel:
    """A user's kernel between bags, with the training bags."""

    function: Callable[[Any, Any], Any]
    training: Bags

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """See :class:`milearn._kernels.learned.FittedKernels`."""
        bags = Bags(instances, offsets)
        values = np.asarray(self.function(bags, self.training), dtype=np.float64)
        expected = (len(bags), len(self.training))
        if values.shape != expected:
            raise ValueError(
                f"The bag kernel returned shape {values.shape} for {expected[0]} and {expected[1]} "
                f"bags: bag_kernel(A, B) must return a matrix of shape {expected}."
            )
        return [values]


# -- learning --------------------------------------------------------------------------------------


def learn_scaled(
    plan: KernelPlan, scaling: Any, bags: Bags, n_jobs: int | None = None, seed: int = 0
) -> tuple[FittedKernels, np.ndarray]:
    """Fit one scaling and the average of the kernels over it.

    Parameters
    ----------
    plan : KernelPlan
    scaling : transformer or None
    bags : Bags
        Distinct training bags, in the storage that :func:`as_kind` gives.
    n_jobs : int, default=None
        Threads for the pairs of instances.
    seed : int, default=0

    Returns
    -------
    kernels : FittedKernels
    matrix : ndarray of shape (n_bags, n_bags)
    """
    check_range(bags)
    names = [kernel for kernel, _ in plan.terms if not callable(kernel)]
    called = [kernel for kernel, _ in plan.terms if callable(kernel)]
    scaler, scaled = None, bags
    in_blocks = not called and _takes_blocks(bags, scaling, names)
    if in_blocks:
        scaler = clone(scaling).fit(without_names(bags))
        scaled = computed_when_read(bags, ScaledInPlace(scaler), np.float64)
    elif scaling is not None:
        scaler = clone(scaling).fit(bags.instances)
        scaled = bags.with_instances(scaler.transform(bags.instances))
    fitted: list[FittedKernels] = []
    matrices: list[np.ndarray] = []
    if names:
        learned, matrices = learn_bag_kernels(
            names,
            scaled.instance_rows if in_blocks else scaled.instances,
            scaled.offsets,
            width=plan.width,
            cosine=plan.cosine,
            n_jobs=n_jobs,
            random_state=seed,
        )
        fitted.append(learned)
    for function in called:
        kernel = _CalledKernel(function, scaled)
        fitted.append(kernel)
        matrices += kernel.matrices(scaled.instances, scaled.offsets)
    if scaler is not None:
        fitted = [ScaledKernels(scaler, kernels) for kernels in fitted]
    if not plan.normalised:
        return fitted[0], matrices[0]
    weights = [
        weight
        for named in (True, False)
        for kernel, weight in plan.terms
        if callable(kernel) != named
    ]
    return average_kernel(fitted, matrices, weights)


def _takes_blocks(bags: Bags, scaling: Any, names: Sequence[str]) -> bool:
    """Whether the instances stay where they are and are scaled when they are read."""
    by_statistics = all(name in _BY_STATISTICS for name in names)
    return by_statistics and isinstance(scaling, ClippedScaler) and is_read_in_blocks(bags)


def check_range(bags: Bags) -> None:
    """Refuse instances whose squares overflow, before a kernel has values that are not finite."""
    largest = max(bags.source().map(_largest, in_parts=True), default=0.0)
    if largest > _LARGEST:
        raise ValueError(
            f"X holds values up to {largest:.1e}, whose squares overflow: scale the features, for "
            "instance by MaxAbsScaler in an InstanceTransformer."
        )


def _largest(block: Block) -> float:
    rows = block.instances
    values = rows.data if sparse.issparse(rows) else rows
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def learn_average(
    plan: KernelPlan, bags: Bags, n_jobs: int | None = None, seed: int = 0
) -> tuple[KernelAverage, np.ndarray]:
    """Fit all scalings and kernels of a plan.

    Parameters
    ----------
    plan : KernelPlan
    bags : Bags
        Distinct training bags, in the storage that :func:`as_kind` gives.
    n_jobs : int, default=None
        Jobs over the scalings; threads over the pairs of instances where there is one scaling.
    seed : int, default=0

    Returns
    -------
    average : KernelAverage
    matrix : ndarray of shape (n_bags, n_bags)
        The average between the training bags.
    """
    single = len(plan.scalings) == 1 or effective_n_jobs(n_jobs) == 1
    inner = n_jobs if single else 1
    found = Parallel(n_jobs=1 if single else n_jobs)(
        delayed(learn_scaled)(plan, scaling, bags, inner, seed) for scaling in plan.scalings
    )
    return combined(plan, found)


def combined(
    plan: KernelPlan, found: Sequence[tuple[FittedKernels, np.ndarray]]
) -> tuple[KernelAverage, np.ndarray]:
    """The average over those scalings of a plan that were learnt."""
    if len(found) == 1:
        fitted, matrix = found[0]
    else:
        fitted, matrix = average_kernel(
            [kernels for kernels, _ in found], (matrix for _, matrix in found), [1.0] * len(found)
        )
    return KernelAverage(fitted, plan.cosine), matrix
