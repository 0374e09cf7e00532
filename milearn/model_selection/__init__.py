"""Splitters for bags, comparison of estimators, and evaluation with all bags in the graph."""

from ._compare import Comparison, Ranks, compare, rank_methods
from ._confounders import confounder_baseline
from ._permutation import label_permutation_test
from ._splitters import (
    BagShuffleSplit,
    RepeatedStratifiedBagKFold,
    SiteFolds,
    SiteKFold,
    SiteTest,
    StratifiedBagKFold,
    site_label_test,
)
from ._transductive import transductive_cross_val_score, transductive_grid_search

__all__ = [
    "BagShuffleSplit",
    "Comparison",
    "Ranks",
    "RepeatedStratifiedBagKFold",
    "SiteFolds",
    "SiteKFold",
    "SiteTest",
    "StratifiedBagKFold",
    "compare",
    "confounder_baseline",
    "label_permutation_test",
    "rank_methods",
    "site_label_test",
    "transductive_cross_val_score",
    "transductive_grid_search",
]
