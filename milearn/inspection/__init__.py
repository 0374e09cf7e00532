"""Scores of instances by fitted models, and plots, which need matplotlib."""

from ._bag_scores import BagScoresDisplay
from ._critical_difference import CriticalDifferenceDisplay
from ._importance import PermutationImportanceDisplay, permutation_importance
from ._instance_scores import InstanceScoresDisplay
from ._objective import ObjectiveDisplay, StartsDisplay
from ._path import RegularizationPathDisplay
from ._scores import final_step, instance_scores
from ._witness import WitnessDisplay

__all__ = [
    "BagScoresDisplay",
    "CriticalDifferenceDisplay",
    "InstanceScoresDisplay",
    "ObjectiveDisplay",
    "PermutationImportanceDisplay",
    "RegularizationPathDisplay",
    "StartsDisplay",
    "WitnessDisplay",
    "final_step",
    "instance_scores",
    "permutation_importance",
]
