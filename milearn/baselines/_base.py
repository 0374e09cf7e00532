"""Base class of the classifiers of this package: bags, labels and weights of a fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._bags import Bags
from ..base import BagClassifier
from ..embedding._merged import MergedBags
from ..utils.validation import (
    bag_weights,
    encode_classes,
    validate_labels,
    validate_sample_weight,
)

__all__ = ["BaselineClassifier", "Training"]


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

    def problems(self, merged: MergedBags | None = None) -> Iterator[np.ndarray]:
        """Which bags are positive: once for two classes, for each class of more.

        Of the training bags, or of those that they were merged to.
        """
        tasks = [self.positive] if self.positive >= 0 else range(len(self.classes))
        for task in tasks:
            yield (self.codes if merged is None else merged.codes) == task

    def merged(self) -> MergedBags:
        """The bags in an order of their own."""
        return MergedBags.of(
            self.bags,
            self.codes,
            self.weights,
            self.sample_weights,
            mirrored=self.positive == 0,
        )

    def fitted(self) -> dict[str, Any]:
        """The fitted attributes that every classifier has."""
        return {**self.noted, "classes_": self.classes, "_positive_sign": self.sign}


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
