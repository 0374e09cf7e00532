r"""Diverse density: a concept point t with scales s, close to positive bags and far from others.

With D_j = sum_k s_k^2 (x_jk - t_k)^2 and p_j = exp(-D_j) both problems minimise a negative
log-likelihood sum_i c_i L_i of the bags,

    noisy-or:  L_i = -log(1 - prod_j (1 - p_j))  (positive),  -sum_j log(1 - p_j)  (negative)
    nearest:   L_i = min_j D_j                   (positive),  -log(1 - max_j p_j)  (negative)

over t and s. The first is diverse density, minimised by L-BFGS from several starts. The second is
EM-DD, which alternates between the nearest instance of each bag and L-BFGS for these instances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.utils import gen_batches

from ..._bags.distinct import PointBags, distinct_points
from ..._bags.segments import gather_rows, segment_min
from ..._kernels.instance import resolve_gamma
from ..._kernels.memory import require_memory
from .noisy_or_boosting import log_complement

# Smallest distance, so that an instance of a negative bag at the concept has a finite loss.
_NEAREST = 1e-8
# For larger exponents the probability p is so small that 1 - p is 1 in double precision.
_VANISHED = -30.0
_LARGEST_EXPONENT = 700.0
_GRADIENT_TOL = 1e-8
# Number of rounds without a lower loss after which EM-DD stops.
_PATIENCE = 5
# Maximum size of the matrix of distances of several starts in bytes.
_BLOCK_BYTES = 2**23
# Distances of all instances from the candidates for a start.
_MOST_ENTRIES = 2**26
# Entries of dense instances whose differences from a concept are computed at once.
_ENTRIES_AT_ONCE = 2**17
# Concepts with a smaller distance, as a fraction of their size, count as one.
_SAME_CONCEPT = 0.05
# Keyword arguments of :func:`learn_concepts`, which are parameters of estimators.
CONCEPT_OPTIONS = ("n_init", "gamma", "tol", "max_iter", "max_instances")


@dataclass(frozen=True)
class ConceptProblem:
    """Bags of dense instances, positive and negative, with their costs."""

    # Of shape (n_instances, n_features).
    instances: np.ndarray
    # Of shape (n_bags + 1,).
    offsets: np.ndarray
    positive: np.ndarray
    # Of shape (n_bags,).
    costs: np.ndarray


@dataclass
class ConceptSolution:
    """A concept with its loss."""

    # Of shape (n_features,).
    concept: np.ndarray
    scales: np.ndarray
    objective: float
    # Number of iterations of L-BFGS.
    n_iter: int
    converged: bool


def squared_distances(instances: Any, concept: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """D of each instance, dense or CSR, shape (n_instances,)."""
    if sparse.issparse(instances):
        weights = scales * scales
        norms = np.asarray(instances.multiply(instances) @ weights)
        products = np.asarray(instances @ (weights * concept))
        return np.asarray(norms - 2.0 * products + weights @ (concept * concept))
    squares = np.empty(len(instances))
    # A block stays in the cache.
    for part in gen_batches(len(instances), max(1, _ENTRIES_AT_ONCE // len(concept))):
        steps = instances[part] - concept
        steps *= scales
        np.einsum("ij,ij->i", steps, steps, out=squares[part])
    return squares


def noisy_or(problem: ConceptProblem, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loss and its derivative by the distances.

    Parameters
    ----------
    problem : ConceptProblem
    distances : ndarray of shape (n_instances,) or (n_instances, n_init)
        D of each instance.

    Returns
    -------
    loss : ndarray of shape () or (n_init,)
    slopes : ndarray of the shape of ``distances``
    """
    starts, sizes = problem.offsets[:-1], np.diff(problem.offsets)
    D = np.maximum(distances, _NEAREST)
    odds = 1.0 / np.expm1(np.minimum(D, _LARGEST_EXPONENT))  # p / (1 - p)
    no_instance = np.add.reduceat(log_complement(D), starts, axis=0)  # log prod (1 - p)
    nearest = np.minimum.reduceat(D, starts, axis=0)
    shifted = np.exp(np.repeat(nearest, sizes, axis=0) - D)
    total = np.add.reduceat(shifted, starts, axis=0)
    # For p below rounding, 1 - prod (1 - p) is the sum of the p.
    vanished = -nearest < _VANISHED
    safe = np.where(vanished, -1.0, no_instance)
    log_some = np.where(vanished, np.log(total) - nearest, log_complement(-safe))
    positive, costs = problem.positive, problem.costs
    shape = (-1,) + (1,) * (D.ndim - 1)
    weight = costs.reshape(shape)
    is_positive = positive.reshape(shape)
    loss = (weight * np.where(is_positive, -log_some, -no_instance)).sum(axis=0)
    by_bag = np.where(is_positive, 1.0 / np.expm1(np.minimum(-safe, _LARGEST_EXPONENT)), -1.0)
    slopes = np.repeat(weight * by_bag, sizes, axis=0) * odds
    far = np.repeat(vanished & is_positive, sizes, axis=0)
    softmax = np.repeat(weight, sizes, axis=0) * shifted / np.repeat(total, sizes, axis=0)
    return loss, np.where(far, softmax, slopes)


def centred_points(instances: Any, merged: PointBags) -> tuple[np.ndarray, np.ndarray]:
    """Centred dense instances of merged bags, and their mean over distinct instances.

    Raises MemoryError for CSR instances whose dense copy does not fit.
    """
    distinct = instances[merged.kept]
    if sparse.issparse(distinct):
        require_memory(
            16.0 * len(merged.point_of) * instances.shape[1],
            f"A dense copy of {len(merged.point_of)} x {instances.shape[1]} instances",
            "reduce the features first, by InstanceTransformer(TruncatedSVD(100))",
        )
        distinct = distinct.toarray()
    centre = distinct.mean(axis=0)
    return (distinct - centre)[merged.point_of], centre


def sampled_problem(problem: ConceptProblem, max_instances: int | None) -> ConceptProblem:
    """The problem of every k-th bag, with about ``max_instances`` instances.

    Merged bags are sorted by class and by hashes: this is a pseudo-random sample of each class.
    """
    n = int(problem.offsets[-1])
    if max_instances is None or n <= max_instances:
        return problem
    sides = [np.flatnonzero(problem.positive == side) for side in (True, False)]
    kept = [_evenly_spaced(side, max(1, round(len(side) * max_instances / n))) for side in sides]
    bags = np.sort(np.concatenate(kept))
    rows, offsets = gather_rows(problem.offsets, bags)
    return ConceptProblem(
        problem.instances[rows], offsets, problem.positive[bags], problem.costs[bags]
    )


def _evenly_spaced(values: np.ndarray, n_kept: int) -> np.ndarray:
    """At most ``n_kept`` of the values, every k-th."""
    if n_kept >= len(values):
        return values
    return np.asarray(values[np.arange(n_kept) * len(values) // n_kept])


def promising_starts(
    problem: ConceptProblem,
    scales: np.ndarray,
    n_init: int | None,
) -> np.ndarray:
    """Distinct instances of positive bags with the lowest noisy-or loss at the scales.

    Parameters
    ----------
    problem : ConceptProblem
    scales : ndarray of shape (n_features,)
    n_init : int or None
        Number of starts; None for all instances.
        Otherwise every k-th instance of positive bags is a candidate where their distances from
        all instances would be too many.

    Returns
    -------
    ndarray of shape (n_starts,)
        Rows by increasing loss; of equal losses the first instance comes first.
    """
    rows = np.flatnonzero(np.repeat(problem.positive, np.diff(problem.offsets)))
    candidates = rows[distinct_points(problem.instances[rows])[0]]
    if n_init is not None:
        most = max(n_init, _MOST_ENTRIES // len(problem.instances))
        candidates = _evenly_spaced(candidates, most)
    scaled = problem.instances * scales
    norms = np.einsum("ij,ij->i", scaled, scaled)
    block = max(1, _BLOCK_BYTES // (8 * len(scaled)))
    losses = []
    for part in gen_batches(len(candidates), block):
        rows = candidates[part]
        distances = norms[:, None] + norms[rows] - 2.0 * scaled @ scaled[rows].T
        losses.append(noisy_or(problem, distances)[0])
    order = np.argsort(np.concatenate(losses), kind="stable")
    return np.asarray(candidates[order[:n_init]])


def best_concept(
    problem: ConceptProblem,
    solve: Callable[..., ConceptSolution],
    scales: np.ndarray,
    *,
    n_init: int | None,
    max_instances: int | None,
    tol: float,
    max_iter: int,
) -> ConceptSolution:
    """The lowest of several runs, which are continued on all bags from a sample of them.

    Parameters
    ----------
    problem : ConceptProblem
    solve : callable
        :func:`noisy_or_solution` or :func:`nearest_solution`.
    scales : ndarray of shape (n_features,)
        First scales.
    n_init : int or None
        Number of runs; None for one from each instance of positive bags.
    max_instances : int or None
        Instances of the sample; None for all.
    tol : float
    max_iter : int
        Maximum number of iterations of a run.
    """
    part = sampled_problem(problem, max_instances)
    options = {"tol": tol, "max_iter": max_iter}
    found = [
        solve(part, part.instances[row], scales, **options)
        for row in promising_starts(part, scales, n_init).tolist()
    ]
    best = min(found, key=lambda each: each.objective)
    if part is problem:
        return best
    last = solve(problem, best.concept, best.scales, **options)
    return replace(last, n_iter=best.n_iter + last.n_iter)


def noisy_or_solution(
    problem: ConceptProblem, start: np.ndarray, scales: np.ndarray, *, tol: float, max_iter: int
) -> ConceptSolution:
    """Minimise the noisy-or loss from a first concept and first scales."""
    X = problem.instances
    squares = X * X

    def value(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        t, s = np.split(parameters, 2)
        loss, slopes = noisy_or(problem, squared_distances(X, t, s))
        return float(loss), _gradient(X, squares, slopes, t, s)

    found = _descend(value, np.concatenate([start, scales]), tol, max_iter)
    t, s = np.split(found.x, 2)
    return ConceptSolution(t, np.abs(s), float(found.fun), int(found.nit), found.status != 1)


def nearest_solution(
    problem: ConceptProblem, start: np.ndarray, scales: np.ndarray, *, tol: float, max_iter: int
) -> ConceptSolution:
    """Minimise the loss of the nearest instances, alternating, from a first concept and scales.

    A new nearest instance of a negative bag increases the loss, so the alternation may cycle. It
    stops if the nearest instances do not change, if the loss has not decreased for a few rounds, or
    after ``max_iter`` iterations in total. The best concept of all rounds is returned.
    """
    X, starts = problem.instances, problem.offsets[:-1]
    bag_index = np.repeat(np.arange(len(starts)), np.diff(problem.offsets))
    signs = np.where(problem.positive, problem.costs, 0.0)
    others = np.where(problem.positive, 0.0, problem.costs)
    n_iter, since_best = 0, 0
    t, s = start.copy(), scales.copy()
    best = _nearest_loss(problem, t, s), t, s
    rows = np.full(len(starts), -1)
    while n_iter < max_iter and since_best < _PATIENCE:
        nearest = np.lexsort((squared_distances(X, t, s), bag_index))[starts]
        if (nearest == rows).all():
            break
        rows = nearest
        chosen = X[rows]
        squares = chosen * chosen

        def value(
            parameters: np.ndarray, chosen: np.ndarray = chosen, squares: np.ndarray = squares
        ) -> tuple[float, np.ndarray]:
            t, s = np.split(parameters, 2)
            D = np.maximum(squared_distances(chosen, t, s), _NEAREST)
            loss = signs @ D - others @ log_complement(D)
            slopes = signs - others / np.expm1(np.minimum(D, _LARGEST_EXPONENT))
            return float(loss), _gradient(chosen, squares, slopes, t, s)

        found = _descend(value, np.concatenate([t, s]), tol, max_iter - n_iter)
        n_iter += int(found.nit)
        t, s = np.split(found.x, 2)
        loss = _nearest_loss(problem, t, s)
        since_best = 0 if loss < best[0] - tol * max(1.0, abs(best[0])) else since_best + 1
        if loss < best[0]:
            best = loss, t, s
    return ConceptSolution(best[1], np.abs(best[2]), best[0], n_iter, n_iter < max_iter)


def _nearest_loss(problem: ConceptProblem, t: np.ndarray, s: np.ndarray) -> float:
    distances = squared_distances(problem.instances, t, s)
    D = np.maximum(np.minimum.reduceat(distances, problem.offsets[:-1]), _NEAREST)
    return float(problem.costs @ np.where(problem.positive, D, -log_complement(D)))


def _gradient(
    X: np.ndarray, squares: np.ndarray, slopes: np.ndarray, t: np.ndarray, s: np.ndarray
) -> np.ndarray:
    """Gradient by (t, s) of a function whose derivative by D is given."""
    total, first, second = slopes.sum(), slopes @ X, slopes @ squares
    by_t = -2.0 * s * s * (first - total * t)
    by_s = 2.0 * s * (second - 2.0 * t * first + total * t * t)
    return np.concatenate([by_t, by_s])


def _descend(
    value: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    tol: float,
    max_iter: int,
) -> Any:
    options = {"maxiter": max_iter, "ftol": tol, "gtol": _GRADIENT_TOL}
    return minimize(value, start, jac=True, method="L-BFGS-B", options=options)


# -- the concepts of all classes ------------------------------------------------------------------


@dataclass(frozen=True)
class Concepts:
    """Concept points with the scales of their features."""

    # Of shape (n_concepts, n_features).
    concepts: np.ndarray
    scales: np.ndarray
    # Number of the class of each, of shape (n_concepts,).
    concept_codes: np.ndarray
    # Negative logarithms of their diverse densities, of shape (n_concepts,).
    concept_objectives: np.ndarray
    # Resolved value of ``gamma``.
    gamma: float
    # Number of iterations of the longest descent.
    n_iter: int
    # Number of runs that have not converged.
    n_limited: int

    def fitted(self) -> dict[str, Any]:
        """Fitted attributes of an estimator."""
        return {f"{name}_": value for name, value in vars(self).items() if name != "n_limited"}


def learn_concepts(
    instances: Any,
    merged: PointBags,
    *,
    n_init: int | None,
    gamma: Any,
    tol: float,
    max_iter: int,
    max_instances: int | None = None,
) -> Concepts:
    """Concepts of each class of merged bags; ``instances`` are the original instances.

    With more than ``max_instances`` instances they are those of a sample of the bags, sorted by
    their objectives for all bags.
    """
    X, centre = centred_points(instances, merged)
    gamma = resolve_gamma(gamma, X, merged.instance_weights)
    first_scales = np.full(X.shape[1], np.sqrt(gamma))
    found: list[tuple[int, ConceptSolution]] = []
    for code in np.unique(merged.codes).tolist():
        problem = ConceptProblem(X, merged.offsets, merged.codes == code, merged.weights)
        part = sampled_problem(problem, max_instances)
        solutions = [
            noisy_or_solution(part, part.instances[row], first_scales, tol=tol, max_iter=max_iter)
            for row in promising_starts(part, first_scales, n_init).tolist()
        ]
        kept = _distinct_maxima(solutions)
        if part is not problem:
            for each in kept:
                distances = squared_distances(X, each.concept, each.scales)
                each.objective = float(noisy_or(problem, distances)[0])
            kept.sort(key=lambda each: each.objective)
        found += [(code, each) for each in kept]
    return Concepts(
        np.stack([each.concept + centre for _, each in found]),
        np.stack([each.scales for _, each in found]),
        np.array([code for code, _ in found]),
        np.array([each.objective for _, each in found]),
        gamma=gamma,
        n_iter=max(each.n_iter for _, each in found),
        n_limited=sum(not each.converged for _, each in found),
    )


def _distinct_maxima(solutions: list[ConceptSolution]) -> list[ConceptSolution]:
    """The concepts in the lower half of the range of objectives, sorted and without duplicates."""
    solutions = sorted(solutions, key=lambda each: each.objective)
    limit = 0.5 * (solutions[0].objective + solutions[-1].objective)
    kept: list[ConceptSolution] = []
    for each in solutions:
        place = each.concept * each.scales
        near = _SAME_CONCEPT * max(float(np.linalg.norm(place)), 1e-300)
        repeated = any(
            np.linalg.norm(place - other.concept * other.scales) <= near for other in kept
        )
        if each.objective <= limit and not repeated:
            kept.append(each)
    return kept


def concept_distances(
    instances: Any, offsets: np.ndarray, points: np.ndarray, scales: np.ndarray
) -> np.ndarray:
    """Smallest scaled distance of each bag from each concept, shape (n_bags, n_concepts)."""
    columns = [
        segment_min(np.maximum(squared_distances(instances, point, scale), 0.0), offsets)
        for point, scale in zip(points, scales, strict=True)
    ]
    return np.asarray(np.sqrt(np.stack(columns, axis=1)))
