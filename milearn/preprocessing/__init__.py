"""Transformers of bags."""

from ._bag_data import AppendBagData, BagData
from ._bag_statistics import BagStatistics
from ._clipped import ClippedScaler
from ._instance_transformer import InstanceTransformer

__all__ = ["AppendBagData", "BagData", "BagStatistics", "ClippedScaler", "InstanceTransformer"]
