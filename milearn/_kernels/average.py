"""Averages of kernels between bags, each centred in the training bags and scaled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["AverageKernel", "FittedKernels", "ScaledKernels", "average_kernel"]


class FittedKernels(Protocol):
    """One or several kernels between bags that were fitted on the same training bags."""

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """Kernels of new bags with the training bags, each of shape (n_new, n_train)."""
        ...

    def diagonals(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """Kernels of new bags with themselves, each of shape (n_new,)."""
        ...


@dataclass(frozen=True)
class ScaledKernels:
    """Kernels that were fitted on scaled instances, as kernels of instances as they come.

    Attributes
    ----------
    transform : callable
        Instances in, scaled instances out, such as the ``transform`` of a fitted scaler.
    kernels : FittedKernels
    """

    transform: Callable[[Any], Any]
    kernels: FittedKernels

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """See :class:`FittedKernels`."""
        return self.kernels.matrices(self.transform(instances), offsets)

    def diagonals(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """See :class:`FittedKernels`."""
        return self.kernels.diagonals(self.transform(instances), offsets)


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

    Attributes
    ----------
    kernels : tuple of FittedKernels
    means : ndarray of shape (n_kernels, n_train)
        m of the training bags, by each kernel.
    factors : ndarray of shape (n_kernels,)
        Weight times n over the trace; zero for a kernel that is the same for all training bags.
    """

    kernels: tuple[FittedKernels, ...]
    means: np.ndarray
    factors: np.ndarray

    def matrix(self, instances: Any, offsets: np.ndarray) -> np.ndarray:
        """Kernel of new bags with the training bags, shape (n_new, n_train)."""
        out = np.zeros((len(offsets) - 1, self.means.shape[1]))
        position = 0
        for kernels in self.kernels:
            for values in kernels.matrices(instances, offsets):
                self._add(out, values, position)
                position += 1
        return out

    def combine(self, matrices: Iterable[np.ndarray]) -> np.ndarray:
        """The average of matrices of new bags that were computed before, in their order."""
        out: np.ndarray | None = None
        for position, values in enumerate(matrices):
            out = np.zeros(values.shape) if out is None else out
            self._add(out, values, position)
        assert out is not None
        return out

    def diagonal(self, instances: Any, offsets: np.ndarray) -> np.ndarray:
        """Kernel of new bags with themselves, shape (n_new,); costs a ``matrix``."""
        out = np.zeros(len(offsets) - 1)
        position = 0
        for kernels in self.kernels:
            own = kernels.diagonals(instances, offsets)
            values = kernels.matrices(instances, offsets)
            for diagonal, rows in zip(own, values, strict=True):
                middle = self.means[position].mean()
                out += self.factors[position] * (diagonal - 2.0 * rows.mean(axis=1) + middle)
                position += 1
        return out

    def matrices(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """The average as the only one of :class:`FittedKernels`."""
        return [self.matrix(instances, offsets)]

    def diagonals(self, instances: Any, offsets: np.ndarray) -> list[np.ndarray]:
        """The diagonal of the average as the only one of :class:`FittedKernels`."""
        return [self.diagonal(instances, offsets)]

    def _add(self, out: np.ndarray, values: np.ndarray, position: int) -> None:
        means = self.means[position]
        centred = values - values.mean(axis=1)[:, None]
        centred -= means - means.mean()
        centred *= self.factors[position]
        out += centred


def average_kernel(
    kernels: Sequence[FittedKernels],
    train: Iterable[np.ndarray],
    weights: Any = None,
) -> tuple[AverageKernel, np.ndarray]:
    """Average fitted kernels.

    Parameters
    ----------
    kernels : sequence of FittedKernels
        Such as :class:`~milearn._kernels.learned.LearnedBagKernels`, in their scalings.
    train : iterable of ndarray of shape (n_train, n_train)
        Matrices of the training bags by each kernel, those of the first of ``kernels`` first.
        They are looked at one after the other and not changed.
    weights : array-like of shape (n_kernels,), default=None
        Not negative; divided by their sum. All equal when None.

    Returns
    -------
    average : AverageKernel
    train : ndarray of shape (n_train, n_train)
        The average of the training bags; its rows have the mean zero, its trace is n_train.

    Raises
    ------
    ValueError
        For weights that are not one per kernel, negative, or all zero.
    """
    means, traces = [], []
    out: np.ndarray | None = None
    given = None if weights is None else np.asarray(weights, dtype=np.float64)
    if given is not None and (given.ndim != 1 or not (given >= 0).all() or not given.sum() > 0):
        raise ValueError(
            f"weights={weights!r} are not one number per kernel, none negative and not all zero."
        )
    for position, values in enumerate(train):
        if given is not None and position >= len(given):
            raise ValueError(f"There are {len(given)} weights for more kernels: pass one for each.")
        row_means = values.mean(axis=0)
        centred = values - row_means
        centred -= row_means[:, None]
        centred += row_means.mean()
        trace = float(np.trace(centred))
        # What is left of a kernel that is the same everywhere is rounding.
        constant = trace <= 1e-12 * float(np.trace(values))
        means.append(row_means)
        traces.append(0.0 if constant else len(values) / trace)
        centred *= traces[-1] * (1.0 if given is None else given[position])
        if out is None:
            out = centred
        else:
            out += centred
    if out is None:
        raise ValueError("There is no kernel to average: name at least one.")
    if given is None:
        given = np.ones(len(means))
    if len(given) != len(means):
        raise ValueError(
            f"There are {len(given)} weights for {len(means)} kernels: pass one for each."
        )
    out /= given.sum()
    factors = np.asarray(traces) * given / given.sum()
    return AverageKernel(tuple(kernels), np.asarray(means), factors), out
