"""Distances between bags, and measures of clusterings."""

from ._clustering import clustering_accuracy
from ._distances import bag_distances

__all__ = ["bag_distances", "clustering_accuracy"]
