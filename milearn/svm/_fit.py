"""The fit of the support vector machines: validate, state the problems, solve them, store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.remote import by_blocks
from .._bags.segments import segment_argmax
from .._bags.threads import working_threads
from .._fit.components import AUTO, auto_components
from .._fit.multi_start import MultiStart, values_of, warn_of_gaps, warn_of_stops
from .._fit.validation import STORED_FLOATS, TrainingLabels, validate_labels, validate_sample_weight
from .._solvers.common.cccp import SolverOptions
from .._solvers.svm.losses import Hinge, Tube
from ._centre import Centre
from ._formulations import Formulation, TrainingBags, by_rows
from ._functions import BagFunction
from ._kernel import Kernel


@dataclass(frozen=True)
class Problems:
    """The bags of a fit, their kernel, and one loss per problem.

    ``stored`` has the fitted attributes that are known before the fit, and ``data`` the arguments
    of ``fit`` for callbacks. ``n_workers`` runs take place at the same time.
    """

    estimator: Any
    bags: Bags
    training: TrainingBags
    kernel: Kernel
    centre: Centre
    losses: list[Any]
    sign: int
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
        return SolverOptions(self.estimator.tol, self.estimator.max_iter)

    def by_rows(self, slack: str = "instance") -> bool:
        """Whether the problems are solved over rows."""
        return by_rows(self.training, self.kernel, self.n_components, slack=slack)

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
    used = found.used, found.sample_weights
    return _problems(estimator, bags, used, losses, found.sign, stored, data, centred)


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
    return _problems(estimator, bags, (used, weights[used]), [loss], 1, noted, data, centred)


def _components(estimator: Any, training: TrainingBags, kernel: Kernel) -> int | None:
    """The number of landmarks; "auto" has none for kernels that cannot use them."""
    given = estimator.n_components
    if given == AUTO and (kernel.linear or kernel.columns is not None):
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
    used: tuple[np.ndarray, np.ndarray],
    losses: list[Any],
    sign: int,
    stored: dict[str, Any],
    data: dict[str, Any],
    centred: bool,
) -> Problems:
    training = TrainingBags.of(bags, used[0])
    if is_linear(estimator):
        kernel = Kernel.inner_product()
    elif isinstance(estimator.kernel, str) and estimator.kernel == "precomputed":
        kernel = Kernel.precomputed(estimator, training)
    else:
        spread = np.repeat(used[1], np.diff(training.offsets))
        kernel = Kernel.of(estimator, training.instances, spread)
    centre = Centre.of(training) if kernel.linear and centred else Centre()
    runs = MultiStart(estimator, estimator.max_iter)
    return Problems(
        estimator=estimator,
        bags=bags,
        training=centre.subtracted(training),
        kernel=kernel,
        centre=centre,
        losses=losses,
        sign=sign,
        stored=stored if kernel.gamma is None else {**stored, "gamma_": kernel.gamma},
        data=data,
        rng=check_random_state(getattr(estimator, "random_state", None)),
        runs=runs,
        n_workers=runs.n_workers(len(losses) * getattr(estimator, "n_init", 1)),
        n_components=_components(estimator, training, kernel),
    )


def solve_and_store(
    problems: Problems, formulation: Formulation, more: Any = lambda results: {}
) -> list[Any]:
    """Solve the problems, store the best result of each, and warn where one stopped early.

    ``more(results)`` returns further fitted attributes.
    """
    estimator, bags, sign = problems.estimator, problems.bags, problems.sign
    with working_threads(problems.runs.n_threads(1)):
        starts = [
            [(loss, start) for start in formulation.starts(loss, problems.rng)]
            for loss in problems.losses
        ]
    results, task = problems.runs.best(formulation.solve, starts, **problems.data)
    function, attributes = formulation.function(results, sign)
    function, attributes = problems.centre.restored(bags, function, attributes)
    fitted: Mapping[str, Any] = {
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
    if fitted["witnesses_"] is None:
        # By the fitted function and not by the solver's scores, so that ties are broken as in
        # witness().
        witnesses = by_blocks(bags, _witnesses, function, sign, gives_rows=True)
        fitted = {**fitted, "witnesses_": _with_ties(problems, witnesses, results)}
    estimator._replace_fitted(fitted)
    name = type(estimator).__name__
    warn_of_stops(name, results, estimator.max_iter)
    warn_of_gaps(name, results, formulation.gap_tol)
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
