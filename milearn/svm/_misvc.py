"""The regularisation framework of Cheung & Kwok for classification; MI-SVM is its hard case."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .._bags import Bags
from .._bags.segments import gather_rows, segment_argmax
from .._solvers.svm.bag_features import FeatureRows
from .._solvers.svm.losses import Hinge
from .._solvers.svm.mi_svm import solve_witnesses
from ..utils._sklearn import StrOptions, fit_context, with_callbacks
from ._base import HardMaxSVC
from ._coupled_machine import CoupledMachine, check_witness_rows

__all__ = ["MISVC"]


class MISVC(CoupledMachine, HardMaxSVC):
    r"""Support vector classification of bags whose score is tied to that of its instances.

    Bags and instances are points of one space: an instance is a bag of one. With
    :math:`f(B) = \langle w, \phi(B) \rangle + b` and the bag kernel
    :math:`\langle \phi(B), \phi(B') \rangle`, the problem is

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i c_i \, [1 - y_i f(B_i)]_+
        + C \lambda \sum_i c_i \, \ell\bigl( f(B_i) - \max_j f(x_{ij}) \bigr),

    where :math:`c_i` is the weight of a bag, :math:`\lambda` the ``coupling``, and by ``loss``

    .. math::

        \ell(t) = |t| \;\text{("l1")}, \qquad t^2 \;\text{("l2")}, \qquad
        [|t| - \varepsilon]_+ \;\text{("epsilon\_insensitive")}.

    ``coupling=0`` is the support vector machine with the bag kernel. With ``loss="max"`` the two
    scores are one, :math:`f(B_i) = \max_j f(x_{ij})`, there are no bag objects, and the problem
    is that of MI-SVM,

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2
        + C \sum_{y_i = 1} c_i \, [1 - \max_j f(x_{ij})]_+
        + C \sum_{y_i = -1} c_i \, h_i(f),

    .. math::

        h_i(f) = [1 + \max_j f(x_{ij})]_+ \;\text{(slack "bag")}
        \quad\text{or}\quad
        h_i(f) = \sum_j [1 + f(x_{ij})]_+ \;\text{(slack "instance")}.

    Neither problem is convex. The concave-convex procedure replaces a maximum, where it is concave
    in the objective, by its current highest instances, solves the convex problem that is left, and
    repeats until they stay. The objective never rises; the result is a local minimum that depends
    on ``init``.

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack against the norm of w. Above zero. The paper's gamma is C * n_bags.
    kernel : str or callable, default="rbf"
        Kernel between instances, by scikit-learn's name ("linear", "poly", "rbf", "laplacian",
        "chi2", "cosine", "sigmoid", ...); a callable takes two matrices and returns the matrix of
        shape (n_left, n_right). The negative part of an indefinite kernel matrix is dropped, with
        a warning; "sigmoid", "additive_chi2" and callables need the whole matrix of training
        instances for that.
    degree : float, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly", "laplacian", "chi2" and "sigmoid". "scale" is
        1 / (n_features * variance of the instances), "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    bag_kernel : {"normalized_set", "set", "mean_set", "minmax"}, default="normalized_set"
        Kernel between bags made of it, see :func:`milearn.metrics.bag_kernel`. Not used by
        ``loss="max"``.
    loss : {"l1", "l2", "epsilon_insensitive", "max"}, default="l1"
        Loss between the score of a bag and its highest instance score.
    coupling : float, default=0.1
        Weight of that loss against the hinge (the paper's lambda). Not used by ``loss="max"``.
    epsilon : float, default=0.1
        Difference that costs nothing, for "epsilon_insensitive".
    n_components : int, default=None
        Number of landmarks, drawn from the training instances: w is sought in the span of their
        images (Nystroem's approximation of the kernel). The problem is then solved by cutting
        planes over explicit features, which are made in blocks, without any kernel matrix. The
        linear kernel's features are the instances themselves; it goes this way for any
        ``n_components``, and where the kernel values do not fit into ``cache_size``.
    slack : {"bag", "instance"}, default="bag"
        For ``loss="max"``: whether a negative bag pays for its worst instance, as published, or for
        each of its instances.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        First linearisation: the mean of each bag (as published), an instance drawn from each, or
        given rows of ``X.instances``. "auto" takes the highest instances under the machine without
        coupling, and the mean for ``loss="max"``, where the rows of negative bags are not used.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float, default=1e-6
        Relative decrease of the objective at which to stop. The convex steps are solved to a
        tenth of it; by cutting planes to a tenth of it or 1e-6, whichever is larger.
    max_iter : int, default=100
        Most steps of the concave-convex procedure.
    cache_size : float, default=1000
        Memory for kernel values in MiB. The coupled problem needs about 3 n_bags * n_instances
        values; rows beyond that are computed again where they do not fit.
    class_weight : dict, "balanced" or None, default=None
        Factor on C by class.
    pos_label : label, default=None
        The positive class, of which one instance makes a bag; ``classes_[1]`` when None. With
        three or more classes each is positive in turn (one-vs-rest).
    qp_solver : str, default=None
        Backend of qpsolvers for the dual problems, "piqp" when None.
    random_state : int, RandomState instance or None, default=None
        For random starts and landmarks.
    n_jobs : int, default=None
        Workers for classes and starts.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights, for the linear kernel.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients of the function over kernel values of the support vectors; not where the
        linear kernel went by cutting planes.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors in the training instances; with ``n_components`` of the
        landmarks. With ``bag_kernel="minmax"``
        numbers from ``n_instances`` on stand for bags.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        With ``bag_kernel="minmax"`` minima and maxima, of twice the width.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    gamma_ : float
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above at the solution.
    objective_history_ : ndarray, or list of ndarray
        The value after each step; it never rises.
    gap_ : float or ndarray of shape (n_classes,)
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int or ndarray of shape (n_classes,)
    converged_ : bool or ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Warns
    -----
    ConvergenceWarning
        When the witnesses have not settled after ``max_iter`` steps, or a convex step misses its
        precision.

    Raises
    ------
    milearn.exceptions.SolverError
        When a dual problem is not solved.
    MemoryError
        Before the fit, where kernel values do not fit into ``cache_size``; the message names the
        remedy.

    See Also
    --------
    MISVR : The same for regression.
    InstanceMISVC : Labels every instance of a positive bag (mi-SVM).

    Notes
    -----
    The framework is that of [1]_; ``loss="max"`` is MI-SVM of [2]_, eq. (5) there. What differs
    from [1]_: the default start is the machine without coupling, which costs less than the mean
    of each bag and ends within a few percent of it, above or below; one slack a bag serves both
    sides of "epsilon_insensitive", which makes it "l1" at epsilon zero and bounds the objective
    more tightly; the constraints f(x_ij) - delta_i <= f(B_i) are generated as they are violated.
    [2]_ alternates between choosing witnesses and solving an SVM; with negative bags kept whole
    that is the concave-convex procedure and cannot cycle. ``slack="instance"`` is what is often
    implemented as MI-SVM; it weighs a negative bag by its size.

    References
    ----------
    .. [1] P.-M. Cheung, J. T. Kwok. A Regularization Framework for Multiple-Instance Learning.
       ICML 2006.
    .. [2] S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for
       Multiple-Instance Learning. NIPS 15, 2003.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import MISVC
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = MISVC(C=100.0).fit(bags, y)
    >>> model.score(bags, y)
    1.0
    >>> model.witness(bags[:3]).shape
    (3,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **HardMaxSVC._parameter_constraints,
        **CoupledMachine._coupled_constraints,
        "slack": [StrOptions({"bag", "instance"})],
        "init": [StrOptions({"auto", "mean", "random"}), "array-like"],
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        bag_kernel: str = "normalized_set",
        loss: str = "l1",
        coupling: float = 0.1,
        epsilon: float = 0.1,
        n_components: int | None = None,
        slack: str = "bag",
        init: Any = "auto",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 100,
        cache_size: float = 1000,
        class_weight: Any = None,
        pos_label: Any = None,
        qp_solver: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
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
        self.slack = slack
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.qp_solver = qp_solver
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
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C by bag; a weight of two equals a bag that is there twice.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight)
        return self

    @property
    def _hard(self) -> bool:
        """Whether instances alone are the objects, and the solver that of MI-SVM."""
        return self.loss == "max"

    def _problem(self, instances: Any, offsets: np.ndarray, gamma: float, rng: Any) -> Any:
        if not self._hard:
            return self._objects(instances, offsets, gamma, rng)
        if self.n_components is None or self.kernel == "linear":
            return self._gram(instances, gamma)
        kernel, _ = self._kernel_function(gamma)
        return FeatureRows(instances, self._feature_map(instances, kernel, rng))

    def _solve(
        self,
        gram: Any,
        offsets: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        start: np.ndarray | None,
        on_iteration: Any,
    ) -> Any:
        options: dict[str, Any] = {
            "start": start,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "qp_solver": self.qp_solver,
            "on_iteration": on_iteration,
        }
        if self._hard:
            return solve_witnesses(gram, offsets, signs, weights, slack=self.slack, **options)
        return self._solve_coupled(gram, Hinge(signs, weights), **options)

    def _starts(self, bags: Any, used: np.ndarray, signs: np.ndarray, rng: Any) -> list[Any]:
        _, offsets = gather_rows(bags.offsets, used)
        if not self._hard:
            return self._share_starts(bags, used, offsets, rng)
        first, sizes = offsets[:-1][signs > 0], np.diff(offsets)[signs > 0]

        def drawn() -> np.ndarray:
            return first + rng.randint(0, sizes)

        if not isinstance(self.init, str):
            given = check_witness_rows(self.init, bags)[used] - bags.offsets[:-1][used]
            starts = [(offsets[:-1] + given)[signs > 0]]
        else:
            starts = [drawn() if self.init == "random" else None]
        return starts + [drawn() for _ in range(self.n_init - 1)]

    def _store(self, best: list[Any], gram: Any, bags: Bags, rows: np.ndarray) -> None:
        self._bag_score_is_max = self.loss == "max"
        turn = self._positive_sign
        self.intercept_ = turn * np.array([result.intercept for result in best])
        if isinstance(gram, FeatureRows):
            weights = turn * np.stack([gram.weights(each.rows, each.coef) for each in best])
            self._store_weights(weights, gram.features, bags, rows)
        elif self._hard:
            super()._store(best, gram, bags, rows)
            return
        else:
            self._store_function(best, gram, bags, rows, turn)
        witnesses = segment_argmax(turn * self._instance_level(bags), bags.offsets)
        self.witnesses_ = witnesses[:, 0] if len(best) == 1 else witnesses
        self._store_run(best)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        if self._hard:
            return super()._instance_scores(bags)
        return self._flat(self._instance_level(bags))

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._hard:
            return super()._bag_scores(bags)
        return self._flat(self._two_levels(bags)[1])

    def _flat(self, scores: np.ndarray) -> np.ndarray:
        return scores[:, 0] if len(self.intercept_) == 1 else scores
