"""Proximal Newton over rows held in memory."""

from .engine import NewtonSolution
from .groups import GroupProblem, solve_groups

__all__ = ["GroupProblem", "NewtonSolution", "solve_groups"]
