"""WellSVC: a support vector machine over a mixture of generated selections of instances."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._bags import Bags
from .._bags.distinct import PointBags
from .._bags.segments import gather_rows
from .._compat import Interval, StrOptions
from .._fit.multi_start import values_of
from .._fit.threads import fit_context
from .._fit.training_labels import TrainingLabels
from .._fit.warn import warn_user
from .._kernels.instance import KERNELS, instance_kernel, resolve_gamma
from .._kernels.memory import require_memory
from .._solvers.svm.label_generation import (
    GenerationProblem,
    GenerationResult,
    first_problem_along,
    generate_labels,
)
from ..base import BagClassifier, class_scores

__all__ = ["WellSVC"]


@dataclass(frozen=True)
class _Solved:
    """The result of a class, its function by coefficients of the points, and the upper bound."""

    result: GenerationResult
    coef: np.ndarray
    intercept: float
    upper: float


class WellSVC(BagClassifier):
    r"""Support vector classification over a mixture of selections (WellSVM for key instances).

    One instance of each positive bag is selected, and all instances of negative bags are used: the
    first problem of :class:`SDPMIL`,

    .. math::

        \min_{h, w, b} \; \tfrac12 \|w\|^2 + C \sum_{y_i = 1} c_i [1 - f(x_{i h(i)})]_+
        + C \sum_{y_i = -1} c_i \sum_j [1 + f(x_{ij})]_+ .

    Its minimum over selections h and the maximum of its dual over multipliers are exchanged, which
    relaxes it to a support vector machine with a convex combination of the kernels of all
    selections,

    .. math::

        \min_{\mu \in \Delta} \; \max_{g, a} \; \sum_i g_i + \sum_{ij} a_{ij}
        - \tfrac12 \sum_h \mu_h \|W_h\|^2 , \qquad
        W_h = \sum_{y_i = 1} g_i \phi(x_{i h(i)}) - \sum_{y_i = -1} \sum_j a_{ij} \phi(x_{ij}) ,

    over :math:`0 \le g_i \le C c_i`, :math:`0 \le a_{ij} \le C c_i` and equal sums of both.
    Selections are generated one by one, the most violated of a cutting plane method, and
    :math:`f(x) = s \langle \sum_h \mu_h W_h, \phi(x) \rangle + b` with the factor s and the
    constant b that are best for the first problem, which is convex in both. A bag scores as its
    highest instance does.

    Parameters
    ----------
    C : float, default=10.0
        Cost of a slack against the norm of w. Must be positive.
    kernel : str, default="rbf"
        Kernel between instances, by scikit-learn's name; it has to be positive semidefinite.
    degree : float, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly", "laplacian", "chi2" and "sigmoid". "scale" is
        1 / (n_features * variance of the instances), "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    tol : float, default=1e-3
        Share of the objective up to which the gap of the mixture, and what another selection
        promises, count as nothing.
    max_iter : int, default=50
        Maximum number of selections.
    class_weight : dict, "balanced" or None, default=None
        Factor on C by class.
    pos_label : label, default=None
        The positive class, of which one instance makes a bag; ``classes_[1]`` when None. With
        three or more classes each is positive in turn (one-vs-rest).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Distinct training instances with a coefficient, for some class.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Their coefficients in f.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The constant b.
    gamma_ : float
        The number behind ``gamma``.
    mixture_ : ndarray of shape (n_selections,), or list of them
        The weights of the selections that were generated.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the relaxation over the selections that were generated.
    dual_gap_ : float or ndarray of shape (n_classes,)
        What it may be above its minimum over their mixtures.
    lower_bound_ : float or ndarray of shape (n_classes,)
        A lower bound of the first problem over all selections and all w and b, which does not
        depend on the search for selections.
    upper_bound_ : float or ndarray of shape (n_classes,)
        Value of the first problem at f and the best selection for it.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of selections.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether no selection was found that promises a lower value, and the mixture was found to
        ``tol``.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where the bags have names.

    Raises
    ------
    MemoryError
        Where the kernel matrix of the training instances does not fit into the available memory.

    Warns
    -----
    ConvergenceWarning
        When selections were still found after ``max_iter``, or the mixture missed ``tol``.

    See Also
    --------
    SDPMIL : With ``relaxation="tight"`` the same relaxation, rounded to one selection.
    MISVC : With ``slack="instance"`` the first problem, by the concave-convex procedure.

    Notes
    -----
    [1]_ and [2]_ have a version with a slack for each bag as well, and take s = 1 and the constant
    of the relaxation. There a bag is scored by another instance in each part of the mixture, and
    its scores are too low for one instance in all: with standardised instances and C = 10 the
    accuracy was 70 % on Musk1 and 50 % on Elephant (10 and 4 folds), and 82 and 79 % with s and b.
    The order of the bags is the same.

    The most violated selection is sought by changing one bag at a time, and exactly where there are
    at most 5000 selections.

    References
    ----------
    .. [1] Y.-F. Li, J. T. Kwok, I. W. Tsang, Z.-H. Zhou. A Convex Method for Locating Regions of
       Interest with Multi-Instance Learning. ECML 2009.
    .. [2] Y.-F. Li, I. W. Tsang, J. T. Kwok, Z.-H. Zhou. Convex and Scalable Weakly Labeled SVMs.
       Journal of Machine Learning Research 14, 2013.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import WellSVC
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = WellSVC().fit(bags, y)
    >>> model.score(bags, y)
    1.0
    >>> bool(model.lower_bound_ <= model.upper_bound_)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "kernel": [StrOptions(set(KERNELS))],
        "degree": [Interval(Real, 0.0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "pos_label": "no_validation",
    }

    support_vectors_: Any
    dual_coef_: np.ndarray
    intercept_: np.ndarray

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: str = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 50,
        class_weight: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.pos_label = pos_label

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WellSVC:
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
        bags, noted = self._validate_fit(X)
        found = TrainingLabels.of(self, y, bags, sample_weight)
        part = bags if len(found.used) == len(bags) else bags[found.used]
        merged = PointBags.of(
            part,
            found.codes,
            found.weights,
            found.sample_weights,
            mirrored=found.positive == 0,
        )
        points = part.instances[merged.kept]
        require_memory(
            3 * 8.0 * len(merged.point_of) ** 2,
            f"The kernel matrix of {len(merged.point_of)} instances",
            "fit on fewer bags, or use MISVC with n_components=",
        )
        gamma = resolve_gamma(self.gamma, points[merged.point_of], merged.instance_weights)
        kernel, _ = instance_kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)
        gram = np.asarray(kernel(points, points), dtype=np.float64)
        solved = [self._solved(gram, merged, merged.codes == task) for task in found.tasks]
        results = [each.result for each in solved]
        coef = np.stack([each.coef for each in solved])
        support = np.flatnonzero(coef.any(axis=0))
        mixtures = [each.mixture for each in results]
        self._replace_fitted(
            {
                **noted,
                "classes_": found.classes,
                "support_vectors_": points[support],
                "dual_coef_": found.sign * coef[:, support],
                "intercept_": found.sign * np.array([each.intercept for each in solved]),
                "gamma_": gamma,
                "mixture_": mixtures if len(results) > 1 else mixtures[0],
                **{
                    f"{name}_": values_of(results, name)
                    for name in ("objective", "dual_gap", "lower_bound", "n_iter", "converged")
                },
                "upper_bound_": values_of(solved, "upper"),
                "_kernel": kernel,
                "_positive_sign": found.sign,
            }
        )
        self._warn(results)
        return self

    def _solved(self, gram: np.ndarray, merged: PointBags, positive: np.ndarray) -> _Solved:
        offsets, costs = merged.offsets, self.C * merged.weights
        bags, others = np.flatnonzero(positive), np.flatnonzero(~positive)
        rows, inner = gather_rows(offsets, bags)
        rest, counts = gather_rows(offsets, others)
        place = merged.point_of[np.concatenate([rows, rest])]
        problem = GenerationProblem(
            gram[np.ix_(place, place)],
            inner,
            costs[bags],
            np.repeat(costs[others], np.diff(counts)),
        )
        # The first selection: of each bag the instance that is the least like negative ones.
        p = problem.n_positive
        likeness = problem.gram[:p, p:] @ problem.costs
        order = np.lexsort((likeness, np.repeat(np.arange(len(bags)), np.diff(inner))))
        result = generate_labels(problem, order[inner[:-1]], tol=self.tol, max_iter=self.max_iter)
        factor, intercept, upper = first_problem_along(problem, result.beta)
        coef = np.bincount(place, factor * result.beta, minlength=len(gram))
        return _Solved(result, coef, intercept, upper)

    def _warn(self, results: list[GenerationResult]) -> None:
        limited = sum(not each.complete for each in results)
        if limited:
            warn_user(
                f"WellSVC stopped at max_iter={self.max_iter} before convergence in {limited} of "
                f"{len(results)} problem(s): raise max_iter or tol.",
                ConvergenceWarning,
            )
        missed = max(each.dual_gap / max(each.objective, 1e-300) for each in results)
        if missed > self.tol:
            warn_user(
                f"The mixture of WellSVC was found to a relative duality gap of {missed:.1e} only "
                f"(tol={self.tol:.1e}): scale the features, lower C, or raise tol.",
                ConvergenceWarning,
            )

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        scores = np.tile(self.intercept_, (bags.n_instances, 1))
        if self.dual_coef_.size:
            scores += self._kernel(bags.instances, self.support_vectors_) @ self.dual_coef_.T
        columns = [self._positive_sign * column for column in scores.T]
        return class_scores(columns, self._positive_sign)
