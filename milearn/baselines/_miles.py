"""MILES: a 1-norm support vector machine on similarities to training instances."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.distinct import drawn_points, merge_bags
from .._constraints import Constraints
from .._fit.multi_start import attributes_of
from .._fit.threads import fit_context
from .._kernels.instance import resolve_gamma
from .._solvers.baselines.one_norm import solve_one_norm
from ..metrics._bag_kernels import largest_similarities
from ._base import BaselineClassifier


class MILES(BaselineClassifier):
    r"""Instance selection by a 1-norm support vector machine on similarities (MILES).

    With the distinct training instances :math:`z_k` and the largest similarities
    :math:`s_k(B) = \max_{x \in B} \exp(-\gamma \|x - z_k\|^2)` of a bag, the score is
    :math:`f(B) = \sum_k w_k s_k(B) + b`, and the weights solve the linear program

    .. math::

        \min_{w, b} \; \sum_k |w_k| + C \sum_i c_i \, [1 - y_i f(B_i)]_+ .

    Most weights are zero. The nonzero weights select the instances that separate the bags.

    Read more in the :ref:`User Guide <methods_classic>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=1.0
        Cost of a bag's slack against the 1-norm of w. Must be positive.
    gamma : {"scale", "auto"} or float, default="scale"
        The inverse of the squared width. "scale" is 1 / (n_features * variance of the instances),
        "auto" is 1 / n_features.
    n_prototypes : int, "auto" or None, default="auto"
        Maximum number of instances to select from, sampled from the distinct training instances.
        None uses all of them. "auto" uses all up to 10,000, and fewer for more than 3,355 bags: not
        more than 2**25 (33.5 million) similarities, but 1,000 instances in any case.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    pos_label : label, default=None
        The positive class. By default, it is ``classes_[1]``. With three or more classes there is
        one problem per class (one-vs-rest).
    random_state : int, RandomState instance or None, default=None
        Determines which instances are drawn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    prototypes_ : ndarray or CSR of shape (n_selected, n_features)
        The instances with a nonzero weight for at least one class.
    prototype_rows_ : ndarray of shape (n_selected,)
        Their rows in the training instances.
    coef_ : ndarray of shape (1, n_selected) or (n_classes, n_selected)
        Their weights; positive values indicate the positive class.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The constant b. If an interval is optimal, its midpoint is used.
    gamma_ : float
        Resolved value of ``gamma``.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above.
    lower_bound_ : float or ndarray of shape (n_classes,)
        Value of its dual.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of linear programs that were solved; of Newton steps for more than 500 bags.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    MemoryError
        If the matrix of similarities does not fit into the available memory. This is checked
        before any computation.
    milearn.exceptions.SolverError
        If a linear program is not solved.

    See Also
    --------
    milearn.embedding.MILESEmbedding : The similarities, for any other classifier.
    milearn.svm.MISVC : The highest instance determines the score of a bag.

    Notes
    -----
    [1]_ uses :math:`1/\sigma^2` instead of :math:`\gamma`, a factor :math:`\lambda` on the weights
    instead of C, and a cost for each class, which is ``class_weight`` here. The linear program is
    solved over all instances by an interior point method, to which only instances that can enter
    are passed. The score of an instance is that of a bag with only this instance. The paper
    instead distributes the score of a bag over its instances, see :meth:`instance_contributions`.

    References
    ----------
    .. [1] Y. Chen, J. Bi, J. Z. Wang. MILES: Multiple-Instance Learning via Embedded Instance
       Selection. IEEE TPAMI 28(12), 2006.

    Examples
    --------
    >>> from milearn.baselines import MILES
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = MILES(C=10.0).fit(bags, y)
    >>> model.score(bags, y)
    1.0
    >>> len(model.prototypes_) < bags.n_instances / 4
    True
    """

    _parameter_constraints = Constraints()

    _treats_classes_alike = True
    _bag_score_is_max = False
    prototypes_: Any
    coef_: np.ndarray
    intercept_: np.ndarray
    gamma_: float

    def __init__(
        self,
        C: float = 1.0,
        *,
        gamma: Any = "scale",
        n_prototypes: int | str | None = "auto",
        class_weight: Any = None,
        pos_label: Any = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.n_prototypes = n_prototypes
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MILES:
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
        instances = training.bags.instances
        rng = check_random_state(self.random_state)
        points = drawn_points(training.bags, self.n_prototypes, rng)
        gamma = resolve_gamma(self.gamma, instances, training.instance_weights)
        # A linear program has many solutions: which one is found depends on its rows.
        merged = merge_bags(training.bags, training.labels.codes, training.labels.weights)
        rows = largest_similarities(merged.bags, instances[points], gamma)[merged.order]
        costs = self.C * merged.weights[merged.order]
        used = merged.positions[merged.order]
        results = [
            solve_one_norm(rows, np.where(positive[used], 1.0, -1.0), costs)
            for positive in training.problems()
        ]
        coef = np.stack([result.coef for result in results])
        selected = np.flatnonzero(coef.any(axis=0))
        self._replace_fitted(
            {
                **training.fitted(),
                "prototypes_": instances[points[selected]],
                "prototype_rows_": training.rows[points[selected]],
                "coef_": training.labels.sign * coef[:, selected],
                "intercept_": training.labels.sign * np.array([each.intercept for each in results]),
                "gamma_": gamma,
                **attributes_of(results, "objective", "lower_bound", "n_iter"),
            }
        )
        return self

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        scores = np.tile(self.intercept_, (len(bags), 1))
        if self.coef_.size:
            scores += largest_similarities(bags, self.prototypes_, self.gamma_) @ self.coef_.T
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def instance_contributions(self, X: Any) -> np.ndarray:
        """Contribution of each instance to the score of its bag, in the order of ``X.instances``.

        Each similarity of a bag is attributed to the instance that attains it, in equal parts if
        there are several. The contributions of a bag's instances sum to its score without the
        intercept.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags whose scores to divide.

        Returns
        -------
        ndarray of shape (n_instances,), or (n_instances, n_classes) for three or more classes
            Contributions; zero for instances that do not attain any of the similarities.
        """
        return self._of_bags(X, self._contributions)

    def _contributions(self, bags: Bags) -> np.ndarray:
        parts = np.zeros((bags.n_instances, len(self.coef_)))
        if self.coef_.size:
            alone = largest_similarities(
                Bags.singletons(bags.instances), self.prototypes_, self.gamma_
            )
            top = np.maximum.reduceat(alone, bags.offsets[:-1], axis=0)
            attained = (alone == top[bags.bag_index]).astype(np.float64)
            count = np.add.reduceat(attained, bags.offsets[:-1], axis=0)
            parts = (alone * attained / count[bags.bag_index]) @ self.coef_.T
        return parts[:, 0] if len(self.classes_) == 2 else parts
