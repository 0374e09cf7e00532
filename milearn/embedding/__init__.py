"""Transformers from bags to rows, for any scikit-learn estimator behind them."""

from ._miles import MILESEmbedding

__all__ = ["MILESEmbedding"]
