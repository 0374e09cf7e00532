"""Discovery and checks of estimators."""

from ._discovery import all_estimators

__all__ = ["all_estimators"]
