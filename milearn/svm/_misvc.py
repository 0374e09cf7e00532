"""MI-SVM and mi-SVM."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._compat import StrOptions, with_callbacks
from .._constraints import Constraints
from .._fit.multi_start import drawn_rows
from .._fit.threads import fit_context
from .._solvers.common.cccp import CCCPSolution
from .._solvers.svm.losses import Hinge
from .._solvers.svm.mi_svm_kernel import BinaryProblem, solve_instance_labels, solve_mi_svm
from .._solvers.svm.mi_svm_labels import solve_instance_labels_rows
from .._solvers.svm.starts import solve_mi_svm_rows
from ..base import BagClassifier
from ._base import BaseMISVM
from ._fit import Fit, Report, class_fit
from ._functions import instance_function


class MISVC(BaseMISVM, BagClassifier):
    r"""Support vector classification of bags by their highest instance score (MI-SVM).

    The score of a bag is the highest score of its instances, :math:`f(B_i) = \max_j f(x_{ij})` with
    :math:`f(x) = \langle w, \phi(x) \rangle + b`. The problem is [1]_

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2
        + C \sum_{y_i = 1} c_i \, [1 - \max_j f(x_{ij})]_+
        + C \sum_{y_i = -1} c_i \, h_i(f),

    where :math:`c_i` is the weight of a bag. The loss :math:`h_i(f)` of a negative bag is
    :math:`[1 + \max_j f(x_{ij})]_+` with ``slack="bag"`` and :math:`\sum_j [1 + f(x_{ij})]_+` with
    ``slack="instance"``. The :term:`CCCP` finds a stationary point, which depends on ``init``.

    Read more in the :ref:`User Guide <methods_svm>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack relative to the norm of w. Must be positive.
    kernel : str or callable, default="rbf"
        Kernel between instances: a name of scikit-learn ("linear", "rbf", "poly", ...) or a
        callable. The negative part of an indefinite kernel is dropped with a warning.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel, as in :class:`~sklearn.svm.SVC`.
    n_components : int, "auto" or None, default="auto"
        Number of landmarks that approximate the kernel (Nystroem); None is the exact kernel. "auto"
        is None for up to 6,600 instances in up to 2,000 bags, and 300 otherwise.
    slack : {"bag", "instance"}, default="bag"
        Whether a negative bag has one slack (as published) or one slack per instance.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        Instance that represents each bag in the first step: the mean of the bag (as published), a
        random instance, or a given row of ``X.instances``. "auto" compares several starts, see the
        notes.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float or "auto", default="auto"
        Relative decrease and duality gap at which to stop. "auto" is 1e-6; for rows with over two
        million numbers, 5e-4.
    max_iter : int, default=100
        Maximum number of steps.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.
    random_state : int, RandomState instance or None, default=None
        Determines random starts and landmarks.
    n_jobs : int, default=None
        Number of parallel jobs over classes and starts. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

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
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above.
    objective_history_ : ndarray of shape (n_iter_,), or list of ndarray
        The value after each step; it never increases.
    start_objectives_ : ndarray of shape (n_init,) or (n_classes, n_init)
        The value that each start reached.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of steps.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether the procedure converged.
    n_passes_ : int or ndarray of shape (n_classes,)
        Number of passes over the instances.
    n_components_ : int or None
        Number of landmarks; None if the kernel is exact.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    milearn.exceptions.SolverError
        If a dual problem is not solved: scale the features.
    MemoryError
        If the matrix of an indefinite kernel exceeds scikit-learn's ``working_memory``.

    Warns
    -----
    UserWarning
        If all training bags have the same score.
    ConvergenceWarning
        If and only if ``converged_`` is False.

    See Also
    --------
    CoupledMISVC : The score of a bag is tied to its highest instance score.
    MISVR : The regressor.
    InstanceMISVC : Every instance of a positive bag has a label (mi-SVM).

    Notes
    -----
    A fit from the means of bags can end in a poor local minimum if few instances decide.
    ``init="auto"`` therefore also tries up to 2,000 instances of positive bags as directions, and
    keeps the lowest objective. Indefinite kernels start from the means only.

    References
    ----------
    .. [1] S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for Multiple-Instance
       Learning. NIPS 15, 2003.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import MISVC
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = MISVC().fit(bags, y)
    >>> model.score(bags, y)
    1.0
    >>> model.witness(bags[:3]).shape
    (3,)
    """

    _parameter_constraints = Constraints(slack=[StrOptions({"bag", "instance"})])

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        n_components: int | str | None = "auto",
        slack: str = "bag",
        init: Any = "auto",
        n_init: int = 1,
        tol: float | str = "auto",
        max_iter: int = 100,
        class_weight: Any = None,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.slack = slack
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MISVC:
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
        return _fitted(class_fit(self, X, y, sample_weight), self.slack)


class InstanceMISVC(BaseMISVM, BagClassifier):
    r"""Support vector classification of bags with latent labels of instances (mi-SVM).

    Every instance of a positive bag has a label :math:`u_{ij} = \pm 1`, and at least one label of
    the bag is 1. The instances of negative bags are negative. The problem is [1]_

    .. math::

        \min_{w, b} \, \min_u \; \tfrac12 \|w\|^2
        + C \sum_i c_i \sum_j [1 - u_{ij} f(x_{ij})]_+
        \quad \text{s.t.} \quad
        u_{ij} = -1 \;(y_i = -1), \quad \sum_j (u_{ij} + 1) \ge 2 \;(y_i = 1),

    where :math:`c_i` is the weight of a bag and :math:`f(x) = \langle w, \phi(x) \rangle + b`. The
    score of a bag is its highest instance score. The fit alternates between a support vector
    machine on all instances and new labels. It ends at a stationary point, see :term:`CCCP`.

    Read more in the :ref:`User Guide <methods_svm>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=10.0
        Cost of an instance's slack relative to the norm of w. Must be positive.
    kernel : str or callable, default="rbf"
        Kernel between instances: a name of scikit-learn ("linear", "rbf", "poly", ...) or a
        callable. The negative part of an indefinite kernel is dropped with a warning.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel, as in :class:`~sklearn.svm.SVC`.
    n_components : int, "auto" or None, default="auto"
        Number of landmarks that approximate the kernel (Nystroem); None is the exact kernel. "auto"
        is None for up to 6,600 instances in up to 2,000 bags, and 300 otherwise.
    init : {"auto", "mean", "bag", "random"}, default="auto"
        First labels of the instances of positive bags: "mean" takes them from two steps of
        :class:`MISVC` from the means of positive bags, "bag" makes all of them positive (as
        published), and "random" draws them. "auto" compares "mean" with the screened starts of
        :class:`MISVC` and keeps the lower objective.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float or "auto", default="auto"
        Relative decrease and duality gap at which to stop. "auto" is 1e-6; for rows with over two
        million numbers, 5e-4.
    max_iter : int, default=100
        Maximum number of relabellings.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.
    random_state : int, RandomState instance or None, default=None
        Determines random starts and landmarks.
    n_jobs : int, default=None
        Number of parallel jobs over classes and starts. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

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
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above.
    objective_history_ : ndarray of shape (n_iter_,), or list of ndarray
        The value after each step; it never increases.
    start_objectives_ : ndarray of shape (n_init,) or (n_classes, n_init)
        The value that each start reached.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of relabellings, with one SVM each.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether the labels converged within ``max_iter`` steps.
    n_passes_ : int or ndarray of shape (n_classes,)
        Number of passes over the instances.
    n_components_ : int or None
        Number of landmarks; None if the kernel is exact.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    milearn.exceptions.SolverError
        If a dual problem is not solved: scale the features.
    MemoryError
        If the matrix of an indefinite kernel exceeds scikit-learn's ``working_memory``.

    Warns
    -----
    UserWarning
        If all training bags have the same score.
    ConvergenceWarning
        If the labels or an SVM have not converged.

    See Also
    --------
    MISVC : One witness per positive bag (MI-SVM).

    Notes
    -----
    If positive instances are rare, ``init="bag"`` can be a fixed point with w = 0. Bags with many
    instances have more weight than bags with few.

    References
    ----------
    .. [1] S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for Multiple-Instance
       Learning. NIPS 15, 2003.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import InstanceMISVC
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = InstanceMISVC(C=10.0).fit(bags, y)
    >>> model.predict_instances(bags).shape == (bags.n_instances,)
    True
    """

    _parameter_constraints = Constraints(init=[StrOptions({"auto", "mean", "bag", "random"})])

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        n_components: int | str | None = "auto",
        init: str = "auto",
        n_init: int = 1,
        tol: float | str = "auto",
        max_iter: int = 100,
        class_weight: Any = None,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InstanceMISVC:
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
        return _fitted(class_fit(self, X, y, sample_weight), "labels")


def _fitted(fit: Fit, slack: str) -> Any:
    fit = fit.in_kernel_space()
    runs = fit.best(partial(_starts, slack), partial(_solved, slack))
    return fit.store(runs, *instance_function(fit, runs[0]))


def _starts(slack: str, fit: Fit, loss: Hinge) -> list[Any]:
    """First witnesses, or labels if ``slack`` is "labels"; one array or name per start."""
    init = fit.estimator.init
    draw = partial(drawn_rows, fit.offsets, fit.rng, loss.signs > 0)
    if slack == "labels":
        draw = partial(_random_labels, fit, loss)
    first = init
    if not isinstance(init, str):
        first = fit.given_witnesses(init)[loss.signs > 0]
    elif init == "random":
        first = draw()
    elif init == "bag":
        first = np.repeat(loss.signs, np.diff(fit.offsets))
    return [first, *(draw() for _ in range(fit.estimator.n_init - 1))]


def _solved(slack: str, fit: Fit, loss: Hinge, start: Any, on_iteration: Report) -> CCCPSolution:
    """A stationary point from a start: over rows, or over kernel values."""
    options = fit.options.watched_by(on_iteration)
    if fit.over_rows and slack == "labels":
        return solve_instance_labels_rows(fit.source(), loss, start, options)
    if fit.over_rows:
        return solve_mi_svm_rows(fit.source(), loss, slack, start, options)
    problem, others = BinaryProblem(fit.gram, fit.offsets, loss.signs, loss.weights), None
    if isinstance(start, str):
        others, start = fit.screened_starts(loss) if start == "auto" else None, None
    if slack == "labels":
        return solve_instance_labels(problem, start, options, others)
    return solve_mi_svm(problem, slack, start, options, others)


def _random_labels(fit: Fit, loss: Hinge) -> np.ndarray:
    """Random labels of the instances of positive bags, at least one positive in each."""
    offsets, sizes = fit.offsets, np.diff(fit.offsets)
    labels = np.where(fit.rng.uniform(size=offsets[-1]) < 0.5, 1.0, -1.0)
    labels[drawn_rows(offsets, fit.rng)] = 1.0
    labels[np.repeat(loss.signs < 0, sizes)] = -1.0
    return labels
