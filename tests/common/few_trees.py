"""MIClassifier and MIRegressor with few trees, one inner fold and no parts, for quick checks.

A module of its own, as worker processes import it to unpickle an estimator.
"""

from __future__ import annotations

from milearn import auto
from milearn.auto._plan import SizeLimits

FEW_TREES = SizeLimits(trees=10, test_bags=8, n_parts=0)


class MIClassifier(auto.MIClassifier):
    """The classifier with forests of ten trees, scored on one fold."""

    _size_limits = FEW_TREES


class AllFolds(auto.MIClassifier):
    """The classifier with forests of ten trees, and five parts for shares."""

    _size_limits = SizeLimits(trees=10, n_parts=5)


class MIRegressor(auto.MIRegressor):
    """The regressor with forests of ten trees, scored on one fold."""

    _size_limits = FEW_TREES
