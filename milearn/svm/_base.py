"""Base class of the support vector classifiers and the fit that all models of the package share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.remote import by_blocks
from .._bags.segments import segment_argmax
from .._compat import CallbackSupport, Interval, StrOptions
from .._fit.multi_start import MultiStart, values_of, warn_of_gaps, warn_of_stops
from .._fit.training_labels import TrainingLabels
from .._fit.validation import validate_labels, validate_sample_weight
from .._kernels.bag import BAG_KERNELS
from .._kernels.instance import KERNELS
from .._solvers.common.options import SolverOptions
from .._solvers.common.qp import check_qp_solver
from .._solvers.svm.losses import Hinge, Tube
from ..base import BagClassifier, BagRegressor
from ._centre import Centre
from ._formulations import Formulation, TrainingBags
from ._functions import BagFunction
from ._kernel import Kernel, memory_limit

__all__ = [
    "COMPONENTS",
    "COUPLED_CONSTRAINTS",
    "KERNEL_CONSTRAINTS",
    "LOSSES",
    "START_CONSTRAINTS",
    "BaseMISVC",
    "BaseMISVR",
    "memory_limit",
    "run_outcome",
    "solver_options",
    "warn_of_runs",
]

LOSSES = ("l1", "l2", "epsilon_insensitive")

# Parameters that several estimators have, by what they are about.
KERNEL_CONSTRAINTS: dict[str, Any] = {
    "C": [Interval(Real, 0.0, None, closed="neither")],
    "kernel": [StrOptions(set(KERNELS)), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}
START_CONSTRAINTS: dict[str, Any] = {
    "n_init": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}
COMPONENTS = [Interval(Integral, 1, None, closed="left"), None]
COUPLED_CONSTRAINTS: dict[str, Any] = {
    "random_state": ["random_state"],
    "bag_kernel": [StrOptions(set(BAG_KERNELS))],
    "loss": [StrOptions(set(LOSSES))],
    "coupling": [Interval(Real, 0.0, None, closed="left")],
    "epsilon": [Interval(Real, 0.0, None, closed="left")],
    "n_components": COMPONENTS,
    "init": [StrOptions({"auto", "mean", "random"}), "array-like"],
}


def solver_options(estimator: Any) -> SolverOptions:
    """The parameters of an estimator that its solver takes as they are."""
    return SolverOptions(estimator.tol, estimator.max_iter, getattr(estimator, "qp_solver", None))


def run_outcome(results: Sequence[Any]) -> dict[str, Any]:
    """Fitted attributes that tell of the runs: a plain value for one problem, else an array."""
    names = ("objective", "dual_gap", "n_iter", "converged")
    return {
        **{f"{name}_": values_of(results, name) for name in names},
        "objective_history_": values_of(results, "history"),
    }


def warn_of_runs(estimator: Any, results: Sequence[Any], gap_tol: float) -> None:
    """Warn where a run stopped early, or a convex step missed its precision."""
    name = type(estimator).__name__
    warn_of_stops(name, results, estimator.max_iter)
    warn_of_gaps(name, results, gap_tol)


class BaseMISVC(CallbackSupport, BagClassifier):
    """Base of the support vector classifiers of bags.

    A subclass stores its parameters and calls :meth:`_fit_classes` with the formulation of its
    problem. This class encodes labels and weights, solves one problem per class from each of its
    starts, keeps the best of each, and stores what was fitted.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KERNEL_CONSTRAINTS,
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "pos_label": "no_validation",
    }

    _function: BagFunction

    def _fit_classes(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        formulate: Callable[[TrainingBags, Kernel, np.random.RandomState, int], Formulation],
        n_init: int = 1,
    ) -> list[Any]:
        """Fit one problem per class and return the result of each.

        Parameters
        ----------
        formulate : callable
            Takes the bags that take part, the kernel, the random state and the number of runs
            that go on at the same time.
        n_init : int, default=1
            Number of starts of each problem.
        """
        check_qp_solver(getattr(self, "qp_solver", None))
        bags, noted = self._validate_fit(X, dtype=self._fit_dtypes())
        found = TrainingLabels.of(self, y, bags, sample_weight)
        training = TrainingBags.of(bags, found.used)
        kernel = self._kernel_of(training, found.sample_weights)
        centre = Centre.of(training) if kernel.linear and self._scores_by_maximum() else Centre()
        training = centre.subtracted(training)
        rng = check_random_state(getattr(self, "random_state", None))
        multi_start = MultiStart(self, self.max_iter)
        n_workers = multi_start.n_workers(len(found.tasks) * n_init)
        formulation = formulate(training, kernel, rng, n_workers)
        losses = [
            Hinge(np.where(found.codes == task, 1.0, -1.0), self.C * found.weights)
            for task in found.tasks
        ]
        problems = [[(loss, start) for start in formulation.starts(loss, rng)] for loss in losses]
        results, task = multi_start.best(
            formulation.solve, problems, X=bags, y=found.all_labels, sample_weight=sample_weight
        )
        function, attributes = centre.restored(bags, *formulation.function(results, found.sign))
        witnesses = attributes.get("witnesses_")
        if witnesses is None:
            witnesses = _witnesses(function, bags, found.sign)
        self._replace_fitted(
            {
                **noted,
                **attributes,
                **run_outcome(results),
                **self._selected(results, training),
                "classes_": found.classes,
                **({} if kernel.gamma is None else {"gamma_": kernel.gamma}),
                "witnesses_": witnesses,
                "_function": function,
                "_positive_sign": found.sign,
                "_bag_score_is_max": formulation.bag_score_is_max,
            }
        )
        warn_of_runs(self, results, formulation.gap_tol)
        task.end()
        return results

    def _fit_dtypes(self) -> Any:
        """Types of instances that ``fit`` takes as they are."""
        return type(self)._dtypes

    def _kernel_of(self, training: TrainingBags, sample_weight: np.ndarray) -> Kernel:
        """The kernel of a fit; ``sample_weight`` is that of the used bags."""
        spread = np.repeat(sample_weight, np.diff(training.offsets))
        return Kernel.of(self, training.instances, spread)

    def _scores_by_maximum(self) -> bool:
        """Whether a bag scores as its highest instance does."""
        return True

    def _selected(self, results: list[Any], training: TrainingBags) -> Mapping[str, Any]:
        """Further fitted attributes of a subclass."""
        return {}

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return _flat(self._function.instance_scores(bags))

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._bag_score_is_max:
            return super()._bag_scores(bags)
        return _flat(self._function.bag_scores(bags))


class BaseMISVR(CallbackSupport, BagRegressor):
    """Base of the support vector regressors of bags; a subclass calls :meth:`_fit_values`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
        **KERNEL_CONSTRAINTS,
    }

    nu: float
    C: float
    max_iter: int
    random_state: Any
    _function: BagFunction
    _fit_dtypes: Callable[[], Any]
    _kernel_of: Callable[[TrainingBags, np.ndarray], Kernel]

    def _fit_values(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        formulate: Callable[[TrainingBags, Kernel, np.random.RandomState, int], Formulation],
        n_init: int = 1,
    ) -> None:
        """Fit one problem from each of its starts, see :meth:`BaseMISVC._fit_classes`."""
        bags, noted = self._validate_fit(X, dtype=self._fit_dtypes())
        targets = validate_labels(self, y, bags, numeric=True)
        weights = validate_sample_weight(sample_weight, bags)
        # A bag of weight zero takes no part at all, as if it had been left out.
        training = TrainingBags.of(bags, np.flatnonzero(weights > 0))
        used = training.used
        kernel = self._kernel_of(training, weights[used])
        centre = Centre.of(training) if kernel.linear and self._scores_by_maximum() else Centre()
        training = centre.subtracted(training)
        rng = check_random_state(self.random_state)
        multi_start = MultiStart(self, self.max_iter)
        formulation = formulate(training, kernel, rng, multi_start.n_workers(n_init))
        tube = Tube(targets[used], self.C * weights[used], self.nu)
        starts = [(tube, start) for start in formulation.starts(tube, rng)]
        results, task = multi_start.best(
            formulation.solve, [starts], X=bags, y=targets, sample_weight=sample_weight
        )
        function, attributes = centre.restored(bags, *formulation.function(results, 1))
        highest = attributes.get("witnesses_")
        if highest is None:
            highest = _witnesses(function, bags, 1)
        self._replace_fitted(
            {
                **noted,
                **attributes,
                **run_outcome(results),
                **({} if kernel.gamma is None else {"gamma_": kernel.gamma}),
                "tube_half_width_": results[0].width,
                "witnesses_": highest,
                "_function": function,
                "_bag_score_is_max": formulation.bag_score_is_max,
            }
        )
        warn_of_runs(self, results, formulation.gap_tol)
        task.end()

    def _scores_by_maximum(self) -> bool:
        """Whether a bag scores as its highest instance does."""
        return True

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._function.instance_scores(bags)[:, 0]

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._bag_score_is_max:
            return super()._bag_scores(bags)
        return self._function.bag_scores(bags)[:, 0]


def _witnesses(function: BagFunction, bags: Bags, sign: int) -> np.ndarray:
    # By the fitted function, not by the solver's scores: ties are then broken as in witness().
    return by_blocks(bags, _witnesses_of, function, sign, gives_rows=True)


def _witnesses_of(bags: Bags, function: BagFunction, sign: int) -> np.ndarray:
    return _flat(segment_argmax(sign * function.instance_scores(bags), bags.offsets))


def _flat(values: np.ndarray) -> np.ndarray:
    return values[:, 0] if values.shape[1] == 1 else values
