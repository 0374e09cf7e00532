"""Estimators that need no settings: they scale, choose between ways to learn, and calibrate."""

from ._classifier import MIClassifier
from ._regressor import MIRegressor

__all__ = ["MIClassifier", "MIRegressor"]
