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


class MISVR(BaseMISVR):
    r"""Support vector regression of bags by their highest instance value.

    The value of a bag is the highest value of its instances, :math:`f(B_i) = \max_j f(x_{ij})` with
    :math:`f(x) = \langle w, \phi(x) \rangle + b`, and the problem is that of nu-support vector
    regression,

    .. math::

        \min_{w, b, \epsilon \ge 0} \; \tfrac12 \|w\|^2
        + C \sum_i c_i \bigl( \nu \epsilon + [|y_i - f(B_i)| - \epsilon]_+ \bigr),

    where :math:`c_i` is the weight of a bag.

    The problem is not convex. The concave-convex procedure replaces each maximum that is concave in
    the objective by its current highest instances, solves the remaining convex problem, and repeats
    until convergence. The objective never increases. The result is a local minimum that depends on
    ``init``.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Upper bound on the fraction of bags outside the tube.
    C : float, default=1.0
        Cost of a bag's distance from the tube relative to the norm of w. Must be positive.
    {kernel}
        {precomputed}
    {gamma}
    {landmarks}
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        First linearisation: the mean of each bag, a random instance of each bag, or given rows of
        ``X.instances``. "auto" has two starts and keeps the lower objective: the highest instances
        under the model of the means, and the highest instances under the best direction of a
        screen, see :class:`MISVC`.
    {n_init}
    {step_tol}
    {max_iter}
    {random_state: random starts and landmarks}
    {n_jobs: starts}
    {verbose: the objective after each step}

    Attributes
    ----------
    {coef_: (1, n_features)}
    {dual_coef_: (1, n_support)}
    {support_}
    {support_vectors_: the linear kernel and a precomputed one}
    {intercept_: (1,)}
    {tube_half_width_}
    {gamma_: the linear kernel and a precomputed one}
    {witnesses_: (n_bags,)}
    {objective_: float}
    {objective_history_: ndarray}
    {start_objectives_: (n_init,)}
    {dual_gap_: float}
    {n_iter_: int}
    {converged_: bool}
    {n_passes_: int}
    {n_components_}
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    {SolverError}
    {MemoryError}

    Warns
    -----
    {ConvergenceWarning}

    See Also
    --------
    MISVC : The classifier.
    CoupledMISVR : The value of a bag is tied to its highest instance value.

    Notes
    -----
    With the linear kernel or with ``n_components`` the problem is solved over rows, by Newton's
    method in blocks and without a copy of the instances. The relative precision is ``tol`` or, for
    many instances, 5e-4. All other problems are solved in the dual over kernel values.

    This is the framework of [1]_ with a hard maximum. If the lowest instance determines the value
    of a bag, change the sign of the targets.

    References
    ----------
    {cheung2006: 1}

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
        n_components: int | str | None = "auto",
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
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        problem = value_problem(self, X, y, sample_weight)
        formulation = coupled(problem, CoupledSettings.hard_maximum(self, problem.n_components))
        solve_and_store(problem, formulation, _tube)
        return self

    def _takes_remote_bags(self) -> bool:
        return is_linear(self)


def _tube(results: list[Any]) -> dict[str, Any]:
    return {"tube_half_width_": results[0].width}
