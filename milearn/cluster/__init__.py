"""Clustering of bags."""

from ._bamic import BAMIC
from ._m3ic import M3IC

__all__ = ["BAMIC", "M3IC"]
