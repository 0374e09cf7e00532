"""mi-SVM: the support vector machine that labels every instance of a positive bag."""

from __future__ import annotations

from typing import Any, ClassVar

from .._compat import StrOptions, with_callbacks
from .._fit.threads import fit_context
from ._base import COMPONENTS, INSTANCE_KERNELS, START_CONSTRAINTS, BaseMISVC
from ._fit import class_problems, is_linear, solve_and_store
from ._formulations import ANNEALED, maximum

__all__ = ["InstanceMISVC"]


class InstanceMISVC(BaseMISVC):
    r"""Support vector classification of bags with latent labels of instances (mi-SVM).

    Every instance of a positive bag has a label :math:`u_{ij} = \pm 1`, at least one of them 1;
    the instances of a negative bag are negative:

    .. math::

        \min_{w, b} \, \min_u \; \tfrac12 \|w\|^2
        + C \sum_i c_i \sum_j [1 - u_{ij} f(x_{ij})]_+
        \quad \text{s.t.} \quad
        u_{ij} = -1 \;(y_i = -1), \quad \sum_j (u_{ij} + 1) \ge 2 \;(y_i = 1),

    with :math:`f(x) = \langle w, \phi(x) \rangle + b`; a bag scores
    :math:`f(B_i) = \max_j f(x_{ij})`. Given labels the problem is an SVM over all instances;
    given f, the best label of an instance is the sign of its score, and the highest instance of a
    positive bag without a positive one becomes positive. Both steps lower the objective, and the
    result is a local minimum.

    Parameters
    ----------
    C : float, default=10.0
        Cost of an instance's slack against the norm of w. Must be positive.
    {kernel}
        With "precomputed" each row of the instances has the kernel values of an instance with all
        training instances, in their order. The matrix is square in ``fit``, and cross-validation
        cannot slice it.
    {gamma}
    n_components : int, default=None
        Number of landmarks, drawn from the training instances: w is sought in the span of their
        images (Nystroem's approximation of the kernel), over explicit features that are made in
        blocks, without any kernel matrix. The features of the linear kernel are the instances.
    init : {"auto", "mean", "bag", "random", "annealed"}, default="auto"
        First labels of the instances of positive bags: by the SVM that separates the means of
        positive bags from negative instances; all positive, as published; drawn; or by
        deterministic annealing, see the notes. "auto" is the
        mean, and over rows what a first step of :class:`MISVC` with one slack for
        each instance gives.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
        "annealed" counts as one with the default start that it is compared with.
    tol : float, default=1e-6
        Relative decrease of the objective at which to stop. The SVMs are solved to a tenth of it.
    max_iter : int, default=100
        Maximum number of relabellings.
    {class_weight: C}
    {pos_label}
    {random_state: random starts and landmarks}
    {n_jobs: classes and starts}
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
        landmarks.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        The support vectors; not set for a precomputed kernel.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The constant b.
    gamma_ : float
        Resolved value of ``gamma``; not set for the linear and a precomputed kernel.
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above at the solution.
    objective_history_ : ndarray, or list of ndarray
        The value after each step; it never rises.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of SVMs that were solved, one per relabelling.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether the labels converged within ``max_iter`` steps.
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
        For a kernel that may be indefinite, where its whole matrix is larger than scikit-learn's
        ``working_memory``.

    Warns
    -----
    ConvergenceWarning
        When the labels have not converged after ``max_iter`` steps, or an SVM misses its precision.

    See Also
    --------
    MISVC : One witness per positive bag (MI-SVM).

    Notes
    -----
    ``kernel="linear"`` is solved over rows by Newton's method, in blocks and without a copy, for
    more than 20,000 instances, for more than 5,000 in more than 500 bags, for distributed ones,
    and for more than two bags per feature with
    more than 150 instances; so are explicit features (``n_components``). The
    precision is ``tol`` or, for many instances, 5e-4. Other problems go to the dual over kernel
    values.

    [1]_ states the mixed-integer problem and alternates as above from ``init="bag"``. Where
    positive instances are rare that start can be a fixed point with w = 0; the default start is
    that of MI-SVM. A bag of many instances weighs more than a bag of few, on both sides.

    ``init="annealed"`` is the method of [2]_ as a start: every instance of a positive bag has a
    probability :math:`q_{ij}` of being positive, whose entropy H is rewarded,

    .. math::

        \min_{w, b, q} \; \tfrac12 \|w\|^2 + C \sum_{y_i = 1} c_i \sum_j \Bigl( q_{ij}
        [1 - f(x_{ij})]_+ + (1 - q_{ij}) [1 + f(x_{ij})]_+ - T H(q_{ij}) \Bigr)
        + C \sum_{y_i = -1} c_i \sum_j [1 + f(x_{ij})]_+
        \quad \text{s.t.} \quad \sum_j q_{ij} \ge 1 ,

    in turn over (w, b), a support vector machine, and over q, logistic functions of the difference
    of the two losses over T, at temperatures of 4, 2, 1, ..., 1/32. The alternation runs from the
    labels that it ends with and from the default start, and the lower objective is kept. It solves
    the dual over kernel values, also for the linear kernel, and takes 6 to 23 times as long on
    Musk1 and Elephant.

    References
    ----------
    .. [1] S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for
       Multiple-Instance Learning. NIPS 15, 2003.
    .. [2] P. V. Gehler, O. Chapelle. Deterministic Annealing for Multiple-Instance Learning.
       AISTATS 2007.

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
        "init": [StrOptions({"auto", "mean", "bag", "random", ANNEALED})],
        "kernel": INSTANCE_KERNELS,
        "n_components": COMPONENTS,
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        n_components: int | None = None,
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
            Factor on C by bag; a weight of two equals a bag that is there twice.

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
