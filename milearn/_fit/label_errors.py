"""Errors for labels: missing ones, mixed types, and names of labels that are not in y."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from .._bags.canonical import is_missing


def check_label_types(y: Any) -> None:
    """Raise an error for missing labels, and for labels that are only partly strings."""
    missing = [label for label in y if is_missing(label)]
    if missing:
        raise ValueError(
            f"y holds {len(missing)} missing label(s) ({missing[0]!r}): leave these bags out, or "
            "fit an estimator that learns from bags without a label, such as MILSD."
        )
    texts = sum(isinstance(label, str) for label in y)
    if texts == len(y):
        return
    types = ", ".join(sorted({type(label).__name__ for label in y}))
    if texts:
        raise ValueError(
            f"y holds labels of mixed types ({types}): give every bag a label of the same type, a "
            "string or a whole number."
        )
    if all(isinstance(label, Real) for label in y):
        raise ValueError(
            f"Unknown label type: y is an array of Python objects ({types}); convert it to an "
            "array of whole numbers, as in np.array(y.tolist())."
        )


def unknown_label(named: str, label: Any, classes: np.ndarray) -> ValueError:
    """The error for a parameter that names a label which is not in y."""
    return ValueError(
        f"{named} not a label in y: the labels are {classes.tolist()}."
        f"{numbered_advice(classes, label)}"
    )


def numbered_advice(classes: np.ndarray, label: Any) -> str:
    """Advice for a parameter that names a class by a word where the classes are numbers."""
    numbered = classes.tolist() == list(range(len(classes)))
    if not (numbered and isinstance(label, str)):
        return ""
    return (
        " StackingClassifier, VotingClassifier and cross_val_predict of scores replace labels by "
        "their numbers in sorted order: name the class by its number there."
    )
