"""Proximal Newton over rows held in memory."""

from .direction import Part as Part
from .direction import Pooled as Pooled
from .direction import Rows as Rows
from .engine import NewtonSolution as NewtonSolution
from .engine import solve as solve
from .groups import GroupProblem as GroupProblem
from .groups import solve_groups as solve_groups
from .simplex import project as project
