"""DD-SVM: a support vector machine on distances from concept points."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.svm import SVC

from .._bags import Bags
from .._compat import LIBSVM_STEPS
from .._constraints import AT_LEAST_ONE, Constraints
from .._fit.threads import fit_context
from .._fit.warn import warn_of_limit
from .._kernels.instance import resolve_gamma
from .._solvers.baselines.diverse_density import CONCEPT_OPTIONS, concept_distances, learn_concepts
from ..base import class_scores
from ._base import BaselineClassifier

_SVC_TOL = 1e-6


class DDSVM(BaselineClassifier):
    r"""Support vector machine on the distances of a bag from concept points (DD-SVM).

    Concepts are local maxima of the diverse density of each class: points :math:`t_k` with scales
    :math:`s_k`. A bag is represented by its smallest distance from each concept,
    :math:`d_k(B) = \min_{x \in B} \|s_k (x - t_k)\|`, see
    :class:`milearn.embedding.ConceptEmbedding`, and a support vector machine with an RBF kernel
    separates these rows,

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2
        + C \sum_i c_i \, [1 - y_i (\langle w, \phi(d(B_i)) \rangle + b)]_+ .

    Read more in the :ref:`User Guide <methods_classic>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack against the norm of w. Must be positive.
    n_init : int, default=10
        Number of runs per class, started at the instances of its bags with the lowest objective
        at the initial scales. None starts from all of them, as published.
    gamma : {"scale", "auto"} or float, default="scale"
        Initial value of all squared scales of a concept. "scale" is 1 / (n_features * variance of
        the instances), "auto" is 1 / n_features. The width of the kernel is derived from the
        variance of the rows.
    tol : float, default=1e-4
        Relative decrease of the objective at which a descent ends.
    max_iter : int, default=500
        Maximum number of iterations of a descent.
    max_instances : int or None, default=30_000
        If there are more instances, concepts are those of a sample of the bags with about
        this number of instances. None uses all bags.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of the bags for each class.
    pos_label : label, default=None
        The positive class. By default, it is ``classes_[1]``. Concepts are computed for every
        class, so this only changes the sign of scores. With three or more classes there is one
        support vector machine per class (one-vs-rest).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    concepts_ : ndarray of shape (n_concepts, n_features)
        The concept points.
    scales_ : ndarray of shape (n_concepts, n_features)
        Their scales.
    concept_codes_ : ndarray of shape (n_concepts,)
        Number of the class of each concept, as in ``classes_``.
    concept_objectives_ : ndarray of shape (n_concepts,)
        Negative logarithms of their diverse densities.
    gamma_ : float
        Resolved value of ``gamma``.
    n_iter_ : int
        Number of iterations of the longest selected descent.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    MemoryError
        If the instances are CSR and a dense copy does not fit into the available memory.

    Warns
    -----
    ConvergenceWarning
        If a selected run did not converge within ``max_iter`` iterations.

    See Also
    --------
    milearn.embedding.ConceptEmbedding : The representation, for any other classifier.
    DiverseDensity : A classifier based on the best concept.
    MILES : Similarities to all training instances, and a 1-norm support vector machine.

    Notes
    -----
    [1]_ starts from every instance and chooses C and the width by cross-validation. An instance is
    scored as a bag of one.

    References
    ----------
    .. [1] Y. Chen, J. Z. Wang. Image Categorization by Learning and Reasoning with Regions.
       JMLR 5, 2004.

    Examples
    --------
    >>> from milearn.baselines import DDSVM
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=40, n_features=3, random_state=0)
    >>> DDSVM().fit(bags, y).score(bags, y) > 0.9
    True
    """

    _parameter_constraints = Constraints(n_init=[AT_LEAST_ONE, None])

    _treats_classes_alike = True
    _bag_score_is_max = False
    concepts_: np.ndarray
    scales_: np.ndarray
    _models: list[SVC]

    def __init__(
        self,
        C: float = 10.0,
        *,
        n_init: int | None = 10,
        gamma: Any = "scale",
        tol: float = 1e-4,
        max_iter: int = 500,
        max_instances: int | None = 30_000,
        class_weight: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.C = C
        self.n_init = n_init
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
        self.max_instances = max_instances
        self.class_weight = class_weight
        self.pos_label = pos_label

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DDSVM:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        training = self._training(X, y, sample_weight)
        merged = training.merged()
        instances = training.bags.instances
        options = {name: getattr(self, name) for name in CONCEPT_OPTIONS}
        concepts = learn_concepts(instances, merged, **options)
        points = instances[merged.kept[merged.point_of]]
        rows = concept_distances(points, merged.offsets, concepts.concepts, concepts.scales)
        width = resolve_gamma("scale", rows, merged.sample_weights)
        self._replace_fitted(
            {
                **training.fitted(),
                **concepts.fitted(),
                "_models": [
                    SVC(C=self.C, gamma=width, tol=_SVC_TOL, max_iter=LIBSVM_STEPS).fit(
                        rows, np.where(positive, 1, -1), sample_weight=merged.weights
                    )
                    for positive in training.problems(merged)
                ],
            }
        )
        warn_of_limit(self, concepts.n_limited, len(concepts.concepts), "concept(s)")
        return self

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        rows = concept_distances(bags.instances, bags.offsets, self.concepts_, self.scales_)
        columns = [model.decision_function(rows) for model in self._models]
        return class_scores(columns, self._positive_sign)
