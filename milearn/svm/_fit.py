"""The fit of the support vector machines: validate, state the problems, solve them, store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn import get_config
from sklearn.metrics.pairwise import linear_kernel
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.blocks import BLOCK_BYTES, PassSource, width_of
from .._bags.remote import by_blocks
from .._bags.segments import gather_rows, segment_argmax
from .._bags.threads import working_threads
from .._fit.components import AUTO, auto_components
from .._fit.multi_start import MultiStart, given_rows, values_of, warn_of_stops
from .._fit.validation import STORED_FLOATS, TrainingLabels, validate_labels, validate_sample_weight
from .._fit.warn import warn_of_indefinite
from .._kernels.centring import centred
from .._kernels.instance import instance_kernel, resolve_gamma
from .._solvers.common.cccp import SolverOptions
from .._solvers.common.descent import precision
from .._solvers.common.gram import Gram, KernelGram, LinearGram, clipped_gram
from .._solvers.svm.losses import Hinge, Tube
from ._functions import BagFunction, InstanceFunction, LinearExpansion


@dataclass(frozen=True)
class TrainingBags:
    """All bags of a fit, and the used ones: those with a weight above zero."""

    bags: Bags
    used: np.ndarray  # positions of the used bags
    offsets: np.ndarray  # of the used bags among their instances
    selected: Any  # the used bags, which may be remote

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of the used bags' instances among all instances."""
        return gather_rows(self.bags.offsets, self.used)[0]

    @property
    def stored(self) -> Any:
        """Instances of the used bags as they are stored: ndarray, CSR or rows of a memory map."""
        return self.selected.instance_rows

    @property
    def is_remote(self) -> bool:
        """Whether the instances are on the workers of a cluster."""
        return bool(self.bags.is_remote)

    @property
    def size(self) -> tuple[int, int, int]:
        """Numbers of used bags, of their instances, and of features."""
        return len(self.used), int(self.offsets[-1]), int(self.bags.shape[1])

    @property
    def width(self) -> float:
        """Mean number of values of an instance; for remote bags, the number of features."""
        return float(self.bags.shape[1]) if self.is_remote else width_of(self.stored)

    def source(self, n_jobs: int = 1, block_bytes: int = BLOCK_BYTES) -> PassSource:
        """Instances of the used bags for passes by ``n_jobs`` threads."""
        return self.selected.source(n_jobs=n_jobs, block_bytes=block_bytes)

    @cached_property
    def instances(self) -> Any:
        """Instances of the used bags in memory and in float64, an ndarray or CSR."""
        stored = self.stored if sparse.issparse(self.stored) else self.stored[:]
        return stored.astype(np.float64, copy=False)

    @classmethod
    def of(cls, bags: Bags, used: np.ndarray) -> TrainingBags:
        """Select the bags at the positions ``used``."""
        offsets = np.concatenate([[0], np.cumsum(np.diff(bags.offsets)[used])]).astype(np.intp)
        selected = bags if len(used) == len(bags) else bags[used]
        return cls(bags, used, offsets, selected)

    def given_witnesses(self, init: Any) -> np.ndarray:
        """``init`` as one row of ``instances`` per used bag."""
        rows, offsets = given_rows(init, self.bags), self.bags.offsets
        return self.offsets[:-1] + rows[self.used] - offsets[self.used]

    def centred(self) -> tuple[TrainingBags, np.ndarray | None]:
        """The bags with their centre as the origin, and the centre, see :mod:`.._kernels.centring`.

        If the intercept is not penalised, the problem for the instances x - c has the same w for
        every centre c, and the intercept b + <w, c>.
        """
        selected, centre = centred(self.selected)
        return (self if centre is None else replace(self, selected=selected)), centre


def about_zero(
    centre: np.ndarray | None, function: BagFunction, attributes: dict[str, Any]
) -> tuple[BagFunction, dict[str, Any]]:
    """A linear function of centred instances as one of the instances, and its attributes."""
    if centre is None:
        return function, attributes
    coef = attributes["coef_"]
    intercept = attributes["intercept_"] - coef @ centre
    expansion = LinearExpansion(coef)
    return InstanceFunction(expansion, intercept), {**attributes, "intercept_": intercept}


def memory_limit() -> float:
    """Bytes for kernel values, by scikit-learn's setting ``working_memory``."""
    return float(get_config()["working_memory"]) * 2**20


@dataclass(frozen=True)
class Kernel:
    """A kernel between instances with all its parameters resolved."""

    name: str | Callable[[Any, Any], Any]
    # None if the kernel does not depend on gamma.
    gamma: float | None
    # Takes two matrices and returns the matrix of shape (n_left, n_right).
    values: Callable[[Any, Any], np.ndarray]
    # Whether the kernel is known to be positive semidefinite.
    semidefinite: bool

    @classmethod
    def of(cls, estimator: Any, instances: Any, sample_weight: np.ndarray) -> Kernel:
        """The kernel of an estimator's parameters, for instances with their weights."""
        gamma = resolve_gamma(estimator.gamma, instances, sample_weight)
        values, semidefinite = instance_kernel(estimator.kernel, gamma=gamma)
        return cls(estimator.kernel, gamma, values, semidefinite)

    @classmethod
    def inner_product(cls) -> Kernel:
        """The linear kernel."""
        return cls("linear", None, linear_kernel, True)

    @property
    def linear(self) -> bool:
        """Whether values are inner products of instances."""
        return bool(self.name == "linear")


def training_gram(rows: Any, kernel: Kernel, cache_bytes: float) -> Gram:
    """Inner products of training rows, without the negative part of an indefinite kernel."""
    if kernel.linear:
        return LinearGram(rows)
    gram = KernelGram(rows, kernel.values, int(cache_bytes))
    if kernel.semidefinite:
        return gram
    clipped, smallest = clipped_gram(gram)
    if smallest < 0:
        warn_of_indefinite(smallest, "training instances")
    return clipped


@dataclass(frozen=True)
class Problems:
    """The bags of a fit, their kernel, and one loss per problem.

    ``stored`` has the fitted attributes that are known before the fit, and ``data`` the arguments
    of ``fit`` for callbacks. ``n_workers`` runs take place at the same time.
    """

    estimator: Any
    training: TrainingBags
    kernel: Kernel
    centre: np.ndarray | None
    losses: list[Any]
    stored: dict[str, Any]
    data: dict[str, Any]
    rng: np.random.RandomState
    runs: MultiStart
    n_workers: int
    # Number of landmarks; None for the exact kernel.
    n_components: int | None

    @property
    def options(self) -> SolverOptions:
        """The stopping rule of the estimator."""
        return SolverOptions(precision(self.estimator.tol), self.estimator.max_iter)

    @property
    def n_threads(self) -> int:
        """Threads per pass: jobs that are left over by the runs."""
        return max(1, effective_n_jobs(self.runs.n_jobs) // self.n_workers)


def is_linear(estimator: Any) -> bool:
    """Whether the parameter ``kernel`` is "linear"."""
    return isinstance(estimator.kernel, str) and estimator.kernel == "linear"


def class_problems(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, centred: bool = True
) -> Problems:
    """One problem for two classes, or one per class.

    ``centred`` tells whether dense instances are centred, for a model that does not depend on the
    origin.
    """
    bags, noted = _validated(estimator, X)
    found = TrainingLabels.of(estimator, y, bags, sample_weight)
    losses = [
        Hinge(np.where(found.codes == task, 1.0, -1.0), estimator.C * found.weights)
        for task in found.tasks
    ]
    stored = {**noted, "classes_": found.classes, "_positive_sign": found.sign}
    data = {"X": bags, "y": found.all_labels, "sample_weight": sample_weight}
    used, weights = found.used, found.sample_weights
    return _problems(estimator, bags, used, weights, losses, stored, data, centred)


def value_problem(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, centred: bool = True
) -> Problems:
    """The problem of a regressor, see :func:`class_problems`."""
    bags, noted = _validated(estimator, X)
    targets = validate_labels(estimator, y, bags, numeric=True)
    weights = validate_sample_weight(sample_weight, bags)
    # A bag of weight zero is ignored.
    used = np.flatnonzero(weights > 0)
    loss = Tube(targets[used], estimator.C * weights[used], estimator.nu)
    data = {"X": bags, "y": targets, "sample_weight": sample_weight}
    return _problems(estimator, bags, used, weights[used], [loss], noted, data, centred)


def _components(estimator: Any, training: TrainingBags, kernel: Kernel) -> int | None:
    """The number of landmarks; "auto" has none for the linear kernel."""
    given = estimator.n_components
    if given == AUTO and kernel.linear:
        return None
    return auto_components(given, *training.size[:2])


def _validated(estimator: Any, X: Any) -> tuple[Bags, dict[str, Any]]:
    dtype = STORED_FLOATS if is_linear(estimator) else np.float64
    bags, noted = estimator._validate_fit(X, dtype=dtype)
    # A few remote bags have the same solver as bags in memory, and the same solution.
    return bags.local() if bags.is_remote else bags, noted


def _problems(
    estimator: Any,
    bags: Bags,
    used: np.ndarray,
    weights: np.ndarray,
    losses: list[Any],
    stored: dict[str, Any],
    data: dict[str, Any],
    centred: bool,
) -> Problems:
    training = TrainingBags.of(bags, used)
    if is_linear(estimator):
        kernel = Kernel.inner_product()
    else:
        spread = np.repeat(weights, np.diff(training.offsets))
        kernel = Kernel.of(estimator, training.instances, spread)
    centre = None
    if kernel.linear and centred:
        training, centre = training.centred()
    runs = MultiStart(estimator, estimator.max_iter)
    return Problems(
        estimator=estimator,
        training=training,
        kernel=kernel,
        centre=centre,
        losses=losses,
        stored=stored if kernel.gamma is None else {**stored, "gamma_": kernel.gamma},
        data=data,
        rng=check_random_state(getattr(estimator, "random_state", None)),
        runs=runs,
        n_workers=runs.n_workers(len(losses) * getattr(estimator, "n_init", 1)),
        n_components=_components(estimator, training, kernel),
    )


def solve_and_store(
    problems: Problems, formulation: Any, more: Any = lambda results: {}
) -> list[Any]:
    """Solve the problems, store the best result of each, and warn where one stopped early.

    ``formulation.starts(loss, rng)`` lists the starts of a problem, ``solve(loss, start,
    on_iteration)`` returns a stationary point, and ``function(results, sign)`` the function of the
    minima, times ``sign``, with its fitted attributes. Convex steps may stop at a relative duality
    gap of ``gap_tol``. ``bag_score_is_max`` tells whether bag scores are highest instance scores.
    ``more(results)`` returns further fitted attributes.
    """
    estimator, bags = problems.estimator, problems.training.bags
    sign = problems.stored.get("_positive_sign", 1)
    with working_threads(problems.runs.n_threads(1)):
        starts = [
            [(loss, start) for start in formulation.starts(loss, problems.rng)]
            for loss in problems.losses
        ]
    results, task = problems.runs.best(
        formulation.solve, starts, gap_tol=formulation.gap_tol, **problems.data
    )
    function, attributes = formulation.function(results, sign)
    function, attributes = about_zero(problems.centre, function, attributes)
    fitted: dict[str, Any] = {
        **problems.stored,
        "witnesses_": None,
        "n_components_": None,
        **attributes,
        **_outcome(results),
        "start_objectives_": problems.runs.start_objectives,
        **more(results),
        "_function": function,
        "_bag_score_is_max": formulation.bag_score_is_max,
    }
    if isinstance(problems.losses[0], Tube):
        fitted["tube_half_width_"] = results[0].width
    if fitted["witnesses_"] is None:
        # By the fitted function and not by the solver's scores, so that ties are broken as in
        # witness().
        witnesses = by_blocks(bags, _witnesses, function, sign, gives_rows=True)
        fitted["witnesses_"] = _with_ties(problems, witnesses, results)
    estimator._replace_fitted(fitted)
    warn_of_stops(type(estimator).__name__, results, estimator.max_iter)
    task.end()
    return results


def _outcome(results: list[Any]) -> dict[str, Any]:
    """Fitted attributes of the runs: a scalar for one problem, otherwise an array."""
    fitted = {
        f"{name}_": values_of(results, name)
        for name in ("objective", "dual_gap", "n_iter", "converged")
    }
    return {**fitted, "objective_history_": values_of(results, "history")}


def _with_ties(problems: Problems, witnesses: np.ndarray, results: Sequence[Any]) -> np.ndarray:
    """Witnesses of which those of the last convex problems are kept, to which the gaps belong.

    They differ from the highest instances under the fitted function where instances tie.
    """
    training, columns = problems.training, witnesses.reshape(len(witnesses), -1)
    for column, loss, result in zip(columns.T, problems.losses, results, strict=True):
        rows = getattr(result, "witnesses", None)
        if rows is not None:
            linearised = training.used if isinstance(loss, Tube) else training.used[loss.signs > 0]
            column[linearised] = training.rows[rows]
    return witnesses


def _witnesses(bags: Bags, function: BagFunction, sign: int) -> np.ndarray:
    found = segment_argmax(sign * function.instance_scores(bags), bags.offsets)
    return found[:, 0] if found.shape[1] == 1 else found
