"""Classes and weights of the bags in the fit of a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._bags import Bags
from .validation import bag_weights, encode_classes, validate_labels, validate_sample_weight
from .warn import warn_user


def warn_of_unnamed_positive(estimator: Any, classes: np.ndarray, positive: int) -> None:
    """Warn if two classes have names and ``pos_label`` is None."""
    named = all(isinstance(label, str) for label in classes.tolist())
    if named and positive >= 0 and getattr(estimator, "pos_label", "") is None:
        last, first = repr(str(classes[1])), repr(str(classes[0]))
        warn_user(
            f"The positive class is {last}, the last one in alphabetical order: an instance of it "
            f"makes a bag positive. Pass pos_label={last}, or pos_label={first} if it is the other "
            "one.",
            UserWarning,
        )


@dataclass(frozen=True)
class TrainingLabels:
    """Validated labels and weights of the bags in a fit.

    Bags of weight zero are ignored.
    """

    # Labels of all bags that were passed, of shape (n_bags,).
    all_labels: np.ndarray
    # Positions of the bags with a weight above zero, of shape (n_used,).
    used: np.ndarray
    # Positions of their classes in ``classes``, of shape (n_used,).
    codes: np.ndarray
    # Their sample weights times the weights of their classes, of shape (n_used,).
    weights: np.ndarray
    # Their sample weights, of shape (n_used,).
    sample_weights: np.ndarray
    # Sorted classes, of shape (n_classes,).
    classes: np.ndarray
    # Position of the positive class of two; -1 if each class is positive in turn.
    positive: int

    @classmethod
    def of(cls, estimator: Any, y: Any, bags: Bags, sample_weight: Any) -> TrainingLabels:
        """Validate labels and weights by the parameters ``pos_label`` and ``class_weight``.

        An estimator does not need to have these parameters. If it has ``pos_label`` and both
        classes are not treated alike, two classes with names need one: their alphabetical order
        means nothing.

        Raises
        ------
        ValueError
            For invalid labels and weights, for fewer than two classes, and for a
            ``class_weight`` that leaves a class without weight.
        """
        labels = validate_labels(estimator, y, bags)
        sample_weights = validate_sample_weight(sample_weight, bags)
        weighted = np.flatnonzero(sample_weights > 0)
        classes, codes, positive = encode_classes(
            labels[weighted], getattr(estimator, "pos_label", None)
        )
        if not getattr(estimator, "_treats_classes_alike", False):
            warn_of_unnamed_positive(estimator, classes, positive)
        weights = bag_weights(
            getattr(estimator, "class_weight", None), classes, codes, sample_weights[weighted]
        )
        left = weights > 0
        if len(np.unique(codes[left])) < len(classes):
            raise ValueError("class_weight leaves a class without weight: a classifier needs two.")
        used = weighted[left]
        return cls(
            labels, used, codes[left], weights[left], sample_weights[used], classes, positive
        )

    @property
    def sign(self) -> int:
        """1, or -1 if ``classes[0]`` is the positive class of two."""
        return -1 if self.positive == 0 else 1

    @property
    def tasks(self) -> list[int]:
        """Classes that are positive in turn: one of two classes, otherwise all."""
        return [self.positive] if self.positive >= 0 else list(range(len(self.classes)))
