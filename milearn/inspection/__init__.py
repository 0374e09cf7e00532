"""Scores of instances by fitted models, and plots, which need matplotlib."""

from ._displays import (
    BagScoresDisplay,
    CriticalDifferenceDisplay,
    ObjectiveDisplay,
    PermutationImportanceDisplay,
    RegularizationPathDisplay,
    StartsDisplay,
    permutation_importance,
)
from ._instance_scores import InstanceScoresDisplay
from ._scores import cross_val_instance_scores, final_step, instance_scores
from ._share import ShareDisplay
from ._share_report import ShareReport, share_report
from ._witness import WitnessDisplay

__all__ = [
    "BagScoresDisplay",
    "CriticalDifferenceDisplay",
    "InstanceScoresDisplay",
    "ObjectiveDisplay",
    "PermutationImportanceDisplay",
    "RegularizationPathDisplay",
    "ShareDisplay",
    "ShareReport",
    "StartsDisplay",
    "WitnessDisplay",
    "cross_val_instance_scores",
    "final_step",
    "instance_scores",
    "permutation_importance",
    "share_report",
]
