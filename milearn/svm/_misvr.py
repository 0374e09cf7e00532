"""Regression of bags by their highest instance value, in the form of nu-SVR."""

from __future__ import annotations

from typing import Any, ClassVar

from .._compat import with_callbacks
from .._fit.threads import fit_context
from ._base import (
    COMPONENTS,
    COUPLED_CONSTRAINTS,
    INSTANCE_KERNELS,
    START_CONSTRAINTS,
    BaseMISVR,
)
from ._coupled import CoupledSettings, coupled
from ._fit import is_linear, solve_and_store, value_problem

__all__ = ["MISVR"]


class MISVR(BaseMISVR):
    r"""Support vector regression of bags by their highest instance value.

    The value of a bag is that of its highest instance, :math:`f(B_i) = \max_j f(x_{ij})` with
    :math:`f(x) = \langle w, \phi(x) \rangle + b`, and the problem is that of nu-support vector
    regression,

    .. math::

        \min_{w, b, \epsilon \ge 0} \; \tfrac12 \|w\|^2
        + C \sum_i c_i \bigl( \nu \epsilon + [|y_i - f(B_i)| - \epsilon]_+ \bigr),

    where :math:`c_i` is the weight of a bag.

    The problem is not convex. The concave-convex procedure replaces a maximum, where it is concave
    in the objective, by its current highest instances, solves the remaining convex problem, and
    repeats until convergence. The objective never rises; the result is a local minimum that
    depends on ``init``.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Bound on the share of bags outside the tube.
    C : float, default=1.0
        Cost of a bag's distance from the tube against the norm of w. Must be positive.
    {kernel}
        With "precomputed" each row of the instances has the kernel values of an instance with all
        training instances, in their order. The matrix is square in ``fit``, and cross-validation
        cannot slice it.
    {gamma}
    n_components : int, default=None
        Number of landmarks, drawn from the training instances: w is sought in the span of their
        images (Nystroem's approximation of the kernel). The problem is then solved over explicit
        features, which are made in blocks, without any kernel matrix.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        First linearisation: the mean of each bag, an instance drawn from each, or given rows of
        ``X.instances``. "auto" is the mean, and over rows the highest instances
        under the model of the means.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float, default=1e-6
        Relative decrease of the objective at which to stop. The convex steps are solved to a
        tenth of it.
    max_iter : int, default=100
        Maximum number of steps of the concave-convex procedure.
    {random_state: random starts and landmarks}
    {n_jobs: starts}
    {verbose: the objective after each step}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights, for the linear kernel.
    dual_coef_ : ndarray of shape (1, n_support)
        Coefficients of the function over kernel values of the support vectors. It and the next two
        are not set for the linear kernel.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors in the training instances; with ``n_components`` those of the
        landmarks.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        The support vectors; not set for a precomputed kernel.
    intercept_ : ndarray of shape (1,)
        The constant b.
    tube_half_width_ : float
        Half the width of the tube, the epsilon of the problem.
    gamma_ : float
        Resolved value of ``gamma``; not set for the linear and a precomputed kernel.
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
        Number of passes over the instances, for the linear kernel and explicit features; 0 where
        the dual was solved.
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    milearn.exceptions.SolverError
        When a dual problem is not solved, or its weights have too few digits: scale the features.
    MemoryError
        Before the fit, where kernel values are larger than scikit-learn's ``working_memory``; the
        message names the remedy.

    Warns
    -----
    ConvergenceWarning
        When the procedure has not converged after ``max_iter`` steps, or a convex step misses its
        precision.

    See Also
    --------
    MISVC : The same for classification.
    CoupledMISVR : Ties the value of a bag to its highest instance value instead.

    Notes
    -----
    ``kernel="linear"`` is solved over rows by Newton's method, in blocks and without a copy, for
    more than 20,000 instances, for more than 5,000 in more than 500 bags, for distributed ones,
    and for more than two bags per feature with
    more than 150 instances; so are explicit features (``n_components``). The
    precision is ``tol`` or, for many instances, 5e-4. Other problems go to the dual over kernel
    values.

    This is the framework of [1]_ with a hard maximum. The highest instance is taken for the one
    that decides the value of a bag; turn the sign of the targets where it is the
    lowest.

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
        **BaseMISVR._parameter_constraints,
        **START_CONSTRAINTS,
        "kernel": INSTANCE_KERNELS,
        "n_components": COMPONENTS,
        "init": COUPLED_CONSTRAINTS["init"],
    }

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        n_components: int | None = None,
        init: Any = "auto",
        n_init: int = 1,
        tol: float = 1e-6,
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
            Factor on C by bag; a weight of two equals a bag that is there twice.

        Returns
        -------
        self
            The fitted estimator.
        """
        problem = value_problem(self, X, y, sample_weight)
        formulation = coupled(problem, CoupledSettings.hard_maximum(self))
        solve_and_store(problem, formulation, _tube)
        return self

    def _takes_remote_bags(self) -> bool:
        return is_linear(self)


def _tube(results: list[Any]) -> dict[str, Any]:
    return {"tube_half_width_": results[0].width}
