"""Kernels and distances between bags, and measures of clusterings."""

from ._bag_kernels import bag_kernel
from ._clustering import clustering_accuracy
from ._distances import bag_distances

__all__ = ["bag_distances", "bag_kernel", "clustering_accuracy"]
