"""One convex step of the SVM that couples the score of a bag to the scores of its instances.

With h = <f, .> at bags B_i and instances x_ij, a subgradient beta_ij that linearises the maximum,
W_i = sum_j beta_ij x_ij, and the loss g of bag scores (a hinge or a tube, with b):

    min 1/2 |f|^2 + g(h(B) + b) + sum_i lambda_i loss(max(h(B_i) - h(W_i), max_j h(x_ij) - h(B_i)))

    "l1"                   loss(t) = [t]_+
    "epsilon_insensitive"  loss(t) = [t - eps]_+
    "l2"                   loss(t) = [t]_+^2

The dual has a variable a_i for the loss of a bag, e_i for h(B_i) - h(W_i), c_ij for an instance
with a higher score than its bag, and m_i for a mixture W_i with a higher score than its bag. The
m_i are implied by the c_ij, and in most cases no c_ij is needed. The constraint is
sum_j c_ij + m_i + e_i <= lambda_i, or a quadratic term for "l2". A bag without c_ij has only one
variable e_i - m_i, because the vectors of e_i and m_i are opposite. The c_ij are generated when the
constraint of an instance is violated, until the duality gap of the whole problem is small enough.

For a hard maximum in regression the points are the mixtures W_i, and the c_ij belong to the upper
side of the tube.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from ...._bags.segments import segment_index, segment_max, segment_rank
from ...._compat import LimitedSVC
from ...common.qp import ActiveSet, QPProblem, QPResult, solve_qp
from ..losses import BagLoss, Coupling, Tube
from .gram import BagGram

# Precision of the first and of the last dual problem, and a residual that is small enough.
_INITIAL_TOL = 1e-8
_MIN_TOL = 1e-12
_EXACT_RESIDUAL = 1e-10
_MAX_ROUNDS = 200
# Number of instances of a bag whose constraints are generated in a round.
_CUTS_PER_BAG = 3
_LIBSVM_STEPS = 20_000


@dataclass
class StepSolution:
    """Solution of a convex step, with its duality gap."""

    # Coefficients of f, and h of bags and instances without the intercept.
    of_bags: np.ndarray
    of_instances: np.ndarray
    bag_scores: np.ndarray
    scores: np.ndarray
    # |f|^2.
    norm2: float
    intercept: float
    # Primal value, and its difference from the dual value.
    objective: float
    gap: float
    # Instances whose c_ij is above zero.
    cuts: np.ndarray
    # Number of generated cuts and of dual problems.
    n_cuts: int = 0
    n_solves: int = 0


def solve_step(
    bags: BagGram,
    loss: BagLoss,
    coupling: Coupling,
    subgradient: np.ndarray,
    *,
    tol: float,
    cuts: str | np.ndarray = "lazy",
    many_bags: int = 300,
) -> StepSolution:
    """Solve the convex problem to a relative duality gap of ``tol``.

    Parameters
    ----------
    bags : BagGram
    loss : Hinge or Tube
    coupling : Coupling
    subgradient : ndarray of shape (n_instances,), the beta_ij
    tol : float
    cuts : {"lazy", "all"} or ndarray of int, default="lazy"
        The c_ij of the first dual problem: none, all, or the given ones.
    many_bags : int
        Bags from which on libsvm finds the support vectors of the start: for a thousand bags an
        interior point method takes ten times as long.

    Returns
    -------
    StepSolution
        Its ``gap`` exceeds ``tol`` only if the highest precision of the backend is not sufficient.
    """
    step = StepGeometry(bags, loss, coupling, subgradient)
    if isinstance(cuts, str):
        cuts = step.all_candidates() if cuts == "all" else np.zeros(0, dtype=np.intp)
    step.add(cuts)
    precision, n_solves, start = _INITIAL_TOL, 0, _start_of_hinge(step, many_bags)
    while True:
        dual = _dual_program(step)
        result = solve_qp(dual.qp, tol=precision, start=start)
        n_solves, start = n_solves + 1, None
        solution, excess = _certify(step, dual.weights(result.x), result)
        solution.n_solves = n_solves
        closed = solution.gap <= tol * max(abs(solution.objective), loss.objective_scale)
        exact = result.residual <= _EXACT_RESIDUAL or precision <= _MIN_TOL
        if (closed and exact) or n_solves >= _MAX_ROUNDS:
            return solution
        added = np.zeros(0, dtype=np.intp) if closed else _violators(step, solution, excess)
        step.add(added)
        if len(added) == 0:
            if precision <= _MIN_TOL:
                return solution
            precision = max(precision * 1e-2, _MIN_TOL)


def _start_of_hinge(step: StepGeometry, many_bags: int) -> ActiveSet | None:
    """The solution by libsvm as a start, for many uncoupled bags with a hinge loss."""
    loss, n = step.loss, len(step.points)
    only_hinge = not step.hard and len(step.coupled) == 0 and loss.tube_limit is None
    if not only_hinge or n < many_bags:
        return None
    (side,) = loss.dual_columns()
    upper = loss.weights / step.scale
    svm = LimitedSVC(
        kernel="precomputed", C=1.0, cache_size=1000, max_iter=max(_LIBSVM_STEPS, n * n // 16)
    )
    # Relative to the mean of the bags, as in the dual problem; the intercept changes accordingly.
    svm.fit(step.gram() * step.scale, side.sign, sample_weight=upper)
    if svm.reached_limit_:
        return None
    values = np.zeros(n)
    values[svm.support_] = np.abs(svm.dual_coef_[0])
    return ActiveSet(values <= 0, values >= upper * (1 - 1e-9), np.zeros(0, dtype=bool))


class StepGeometry:
    """Points, differences and cuts of a convex step, with their inner products.

    Parameters
    ----------
    bags : BagGram
    loss : Hinge or Tube
    coupling : Coupling
    subgradient : ndarray of shape (n_instances,), the beta_ij

    Attributes
    ----------
    points : ndarray of shape (n_bags, n_bags)
        Inner products of the points in the loss: bags, or mixtures W_i for a hard maximum.
    coupled : ndarray of int
        Bags whose difference W_i - B_i has a cost.
    cuts : ndarray of int
        Instances whose constraint has been generated.
    owner : ndarray of shape (n_instances,)
        Bag of each instance.
    scale : float
        The largest weight, which is the unit of the dual variables.
    """

    def __init__(
        self, bags: BagGram, loss: BagLoss, coupling: Coupling, subgradient: np.ndarray
    ) -> None:
        self.bags = bags
        self.loss = loss
        self.coupling = coupling
        self.subgradient = subgradient
        self.hard = coupling.hard
        self.mix = bags.mix(subgradient)
        sizes = np.diff(bags.offsets)
        weights = np.zeros(bags.n_bags) if self.hard else coupling.weights
        # A bag of one instance is that instance and needs no coupling.
        self.coupled = np.flatnonzero((weights > 0) & (sizes > 1))
        self.cut_candidates = np.flatnonzero((sizes > 1) & (self.hard | (weights > 0)))
        self.owner = segment_index(bags.offsets)
        self.scale = float(loss.weights.max())
        needed = self.hard or len(self.coupled)
        self.mixed = bags.mixtures(subgradient) if needed else np.zeros((0, bags.n_instances))
        if needed:
            self.mixed_mixed = (self.mix @ self.mixed.T).T
            self.mixed_bags = self.mix @ bags.cross.T
        self.points = self.mixed_mixed if self.hard else bags.bags
        self.centre = self.points.mean(axis=0)
        self.cuts = np.zeros(0, dtype=np.intp)
        self.cut_products = np.zeros((0, bags.n_instances))
        self._base: np.ndarray | None = None

    def all_candidates(self) -> np.ndarray:
        """Every instance of a coupled bag."""
        return np.flatnonzero(np.isin(self.owner, self.cut_candidates))

    def add(self, rows: np.ndarray) -> None:
        """Generate the cuts of instances."""
        rows = np.unique(rows)
        rows = rows[np.isin(self.owner[rows], self.cut_candidates)]
        # An instance of weight one is the mixture.
        rows = rows[self.subgradient[rows] < 1.0]
        if len(rows):
            self.cut_products = np.concatenate([self.cut_products, self.bags.instances(rows)])
            self.cuts = np.concatenate([self.cuts, rows])
            order = np.argsort(self.cuts, kind="stable")
            self.cuts, self.cut_products = self.cuts[order], self.cut_products[order]

    def gram(self) -> np.ndarray:
        """Inner products of points, differences W_i - B_i, and cuts.

        The vector of a cut is B_i - x_ij, or x_ij for a hard maximum. Vectors in the equation of
        the intercept are relative to the mean of the points, which avoids cancellation.
        """
        mine, rows = self.coupled, self.cuts
        owner = self.owner[rows]
        n, m, k = len(self.points), len(mine), len(rows)
        if self._base is None:
            self._base = self._gram_without_cuts()
        gram = np.empty((n + m + k, n + m + k))
        gram[: n + m, : n + m] = self._base
        if k == 0:
            return gram
        among = self.cut_products[:, rows]
        if self.hard:
            with_points = self.mixed[:, rows]
            middle = with_points.mean(axis=0)
            gram[:n, n:] = with_points - middle - (self.centre - self.centre.mean())[:, None]
            gram[n:, n:] = among - middle - middle[:, None] + self.centre.mean()
        else:
            cross, products = self.bags.cross, self.bags.bags
            with_points = products[:, owner] - cross[:, rows]
            gram[:n, n + m :] = with_points - with_points.mean(axis=0)
            with_mixtures = self.mixed_bags[mine][:, owner] - self.mixed[mine][:, rows]
            gram[n : n + m, n + m :] = with_mixtures - with_points[mine]
            part = cross[owner][:, rows]
            gram[n + m :, n + m :] = products[owner][:, owner] - part - part.T + among
        gram[n + m :, : n + m] = gram[: n + m, n + m :].T
        return gram

    def _gram_without_cuts(self) -> np.ndarray:
        mine = self.coupled
        n, m = len(self.points), len(mine)
        base = np.empty((n + m, n + m))
        middle = self.centre
        centred = self.points - middle
        centred -= (middle - middle.mean())[:, None]
        base[:n, :n] = centred
        if m:
            products, cross, own = self.bags.bags, self.mixed_bags, self.mixed_mixed
            with_points = (cross - products)[mine].T
            base[:n, n:] = with_points - with_points.mean(axis=0)
            base[n:, :n] = base[:n, n:].T
            pair = np.ix_(mine, mine)
            base[n:, n:] = own[pair] - cross[pair] - cross.T[pair] + products[pair]
        return base


@dataclass(frozen=True)
class _DualProgram:
    """The dual problem in units of the largest weight, and the vectors of its variables."""

    qp: QPProblem
    points: np.ndarray  # row of the step's Gram matrix that each variable belongs to
    sign: np.ndarray
    scale: float
    n_points: int

    def weights(self, x: np.ndarray) -> np.ndarray:
        """Coefficients over the step's Gram matrix, in the units of the weights."""
        values = np.clip(x, self.qp.lb, self.qp.ub) * self.scale
        return np.bincount(self.points, self.sign * values, self.n_points)


def _dual_program(step: StepGeometry) -> _DualProgram:
    """The dual problem.

    There are five kinds of variables, in this order: the a_i of the loss (one per side of the
    loss), the e_i - m_i of the bags with one variable, the e_i and the m_i of the other coupled
    bags, and the c_ij.
    """
    loss, coupling, hard, scale = step.loss, step.coupling, step.hard, step.scale
    n, coupled, owner = len(step.points), step.coupled, step.owner[step.cuts]
    quadratic = coupling.squared and not hard
    # Bags with a constraint on several variables.
    grouped = np.unique(owner)
    costs = loss.weights / scale
    limits = costs if hard else coupling.weights / scale
    most = np.full(n, np.inf) if quadratic else limits
    # Point, sign, gain, coefficients in the equation and of the tube, bounds, and the bag whose
    # constraint contains the variable (-1 for none).
    kinds: list[tuple[np.ndarray | float, ...]] = []
    sides = loss.dual_columns()
    for number, side in enumerate(sides):
        upper, group = costs.copy(), np.full(n, -1)
        if hard and number == 0:
            # The cuts share the bounds of the first side.
            upper[grouped], group[grouped] = np.inf, grouped
        kinds.append(
            (np.arange(n), side.sign, side.gain, side.equation, side.tube, 0, upper, group)
        )
    alone = ~np.isin(coupled, grouped)
    joint = alone & (coupling.margin == 0.0)
    one, several = n + np.flatnonzero(joint), n + np.flatnonzero(~joint)
    free, bound = most[coupled][joint], np.where(alone, most[coupled], np.inf)[~joint]
    kinds.append((one, 1, 0, 0, 0, -free, free, -1))
    for sign in (1, -1):
        kinds.append((several, sign, -coupling.margin, 0, 0, 0, bound, coupled[~joint]))
    cuts = n + len(coupled) + np.arange(len(step.cuts))
    if hard:
        first = sides[0].take(owner)
        kinds.append((cuts, first.sign, first.gain, first.equation, first.tube, 0, np.inf, owner))
    else:
        kinds.append((cuts, 1, -coupling.margin, 0, 0, 0, np.inf, owner))
    table = np.concatenate([np.stack(np.broadcast_arrays(*kind)) for kind in kinds], axis=1)
    _, sign, gain, equation, tube, lower, upper, _ = table
    points, group = table[0].astype(np.intp), table[-1].astype(np.intp)

    matrix = step.gram()[points[:, None], points]
    matrix *= (sign * scale)[:, None] * sign
    members = (group == grouped[:, None]).astype(np.float64)
    rows, sums = [members], [limits[grouped]]
    if quadratic:
        curvature = 0.5 * scale / coupling.weights
        diagonal = len(sides) * n + np.arange(len(one))
        matrix[diagonal, diagonal] += curvature[coupled[joint]]
        matrix += (members.T * curvature[grouped]) @ members
        rows, sums = [], []
    if loss.tube_limit is not None:
        rows.append(tube[None])
        sums.append(np.array([loss.tube_limit * costs.sum()]))
    qp = QPProblem(
        matrix,
        -gain,
        G=np.concatenate(rows) if rows else None,
        h=np.concatenate(sums) if rows else None,
        A=equation[None],
        b=np.zeros(1),
        lb=lower,
        ub=upper,
    )
    return _DualProgram(qp, points, sign, scale, n + len(coupled) + len(cuts))


def _coefficients(
    step: StepGeometry, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients of bags, of mixtures, of the instances of cuts, and of the cuts."""
    n, m = len(step.points), len(step.coupled)
    of_points, of_differences, of_cuts = weights[:n], weights[n : n + m], weights[n + m :]
    of_bags, of_mixtures = np.zeros(n), np.zeros(n)
    if step.hard:
        of_mixtures += of_points
        return of_bags, of_mixtures, of_cuts, of_cuts
    of_bags += of_points
    of_mixtures[step.coupled] += of_differences
    of_bags[step.coupled] -= of_differences
    of_bags += np.bincount(step.owner[step.cuts], weights=of_cuts, minlength=n)
    return of_bags, of_mixtures, -of_cuts, of_cuts


def _certify(
    step: StepGeometry, weights: np.ndarray, result: QPResult
) -> tuple[StepSolution, np.ndarray]:
    """Scores, primal value and gap of the whole problem, and the violation of each bag."""
    bags, coupling, owner = step.bags, step.coupling, step.owner[step.cuts]
    of_bags, of_mixtures, of_cut_instances, of_cuts = _coefficients(step, weights)
    of_instances = np.zeros(bags.n_instances)
    of_instances[step.cuts] += of_cut_instances
    scores = of_bags @ bags.cross + of_instances[step.cuts] @ step.cut_products
    if len(step.mixed):
        scores = scores + of_mixtures @ step.mixed
    of_instances += step.mix.T @ of_mixtures
    used = np.flatnonzero(of_instances)
    bag_scores = of_bags @ bags.bags + bags.cross[:, used] @ of_instances[used]
    # Not from the matrix of the dual problem, which is centred.
    norm2 = float(of_bags @ bag_scores + of_instances @ scores)
    highest = segment_max(scores, bags.offsets)
    mixtures = step.mix @ scores
    if step.hard:
        bag_scores = mixtures
        intercept, value = cast(Tube, step.loss).split(highest, mixtures)
        excess = highest - mixtures
        primal = 0.5 * norm2 + value
    else:
        intercept, _ = step.loss.free(bag_scores)
        modelled = np.abs(bag_scores - mixtures)
        np.maximum.at(modelled, owner, scores[step.cuts] - bag_scores[owner])
        differences = np.maximum(bag_scores - mixtures, highest - bag_scores)
        primal = 0.5 * norm2 + step.loss.value(bag_scores, intercept)
        primal += coupling.value(differences)
        excess = differences - np.maximum(modelled, coupling.margin)
    solution = StepSolution(
        of_bags=of_bags,
        of_instances=of_instances,
        bag_scores=bag_scores,
        scores=scores,
        norm2=norm2,
        intercept=intercept,
        objective=primal,
        gap=primal + result.objective * step.scale,
        cuts=step.cuts[of_cuts > 1e-12 * step.scale],
        n_cuts=len(step.cuts),
    )
    return solution, excess


def _violators(step: StepGeometry, solution: StepSolution, excess: np.ndarray) -> np.ndarray:
    """The highest instances whose constraints are violated, some of each bag."""
    scores, offsets = solution.scores, step.bags.offsets
    scale = max(1.0, float(np.abs(scores).max()))
    # The limit of the highest instance of a bag without a cost.
    limit = segment_max(scores, offsets) - excess + 1e-9 * scale
    wrong = (scores > limit[step.owner]) & (segment_rank(scores, offsets) < _CUTS_PER_BAG)
    return np.setdiff1d(np.flatnonzero(wrong), step.cuts)
