"""Diverse density and EM-DD: one concept point with a scale for each feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .._bags import Bags
from .._constraints import AT_LEAST_ONE, Constraints
from .._fit.multi_start import attributes_of
from .._fit.threads import fit_context
from .._fit.warn import warn_of_limit
from .._kernels.instance import resolve_gamma
from .._solvers.baselines.diverse_density import (
    ConceptProblem,
    ConceptSolution,
    best_concept,
    centred_points,
    nearest_solution,
    noisy_or_solution,
    squared_distances,
)
from ..base import class_scores
from ._base import BaselineClassifier

# Smaller differences of the weighted training accuracy are ignored when choosing the threshold.
_EQUAL_ACCURACY = 1e-6


class _ConceptClassifier(BaselineClassifier):
    """Base class of classifiers by the distance from a concept point."""

    _parameter_constraints = Constraints(n_init=[AT_LEAST_ONE, None])

    concept_: np.ndarray
    scales_: np.ndarray
    _solve: Callable[..., ConceptSolution]
    threshold_: float | np.ndarray

    def __init__(
        self,
        n_init: int | None = 3,
        *,
        gamma: Any = "scale",
        tol: float = 1e-6,
        max_iter: int = 500,
        max_instances: int | None = 30_000,
        class_weight: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.n_init = n_init
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
        self.max_instances = max_instances
        self.class_weight = class_weight
        self.pos_label = pos_label

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag in the likelihood. A weight of two is equivalent to duplicating the
            bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        training = self._training(X, y, sample_weight)
        merged = training.merged()
        instances, centre = centred_points(training.bags.instances, merged)
        gamma = resolve_gamma(self.gamma, instances, merged.instance_weights)
        scales = np.full(instances.shape[1], np.sqrt(gamma))
        results, thresholds = [], []
        for positive in training.problems(merged):
            problem = ConceptProblem(instances, merged.offsets, positive, merged.weights)
            result = best_concept(
                problem,
                self._solve,
                scales,
                n_init=self.n_init,
                max_instances=self.max_instances,
                tol=self.tol,
                max_iter=self.max_iter,
            )
            distances = squared_distances(instances, result.concept, result.scales)
            nearest = np.minimum.reduceat(distances, merged.offsets[:-1])
            results.append(replace(result, concept=result.concept + centre))
            thresholds.append(_threshold(nearest, problem.positive, problem.costs))
        self._replace_fitted(
            {
                **training.fitted(),
                "threshold_": np.array(thresholds) if len(results) > 1 else thresholds[0],
                "gamma_": gamma,
                **attributes_of(results, "concept", "scales", "objective", "n_iter", "converged"),
            }
        )
        warn_of_limit(self, sum(not each.converged for each in results), len(results))
        return self

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        concepts, scales = np.atleast_2d(self.concept_), np.atleast_2d(self.scales_)
        columns = [
            threshold - squared_distances(bags.instances, concept, scale)
            for concept, scale, threshold in zip(
                concepts, scales, np.atleast_1d(self.threshold_), strict=True
            )
        ]
        return class_scores(columns, self._positive_sign)


class DiverseDensity(_ConceptClassifier):
    r"""A concept point that is near to every positive bag and far from negative instances (DD).

    An instance x belongs to the concept with probability
    :math:`p(x) = \exp(-\sum_k s_k^2 (x_k - t_k)^2)`, and a bag is positive if at least one of its
    instances does. The point t and the scales s minimise the negative logarithm of the diverse
    density,

    .. math::

        -\sum_{i: y_i = 1} c_i \log \Bigl( 1 - \prod_j (1 - p(x_{ij})) \Bigr)
        - \sum_{i: y_i = -1} c_i \sum_j \log (1 - p(x_{ij})) .

    A bag is predicted as positive if the distance of its nearest instance is below a threshold. The
    score of an instance is the threshold minus :math:`\sum_k s_k^2 (x_k - t_k)^2`.

    Read more in the :ref:`User Guide <methods_classic>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_init : int, default=3
        Number of runs, started at the instances of positive bags with the lowest objective at the
        initial scales. None starts from all of them, as published.
    gamma : {"scale", "auto"} or float, default="scale"
        First value of all :math:`s_k^2`. "scale" is 1 / (n_features * variance of the instances),
        "auto" is 1 / n_features.
    tol : float, default=1e-6
        Relative decrease of the objective at which a start ends.
    max_iter : int, default=500
        Maximum number of iterations of a start.
    max_instances : int or None, default=30_000
        If there are more instances, the runs are made on a sample of the bags with about this
        number of instances, and the best one is continued on all bags. None uses all bags for all
        runs.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of the bags for each class.
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    concept_ : ndarray of shape (n_features,) or (n_classes, n_features)
        The point t.
    scales_ : ndarray of shape (n_features,) or (n_classes, n_features)
        The scales s, not below zero: a feature of scale zero plays no part.
    threshold_ : float or ndarray of shape (n_classes,)
        Squared distance up to which an instance is positive: that of the best accuracy on the
        training bags, in the middle of the widest gap where several are best.
    gamma_ : float
        Resolved value of ``gamma``.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the objective above, the lowest of all starts.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of iterations of the selected start.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether it converged within ``max_iter`` iterations.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    MemoryError
        For CSR instances, if a dense copy does not fit into the available memory.

    Warns
    -----
    ConvergenceWarning
        If the selected start has not converged after ``max_iter`` iterations.

    See Also
    --------
    EMDD : Uses only the nearest instance of each bag and is several times faster.

    Notes
    -----
    [1]_ uses gradient ascent from every instance of positive bags. Here the starts are ranked
    first, and L-BFGS is run from the best ones. The best run and the threshold are chosen on the
    training bags only. Features should be scaled. With ``gamma="scale"`` the initial concept covers
    the data; with scales of 1, gradients vanish in more than a few dimensions.

    References
    ----------
    .. [1] O. Maron, T. Lozano-Perez. A Framework for Multiple-Instance Learning. NIPS 10, 1998.

    Examples
    --------
    >>> from milearn.baselines import DiverseDensity
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=40, n_features=3, random_state=0)
    >>> model = DiverseDensity().fit(bags, y)
    >>> model.score(bags, y) > 0.9
    True
    >>> model.concept_.shape, model.scales_.shape
    ((3,), (3,))
    """

    _solve = staticmethod(noisy_or_solution)


class EMDD(_ConceptClassifier):
    r"""Diverse density of the nearest instance of each bag (EM-DD).

    With :math:`D(x) = \sum_k s_k^2 (x_k - t_k)^2` the point t and the scales s minimise

    .. math::

        \sum_{i: y_i = 1} c_i \min_j D(x_{ij})
        - \sum_{i: y_i = -1} c_i \log \bigl( 1 - e^{-\min_j D(x_{ij})} \bigr) ,

    which is the negative logarithm of the diverse density with one instance for each bag. The
    algorithm alternates between minimising it for fixed instances and updating the instances, until
    they do not change or the objective has not decreased for five updates. Scores are those of
    :class:`DiverseDensity`.

    Read more in the :ref:`User Guide <methods_classic>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_init : int, default=3
        Number of runs, started at the instances of positive bags with the lowest noisy-or
        objective of :class:`DiverseDensity` at the initial scales. None starts from all of them.
    gamma : {"scale", "auto"} or float, default="scale"
        First value of all :math:`s_k^2`. "scale" is 1 / (n_features * variance of the instances),
        "auto" is 1 / n_features.
    tol : float, default=1e-6
        Relative decrease of the objective at which a start ends.
    max_iter : int, default=500
        Maximum number of iterations of a run, over all updates of the instances.
    max_instances : int or None, default=30_000
        If there are more instances, the runs are made on a sample of the bags with about this
        number of instances, and the best one is continued on all bags. None uses all bags for all
        runs.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of the bags for each class.
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    concept_ : ndarray of shape (n_features,) or (n_classes, n_features)
        The point t.
    scales_ : ndarray of shape (n_features,) or (n_classes, n_features)
        The scales s, not below zero: a feature of scale zero plays no part.
    threshold_ : float or ndarray of shape (n_classes,)
        Squared distance up to which an instance is positive: that of the best accuracy on the
        training bags, in the middle of the widest gap where several are best.
    gamma_ : float
        Resolved value of ``gamma``.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the objective above, the lowest of all starts.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of iterations of the selected start.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether it converged within ``max_iter`` iterations.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    MemoryError
        For CSR instances, if a dense copy does not fit into the available memory.

    Warns
    -----
    ConvergenceWarning
        If the selected start has not converged after ``max_iter`` iterations.

    See Also
    --------
    DiverseDensity : Uses all instances of a bag by a noisy-or.

    Notes
    -----
    [1]_ selects the best of many runs for each fold on the test bags, so its 96.8 % on Musk1 is not
    an estimate of the generalisation accuracy. Here the run with the lowest objective is kept, and
    the threshold is chosen on the training bags. On Elephant, three ten-fold cross-validations gave
    74.0 to 80.5 %: the 230 scales of a concept are fitted to a few bags and vary with them.

    References
    ----------
    .. [1] Q. Zhang, S. A. Goldman. EM-DD: An Improved Multiple-Instance Learning Technique.
       NIPS 14, 2001.

    Examples
    --------
    >>> from milearn.baselines import EMDD
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=40, n_features=3, random_state=0)
    >>> EMDD().fit(bags, y).score(bags, y) > 0.9
    True
    """

    _solve = staticmethod(nearest_solution)


def _threshold(nearest: np.ndarray, positive: np.ndarray, costs: np.ndarray) -> float:
    """The distance below which bags are positive, chosen by the weighted accuracy."""
    order = np.argsort(nearest, kind="stable")
    values = nearest[order]
    right = np.where(positive, costs, -costs)[order]
    # Weight of correctly classified bags for a cut after the k-th bag, up to a constant.
    gained = np.concatenate([[0.0], np.cumsum(right)])
    cuts = np.concatenate([[0.5 * values[0]], 0.5 * (values[1:] + values[:-1]), [2.0 * values[-1]]])
    gaps = np.concatenate([[0.0], np.diff(values), [0.0]])
    # Equal distances cannot be separated.
    gained[1:-1][gaps[1:-1] == 0] = -np.inf
    best = gained >= gained.max() - _EQUAL_ACCURACY * costs.sum()
    return float(cuts[np.argmax(np.where(best, gaps, -1.0))])
