"""Starts of the procedure: the means of bags, and directions of :mod:`..common.screen`.

The highest score of a bag should grow with its martingale residual for w = 0, the weight of its
event less the number that is expected of it: these are the slopes of the losses, and their sum over
a group is that of the log-rank test.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..common.cccp import SolverOptions
from ..common.passes import SampleLimits, sampled_source
from ..common.screen import ScreenLimits, screened
from .likelihood import PartialLikelihood
from .passes import CoxProblem, CoxStart, solve_cox_maximum


@dataclass(frozen=True)
class StartLimits:
    """Extent of the search for starts.

    Attributes
    ----------
    screen : ScreenLimits
    sample : SampleLimits
        The bags of the screen. Where they are not all, its directions and the means are followed
        on them, to the tolerance and by the passes given there.
    trial_tol : float
        Gap of the one step of the best end and of the means on all bags, of which one is followed.
    """

    screen: ScreenLimits = field(default_factory=lambda: ScreenLimits(kept=2))
    sample: SampleLimits = field(
        default_factory=lambda: SampleLimits(
            per_feature=2**20, numbers=2**24, bags=200, tol=1e-4, max_passes=30
        )
    )
    trial_tol: float = 5e-4


def martingale_residuals(likelihood: PartialLikelihood, weights: np.ndarray) -> np.ndarray:
    """Residuals of subjects with these weights for scores of zero; their weighted sum is zero."""
    pull = likelihood.event_weights - likelihood.slopes(np.zeros(likelihood.n))
    return np.asarray(np.divide(pull, weights, out=np.zeros(len(pull)), where=weights > 0))


def screened_starts(
    problem: CoxProblem, weights: np.ndarray, limits: StartLimits | None = None
) -> list[CoxStart]:
    """The means of bags and the best directions, or one start that a sample and a trial select.

    Parameters
    ----------
    problem : CoxProblem
    weights : ndarray of shape (n_bags,)
    limits : StartLimits, default=None
    """
    limits = StartLimits() if limits is None else limits
    source, likelihood = problem.source, problem.likelihood
    if source.n_instances == source.n_bags:
        return [CoxStart()]
    if limits.sample.holds_all(source.n_instances, source.n_features):
        targets = martingale_residuals(likelihood, weights)
        if np.ptp(targets) == 0:
            return [CoxStart()]
        found = screened(source, targets, weights, limits.screen)
        return [CoxStart(), *map(CoxStart, found.rows)]
    signs = np.where(likelihood.event_weights > 0, 1.0, -1.0)
    sample, bags = sampled_source(source, signs, limits.sample)
    everything = replace(limits.sample, instances=sample.n_instances)
    part = replace(problem, source=sample, likelihood=likelihood.of(bags))
    starts = screened_starts(part, weights[bags], replace(limits, sample=everything))
    best = _best_end(part, starts, limits.sample.tol, 100, limits.sample.max_passes)
    return [_best_end(problem, [CoxStart(), best], limits.trial_tol, 1)]


def _best_end(
    problem: CoxProblem,
    starts: list[CoxStart],
    gap_tol: float,
    max_iter: int,
    max_passes: int = 500,
) -> CoxStart:
    """The lowest end of the procedure, as a start."""
    options = SolverOptions(gap_tol, max_iter)
    ends = [
        solve_cox_maximum(problem, start, options, gap_tol, max_passes=max_passes)
        for start in starts
    ]
    return CoxStart(w=min(ends, key=lambda end: end.objective).w)
