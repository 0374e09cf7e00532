"""MI-SVM: support vector classification of bags by their highest instance score."""

from __future__ import annotations

from typing import Any, ClassVar

from .._compat import StrOptions, with_callbacks
from .._fit.threads import fit_context
from ._base import COMPONENTS, INSTANCE_KERNELS, START_CONSTRAINTS, BaseMISVC
from ._fit import class_problems, is_linear, solve_and_store
from ._formulations import maximum


class MISVC(BaseMISVC):
    r"""Support vector classification of bags by their highest instance score (MI-SVM).

    The score of a bag is the highest score of its instances, :math:`f(B_i) = \max_j f(x_{ij})` with
    :math:`f(x) = \langle w, \phi(x) \rangle + b`, and the problem is [1]_

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2
        + C \sum_{y_i = 1} c_i \, [1 - \max_j f(x_{ij})]_+
        + C \sum_{y_i = -1} c_i \, h_i(f),

    where :math:`c_i` is the weight of a bag, and the loss of a negative bag depends on ``slack``:

    .. math::

        h_i(f) = [1 + \max_j f(x_{ij})]_+ \;\text{(slack "bag")}
        \quad\text{or}\quad
        h_i(f) = \sum_j [1 + f(x_{ij})]_+ \;\text{(slack "instance")}.

    The problem is not convex. The concave-convex procedure replaces the maximum of each positive
    bag by its current highest instance, solves the remaining convex problem, and repeats until
    convergence. The objective never increases. The result is a local minimum that depends on
    ``init``.

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack relative to the norm of w. Must be positive.
    {kernel}
        {precomputed}
    {gamma}
    {landmarks}
    slack : {"bag", "instance"}, default="bag"
        Whether a negative bag has one slack, for its highest instance (as published), or one for
        each of its instances.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        First linearisation: the mean of each bag (as published), a random instance of each bag, or
        given ones. An array has one row of ``X.instances`` for each bag; those of negative bags are
        ignored. "auto" has several starts, the mean of each bag and those of a screen, and keeps
        the lowest objective, see the notes.
    {n_init}
    {step_tol}
    {max_iter}
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
    {n_iter_: int or ndarray of shape (n_classes,)}
    {converged_: bool or ndarray of shape (n_classes,)}
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
    {ConvergenceWarning}

    See Also
    --------
    CoupledMISVC : The score of a bag is tied to its highest instance score.
    MISVR : The regressor.
    InstanceMISVC : Every instance of a positive bag has a label (mi-SVM).

    Notes
    -----
    The linear kernel and ``n_components`` are solved over rows, by Newton's method in blocks and
    without a copy of the instances, to a relative precision of ``tol`` or, for many instances,
    5e-4. Other kernels are solved in the dual over kernel values.

    [1]_ alternates between choosing witnesses and solving an SVM. If the negative bags keep all
    their instances, this is the concave-convex procedure, which cannot cycle. Other software often
    calls ``slack="instance"`` MI-SVM; it weights a negative bag by its size.

    A fit from the means of bags often ends in a poor local minimum if few instances decide.
    ``init="auto"`` therefore also screens up to 2,000 instances of positive bags. Each one
    gives a direction, its difference from the mean of all instances times the inverse
    covariance of the instances. Directions are ranked by the area under the ROC curve of their
    highest scores. The best 24, Fisher's discriminant between instances with the labels of
    their bags, and the three directions in which instances of positive bags vary most compared
    with those of negative bags are refined three times with their highest instances. The three
    best ones and Fisher's discriminant as it is are followed for one step, and the best of
    these to its end. With many instances the screen uses a sample of the bags; with 256 to
    1,500 features, directions that use all instances are compared with its result. Up to 2**24
    numbers the objective is at most that of ``init="mean"``; above, the start from the means is
    also compared on that sample only. For nonlinear kernels, and for more than 1,500 features,
    the screen uses features of 100 landmarks; nonlinear kernels follow only the best direction.
    Precomputed and indefinite kernels start from the means only.

    References
    ----------
    {andrews2003: 1}

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMISVC._parameter_constraints,
        **START_CONSTRAINTS,
        "kernel": INSTANCE_KERNELS,
        "n_components": COMPONENTS,
        "init": [StrOptions({"auto", "mean", "random"}), "array-like"],
        "slack": [StrOptions({"bag", "instance"})],
    }

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
        problems = class_problems(self, X, y, sample_weight)
        solve_and_store(problems, maximum(problems, self.slack))
        return self

    def _takes_remote_bags(self) -> bool:
        return is_linear(self)
