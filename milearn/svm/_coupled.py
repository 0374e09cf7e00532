"""Bags and instances as points of one space, with coupled scores (Cheung & Kwok 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from .._solvers.svm.starts import screened_rows
from ._data import FitData, memory_limit
from ._functions import (
    BagFunction,
    InstanceFunction,
    LinearSetFunction,
    MinMaxFunction,
    SetKernelFunction,
    expansion_of,
)
from ._mi_svm import Report


def bag_kernel_of(data: FitData) -> str | None:
    """The kernel between bags; None if bag scores are highest instance scores (a hard maximum)."""
    return getattr(data.estimator, "bag_kernel", None)


def with_bags(data: FitData) -> FitData:
    """The data with bags as points, for solvers over rows or in the dual.

    Raises
    ------
    MemoryError
        If kernel values exceed ``working_memory``.
    """
    if data.linear or data.n_components is not None:
        return _over_rows(data)
    offsets, n_bags, n_instances = data.offsets, len(data.used), data.n_instances
    room = _room_for_kernel_values(data)
    if bag_kernel_of(data) == "minmax":
        rows, scales = _all_object_rows(data), np.ones(n_instances)
        bags = sparse.eye_array(n_bags, n_bags + n_instances, k=n_instances, format="csr")
    else:
        rows = data.instances
        of_bags, scales = _scales(data)
        bags = pooling_matrix(offsets, np.repeat(of_bags, np.diff(offsets)))
    gram = data.gram_of(rows, room).share_of(data.n_workers)
    return replace(data, gram=BagGram(gram, offsets, bags, scales))


def _over_rows(data: FitData) -> FitData:
    name, n, features, bags = bag_kernel_of(data), data.n_instances, None, None
    if data.linear and name != "minmax":
        return data
    rows = _all_object_rows(data) if name == "minmax" else data.instances
    if not data.linear:
        features = data.features_of(rows)
    if name == "minmax":
        bags = BagRows(rows[n:] if features is None else features.transform(rows[n:]))
        data = replace(data, selected=Bags(rows[:n], data.offsets))
    elif name is not None:
        assert features is not None
        of_bags, scales = _scales(data)
        spread = np.repeat(of_bags, np.diff(data.offsets))
        bags = BagRows(features.sums(rows, spread, data.offsets), scales)
    return replace(data, features=features, bag_rows=bags)


def _room_for_kernel_values(data: FitData) -> float:
    """Bytes for kernel values beside those that are always stored, after a check."""
    room, n_bags, n_instances = memory_limit(), len(data.used), data.n_instances
    # Bags and mixtures with instances, active instances with instances, dual problems.
    needed, kernel = 8 * 3 * n_bags * n_instances + 8 * 8 * n_bags**2, data.estimator.kernel
    if (
        bag_kernel_of(data) == "minmax"
        and sparse.issparse(data.instances)
        and not takes_sparse(kernel)
    ):
        # Rows are dense for a kernel that does not support CSR.
        needed += minmax_bytes(n_bags + n_instances, data.instances.shape[1])
    if needed > room:
        raise MemoryError(
            f"The kernel values of {n_bags} bags with {n_instances} instances take "
            f"{needed / 2**20:.0f} MiB and working_memory is {room / 2**20:g} MiB: raise it by "
            "sklearn.set_config(working_memory=...), or give n_components= (300, say) for an "
            "approximation that needs no kernel matrix."
        )
    return room - needed


def _all_object_rows(data: FitData) -> Any:
    """Rows of minima and maxima of all instances, then of all bags."""
    keep_sparse = takes_sparse(data.estimator.kernel)
    parts = [
        minmax_vectors(data.instances, offsets, keep_sparse=keep_sparse)
        for offsets in (np.arange(data.n_instances + 1), data.offsets)
    ]
    return (
        sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    )


def _scales(data: FitData) -> tuple[np.ndarray, np.ndarray]:
    """Scales of bags and of instances in the feature space; a hard maximum has means of bags."""
    instances, offsets, name = data.instances, data.offsets, bag_kernel_of(data)
    if name is None:
        return 1.0 / np.diff(offsets), np.ones(data.n_instances)
    assert data.kernel is not None
    return (
        bag_scales(name, instances, offsets, data.kernel),
        instance_scales(name, instances, data.kernel),
    )


def coupled_starts(data: FitData, loss: Hinge | Tube) -> list[Any]:
    """First rows of all bags, one array per start, or the name of a start."""
    offsets, init = data.offsets, data.estimator.init
    starts: list[Any] = [init]
    if not isinstance(init, str):
        starts = [data.given_witnesses(init)]
    elif init == "random":
        starts = [drawn_rows(offsets, data.rng)]
    elif init == "auto" and bag_kernel_of(data) is None:
        source = data.screen_source(loss.weights)
        assert isinstance(loss, Tube)
        if source is not None and np.diff(offsets).max() > 1 and np.ptp(loss.targets) > 0:
            starts += [screened_rows(source, loss.targets, loss.weights)]
    others = getattr(data.estimator, "n_init", 1) - 1
    return starts + [drawn_rows(offsets, data.rng) for _ in range(others)]


def coupled_from(
    data: FitData, loss: Hinge | Tube, start: Any, on_iteration: Report
) -> CCCPSolution:
    """A stationary point from a start."""
    name, estimator = bag_kernel_of(data), data.estimator
    coupling = Coupling("max", np.zeros(len(loss.weights)))
    if name is not None:
        weights = estimator.coupling * loss.weights
        coupling = Coupling(estimator.loss, weights, estimator.epsilon)
    options = data.options.watched_by(on_iteration)
    if data.gram is not None:
        return solve_coupled(data.gram, loss, coupling, start, options)
    bags = data.bag_rows or name or "set"
    return solve_coupled_rows(data.source(), loss, coupling, bags, start, options)


def coupled_function(data: FitData, results: Sequence[Any]) -> tuple[BagFunction, dict[str, Any]]:
    """The function that scores instances and bags, and its fitted attributes."""
    name, kernel = bag_kernel_of(data), data.kernel
    expansion, attributes = expansion_of(data, results)
    intercept = attributes["intercept_"]
    function: BagFunction
    if name is None:
        function = InstanceFunction(expansion, intercept)
    elif name == "minmax":
        function = MinMaxFunction(expansion, intercept, takes_sparse(data.estimator.kernel))
    elif kernel is None:
        function = LinearSetFunction(expansion, intercept, name)
    else:
        function = SetKernelFunction(expansion, intercept, kernel, name)
    return function, attributes
