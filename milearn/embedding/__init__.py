"""Transformers from bags to rows, for any scikit-learn estimator."""

from ._codebook import VLAD, BagOfWords, FisherVector
from ._concepts import ConceptEmbedding
from ._dissimilarity import BagDissimilarity
from ._miles import MILESEmbedding

__all__ = [
    "VLAD",
    "BagDissimilarity",
    "BagOfWords",
    "ConceptEmbedding",
    "FisherVector",
    "MILESEmbedding",
]
