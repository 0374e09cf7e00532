"""A support vector machine over landmarks, for instances that inherit the labels of their bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

from .._fit.warn import warn_of_indefinite
from .._kernels.instance import instance_kernel, resolve_gamma
from .._kernels.memory import require_memory
from .._solvers.common.features import FeatureMap, landmark_features
from .._solvers.common.gram import LinearGram, kernel_scores
from .._solvers.svm.sparse_mi import inherited_patterns, solve_margins

# Copies of the features of all instances in memory during a fit.
_COPIES = 4.0


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
    features, smallest = landmark_features(
        instances, kernel, n_components, np.random.RandomState(0)
    )
    if smallest < -1e-10:
        warn_of_indefinite(smallest, "landmarks")
    return features


class LandmarkSVC(ClassifierMixin, BaseEstimator):
    """:class:`~sklearn.svm.SVC` with the RBF kernel, in the span of landmarks.

    Classes are compared one against the rest if there are three or more.
    """

    def __init__(self, n_components: int, C: float = 1.0, tol: float = 1e-4) -> None:
        self.n_components = n_components
        self.C = C
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LandmarkSVC:
        """Fit on instances, their labels and their weights."""
        weights = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight)
        used = np.flatnonzero(weights > 0)
        self.classes_, codes = np.unique(np.asarray(y)[used], return_inverse=True)
        X = X[used].astype(np.float64, copy=False)
        kernel, _ = instance_kernel("rbf", gamma=resolve_gamma("scale", X, weights[used]))
        features = stored_features(X, kernel, self.n_components)
        gram = LinearGram(features.transform(X))
        tasks = range(len(self.classes_)) if len(self.classes_) > 2 else [1]
        found = [
            solve_margins(
                gram,
                inherited_patterns(np.where(codes == task, 1.0, -1.0), self.C * weights[used]),
                tol=self.tol,
            )
            for task in tasks
        ]
        self.kernel_, self.landmarks_ = kernel, features.landmarks
        self.coef_ = np.stack([features.factor @ each.w for each in found])
        self.intercept_ = np.array([each.intercept for each in found])
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, with a column for each class if there are three or more."""
        scores = kernel_scores(self.kernel_, _like(X, self.landmarks_), self.landmarks_, self.coef_)
        scores += self.intercept_
        return scores if len(self.classes_) > 2 else scores[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """The class of each instance."""
        scores = self.decision_function(X)
        chosen = scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(np.intp)
        return np.asarray(self.classes_[chosen])


def _like(rows: Any, landmarks: Any) -> Any:
    """Rows in the storage of the landmarks."""
    if sparse.issparse(landmarks) and not sparse.issparse(rows):
        return sparse.csr_array(rows)
    return rows
