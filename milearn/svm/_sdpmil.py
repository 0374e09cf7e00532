"""SDPMIL: one instance of each positive bag selected by a convex relaxation."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._solvers.svm.guo_sdp import require_clarabel
from .._solvers.svm.selection import SelectionResult, solve_selection
from ..utils._sklearn import (
    Interval,
    StrOptions,
    fit_context,
    with_callbacks,
)
from ._base import HardMaxSVC

__all__ = ["SDPMIL"]

_RESTARTS = ("n_init", "random_state")


class SDPMIL(HardMaxSVC):
    r"""Support vector classification on instances selected by a semidefinite relaxation.

    With :math:`f(x) = \langle w, \phi(x) \rangle + b`, one instance of each positive bag is
    selected (:math:`\eta_{ij} = 1`) and all instances of negative bags are used:

    .. math::

        \min_{\eta, w, b} \; \tfrac12 \|w\|^2
        + C \sum_{y_i = 1} c_i \sum_j \eta_{ij} [1 - f(x_{ij})]_+
        + C \sum_{y_i = -1} c_i \sum_j [1 + f(x_{ij})]_+,
        \qquad \eta_{ij} \in \{0, 1\}, \; \sum_j \eta_{ij} = 1,

    where :math:`c_i` is the weight of a bag. The selection is relaxed: with slacks
    :math:`\lambda` up to a bound :math:`s` and :math:`0 \le \eta \le 1`,

    .. math::

        \min_{w, b, \lambda, \eta} \quad & \tfrac12 \|w\|^2 + C \sum_{y_i = 1} c_i \sum_j \bigl(
        \tfrac12 (\lambda_{ij} + \eta_{ij})^2 - \tfrac{s}{2} \lambda_{ij} - \tfrac12 \eta_{ij}
        \bigr) + C \sum_{y_i = -1} c_i \sum_j \lambda_{ij} \\
        \text{s.t.} \quad & y_i f(x_{ij}) \ge 1 - \lambda_{ij}, \quad \lambda_{ij} \ge 0, \quad
        \lambda_{ij} \le s \text{ in positive bags}, \quad \sum_j \eta_{ij} = 1.

    This convex quadratic program is the semidefinite program of [1]_, whose slacks are bounded
    here because without a bound its value is minus infinity; the user guide has the proofs. Of
    each positive bag the instance with the smallest :math:`\lambda` is selected, and the first
    problem is solved for that selection, which is one support vector machine.

    Parameters
    ----------
    C : float, default=10.0
        Cost of a slack against the norm of w. Above zero.
    slack_bound : float, default=2.0
        The bound s on the slacks of instances of positive bags in the relaxation. It asks that
        all of them score at least 1 - s, and a slack above s/2 costs even what is not selected:
        the larger, the weaker the relaxation and the less it minds instances that are not
        selected. Above zero.
    selection : {"one", "at_least_one"}, default="one"
        Whether the relaxed shares of a bag sum to one, as in the experiments of [1]_, or to one
        at least. In the first problem a second selected instance only adds to the cost, so that
        one is selected in either case.
    relaxation : {"guo", "tight"}, default="guo"
        "tight" adds a mixture of selections (label generation, [2]_): a lower bound of the first
        problem that always holds, and the best of the selections that were mixed instead of the
        one that was rounded. It costs some tens of support vector machines.
    formulation : {"qp", "sdp"}, default="qp"
        "sdp" hands the three matrix inequalities to the conic solver Clarabel (the extra
        ``conic``), for small data: to see that both agree.
    polish : bool, default=False
        Whether to go on from the selection by the concave-convex procedure, which can only lower
        the objective: the result is then a local minimum of MI-SVM with one slack an instance.
    kernel : str or callable, default="rbf"
        Kernel between instances, as for :class:`MISVC`.
    degree : float, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly", "laplacian", "chi2" and "sigmoid". "scale" is
        1 / (n_features * variance of the instances), "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    n_components : int, default=None
        Where the relaxation works on a factor of the kernel matrix, most columns of it; None
        takes all that its rank asks for, at a cost of their number squared times the instances.
        The machine on the selected instances always uses the exact kernel. A linear kernel with
        fewer features than instances needs no factor. With ``relaxation="tight"`` it is not used,
        for a bound of an approximated problem would bound nothing.
    tol : float, default=1e-6
        Relative duality gap of the machine; the relaxation is solved to 1e-4 times that.
    max_iter : int, default=100
        Most steps of the concave-convex procedure.
    cache_size : float, default=1000
        Memory for kernel values in MiB.
    class_weight : dict, "balanced" or None, default=None
        Factor on C by class.
    pos_label : label, default=None
        The positive class, of which one instance makes a bag; ``classes_[1]`` when None. With
        three or more classes each is positive in turn (one-vs-rest).
    qp_solver : str, default=None
        Backend of qpsolvers for the relaxation and for the machine, instead of the methods
        that are made for them.
    n_jobs : int, default=None
        Workers for classes.
    verbose : bool or int, default=False
        Whether to print the objective after rounding and after each step.

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
    eta_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        The relaxed share of each instance of a positive bag, in the mixture with
        ``relaxation="tight"``; 1 for those of negative bags.
    selected_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the instance that stands for each positive bag in the objective; -1 for negative
        bags.
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag. With ``polish=True`` that of a positive
        bag is the selected one.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the first problem at the solution and its selection.
    objective_history_ : ndarray, or list of ndarray
        The value after rounding and after each step of ``polish``; it never rises.
    relaxation_value_ : float or ndarray of shape (n_classes,)
        Value of the relaxation. It bounds the first problem from below over the solutions whose
        slacks in positive bags stay within ``slack_bound``, and only over those. It may be
        negative. With ``relaxation="tight"`` it is ``lower_bound_``.
    lower_bound_ : float or ndarray of shape (n_classes,)
        A lower bound of the first problem over all selections and machines. 0, which is trivial,
        unless ``relaxation="tight"``, and then above 0.
    gap_ : float or ndarray of shape (n_classes,)
        ``objective_ - lower_bound_``: the solution is no further than this from the optimum.
    machine_gap_ : float or ndarray of shape (n_classes,)
        Duality gap of the last machine, in units of the objective.
    n_iter_ : int or ndarray of shape (n_classes,)
        Machines that were solved.
    converged_ : bool or ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Warns
    -----
    ConvergenceWarning
        When the relaxation or a machine misses its precision, or ``polish`` has not settled
        after ``max_iter`` steps.

    Raises
    ------
    milearn.exceptions.SolverError
        When the relaxation or a dual problem is not solved.
    ImportError
        For ``formulation="sdp"`` without Clarabel.

    See Also
    --------
    MISVC : With ``slack="instance"`` the same problem, by the concave-convex procedure alone.

    Notes
    -----
    The semidefinite program (14) of [1]_ is unbounded below for every data set; the bound on the
    slacks repairs it. [1]_ solves it by a general interior point method whose cost grows with the
    number of instances to the power 4.5; the equal quadratic program here costs the number of
    instances times the square of the number of features or components.

    References
    ----------
    .. [1] Y. Guo. Max-Margin Multiple-Instance Learning via Semidefinite Programming. ACML 2009.
    .. [2] Y.-F. Li, I. W. Tsang, J. T. Kwok, Z.-H. Zhou. Convex and Scalable Weakly Labeled SVMs.
       Journal of Machine Learning Research 14, 2013.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import SDPMIL
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = SDPMIL(C=10.0).fit(bags, y)
    >>> model.score(bags, y)
    1.0
    >>> bool(model.relaxation_value_ <= model.objective_)
    True
    """

    # Nothing is drawn at random, and there is one start.
    random_state = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{
            name: rule
            for name, rule in HardMaxSVC._parameter_constraints.items()
            if name not in _RESTARTS
        },
        "slack_bound": [Interval(Real, 0.0, None, closed="neither")],
        "selection": [StrOptions({"one", "at_least_one"})],
        "relaxation": [StrOptions({"guo", "tight"})],
        "formulation": [StrOptions({"qp", "sdp"})],
        "polish": ["boolean"],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        slack_bound: float = 2.0,
        selection: str = "one",
        relaxation: str = "guo",
        formulation: str = "qp",
        polish: bool = False,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        n_components: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 100,
        cache_size: float = 1000,
        class_weight: Any = None,
        pos_label: Any = None,
        qp_solver: str | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.slack_bound = slack_bound
        self.selection = selection
        self.relaxation = relaxation
        self.formulation = formulation
        self.polish = polish
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.qp_solver = qp_solver
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SDPMIL:
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
        if self.formulation == "sdp":
            require_clarabel()
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
    ) -> SelectionResult:
        return solve_selection(
            gram,
            offsets,
            signs,
            weights,
            slack_bound=self.slack_bound,
            exactly_one=self.selection == "one",
            conic=self.formulation == "sdp",
            tight=self.relaxation == "tight",
            polish=self.polish,
            n_components=self.n_components,
            most_bytes=self.cache_size * 2**20,
            tol=self.tol,
            max_iter=self.max_iter,
            qp_solver=self.qp_solver,
            on_iteration=on_iteration,
        )

    def _starts(
        self, bags: Any, used: np.ndarray, signs: np.ndarray, rng: Any
    ) -> list[np.ndarray | None]:
        return [None]

    def _store(self, best: list[Any], gram: Any, bags: Any, rows: np.ndarray) -> None:
        super()._store(best, gram, bags, rows)
        eta = np.zeros((bags.n_instances, len(best)))
        selected = np.full((len(bags), len(best)), -1, dtype=np.intp)
        eta[rows] = 1.0
        for column, result in enumerate(best):
            eta[rows[result.relaxation.rows], column] = result.shares
            chosen = rows[result.selected]
            selected[bags.bag_index[chosen], column] = chosen
        binary = len(best) == 1
        self.machine_gap_ = self.gap_
        for name in ("relaxation_value", "lower_bound"):
            values = np.array([getattr(result, name) for result in best])
            setattr(self, f"{name}_", float(values[0]) if binary else values)
        self.gap_ = self.objective_ - self.lower_bound_
        self.eta_ = eta[:, 0] if binary else eta
        self.selected_ = selected[:, 0] if binary else selected

    def _warn(self, best: list[Any]) -> None:
        super()._warn(best)
        worst = max((result.relaxation for result in best), key=lambda each: each.error)
        if worst.error > self.tol:
            warnings.warn(
                f"The relaxation of SDPMIL was solved to a duality gap of {worst.gap:.1e} and "
                f"residuals of {worst.primal_residual:.1e} and {worst.dual_residual:.1e} only "
                f"(tol={self.tol:.1e}): scale the features, lower C, or raise tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
