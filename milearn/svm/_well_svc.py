"""WellSVC: a support vector machine over a mixture of generated selections of instances."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._bags import Bags
from .._bags.distinct import distinct_points
from .._compat import StrOptions
from .._constraints import Constraints
from .._fit.multi_start import values_of
from .._fit.threads import fit_context
from .._fit.warn import warn_user
from .._kernels.instance import KERNELS
from .._solvers.svm.mixture import (
    MergedSelection,
    MixtureProblem,
    MixtureResult,
    best_along,
    mix_selections,
)
from ..base import BagClassifier
from ._fit import class_fit, memory_limit
from ._functions import BagFunction, InstanceFunction, kernel_expansion, linear_expansion

# Number of matrices between all instances in memory.
_MATRICES = 3.0


class WellSVC(BagClassifier):
    r"""Support vector classification with a convex mixture of selected instances (WellSVM).

    One instance of each positive bag is selected, and all instances of negative bags are used. The
    problem over selections h is

    .. math::

        \min_{h, w, b} \; \tfrac12 \|w\|^2 + C \sum_{y_i = 1} c_i [1 - f(x_{i h(i)})]_+
        + C \sum_{y_i = -1} c_i \sum_j [1 + f(x_{ij})]_+ ,

    where :math:`c_i` is the weight of a bag and :math:`f(x) = \langle w, \phi(x) \rangle + b`. It
    is relaxed to a support vector machine with a convex combination of the kernels of all
    selections [1]_ [2]_. A cutting plane method generates the selections. The function is then
    scaled and shifted so that it minimises the problem. The score of a bag is its highest instance
    score.

    Read more in the :ref:`User Guide <methods_bounds>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=10.0
        Cost of a slack relative to the norm of w. Must be positive.
    kernel : str or callable, default="rbf"
        Kernel between instances: a name of scikit-learn ("linear", "rbf", "poly", ...) or a
        callable. The negative part of an indefinite kernel is dropped with a warning.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel, as in :class:`~sklearn.svm.SVC`.
    tol : float, default=1e-3
        Relative precision of the value of the relaxation.
    max_iter : int, default=50
        Maximum number of selections.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights; only for the linear kernel.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients of the support vectors; only for other kernels.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors in the training instances; not set for the linear kernel.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Training instances with a nonzero coefficient; not set for the linear kernel.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The constant b.
    gamma_ : float
        Resolved value of ``gamma``.
    mixture_ : ndarray of shape (n_selections,), or list of them
        The weights of the selections that were generated.
    relaxation_value_ : float or ndarray of shape (n_classes,)
        Value of the relaxation over the selections that were generated.
    mixture_gap_ : float or ndarray of shape (n_classes,)
        Bound on the distance of ``relaxation_value_`` from its minimum over these selections.
    lower_bound_ : float or ndarray of shape (n_classes,)
        Lower bound of the problem above.
    upper_bound_ : float or ndarray of shape (n_classes,)
        Value of the problem above at the solution.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of selections.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether the value of the relaxation has converged.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    MemoryError
        Before the fit, if three kernel matrices exceed scikit-learn's ``working_memory``; by
        default, above 6,600 instances.

    Warns
    -----
    ConvergenceWarning
        If selections were still found after ``max_iter``, or the mixture missed ``tol``.
    UserWarning
        If the kernel matrix is indefinite, and its negative part is dropped.

    See Also
    --------
    SDPMIL : With ``relaxation="tight"`` it solves the same relaxation and selects one instance.
    MISVC : With ``slack="instance"`` it solves the first problem by the concave-convex procedure.

    Notes
    -----
    [1]_ and [2]_ do not scale and shift the function, so their instance scores are too low for the
    threshold 0. The ranking of the bags is the same.

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

    _parameter_constraints = Constraints(kernel=[StrOptions(set(KERNELS)), callable])

    _function: BagFunction

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: str = "rbf",
        gamma: Any = "scale",
        tol: float = 1e-3,
        max_iter: int = 50,
        class_weight: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
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
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        data = class_fit(self, X, y, sample_weight)
        rows, point_of = distinct_points(data.instances)
        _require_memory(len(point_of))
        points = data.instances[rows]
        gram = data.gram_of(points, 8.0 * len(rows) ** 2)
        everything = np.arange(len(rows))
        matrix = np.asarray(gram.inner(everything, everything))
        results, coefs, intercepts, uppers = [], [], [], []
        for loss in data.losses:
            merged = MergedSelection.of(matrix, point_of, data.offsets, loss.signs, loss.weights)
            problem = merged.problem
            start = _first_selection(problem)
            result = mix_selections(problem, start, tol=self.tol, max_iter=self.max_iter)
            factor, intercept = best_along(problem, result.beta, result.precision)
            coef = np.bincount(merged.points, factor * result.beta, minlength=len(rows))
            scores = matrix @ coef
            value = problem.loss(problem.highest(scores[merged.points]) + intercept)
            results.append(result)
            coefs.append(gram.expansion(coef))
            intercepts.append(intercept)
            uppers.append(0.5 * float(coef @ scores) + value)
        coef, constant = data.sign * np.stack(coefs), data.sign * np.array(intercepts)
        if data.linear:
            coef = np.asarray((points.T @ coef.T).T)
            expansion, attributes = linear_expansion(data, coef, constant)
        else:
            numbers = data.rows[rows]
            expansion, attributes = kernel_expansion(data, coef, constant, points, numbers)
        mixtures = [each.mixture for each in results]
        self._replace_fitted(
            {
                **data.stored,
                **attributes,
                "mixture_": mixtures if len(results) > 1 else mixtures[0],
                "mixture_gap_": values_of(results, "gap"),
                "relaxation_value_": values_of(results, "value"),
                "lower_bound_": values_of(results, "lower_bound"),
                "upper_bound_": np.array(uppers) if len(results) > 1 else uppers[0],
                "n_iter_": values_of(results, "n_iter"),
                "converged_": values_of(results, "converged"),
                "_function": InstanceFunction(expansion, attributes["intercept_"]),
            }
        )
        self._warn(results)
        return self

    def _warn(self, results: list[MixtureResult]) -> None:
        limited = sum(not each.complete for each in results)
        if limited:
            warn_user(
                f"WellSVC stopped at max_iter={self.max_iter} before convergence in {limited} of "
                f"{len(results)} problem(s): raise max_iter or tol.",
                ConvergenceWarning,
            )
        missed = [each for each in results if each.gap > self.tol * each.value]
        if missed:
            worst = max(missed, key=lambda each: each.gap / max(each.value, 1e-300))
            warn_user(
                "The mixture of WellSVC was found to a relative duality gap of "
                f"{worst.gap / max(worst.value, 1e-300):.1e} only (tol={self.tol:.1e}): scale the "
                f"features, lower C, or raise tol. {worst.failure}".rstrip(),
                ConvergenceWarning,
            )

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        scores = self._function.instance_scores(bags)
        return scores[:, 0] if scores.shape[1] == 1 else scores


def _require_memory(n_instances: int) -> None:
    """Refuse matrices between instances that exceed ``working_memory``."""
    needed, room = _MATRICES * 8.0 * n_instances**2, memory_limit()
    if needed > room:
        raise MemoryError(
            f"The kernel matrices of {n_instances} instances take {needed / 2**20:.0f} MiB and "
            f"working_memory is {room / 2**20:g} MiB: take MISVC(slack='instance') or SDPMIL, "
            "which use landmarks for many instances, fit on fewer bags, or raise it by "
            "sklearn.set_config(working_memory=...)."
        )


def _first_selection(problem: MixtureProblem) -> np.ndarray:
    """The instance of each positive bag that is least similar to the negative instances."""
    p, offsets = problem.n_positive, problem.offsets
    similarity = problem.gram[:p, p:] @ problem.costs
    order = np.lexsort((similarity, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))
    return np.asarray(order[offsets[:-1]])
