"""Scores of instances by fitted models, and plots, which need matplotlib."""

from ._displays import BagScoresDisplay, CriticalDifferenceDisplay, permutation_importance
from ._instance_scores import InstanceScoresDisplay
from ._scores import cross_val_instance_scores, final_step, instance_scores
from ._share import ShareDisplay, ShareReport, share_report
from ._witness import WitnessDisplay

__all__ = [
    "BagScoresDisplay",
    "CriticalDifferenceDisplay",
    "InstanceScoresDisplay",
    "ShareDisplay",
    "ShareReport",
    "WitnessDisplay",
    "cross_val_instance_scores",
    "final_step",
    "instance_scores",
    "permutation_importance",
    "share_report",
]
