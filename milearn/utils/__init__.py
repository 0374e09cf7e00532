"""Discovery and checks of estimators, and validation of bags."""

from ._discovery import all_estimators

__all__ = ["all_estimators"]
