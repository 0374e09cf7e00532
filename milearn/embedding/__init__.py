"""Transformers from bags to rows, for any scikit-learn estimator."""

from ._codebook import VLAD, BagOfWords, FisherVector
from ._prototypes import BagDissimilarity, ConceptEmbedding, MILESEmbedding

__all__ = [
    "VLAD",
    "BagDissimilarity",
    "BagOfWords",
    "ConceptEmbedding",
    "FisherVector",
    "MILESEmbedding",
]
