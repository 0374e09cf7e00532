"""MILBoost: gradient boosting of the noisy-or likelihood of bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._bags import Bags
from .._constraints import AT_LEAST_ONE, SHARE, Constraints
from .._fit.multi_start import attributes_of
from .._fit.threads import fit_context
from .._solvers.baselines.noisy_or_boosting import (
    BoostingProblem,
    Learn,
    boost_noisy_or,
    log_odds,
)
from .._solvers.ensemble.learners import ensemble_importances, ensemble_scores
from .._solvers.ensemble.pools import LearnerPool, check_learner, make_pool
from .._solvers.ensemble.problem import DualPrices
from ..base import class_scores
from ._base import BaselineClassifier

# Bags are considered separated if the objective is below this fraction of its initial value.
_TOL = 1e-6


class MILBoost(BaselineClassifier):
    r"""Gradient boosting of the noisy-or likelihood of bags (MILBoost).

    The score of an instance is an ensemble :math:`F(x) = b + \sum_k \alpha_k h_k(x)` of weak
    learners :math:`h_k(x) \in \{-1, 1\}`. It is positive with probability
    :math:`p(x) = 1 / (1 + e^{-F(x)})`. A bag is positive if one of its instances is, with
    probability :math:`p(B_i) = 1 - \prod_j (1 - p(x_{ij}))`. Boosting minimises

    .. math::

        - \sum_{i: y_i = 1} c_i \log p(B_i) - \sum_{i: y_i = -1} c_i \log (1 - p(B_i)) ,

    where :math:`c_i` is the weight of a bag. In each round, a learner is fitted with the negative
    gradient with respect to the scores of the instances as signed weights, and its coefficient is
    found by a line search. The score of a bag is its log-odds
    :math:`\log p(B_i) / (1 - p(B_i))`, and the score of an instance is F.

    Read more in the :ref:`User Guide <methods_trees>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_estimators : int, default=100
        Maximum number of rounds.
    estimator : {"stump", "rbf"} or classifier, default="stump"
        Weak learners: thresholds on a feature; thresholds on the distance from a training
        instance; or a scikit-learn classifier that accepts ``sample_weight`` and is refitted in
        each round, such as ``DecisionTreeClassifier(max_depth=3, random_state=0)``.
    learning_rate : float, default=1.0
        Factor on every coefficient, in the interval (0, 1].
    n_prototypes : int, default=1000
        Maximum number of centres for ``estimator="rbf"``. If there are more training instances, a
        fixed pseudo-random subset is used.
    max_bins : int, "auto" or None, default="auto"
        Maximum number of bins of a feature, or of the distances from a centre; learners are
        thresholds between bins of about equal numbers of instances. "auto" is 256 if there are
        more than 10,000 distinct training instances. None, and "auto" for fewer instances, puts
        thresholds between all distinct values.
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
    learners_ : list, or list of lists
        The learners :math:`h_k` in the order of the rounds, one list per class for three or more.
    alpha_ : ndarray of shape (n_learners_,), or list of them
        Their coefficients, which are positive.
    intercept_ : float or ndarray of shape (n_classes,)
        The constant b, which minimises the loss without learners.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above.
    objective_history_ : ndarray of shape (n_iter_ + 1,), or list of ndarray
        The values without learners and after each round, which decrease.
    feature_importances_ : ndarray of shape (n_features,)
        Fraction of the coefficients that belongs to each feature; NaN for learners without feature
        importances.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of rounds; fewer than ``n_estimators`` if the objective is close to zero, or no
        learner decreases it.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    TypeError
        If ``estimator`` is not a classifier or does not accept sample weights.

    See Also
    --------
    milearn.ensemble.DPBoost : Boosting by the highest instance of a bag, as a linear program.
    DiverseDensity : The noisy-or of one concept point.

    Notes
    -----
    [1]_ boosts a cascade of detectors and starts at F = 0, where all bags of ten instances are
    positive with probability 0.999. Here boosting starts at the best constant. For stumps and
    balls, the best learner under the weights is found; a classifier is fitted to distinct
    instances with the sum of the weights of duplicates. For separable data there is no minimum, so
    coefficients are limited to 4. The noisy-or of a large bag accumulates small probabilities, so
    bags that are larger than the training bags tend to have higher scores.

    References
    ----------
    .. [1] P. Viola, J. C. Platt, C. Zhang. Multiple Instance Boosting for Object Detection.
       NIPS 18, 2005.

    Examples
    --------
    >>> from milearn.baselines import MILBoost
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = MILBoost(20).fit(bags, y)
    >>> model.score(bags, y)
    1.0
    >>> model.predict_proba(bags).shape
    (40, 2)
    """

    _parameter_constraints = Constraints(learning_rate=[SHARE], n_prototypes=[AT_LEAST_ONE])

    _bag_score_is_max = False
    learners_: list[Any]
    alpha_: Any
    intercept_: Any

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        estimator: Any = "stump",
        learning_rate: float = 1.0,
        n_prototypes: int = 1000,
        max_bins: int | str | None = "auto",
        class_weight: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.estimator = estimator
        self.learning_rate = learning_rate
        self.n_prototypes = n_prototypes
        self.max_bins = max_bins
        self.class_weight = class_weight
        self.pos_label = pos_label

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MILBoost:
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
        check_learner(self.estimator)
        training = self._training(X, y, sample_weight)
        merged = training.merged()
        points, n_points = training.bags.instances[merged.kept], len(merged.kept)
        learn = _learning(make_pool(self.estimator, points, self.n_prototypes, self.max_bins))
        limits: dict[str, Any] = {
            "n_rounds": self.n_estimators,
            "rate": self.learning_rate,
            "tol": _TOL,
        }
        results = []
        for positive in training.problems(merged):
            bags = merged.point_of, merged.offsets, positive, merged.weights, n_points
            results.append(boost_noisy_or(BoostingProblem(*bags), learn, **limits))
        several = len(results) > 1
        learners = [each.learners for each in results]
        steps = [each.steps for each in results]
        width = training.bags.shape[1]
        importances = [ensemble_importances(r.learners, r.steps, width) for r in results]
        self._replace_fitted(
            {
                **training.fitted(),
                "learners_": learners if several else learners[0],
                "alpha_": steps if several else steps[0],
                **attributes_of(results, "intercept"),
                "feature_importances_": np.mean(importances, axis=0),
                **attributes_of(results, "objective", "n_iter", objective_history="history"),
            }
        )
        return self

    def _columns(self, bags: Bags) -> list[np.ndarray]:
        """F of all instances for each problem."""
        if len(self.classes_) == 2:
            parts = [(self.learners_, self.alpha_, self.intercept_)]
        else:
            parts = list(zip(self.learners_, self.alpha_, self.intercept_, strict=True))
        return [
            intercept + ensemble_scores(learners, alpha, bags.instances)
            for learners, alpha, intercept in parts
        ]

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return class_scores(self._columns(bags), self._positive_sign)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        odds = [log_odds(column, bags.offsets) for column in self._columns(bags)]
        return class_scores(odds, self._positive_sign)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes of bags.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Rows sum to 1. With three or more classes, the one-vs-rest probabilities are divided by
            their sum.
        """
        scores = self.decision_function(X)
        odds = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
        # Of two classes they add up to 1; of more, none may vanish.
        logs = -np.logaddexp(0.0, -odds)
        values = np.exp(logs - logs.max(axis=1, keepdims=True))
        return values / values.sum(axis=1, keepdims=True)


def _learning(pool: LearnerPool) -> Learn:
    """The best learner of a pool under weights of points."""

    def learn(weights: np.ndarray) -> tuple[Any, np.ndarray] | None:
        _, learners, columns = pool.price(DualPrices(weights), 0.0, 1)
        return (learners[0], columns[0].astype(np.float64)) if learners else None

    return learn
