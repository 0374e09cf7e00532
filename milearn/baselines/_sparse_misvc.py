"""sMIL, stMIL and sbMIL: support vector machines for sparse positive bags."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn import get_config

from .._bags import Bags
from .._compat import Interval, StrOptions
from .._constraints import Constraints
from .._fit.components import AUTO, STORED_LIMITS, auto_components
from .._fit.multi_start import attributes_of, judge_gaps, warn_of_stops
from .._fit.threads import fit_context
from .._fit.warn import warn_of_constants
from .._kernels.instance import KERNELS, instance_kernel, resolve_gamma
from .._kernels.memory import require_memory
from .._solvers.common.features import FeatureMap, landmark_features
from .._solvers.common.gram import Gram, KernelGram, LinearGram, clipped_gram, kernel_scores
from .._solvers.svm.sparse_mi import (
    MarginSolution,
    inherited_patterns,
    solve_margins,
    solve_transductive,
    sparse_patterns,
)
from ._base import BaselineClassifier

_SOLVER_TOL = 1e-8
# Scores and proportions that differ by less than this are considered equal.
_EQUAL = 1e-9
# A warning is raised for larger relative duality gaps.
_GAP_TOL = 1e-4
# Copies of the features of all instances in memory during a fit.
_COPIES = 4.0


class SparseMISVC(BaselineClassifier):
    r"""Support vector classification of sparse positive bags (sMIL, stMIL, sbMIL).

    The mean score of a positive bag should be at least that of one instance at 1 and all others at
    -1. Every instance of a negative bag should be below -1. The problem of sMIL is [1]_

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2
        + C \sum_{i: y_i = 1} c_i \Bigl[ \tfrac{2 - n_i}{n_i}
            - \tfrac{1}{n_i} \sum_j f(x_{ij}) \Bigr]_+
        + C_- \sum_{i: y_i = -1} c_i \sum_j [1 + f(x_{ij})]_+ ,

    where :math:`f(x) = \langle w, \phi(x) \rangle + b`, :math:`n_i` is the size and :math:`c_i` the
    weight of a bag, and :math:`C_-` gives both sums the same total cost. The score of a bag is its
    highest instance score.

    Read more in the :ref:`User Guide <methods_classic>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=10.0
        Cost of a positive bag's slack relative to the norm of w. Must be positive.
    variant : {"sbmil", "smil", "stmil"}, default="sbmil"
        "smil" is the problem above. "sbmil" then fits an SVM to all instances, labelled by the
        scores of the first. "stmil" also keeps instances of positive bags away from the boundary,
        and starts from the labels of "sbmil".
    eta : float, default=0.1
        Fraction of the instances of positive bags that "sbmil" and "stmil" label as positive.
    kernel : str, default="rbf"
        Kernel between instances, a name of scikit-learn.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel, as in :class:`~sklearn.svm.SVC`.
    n_components : int, "auto" or None, default="auto"
        Number of landmarks that approximate the kernel (Nystroem); None is the exact kernel. "auto"
        is None for the linear kernel and for up to 6,600 instances in up to 2,000 bags, and at most
        300 otherwise.
    max_iter : int, default=50
        Maximum number of convex problems of "stmil".
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors, or of the landmarks.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        The support vectors, or the landmarks.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients of the support vectors.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The constant b.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights w; only for the linear kernel.
    gamma_ : float
        Resolved value of ``gamma``.
    n_components_ : int or None
        Number of landmarks; None if the kernel is exact.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the last problem that was solved.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Duality gap of the last problem, in units of the objective.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of convex problems.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    MemoryError
        Before the fit, if the features or the matrix of an indefinite kernel do not fit into the
        memory.
    milearn.exceptions.SolverError
        If a quadratic program is not solved: scale the features.

    Warns
    -----
    UserWarning
        If all training bags have the same score.
    ConvergenceWarning
        If "stmil" or its last convex problem has not converged.

    See Also
    --------
    milearn.svm.MISVC : The highest instance determines the score of a bag.
    milearn.svm.InstanceMISVC : A latent label for every instance.

    Notes
    -----
    In [1]_ C is the total cost of each side; here it is divided by the number of positive bags.
    With "smil", all instances of large bags are often negative: its scores rank bags, but zero is
    not a good threshold.

    References
    ----------
    .. [1] R. C. Bunescu, R. J. Mooney. Multiple Instance Learning for Sparse Positive Bags.
       ICML 2007.

    Examples
    --------
    >>> from milearn.baselines import SparseMISVC
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> SparseMISVC().fit(bags, y).score(bags, y) > 0.9
    True
    """

    _parameter_constraints = Constraints(
        variant=[StrOptions({"smil", "stmil", "sbmil"})],
        eta=[Interval(Real, 0.0, 1.0, closed="both")],
        kernel=[StrOptions(set(KERNELS))],
    )

    support_vectors_: Any
    coef_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: np.ndarray

    def __init__(
        self,
        C: float = 10.0,
        *,
        variant: str = "sbmil",
        eta: float = 0.1,
        kernel: str = "rbf",
        gamma: Any = "scale",
        n_components: int | str | None = "auto",
        max_iter: int = 50,
        pos_label: Any = None,
    ) -> None:
        self.C = C
        self.variant = variant
        self.eta = eta
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.max_iter = max_iter
        self.pos_label = pos_label

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SparseMISVC:
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
        training = self._training(X, y, sample_weight)
        bags, instances = training.bags, training.bags.instances
        gamma = resolve_gamma(self.gamma, instances, training.instance_weights)
        kernel, semidefinite = instance_kernel(self.kernel, gamma=gamma)
        centre = np.zeros(instances.shape[1])
        if self.kernel == "linear" and not bags.is_sparse:
            # The coefficients sum to zero, so a shift of the features only changes the intercept.
            # Features far from zero are centred to avoid cancellation.
            centre = np.average(instances, axis=0, weights=training.instance_weights)
        points = instances - centre if centre.any() else instances
        n_components, features = None, None
        if not (self.kernel == "linear" and self.n_components == AUTO):
            sizes = len(bags), bags.n_instances
            n_components = auto_components(self.n_components, *sizes, STORED_LIMITS)
        if self.kernel != "linear" and n_components is not None:
            features = stored_features(instances, kernel, n_components)
            points = features.transform(instances)
        gram: Gram = LinearGram(points)
        if self.kernel != "linear" and features is None:
            gram = KernelGram(points, kernel, int(get_config()["working_memory"] * 2**20))
        if isinstance(gram, KernelGram) and not semidefinite:
            gram = clipped_gram(gram)
        solve = partial(self._solved, gram, bags.offsets, training.labels.weights)
        results = [solve(positive) for positive in training.problems()]
        beta = np.stack([each.beta for each in results])
        support = np.flatnonzero(beta.any(axis=0))
        intercepts = np.array([each.intercept for each in results])
        W = np.stack([each.w for each in results if each.w is not None] or [centre])
        weights: dict[str, np.ndarray] = {}
        if self.kernel == "linear":
            intercepts -= W @ centre
            weights["coef_"] = training.labels.sign * W
        coef = beta[:, support]
        if features is not None:
            support, coef = features.chosen, W @ features.factor.T
        self._replace_fitted(
            {
                **training.fitted(),
                **weights,
                "support_": training.rows[support],
                "support_vectors_": instances[support],
                "dual_coef_": training.labels.sign * coef,
                "intercept_": training.labels.sign * intercepts,
                "gamma_": gamma,
                "n_components_": None if features is None else len(support),
                **attributes_of(results, "objective", "dual_gap", "n_iter"),
                "_kernel": kernel,
            }
        )
        judge_gaps(results, _GAP_TOL)
        warn_of_stops("SparseMISVC", results, self.max_iter, "raise max_iter")
        warn_of_constants(self, bags, training.labels.codes, self._bag_scores)
        return self

    def _solved(
        self, gram: Gram, offsets: np.ndarray, weights: np.ndarray, positive: np.ndarray
    ) -> MarginSolution:
        patterns = sparse_patterns(offsets, positive, weights, self.C)
        found = solve_margins(gram, patterns, tol=_SOLVER_TOL)
        if self.variant == "smil":
            return found
        sizes = np.diff(offsets)
        inside, spread = np.repeat(positive, sizes), np.repeat(weights, sizes)
        scores = found.scores + found.intercept
        tops = scores >= np.repeat(np.maximum.reduceat(scores, offsets[:-1]), sizes) - _EQUAL
        signs = _labels(scores, inside, tops, spread, self.eta)
        total = self.C * weights[positive].sum()
        if self.variant == "sbmil":
            costs = spread.copy()
            for side in (signs > 0, signs < 0):
                costs[side] *= total / costs[side].sum()
            return solve_margins(gram, inherited_patterns(signs, costs), tol=_SOLVER_TOL)
        rows = np.flatnonzero(inside)
        unsigned = rows, total * spread[rows] / spread[rows].sum(), signs[rows]
        return solve_transductive(gram, patterns, unsigned, max_iter=self.max_iter, tol=_SOLVER_TOL)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        scores = np.tile(self.intercept_, (bags.n_instances, 1))
        if hasattr(self, "coef_"):
            scores += bags.instances @ self.coef_.T
        elif self.dual_coef_.size:
            scores += kernel_scores(
                self._kernel, bags.instances, self.support_vectors_, self.dual_coef_
            )
        return scores[:, 0] if scores.shape[1] == 1 else scores


def _labels(
    scores: np.ndarray, inside: np.ndarray, tops: np.ndarray, spread: np.ndarray, eta: float
) -> np.ndarray:
    """Signs of instances: 1 for the fraction ``eta`` and for the highest of each positive bag."""
    rows = np.flatnonzero(inside)
    order = rows[np.argsort(-scores[rows], kind="stable")]
    # Use fractions of the weights, so that a weight of two is equivalent to a duplicate.
    before = np.cumsum(spread[order]) - spread[order]
    reached = order[before < (eta - _EQUAL) * spread[rows].sum()]
    cut = scores[reached].min() - _EQUAL if len(reached) else np.inf
    return np.where(inside & (tops | (scores >= cut)), 1.0, -1.0)


# -- explicit features by landmarks ------------------------------------------------------------


def stored_features(instances: Any, kernel: Any, n_components: int) -> FeatureMap:
    """Explicit features by landmarks, after a check of the memory for those of all instances.

    Raises
    ------
    MemoryError
        If they do not fit into the available memory.
    """
    n = instances.shape[0]
    require_memory(
        _COPIES * 8 * n * n_components,
        f"A fit on {n_components} features of {n} instances",
        "take a smaller n_components, MISVC or fewer bags",
    )
    return landmark_features(instances, kernel, n_components, np.random.RandomState(0))
