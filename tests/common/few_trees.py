"""MIClassifier and MIRegressor with few trees and one inner fold, for checks: most of their time.

A module of its own, as worker processes import it to unpickle an estimator.
"""

from __future__ import annotations

from milearn import auto
from milearn.auto._plan import SizeLimits

FEW_TREES = SizeLimits(trees=10, test_bags=8)


class MIClassifier(auto.MIClassifier):
    """The classifier with forests of ten trees, scored on one fold."""

    _size_limits = FEW_TREES


class AllFolds(auto.MIClassifier):
    """The classifier with forests of ten trees."""

    _size_limits = SizeLimits(trees=10)


class MIRegressor(auto.MIRegressor):
    """The regressor with forests of ten trees, scored on one fold."""

    _size_limits = FEW_TREES
