"""Base class of the classifiers of this package: bags, labels and weights of a fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._bags import Bags
from .._bags.distinct import PointBags
from .._bags.segments import gather_rows
from .._fit.validation import TrainingLabels
from ..base import BagClassifier


@dataclass(frozen=True)
class Training:
    """The bags that are used in a fit, with their classes and weights."""

    # Without bags of weight zero.
    bags: Bags
    # Rows of their instances in the original bags.
    rows: np.ndarray
    # Their classes and weights.
    labels: TrainingLabels
    # Fitted attributes of the validation.
    noted: dict[str, Any]

    @property
    def instance_weights(self) -> np.ndarray:
        """The sample weight of the bag of each instance."""
        return self.labels.sample_weights[self.bags.bag_index]

    def problems(self, merged: PointBags | None = None) -> Iterator[np.ndarray]:
        """Masks of the positive bags, one for two classes and otherwise one per class.

        They are masks over the training bags, or over the given merged bags.
        """
        for task in self.labels.tasks:
            yield (self.labels.codes if merged is None else merged.codes) == task

    def merged(self) -> PointBags:
        """The bags in a canonical order, with equal bags merged."""
        return PointBags.of(
            self.bags,
            self.labels.codes,
            self.labels.weights,
            self.labels.sample_weights,
            mirrored=self.labels.positive == 0,
        )

    def fitted(self) -> dict[str, Any]:
        """The fitted attributes that all classifiers have in common."""
        return {**self.noted, "classes_": self.labels.classes, "_positive_sign": self.labels.sign}


class BaselineClassifier(BagClassifier):
    """Base class of classifiers that solve one problem for two classes, otherwise one per class."""

    def _training(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> Training:
        """Validate the parameters and the arguments of ``fit``, without storing anything."""
        bags, noted = self._validate_fit(X, **options)
        labels = TrainingLabels.of(self, y, bags, sample_weight)
        rows, _ = gather_rows(bags.offsets, labels.used)
        part = bags if len(labels.used) == len(bags) else bags[labels.used]
        return Training(part, rows, labels, noted)
