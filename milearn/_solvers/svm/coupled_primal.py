"""Bags coupled to their instances, in the primal over explicit features, by cutting planes.

The problem is that of :mod:`.coupled_cccp`, each convex step that of :mod:`.coupled_dual`, for a
weight vector w over explicit features. Two risks, the loss on bags and the coupling, are replaced
by cutting planes. Of the instances those are looked at that have exceeded their bag so far; all of
them are scored only where the program over these is solved, so that a step costs few passes over
the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.segments import segment_argmax, segment_index, segment_max
from ..common.cccp import cccp
from ..common.cutting_plane import CuttingPlaneOptions, RiskProblem, cutting_plane
from .bag_features import FeatureObjects
from .coupled_cccp import (
    coupled_objective,
    equal_shares,
    outcome,
    top_shares,
)
from .coupled_dual import Coupling
from .losses import Hinge, Tube

__all__ = ["FeatureResult", "FeatureStep", "solve_coupled_features", "solve_feature_step"]

_MOST_CUTS = 20_000


@dataclass
class FeatureResult:
    """A local minimum; the attributes are those of :class:`.coupled_cccp.CoupledResult`.

    ``w`` are the weights of the features, ``n_passes`` how often all instances were scored.
    """

    w: np.ndarray
    intercept: float
    width: float
    objective: float
    history: list[float]
    n_iter: int
    converged: bool
    gap: float
    n_rows: int
    n_cuts: int
    n_passes: int


@dataclass
class FeatureStep:
    """Solution of a convex step.

    Attributes
    ----------
    w, intercept : the point
    scores : ndarray of shape (n_instances,), without the intercept
    objective, gap : value of the convex problem, and its distance from the lower bound
    rows : ndarray of int, instances that exceed their bags
    n_rows, n_cuts, n_passes : instances looked at, calls of the oracle, passes over the data
    """

    w: np.ndarray
    intercept: float
    scores: np.ndarray
    objective: float
    gap: float
    rows: np.ndarray
    n_rows: int = 0
    n_cuts: int = 0
    n_passes: int = 0


@dataclass
class _Point:
    objective: float
    gap: float
    linearisation: np.ndarray
    intercept: float
    width: float
    step: FeatureStep = field(repr=False)


def solve_coupled_features(
    objects: FeatureObjects,
    loss: Hinge | Tube,
    coupling: Coupling,
    *,
    start: np.ndarray | None = None,
    tol: float,
    inner_tol: float,
    max_iter: int,
    qp_solver: str | None = None,
    on_iteration: Callable[[int, float], bool] | None = None,
) -> FeatureResult:
    """Minimise J; the parameters are those of :func:`.coupled_cccp.solve_coupled`.

    ``inner_tol`` is the relative gap of a convex step; a step that finds nothing better than the
    point before it within that gap ends the run.
    """
    n_rows = n_cuts = n_passes = 0

    def step(shares: np.ndarray, before: _Point | None, inner: float) -> _Point:
        nonlocal n_rows, n_cuts, n_passes
        found = solve_feature_step(
            objects,
            loss,
            coupling,
            shares,
            tol=inner_tol,
            qp_solver=qp_solver,
            start=None if before is None else before.step,
        )
        n_rows, n_cuts = max(n_rows, found.n_rows), n_cuts + found.n_cuts
        n_passes += found.n_passes
        highest = segment_max(found.scores, objects.offsets)
        bag_scores = np.asarray(objects.bags @ found.w)
        value, intercept, width = coupled_objective(
            float(found.w @ found.w), bag_scores, highest, loss, coupling
        )
        if before is not None and value > before.objective:
            # The convex problem touches the objective at the point before: what is no better
            # than that within the gap is the end.
            return before
        linearisation = top_shares(found.scores, objects.offsets)
        return _Point(value, found.gap, linearisation, intercept, width, found)

    if start is None:
        alone = Coupling("l1", np.zeros(objects.n_bags))
        equal = equal_shares(objects.offsets)
        machine = solve_feature_step(
            objects, loss, alone, equal, tol=inner_tol, qp_solver=qp_solver
        )
        start = top_shares(machine.scores, objects.offsets)
        n_cuts, n_passes = machine.n_cuts, machine.n_passes
    run = cccp(
        step, start, tol=tol, max_iter=max_iter, inner_tol=inner_tol, on_iteration=on_iteration
    )
    return FeatureResult(
        w=run.point.step.w, n_rows=n_rows, n_cuts=n_cuts, n_passes=n_passes, **outcome(run)
    )


def solve_feature_step(
    objects: FeatureObjects,
    loss: Hinge | Tube,
    coupling: Coupling,
    shares: np.ndarray,
    *,
    tol: float,
    qp_solver: str | None = None,
    start: FeatureStep | None = None,
) -> FeatureStep:
    """Solve a convex step to a relative gap of ``tol``, from a neighbouring solution."""
    risks = _Risks(objects, loss, coupling, shares, tol)
    first = None
    if start is not None:
        risks.add(start.rows)
        first = (start.w, np.full(risks.n_free, start.intercept))
    found = cutting_plane(
        RiskProblem(
            risks.oracle,
            objects.dim,
            np.ones(risks.n_risks),
            n_free=risks.n_free,
            refine=risks.refine,
        ),
        CuttingPlaneOptions(gap_tol=tol, max_iter=_MOST_CUTS, qp_solver=qp_solver),
        start=first,
    )
    value, _ = risks.whole(found.w, found.b)
    return FeatureStep(
        w=found.w,
        intercept=risks.intercept,
        scores=risks.scores,
        objective=value,
        gap=max(0.0, value - found.lower_bound),
        rows=risks.rows[risks.active(found.w)],
        n_rows=len(risks.rows),
        n_cuts=found.n_iter,
        n_passes=risks.n_passes,
    )


class _Risks:
    """The loss on bags and the coupling, over the instances that are looked at."""

    def __init__(
        self,
        objects: FeatureObjects,
        loss: Hinge | Tube,
        coupling: Coupling,
        shares: np.ndarray,
        tol: float,
    ) -> None:
        self.objects, self.loss, self.coupling, self.tol = objects, loss, coupling, tol
        self.shares = shares
        self.hard = coupling.loss == "max"
        sizes = np.diff(objects.offsets)
        # The one instance of a bag of one is the bag: nothing to couple.
        self.weights = np.where(sizes > 1, 0.0 if self.hard else coupling.weights, 0.0)
        self.coupled = bool((self.weights > 0).any())
        self.mix = objects.mixtures(shares) if self.coupled or self.hard else None
        self.owner = segment_index(objects.offsets)
        self.rows = np.zeros(0, dtype=np.intp)
        self.vectors: Any = np.zeros((0, objects.dim))
        self.n_free = 0 if self.hard else 1
        self.n_risks = 2 if self.coupled else 1
        self.n_passes = 0
        self.intercept = 0.0
        self.scores = np.zeros(objects.n_instances)
        self._scored: np.ndarray | None = None

    def add(self, rows: np.ndarray) -> None:
        """Look at these instances from now on."""
        if not (self.coupled or self.hard):
            return
        rows = np.setdiff1d(rows, self.rows)
        # An instance that has the whole share is the mixture itself.
        rows = rows[self.shares[rows] < 1.0]
        if len(rows) == 0:
            return
        fresh = self.objects.instances(rows)
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
        """Highest score among the rows looked at of each bag (-inf: none), and its place."""
        highest = np.full(self.objects.n_bags, -np.inf)
        place = np.full(self.objects.n_bags, -1)
        if len(self.rows):
            values = np.asarray(self.vectors @ w)
            owner = self.owner[self.rows]
            np.maximum.at(highest, owner, values)
            best = np.flatnonzero(values == highest[owner])[::-1]
            place[owner[best]] = best
        return highest, place

    def _parts(self, w: np.ndarray) -> tuple[np.ndarray, ...]:
        bag = np.asarray(self.objects.bags @ w)
        mixed = bag if self.mix is None else np.asarray(self.mix @ w)
        highest, place = self._top(w)
        return bag, mixed, highest, place

    def active(self, w: np.ndarray) -> np.ndarray:
        """Which of the rows looked at decide the value of their bags."""
        _, mixed, highest, place = self._parts(w)
        bag = mixed if self.hard else np.asarray(self.objects.bags @ w)
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
            assert isinstance(self.loss, Tube)
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
        slopes = [self._product(self.objects.bags, data)]
        # What rounding leaves of a sum that is zero would be a slope down to an intercept far away.
        level = float(data.sum())
        free = [level if abs(level) > 1e-12 * float(np.abs(data).sum()) else 0.0]
        if self.coupled:
            # The mixture is an instance or between some: it may not exceed the bag either.
            gap, above = bag - mixed, highest - bag
            excess = np.maximum(0.0, np.maximum(np.abs(gap), above) - self.coupling.margin)
            squared = self.coupling.loss == "l2"
            price = self.weights * (excess**2 if squared else excess)
            rate = self.weights * (2.0 * excess if squared else excess > 0)
            by_row = above > np.abs(gap)
            on_rows[place[by_row]] = rate[by_row]
            on_bag = np.where(by_row, -1.0, np.sign(gap)) * rate
            on_mix = np.where(by_row, 0.0, -np.sign(gap)) * rate
            slope = self._product(self.objects.bags, on_bag)
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
            self.scores = self.objects.scores(w)
            self._scored = w.copy()
            self.n_passes += 1
        bag, mixed, modelled, _ = self._parts(w)
        highest = segment_max(self.scores, self.objects.offsets)
        value = 0.5 * float(w @ w)
        if self.hard:
            assert isinstance(self.loss, Tube)
            self.intercept, risk = self.loss.split(highest, mixed)
            return value + risk, highest - np.maximum(mixed, modelled)
        self.intercept = float(b[0])
        value += self.loss.value(bag, self.intercept)
        if not self.coupled:
            return value, np.zeros(len(bag))
        margin, squared = self.coupling.margin, self.coupling.loss == "l2"
        known = np.maximum(np.abs(bag - mixed), modelled - bag)
        excess = np.maximum(0.0, np.maximum(bag - mixed, highest - bag) - margin)
        value += float(self.weights @ (excess**2 if squared else excess))
        missed = excess - np.maximum(known - margin, 0.0)
        return value, np.where(self.weights > 0, missed, 0.0)

    def refine(self, w: np.ndarray, b: np.ndarray, lower: float) -> bool:
        """Look at the highest instance of each bag that exceeds what is known of it."""
        value, missed = self.whole(w, b)
        if value - lower <= self.tol * abs(value):
            return False
        # What all bags together may miss without being noticed.
        cost = self.loss.weights if self.hard else self.weights
        noticed = 0.1 * self.tol * abs(value) / max(float(cost.sum()), 1e-300)
        wrong = missed > noticed
        highest = segment_argmax(self.scores, self.objects.offsets)[wrong]
        known = len(self.rows)
        self.add(highest)
        return len(self.rows) > known
