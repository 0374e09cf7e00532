"""Bags and instances as points of one space, with coupled scores (Cheung & Kwok 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.segments import pooling_matrix
from .._fit.multi_start import drawn_rows
from .._kernels.bag import bag_scales, instance_scales, minmax_bytes, minmax_vectors
from .._kernels.instance import takes_sparse
from .._solvers.common.cccp import CCCPSolution
from .._solvers.svm.coupled.cccp import solve_coupled
from .._solvers.svm.coupled.gram import BagGram
from .._solvers.svm.coupled.rows import BagRows, solve_coupled_rows
from .._solvers.svm.losses import Coupling, Hinge, Tube
from .._solvers.svm.mi_svm_rows import screened_rows
from ._fit import Fit, Report
from ._functions import (
    BagFunction,
    InstanceFunction,
    LinearSetFunction,
    MinMaxFunction,
    SetKernelFunction,
    expansion_of,
)


def bag_kernel_of(fit: Fit) -> str | None:
    """The kernel between bags; None if bag scores are highest instance scores (a hard maximum)."""
    return getattr(fit.estimator, "bag_kernel", None)


def with_bags(fit: Fit) -> Fit:
    """The fit with bags as points, for solvers over rows or in the dual.

    Raises
    ------
    MemoryError
        If kernel values exceed ``working_memory``.
    """
    if fit.linear or fit.n_components is not None:
        return _over_rows(fit)
    offsets, n_bags, n_instances = fit.offsets, len(fit.used), fit.n_instances
    room = _room_for_kernel_values(fit)
    if bag_kernel_of(fit) == "minmax":
        rows, scales = _all_object_rows(fit), np.ones(n_instances)
        bags = sparse.eye_array(n_bags, n_bags + n_instances, k=n_instances, format="csr")
    else:
        rows = fit.instances
        of_bags, scales = _scales(fit)
        bags = pooling_matrix(offsets, np.repeat(of_bags, np.diff(offsets)))
    fit.gram = BagGram(fit.gram_of(rows, room), offsets, bags, scales)
    return fit


def _over_rows(fit: Fit) -> Fit:
    name, n, features, bags = bag_kernel_of(fit), fit.n_instances, None, None
    if fit.linear and name != "minmax":
        return fit
    rows = _all_object_rows(fit) if name == "minmax" else fit.instances
    if not fit.linear:
        features = fit.features_of(rows)
    if name == "minmax":
        bags = BagRows(rows[n:] if features is None else features.transform(rows[n:]))
        fit.selected = Bags(rows[:n], fit.offsets)
    elif name is not None:
        assert features is not None
        of_bags, scales = _scales(fit)
        spread = np.repeat(of_bags, np.diff(fit.offsets))
        bags = BagRows(features.sums(rows, spread, fit.offsets), scales)
    fit.features, fit.bag_rows = features, bags
    return fit


def _room_for_kernel_values(fit: Fit) -> float:
    """Bytes for kernel values beside those that are always stored, after a check."""
    room, n_bags, n_instances = fit.memory_limit, len(fit.used), fit.n_instances
    # Bags and mixtures with instances, active instances with instances, dual problems.
    needed, kernel = 8 * 3 * n_bags * n_instances + 8 * 8 * n_bags**2, fit.estimator.kernel
    if (
        bag_kernel_of(fit) == "minmax"
        and sparse.issparse(fit.instances)
        and not takes_sparse(kernel)
    ):
        # Rows are dense for a kernel that does not support CSR.
        needed += minmax_bytes(n_bags + n_instances, fit.instances.shape[1])
    if needed > room:
        raise MemoryError(
            f"The kernel values of {n_bags} bags with {n_instances} instances take "
            f"{needed / 2**20:.0f} MiB and working_memory is {room / 2**20:g} MiB: raise it by "
            "sklearn.set_config(working_memory=...), or give n_components= (300, say) for an "
            "approximation that needs no kernel matrix."
        )
    return room - needed


def _all_object_rows(fit: Fit) -> Any:
    """Rows of minima and maxima of all instances, then of all bags."""
    keep_sparse = takes_sparse(fit.estimator.kernel)
    parts = [
        minmax_vectors(fit.instances, offsets, keep_sparse=keep_sparse)
        for offsets in (np.arange(fit.n_instances + 1), fit.offsets)
    ]
    return (
        sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    )


def _scales(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Scales of bags and of instances in the feature space; a hard maximum has means of bags."""
    instances, offsets, name = fit.instances, fit.offsets, bag_kernel_of(fit)
    if name is None:
        return 1.0 / np.diff(offsets), np.ones(fit.n_instances)
    assert fit.kernel is not None
    return (
        bag_scales(name, instances, offsets, fit.kernel),
        instance_scales(name, instances, fit.kernel),
    )


def coupled_starts(fit: Fit, loss: Hinge | Tube) -> list[Any]:
    """First rows of all bags, one array per start, or the name of a start."""
    offsets, init = fit.offsets, fit.estimator.init
    starts: list[Any] = [init]
    if not isinstance(init, str):
        starts = [fit.given_witnesses(init)]
    elif init == "random":
        starts = [drawn_rows(offsets, fit.rng)]
    elif init == "auto" and bag_kernel_of(fit) is None:
        source = fit.screen_source(loss.weights)
        assert isinstance(loss, Tube)
        if source is not None:
            starts += [*screened_rows(source, loss.targets, loss.weights)]
    others = getattr(fit.estimator, "n_init", 1) - 1
    return starts + [drawn_rows(offsets, fit.rng) for _ in range(others)]


def coupled_from(fit: Fit, loss: Hinge | Tube, start: Any, on_iteration: Report) -> CCCPSolution:
    """A stationary point from a start."""
    name, estimator = bag_kernel_of(fit), fit.estimator
    coupling = Coupling("max", np.zeros(len(loss.weights)))
    if name is not None:
        weights = estimator.coupling * loss.weights
        coupling = Coupling(estimator.loss, weights, estimator.epsilon)
    options = fit.options(on_iteration)
    if fit.gram is not None:
        return solve_coupled(fit.gram, loss, coupling, start, options)
    bags = fit.bag_rows or name or "set"
    return solve_coupled_rows(fit.source(), loss, coupling, bags, start, options)


def coupled_function(fit: Fit, results: Sequence[Any]) -> tuple[BagFunction, dict[str, Any]]:
    """The function that scores instances and bags, and its fitted attributes."""
    name, kernel = bag_kernel_of(fit), fit.kernel
    expansion, attributes = expansion_of(fit, results)
    intercept = attributes["intercept_"]
    function: BagFunction
    if name is None:
        function = InstanceFunction(expansion, intercept)
    elif name == "minmax":
        function = MinMaxFunction(expansion, intercept, takes_sparse(fit.estimator.kernel))
    elif kernel is None:
        function = LinearSetFunction(expansion, intercept, name)
    else:
        function = SetKernelFunction(expansion, intercept, kernel, name)
    return function, attributes
