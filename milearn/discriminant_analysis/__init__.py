"""Discriminants of bags: the share of the highest instances that decides is learnt."""

from ._share import ShareDiscriminant, ShareRegressor

__all__ = ["ShareDiscriminant", "ShareRegressor"]
