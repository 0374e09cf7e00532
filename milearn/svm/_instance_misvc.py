"""mi-SVM: the support vector machine that labels every instance of a positive bag."""

from __future__ import annotations

from typing import Any, ClassVar

from .._compat import StrOptions, with_callbacks
from .._fit.threads import fit_context
from ._base import COMPONENTS, INSTANCE_KERNELS, START_CONSTRAINTS, BaseMISVC
from ._fit import class_problems, is_linear, solve_and_store
from ._formulations import maximum


class InstanceMISVC(BaseMISVC):
    r"""Support vector classification of bags with latent labels of instances (mi-SVM).

    Every instance of a positive bag has a label :math:`u_{ij} = \pm 1`, and at least one of the
    labels of a bag is 1. The instances of negative bags are negative:

    .. math::

        \min_{w, b} \, \min_u \; \tfrac12 \|w\|^2
        + C \sum_i c_i \sum_j [1 - u_{ij} f(x_{ij})]_+
        \quad \text{s.t.} \quad
        u_{ij} = -1 \;(y_i = -1), \quad \sum_j (u_{ij} + 1) \ge 2 \;(y_i = 1),

    with :math:`f(x) = \langle w, \phi(x) \rangle + b`. The score of a bag is
    :math:`f(B_i) = \max_j f(x_{ij})`. For given labels the problem is an SVM over all instances.
    For given f, the best label of an instance is the sign of its score, and the highest instance of
    a positive bag is always positive. Both steps lower the objective, and the result is a local
    minimum.

    Parameters
    ----------
    C : float, default=10.0
        Cost of an instance's slack relative to the norm of w. Must be positive.
    {kernel}
        {precomputed}
    {gamma}
    {landmarks}
    init : {"auto", "mean", "bag", "random"}, default="auto"
        First labels of the instances of positive bags: "mean" takes them from two steps of
        :class:`MISVC` with ``slack="instance"`` from the means of positive bags; "bag" makes all of
        them positive (as published); "random" draws them. "auto" has the start "mean" and another
        one with the same two steps from the screened starts of that class, and keeps the lower
        objective. The function of the two steps is scaled by the best power of two before the
        labels are taken.
    {n_init}
    {step_tol}
    max_iter : int, default=100
        Maximum number of relabellings.
    {class_weight: C}
    {pos_label}
    {random_state: random starts and landmarks}
    {n_jobs: classes and starts}
    {verbose: the objective after each step}

    Attributes
    ----------
    {classes_}
    {coef_: (1, n_features) or (n_classes, n_features)}
    {dual_coef_: (1, n_support) or (n_classes, n_support)}
    {support_}
    {support_vectors_: the linear kernel and a precomputed one}
    {intercept_: (1,) or (n_classes,)}
    {gamma_: the linear kernel and a precomputed one}
    {witnesses_: (n_bags,) or (n_bags, n_classes)}
    {objective_: float or ndarray of shape (n_classes,)}
    {objective_history_: ndarray, or list of ndarray}
    {start_objectives_: (n_init,) or (n_classes, n_init)}
    {dual_gap_: float or ndarray of shape (n_classes,)}
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of relabellings, with one SVM each.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether the labels converged within ``max_iter`` steps.
    {n_passes_: int or ndarray of shape (n_classes,)}
    {n_components_}
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    {SolverError}
    {MemoryError_if_indefinite}

    Warns
    -----
    ConvergenceWarning
        If the labels have not converged after ``max_iter`` steps, or an SVM misses its precision.

    See Also
    --------
    MISVC : One witness per positive bag (MI-SVM).

    Notes
    -----
    The linear kernel and ``n_components`` are solved over rows, by Newton's method in blocks and
    without a copy of the instances, to a relative precision of ``tol`` or, for many instances,
    5e-4. Other kernels are solved in the dual over kernel values.

    [1]_ states the mixed-integer problem and alternates as above from ``init="bag"``. If positive
    instances are rare, this start can be a fixed point with w = 0; the default start is that of
    MI-SVM. Bags with many instances have more weight than bags with few, in both classes.

    References
    ----------
    {andrews2003: 1}

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import InstanceMISVC
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = InstanceMISVC(C=10.0).fit(bags, y)
    >>> model.predict_instances(bags).shape == (bags.n_instances,)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMISVC._parameter_constraints,
        **START_CONSTRAINTS,
        "init": [StrOptions({"auto", "mean", "bag", "random"})],
        "kernel": INSTANCE_KERNELS,
        "n_components": COMPONENTS,
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        n_components: int | str | None = "auto",
        init: str = "auto",
        n_init: int = 1,
        tol: float = 1e-6,
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
        problems = class_problems(self, X, y, sample_weight)
        solve_and_store(problems, maximum(problems, "labels"))
        return self

    def _takes_remote_bags(self) -> bool:
        return is_linear(self)
