"""Transformers of bags."""

from ._bag_data import AppendBagData, BagData
from ._bag_statistics import BagStatistics
from ._instance_transformer import ClippedScaler, InstanceTransformer

__all__ = ["AppendBagData", "BagData", "BagStatistics", "ClippedScaler", "InstanceTransformer"]
