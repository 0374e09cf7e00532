"""Splitters that know about bags: their classes, sizes, groups and missing labels."""

from ._shuffle import BagShuffleSplit
from ._stratified import RepeatedStratifiedBagKFold, StratifiedBagKFold

__all__ = ["BagShuffleSplit", "RepeatedStratifiedBagKFold", "StratifiedBagKFold"]
