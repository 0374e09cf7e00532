"""Baselines: the classifiers of the literature that every method is compared with."""

from ._miles import MILES
from ._single_instance import SingleInstance

__all__ = ["MILES", "SingleInstance"]
