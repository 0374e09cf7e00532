"""Transformers of bags, and the baseline that learns from single instances."""

from ._bag_statistics import BagStatistics
from ._instance_transformer import InstanceTransformer
from ._single_instance import SingleInstance

__all__ = ["BagStatistics", "InstanceTransformer", "SingleInstance"]
