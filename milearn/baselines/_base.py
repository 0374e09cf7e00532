"""Base class of the classifiers of this package: bags, labels and weights of a fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._bags import Bags
from .._solvers.ensemble.points import distinct_points
from ..base import BagClassifier
from ..utils.validation import (
    bag_weights,
    encode_classes,
    validate_labels,
    validate_sample_weight,
)

__all__ = ["BaselineClassifier", "MergedBags", "Training"]


@dataclass(frozen=True)
class Training:
    """The bags that take part in a fit, with their classes and weights.

    Attributes
    ----------
    bags : Bags
        Without those of weight zero.
    rows : ndarray of shape (n_instances,)
        Rows of their instances in the bags that were passed.
    codes : ndarray of shape (n_bags,)
        Numbers of their classes.
    weights : ndarray of shape (n_bags,)
        Sample weights times class weights, above zero.
    sample_weights : ndarray of shape (n_bags,)
    classes : ndarray of shape (n_classes,)
    positive : int
        Number of the positive class of two; -1 where each class is positive in turn.
    noted : dict
        Fitted attributes of the validation.
    """

    bags: Bags
    rows: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    sample_weights: np.ndarray
    classes: np.ndarray
    positive: int
    noted: dict[str, Any]

    @property
    def sign(self) -> int:
        """1, or -1 where ``classes[0]`` is the positive class of two."""
        return -1 if self.positive == 0 else 1

    @property
    def instance_weights(self) -> np.ndarray:
        """The sample weight of its bag for each instance."""
        return self.sample_weights[self.bags.bag_index]

    def problems(self) -> Iterator[np.ndarray]:
        """Which bags are positive: once for two classes, for each class of more."""
        tasks = [self.positive] if self.positive >= 0 else range(len(self.classes))
        for task in tasks:
            yield self.codes == task

    def fitted(self) -> dict[str, Any]:
        """The fitted attributes that every classifier has."""
        return {**self.noted, "classes_": self.classes, "_positive_sign": self.sign}


@dataclass(frozen=True)
class MergedBags:
    """Bags as sets of distinct points in an order of their own, equal ones of a class merged.

    What is learnt by descent or from trees follows rounding and the order of rows: in this order a
    fit does not depend on that of the bags, and a weight of two is a repetition to the last digit.

    Attributes
    ----------
    kept : ndarray of shape (n_points,)
        A row of the instances of the training bags for each point.
    point_of : ndarray of shape (n_instances,)
        The point of each instance of the merged bags.
    offsets : ndarray of shape (n_bags + 1,)
    codes, weights, sample_weights : ndarray of shape (n_bags,)
        Those of equal bags added.
    """

    kept: np.ndarray
    point_of: np.ndarray
    offsets: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    sample_weights: np.ndarray

    @classmethod
    def of(cls, training: Training) -> MergedBags:
        """The bags of a fit."""
        bags = training.bags
        kept, point_of = distinct_points(bags.instances)
        merged: dict[tuple[int, ...], np.ndarray] = {}
        both = np.column_stack([training.weights, training.sample_weights])
        for bag in range(len(bags)):
            points = np.sort(point_of[bags.offsets[bag] : bags.offsets[bag + 1]])
            # The negative class first, whichever of two it is.
            first = int(training.codes[bag]) ^ (training.positive == 0)
            key = (first, *points.tolist())
            merged[key] = merged.get(key, 0.0) + both[bag]
        keys = sorted(merged)
        return cls(
            kept=kept,
            point_of=np.concatenate([key[1:] for key in keys]).astype(np.intp),
            offsets=np.cumsum([0, *(len(key) - 1 for key in keys)]),
            codes=np.array([key[0] ^ (training.positive == 0) for key in keys]),
            weights=np.array([merged[key][0] for key in keys]),
            sample_weights=np.array([merged[key][1] for key in keys]),
        )

    def problems(self, training: Training) -> Iterator[np.ndarray]:
        """Which of the merged bags are positive, as :meth:`Training.problems`."""
        tasks = [training.positive] if training.positive >= 0 else range(len(training.classes))
        for task in tasks:
            yield self.codes == task


class BaselineClassifier(BagClassifier):
    """Base of the classifiers that solve one problem for two classes and one per class for more."""

    def _training(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> Training:
        """Validate the arguments of ``fit``; parameters are looked at, nothing is stored."""
        bags, noted = self._validate_fit(X, **options)
        labels = validate_labels(self, y, bags)
        sample_weights = validate_sample_weight(sample_weight, bags)
        weighted = sample_weights > 0
        classes, codes, positive = encode_classes(
            labels[weighted], getattr(self, "pos_label", None)
        )
        weights = bag_weights(
            getattr(self, "class_weight", None), classes, codes, sample_weights[weighted]
        )
        # A bag of weight zero takes no part at all, as if it had been left out.
        used = np.flatnonzero(weighted)[weights > 0]
        codes, weights = codes[weights > 0], weights[weights > 0]
        if len(np.unique(codes)) < len(classes):
            raise ValueError("class_weight leaves a class without weight: a classifier needs two.")
        if len(used) == len(bags):
            rows, part = np.arange(bags.n_instances), bags
        else:
            taking_part = np.zeros(len(bags), dtype=bool)
            taking_part[used] = True
            rows, part = np.flatnonzero(taking_part[bags.bag_index]), bags[used]
        return Training(part, rows, codes, weights, sample_weights[used], classes, positive, noted)
