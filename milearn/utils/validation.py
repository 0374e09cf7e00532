"""Validation of bags, labels and weights, for third-party estimators."""

from .._fit.validation import (
    as_bags,
    bag_weights,
    check_bags,
    encode_classes,
    missing_labels,
    validate_bags,
    validate_labels,
    validate_sample_weight,
)

__all__ = [
    "as_bags",
    "bag_weights",
    "check_bags",
    "encode_classes",
    "missing_labels",
    "validate_bags",
    "validate_labels",
    "validate_sample_weight",
]
