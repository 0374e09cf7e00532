"""Citation-kNN: nearest neighbour classification of bags in both directions."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from .._bags import Bags
from .._bags.distinct import rows_per_block
from .._compat import Interval
from .._constraints import AT_LEAST_ONE, Constraints
from .._fit.threads import fit_context
from ..metrics import bag_distances
from ..metrics._bag_kernels import prototype_bags
from ._base import BaselineClassifier

# Number of training bags up to which "auto" stores all of them.
_AUTO_BAGS = 10_000
# Distances with a smaller relative difference are equal: rounding depends on the other bags.
_EQUAL = 1e-9


class CitationKNN(BaselineClassifier):
    r"""Nearest neighbours among bags, in both directions (Citation-kNN).

    With a Hausdorff distance d between bags, the class of a bag B is predicted by votes of

    * its *references*, the ``n_references`` training bags nearest to it, and
    * its *citers*, the training bags A that have fewer than ``n_citers`` other training bags
      nearer to them than B.

    A bag that is both has two votes. The score is the fraction of votes for the positive class
    minus the fraction for the other class. Ties are broken in favour of the other class.

    Read more in the :ref:`User Guide <methods_classic>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_references : int, default=2
        Number of references.
    n_citers : int, default=4
        Number of nearest neighbours that a training bag cites. With 0, only references are used.
    metric : {"min", "max", "mean"}, default="min"
        Distance between bags, see :func:`milearn.metrics.bag_distances`: the distance of the two
        nearest instances, the Hausdorff distance, or its average form.
    n_prototypes : int, "auto" or None, default="auto"
        Maximum number of training bags that are stored as neighbours, a random sample of them.
        None stores all of them. "auto" stores at most 10,000, and so few that there are at most
        2**33 (8.6 billion) pairs of a training instance and an instance of a stored bag.
    pos_label : label, default=None
        The positive class of two. By default, it is ``classes_[1]``. With three or more classes,
        the class with most votes is predicted, and ties are broken in favour of the first class.
    random_state : int, RandomState instance or None, default=None
        Determines which bags are drawn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    bags_ : Bags
        The training bags that are neighbours.
    radius_ : ndarray of shape (n_prototypes_,)
        Distance up to which a training bag cites other bags: the distance to its ``n_citers``-th
        nearest other training bag.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        If there are fewer training bags than references.

    See Also
    --------
    milearn.metrics.bag_distances : The distances.
    milearn.cluster.BAMIC : Clusters by the same distances.

    Notes
    -----
    [1]_ uses the minimal Hausdorff distance, two references and four citers for the Musk data. All
    bags at the same distance as the last reference or citer are included, so predictions do not
    depend on the order of the bags. Features should be on the same scale. ``fit`` only computes
    ``radius_`` from all distances between training bags; prediction computes the distances to all
    training bags. The score of an instance is that of a bag with only this instance.

    WEKA's classifier of this name (3.6.14) divides every feature by its range. With a constant
    feature of zeros all distances are NaN, and it always predicts the same class (Elephant has 120
    such features). Each predicted bag extends the ranges for itself and all following bags, but
    the ranks of citers are not updated. Its predictions therefore depend on the order of the bags.
    If this is reproduced, the predictions are the same as here.

    References
    ----------
    .. [1] J. Wang, J.-D. Zucker. Solving the Multiple-Instance Problem: A Lazy Learning Approach.
       ICML 2000.

    Examples
    --------
    >>> from milearn.baselines import CitationKNN
    >>> bags = [[[0.0], [5.0]], [[1.0], [5.1]], [[0.0], [0.4]], [[0.7], [1.0]]]
    >>> model = CitationKNN(n_references=1, n_citers=1).fit(bags, [1, 1, 0, 0])
    >>> model.predict([[[0.2], [5.05]], [[0.5]]])
    array([1, 0])
    """

    _treats_classes_alike = True
    _parameter_constraints = Constraints(
        n_references=[AT_LEAST_ONE], n_citers=[Interval(Integral, 0, None, closed="left")]
    )

    _bag_score_is_max = False
    _dtypes = (np.float64, np.float32)
    bags_: Bags
    radius_: np.ndarray

    def __init__(
        self,
        n_references: int = 2,
        *,
        n_citers: int = 4,
        metric: str = "min",
        n_prototypes: int | str | None = "auto",
        pos_label: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_references = n_references
        self.n_citers = n_citers
        self.metric = metric
        self.n_prototypes = n_prototypes
        self.pos_label = pos_label
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> CitationKNN:
        """Store the bags and compute the citation radius of each bag.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        training = self._training(X, y, None)
        bags, drawn = prototype_bags(
            training.bags, self.n_prototypes, _AUTO_BAGS, self.random_state
        )
        if self.n_references > len(bags):
            raise ValueError(
                f"n_references={self.n_references} but there are {len(bags)} bags: ask for at most "
                "as many references as training bags."
            )
        votes = np.zeros((len(bags), len(training.labels.classes)))
        votes[np.arange(len(bags)), training.labels.codes[drawn]] = 1.0
        self._replace_fitted(
            {
                **training.fitted(),
                "bags_": bags,
                "radius_": self._radius(bags),
                "_votes": votes,
                "_n_references": self.n_references,
                "_metric": self.metric,
            }
        )
        return self

    def _radius(self, bags: Bags) -> np.ndarray:
        if self.n_citers == 0:
            return np.full(len(bags), -1.0)
        if self.n_citers >= len(bags):
            return np.full(len(bags), np.inf)
        distances = bag_distances(bags, metric=self.metric)
        np.fill_diagonal(distances, np.inf)
        distances.partition(self.n_citers - 1, axis=1)
        return distances[:, self.n_citers - 1].copy()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Fraction of the votes for each class.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Rows sum to 1. They are fractions of few votes and are not calibrated.
        """
        return self._of_bags(X, self._proportions)

    def _proportions(self, bags: Bags) -> np.ndarray:
        # Three matrices of the size of the distances are held.
        blocks = gen_batches(len(bags), rows_per_block(24 * len(self.bags_)))
        return np.concatenate([self._block_proportions(bags[part]) for part in blocks])

    def _block_proportions(self, bags: Bags) -> np.ndarray:
        distances = bag_distances(bags, self.bags_, metric=self._metric)
        last = np.partition(distances, self._n_references - 1, axis=1)[:, self._n_references - 1]
        references = distances <= (1 + _EQUAL) * last[:, None]
        citers = distances <= (1 + _EQUAL) * self.radius_
        votes = (references.astype(np.float64) + citers) @ self._votes
        return votes / votes.sum(axis=1, keepdims=True)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        proportions = self._proportions(bags)
        return proportions[:, 1] - proportions[:, 0] if proportions.shape[1] == 2 else proportions

    def _decide(self, scores: np.ndarray) -> np.ndarray:
        if scores.ndim == 2:
            return super()._decide(scores)
        # Ties are broken in favour of the negative class.
        above = scores > 0 if self._positive_sign > 0 else scores >= 0
        return self.classes_[above.astype(np.intp)]
