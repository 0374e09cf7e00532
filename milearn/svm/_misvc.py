"""MI-SVM: the support vector machine whose bag score is its highest instance score."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .._segments import gather_rows
from .._solvers._hard_max import HardMaxResult, solve_witnesses
from ..utils._sklearn import StrOptions, fit_context, with_callbacks
from ._base import HardMaxSVC

__all__ = ["MISVC"]

_PLANNED = ("l1", "l2", "epsilon_insensitive")


class MISVC(HardMaxSVC):
    r"""Support vector classification of bags with one witness a positive bag (MI-SVM).

    With :math:`f(x) = \langle w, \phi(x) \rangle + b` and the score of a bag
    :math:`f(B_i) = \max_j f(x_{ij})`, the problem is

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2
        + C \sum_{y_i = 1} c_i \, [1 - \max_j f(x_{ij})]_+
        + C \sum_{y_i = -1} c_i \, h_i(f),

    where :math:`c_i` is the weight of a bag and, by ``slack``,

    .. math::

        h_i(f) = [1 + \max_j f(x_{ij})]_+ \;\text{("bag")}
        \quad\text{or}\quad
        h_i(f) = \sum_j [1 + f(x_{ij})]_+ \;\text{("instance")}.

    The problem is not convex in the positive bags. The concave-convex procedure replaces the
    maximum over a positive bag by its current highest instance, the witness, solves the convex
    problem that is left, and repeats until the witnesses stay. Negative bags stay whole. The
    objective never rises; the result is a local minimum that depends on ``init``.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a bag's slack against the norm of w. Above zero.
    kernel : {"linear", "poly", "rbf", "sigmoid"} or callable, default="rbf"
        Kernel between instances; a callable takes two matrices and returns the matrix of shape
        (n_left, n_right). The negative part of an indefinite kernel matrix is dropped, with a
        warning; "sigmoid" and callables need the whole matrix of training instances for that.
    degree : float, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid". "scale" is 1 / (n_features * variance of the
        instances), "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    loss : {"max"}, default="max"
        Loss between the score of a bag and its highest instance score. "max" makes them equal.
    slack : {"bag", "instance"}, default="bag"
        Whether a negative bag pays for its worst instance, as published, or for each of its
        instances.
    init : {"mean", "random"} or array-like of shape (n_bags,), default="mean"
        First witnesses: the mean of each positive bag, an instance drawn from each, or given
        rows of ``X.instances`` (those of negative bags are not used).
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float, default=1e-6
        Relative decrease of the objective at which to stop. The convex steps are solved to a
        tenth of it.
    max_iter : int, default=100
        Most steps of the concave-convex procedure.
    cache_size : float, default=1000
        Memory for kernel values in MiB. Rows that do not fit are computed again.
    class_weight : dict, "balanced" or None, default=None
        Factor on C by class.
    pos_label : label, default=None
        The positive class, of which one instance makes a bag; ``classes_[1]`` when None. With
        three or more classes each is positive in turn (one-vs-rest).
    qp_solver : str, default=None
        Backend of qpsolvers for the dual problems, "piqp" when None.
    random_state : int, RandomState instance or None, default=None
        For random starts.
    n_jobs : int, default=None
        Workers for classes and starts.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights, for the linear kernel only.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Signed dual variables.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors in the training instances.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
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

    See Also
    --------
    InstanceMISVC : Labels every instance of a positive bag (mi-SVM).

    Notes
    -----
    [1]_ alternates between choosing witnesses and solving an SVM; with negative bags kept whole
    that is the concave-convex procedure of [2]_ with the hard maximum, eq. (5) there, and cannot
    cycle. ``slack="bag"`` is the published problem. ``slack="instance"`` is what is often
    implemented under the same name; it weighs a negative bag by its size.

    References
    ----------
    .. [1] S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for
       Multiple-Instance Learning. NIPS 15, 2003.
    .. [2] P.-M. Cheung, J. T. Kwok. A Regularization Framework for Multiple-Instance Learning.
       ICML 2006.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import MISVC
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = MISVC(C=10.0).fit(bags, y)
    >>> model.score(bags, y)
    1.0
    >>> model.witness(bags[:3]).shape
    (3,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **HardMaxSVC._parameter_constraints,
        "loss": [StrOptions({"max", *_PLANNED})],
        "slack": [StrOptions({"bag", "instance"})],
        "init": [StrOptions({"mean", "random"}), "array-like"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        loss: str = "max",
        slack: str = "bag",
        init: Any = "mean",
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
        self.loss = loss
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
        if self.loss in _PLANNED:
            raise NotImplementedError(
                f"loss={self.loss!r} is not available in this version: use loss='max'."
            )
        self._fit(X, y, sample_weight)
        return self

    def _solve(
        self,
        gram: Any,
        offsets: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        start: np.ndarray | None,
        on_iteration: Any,
    ) -> HardMaxResult:
        return solve_witnesses(
            gram,
            offsets,
            signs,
            weights,
            slack=self.slack,
            start=start,
            tol=self.tol,
            max_iter=self.max_iter,
            qp_solver=self.qp_solver,
            on_iteration=on_iteration,
        )

    def _starts(
        self, bags: Any, used: np.ndarray, signs: np.ndarray, rng: Any
    ) -> list[np.ndarray | None]:
        _, offsets = gather_rows(bags.offsets, used)
        first, sizes = offsets[:-1][signs > 0], np.diff(offsets)[signs > 0]

        def drawn() -> np.ndarray:
            return first + rng.randint(0, sizes)

        if not isinstance(self.init, str):
            given = self._given_witnesses(bags)[used] - bags.offsets[:-1][used]
            starts = [(offsets[:-1] + given)[signs > 0]]
        else:
            starts = [None if self.init == "mean" else drawn()]
        return starts + [drawn() for _ in range(self.n_init - 1)]

    def _given_witnesses(self, bags: Any) -> np.ndarray:
        rows = np.asarray(self.init)
        if rows.shape != (len(bags),) or rows.dtype.kind not in "iu":
            raise ValueError(
                f"init has shape {rows.shape} and type {rows.dtype}: give {len(bags)} integers, "
                "one row of X.instances a bag."
            )
        outside = (rows < bags.offsets[:-1]) | (rows >= bags.offsets[1:])
        if outside.any():
            bag = int(np.argmax(outside))
            raise ValueError(
                f"init[{bag}] = {rows[bag]} is not a row of bag {bag}: its rows are "
                f"{bags.offsets[bag]} to {bags.offsets[bag + 1] - 1}."
            )
        return rows
