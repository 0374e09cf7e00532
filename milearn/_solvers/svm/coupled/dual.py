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

import numpy as np

from ...._bags.segments import segment_argmax, segment_max
from ...._compat import LimitedSVC
from ...common.qp import QPResult, solve_qp_near
from ..losses import BagLoss, Coupling
from .dual_qp import CoupledDualQP, WarmStart
from .geometry import StepGeometry
from .gram import BagGram

__all__ = ["StepSolution", "WarmStart", "solve_step"]

# Precision of the first and of the last dual problem, and a residual that is small enough.
_INITIAL_TOL = 1e-8
_MIN_TOL = 1e-12
_EXACT_RESIDUAL = 1e-10
_MAX_ROUNDS = 200
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
    warm_start: WarmStart
    # Number of generated cuts and of dual problems, and how many of these needed a QP backend.
    n_cuts: int = 0
    n_solves: int = 0
    n_backend: int = 0


def solve_step(
    bags: BagGram,
    loss: BagLoss,
    coupling: Coupling,
    subgradient: np.ndarray,
    *,
    tol: float,
    cuts: str | np.ndarray = "lazy",
    warm_start: WarmStart | None = None,
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
    warm_start : WarmStart, default=None
        The warm start of a solution of a similar problem.
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
    precision, n_solves, n_backend = _INITIAL_TOL, 0, 0
    if warm_start is None:
        warm_start = _start_of_hinge(step, many_bags)
    while True:
        dual = CoupledDualQP(step)
        start = None if warm_start is None else dual.from_warm_start(warm_start)
        result = solve_qp_near(dual.qp, start, tol=precision)
        n_solves += 1
        n_backend += result.solver != "active-set"
        warm_start = dual.to_warm_start(result)
        solution, excess = _certify(step, dual, result, warm_start)
        solution.n_solves, solution.n_backend = n_solves, n_backend
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
            warm_start = None


def _start_of_hinge(step: StepGeometry, many_bags: int) -> WarmStart | None:
    """The solution by libsvm as a warm start, for many uncoupled bags with a hinge loss."""
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
    return WarmStart.of_data(values, upper)


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
    step: StepGeometry, dual: CoupledDualQP, result: QPResult, warm_start: WarmStart
) -> tuple[StepSolution, np.ndarray]:
    """Scores, primal value and gap of the whole problem, and the violation of each bag."""
    bags, coupling, owner = step.bags, step.coupling, step.owner[step.cuts]
    of_bags, of_mixtures, of_cut_instances, of_cuts = _coefficients(step, dual.weights(result.x))
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
        intercept, value = step.loss.split(highest, mixtures)
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
        warm_start=warm_start,
        n_cuts=len(step.cuts),
    )
    return solution, excess


def _violators(step: StepGeometry, solution: StepSolution, excess: np.ndarray) -> np.ndarray:
    """The highest instances whose constraints are violated."""
    scale = max(1.0, float(np.abs(solution.scores).max()))
    candidates = step.cut_candidates
    wrong = np.zeros(len(excess), dtype=bool)
    wrong[candidates] = excess[candidates] > 1e-9 * scale
    highest = segment_argmax(solution.scores, step.bags.offsets)[wrong]
    return np.setdiff1d(highest, step.cuts)
