"""Proximal Newton over rows held in memory."""

from .direction import Part, Pooled, Rows
from .engine import NewtonSolution, solve
from .groups import GroupProblem, solve_groups
from .simplex import project

__all__ = [
    "GroupProblem",
    "NewtonSolution",
    "Part",
    "Pooled",
    "Rows",
    "project",
    "solve",
    "solve_groups",
]
