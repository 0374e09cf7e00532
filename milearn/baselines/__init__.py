"""Baselines: classifiers from the literature for comparisons."""

from ._blrt import BLRT
from ._citation_knn import CitationKNN
from ._ddsvm import DDSVM
from ._diverse_density import EMDD, DiverseDensity
from ._miforest import MIForest
from ._milboost import MILBoost
from ._miles import MILES
from ._sequence_abundance import SequenceAbundanceClassifier
from ._single_instance import SingleInstance
from ._sparse_misvc import SparseMISVC

__all__ = [
    "BLRT",
    "DDSVM",
    "EMDD",
    "MILES",
    "CitationKNN",
    "DiverseDensity",
    "MIForest",
    "MILBoost",
    "SequenceAbundanceClassifier",
    "SingleInstance",
    "SparseMISVC",
]
