"""MI-SVM: support vector classification of bags by their highest instance score."""

from __future__ import annotations

from typing import Any, ClassVar

from .._compat import StrOptions, with_callbacks
from .._fit.threads import fit_context
from ._base import COMPONENTS, INSTANCE_KERNELS, START_CONSTRAINTS, BaseMISVC
from ._fit import class_problems, is_linear, solve_and_store
from ._formulations import ANNEALED, maximum

__all__ = ["MISVC"]


class MISVC(BaseMISVC):
    r"""Support vector classification of bags by their highest instance score (MI-SVM).

    A bag scores as its highest instance does, :math:`f(B_i) = \max_j f(x_{ij})` with
    :math:`f(x) = \langle w, \phi(x) \rangle + b`, and the problem is [1]_

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2
        + C \sum_{y_i = 1} c_i \, [1 - \max_j f(x_{ij})]_+
        + C \sum_{y_i = -1} c_i \, h_i(f),

    where :math:`c_i` is the weight of a bag and by ``slack``

    .. math::

        h_i(f) = [1 + \max_j f(x_{ij})]_+ \;\text{(slack "bag")}
        \quad\text{or}\quad
        h_i(f) = \sum_j [1 + f(x_{ij})]_+ \;\text{(slack "instance")}.

    The problem is not convex. The concave-convex procedure replaces the maximum of each positive
    bag by its current highest instance, solves the remaining convex problem, and repeats until
    convergence. The objective never rises; the result is a local minimum that depends on ``init``.

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack against the norm of w. Must be positive.
    {kernel}
        With "precomputed" each row of the instances has the kernel values of an instance with all
        training instances, in their order. The matrix is square in ``fit``, and cross-validation
        cannot slice it.
    {gamma}
    n_components : int, default=None
        Number of landmarks, drawn from the training instances: w is sought in the span of their
        images (Nystroem's approximation of the kernel). The problem is then solved over explicit
        features, which are made in blocks, without any kernel matrix. The features of the linear
        kernel are the instances.
    slack : {"bag", "instance"}, default="bag"
        Whether a negative bag pays for its worst instance, as published, or for each of its
        instances.
    init : {"auto", "mean", "random", "annealed"} or array-like of shape (n_bags,), default="auto"
        First linearisation: the mean of each bag (as published), an instance drawn from each,
        given rows of ``X.instances`` (those of negative bags are not used), or deterministic
        annealing, see the notes. "auto" is the mean, and over rows the better of two starts on a
        sample of the bags: the means, and the highest instances under the SVM on
        instances with inherited labels. A few thousand instances are a sample as a whole, and both
        starts are followed to their ends.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
        "annealed" counts as one with the default start that it is compared with.
    tol : float, default=1e-6
        Relative decrease of the objective at which to stop. The convex steps are solved to a
        tenth of it.
    max_iter : int, default=100
        Maximum number of steps of the concave-convex procedure.
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
        For a kernel that may be indefinite, where its whole matrix is larger than scikit-learn's
        ``working_memory``.

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
    CoupledMISVC : Ties the score of a bag to its highest instance score instead.
    MISVR : The same for regression.
    InstanceMISVC : Labels every instance of a positive bag (mi-SVM).

    Notes
    -----
    ``kernel="linear"`` is solved over rows by Newton's method, in blocks and without a copy, for
    more than 20,000 instances, for more than 5,000 in more than 500 bags, for distributed ones,
    and for more than two bags per feature with
    more than 150 slacks; so are explicit features (``n_components``). The
    precision is ``tol`` or, for many instances, 5e-4. Other problems go to the dual over kernel
    values.

    [1]_ alternates between choosing witnesses and solving an SVM. With negative bags kept whole
    this is the concave-convex procedure, which cannot cycle. ``slack="instance"`` is often
    called MI-SVM in other software; it weighs a negative bag by its size.

    ``init="annealed"`` is deterministic annealing [2]_: each positive bag has weights
    :math:`p_{ij}` of its instances, which sum to one and whose entropy H is rewarded,

    .. math::

        \min_{w, b, p} \; \tfrac12 \|w\|^2 + C \sum_{y_i = 1} c_i \Bigl( \sum_j p_{ij}
        [1 - f(x_{ij})]_+ - T H(p_i) \Bigr) + \text{(negative bags as above)},

    in turn over (w, b), a support vector machine, and over p, which is proportional to
    :math:`\exp(-[1 - f(x_{ij})]_+ / T)`, at temperatures T of 4, 2, 1, ..., 1/32. Its highest
    instances are the first witnesses of the concave-convex procedure, which runs from the default
    start as well; the lower objective is kept. It solves the dual over
    kernel values, also for the linear kernel, and takes 4 to 9 times as long on Musk1 and Elephant.

    References
    ----------
    .. [1] S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for
       Multiple-Instance Learning. NIPS 15, 2003.
    .. [2] P. V. Gehler, O. Chapelle. Deterministic Annealing for Multiple-Instance Learning.
       AISTATS 2007.

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
        "init": [StrOptions({"auto", "mean", "random", ANNEALED}), "array-like"],
        "slack": [StrOptions({"bag", "instance"})],
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        n_components: int | None = None,
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
            Factor on C by bag; a weight of two equals a bag that is there twice.

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
