"""Classification of bags whose score is coupled to that of their instances (Cheung & Kwok)."""

from __future__ import annotations

from typing import Any, ClassVar

from .._compat import with_callbacks
from .._fit.threads import fit_context
from ._base import COUPLED_CONSTRAINTS, BaseMISVC
from ._coupled import CoupledSettings, coupled
from ._fit import class_problems, is_linear, solve_and_store

__all__ = ["CoupledMISVC"]


class CoupledMISVC(BaseMISVC):
    r"""Support vector classification of bags whose score is coupled to that of their instances.

    Bags and instances are points of one space [1]_: an instance is a bag of one,
    :math:`f(B) = \langle w, \phi(B) \rangle + b` with the bag kernel
    :math:`\langle \phi(B), \phi(B') \rangle`, and the score of a bag is tied to that of its
    instances,

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i c_i \, [1 - y_i f(B_i)]_+
        + C \lambda \sum_i c_i \, \ell\bigl( f(B_i) - \max_j f(x_{ij}) \bigr),

    where :math:`c_i` is the weight of a bag, :math:`\lambda` the ``coupling``, and
    :math:`\ell(t)` is :math:`|t|` for ``loss="l1"``, :math:`t^2` for ``"l2"``, and
    :math:`[|t| - \varepsilon]_+` for ``"epsilon_insensitive"``. ``coupling=0`` is the support
    vector machine with the bag kernel.

    The problem is not convex. The concave-convex procedure replaces a maximum, where it is concave
    in the objective, by its current highest instances, solves the remaining convex problem, and
    repeats until convergence. The objective never rises; the result is a local minimum that
    depends on ``init``.

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack against the norm of w. Must be positive. The gamma of [1]_ is
        C * n_bags.
    {kernel}
    {gamma}
    bag_kernel : {"normalized_set", "set", "mean_set", "minmax"}, default="normalized_set"
        Kernel between bags made of ``kernel``, see :func:`milearn.metrics.bag_kernel`.
    loss : {"l1", "l2", "epsilon_insensitive"}, default="l1"
        Loss between the score of a bag and its highest instance score.
    coupling : float, default=0.1
        Weight of the coupling loss against the first (the lambda of [1]_).
    epsilon : float, default=0.1
        Difference that costs nothing, for ``loss="epsilon_insensitive"``.
    n_components : int, default=None
        Number of landmarks, drawn from the training instances: w is sought in the span of their
        images (Nystroem's approximation of the kernel). The problem is then solved over explicit
        features, which are made in blocks, without any kernel matrix.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        First linearisation: the mean of each bag (as published), an instance drawn from each, or
        given rows of ``X.instances``. "auto" takes the highest instances under the model without
        coupling.
    tol : float, default=1e-6
        Relative decrease of the objective at which to stop. The convex steps are solved to a
        tenth of it.
    max_iter : int, default=100
        Maximum number of steps of the concave-convex procedure.
    {class_weight: C}
    {pos_label}
    {random_state: a random start and landmarks}
    {verbose: the objective after each step}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights, for the linear kernel.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients of the function over kernel values of the support vectors. It and the next two
        are not set for the linear kernel.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors in the training instances; with ``n_components`` those of the
        landmarks. With ``bag_kernel="minmax"`` indices >= ``n_instances`` refer to bags.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        With ``bag_kernel="minmax"`` minima and maxima, of twice the width.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The constant b.
    gamma_ : float
        Resolved value of ``gamma``; not set for the linear kernel.
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above at the solution.
    objective_history_ : ndarray, or list of ndarray
        The value after each step; it never rises.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of steps of the concave-convex procedure.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether the procedure converged within ``max_iter`` steps.
    n_passes_ : int or ndarray of shape (n_classes,)
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
    EfficiencyWarning
        Before a fit over kernel values that is estimated to take more than half an hour. The
        estimate is a measured rate times powers of the sizes, and may be wrong by a factor of 10.

    See Also
    --------
    MISVC : The score of a bag is its highest instance score (MI-SVM).
    CoupledMISVR : The same for regression.

    Notes
    -----
    ``kernel="linear"`` is solved over rows by Newton's method, in blocks and without a copy, for
    more than 20,000 instances, for more than 5,000 in more than 500 bags, for distributed ones,
    and for more than two bags per feature with
    more than 150 instances; so are explicit features (``n_components``). The
    precision is ``tol`` or, for many instances, 5e-4. Other problems go to the dual over kernel
    values.

    The classes of a problem with several run in parallel inside a :obj:`joblib.parallel_config`
    context. Three points differ from [1]_. The default start is the model without coupling, which
    costs less than the mean of each bag and ends within a few percent of it, above or below. One
    slack per bag serves both sides of "epsilon_insensitive", which makes it "l1" at epsilon zero
    and bounds the objective more tightly. The constraints f(x_ij) - delta_i <= f(B_i) are generated
    as they are violated.

    References
    ----------
    .. [1] P.-M. Cheung, J. T. Kwok. A Regularization Framework for Multiple-Instance Learning.
       ICML 2006.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMISVC._parameter_constraints,
        **COUPLED_CONSTRAINTS,
    }

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
        n_components: int | None = None,
        init: Any = "auto",
        tol: float = 1e-6,
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
            Factor on C by bag; a weight of two equals a bag that is there twice.

        Returns
        -------
        self
            The fitted estimator.
        """
        problems = class_problems(self, X, y, sample_weight, centred=False)
        formulation = coupled(problems, CoupledSettings.of(self))
        solve_and_store(problems, formulation)
        return self

    def _takes_remote_bags(self) -> bool:
        return is_linear(self) and self.bag_kernel != "minmax"
