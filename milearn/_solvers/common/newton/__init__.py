"""Proximal Newton over rows held in memory."""

from .engine import GroupSolution, solve_groups
from .groups import GroupProblem

__all__ = ["GroupProblem", "GroupSolution", "solve_groups"]
