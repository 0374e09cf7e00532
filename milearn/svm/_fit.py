"""The fit of a support vector machine of bags: its problems, their runs, and fitted attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn import get_config
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.blocks import PassSource, width_of
from .._bags.segments import gather_rows, segment_argmax
from .._bags.threads import working_threads
from .._fit.multi_start import (
    MultiStart,
    attributes_of,
    given_rows,
    warn_of_constants,
    warn_of_stops,
)
from .._fit.validation import STORED_FLOATS, TrainingLabels, validate_labels, validate_sample_weight
from .._kernels.centring import centred
from .._kernels.instance import instance_kernel, resolve_gamma
from .._solvers.common.cccp import SolverOptions, precision
from .._solvers.common.features import (
    AUTO,
    FeatureMap,
    FeatureSource,
    auto_components,
    landmark_features,
)
from .._solvers.common.gram import Gram, Kernel, KernelGram, LinearGram, clipped_gram
from .._solvers.common.screen import instance_landmarks, screened, transformed_source
from .._solvers.svm.losses import Hinge, Tube
from ._functions import BagFunction, InstanceFunction

Runs = tuple[list[Any], Any]
Report = Callable[[int, float], bool]


class Fit:
    """The used bags of a fit, those with a weight above zero, and one loss per problem.

    Solvers see instances as they are (for the linear kernel), by explicit ``features``, or by
    kernel values, ``gram``. Dense instances of the linear kernel are centred, unless bags are
    points of their own: if the intercept is not penalised, the problem for the instances x - c has
    the same w for every centre c, and the intercept b + <w, c>.

    Parameters
    ----------
    estimator : estimator instance
    used : ndarray of int
        Positions of the used bags.
    sample_weights : ndarray of shape (n_used,)
    losses : list of Hinge or Tube
    stored : dict
        Fitted attributes that are known before the fit.
    **given
        The arguments of ``fit``, for callbacks.
    """

    kernel: Kernel | None = None
    semidefinite = True
    centre: np.ndarray | None = None
    features: FeatureMap | None = None
    gram: Any = None
    # Bags as points of the space of instances, see :mod:`._coupled`.
    bag_rows: Any = None

    def __init__(
        self,
        estimator: Any,
        used: np.ndarray,
        sample_weights: np.ndarray,
        losses: list[Any],
        stored: dict[str, Any],
        **given: Any,
    ) -> None:
        self.estimator, self.used, self.losses = estimator, used, losses
        self.stored, self.given, self.bags = stored, given, given["X"]
        # -1 if ``classes_[0]`` is the positive class of two.
        self.sign = int(stored.get("_positive_sign", 1))
        self.rng = check_random_state(getattr(estimator, "random_state", None))
        # Bytes for kernel values.
        self.memory_limit = float(get_config()["working_memory"]) * 2**20
        self.runs = MultiStart(estimator, estimator.max_iter)
        # Runs at the same time share the memory.
        n_runs = len(losses) * getattr(estimator, "n_init", 1)
        self.n_workers = min(n_runs, effective_n_jobs(self.runs.n_jobs))
        self.n_threads = self.runs.n_threads(n_runs)
        self.selected: Any = self.bags if len(used) == len(self.bags) else self.bags[used]
        self.offsets = np.asarray(self.selected.offsets)
        self.n_instances = int(self.offsets[-1])
        self.linear = _is_linear(estimator)
        if not self.linear:
            spread = np.repeat(sample_weights, np.diff(self.offsets))
            gamma = resolve_gamma(estimator.gamma, self.instances, spread)
            self.kernel, self.semidefinite = instance_kernel(estimator.kernel, gamma=gamma)
            self.stored = {**stored, "gamma_": gamma}
        elif not hasattr(estimator, "bag_kernel"):
            self.selected, self.centre = centred(self.selected)

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of the used bags' instances among all instances."""
        return gather_rows(self.bags.offsets, self.used)[0]

    @cached_property
    def instances(self) -> Any:
        """Instances of the used bags in memory and in float64, an ndarray or CSR."""
        stored = self.selected.instance_rows
        return (stored if sparse.issparse(stored) else stored[:]).astype(np.float64, copy=False)

    def given_witnesses(self, init: Any) -> np.ndarray:
        """``init`` as one row of ``instances`` per used bag."""
        rows, offsets = given_rows(init, self.bags), self.bags.offsets
        return self.offsets[:-1] + rows[self.used] - offsets[self.used]

    # -- storage -------------------------------------------------------------------------------

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

    def options(self, on_iteration: Report | None = None) -> SolverOptions:
        """The relative duality gap at which a convex step may stop, and the limit of steps."""
        width = 0.0
        if self.features is not None:
            width = self.features.dim
        elif self.linear:
            width = width_of(self.selected.instance_rows)
        tol = precision(self.estimator.tol, self.n_instances, width)
        return SolverOptions(tol, self.estimator.max_iter, on_iteration)

    def in_kernel_space(self) -> Fit:
        """The fit with kernel values or explicit features, unless the kernel is linear."""
        if not self.linear and self.n_components is None:
            self.gram = self.gram_of(self.instances, self.memory_limit)
        elif not self.linear:
            self.features = self.features_of(self.instances)
        return self

    def gram_of(self, rows: Any, cache_bytes: float) -> Gram:
        """Inner products of rows, without the negative part of an indefinite kernel."""
        if self.kernel is None:
            return LinearGram(rows)
        if not self.semidefinite:
            return clipped_gram(KernelGram(rows, self.kernel, cache_bytes), self.n_workers)
        return KernelGram(rows, self.kernel, cache_bytes / self.n_workers)

    def features_of(self, rows: Any) -> FeatureMap:
        """Explicit features of rows by landmarks."""
        assert self.kernel is not None
        assert self.n_components is not None
        return landmark_features(rows, self.kernel, self.n_components, self.rng)

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

    def screened_starts(self, loss: Hinge) -> np.ndarray | None:
        """Screened witnesses; of a nonlinear kernel the best ones, as its steps cost more."""
        source = self.screen_source(loss.weights)
        if source is None:
            return None
        found = screened(source, loss.signs, loss.weights).rows[:, loss.signs > 0]
        return found if self.linear else found[:1]

    # -- runs and attributes -------------------------------------------------------------------

    def best(self, starts: Callable[..., list[Any]], solve: Callable[..., Any]) -> Runs:
        """The best run of each problem, and the task of the fit.

        ``starts(fit, loss)`` lists the starts of a problem, and
        ``solve(fit, loss, start, on_iteration)`` returns a stationary point.
        """
        problems = []
        with working_threads(self.runs.n_threads(1)):
            for loss in self.losses:
                problems.append([(self, loss, start) for start in starts(self, loss)])
        return self.runs.best(solve, problems, gap_tol=self.options().tol, **self.given)

    def store(self, runs: Runs, function: BagFunction, attributes: dict[str, Any]) -> Any:
        """Store the function and attributes; warn of constants and where a run stopped early."""
        (results, task), estimator, loss = runs, self.estimator, self.losses[0]
        fitted: dict[str, Any] = {
            **self.stored,
            **attributes_of(results, "objective", "dual_gap", "n_iter", "converged"),
            **attributes_of(results, objective_history="history"),
            "start_objectives_": self.runs.start_objectives,
            **attributes,
            "_function": function,
            "_bag_score_is_max": isinstance(function, InstanceFunction),
        }
        targets = loss.targets if isinstance(loss, Tube) else loss.signs
        if isinstance(loss, Tube):
            fitted["tube_half_width_"] = results[0].width
        # By the fitted function and not by the solver's scores, so that ties are broken as in
        # witness(), except those of the last convex problems, to which the gaps belong.
        scores, positions = np.hsplit(self.bags._mapped(_judged, function, self.sign), 2)
        witnesses = self.bags.offsets[:-1, None] + positions.astype(np.intp)
        for column, each, result in zip(witnesses.T, self.losses, results, strict=True):
            if result.witnesses is not None:
                linearised = self.used if isinstance(each, Tube) else self.used[each.signs > 0]
                column[linearised] = self.rows[result.witnesses]
        fitted["witnesses_"] = witnesses[:, 0] if len(results) == 1 else witnesses
        estimator._replace_fitted(fitted)
        warn_of_stops(type(estimator).__name__, results, estimator.max_iter)
        warn_of_constants(estimator, self.selected, targets, scores[self.used])
        task.end()
        return estimator


def class_fit(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Fit:
    """One problem for two classes, or one per class."""
    bags, noted = estimator._validate_fit(
        X, dtype=STORED_FLOATS if _is_linear(estimator) else np.float64
    )
    found = TrainingLabels.of(estimator, y, bags, sample_weight)
    signs = np.where(found.codes == np.array(found.tasks)[:, None], 1.0, -1.0)
    losses = [Hinge(each, estimator.C * found.weights) for each in signs]
    stored = {**noted, "classes_": found.classes, "_positive_sign": found.sign}
    given = {"X": bags, "y": found.all_labels, "sample_weight": sample_weight}
    return Fit(estimator, found.used, found.sample_weights, losses, stored, **given)


def value_fit(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Fit:
    """The problem of a regressor."""
    bags, noted = estimator._validate_fit(
        X, dtype=STORED_FLOATS if _is_linear(estimator) else np.float64
    )
    targets = validate_labels(estimator, y, bags, numeric=True)
    weights = validate_sample_weight(sample_weight, bags)
    # A bag of weight zero is ignored.
    used = np.flatnonzero(weights > 0)
    loss = Tube(targets[used], estimator.C * weights[used], estimator.nu)
    given = {"X": bags, "y": targets, "sample_weight": sample_weight}
    return Fit(estimator, used, weights[used], [loss], noted, **given)


def _is_linear(estimator: Any) -> bool:
    """Whether the kernel is linear, as without the parameter; it takes all stored types."""
    return bool(getattr(estimator, "kernel", "linear") == "linear")


def _judged(bags: Bags, function: BagFunction, sign: int) -> np.ndarray:
    """Scores of bags, and then the position of the highest instance in each, by problem.

    Scores of instances are times the sign of the classes.
    """
    scores = sign * function.instance_scores(bags)
    rows = segment_argmax(scores, bags.offsets)
    if isinstance(function, InstanceFunction):
        scores = np.take_along_axis(scores, rows, axis=0)
    else:
        scores = function.bag_scores(bags)
    return np.hstack([scores, rows - bags.offsets[:-1, None]])
