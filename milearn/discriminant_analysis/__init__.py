"""Discriminants of bags: a share of the instances decides."""

from ._share import ShareDiscriminant, ShareRegressor

__all__ = ["ShareDiscriminant", "ShareRegressor"]
