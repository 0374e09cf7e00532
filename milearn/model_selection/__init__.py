"""Splitters for bags, and transductive evaluation with all bags in the graph."""

from ._shuffle import BagShuffleSplit
from ._sites import SiteFolds, SiteKFold, SiteTest, site_label_test
from ._stratified import RepeatedStratifiedBagKFold, StratifiedBagKFold
from ._transductive import transductive_cross_val_score, transductive_grid_search

__all__ = [
    "BagShuffleSplit",
    "RepeatedStratifiedBagKFold",
    "SiteFolds",
    "SiteKFold",
    "SiteTest",
    "StratifiedBagKFold",
    "site_label_test",
    "transductive_cross_val_score",
    "transductive_grid_search",
]
