"""The race of the starts: how precisely they are compared before the better ones are followed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RaceLimits:
    """Precision of the runs that only compare starts.

    Attributes
    ----------
    trial_tol : float
        Of the one step by which screened starts are compared with each other.
    tol : float
        Of the run from the best of them.
    near : float
        That run is continued precisely if its objective exceeds the lowest one by at most this
        fraction.
    """

    trial_tol: float = 0.1
    tol: float = 1e-3
    near: float = 3e-3

    def leaves(self, objective: float, other: float) -> bool:
        """Whether a rough run with an objective is not expected to end below another one."""
        return objective > (1.0 + self.near) * other
