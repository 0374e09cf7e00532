"""The regularisation framework of Cheung & Kwok for regression, in the form of nu-SVR."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.remote import by_blocks
from .._bags.segments import segment_argmax
from .._compat import CallbackSupport, Interval, StrOptions, with_callbacks
from .._fit.multi_start import MultiStart
from .._fit.threads import fit_context
from .._fit.validation import validate_labels, validate_sample_weight
from .._solvers.common.qp import check_qp_solver
from .._solvers.svm.losses import Tube
from ..base import BagRegressor
from ._base import (
    COUPLED_CONSTRAINTS,
    KERNEL_CONSTRAINTS,
    START_CONSTRAINTS,
    run_outcome,
    solver_options,
    warn_of_runs,
)
from ._centre import Centre
from ._coupled import CoupledSettings, couple
from ._formulations import Formulation, TrainingBags
from ._functions import BagFunction
from ._passes import SOLVERS, CoupledPasses, PassesMixin

__all__ = ["MISVR"]


class MISVR(PassesMixin, CallbackSupport, BagRegressor):
    r"""Support vector regression of bags whose value is tied to that of their instances.

    Bags and instances are points of one space: an instance is a bag of one. With
    :math:`f(B) = \langle w, \phi(B) \rangle + b` the problem is

    .. math::

        \min_{w, b, \epsilon \ge 0} \; \tfrac12 \|w\|^2
        + C \sum_i c_i \bigl( \nu \epsilon + [|y_i - f(B_i)| - \epsilon]_+ \bigr)
        + C \lambda \sum_i c_i \, \ell\bigl( f(B_i) - \max_j f(x_{ij}) \bigr),

    where :math:`c_i` is the weight of a bag, :math:`\lambda` the ``coupling``, and
    :math:`\ell(t)` is :math:`|t|` for ``loss="l1"``, :math:`t^2` for ``"l2"``, and
    :math:`[|t| - \varepsilon]_+` for ``"epsilon_insensitive"``. ``coupling=0`` is the
    nu-support vector regression with the bag kernel. With ``loss="max"`` the value of a bag is that
    of its highest instance, :math:`f(B_i) = \max_j f(x_{ij})`, and there are no bag objects.

    The problem is not convex. The concave-convex procedure replaces a maximum, where it is concave
    in the objective, by its current highest instances, solves the convex problem that is left, and
    repeats until convergence. The objective never rises; the result is a local minimum that
    depends on ``init``.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Bound on the share of bags outside the tube.
    C : float, default=1.0
        Cost of a bag's distance from the tube against the norm of w. Must be positive. The
        gamma of [1]_ is C * n_bags.
    kernel : str or callable, default="rbf"
        Kernel between instances, by scikit-learn's name ("linear", "poly", "rbf", "laplacian",
        "chi2", "cosine", "sigmoid", ...); a callable takes two matrices and returns the matrix of
        shape (n_left, n_right). The negative part of an indefinite kernel matrix is dropped, with
        a warning.
    degree : float, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly", "laplacian", "chi2" and "sigmoid". "scale" is
        1 / (n_features * variance of the instances), "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    bag_kernel : {"normalized_set", "set", "mean_set", "minmax"}, default="normalized_set"
        Kernel between bags made of ``kernel``, see :func:`milearn.metrics.bag_kernel`. Ignored
        when ``loss="max"``, as are ``coupling`` and ``epsilon``.
    loss : {"l1", "l2", "epsilon_insensitive", "max"}, default="l1"
        Loss between the value of a bag and its highest instance value.
    coupling : float, default=0.1
        Weight of that loss against the first (the lambda of [1]_).
    epsilon : float, default=0.1
        Difference that costs nothing, for "epsilon_insensitive"; in units of the target. The tube
        around the target has the width :math:`\epsilon` above, which ``nu`` sets.
    n_components : int, default=None
        Number of landmarks, drawn from the training instances: w is sought in the span of their
        images (Nystroem's approximation of the kernel). The problem is then solved by cutting
        planes over explicit features, which are made in blocks, without any kernel matrix. The
        linear kernel's features are the instances themselves; it goes this way for any
        ``n_components``, and where the kernel values do not fit into ``cache_size``.
    solver : {"auto", "dual", "primal"}, default="auto"
        For the linear kernel: "dual" solves the convex steps to ``tol`` and suits thousands of
        instances; "primal" takes a handful of passes over the instances, whatever their number,
        and solves them to ``tol`` or 5e-4, whichever is larger. "auto" takes "primal" above 2,000
        instances in more than 200 bags and above 20,000 in any, or, with more
        features than instances, above 5,000 in more than 500 bags and 100,000 in any.
        Other kernels, and
        ``bag_kernel="minmax"`` where it is used, have the dual only. The primal reads float16,
        float32 and memory-mapped instances in blocks, without a copy.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        First linearisation: the mean of each bag (as published), an instance drawn from each, or
        given rows of ``X.instances``. "auto" takes the highest instances under the model without
        coupling, and the mean for ``loss="max"``; with ``solver="primal"`` there the highest
        instances under the model of the means.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float, default=1e-6
        Relative decrease of the objective at which to stop. The convex steps are solved to a
        tenth of it; by cutting planes to a tenth of it or 1e-6, whichever is larger.
    max_iter : int, default=100
        Maximum number of steps of the concave-convex procedure.
    cache_size : float, default=1000
        Memory for kernel values in MiB, shared by the workers of ``n_jobs``. The problem needs
        about 3 * n_bags * n_instances values, with ``coupling=0`` some n_bags**2; rows beyond that
        are computed again where they do not fit.
    qp_solver : str, default=None
        Backend of qpsolvers for the dual problems, "piqp" when None.
    random_state : int, RandomState instance or None, default=None
        Determines random starts and landmarks. Pass an int for reproducible results.
    n_jobs : int, default=None
        Number of jobs to run in parallel over starts. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means using all processors.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights, for the linear kernel.
    dual_coef_ : ndarray of shape (1, n_support)
        Coefficients of the function over kernel values of the support vectors; absent where the
        linear kernel was solved over explicit features.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors in the training instances; with ``n_components`` those of the
        landmarks. With ``bag_kernel="minmax"`` numbers from ``n_instances`` on stand for bags.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        With ``bag_kernel="minmax"`` minima and maxima, of twice the width.
    intercept_ : ndarray of shape (1,)
        The constant b.
    tube_half_width_ : float
        Half the width of the tube, the epsilon of the problem.
    gamma_ : float
        The number behind ``gamma``; absent with ``solver="primal"``, which has no use for it.
    witnesses_ : ndarray of shape (n_bags,)
        Row of the highest instance of each training bag.
    objective_ : float
        Value of the problem above at the solution.
    objective_history_ : ndarray
        The value after each step; it never rises.
    dual_gap_ : float
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int
        Number of steps of the concave-convex procedure.
    converged_ : bool
        Whether the procedure converged within ``max_iter`` steps.
    n_passes_ : int
        Number of passes over the instances, with ``solver="primal"``.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where the bags have names.

    Raises
    ------
    milearn.exceptions.SolverError
        When a dual problem is not solved and there is no primal. With the linear kernel there is
        one, which then takes over: multipliers have too few digits for features of a size of 1e8.
    MemoryError
        Before the fit, where kernel values do not fit into ``cache_size``; the message names the
        remedy.

    Warns
    -----
    ConvergenceWarning
        When the procedure has not converged after ``max_iter`` steps, or a convex step misses its
        precision.

    See Also
    --------
    MISVC : The same for classification.

    Notes
    -----
    The problem is (17) of [1]_ with C = gamma / n_bags; the losses beside "l1" are carried over
    from classification, as the paper says they can be. The highest instance is taken for the one
    that is responsible for the value of a bag; turn the sign of the targets where it is the lowest.
    What differs from [1]_ is listed at :class:`MISVC`.

    References
    ----------
    .. [1] P.-M. Cheung, J. T. Kwok. A Regularization Framework for Multiple-Instance Learning.
       ICML 2006.

    Examples
    --------
    >>> from milearn.datasets import make_affinity
    >>> from milearn.svm import MISVR
    >>> X, y = make_affinity(n_bags=60, random_state=0)
    >>> model = MISVR(C=10.0).fit(X[:40], y[:40])
    >>> model.predict(X[40:]).shape
    (20,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
        **KERNEL_CONSTRAINTS,
        **START_CONSTRAINTS,
        **COUPLED_CONSTRAINTS,
        "solver": [StrOptions(set(SOLVERS))],
    }

    _function: BagFunction

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        bag_kernel: str = "normalized_set",
        loss: str = "l1",
        coupling: float = 0.1,
        epsilon: float = 0.1,
        n_components: int | None = None,
        solver: str = "auto",
        init: Any = "auto",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 100,
        cache_size: float = 1000,
        qp_solver: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.bag_kernel = bag_kernel
        self.loss = loss
        self.coupling = coupling
        self.epsilon = epsilon
        self.n_components = n_components
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.qp_solver = qp_solver
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
            Factor on C by bag; a weight of two equals a bag that is there twice.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_qp_solver(self.qp_solver)
        if self.solver == "primal" and not self._may_pass():
            raise ValueError(
                "solver='primal' is for kernel='linear', with a loss other than 'max' not for "
                "bag_kernel='minmax': take solver='auto'."
            )
        bags, noted = self._validate_fit(X, dtype=self._fit_dtypes())
        targets = validate_labels(self, y, bags, numeric=True)
        weights = validate_sample_weight(sample_weight, bags)
        # A bag of weight zero takes no part at all, as if it had been left out.
        training = TrainingBags.of(bags, np.flatnonzero(weights > 0))
        used = training.used
        kernel = self._kernel_of(training, weights[used])
        centre = Centre.of(training) if kernel.linear and self.loss == "max" else Centre()
        training = centre.subtracted(training)
        rng = check_random_state(self.random_state)
        multi_start = MultiStart(self, self.max_iter)
        formulation: Formulation
        options, n_workers = solver_options(self), multi_start.n_workers(self.n_init)
        if self._by_passes(training):
            formulation = CoupledPasses.of(self, training, options, n_workers)
        else:
            settings = CoupledSettings.of(self)
            dual = couple(training, kernel, settings, options, rng, n_workers)
            formulation = self._or_passes(dual, training, kernel, n_workers)
        tube = Tube(targets[used], self.C * weights[used], self.nu)
        starts = [(tube, start) for start in formulation.starts(tube, rng)]
        results, task = multi_start.best(
            formulation.solve, [starts], X=bags, y=targets, sample_weight=sample_weight
        )
        function, attributes = centre.restored(bags, *formulation.function(results, 1))
        highest = attributes.get("witnesses_")
        if highest is None:
            highest = by_blocks(bags, _highest, function, gives_rows=True)
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
        return self

    def _may_pass(self) -> bool:
        return super()._may_pass() and (self.loss == "max" or self.bag_kernel != "minmax")

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._function.instance_scores(bags)[:, 0]

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._bag_score_is_max:
            return super()._bag_scores(bags)
        return self._function.bag_scores(bags)[:, 0]


def _highest(bags: Bags, function: BagFunction) -> np.ndarray:
    return segment_argmax(function.instance_scores(bags)[:, 0], bags.offsets)
