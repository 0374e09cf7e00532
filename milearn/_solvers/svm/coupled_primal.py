"""Bags coupled to their instances, in the primal over explicit features, by cutting planes.

The problem is that of :mod:`.coupled_cccp`, each convex step that of :mod:`.coupled_dual`, for a
weight vector w over explicit features. Two risks, the loss on bags and the coupling, are replaced
by cutting planes. The working set are the instances that have exceeded their bag so far; all
instances are scored only where the program over these is solved, so that a step costs few passes
over the data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.segments import segment_argmax, segment_index, segment_max
from ..common.cccp import cccp
from ..common.cutting_plane import CuttingPlaneOptions, RiskProblem, cutting_plane
from ..common.options import SolverOptions
from .bag_features import BagFeatures
from .coupled_cccp import (
    CoupledSolution,
    coupled_objective,
    equal_subgradient,
    top_subgradient,
)
from .losses import BagLoss, Coupling

__all__ = ["CoupledPrimalResult", "PrimalStep", "solve_coupled_primal", "solve_primal_step"]

_MAX_CUTS = 20_000


@dataclass(kw_only=True)
class CoupledPrimalResult(CoupledSolution):
    """A local minimum of J over explicit features.

    Attributes
    ----------
    w : ndarray of shape (dim,)
    n_working : int
        Largest working set of instances of a step.
    n_cuts, n_passes : int
        Cutting planes of all steps, and how often all instances were scored.
    """

    w: np.ndarray
    n_working: int
    n_cuts: int
    n_passes: int


@dataclass
class PrimalStep:
    """Solution of a convex step.

    Attributes
    ----------
    w, intercept : the point
    scores : ndarray of shape (n_instances,), without the intercept
    objective, gap : value of the convex problem, and its distance from the lower bound
    rows : ndarray of int, instances that exceed their bags
    n_working, n_cuts, n_passes : size of the working set, cutting planes, passes over the data
    """

    w: np.ndarray
    intercept: float
    scores: np.ndarray
    objective: float
    gap: float
    rows: np.ndarray
    n_working: int = 0
    n_cuts: int = 0
    n_passes: int = 0


@dataclass
class _PrimalPoint:
    objective: float
    dual_gap: float
    linearisation: np.ndarray
    intercept: float
    width: float
    step: PrimalStep = field(repr=False)


def solve_coupled_primal(
    bags: BagFeatures,
    loss: BagLoss,
    coupling: Coupling,
    start: np.ndarray | None,
    options: SolverOptions,
    inner_tol: float,
) -> CoupledPrimalResult:
    """Minimise J.

    Parameters
    ----------
    bags : BagFeatures
    loss : Hinge or Tube
    coupling : Coupling
    start : ndarray of shape (n_instances,) or None
        First subgradient, as in :func:`.coupled_cccp.solve_coupled`.
    options : SolverOptions
    inner_tol : float
        Relative gap of a convex step; a step that finds nothing better than the point before it
        within that gap ends the run.
    """
    offsets, qp_solver = bags.offsets, options.qp_solver
    n_working = n_cuts = n_passes = 0

    def step(subgradient: np.ndarray, previous: _PrimalPoint | None, _: float) -> _PrimalPoint:
        nonlocal n_working, n_cuts, n_passes
        found = solve_primal_step(
            bags,
            loss,
            coupling,
            subgradient,
            tol=inner_tol,
            qp_solver=qp_solver,
            start=None if previous is None else previous.step,
        )
        n_working, n_cuts = max(n_working, found.n_working), n_cuts + found.n_cuts
        n_passes += found.n_passes
        value, intercept, width = coupled_objective(
            float(found.w @ found.w),
            np.asarray(bags.bags @ found.w),
            segment_max(found.scores, offsets),
            loss,
            coupling,
        )
        if previous is not None and value > previous.objective:
            # The convex problem touches the objective at the point before: what is no better
            # than that within the gap is the end.
            return previous
        linearisation = top_subgradient(found.scores, offsets)
        return _PrimalPoint(value, found.gap, linearisation, intercept, width, found)

    if start is None:
        svm = solve_primal_step(
            bags,
            loss,
            Coupling.none(bags.n_bags),
            equal_subgradient(offsets),
            tol=inner_tol,
            qp_solver=qp_solver,
        )
        start = top_subgradient(svm.scores, offsets)
        n_cuts, n_passes = svm.n_cuts, svm.n_passes
    run = cccp(step, start, options, inner_tol)
    point: _PrimalPoint = run.point
    return CoupledPrimalResult(
        **run.outcome(),
        objective_scale=loss.objective_scale,
        intercept=point.intercept,
        width=point.width,
        w=point.step.w,
        n_working=n_working,
        n_cuts=n_cuts,
        n_passes=n_passes,
    )


def solve_primal_step(
    bags: BagFeatures,
    loss: BagLoss,
    coupling: Coupling,
    subgradient: np.ndarray,
    *,
    tol: float,
    qp_solver: str | None = None,
    start: PrimalStep | None = None,
) -> PrimalStep:
    """Solve a convex step to a relative gap of ``tol``, from a neighbouring solution."""
    at_zero = _zero_solution(bags, loss)
    if at_zero.gap <= tol * loss.objective_scale:
        return at_zero
    risks = _Risks(bags, loss, coupling, subgradient, tol)
    first = None
    if start is not None:
        risks.add(start.rows)
        first = (start.w, np.full(risks.n_free, start.intercept))
    found = cutting_plane(
        RiskProblem(
            risks.oracle,
            bags.dim,
            np.ones(risks.n_risks),
            n_free=risks.n_free,
            refine=risks.refine,
        ),
        CuttingPlaneOptions(gap_tol=tol, max_iter=_MAX_CUTS, qp_solver=qp_solver),
        start=first,
    )
    value, _ = risks.whole(found.w, found.b)
    return PrimalStep(
        w=found.w,
        intercept=risks.intercept,
        scores=risks.scores,
        objective=value,
        gap=max(0.0, value - found.lower_bound),
        rows=risks.rows[risks.active(found.w)],
        n_working=len(risks.rows),
        n_cuts=found.n_iter,
        n_passes=risks.n_passes,
    )


def _zero_solution(bags: BagFeatures, loss: BagLoss) -> PrimalStep:
    """w = 0, where all scores agree and the objective, which is never negative, is the loss.

    Where targets are constant it is the solution, and what a relative gap would still ask for is
    below rounding.
    """
    scores = np.zeros(bags.n_bags)
    intercept, _ = loss.free(scores)
    value = loss.value(scores, intercept)
    return PrimalStep(
        w=np.zeros(bags.dim),
        intercept=intercept,
        scores=np.zeros(bags.n_instances),
        objective=value,
        gap=value,
        rows=np.zeros(0, dtype=np.intp),
    )


class _Risks:
    """The loss on bags and the coupling, over a working set of instances."""

    def __init__(
        self,
        bags: BagFeatures,
        loss: BagLoss,
        coupling: Coupling,
        subgradient: np.ndarray,
        tol: float,
    ) -> None:
        self.bags, self.loss, self.coupling, self.tol = bags, loss, coupling, tol
        self.subgradient = subgradient
        self.hard = coupling.hard
        sizes = np.diff(bags.offsets)
        # The one instance of a bag of one is the bag: nothing to couple.
        self.weights = np.where(sizes > 1, 0.0 if self.hard else coupling.weights, 0.0)
        self.coupled = bool((self.weights > 0).any())
        self.mix = bags.mixtures(subgradient) if self.coupled or self.hard else None
        self.owner = segment_index(bags.offsets)
        self.rows = np.zeros(0, dtype=np.intp)
        self.vectors: Any = np.zeros((0, bags.dim))
        self.n_free = 0 if self.hard else 1
        self.n_risks = 2 if self.coupled else 1
        self.n_passes = 0
        self.intercept = 0.0
        self.scores = np.zeros(bags.n_instances)
        self._scored: np.ndarray | None = None

    def add(self, rows: np.ndarray) -> None:
        """Add instances to the working set."""
        if not (self.coupled or self.hard):
            return
        rows = np.setdiff1d(rows, self.rows)
        # An instance of weight one is the mixture itself.
        rows = rows[self.subgradient[rows] < 1.0]
        if len(rows) == 0:
            return
        fresh = self.bags.instances(rows)
        stack = sparse.vstack if sparse.issparse(fresh) else np.concatenate
        if len(self.rows):
            fresh = stack([self.vectors, fresh])
            rows = np.concatenate([self.rows, rows])
        order = np.argsort(rows, kind="stable")
        self.rows, self.vectors = (
            rows[order],
            fresh.tocsr()[order] if sparse.issparse(fresh) else fresh[order],
        )

    def _top(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Highest score in the working set of each bag (-inf: none), and its place."""
        highest = np.full(self.bags.n_bags, -np.inf)
        place = np.full(self.bags.n_bags, -1)
        if len(self.rows):
            values = np.asarray(self.vectors @ w)
            owner = self.owner[self.rows]
            np.maximum.at(highest, owner, values)
            best = np.flatnonzero(values == highest[owner])[::-1]
            place[owner[best]] = best
        return highest, place

    def _parts(self, w: np.ndarray) -> tuple[np.ndarray, ...]:
        bag = np.asarray(self.bags.bags @ w)
        mixed = bag if self.mix is None else np.asarray(self.mix @ w)
        highest, place = self._top(w)
        return bag, mixed, highest, place

    def active(self, w: np.ndarray) -> np.ndarray:
        """Which instances of the working set decide the value of their bags."""
        _, mixed, highest, place = self._parts(w)
        bag = mixed if self.hard else np.asarray(self.bags.bags @ w)
        least = mixed - bag if self.hard else np.maximum(abs(bag - mixed), self.coupling.margin)
        deciding = place[(place >= 0) & (highest - bag >= least)]
        chosen = np.zeros(len(self.rows), dtype=bool)
        chosen[deciding] = True
        return chosen

    def oracle(self, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values of the risks and a subgradient of each."""
        bag, mixed, highest, place = self._parts(w)
        on_rows = np.zeros(len(self.rows))
        if self.hard:
            upper = np.maximum(mixed, highest)
            value = self.loss.split(upper, mixed)[1]
            above, below = self.loss.split_slopes(upper, mixed)
            by_row = highest > mixed
            on_rows[place[by_row]] = above[by_row]
            on_mix = below + np.where(by_row, 0.0, above)
            slope = self._product(self.mix, on_mix) + self._product(self.vectors, on_rows)
            return np.array([value]), slope[None], np.zeros((1, 0))
        data = self.loss.slopes(bag, b[0])
        values = [self.loss.value(bag, b[0])]
        slopes = [self._product(self.bags.bags, data)]
        # What rounding leaves of a sum that is zero would be a slope down to an intercept far away.
        level = float(data.sum())
        free = [level if abs(level) > 1e-12 * float(np.abs(data).sum()) else 0.0]
        if self.coupled:
            # The mixture is an instance or between some: it may not exceed the bag either.
            gap, above = bag - mixed, highest - bag
            excess = np.maximum(0.0, np.maximum(np.abs(gap), above) - self.coupling.margin)
            squared = self.coupling.squared
            price = self.weights * (excess**2 if squared else excess)
            rate = self.weights * (2.0 * excess if squared else excess > 0)
            by_row = above > np.abs(gap)
            on_rows[place[by_row]] = rate[by_row]
            on_bag = np.where(by_row, -1.0, np.sign(gap)) * rate
            on_mix = np.where(by_row, 0.0, -np.sign(gap)) * rate
            slope = self._product(self.bags.bags, on_bag)
            slope += self._product(self.mix, on_mix) + self._product(self.vectors, on_rows)
            values.append(float(price.sum()))
            slopes.append(slope)
            free.append(0.0)
        return np.array(values), np.stack(slopes), np.array(free)[:, None]

    @staticmethod
    def _product(vectors: Any, coef: np.ndarray) -> np.ndarray:
        return np.asarray(vectors.T @ coef)

    def whole(self, w: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
        """Value of the convex problem over all instances, and by how much bags are exceeded."""
        if self._scored is None or not np.array_equal(w, self._scored):
            self.scores = self.bags.scores(w)
            self._scored = w.copy()
            self.n_passes += 1
        bag, mixed, modelled, _ = self._parts(w)
        highest = segment_max(self.scores, self.bags.offsets)
        value = 0.5 * float(w @ w)
        if self.hard:
            self.intercept, risk = self.loss.split(highest, mixed)
            return value + risk, highest - np.maximum(mixed, modelled)
        self.intercept = float(b[0])
        value += self.loss.value(bag, self.intercept)
        if not self.coupled:
            return value, np.zeros(len(bag))
        margin, squared = self.coupling.margin, self.coupling.squared
        known = np.maximum(np.abs(bag - mixed), modelled - bag)
        excess = np.maximum(0.0, np.maximum(bag - mixed, highest - bag) - margin)
        value += float(self.weights @ (excess**2 if squared else excess))
        missed = excess - np.maximum(known - margin, 0.0)
        return value, np.where(self.weights > 0, missed, 0.0)

    def refine(self, w: np.ndarray, b: np.ndarray, lower: float) -> bool:
        """Add the highest instance of each bag that exceeds what is known of it."""
        value, missed = self.whole(w, b)
        if value - lower <= self.tol * max(abs(value), self.loss.objective_scale):
            return False
        # What all bags together may miss without being noticed.
        cost = self.loss.weights if self.hard else self.weights
        noticed = 0.1 * self.tol * abs(value) / max(float(cost.sum()), 1e-300)
        wrong = missed > noticed
        highest = segment_argmax(self.scores, self.bags.offsets)[wrong]
        known = len(self.rows)
        self.add(highest)
        return len(self.rows) > known
