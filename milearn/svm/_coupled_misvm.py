"""Support vector machines of Cheung & Kwok: coupled scores of bags, and a hard maximum."""

from __future__ import annotations

from typing import Any

from .._compat import with_callbacks
from .._constraints import Constraints
from .._fit.threads import fit_context
from ..base import BagClassifier, BagRegressor
from ._base import BaseMISVM
from ._coupled import coupled_from, coupled_function, coupled_starts, with_bags
from ._fit import Fit, class_fit, value_fit


class CoupledMISVC(BaseMISVM, BagClassifier):
    r"""Support vector classification of bags whose score is coupled to that of their instances.

    Bags and instances are points of the same space: an instance is a bag of one. With
    :math:`f(B) = \langle w, \phi(B) \rangle + b` and a kernel between bags, the problem is [1]_

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i c_i \, [1 - y_i f(B_i)]_+
        + C \lambda \sum_i c_i \, \ell\bigl( f(B_i) - \max_j f(x_{ij}) \bigr),

    where :math:`c_i` is the weight of a bag, :math:`\lambda` the ``coupling`` and :math:`\ell` the
    ``loss``: :math:`|t|` for "l1", :math:`t^2` for "l2", and :math:`[|t| - \varepsilon]_+` for
    "epsilon_insensitive". The :term:`CCCP` finds a stationary point, which depends on ``init``.

    Read more in the :ref:`User Guide <methods_svm>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack relative to the norm of w. Must be positive. The gamma of [1]_ is C *
        n_bags.
    kernel : str or callable, default="rbf"
        Kernel between instances: a name of scikit-learn ("linear", "rbf", "poly", ...) or a
        callable. The negative part of an indefinite kernel is dropped with a warning.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel, as in :class:`~sklearn.svm.SVC`.
    bag_kernel : {"normalized_set", "set", "mean_set", "minmax"}, default="normalized_set"
        Kernel between bags, computed from ``kernel``, see :func:`milearn.metrics.bag_kernel`.
    loss : {"l1", "l2", "epsilon_insensitive"}, default="l1"
        Loss between the score of a bag and its highest instance score.
    coupling : float, default=0.1
        Weight of the coupling loss relative to the first loss (the lambda of [1]_).
    epsilon : float, default=0.1
        Difference without a cost, for ``loss="epsilon_insensitive"``.
    n_components : int, "auto" or None, default="auto"
        Number of landmarks that approximate the kernel (Nystroem); None is the exact kernel. "auto"
        is None for up to 6,600 instances in up to 2,000 bags, and 300 otherwise.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        Instance that represents each bag in the first step: the mean of the bag (as published), a
        random instance, or a given row of ``X.instances``. "auto" is the highest instance under the
        model without coupling.
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
        Determines a random start and landmarks.
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
        The support vectors; not set for the linear kernel. With ``bag_kernel="minmax"`` they are
        minima and maxima, of twice the width, and indices of ``support_`` from ``n_instances`` on
        refer to bags.
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
    start_objectives_ : ndarray of shape (1,) or (n_classes, 1)
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
        Before the fit, if the kernel values exceed scikit-learn's ``working_memory``.

    Warns
    -----
    UserWarning
        If all training bags have the same score.
    ConvergenceWarning
        If ``converged_`` is False.

    See Also
    --------
    MISVC : The score of a bag is its highest instance score (MI-SVM).
    CoupledMISVR : The regressor.

    Notes
    -----
    The linear kernel and landmarks are fitted in passes over blocks of instances. Other kernels are
    solved in the dual over kernel values.

    [1]_ starts from the mean of each bag, and has two slacks per bag for "epsilon_insensitive",
    where this class has one.

    References
    ----------
    .. [1] P.-M. Cheung, J. T. Kwok. A Regularization Framework for Multiple-Instance Learning. ICML
       2006.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import CoupledMISVC
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = CoupledMISVC().fit(bags, y)
    >>> model.score(bags, y)
    1.0
    >>> model.witness(bags[:3]).shape
    (3,)
    """

    _parameter_constraints = Constraints()

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        bag_kernel: str = "normalized_set",
        loss: str = "l1",
        coupling: float = 0.1,
        epsilon: float = 0.1,
        n_components: int | str | None = "auto",
        init: Any = "auto",
        tol: float | str = "auto",
        max_iter: int = 100,
        class_weight: Any = None,
        pos_label: Any = None,
        random_state: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.bag_kernel = bag_kernel
        self.loss = loss
        self.coupling = coupling
        self.epsilon = epsilon
        self.n_components = n_components
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CoupledMISVC:
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
        return _fitted(class_fit(self, X, y, sample_weight))


class CoupledMISVR(BaseMISVM, BagRegressor):
    r"""Support vector regression of bags whose value is coupled to that of their instances.

    Bags and instances are points of the same space: an instance is a bag of one. With
    :math:`f(B) = \langle w, \phi(B) \rangle + b` and a kernel between bags, the problem is [1]_

    .. math::

        \min_{w, b, \epsilon \ge 0} \; \tfrac12 \|w\|^2
        + C \sum_i c_i \bigl( \nu \epsilon + [|y_i - f(B_i)| - \epsilon]_+ \bigr)
        + C \lambda \sum_i c_i \, \ell\bigl( f(B_i) - \max_j f(x_{ij}) \bigr),

    where :math:`c_i` is the weight of a bag, :math:`\lambda` the ``coupling`` and :math:`\ell` the
    ``loss``: :math:`|t|` for "l1", :math:`t^2` for "l2", and :math:`[|t| - \varepsilon]_+` for
    "epsilon_insensitive". The :term:`CCCP` finds a stationary point, which depends on ``init``.

    Read more in the :ref:`User Guide <methods_svm>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Upper bound on the fraction of bags outside the tube.
    C : float, default=1.0
        Cost of a bag's distance from the tube relative to the norm of w. Must be positive. The
        gamma of [1]_ is C * n_bags.
    kernel : str or callable, default="rbf"
        Kernel between instances: a name of scikit-learn ("linear", "rbf", "poly", ...) or a
        callable. The negative part of an indefinite kernel is dropped with a warning.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel, as in :class:`~sklearn.svm.SVC`.
    bag_kernel : {"normalized_set", "set", "mean_set", "minmax"}, default="normalized_set"
        Kernel between bags, computed from ``kernel``, see :func:`milearn.metrics.bag_kernel`.
    loss : {"l1", "l2", "epsilon_insensitive"}, default="l1"
        Loss between the score of a bag and its highest instance score.
    coupling : float, default=0.1
        Weight of the coupling loss relative to the first loss (the lambda of [1]_).
    epsilon : float, default=0.1
        Difference without a cost, for ``loss="epsilon_insensitive"``, in units of the target.
    n_components : int, "auto" or None, default="auto"
        Number of landmarks that approximate the kernel (Nystroem); None is the exact kernel. "auto"
        is None for up to 6,600 instances in up to 2,000 bags, and 300 otherwise.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        Instance that represents each bag in the first step: the mean of the bag (as published), a
        random instance, or a given row of ``X.instances``. "auto" is the highest instance under the
        model without coupling.
    tol : float or "auto", default="auto"
        Relative decrease and duality gap at which to stop. "auto" is 1e-6; for rows with over two
        million numbers, 5e-4.
    max_iter : int, default=100
        Maximum number of steps.
    random_state : int, RandomState instance or None, default=None
        Determines a random start and landmarks.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights; only for the linear kernel.
    dual_coef_ : ndarray of shape (1, n_support)
        Coefficients of the support vectors; only for other kernels.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors, or of the landmarks.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        The support vectors; not set for the linear kernel. With ``bag_kernel="minmax"`` they are
        minima and maxima, of twice the width, and indices of ``support_`` from ``n_instances`` on
        refer to bags.
    intercept_ : ndarray of shape (1,)
        The constant b.
    tube_half_width_ : float
        Half the width of the tube, the epsilon of the problem.
    gamma_ : float
        Resolved value of ``gamma``; not set for the linear kernel.
    witnesses_ : ndarray of shape (n_bags,)
        Row of the highest instance of each training bag.
    objective_ : float
        Value of the problem above.
    objective_history_ : ndarray of shape (n_iter_,)
        The value after each step; it never increases.
    start_objectives_ : ndarray of shape (1,)
        The value that each start reached.
    dual_gap_ : float
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether the procedure converged.
    n_passes_ : int
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
        Before the fit, if the kernel values exceed scikit-learn's ``working_memory``.

    Warns
    -----
    UserWarning
        If all training bags have the same score.
    ConvergenceWarning
        If ``converged_`` is False.

    See Also
    --------
    MISVR : The value of a bag is its highest instance value.
    CoupledMISVC : The classifier.

    Notes
    -----
    The linear kernel and landmarks are fitted in passes over blocks of instances. Other kernels are
    solved in the dual over kernel values.

    If the lowest instance determines the value of a bag, change the sign of the targets.

    References
    ----------
    .. [1] P.-M. Cheung, J. T. Kwok. A Regularization Framework for Multiple-Instance Learning. ICML
       2006.

    Examples
    --------
    >>> from milearn.datasets import make_affinity
    >>> from milearn.svm import CoupledMISVR
    >>> X, y = make_affinity(n_bags=60, random_state=0)
    >>> model = CoupledMISVR(C=10.0).fit(X[:40], y[:40])
    >>> model.predict(X[40:]).shape
    (20,)
    """

    _parameter_constraints = Constraints()

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        bag_kernel: str = "normalized_set",
        loss: str = "l1",
        coupling: float = 0.1,
        epsilon: float = 0.1,
        n_components: int | str | None = "auto",
        init: Any = "auto",
        tol: float | str = "auto",
        max_iter: int = 100,
        random_state: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.bag_kernel = bag_kernel
        self.loss = loss
        self.coupling = coupling
        self.epsilon = epsilon
        self.n_components = n_components
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CoupledMISVR:
        """Fit on bags and their values.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Value of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        return _fitted(value_fit(self, X, y, sample_weight))


class MISVR(BaseMISVM, BagRegressor):
    r"""Support vector regression of bags by their highest instance value.

    The value of a bag is the highest value of its instances, :math:`f(B_i) = \max_j f(x_{ij})` with
    :math:`f(x) = \langle w, \phi(x) \rangle + b`. The problem is that of nu-support vector
    regression,

    .. math::

        \min_{w, b, \epsilon \ge 0} \; \tfrac12 \|w\|^2
        + C \sum_i c_i \bigl( \nu \epsilon + [|y_i - f(B_i)| - \epsilon]_+ \bigr),

    where :math:`c_i` is the weight of a bag. The :term:`CCCP` finds a stationary point, which
    depends on ``init``.

    Read more in the :ref:`User Guide <methods_svm>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Upper bound on the fraction of bags outside the tube.
    C : float, default=1.0
        Cost of a bag's distance from the tube relative to the norm of w. Must be positive.
    kernel : str or callable, default="rbf"
        Kernel between instances: a name of scikit-learn ("linear", "rbf", "poly", ...) or a
        callable. The negative part of an indefinite kernel is dropped with a warning.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel, as in :class:`~sklearn.svm.SVC`.
    n_components : int, "auto" or None, default="auto"
        Number of landmarks that approximate the kernel (Nystroem); None is the exact kernel. "auto"
        is None for up to 6,600 instances in up to 2,000 bags, and 300 otherwise.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        Instance that represents each bag in the first step: the mean of the bag, a random instance,
        or a given row of ``X.instances``. "auto" compares the highest instances under the model of
        the means with those under a screened direction, see :class:`MISVC`, and keeps the lower
        objective.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float or "auto", default="auto"
        Relative decrease and duality gap at which to stop. "auto" is 1e-6; for rows with over two
        million numbers, 5e-4.
    max_iter : int, default=100
        Maximum number of steps.
    random_state : int, RandomState instance or None, default=None
        Determines random starts and landmarks.
    n_jobs : int, default=None
        Number of parallel jobs over starts. None means 1 unless in a :obj:`joblib.parallel_config`
        context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights; only for the linear kernel.
    dual_coef_ : ndarray of shape (1, n_support)
        Coefficients of the support vectors; only for other kernels.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors, or of the landmarks.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        The support vectors; not set for the linear kernel.
    intercept_ : ndarray of shape (1,)
        The constant b.
    tube_half_width_ : float
        Half the width of the tube, the epsilon of the problem.
    gamma_ : float
        Resolved value of ``gamma``; not set for the linear kernel.
    witnesses_ : ndarray of shape (n_bags,)
        Row of the highest instance of each training bag.
    objective_ : float
        Value of the problem above.
    objective_history_ : ndarray of shape (n_iter_,)
        The value after each step; it never increases.
    start_objectives_ : ndarray of shape (n_init,)
        The value that each start reached.
    dual_gap_ : float
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether the procedure converged.
    n_passes_ : int
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
        Before the fit, if the kernel values exceed scikit-learn's ``working_memory``.

    Warns
    -----
    UserWarning
        If all training bags have the same score.
    ConvergenceWarning
        If ``converged_`` is False.

    See Also
    --------
    MISVC : The classifier.
    CoupledMISVR : The value of a bag is tied to its highest instance value.

    Notes
    -----
    This is the framework of [1]_ with a hard maximum. If the lowest instance determines the value
    of a bag, change the sign of the targets.

    References
    ----------
    .. [1] P.-M. Cheung, J. T. Kwok. A Regularization Framework for Multiple-Instance Learning. ICML
       2006.

    Examples
    --------
    >>> from milearn.datasets import make_affinity
    >>> from milearn.svm import MISVR
    >>> X, y = make_affinity(n_bags=60, random_state=0)
    >>> model = MISVR(C=10.0).fit(X[:40], y[:40])
    >>> model.predict(X[40:]).shape
    (20,)
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        n_components: int | str | None = "auto",
        init: Any = "auto",
        n_init: int = 1,
        tol: float | str = "auto",
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MISVR:
        """Fit on bags and their values.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Value of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        return _fitted(value_fit(self, X, y, sample_weight))


def _fitted(fit: Fit) -> Any:
    fit = with_bags(fit)
    runs = fit.best(coupled_starts, coupled_from)
    return fit.store(runs, *coupled_function(fit, runs[0]))
