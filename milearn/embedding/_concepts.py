"""Bags as their distances from concept points (the embedding of DD-SVM)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from .._bags import Bags
from .._bags.distinct import PointBags
from .._compat import Interval, StrOptions
from .._fit.threads import fit_context
from .._fit.validation import TrainingLabels
from .._fit.warn import warn_of_limit
from .._solvers.baselines.concepts import concept_distances, learn_concepts
from ._base import BagEmbedding


class ConceptEmbedding(BagEmbedding):
    r"""Represent each bag by its distances from the concept points of the classes (DD-SVM).

    The concepts of a class are points t with scales s at which the diverse density of
    :class:`milearn.baselines.DiverseDensity` has a local maximum, with the bags of the class as
    positive bags. The row of a bag has one entry per concept,

    .. math::

        d_k(B) = \min_{x \in B} \Bigl( \sum_f s_{kf}^2 (x_f - t_{kf})^2 \Bigr)^{1/2} .

    Any scikit-learn classifier can follow; the support vector machine of the paper is
    :class:`milearn.baselines.DDSVM`.

    Parameters
    ----------
    n_init : int, default=10
        Number of runs per class, started at the instances of its bags with the lowest objective
        at the initial scales. None starts from all of them, as published.
    gamma : {"scale", "auto"} or float, default="scale"
        Initial value of all :math:`s_f^2`. "scale" is 1 / (n_features * variance of the instances),
        "auto" is 1 / n_features.
    tol : float, default=1e-4
        Relative decrease of the objective at which a run ends.
    max_iter : int, default=500
        Maximum number of iterations per run.
    max_instances : int or None, default=30_000
        If there are more instances, concepts are those of a sample of the bags with about
        this number of instances. None uses all bags.

    Attributes
    ----------
    concepts_ : ndarray of shape (n_concepts, n_features)
        The points t, sorted by class and by decreasing density.
    scales_ : ndarray of shape (n_concepts, n_features)
        The scales s, which are nonnegative.
    concept_codes_ : ndarray of shape (n_concepts,)
        Number of the class of each concept.
    concept_objectives_ : ndarray of shape (n_concepts,)
        Negative logarithms of their diverse densities.
    gamma_ : float
        Resolved value of ``gamma``.
    n_iter_ : int
        Number of iterations of the longest run that is kept.
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    MemoryError
        If the instances are CSR and a dense copy does not fit into the available memory.

    Warns
    -----
    ConvergenceWarning
        If a run that is kept did not converge within ``max_iter`` iterations.

    See Also
    --------
    milearn.baselines.DDSVM : A classifier based on this embedding.
    MILESEmbedding : Similarities to all training instances.

    Notes
    -----
    A local maximum is kept if its negative logarithm of the density is at most the mean of the
    lowest and the highest one of the class, and if its distance to each better maximum is at least
    5 % (of the norm of s * t, in its own scales). [1]_ uses the mean of the densities, which
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
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_instances": [Interval(Integral, 1, None, closed="left"), None],
    }

    concepts_: np.ndarray
    scales_: np.ndarray

    def __init__(
        self,
        n_init: int | None = 10,
        *,
        gamma: Any = "scale",
        tol: float = 1e-4,
        max_iter: int = 500,
        max_instances: int | None = 30_000,
    ) -> None:
        self.n_init = n_init
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
        self.max_instances = max_instances

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
            Weight of each bag in the likelihood. A weight of two is equivalent to duplicating the
            bag.

        Returns
        -------
        self
            The fitted transformer.
        """
        bags, noted = self._validate_fit(X)
        found = TrainingLabels.of(self, y, bags, sample_weight)
        part = bags if len(found.used) == len(bags) else bags[found.used]
        merged = PointBags.of(part, found.codes, found.weights, found.sample_weights)
        concepts = learn_concepts(
            part.instances,
            merged,
            n_init=self.n_init,
            gamma=self.gamma,
            tol=self.tol,
            max_iter=self.max_iter,
            max_instances=self.max_instances,
        )
        n_columns = len(concepts.points)
        self._replace_fitted({**noted, **concepts.fitted(), "_n_features_out": n_columns})
        warn_of_limit(self, concepts.n_limited, n_columns, "concept(s)")
        return self

    def _rows(self, bags: Bags) -> np.ndarray:
        return concept_distances(bags.instances, bags.offsets, self.concepts_, self.scales_)
