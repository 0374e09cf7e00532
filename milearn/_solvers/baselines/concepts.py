"""Concepts of each class: local maxima of the diverse density, and distances from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._bags.distinct import PointBags
from ..._bags.segments import segment_min
from ..._kernels.instance import resolve_gamma
from .diverse_density import (
    ConceptProblem,
    ConceptSolution,
    centred_points,
    noisy_or,
    noisy_or_solution,
    promising_starts,
    sampled_problem,
    squared_distances,
)

# Concepts with a smaller distance, as a fraction of their size, count as one.
_SAME_CONCEPT = 0.05


@dataclass(frozen=True)
class Concepts:
    """Concept points with the scales of their features."""

    # Of shape (n_concepts, n_features).
    points: np.ndarray
    scales: np.ndarray
    # Number of the class of each, of shape (n_concepts,).
    codes: np.ndarray
    # Negative logarithms of their diverse densities, of shape (n_concepts,).
    objectives: np.ndarray
    # Resolved value of ``gamma``.
    gamma: float
    # Number of runs that have not converged.
    n_limited: int
    # Number of iterations of the longest descent.
    n_iter: int

    def fitted(self) -> dict[str, Any]:
        """Fitted attributes of an estimator."""
        return {
            "concepts_": self.points,
            "scales_": self.scales,
            "concept_codes_": self.codes,
            "concept_objectives_": self.objectives,
            "gamma_": self.gamma,
            "n_iter_": self.n_iter,
        }


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
            kept = sorted(
                (replace(each, objective=_objective(problem, each)) for each in kept),
                key=lambda each: each.objective,
            )
        found += [(code, each) for each in kept]
    return Concepts(
        np.stack([each.concept + centre for _, each in found]),
        np.stack([each.scales for _, each in found]),
        np.array([code for code, _ in found]),
        np.array([each.objective for _, each in found]),
        gamma=gamma,
        n_limited=sum(not each.converged for _, each in found),
        n_iter=max(each.n_iter for _, each in found),
    )


def _objective(problem: ConceptProblem, found: ConceptSolution) -> float:
    """The noisy-or loss of a concept for all bags."""
    distances = squared_distances(problem.instances, found.concept, found.scales)
    return float(noisy_or(problem, distances)[0])


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
    rows: np.ndarray = np.sqrt(np.stack(columns, axis=1))
    return rows
