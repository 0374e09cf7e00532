"""The difference that rounding alone explains."""

from __future__ import annotations

__all__ = ["RELATIVE_TIE"]

# Relative difference up to which two values (scores, objectives, distances) count as equal.
RELATIVE_TIE = 1e-9
