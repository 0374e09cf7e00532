"""MI-SVM: support vector classification of bags by their highest instance score."""

from __future__ import annotations

from typing import Any, ClassVar

from .._compat import StrOptions, with_callbacks
from .._fit.threads import fit_context
from .._solvers.common.nystroem import FeatureGram
from ._base import COMPONENTS, START_CONSTRAINTS, BaseMISVC, memory_limit, solver_options
from ._formulations import (
    ANNEALED,
    Formulation,
    HardMaximum,
    HardMaximumOfFeatures,
    HardMaximumPrimal,
    TrainingBags,
    announce,
    announce_features,
    kernel_features,
)
from ._kernel import Kernel, training_gram
from ._or_primal import OrPrimal
from ._passes import SOLVERS, PassesMixin

__all__ = ["MISVC"]


class MISVC(PassesMixin, BaseMISVC):
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
    kernel : str or callable, default="rbf"
        Kernel between instances, by scikit-learn's name ("linear", "poly", "rbf", "laplacian",
        "chi2", "cosine", "sigmoid", ...); a callable takes two matrices and returns the matrix of
        shape (n_left, n_right). The negative part of an indefinite kernel matrix is dropped, with
        a warning; "sigmoid", "additive_chi2" and callables need the whole matrix of training
        instances for that. "poly" has degree 3, and "poly" and "sigmoid" have the constant 0, as in
        scikit-learn's SVC; pass a callable for other values.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly", "laplacian", "chi2" and "sigmoid". "scale" is
        1 / (n_features * variance of the instances), "auto" is 1 / n_features.
    n_components : int, default=None
        Number of landmarks, drawn from the training instances: w is sought in the span of their
        images (Nystroem's approximation of the kernel). The problem is then solved over explicit
        features, which are made in blocks, without any kernel matrix. Ignored for the linear
        kernel, whose features are the instances.
    slack : {"bag", "instance"}, default="bag"
        Whether a negative bag pays for its worst instance, as published, or for each of its
        instances.
    solver : {"auto", "dual", "primal"}, default="auto"
        For the linear kernel and explicit features of others (``n_components``): "dual" solves the
        convex steps to ``tol`` and suits a hundred bags; "primal" takes a handful of passes over
        the instances, whatever their number, and solves them to ``tol`` or 5e-4, whichever is
        larger (1e-8 where all instances together are at most two million numbers). "auto" takes
        "primal" above 2,000 instances in more than 200 bags and above 20,000 in any, or, with more
        features than instances, above 5,000 in more than 500 bags and 100,000 in any. Other kernels
        have the dual only. With the linear kernel the primal reads float16, float32 and
        memory-mapped instances in blocks, without a copy.
    init : {"auto", "mean", "random", "annealed"} or array-like of shape (n_bags,), default="auto"
        First linearisation: the mean of each bag (as published), an instance drawn from each,
        given rows of ``X.instances`` (those of negative bags are not used), or deterministic
        annealing, see the notes. "auto" is the mean, and with ``solver="primal"`` the better of
        two starts on a sample of the bags: the means, and the highest instances under the SVM on
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
    class_weight : dict, "balanced" or None, default=None
        Factor on C by class.
    pos_label : label, default=None
        The positive class, of which one instance makes a bag; ``classes_[1]`` when None. With
        three or more classes each is positive in turn (one-vs-rest).
    random_state : int, RandomState instance or None, default=None
        Determines random starts and landmarks. Pass an int for reproducible results.
    n_jobs : int, default=None
        Number of jobs to run in parallel over classes and starts. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means using all processors.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights, for the linear kernel.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients of the function over kernel values of the support vectors; absent where the
        linear kernel was solved over explicit features.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors in the training instances; with ``n_components`` those of the
        landmarks.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        The support vectors.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The constant b.
    gamma_ : float
        The number behind ``gamma``; absent with ``solver="primal"``, which has no use for it.
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
    start as well; the lower objective is kept. It takes the dual, and 4 to 9 times as long on Musk1
    and Elephant.

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
        "n_components": COMPONENTS,
        "init": [StrOptions({"auto", "mean", "random", ANNEALED}), "array-like"],
        "slack": [StrOptions({"bag", "instance"})],
        "solver": [StrOptions(set(SOLVERS))],
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        n_components: int | None = None,
        slack: str = "bag",
        solver: str = "auto",
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
        self.solver = solver
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
        if self.solver == "primal" and not self._may_pass():
            raise ValueError(
                "solver='primal' is for kernel='linear' and for explicit features (n_components=) "
                "of another kernel: take solver='auto'."
            )
        self._fit_classes(X, y, sample_weight, self._hard_maximum, self.n_init)
        return self

    def _has_features(self) -> bool:
        return self.n_components is not None

    def _hard_maximum(
        self, training: TrainingBags, kernel: Kernel, rng: Any, n_workers: int
    ) -> Formulation:
        options = solver_options(self), self.slack, self.init, self.n_init
        passes = self._by_passes(training)
        if passes and kernel.linear:
            return HardMaximumPrimal(training, *options, self._n_threads(n_workers))
        if self.n_components is None or kernel.linear:
            announce(training, "maximum")
            gram = training_gram(training.instances, kernel, memory_limit())
            dual = HardMaximum(training, kernel, gram.share_of(n_workers), *options)
            return self._or_primal(dual)
        if passes:
            announce_features(training, self.n_components)
        else:
            announce(training, "maximum")
        features = kernel_features(training.instances, kernel, self.n_components, rng)
        if passes:
            return HardMaximumPrimal(training, *options, self._n_threads(n_workers), features)
        gram = FeatureGram(training.instances, features)
        return HardMaximumOfFeatures(training, kernel, gram, *options)

    def _or_primal(self, dual: HardMaximum) -> Formulation:
        """The same with the primal behind it, where the kernel is linear."""
        if not dual.kernel.linear:
            return dual
        init = "auto" if isinstance(self.init, str) and self.init == ANNEALED else self.init
        options = dual.options, self.slack, init, self.n_init
        return OrPrimal(dual.training, dual, HardMaximumPrimal(dual.training, *options))
