"""Boosting by linear programs."""

from ._dpboost import DPBoost
from ._lpboost import LPBoost

__all__ = ["DPBoost", "LPBoost"]
