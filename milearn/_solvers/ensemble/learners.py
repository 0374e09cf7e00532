"""Weak learners, and weighted sums of them.

A learner is a function of an instance with the values -1 and 1: a threshold on a feature
(:class:`Stump`), a threshold on the distance from a point (:class:`Ball`), or any classifier that
was fitted to -1 and 1 (:class:`FittedClassifier`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances

from ..._bags.types import Matrix


@dataclass(frozen=True)
class Stump:
    """Weak learner: a threshold on one feature.

    Read more in the :ref:`User Guide <methods_trees>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    feature : int
        Column of the feature; -1 for the constant learner with the value ``sign``.
    threshold : float
        Value that separates the two sides.
    sign : {-1, 1}
        Value above the threshold; ``-sign`` up to and including it.

    See Also
    --------
    DPBoost, LPBoost : Ensembles of weak learners.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.ensemble import Stump
    >>> stump = Stump(feature=1, threshold=0.5, sign=1)
    >>> stump.predict(np.array([[9.0, 0.0], [9.0, 1.0]]))
    array([-1.,  1.])
    """

    feature: int
    threshold: float
    sign: int

    def predict(self, X: Matrix) -> np.ndarray:
        """Values of -1 and 1 for the rows of X.

        Parameters
        ----------
        X : ndarray or CSR of shape (n_rows, n_features)
            For bags, ``bags.instances``.

        Returns
        -------
        ndarray of shape (n_rows,)
            Votes, as float64.
        """
        if self.feature < 0:
            return np.full(X.shape[0], float(self.sign))
        column = X[:, [self.feature]]
        values = column.toarray() if sparse.issparse(X) else column
        return _cut(values[:, 0], self.threshold, self.sign)

    def importances(self, n_features: int) -> np.ndarray:
        """One for the feature, zero for all others.

        Parameters
        ----------
        n_features : int
            Number of features of the instances.

        Returns
        -------
        ndarray of shape (n_features,)
            One for the feature of the stump, or zeros for the constant learner.
        """
        out = np.zeros(n_features)
        if self.feature >= 0:
            out[self.feature] = 1.0
        return out


@dataclass(frozen=True, eq=False)
class Ball:
    """Weak learner: a threshold on the squared distance from a point.

    Read more in the :ref:`User Guide <methods_trees>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    center : ndarray of shape (n_features,)
        Centre of the ball.
    threshold : float
        Squared radius.
    sign : {-1, 1}
        Value outside the ball; ``-sign`` inside it and on its surface.

    See Also
    --------
    DPBoost, LPBoost : Ensembles of weak learners.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.ensemble import Ball
    >>> ball = Ball(center=np.zeros(2), threshold=1.0, sign=-1)
    >>> ball
    Ball(center=[0., 0.], threshold=1.0, sign=-1)
    >>> ball.predict(np.array([[0.5, 0.5], [2.0, 0.0]]))
    array([ 1., -1.])
    """

    center: np.ndarray
    threshold: float
    sign: int

    def __repr__(self) -> str:
        center = np.array2string(self.center, separator=", ", threshold=6, edgeitems=2)
        return f"Ball(center={center}, threshold={self.threshold!r}, sign={self.sign!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ball) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[bytes, float, int]:
        return self.center.tobytes(), self.threshold, self.sign

    def predict(self, X: Matrix) -> np.ndarray:
        """Values of -1 and 1 for the rows of X.

        Parameters
        ----------
        X : ndarray or CSR of shape (n_rows, n_features)
            For bags, ``bags.instances``.

        Returns
        -------
        ndarray of shape (n_rows,)
            Votes, as float64.
        """
        values = squared_distances(X, self.center[None, :])[:, 0]
        return _cut(values, self.threshold, self.sign)

    def importances(self, n_features: int) -> np.ndarray:
        """NaN: a distance has no importances of single features.

        Parameters
        ----------
        n_features : int
            Number of features of the instances.

        Returns
        -------
        ndarray of shape (n_features,)
            NaN for every feature.
        """
        return np.full(n_features, np.nan)


@dataclass(frozen=True)
class FittedClassifier:
    """Weak learner: a classifier that was fitted to weighted instances of the classes -1 and 1.

    Read more in the :ref:`User Guide <methods_trees>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    estimator : fitted classifier
        Classifier with the classes -1 and 1.

    See Also
    --------
    DPBoost, LPBoost : Ensembles of weak learners.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from milearn.ensemble import FittedClassifier
    >>> tree = DecisionTreeClassifier(max_depth=1).fit([[0.0], [1.0]], [-1, 1])
    >>> FittedClassifier(tree).predict([[2.0]])
    array([1.])
    """

    estimator: Any

    def predict(self, X: Matrix) -> np.ndarray:
        """Values of -1 and 1 for the rows of X.

        Parameters
        ----------
        X : ndarray or CSR of shape (n_rows, n_features)
            For bags, ``bags.instances``.

        Returns
        -------
        ndarray of shape (n_rows,)
            Votes, as float64.
        """
        return np.asarray(self.estimator.predict(X), dtype=np.float64)

    def importances(self, n_features: int) -> np.ndarray:
        """``feature_importances_`` of the classifier; NaN if it has none.

        Parameters
        ----------
        n_features : int
            Number of features of the instances.

        Returns
        -------
        ndarray of shape (n_features,)
            The importances of the classifier.
        """
        missing = np.full(n_features, np.nan)
        return np.asarray(getattr(self.estimator, "feature_importances_", missing))


WeakLearner = Stump | Ball | FittedClassifier


def _cut(values: np.ndarray, threshold: float, sign: int) -> np.ndarray:
    # In double precision: NumPy rounds a number to the type of the array that it is compared with.
    return np.where(values.astype(np.float64) > threshold, float(sign), -float(sign))


def squared_distances(X: Matrix, centers: np.ndarray) -> np.ndarray:
    """Squared distances of the rows of X from dense centres, shape (n_rows, n_centers)."""
    return np.asarray(euclidean_distances(X, centers, squared=True))


def staged_scores(
    learners: Sequence[WeakLearner], alpha: np.ndarray, X: Matrix
) -> Iterator[np.ndarray]:
    """The partial sums of F(x) = sum_k alpha_k h_k(x) after each learner, of shape (n_rows,)."""
    total = np.zeros(X.shape[0])
    for learner, weight in zip(learners, alpha, strict=True):
        total = total + weight * learner.predict(X)
        yield total


def ensemble_scores(learners: Sequence[WeakLearner], alpha: np.ndarray, X: Matrix) -> np.ndarray:
    """F of every row.

    The terms are added in sequence, so that the score of a row does not depend on other rows.
    """
    total = np.zeros(X.shape[0])
    for scores in staged_scores(learners, alpha, X):
        total = scores
    return total


def ensemble_importances(
    learners: Sequence[WeakLearner], alpha: np.ndarray, n_features: int
) -> np.ndarray:
    """Importance of each feature, weighted by alpha, with a sum of one unless all are zero.

    NaN if a learner has no importances.
    """
    total = np.zeros(n_features)
    for learner, weight in zip(learners, alpha, strict=True):
        total += weight * learner.importances(n_features)
    return total / max(1e-300, total.sum()) if total.any() else total
