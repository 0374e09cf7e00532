"""Bags as their distances from concept points (the embedding of DD-SVM)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from .._bags import Bags
from .._bags.segments import segment_min
from .._compat import Interval, StrOptions
from .._fit.threads import fit_context
from .._fit.validation import encode_classes, validate_labels, validate_sample_weight
from .._fit.warn import warn_user
from .._kernels.instance import resolve_gamma
from .._solvers.baselines.diverse_density import (
    ConceptProblem,
    ConceptSolution,
    noisy_or_solution,
    promising_starts,
)
from ._base import BagEmbedding
from ._merged import MergedBags

__all__ = ["ConceptEmbedding", "Concepts", "concept_distances", "learn_concepts"]

# Concepts closer than this share of their size are one.
_SAME_CONCEPT = 0.05


class Concepts:
    """Concept points with the scales of their features.

    Parameters
    ----------
    points, scales : ndarray of shape (n_concepts, n_features)
    codes : ndarray of shape (n_concepts,)
        Number of the class of each.
    objectives : ndarray of shape (n_concepts,)
        Negative logarithms of their diverse densities.
    gamma : float
        The number behind ``gamma``.
    limited : int
        How many of them had not converged.
    n_iter : int
        Iterations of the longest descent.
    """

    def __init__(
        self,
        points: np.ndarray,
        scales: np.ndarray,
        codes: np.ndarray,
        objectives: np.ndarray,
        *,
        gamma: float,
        limited: int,
        n_iter: int,
    ) -> None:
        self.points, self.scales, self.codes = points, scales, codes
        self.objectives, self.gamma = objectives, gamma
        self.limited, self.n_iter = limited, n_iter

    def fitted(self) -> dict[str, Any]:
        """Fitted attributes of what is made of them."""
        return {
            "concepts_": self.points,
            "scales_": self.scales,
            "concept_codes_": self.codes,
            "concept_objectives_": self.objectives,
            "gamma_": self.gamma,
            "n_iter_": self.n_iter,
        }

    def warn_of_limit(self, name: str, max_iter: int) -> None:
        """Warn where descents ended at ``max_iter``."""
        if self.limited:
            warn_user(
                f"{name} stopped at max_iter={max_iter} before convergence in {self.limited} of "
                f"{len(self.points)} concept(s): raise max_iter or tol.",
                ConvergenceWarning,
            )


class ConceptEmbedding(BagEmbedding):
    r"""Turn each bag into its distances from the concept points of the classes (DD-SVM).

    For each class in turn concepts are sought: points t with scales s at which the diverse density
    of :class:`milearn.baselines.DiverseDensity` has a local maximum, with the bags of the class as
    the positive ones. The row of a bag has an entry for each of them,

    .. math::

        d_k(B) = \min_{x \in B} \Bigl( \sum_f s_{kf}^2 (x_f - t_{kf})^2 \Bigr)^{1/2} .

    Any scikit-learn classifier can follow; the support vector machine of the paper is
    :class:`milearn.baselines.DDSVM`.

    Parameters
    ----------
    n_starts : int, default=10
        Number of instances of the bags of a class to descend from: those with the lowest
        objective at the first scales. All of them when None, as published.
    gamma : {"scale", "auto"} or float, default="scale"
        First value of all :math:`s_f^2`. "scale" is 1 / (n_features * variance of the instances),
        "auto" is 1 / n_features.
    tol : float, default=1e-4
        Relative decrease of the objective at which a descent ends.
    max_iter : int, default=500
        Maximum number of iterations of a descent.

    Attributes
    ----------
    concepts_ : ndarray of shape (n_concepts, n_features)
        The points t, those of the first class first and those of the highest density first.
    scales_ : ndarray of shape (n_concepts, n_features)
        The scales s, not below zero.
    concept_codes_ : ndarray of shape (n_concepts,)
        Number of the class of each concept.
    concept_objectives_ : ndarray of shape (n_concepts,)
        Negative logarithms of their diverse densities.
    gamma_ : float
        The number behind ``gamma``.
    n_iter_ : int
        Number of iterations of the longest descent that is kept.
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    MemoryError
        For CSR instances, where a dense copy of them does not fit into the available memory.

    Warns
    -----
    ConvergenceWarning
        When a descent that is kept has not converged after ``max_iter`` iterations.

    See Also
    --------
    milearn.baselines.DDSVM : The classifier on top of it.
    MILESEmbedding : Similarities to all training instances.

    Notes
    -----
    Of the local maxima of a class those are kept whose negative logarithm of the density is at most
    the mean of the lowest and the highest, and that are not within 5 % (of the norm of s * t, in
    its own scales) of a better one. [1]_ takes that mean of the densities themselves, which
    underflow with hundreds of bags.

    References
    ----------
    .. [1] Y. Chen, J. Z. Wang. Image Categorization by Learning and Reasoning with Regions.
       JMLR 5, 2004.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.embedding import ConceptEmbedding
    >>> bags, y = make_bags(n_bags=40, n_features=3, random_state=0)
    >>> embedding = ConceptEmbedding().fit(bags, y)
    >>> embedding.transform(bags).shape == (40, len(embedding.concepts_))
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_starts": [Interval(Integral, 1, None, closed="left"), None],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    concepts_: np.ndarray
    scales_: np.ndarray

    def __init__(
        self,
        n_starts: int | None = 10,
        *,
        gamma: Any = "scale",
        tol: float = 1e-4,
        max_iter: int = 500,
    ) -> None:
        self.n_starts = n_starts
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ConceptEmbedding:
        """Find the concepts of the classes.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag in the likelihood; a weight of two equals a bag that is there twice.

        Returns
        -------
        self
            The fitted transformer.
        """
        bags, noted = self._validate_fit(X)
        labels = validate_labels(self, y, bags)
        weights = validate_sample_weight(sample_weight, bags)
        used = np.flatnonzero(weights > 0)
        _, codes, _ = encode_classes(labels[used])
        part = bags if len(used) == len(bags) else bags[used]
        merged = MergedBags.of(part, codes, weights[used], weights[used])
        concepts = learn_concepts(part.instances, merged, self)
        self._replace_fitted({**noted, **concepts.fitted()})
        concepts.warn_of_limit("ConceptEmbedding", self.max_iter)
        return self

    def _rows(self, bags: Bags) -> np.ndarray:
        return concept_distances(bags.instances, bags.offsets, self.concepts_, self.scales_)

    @property
    def _n_features_out(self) -> int:
        return len(self.concepts_)


def learn_concepts(instances: Any, merged: MergedBags, options: Any) -> Concepts:
    """Concepts of each class of merged bags.

    Parameters
    ----------
    instances : ndarray or CSR
        Those of the bags that were merged.
    merged : MergedBags
    options : estimator
        With the parameters ``n_starts``, ``gamma``, ``tol`` and ``max_iter``.
    """
    X, centre = merged.centred(instances)
    gamma = resolve_gamma(options.gamma, X, merged.instance_weights)
    first_scales = np.full(X.shape[1], np.sqrt(gamma))
    found: list[tuple[int, ConceptSolution]] = []
    for code in np.unique(merged.codes).tolist():
        problem = ConceptProblem(X, merged.offsets, merged.codes == code, merged.weights)
        candidates = np.flatnonzero(np.repeat(problem.positive, np.diff(problem.offsets)))
        candidates = candidates[np.unique(merged.point_of[candidates], return_index=True)[1]]
        n_starts = len(candidates) if options.n_starts is None else options.n_starts
        solutions = [
            noisy_or_solution(
                problem, row, first_scales, tol=options.tol, max_iter=options.max_iter
            )
            for row in promising_starts(problem, first_scales, candidates, n_starts).tolist()
        ]
        found += [(code, each) for each in _distinct_maxima(solutions)]
    return Concepts(
        np.stack([each.concept + centre for _, each in found]),
        np.stack([each.scales for _, each in found]),
        np.array([code for code, _ in found]),
        np.array([each.objective for _, each in found]),
        gamma=gamma,
        limited=sum(not each.converged for _, each in found),
        n_iter=max(each.n_iter for _, each in found),
    )


def _distinct_maxima(solutions: list[ConceptSolution]) -> list[ConceptSolution]:
    """The better half of the range of objectives, the best first, without repetitions."""
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
    columns = []
    for point, scale in zip(points, scales, strict=True):
        if sparse.issparse(instances):
            weights = scale * scale
            squares = np.asarray(instances.multiply(instances) @ weights)
            squares = squares - 2.0 * (instances @ (weights * point)) + weights @ (point * point)
        else:
            steps = (instances - point) * scale
            squares = np.einsum("ij,ij->i", steps, steps)
        columns.append(segment_min(np.maximum(squares, 0.0), offsets))
    rows: np.ndarray = np.sqrt(np.stack(columns, axis=1))
    return rows
