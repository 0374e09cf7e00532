"""Averages of bag kernels over scalings of the instances, learnt on training bags.

Nothing here sees a label. A kernel matrix is centred and scaled to trace n before it enters the
average, with the training bags' means and trace also for new bags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    QuantileTransformer,
    StandardScaler,
)

from .._bags import Bags
from .._bags.segments import bag_ranges
from .._kernels.learned import LEARNED_KERNELS, learn_bag_kernels
from .._kernels.memory import require_memory

__all__ = [
    "DENSE_KERNELS",
    "TEXT_KERNELS",
    "KernelAverage",
    "KernelPlan",
    "ScaledKernels",
    "as_kind",
    "default_scalings",
    "kernel_terms",
    "learn_average",
    "learn_scaled",
]

# What the averages are made of by default; benchmarks/common/halves.py says on what it was chosen.
DENSE_KERNELS = ("mean", "minmax", "statistics", "set", "mind", "mind_rows", "miles_rows")
TEXT_KERNELS = ("mean", "minmax", "miles_rows")

# Instances of new bags that are scaled and compared at a time.
_ROWS = 8192

Term = tuple[Any, float]


# -- what is to be learnt --------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelPlan:
    """Kernels and scalings of an average, before anything is learnt.

    Attributes
    ----------
    terms : tuple of (name or callable, weight)
    scalings : tuple of transformers; None is "as they are"
    width : float
        Factor of the median distances.
    cosine : bool
        Whether instances are compared by angles.
    """

    terms: tuple[Term, ...]
    scalings: tuple[Any, ...]
    width: float
    cosine: bool

    @property
    def normalised(self) -> bool:
        """Whether matrices are centred and scaled: one kernel alone is taken as it is."""
        return len(self.terms) * len(self.scalings) > 1


def kernel_terms(bag_kernel: Any, text: bool) -> tuple[Term, ...]:
    """Kernels and weights that the parameter ``bag_kernel`` names.

    Parameters
    ----------
    bag_kernel : str, callable, or list of these and of (kernel, weight)
    text : bool
        Which kernels "average" stands for.

    Returns
    -------
    tuple of (name or callable, weight)

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

    Features that are nearly always zero give a new bag z-scores of twenty, and without a limit its
    kernels with all training bags vanish.
    """
    quantiles = QuantileTransformer(output_distribution="normal", n_quantiles=200, random_state=0)
    return (
        make_pipeline(StandardScaler(), _clip(3.0)),
        make_pipeline(StandardScaler(), _clip(10.0)),
        MinMaxScaler(clip=True),
        make_pipeline(quantiles, _clip(3.0)),
    )


def _clip(limit: float) -> FunctionTransformer:
    return FunctionTransformer(np.clip, kw_args={"a_min": -limit, "a_max": limit})


def as_kind(bags: Bags, text: bool) -> Bags:
    """Texts as CSR and everything else as a dense matrix, whatever the storage."""
    is_sparse = sparse.issparse(bags.instance_rows)
    if is_sparse == text:
        return bags
    if text:
        return bags.with_instances(sparse.csr_array(bags.instances))
    require_memory(
        8 * bags.n_instances * bags.shape[1],
        f"The dense matrix of {bags.n_instances} x {bags.shape[1]} instances",
        "reduce their features, for instance by TruncatedSVD in an InstanceTransformer",
    )
    return bags.with_instances(bags.instances.toarray())


# -- what was learnt -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Centre:
    """Means and scale of a training matrix, by which rows of new bags are treated like it."""

    weight: float
    means: np.ndarray | None
    mean: float
    factor: float

    @classmethod
    def of(cls, matrix: np.ndarray, weight: float, normalised: bool) -> _Centre:
        if not normalised:
            return cls(weight, None, 0.0, 1.0)
        means = matrix.mean(axis=0)
        mean = float(means.mean())
        trace = float(np.trace(matrix) - len(matrix) * mean)
        # What is the same for all bags has nothing to say.
        small = trace <= 1e-12 * max(1.0, float(np.abs(np.diagonal(matrix)).sum()))
        return cls(weight, means, mean, 0.0 if small else len(matrix) / trace)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        if self.means is None:
            return rows if self.weight == 1.0 else self.weight * rows
        centred = rows - rows.mean(axis=1, keepdims=True)
        centred += self.mean - self.means
        centred *= self.weight * self.factor
        return centred


@dataclass(frozen=True)
class _CallableKernels:
    """A user's kernel between bags, with the training bags that it is asked about."""

    functions: tuple[Callable[[Any, Any], Any], ...]
    training: Bags

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        new = Bags(instances, offsets)
        return [_values_of(each, new, self.training) for each in self.functions]


@dataclass(frozen=True)
class ScaledKernels:
    """Kernels over one scaling of the instances.

    Attributes
    ----------
    scaler : fitted transformer or None
    learned : fitted kernels by name, or None
    called : kernels that are functions of the user's, or None
    centres : tuple of _Centre, in the order of ``learned`` and ``called``
    """

    scaler: Any
    learned: Any
    called: _CallableKernels | None
    centres: tuple[_Centre, ...]

    def rows(self, instances: Any, offsets: np.ndarray) -> np.ndarray:
        """Weighted sum of the kernels of new bags with the training bags."""
        scaled = instances if self.scaler is None else self.scaler.transform(instances)
        matrices: list[np.ndarray] = []
        for kernels in (self.learned, self.called):
            if kernels is not None:
                matrices += kernels.matrices(scaled, offsets)
        return sum(
            (centre(matrix) for centre, matrix in zip(self.centres, matrices, strict=True)),
            np.zeros((len(offsets) - 1, matrices[0].shape[1])),
        )


@dataclass(frozen=True)
class KernelAverage:
    """An average of kernels, learnt on ``n_train`` distinct training bags."""

    parts: tuple[ScaledKernels, ...]
    total: float
    text: bool

    def rows(self, bags: Bags) -> np.ndarray:
        """Kernel of new bags with the training bags, shape (n_new, n_train)."""
        bags = as_kind(bags, self.text)
        blocks = []
        for first, last in bag_ranges(bags.offsets, _ROWS):
            start, stop = int(bags.offsets[first]), int(bags.offsets[last])
            inner = bags.offsets[first : last + 1] - start
            rows = sum(part.rows(bags.instances[start:stop], inner) for part in self.parts)
            blocks.append(np.asarray(rows) / self.total)
        return np.concatenate(blocks)


# -- learning --------------------------------------------------------------------------------------


def learn_scaled(
    plan: KernelPlan, scaling: Any, bags: Bags, n_jobs: int | None = None, seed: int = 0
) -> tuple[ScaledKernels, np.ndarray]:
    """Fit one scaling, the kernels over it, and return the weighted sum of their matrices.

    Parameters
    ----------
    plan : KernelPlan
    scaling : transformer or None
    bags : Bags
        Distinct training bags.
    n_jobs : int, default=None
        Threads for the pairs of instances.
    seed : int, default=0

    Returns
    -------
    kernels : ScaledKernels
    matrix : ndarray of shape (n_bags, n_bags)
    """
    scaler, scaled = None, bags
    if scaling is not None:
        scaler = _sized(clone(scaling), bags.n_instances).fit(bags.instances)
        scaled = bags.with_instances(scaler.transform(bags.instances))
    named = [term for term in plan.terms if not callable(term[0])]
    functions = [term for term in plan.terms if callable(term[0])]
    learned, called, matrices = None, None, []
    if named:
        learned, matrices = learn_bag_kernels(
            [name for name, _ in named],
            scaled.instances,
            scaled.offsets,
            width=plan.width,
            cosine=plan.cosine,
            n_jobs=n_jobs,
            random_state=seed,
        )
    if functions:
        called = _CallableKernels(tuple(function for function, _ in functions), scaled)
        matrices = [*matrices, *called.matrices(scaled.instances, scaled.offsets)]
    weights = [weight for _, weight in (*named, *functions)]
    centres = tuple(
        _Centre.of(matrix, weight, plan.normalised)
        for matrix, weight in zip(matrices, weights, strict=True)
    )
    total = np.zeros((len(bags), len(bags)))
    for centre, matrix in zip(centres, matrices, strict=True):
        total += centre(matrix)
    return ScaledKernels(scaler, learned, called, centres), total


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
    plan: KernelPlan, found: Sequence[tuple[ScaledKernels, np.ndarray]]
) -> tuple[KernelAverage, np.ndarray]:
    """The average over those scalings of a plan that were learnt."""
    share = sum(weight for _, weight in plan.terms) * len(found) if plan.normalised else 1.0
    matrix = sum((matrix for _, matrix in found[1:]), found[0][1].copy())
    parts = tuple(kernels for kernels, _ in found)
    return KernelAverage(parts, share, plan.cosine), matrix / share


def _sized(scaling: Any, n_instances: int) -> Any:
    """A scaling by quantiles takes no more of them than there are instances."""
    many = {
        name: n_instances
        for name, value in scaling.get_params().items()
        if name.rpartition("__")[2] == "n_quantiles" and value > n_instances
    }
    return scaling.set_params(**many)


def _values_of(function: Callable[[Any, Any], Any], left: Bags, right: Bags) -> np.ndarray:
    values = np.asarray(function(left, right), dtype=np.float64)
    expected = (len(left), len(right))
    if values.shape != expected:
        raise ValueError(
            f"The bag kernel returned shape {values.shape} for {expected[0]} and {expected[1]} "
            f"bags: bag_kernel(A, B) must return a matrix of shape {expected}."
        )
    return values
