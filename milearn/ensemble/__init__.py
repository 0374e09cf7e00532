"""Boosting by linear programs."""

from .._solvers.ensemble.learners import Ball, FittedClassifier, Stump
from ._dpboost import DPBoost
from ._lpboost import LPBoost

__all__ = ["Ball", "DPBoost", "FittedClassifier", "LPBoost", "Stump"]
