"""Averages of kernels between bags, each centred in the training bags and scaled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

# A centred matrix is zero up to rounding if its trace is below this fraction of the trace before.
_CONSTANT = 1e-12


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
        return self.kernels.matrices(self.scaler.transform(instances), offsets)


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
