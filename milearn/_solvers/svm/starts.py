"""Starts of MI-SVM over rows, and the lowest of its ends.

The means of the bags are followed, and the highest instances under the best of several screened
directions, see :mod:`..common.screen`. Where there are many instances, a sample of the bags is
screened, and the lowest of its ends is the start.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import numpy as np

from ..._bags.blocks import PassSource
from ..common.cccp import SolverOptions, lowest
from ..common.descent import PassSolution, RowLimits
from ..common.passes import SampleLimits, bag_maxima, sampled_source
from ..common.screen import ScreenLimits, highest_rows, screened, targets_of
from .losses import Hinge
from .mi_svm_rows import Start, solve_from
from .objectives import MISVMProblem

# The bags that are screened where there are many: of a bag few instances decide.
SCREENED = SampleLimits(instances=5_000, numbers=2**26, bags=100)
# Numbers in all instances up to which the means are followed on all of them.
_MEANS = 2**24
# The steps by which screened starts are compared. On a sample, whose best end is followed, one
# rough step is enough; on small data it chooses starts whose ends are 3 to 5 % higher.
TRIAL, _SHORT_TRIAL = SolverOptions(0.03, 3), SolverOptions(0.1, 1)


def solve_mi_svm_rows(
    source: PassSource,
    loss: Hinge,
    slack: str,
    start: str | Start,
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
    start : {"auto", "mean"} or start
        The lowest end of several starts, the mean of each bag, or a start of ``solve_from``.
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
    several: list[Start] = [None if isinstance(start, str) else start]
    if isinstance(start, str) and start == "auto":
        several = starts_of(problem, sample)
    ends, n_iter, n_passes = [], 0, 0
    for each in several:
        own = options.after(n_iter)
        ends.append(solve_from(problem, each, own, max_passes=max_passes, limits=limits))
        n_iter, n_passes = n_iter + ends[-1].n_iter, n_passes + ends[-1].n_passes
        if ends[-1].stopped == "callback":
            break
    return replace(lowest(ends), n_passes=n_passes)


def starts_of(problem: MISVMProblem, limits: SampleLimits = SCREENED) -> list[Start]:
    """The means of bags and the best screened witnesses, or the lowest end of a sample.

    Of the screened directions, the one whose first steps end lowest is the best.
    """
    source, part, trial, many = problem.source, problem, TRIAL, False
    small = limits.holds_all(source.n_instances, source.n_features)
    if not small:
        part, trial = problem.part(*sampled_source(source, problem.ranks, limits)), _SHORT_TRIAL
        many = source.n_instances * source.n_features > _MEANS
    starts: list[Start] = [None]
    if _have_choice(part.source, part.upper):
        found = screened(part.source, targets_of(part.ranks, part.costs), part.costs)
        lengths = np.linalg.norm(found.directions, axis=1)
        directions = found.directions / np.maximum(lengths, 1e-300)[:, None]
        if many and source.n_features >= part.source.n_bags:
            # A function separates all labels of a sample: its ends follow noise, not directions.
            return [problem.along(directions[0], bag_maxima(source, directions[:1])[:, 0])]
        ends = []
        for direction, tops in zip(directions, bag_maxima(part.source, directions).T, strict=True):
            ends.append(solve_from(part, part.along(direction, tops), trial))
        best = int(np.argmin([*map(attrgetter("objective"), ends)]))
        if small:
            return [None, found.rows[best, part.upper]]
        # Where the means are followed on all instances, their end on the sample is not needed.
        starts = [None] * many + [(ends[best].w, ends[best].v)]
    if small:
        return starts
    options = SolverOptions(limits.tol, 100)
    ends = [solve_from(part, each, options, max_passes=limits.max_passes) for each in starts]
    lowest_end = min(ends, key=attrgetter("objective"))
    return [None] * (not many) + [(lowest_end.w, lowest_end.v)]


def _have_choice(source: PassSource, bags: np.ndarray) -> bool:
    """Whether the highest instance of some bags depends on a function."""
    return source.n_features > 0 and int(np.diff(source.offsets)[bags].max()) > 1


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
    if not _have_choice(source, positive):
        return np.zeros((0, len(positive)), dtype=np.intp)
    return screened(source, targets_of(values, weights), weights, limits).rows[:, positive]


def screened_rows(
    source: PassSource,
    targets: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Highest instance of each bag under the best direction of a screen on a sample of the bags.

    ``targets`` are numbers, with which the highest score should grow.
    """
    if SCREENED.holds_all(source.n_instances, source.n_features):
        return np.asarray(screened(source, targets_of(targets, weights), weights).rows[0])
    sample, bags = sampled_source(source, np.ones(source.n_bags), SCREENED)
    own = targets_of(targets[bags], weights[bags])
    found = screened(sample, own, weights[bags])
    return np.asarray(highest_rows(source, found.directions[:1])[0])
