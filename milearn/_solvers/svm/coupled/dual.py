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

The rows of a Cholesky factor of the kernel matrix are explicit features, with which :mod:`.rows`
ends at the same objectives. That took 1.0 to 4.1 times as long as the dual on Musk1, Elephant, Fox
and Tiger (24 fits), 3.9 times on Musk2, and for a hard maximum 2.6 to 9.5 times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse

from ...._bags.segments import segment_index, segment_max, segment_rank
from ...common.qp import QPProblem, solve_qp
from ..losses import BagLoss, Coupling, Tube
from .gram import BagGram

# Precision of the first and of the last dual problem, and a residual that is small enough.
_INITIAL_TOL = 1e-8
_MIN_TOL = 1e-12
_EXACT_RESIDUAL = 1e-10
_MAX_ROUNDS = 200
# Number of instances of a bag whose constraints are generated in a round.
_CUTS_PER_BAG = 3


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
    # Primal value, and its difference from the dual value.
    objective: float
    gap: float
    # Instances whose c_ij is above zero, and the number of generated cuts.
    cuts: np.ndarray
    n_cuts: int


def solve_step(
    bags: BagGram,
    loss: BagLoss,
    coupling: Coupling,
    subgradient: np.ndarray,
    *,
    tol: float,
    cuts: np.ndarray | None = None,
) -> StepSolution:
    """Solve the convex problem to a relative duality gap of ``tol``.

    Parameters
    ----------
    bags : BagGram
    loss : Hinge or Tube
    coupling : Coupling
    subgradient : ndarray of shape (n_instances,), the beta_ij
    tol : float
    cuts : ndarray of int, default=None
        Instances whose c_ij are in the first dual problem; by default, none.

    Returns
    -------
    StepSolution
        Its ``gap`` exceeds ``tol`` only if the highest precision of the backend is not sufficient.
    """
    step = _Step(bags, loss, coupling, subgradient)
    if cuts is not None:
        step.add(cuts)
    precision = _INITIAL_TOL
    for _ in range(_MAX_ROUNDS):
        qp, vectors = _dual_program(step)
        result = solve_qp(qp, tol=precision)
        weights = np.clip(result.x, qp.lb, qp.ub) * step.scale
        solution, excess = _certify(step, vectors.T @ weights, result.objective * step.scale)
        closed = solution.gap <= tol * max(abs(solution.objective), loss.objective_scale)
        if closed and (result.residual <= _EXACT_RESIDUAL or precision <= _MIN_TOL):
            break
        if not closed and step.add(_violators(step, solution, excess)):
            continue
        if precision <= _MIN_TOL:
            break
        precision = max(precision * 1e-2, _MIN_TOL)
    return solution


class _Step:
    """A convex step and its points: bags, mixtures W_i, and instances with a cut.

    Attributes
    ----------
    mixed : ndarray of int
        Bags whose mixture is a point: those with a cost of W_i - B_i, and all for a hard maximum.
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
        self.bags, self.loss, self.coupling = bags, loss, coupling
        self.subgradient, self.mix = subgradient, bags.mix(subgradient)
        # A bag of one instance is that instance and needs no coupling.
        costs = np.ones(bags.n_bags) if coupling.hard else coupling.weights
        self.coupled = (np.diff(bags.offsets) > 1) & (costs > 0)
        self.mixed = np.flatnonzero(self.coupled | coupling.hard)
        self.mixtures = np.zeros((0, bags.n_instances))
        if len(self.mixed):
            self.mixtures = bags.mixtures(subgradient)[self.mixed]
        self.owner = segment_index(bags.offsets)
        self.scale = float(loss.weights.max())
        self.cuts = np.zeros(0, dtype=np.intp)
        self.cut_products = np.zeros((0, bags.n_instances))

    def add(self, rows: np.ndarray) -> bool:
        """Generate the cuts of instances, and tell whether there was one."""
        # An instance of weight one is the mixture.
        rows = rows[self.coupled[self.owner[rows]] & (self.subgradient[rows] < 1.0)]
        if len(rows):
            self.cut_products = np.concatenate([self.cut_products, self.bags.inner(rows)])
            self.cuts = np.concatenate([self.cuts, rows])
        return len(rows) > 0

    def products(self) -> np.ndarray:
        """Inner products of all points, relative to the mean of the first n_bags.

        The first points are those of the loss: bags, or mixtures for a hard maximum. The equation
        of the intercept allows any origin, and this one avoids cancellation.
        """
        cuts, rows = self.cuts, np.vstack([self.mixtures, self.cut_products])
        found = np.hstack([(self.mix[self.mixed] @ rows.T).T, rows[:, cuts]])
        if not self.coupling.hard:
            cross = self.bags.cross
            side = np.hstack([(self.mix[self.mixed] @ cross.T).T, cross[:, cuts]])
            found = np.block([[self.bags.bags, side], [side.T, found]])
        middle = found[: self.bags.n_bags].mean(axis=0)
        found -= middle
        found -= (middle - middle[: self.bags.n_bags].mean())[:, None]
        return found


def _dual_program(step: _Step) -> tuple[QPProblem, Any]:
    """The dual problem in units of the largest weight, and its variables as vectors of points.

    There are five kinds of variables, in this order: the a_i of the loss (one per side of the
    loss), the e_i - m_i of the bags with one variable, the e_i and the m_i of the other coupled
    bags, and the c_ij.
    """
    loss, coupling, mixed, n = step.loss, step.coupling, step.mixed, step.bags.n_bags
    hard, costs, owner = coupling.hard, loss.weights / step.scale, step.owner[step.cuts]
    limits = costs if hard else coupling.weights / step.scale
    products = step.products()
    points = sparse.eye_array(len(products), format="csr")
    of_cuts = points[len(products) - len(owner) :]
    # Bags with a constraint on several variables.
    several = np.isin(np.arange(n), owner)
    # Of each kind: vectors, gain, coefficients in the equation and of the tube, bounds, and the bag
    # whose constraint contains the variable (-1 for none).
    kinds: list[tuple[Any, ...]] = []
    sides = loss.dual_columns()
    for number, side in enumerate(sides):
        # For a hard maximum the cuts share the bounds of the first side.
        shared = several & (hard and number == 0)
        upper, group = np.where(shared, np.inf, costs), np.where(shared, np.arange(n), -1)
        vectors = sparse.diags_array(side.sign) @ points[:n]
        kinds.append((vectors, side.gain, side.equation, side.tube, 0, upper, group))
    if hard:
        first = sides[0].take(owner)
        vectors = sparse.diags_array(first.sign) @ of_cuts
        kinds.append((vectors, first.gain, first.equation, first.tube, 0, np.inf, owner))
    else:
        differences = points[n : n + len(mixed)] - points[mixed]
        group = np.where(several, np.arange(n), -1)[mixed]
        bound = np.where((group < 0) & (not coupling.squared), limits[mixed], np.inf)
        one = (group < 0) & (coupling.margin == 0.0)
        free = -bound[one], bound[one]
        kinds.append((differences[one], 0, 0, 0, *free, mixed[one] if coupling.squared else -1))
        for sign in (1, -1):
            vectors = sign * differences[~one]
            kinds.append((vectors, -coupling.margin, 0, 0, 0, bound[~one], group[~one]))
        kinds.append((points[owner] - of_cuts, -coupling.margin, 0, 0, 0, np.inf, owner))
    vectors = sparse.vstack([kind[0] for kind in kinds], format="csr")
    columns = [np.broadcast_arrays(np.ones(kind[0].shape[0]), *kind[1:])[1:] for kind in kinds]
    gain, equation, tube, lower, upper, group = np.concatenate(columns, axis=1)
    matrix = vectors @ (vectors @ products).T * step.scale
    grouped = np.unique(group[group >= 0]).astype(np.intp)
    members = (group == grouped[:, None]).astype(np.float64)
    rows, sums = [members], [limits[grouped]]
    if coupling.squared:
        matrix += (members.T * (0.5 * step.scale / coupling.weights[grouped])) @ members
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
    return qp, vectors


def _certify(
    step: _Step, of_points: np.ndarray, dual_loss: float
) -> tuple[StepSolution, np.ndarray]:
    """Scores, primal value and gap of the whole problem, and the violation of each bag.

    Parameters
    ----------
    step : _Step
    of_points : ndarray, the coefficients of f
    dual_loss : float, minus the dual value
    """
    bags, coupling, owner = step.bags, step.coupling, step.owner[step.cuts]
    first = len(of_points) - len(step.mixed) - len(step.cuts)
    of_bags = of_points[:first] if first else np.zeros(bags.n_bags)
    of_mixtures, of_cuts = np.split(of_points[first:], [len(step.mixed)])
    of_instances = step.mix[step.mixed].T @ of_mixtures
    of_instances[step.cuts] += of_cuts
    scores = of_bags @ bags.cross + of_mixtures @ step.mixtures + of_cuts @ step.cut_products
    used = np.flatnonzero(of_instances)
    bag_scores = of_bags @ bags.bags + bags.cross[:, used] @ of_instances[used]
    # Not from the matrix of the dual problem, which is centred.
    norm2 = float(of_bags @ bag_scores + of_instances @ scores)
    highest, mixtures = segment_max(scores, bags.offsets), step.mix @ scores
    if coupling.hard:
        bag_scores, excess = mixtures, highest - mixtures
        value = cast(Tube, step.loss).split(highest, mixtures)[1]
    else:
        modelled = np.abs(bag_scores - mixtures)
        np.maximum.at(modelled, owner, scores[step.cuts] - bag_scores[owner])
        differences = np.maximum(bag_scores - mixtures, highest - bag_scores)
        value = step.loss.value(bag_scores, step.loss.free(bag_scores)[0])
        value += coupling.value(differences)
        excess = differences - np.maximum(modelled, coupling.margin)
    solution = StepSolution(
        of_bags=of_bags,
        of_instances=of_instances,
        bag_scores=bag_scores,
        scores=scores,
        norm2=norm2,
        objective=0.5 * norm2 + value,
        gap=0.5 * norm2 + value + dual_loss,
        cuts=step.cuts[np.abs(of_cuts) > 1e-12 * step.scale],
        n_cuts=len(step.cuts),
    )
    return solution, excess


def _violators(step: _Step, solution: StepSolution, excess: np.ndarray) -> np.ndarray:
    """The highest instances whose constraints are violated, some of each bag."""
    scores, offsets = solution.scores, step.bags.offsets
    scale = max(1.0, float(np.abs(scores).max()))
    # The limit of the highest instance of a bag without a cost.
    limit = segment_max(scores, offsets) - excess + 1e-9 * scale
    wrong = (scores > limit[step.owner]) & (segment_rank(scores, offsets) < _CUTS_PER_BAG)
    return np.setdiff1d(np.flatnonzero(wrong), step.cuts)
