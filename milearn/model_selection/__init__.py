"""Splitters for bags, comparison of estimators, and evaluation with all bags in the graph."""

from ._compare import Comparison, Ranks, compare, rank_methods
from ._confounders import confounder_baseline
from ._permutation import label_permutation_test
from ._splitters import BagShuffleSplit, StratifiedBagKFold
from ._transductive import transductive_cross_val_score, transductive_grid_search

__all__ = [
    "BagShuffleSplit",
    "Comparison",
    "Ranks",
    "StratifiedBagKFold",
    "compare",
    "confounder_baseline",
    "label_permutation_test",
    "rank_methods",
    "transductive_cross_val_score",
    "transductive_grid_search",
]
