"""Proximal Newton over rows held in memory."""

from .direction import GroupPart as GroupPart
from .direction import Part as Part
from .engine import NewtonSolution as NewtonSolution
from .engine import solve as solve
from .groups import GroupProblem as GroupProblem
from .groups import project as project
from .groups import runs as runs
