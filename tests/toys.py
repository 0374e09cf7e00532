"""Small estimators on the base classes, for tests of what every estimator inherits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn._bags.segments import pooling_matrix
from milearn._fit.validation import (
    bag_weights,
    encode_classes,
    validate_labels,
    validate_sample_weight,
)
from milearn.base import BagClassifier

# Of noise, of a class without instances of its own, with one landmark, or if a class has no weight,
# a constant is the optimum.
OFTEN_CONSTANT = pytest.mark.filterwarnings("ignore:.* found a constant:UserWarning")


class Callback:
    """A callback that does nothing."""

    def setup(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context): ...

    def teardown(self, estimator, context): ...


class LeastSquaresBags(BagClassifier):
    """Ridge regression of the labels on bag means; a bag scores as its best instance does."""

    def __init__(self, alpha=1.0, *, pos_label=None, class_weight=None):
        self.alpha = alpha
        self.pos_label = pos_label
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None):
        bags, fitted = self._validate_fit(X)
        y = validate_labels(self, y, bags)
        weights = validate_sample_weight(sample_weight, bags)
        classes, codes, positive = encode_classes(y, self.pos_label)
        weights = bag_weights(self.class_weight, classes, codes, weights)
        means = pooling_matrix(bags.offsets) @ bags.instances
        means = means.toarray() if sparse.issparse(means) else means
        design = np.column_stack([means, np.ones(len(bags))])
        ridge = self.alpha * np.eye(design.shape[1])
        ridge[-1, -1] = 1e-6
        targets = np.where(codes[:, None] == np.arange(len(classes)), 1.0, -1.0)
        if len(classes) == 2:
            targets = targets[:, 1:]
        weighted = design * weights[:, None]
        solution = np.linalg.solve(weighted.T @ design + ridge, weighted.T @ targets)
        fitted["classes_"] = classes
        fitted["_positive_sign"] = -1 if positive == 0 else 1
        fitted["coef_"] = solution[:-1].T
        fitted["intercept_"] = solution[-1]
        self._replace_fitted(fitted)
        return self

    def _instance_scores(self, bags):
        scores = np.asarray(bags.instances @ self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores


def two_level_bags(n_bags=40, n_features=3, n_classes=2, seed=0, shift=2.5, size=None):
    """Bags with one witness each: class ``c`` moves feature ``c`` of one instance."""
    from milearn import Bags

    rng = np.random.default_rng(seed)
    sizes = np.full(n_bags, size) if size else rng.integers(1, 5, size=n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    instances = rng.normal(size=(offsets[-1], n_features))
    y = np.arange(n_bags) % n_classes
    instances[offsets[:-1][y > 0], y[y > 0] - 1] += shift
    return Bags(instances, offsets), y
