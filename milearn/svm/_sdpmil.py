"""SDPMIL: one instance of each positive bag selected by a convex relaxation."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._bags import Bags
from .._compat import StrOptions, with_callbacks
from .._constraints import POSITIVE, Constraints
from .._fit.multi_start import attributes_of
from .._fit.threads import fit_context
from .._fit.warn import warn_user
from .._solvers.common.features import AUTO, RELAXATION_LIMITS, auto_components, landmark_features
from .._solvers.common.gram import LinearGram
from .._solvers.svm.losses import Hinge
from .._solvers.svm.mi_svm_kernel import BinaryProblem
from .._solvers.svm.selection import SelectionResult, SelectionSettings, solve_selection
from ..base import BagClassifier
from ._base import BaseMISVM
from ._fit import Fit, Report, class_fit
from ._functions import instance_function


class SDPMIL(BaseMISVM, BagClassifier):
    r"""Support vector classification on instances selected by a semidefinite relaxation.

    One instance of each positive bag is selected (:math:`\eta_{ij} = 1`), and all instances of
    negative bags are used:

    .. math::

        \min_{\eta, w, b} \; \tfrac12 \|w\|^2
        + C \sum_{y_i = 1} c_i \sum_j \eta_{ij} [1 - f(x_{ij})]_+
        + C \sum_{y_i = -1} c_i \sum_j [1 + f(x_{ij})]_+,
        \qquad \eta_{ij} \in \{0, 1\}, \; \sum_j \eta_{ij} = 1,

    where :math:`c_i` is the weight of a bag and :math:`f(x) = \langle w, \phi(x) \rangle + b`. The
    selection is relaxed to a convex quadratic program, which is equivalent to the semidefinite
    program of [1]_ with bounded slacks. One support vector machine is then fitted to the best
    instances.

    Read more in the :ref:`User Guide <methods_bounds>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=10.0
        Cost of a slack relative to the norm of w. Must be positive.
    slack_bound : float, default=2.0
        Largest slack of an instance of a positive bag in the relaxation.
    selection : {"one", "at_least_one"}, default="one"
        Whether the relaxed :math:`\eta` of a bag sum to one, or to at least one.
    polish : bool, default=False
        Whether to continue with the concave-convex procedure.
    kernel : str or callable, default="rbf"
        Kernel between instances: a name of scikit-learn ("linear", "rbf", "poly", ...) or a
        callable. The negative part of an indefinite kernel is dropped with a warning.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel, as in :class:`~sklearn.svm.SVC`.
    n_components : int, "auto" or None, default="auto"
        Maximum number of columns of a factor of the kernel matrix in the relaxation. None uses the
        whole matrix. "auto" is None for the linear kernel and for up to 6,600 instances in up to
        500 bags, and 100 otherwise. Above 6,600 instances these are landmarks for the whole fit.
    tol : float or "auto", default="auto"
        Relative decrease and duality gap at which to stop. "auto" is 1e-6; for rows with over two
        million numbers, 5e-4.
    max_iter : int, default=100
        Maximum number of steps of the concave-convex procedure.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.
    n_jobs : int, default=None
        Number of parallel jobs over classes. None means 1 unless in a :obj:`joblib.parallel_config`
        context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print the objective after rounding and after each step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights; only for the linear kernel.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients of the support vectors; only for other kernels.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors, or of the landmarks.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        The support vectors; not set for the linear kernel.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The constant b.
    gamma_ : float
        Resolved value of ``gamma``; not set for the linear kernel.
    eta_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Relaxed selection of each instance of a positive bag; 1 for instances of negative bags.
    selected_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the selected instance of each positive bag; -1 for negative bags.
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem; without ``polish``, for the witnesses ``selected_``.
    objective_history_ : ndarray of shape (n_iter_,), or list of ndarray
        The value after each step.
    relaxation_value_ : float or ndarray of shape (n_classes,)
        Value of the relaxation, which is a lower bound only over slacks up to ``slack_bound``.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Duality gap of the last SVM, in units of the objective.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of steps; 1 without ``polish``.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether relaxation, SVM and ``polish`` converged.
    n_passes_ : int or ndarray of shape (n_classes,)
        Number of passes over the instances.
    n_components_ : int or None
        Number of columns or landmarks; None if not restricted.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    milearn.exceptions.SolverError
        If the relaxation or a dual problem is not solved.
    MemoryError
        If the kernel matrix exceeds scikit-learn's ``working_memory``.

    Warns
    -----
    UserWarning
        If all bags have the same score.
    ConvergenceWarning
        If ``converged_`` is False.

    See Also
    --------
    MISVC : Solves the same problem with ``slack="instance"``, by the concave-convex procedure.

    Notes
    -----
    The semidefinite program (14) of [1]_ is unbounded below unless slacks are bounded.

    References
    ----------
    .. [1] Y. Guo. Max-Margin Multiple-Instance Learning via Semidefinite Programming. ACML 2009.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import SDPMIL
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = SDPMIL(C=10.0).fit(bags, y)
    >>> model.score(bags, y)
    1.0
    >>> bool(model.relaxation_value_ <= model.objective_)
    True
    """

    _parameter_constraints = Constraints(
        slack_bound=[POSITIVE],
        selection=[StrOptions({"one", "at_least_one"})],
        polish=["boolean"],
    )

    def __init__(
        self,
        C: float = 10.0,
        *,
        slack_bound: float = 2.0,
        selection: str = "one",
        polish: bool = False,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        n_components: int | str | None = "auto",
        tol: float | str = "auto",
        max_iter: int = 100,
        class_weight: Any = None,
        pos_label: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.slack_bound = slack_bound
        self.selection = selection
        self.polish = polish
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SDPMIL:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        data, settings = self._represented(class_fit(self, X, y, sample_weight))
        runs = data.best(lambda fit, loss: [None], partial(_selection_from, settings))
        results, tol = runs[0], data.options().tol
        function, attributes = instance_function(data, [*map(attrgetter("svm"), results)])
        data.store(runs, function, {**attributes, **_selected(data, settings, results)})
        worst = max(map(attrgetter("relaxation"), results), key=attrgetter("error"))
        if worst.error > tol:
            warn_user(
                f"The relaxation of SDPMIL was solved to a duality gap of {worst.gap:.1e} and "
                f"residuals of {worst.primal_residual:.1e} and {worst.dual_residual:.1e} only "
                f"(tol={tol:.1e}): scale the features, lower C, or raise tol.",
                ConvergenceWarning,
            )
        return self

    def _represented(self, data: Fit) -> tuple[Fit, SelectionSettings]:
        """The data with all inner products, and the settings of the relaxation."""
        instances, max_bytes, limits = data.instances, data.memory_limit, RELAXATION_LIMITS
        n_bags, n_instances = len(data.used), data.n_instances
        n_components = auto_components(self.n_components, n_bags, n_instances, limits)
        if self.n_components == AUTO and data.linear:
            n_components = None
        if n_components is not None and data.kernel and n_instances > limits.instances:
            # The kernel between all instances of the negative bags would be too large as well.
            rng = np.random.RandomState(0)
            features = landmark_features(instances, data.kernel, n_components, rng)
            data.gram = LinearGram(features.transform(instances))
            data.features, n_components = features, None
        else:
            data.gram = data.gram_of(instances, max_bytes)
        settings = SelectionSettings(
            slack_bound=self.slack_bound,
            exactly_one=self.selection == "one",
            polish=self.polish,
            n_components=n_components,
            max_bytes=max_bytes,
        )
        return data, settings


def _selection_from(
    settings: SelectionSettings, data: Fit, loss: Hinge, start: None, on_iteration: Report
) -> SelectionResult:
    options = data.options(on_iteration)
    problem = BinaryProblem(data.gram, data.offsets, loss.signs, loss.weights)
    others = data.screened_starts(loss) if settings.polish else None
    # Explicit features are in memory.
    rows = Bags(data.gram.instances, data.offsets).source() if data.over_rows else None
    found = solve_selection(problem, settings, options, rows, others)
    if not found.stopped and found.relaxation.error > options.tol:
        found.stopped = "relaxation"
    return found


def _selected(data: Fit, settings: SelectionSettings, results: list[Any]) -> dict[str, Any]:
    """Fitted attributes of the relaxation and of the selection."""
    bags, rows, n_components = data.bags, data.rows, settings.n_components
    if data.features is not None:
        n_components = int(data.features.landmarks.shape[0])
    eta = np.zeros((bags.n_instances, len(results)))
    selected = np.full((len(bags), len(results)), -1, dtype=np.intp)
    eta[rows] = 1.0
    for column, result in enumerate(results):
        eta[rows[result.relaxation.rows], column] = result.relaxation.eta
        chosen = rows[result.selected]
        selected[bags.bag_index[chosen], column] = chosen
    single = len(results) == 1
    return {
        **attributes_of(results, relaxation_value="relaxation.value"),
        "n_components_": n_components,
        "eta_": eta[:, 0] if single else eta,
        "selected_": selected[:, 0] if single else selected,
    }
