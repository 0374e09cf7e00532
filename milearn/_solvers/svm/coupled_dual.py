"""One convex step of the machine that couples the score of a bag to those of its instances.

With h = <f, .> over objects (bags B_i and instances x_ij), shares beta_ij that linearise the
maximum, W_i = sum_j beta_ij x_ij, and g the loss on bag scores (a hinge or a tube, with b):

    min 1/2 |f|^2 + g(h(B) + b) + sum_i lambda_i loss(max(h(B_i) - h(W_i), max_j h(x_ij) - h(B_i)))

    "l1"                   loss(t) = [t]_+
    "epsilon_insensitive"  loss(t) = [t - eps]_+
    "l2"                   loss(t) = [t]_+^2

The dual has a variable a_i for a bag's loss, e_i for h(B_i) - h(W_i), c_ij for an instance that
exceeds its bag, and m_i for the mixture W_i that exceeds it (implied by the c_ij, and nearly
always all of them that is needed); sum_j c_ij + m_i + e_i <= lambda_i, or a quadratic term for
"l2". Bags of which only e_i and m_i are there, with opposite vectors, make do with one variable
e_i - m_i. The c_ij are generated where an instance exceeds what its bag allows, until primal and
dual of the whole problem meet.

For a hard maximum in regression the points are the mixtures W_i themselves, and the c_ij belong
to the upper side of the tube.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..._bags.segments import segment_argmax, segment_index, segment_max
from ..common.active_set import solve_qp_near
from ..common.qp import ActiveSet, QPProblem, QPResult
from .bag_gram import BagGram
from .losses import Coupling, Hinge, Tube

__all__ = ["StepSolution", "solve_step"]

_LOOSEST = 1e-8
_TIGHTEST = 1e-12
_EXACT = 1e-10
_MOST_ROUNDS = 200
_LOWER, _FREE, _UPPER = 0, 1, 2


@dataclass
class StepSolution:
    """Solution of a convex step, with its certificate.

    Attributes
    ----------
    of_bags, of_instances : ndarray
        Coefficients of f over bags and over instances.
    bag_scores, scores : ndarray of shape (n_bags,), (n_instances,)
        h of bags and instances, without the intercept.
    norm2 : float
    intercept : float
    objective, gap : float
        Value of the primal, and its distance from that of the dual.
    cuts : ndarray of int
        Instances whose own variables are above zero.
    warm_start : WarmStart
    n_cuts, n_solves, n_backend : int
        Cuts that were generated, dual problems, and those that needed a backend.
    """

    of_bags: np.ndarray
    of_instances: np.ndarray
    bag_scores: np.ndarray
    scores: np.ndarray
    norm2: float
    intercept: float
    objective: float
    gap: float
    cuts: np.ndarray
    warm_start: WarmStart
    n_cuts: int = 0
    n_solves: int = 0
    n_backend: int = 0


@dataclass
class WarmStart:
    """Where the variables of a solution stood, for the next problem to start from.

    Status of each variable: at its lower bound, between, at its upper bound.
    """

    data: np.ndarray
    single: np.ndarray
    exceeds: np.ndarray
    mixture: np.ndarray
    rows: dict[int, int] = field(default_factory=dict)
    tight: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))


def solve_step(
    objects: BagGram,
    loss: Hinge | Tube,
    coupling: Coupling,
    shares: np.ndarray,
    *,
    tol: float,
    qp_solver: str | None = None,
    cuts: str | np.ndarray = "lazy",
    warm_start: WarmStart | None = None,
) -> StepSolution:
    """Solve the convex problem to a relative duality gap of ``tol``.

    Parameters
    ----------
    objects : BagGram
    loss : Hinge or Tube
    coupling : Coupling
    shares : ndarray of shape (n_instances,), the beta_ij
    tol : float
    qp_solver : str, default=None
    cuts : {"lazy", "all"} or ndarray of int, default="lazy"
        Which c_ij the first dual problem has: none, every one, or those given.
    warm_start : WarmStart, default=None
        That of a solution of a neighbouring problem.

    Returns
    -------
    StepSolution
        Its ``gap`` exceeds ``tol`` only when the backend at its tightest could do no better.
    """
    step = _Step(objects, loss, coupling, shares)
    if isinstance(cuts, str):
        cuts = step.all_cuts() if cuts == "all" else np.zeros(0, dtype=np.intp)
    step.add(cuts)
    precision, n_solves, n_backend = _LOOSEST, 0, 0
    while True:
        dual = step.dual()
        guess = None if warm_start is None else dual.guess(warm_start)
        result = solve_qp_near(dual.qp, guess, tol=precision, solver=qp_solver)
        n_solves += 1
        n_backend += result.solver != "active-set"
        warm_start = dual.remember(result)
        solution, excess = step.certify(dual, result, warm_start)
        solution.n_solves, solution.n_backend = n_solves, n_backend
        closed = solution.gap <= tol * max(abs(solution.objective), loss.objective_scale)
        exact = result.residual <= _EXACT or precision <= _TIGHTEST
        if (closed and exact) or n_solves >= _MOST_ROUNDS:
            return solution
        added = np.zeros(0, dtype=np.intp) if closed else step.violators(solution, excess)
        step.add(added)
        if len(added) == 0:
            if precision <= _TIGHTEST:
                return solution
            precision = max(precision * 1e-2, _TIGHTEST)
            warm_start = None


class _Step:
    """The problem: its points, differences and rows, and their inner products so far."""

    def __init__(
        self, objects: BagGram, loss: Hinge | Tube, coupling: Coupling, shares: np.ndarray
    ) -> None:
        self.objects = objects
        self.loss = loss
        self.coupling = coupling
        self.shares = shares
        self.hard = coupling.loss == "max"
        self.mix = objects.mix(shares)
        sizes = np.diff(objects.offsets)
        weights = np.zeros(objects.n_bags) if self.hard else coupling.weights
        # The one instance of a bag of one is the bag: nothing to couple.
        self.coupled = np.flatnonzero((weights > 0) & (sizes > 1))
        self.row_bags = np.flatnonzero((sizes > 1) & (self.hard | (weights > 0)))
        self.owner = segment_index(objects.offsets)
        self.scale = float(loss.weights.max())
        needed = self.hard or len(self.coupled)
        self.mixed = objects.mixtures(shares) if needed else np.zeros((0, objects.n_instances))
        if needed:
            self.mixed_mixed = (self.mix @ self.mixed.T).T
            self.mixed_bags = (self.mix @ objects.cross.T) if not self.hard else None
        self.points = self.mixed_mixed if self.hard else objects.bags
        self.centre = self.points.mean(axis=0)
        self.rows = np.zeros(0, dtype=np.intp)
        self.row_products = np.zeros((0, objects.n_instances))
        self._gram: np.ndarray | None = None

    def all_cuts(self) -> np.ndarray:
        """Every instance of a bag that is coupled."""
        return np.flatnonzero(np.isin(self.owner, self.row_bags))

    def add(self, rows: np.ndarray) -> None:
        """Generate the rows of instances."""
        rows = np.unique(rows)
        rows = rows[np.isin(self.owner[rows], self.row_bags)]
        # An instance that has the whole share is the mixture itself.
        rows = rows[self.shares[rows] < 1.0]
        if len(rows):
            self.row_products = np.concatenate([self.row_products, self.objects.instances(rows)])
            self.rows = np.concatenate([self.rows, rows])
            order = np.argsort(self.rows, kind="stable")
            self.rows, self.row_products = self.rows[order], self.row_products[order]

    def gram(self) -> np.ndarray:
        """Inner products of points, differences W_i - B_i, and rows.

        A row stands for B_i - x_ij; for x_ij itself where the maximum is hard. What occurs in the
        equation of the intercept is counted from the middle of the points, which saves digits.
        """
        objects, mine, rows = self.objects, self.coupled, self.rows
        owner = self.owner[rows]
        n, m, k = len(self.points), len(mine), len(rows)
        if self._gram is None:
            base = np.empty((n + m, n + m))
            middle = self.centre
            centred = self.points - middle
            centred -= (middle - middle.mean())[:, None]
            base[:n, :n] = centred
            if m:
                bags, cross, own = objects.bags, self.mixed_bags, self.mixed_mixed
                assert cross is not None
                apart = (cross - bags)[mine].T  # points with differences
                base[:n, n:] = apart - apart.mean(axis=0)
                base[n:, :n] = base[:n, n:].T
                pair = np.ix_(mine, mine)
                base[n:, n:] = own[pair] - cross[pair] - cross.T[pair] + bags[pair]
            self._gram = base
        gram = np.empty((n + m + k, n + m + k))
        gram[: n + m, : n + m] = self._gram
        if k == 0:
            return gram
        among = self.row_products[:, rows]
        if self.hard:
            with_points = self.mixed[:, rows]
            middle = with_points.mean(axis=0)
            gram[:n, n:] = with_points - middle - (self.centre - self.centre.mean())[:, None]
            gram[n:, n:] = among - middle - middle[:, None] + self.centre.mean()
        else:
            cross, bags = objects.cross, objects.bags
            with_points = bags[:, owner] - cross[:, rows]
            gram[:n, n + m :] = with_points - with_points.mean(axis=0)
            assert self.mixed_bags is not None
            with_mixtures = self.mixed_bags[mine][:, owner] - self.mixed[mine][:, rows]
            gram[n : n + m, n + m :] = with_mixtures - with_points[mine]
            part = cross[owner][:, rows]
            gram[n + m :, n + m :] = bags[owner][:, owner] - part - part.T + among
        gram[n + m :, : n + m] = gram[: n + m, n + m :].T
        return gram

    def dual(self) -> _Dual:
        """The dual problem over the rows generated so far."""
        return _Dual(self)

    def certify(
        self, dual: _Dual, result: QPResult, warm_start: WarmStart
    ) -> tuple[StepSolution, np.ndarray]:
        """Scores, primal value of the whole problem, gap; and by how much each bag is exceeded."""
        objects, coupling = self.objects, self.coupling
        values = dual.clipped(result.x) * self.scale
        weights = np.bincount(dual.object, weights=dual.sign * values, minlength=dual.n_objects)
        n, m = len(self.points), len(self.coupled)
        of_points, of_gaps, of_rows = weights[:n], weights[n : n + m], weights[n + m :]
        owner = self.owner[self.rows]
        of_bags, of_mixtures = np.zeros(n), np.zeros(n)
        of_instances = np.zeros(objects.n_instances)
        if self.hard:
            of_mixtures += of_points
            of_instances[self.rows] += of_rows
        else:
            of_bags += of_points
            of_mixtures[self.coupled] += of_gaps
            of_bags[self.coupled] -= of_gaps
            of_bags += np.bincount(owner, weights=of_rows, minlength=n)
            of_instances[self.rows] -= of_rows
        scores = of_bags @ objects.cross + of_instances[self.rows] @ self.row_products
        if len(self.mixed):
            scores = scores + of_mixtures @ self.mixed
        of_instances += self.mix.T @ of_mixtures
        used = np.flatnonzero(of_instances)
        bag_scores = of_bags @ objects.bags + objects.cross[:, used] @ of_instances[used]
        # From the objects, not from the dual problem's matrix: the matrix is centred.
        norm2 = float(of_bags @ bag_scores + of_instances @ scores)
        highest = segment_max(scores, objects.offsets)
        mixtures = self.mix @ scores
        if self.hard:
            bag_scores = mixtures
            assert isinstance(self.loss, Tube)
            intercept, value = self.loss.split(highest, mixtures)
            excess = highest - mixtures
            primal = 0.5 * norm2 + value
        else:
            intercept, _ = self.loss.free(bag_scores)
            modelled = np.abs(bag_scores - mixtures)
            np.maximum.at(modelled, owner, scores[self.rows] - bag_scores[owner])
            differences = np.maximum(bag_scores - mixtures, highest - bag_scores)
            primal = 0.5 * norm2 + self.loss.value(bag_scores, intercept)
            primal += coupling.value(differences)
            excess = differences - np.maximum(modelled, coupling.margin)
        objective = -result.objective * self.scale
        solution = StepSolution(
            of_bags=of_bags,
            of_instances=of_instances,
            bag_scores=bag_scores,
            scores=scores,
            norm2=norm2,
            intercept=intercept,
            objective=primal,
            gap=primal - objective,
            cuts=self.rows[of_rows > 1e-12 * self.scale],
            warm_start=warm_start,
            n_cuts=len(self.rows),
        )
        return solution, excess

    def violators(self, solution: StepSolution, excess: np.ndarray) -> np.ndarray:
        """The highest instance of each bag that it exceeds by more than its rows allow."""
        scale = max(1.0, float(np.abs(solution.scores).max()))
        wrong = np.zeros(len(excess), dtype=bool)
        wrong[self.row_bags] = excess[self.row_bags] > 1e-9 * scale
        highest = segment_argmax(solution.scores, self.objects.offsets)[wrong]
        return np.setdiff1d(highest, self.rows)


class _Dual:
    """The dual problem in units of the largest weight, one variable a pattern."""

    def __init__(self, step: _Step) -> None:
        self.step = step
        loss, coupling, scale = step.loss, step.coupling, step.scale
        n, m = len(step.points), len(step.coupled)
        gram = step.gram()
        self.n_objects = len(gram)
        owner = step.owner[step.rows]
        bounds = loss.weights / scale
        parts: list[tuple] = []  # object, sign, gain, equation, tube, lower, upper
        points = np.arange(n)
        zeros, ones, most = np.zeros(n), np.ones(n), np.full(n, np.inf)
        if isinstance(loss, Hinge):
            parts.append((points, loss.signs, ones, loss.signs, zeros, zeros, bounds))
        else:
            crowded = np.zeros(n, dtype=bool)
            if step.hard:
                crowded[owner] = True
            above = np.where(crowded, most, bounds)
            parts.append((points, -ones, -loss.targets, -ones, ones, zeros, above))
            parts.append((points, ones, loss.targets, ones, ones, zeros, bounds))
        self.n_data = n * len(parts)
        margin = coupling.margin
        shared = np.unique(owner) if not step.hard else np.zeros(0, dtype=np.intp)
        alone = ~np.isin(step.coupled, shared)
        quadratic = coupling.loss == "l2"
        limits = np.zeros(0) if step.hard else coupling.weights[step.coupled] / scale
        gaps = n + np.arange(m)
        free = np.full(m, np.inf) if quadratic else limits
        joint = alone if margin == 0.0 else np.zeros(m, dtype=bool)
        self.joint, self.apart = np.flatnonzero(joint), np.flatnonzero(~joint)
        some, none = np.ones(m), np.zeros(m)
        parts.append(tuple(a[self.joint] for a in (gaps, some, none, none, none, -free, free)))
        single = np.where(alone & ~np.full(m, quadratic), limits, np.inf)
        for sign in (some, -some):
            part = (gaps, sign, none - margin, none, none, none, single)
            parts.append(tuple(a[self.apart] for a in part))
        k = len(step.rows)
        extra = n + m + np.arange(k)
        if step.hard:
            assert isinstance(loss, Tube)
            targets = loss.targets[owner]
            parts.append(
                (extra, -np.ones(k), -targets, -np.ones(k), np.ones(k), np.zeros(k), np.inf)
            )
        else:
            parts.append(
                (
                    extra,
                    np.ones(k),
                    np.full(k, -margin),
                    np.zeros(k),
                    np.zeros(k),
                    np.zeros(k),
                    np.inf,
                )
            )
        columns = [
            np.concatenate([np.broadcast_to(part[i], part[0].shape) for part in parts])
            for i in range(7)
        ]
        self.object = columns[0].astype(np.intp)
        self.sign, gain, equation, tube, self.lower, self.upper = columns[1:]
        size = len(gain)
        matrix = gram[self.object[:, None], self.object]
        matrix *= (self.sign * scale)[:, None] * self.sign
        n_apart = len(self.apart)
        first_joint = self.n_data
        first_apart = first_joint + len(self.joint)
        first_row = first_apart + 2 * n_apart
        self.slices = (first_joint, first_apart, first_row)
        # Groups of variables under one limit: e_i, m_i and the c_ij of a bag.
        if step.hard:
            group_bags = np.unique(owner)
            member_of = np.full(size, -1)
            position = np.full(n, -1)
            position[group_bags] = np.arange(len(group_bags))
            member_of[:n] = position
            member_of[first_row:] = position[owner]
            group_limits = bounds[group_bags]
        else:
            group_bags = shared
            position = np.full(n, -1)
            position[group_bags] = np.arange(len(group_bags))
            member_of = np.full(size, -1)
            mine = position[step.coupled[self.apart]]
            member_of[first_apart : first_apart + n_apart] = mine
            member_of[first_apart + n_apart : first_row] = mine
            member_of[first_row:] = position[owner]
            group_limits = coupling.weights[group_bags] / scale
        self.group_bags = group_bags
        inside = np.flatnonzero(member_of >= 0)
        members = np.zeros((len(group_bags), size))
        members[member_of[inside], inside] = 1.0
        constraints, limits_of = [], []
        if quadratic and not step.hard:
            curvature = 0.5 * scale / coupling.weights
            joint_bags = step.coupled[self.joint]
            diagonal = np.arange(first_joint, first_apart)
            matrix[diagonal, diagonal] += curvature[joint_bags]
            matrix += (members.T * curvature[group_bags]) @ members
            self.grouped = False
        else:
            constraints.append(members)
            limits_of.append(group_limits)
            self.grouped = len(group_bags) > 0
        if isinstance(loss, Tube):
            constraints.append(tube[None])
            limits_of.append(np.array([loss.nu * bounds.sum()]))
        self.qp = QPProblem(
            matrix,
            -gain,
            G=np.concatenate(constraints) if constraints else None,
            h=np.concatenate(limits_of) if constraints else None,
            A=equation[None],
            b=np.zeros(1),
            lb=self.lower,
            ub=self.upper,
        )

    def clipped(self, x: np.ndarray) -> np.ndarray:
        """The variables inside their bounds."""
        return np.clip(x, self.lower, self.upper)

    def remember(self, result: QPResult) -> WarmStart:
        """Where the variables stand."""
        step = self.step
        status = np.where(result.active.lower, _LOWER, np.where(result.active.upper, _UPPER, _FREE))
        n = len(step.points)
        first_joint, first_apart, first_row = self.slices
        n_apart = len(self.apart)
        single, exceeds, mixture = (np.full(n, _FREE) for _ in range(3))
        joint_bags, apart_bags = step.coupled[self.joint], step.coupled[self.apart]
        single[joint_bags] = status[first_joint:first_apart]
        exceeds[apart_bags] = status[first_apart : first_apart + n_apart]
        mixture[apart_bags] = status[first_apart + n_apart : first_row]
        # As if the others had been split.
        positive = result.x[first_joint:first_apart] > 0
        exceeds[joint_bags] = np.where(positive, _FREE, _LOWER)
        mixture[joint_bags] = np.where(positive, _LOWER, _FREE)
        tight = np.zeros(n, dtype=bool)
        tight[joint_bags] = single[joint_bags] != _FREE
        if self.grouped:
            tight[self.group_bags] = result.active.tight[: len(self.group_bags)]
        extra = dict(zip(step.rows.tolist(), status[first_row:].tolist(), strict=True))
        ended = result.active.tight[-1:] if isinstance(step.loss, Tube) else np.zeros(0, dtype=bool)
        return WarmStart(
            data=status[: self.n_data],
            single=single,
            exceeds=exceeds,
            mixture=mixture,
            rows=extra,
            tight=np.r_[tight, ended],
        )

    def guess(self, warm_start: WarmStart) -> ActiveSet:
        """The same constraints, as far as they are here too."""
        step = self.step
        joint_bags, apart_bags = step.coupled[self.joint], step.coupled[self.apart]
        extra = [warm_start.rows.get(int(row), _FREE) for row in step.rows]
        status = np.concatenate(
            [
                warm_start.data,
                warm_start.single[joint_bags],
                warm_start.exceeds[apart_bags],
                warm_start.mixture[apart_bags],
                np.array(extra, dtype=int),
            ]
        )
        n = len(step.points)
        # Rows of groups, where there are any, and of the tube.
        tight = [warm_start.tight[:n][self.group_bags]] if self.grouped else []
        if isinstance(step.loss, Tube):
            tight.append(warm_start.tight[n:])
        flags = np.concatenate(tight) if tight else np.zeros(0, dtype=bool)
        upper = (status == _UPPER) & np.isfinite(self.upper)
        lower = (status == _LOWER) & np.isfinite(self.lower)
        return ActiveSet(lower=lower, upper=upper, tight=flags)
