"""Survival analysis of bags: proportional hazards of the highest instances."""

from .._fit.outcomes import survival_outcomes
from ._mi_cox_ph import MICoxPH

__all__ = ["MICoxPH", "survival_outcomes"]
