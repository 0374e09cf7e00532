"""Baselines: estimators that know nothing of bags."""

from ._single_instance import SingleInstance

__all__ = ["SingleInstance"]
