"""The data of a fit: the used bags, their kernel, and one loss per problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.blocks import PassSource, width_of
from .._bags.segments import gather_rows
from .._fit.components import AUTO, auto_components
from .._fit.multi_start import MultiStart, given_rows
from .._fit.validation import STORED_FLOATS, TrainingLabels, validate_labels, validate_sample_weight
from .._kernels.centring import centred
from .._kernels.instance import instance_kernel, resolve_gamma
from .._solvers.common.cccp import SolverOptions
from .._solvers.common.descent import precision
from .._solvers.common.features import FeatureMap, FeatureSource, landmark_features
from .._solvers.common.gram import Gram, Kernel, KernelGram, LinearGram, clipped_gram
from .._solvers.common.screen import instance_landmarks, transformed_source
from .._solvers.svm.losses import Hinge, Tube


@dataclass(frozen=True, kw_only=True)
class FitData:
    """The used bags of a fit, those with a weight above zero, and one loss per problem.

    Solvers see instances as they are (for the linear kernel), by explicit ``features``, or by
    kernel values, ``gram``.
    """

    estimator: Any
    runs: MultiStart
    # Runs at the same time, and threads of each: the jobs that are left over by the runs.
    n_workers: int
    n_threads: int
    rng: np.random.RandomState
    # The arguments of ``fit`` for callbacks, and fitted attributes that are known before the fit.
    arguments: dict[str, Any]
    stored: dict[str, Any]
    losses: list[Any]
    # Positions of the used bags, and the used bags with their centre as the origin if there is one.
    used: np.ndarray
    selected: Any
    centre: np.ndarray | None = None
    # None for the linear kernel; and whether it is known to be positive semidefinite.
    kernel: Kernel | None = None
    semidefinite: bool = True
    features: FeatureMap | None = None
    gram: Any = None
    # Bags as points of the space of instances, see :mod:`._coupled`.
    bag_rows: Any = None

    @classmethod
    def of(
        cls,
        estimator: Any,
        used: np.ndarray,
        sample_weights: np.ndarray,
        losses: list[Any],
        stored: dict[str, Any],
        arguments: dict[str, Any],
    ) -> FitData:
        """Select the used bags, and resolve the kernel by their weights.

        Dense instances of the linear kernel are centred, unless bags are points of their own. If
        the intercept is not penalised, the problem for the instances x - c has the same w for every
        centre c, and the intercept b + <w, c>.
        """
        bags = arguments["X"]
        runs = MultiStart(estimator, estimator.max_iter)
        n_runs = len(losses) * getattr(estimator, "n_init", 1)
        data = cls(
            estimator=estimator,
            runs=runs,
            n_workers=runs.n_workers(n_runs),
            n_threads=runs.n_threads(n_runs),
            rng=check_random_state(getattr(estimator, "random_state", None)),
            arguments=arguments,
            stored=stored,
            losses=losses,
            used=used,
            selected=bags if len(used) == len(bags) else bags[used],
        )
        if not is_linear(estimator):
            spread = np.repeat(sample_weights, np.diff(data.offsets))
            gamma = resolve_gamma(estimator.gamma, data.instances, spread)
            kernel, semidefinite = instance_kernel(estimator.kernel, gamma=gamma)
            stored = {**stored, "gamma_": gamma}
            return replace(data, stored=stored, kernel=kernel, semidefinite=semidefinite)
        if hasattr(estimator, "bag_kernel"):
            return data
        selected, centre = centred(data.selected)
        return replace(data, selected=selected, centre=centre)

    # -- the used bags -------------------------------------------------------------------------

    @property
    def bags(self) -> Bags:
        """All bags that were passed."""
        bags: Bags = self.arguments["X"]
        return bags

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the used bags among their instances."""
        return np.asarray(self.selected.offsets)

    @property
    def n_instances(self) -> int:
        """Number of instances of the used bags."""
        return int(self.offsets[-1])

    @property
    def sign(self) -> int:
        """1, or -1 if ``classes_[0]`` is the positive class of two."""
        return int(self.stored.get("_positive_sign", 1))

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of the used bags' instances among all instances."""
        return gather_rows(self.bags.offsets, self.used)[0]

    @property
    def point_rows(self) -> np.ndarray:
        """The values of ``support_`` for instances and bags: bags follow all instances."""
        return np.concatenate([self.rows, self.bags.n_instances + self.used])

    @cached_property
    def instances(self) -> Any:
        """Instances of the used bags in memory and in float64, an ndarray or CSR."""
        stored = self.selected.instance_rows
        return (stored if sparse.issparse(stored) else stored[:]).astype(np.float64, copy=False)

    def given_witnesses(self, init: Any) -> np.ndarray:
        """``init`` as one row of ``instances`` per used bag."""
        rows, offsets = given_rows(init, self.bags), self.bags.offsets
        return self.offsets[:-1] + rows[self.used] - offsets[self.used]

    # -- the kernel ----------------------------------------------------------------------------

    @property
    def linear(self) -> bool:
        """Whether kernel values are inner products of instances."""
        return self.kernel is None

    @property
    def over_rows(self) -> bool:
        """Whether problems are solved over rows, or in the dual over kernel values."""
        return self.linear or self.features is not None

    @property
    def n_components(self) -> int | None:
        """Number of landmarks; None for the exact kernel. "auto" has none for the linear kernel."""
        given = self.estimator.n_components
        if given == AUTO and self.linear:
            return None
        return auto_components(given, len(self.used), self.n_instances)

    @property
    def options(self) -> SolverOptions:
        """The relative duality gap at which a convex step may stop, and the limit of steps."""
        n_instances, width = self.n_instances, 0.0
        if self.features is not None:
            width = self.features.dim
        elif self.linear:
            width = width_of(self.selected.instance_rows)
        tol = precision(self.estimator.tol, n_instances, width)
        return SolverOptions(tol, self.estimator.max_iter)

    def in_kernel_space(self) -> FitData:
        """The data with kernel values or explicit features, unless the kernel is linear."""
        if self.linear:
            return self
        if self.n_components is None:
            gram = self.gram_of(self.instances, memory_limit()).share_of(self.n_workers)
            return replace(self, gram=gram)
        return replace(self, features=self.features_of(self.instances))

    def gram_of(self, rows: Any, cache_bytes: float) -> Gram:
        """Inner products of rows, without the negative part of an indefinite kernel."""
        if self.kernel is None:
            return LinearGram(rows)
        gram = KernelGram(rows, self.kernel, int(cache_bytes))
        return gram if self.semidefinite else clipped_gram(gram)

    def features_of(self, rows: Any) -> FeatureMap:
        """Explicit features of rows by landmarks."""
        assert self.kernel is not None
        assert self.n_components is not None
        return landmark_features(rows, self.kernel, self.n_components, self.rng)

    # -- passes --------------------------------------------------------------------------------

    def source(self) -> PassSource:
        """The instances or their explicit features."""
        bags, features = self.selected, self.features
        if features is None:
            return bags.source(n_jobs=self.n_threads)
        block_bytes = int(8 * width_of(bags.instance_rows) * features.rows_at_once)
        return FeatureSource(bags.source(n_jobs=self.n_threads, block_bytes=block_bytes), features)

    def screen_source(self, weights: np.ndarray) -> PassSource | None:
        """Instances or features for a screened start; None for an indefinite kernel."""
        if self.kernel is None or self.over_rows:
            return self.source()
        if not self.semidefinite:
            return None
        source = self.selected.source()
        return transformed_source(source, instance_landmarks(source, self.kernel, weights))


def class_data(estimator: Any, X: Any, y: Any, sample_weight: Any) -> FitData:
    """One problem for two classes, or one per class, see :meth:`FitData.of`."""
    bags, noted = _validated(estimator, X)
    found = TrainingLabels.of(estimator, y, bags, sample_weight)
    losses = [
        Hinge(np.where(found.codes == task, 1.0, -1.0), estimator.C * found.weights)
        for task in found.tasks
    ]
    stored = {**noted, "classes_": found.classes, "_positive_sign": found.sign}
    given = {"X": bags, "y": found.all_labels, "sample_weight": sample_weight}
    return FitData.of(estimator, found.used, found.sample_weights, losses, stored, given)


def value_data(estimator: Any, X: Any, y: Any, sample_weight: Any) -> FitData:
    """The problem of a regressor, see :meth:`FitData.of`."""
    bags, noted = _validated(estimator, X)
    targets = validate_labels(estimator, y, bags, numeric=True)
    weights = validate_sample_weight(sample_weight, bags)
    # A bag of weight zero is ignored.
    used = np.flatnonzero(weights > 0)
    loss = Tube(targets[used], estimator.C * weights[used], estimator.nu)
    given = {"X": bags, "y": targets, "sample_weight": sample_weight}
    return FitData.of(estimator, used, weights[used], [loss], noted, given)


def is_linear(estimator: Any) -> bool:
    """Whether the parameter ``kernel`` is "linear"; an estimator without it is linear."""
    kernel = getattr(estimator, "kernel", "linear")
    return isinstance(kernel, str) and kernel == "linear"


def _validated(estimator: Any, X: Any) -> tuple[Bags, dict[str, Any]]:
    dtype = STORED_FLOATS if is_linear(estimator) else np.float64
    return estimator._validate_fit(X, dtype=dtype)


def memory_limit() -> float:
    """Bytes for kernel values, by scikit-learn's setting ``working_memory``."""
    return float(get_config()["working_memory"]) * 2**20
