"""Starts of MI-SVM over rows, and the lowest of its ends.

The means of the bags are followed, and the highest instances under the best of several screened
directions, see :mod:`..common.screen`. Where there are many instances, a sample of the bags is
screened, and the lowest of its ends is the start.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._bags.blocks import PassSource
from ..common.cccp import SolverOptions
from ..common.descent import PassSolution, RowLimits
from ..common.passes import SampleLimits, sampled_source
from ..common.screen import ScreenLimits, highest_rows, screened, targets_of
from .losses import Hinge
from .mi_svm_rows import MISVMProblem, Start, solve_from

# The bags that are screened where there are many.
SCREENED = SampleLimits.of_whole_bags()
# Numbers in all instances up to which the means are followed on all of them.
_MEANS = 2**24
# Number and gap of the steps by which screened starts are compared with each other.
_TRIAL_STEPS, _TRIAL_TOL = 3, 0.1


def solve_mi_svm_rows(
    source: PassSource,
    loss: Hinge,
    slack: str,
    start: str | np.ndarray,
    options: SolverOptions,
    *,
    max_passes: int = 200,
    limits: RowLimits | None = None,
    sample: SampleLimits = SCREENED,
) -> PassSolution:
    """MI-SVM over rows.

    Parameters
    ----------
    source : PassSource
    loss : Hinge
    slack : {"bag", "instance"}
        Whether a negative bag or each of its instances has a slack.
    start : {"auto", "mean"} or ndarray of int
        First witnesses: the lowest end of several starts, the mean of each bag, or given rows of
        shape (n_positive,). Of several starts, (n_starts, n_positive), the one with the lowest
        first objective is followed.
    options : SolverOptions
        ``tol`` is the relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes of each run.
    limits : RowLimits, default=None
    sample : SampleLimits
        Size of the sample for the starts.
    """
    ranks = (loss.signs > 0).astype(np.intp)
    problem = MISVMProblem(source, ranks, loss.weights, slack == "instance")
    several: list[Start] = [None]
    if not isinstance(start, str):
        several = [_lowest(problem, start, limits) if start.ndim == 2 else start]
    elif start == "auto":
        several = starts_of(problem, sample)
    ends, n_iter = [], 0
    for each in several:
        own = options.after(n_iter)
        ends.append(solve_from(problem, each, own, max_passes=max_passes, limits=limits))
        n_iter += ends[-1].n_iter
        if ends[-1].stopped == "callback":
            break
    best = min(ends, key=lambda end: end.objective)
    return replace(best, n_passes=sum(end.n_passes for end in ends))


def starts_of(problem: MISVMProblem, limits: SampleLimits = SCREENED) -> list[Start]:
    """The means of bags and the best screened witnesses, or the lowest end of a sample."""
    source = problem.source
    if limits.holds_all(source.n_instances, source.n_features):
        found = screened_witnesses(source, problem.ranks, problem.costs)
        return [None, _lowest(problem, found, None)] if len(found) else [None]
    sample, bags = sampled_source(source, problem.ranks, limits)
    part = problem.part(sample, bags)
    options = SolverOptions(limits.tol, 100)
    everything = replace(limits, instances=sample.n_instances)
    ends = [
        solve_from(part, each, options, max_passes=limits.max_passes)
        for each in starts_of(part, everything)
    ]
    best = min(ends, key=lambda end: end.objective)
    many = source.n_instances * source.n_features > _MEANS
    return [(best.w, best.v)] if many else [None, (best.w, best.v)]


def _lowest(problem: MISVMProblem, several: np.ndarray, limits: RowLimits | None) -> np.ndarray:
    """The witnesses of several starts whose first steps end lowest."""
    if len(several) == 1:
        return np.asarray(several[0])
    few = SolverOptions(_TRIAL_TOL, _TRIAL_STEPS)
    ends = [solve_from(problem, each, few, limits=limits) for each in several]
    return np.asarray(several[int(np.argmin([end.objective for end in ends]))])


def screened_witnesses(
    source: PassSource,
    values: np.ndarray,
    weights: np.ndarray,
    limits: ScreenLimits | None = None,
) -> np.ndarray:
    """Witnesses of the bags with positive values under each screened direction.

    The highest score should grow with the value, the sign or the rank of a bag. The shape is
    (n_starts, n_positive); without a choice there are no starts.
    """
    positive = np.flatnonzero(values > 0)
    if source.n_features == 0 or np.diff(source.offsets)[positive].max() == 1:
        return np.zeros((0, len(positive)), dtype=np.intp)
    return screened(source, targets_of(values, weights), weights, limits).rows[:, positive]


def screened_rows(
    source: PassSource,
    targets: np.ndarray,
    weights: np.ndarray,
    limits: SampleLimits = SCREENED,
) -> np.ndarray:
    """Highest instance of each bag under the best direction of a screen on a sample of the bags.

    ``targets`` are numbers, with which the highest score should grow.
    """
    if limits.holds_all(source.n_instances, source.n_features):
        return np.asarray(screened(source, targets_of(targets, weights), weights).rows[0])
    sample, bags = sampled_source(source, np.ones(source.n_bags), limits)
    own = targets_of(targets[bags], weights[bags])
    found = screened(sample, own, weights[bags])
    return np.asarray(highest_rows(source, found.directions[:1])[0])
