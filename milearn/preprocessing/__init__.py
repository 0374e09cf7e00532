"""Transformers of bags."""

from ._bag_statistics import BagStatistics
from ._instance_transformer import InstanceTransformer

__all__ = ["BagStatistics", "InstanceTransformer"]
