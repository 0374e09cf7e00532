"""Kernels and distances between bags, measures of clusterings, concordance, and group scores."""

from ._bag_kernels import bag_distances, bag_kernel
from ._scores import clustering_accuracy, concordance_index, group_scores, make_group_scorer

__all__ = [
    "bag_distances",
    "bag_kernel",
    "clustering_accuracy",
    "concordance_index",
    "group_scores",
    "make_group_scorer",
]
