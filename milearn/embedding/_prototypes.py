"""Embeddings of bags by training bags, by instances of them (MILES), or by concepts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.distinct import PointBags, drawn_points
from .._compat import StrOptions
from .._constraints import AT_LEAST_ONE, Constraints
from .._fit.threads import fit_context
from .._fit.validation import TrainingLabels
from .._fit.warn import warn_of_limit
from .._kernels.instance import resolve_gamma
from .._solvers.baselines.diverse_density import CONCEPT_OPTIONS, concept_distances, learn_concepts
from ..metrics import bag_distances
from ..metrics._bag_kernels import largest_similarities, prototype_bags
from ._base import BagEmbedding

# Number of training bags up to which "auto" uses all of them.
_AUTO_BAGS = 2000


class BagDissimilarity(BagEmbedding):
    r"""Represent each bag by its distances to the training bags, or to some of them.

    Entry k of a row is the distance from the bag to the k-th training bag, by default the mean
    over its instances of the smallest squared distance (MInD),

    .. math::

        D(B, B_k) = \frac{1}{|B|} \sum_{x \in B} \min_{z \in B_k} \|x - z\|^2 .

    The result can be used with any scikit-learn classifier or regressor, most often a support
    vector machine.

    Read more in the :ref:`User Guide <methods_embeddings>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    metric : {"min", "max", "mean", "mind", "emd"}, default="mind"
        Distance between bags, see :func:`milearn.metrics.bag_distances`.
    directed : bool, default=True
        With "mind": only use distances from the bag to the training bag, as above, instead of the
        mean of both directions.
    squared : bool, default=True
        With "mind": squared distances of instances.
    n_prototypes : int, "auto" or None, default="auto"
        Maximum number of training bags whose distances are columns, a random sample of them. None
        uses all of them. "auto" uses at most 2,000, and so few that there are at most 2**33 (8.6
        billion) pairs of a training instance and an instance of a sampled bag.
    random_state : int, RandomState instance or None, default=None
        Determines which bags are drawn.

    Attributes
    ----------
    bags_ : Bags
        The training bags of the columns.
    prototype_positions_ : ndarray of shape (n_prototypes_,)
        Their positions among the training bags, ascending.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    See Also
    --------
    milearn.metrics.bag_distances : The distances.
    MILESEmbedding : Similarities to training instances.

    Notes
    -----
    [1]_ compares several dissimilarities; the default here is the best of them on average. Features
    should be on the same scale. Columns are in the order of the
    training bags. The kernel and cost
    of the following classifier matter: with standardised instances, a linear ``SVC(C=1)`` on the
    unscaled rows reached 92.4 % on Musk1 and 86.0 % on Elephant in one ten-fold cross-validation,
    and an RBF kernel on standardised rows 85.9 and 77.0 %.

    References
    ----------
    .. [1] V. Cheplygina, D. M. J. Tax, M. Loog. Multiple instance learning with bag
       dissimilarities. Pattern Recognition 48(1), 2015.

    Examples
    --------
    >>> from milearn.embedding import BagDissimilarity
    >>> bags = [[[0.0], [1.0]], [[3.0]]]
    >>> BagDissimilarity().fit_transform(bags)
    array([[0. , 6.5],
           [4. , 0. ]])
    """

    _parameter_constraints = Constraints(
        metric=[StrOptions({"min", "max", "mean", "mind", "emd"})],
        directed=["boolean"],
        squared=["boolean"],
    )

    _dtypes = (np.float64, np.float32)
    # Columns are training bags, in their order.
    _columns_follow_bags = True
    bags_: Bags
    prototype_positions_: np.ndarray

    def __init__(
        self,
        metric: str = "mind",
        *,
        directed: bool = True,
        squared: bool = True,
        n_prototypes: int | str | None = "auto",
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.directed = directed
        self.squared = squared
        self.n_prototypes = n_prototypes
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> BagDissimilarity:
        """Store the training bags.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : ignored
            Present for consistency with other estimators.

        Returns
        -------
        self
            The fitted transformer.
        """
        bags, fitted = self._validate_fit(X)
        options: dict[str, Any] = {"metric": self.metric}
        if self.metric == "mind":
            options |= {"directed": self.directed, "squared": self.squared}
        kept, drawn = prototype_bags(bags, self.n_prototypes, _AUTO_BAGS, self.random_state)
        fitted |= {
            "bags_": kept,
            "prototype_positions_": drawn,
            "_options": options,
            "_n_features_out": len(drawn),
        }
        self._replace_fitted(fitted)
        return self

    def _rows(self, bags: Bags) -> np.ndarray:
        return bag_distances(bags, self.bags_, **self._options)


class MILESEmbedding(BagEmbedding):
    r"""Represent each bag by its largest similarities to instances of the training bags.

    With the distinct training instances :math:`z_1, \dots, z_m` as prototypes, the row of a bag has
    the entries

    .. math::

        s_k(B) = \max_{x \in B} \exp(-\gamma \|x - z_k\|^2), \qquad k = 1, \dots, m .

    Any scikit-learn classifier or regressor can follow; the 1-norm support vector machine of the
    paper is :class:`milearn.baselines.MILES`.

    Read more in the :ref:`User Guide <methods_embeddings>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    gamma : {"scale", "auto"} or float, default="scale"
        The inverse of the squared width. "scale" is 1 / (n_features * variance of the instances),
        "auto" is 1 / n_features.
    n_prototypes : int, "auto" or None, default="auto"
        Maximum number of prototypes, sampled from the distinct training instances. None uses all
        of them. "auto" uses all up to 10,000, and fewer for more than 3,355 bags: not more than
        2**25 (33.5 million) entries for the training bags, but 1,000 columns in any case.
    random_state : int, RandomState instance or None, default=None
        Determines which prototypes are drawn.

    Attributes
    ----------
    prototypes_ : ndarray or CSR of shape (n_prototypes_, n_features)
        The prototypes, in an order that does not depend on the order of the training bags.
    prototype_rows_ : ndarray of shape (n_prototypes_,)
        Rows of the prototypes in the training instances.
    gamma_ : float
        Resolved value of ``gamma``.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    See Also
    --------
    milearn.baselines.MILES : A classifier based on this embedding.
    BagDissimilarity : Distances to the training bags.

    Notes
    -----
    [1]_ uses :math:`1 / \sigma^2` instead of :math:`\gamma`. Similarities are computed for all
    pairs of an instance and a prototype, in blocks of a few MiB. CSR instances stay CSR.

    References
    ----------
    .. [1] Y. Chen, J. Bi, J. Z. Wang. MILES: Multiple-Instance Learning via Embedded Instance
       Selection. IEEE TPAMI 28(12), 2006.

    Examples
    --------
    >>> from milearn.embedding import MILESEmbedding
    >>> bags = [[[0.0], [1.0]], [[3.0]]]
    >>> embedding = MILESEmbedding(gamma=1.0).fit(bags)
    >>> order = embedding.prototypes_[:, 0].argsort()
    >>> embedding.transform(bags)[:, order].round(3)
    array([[1.   , 1.   , 0.018],
           [0.   , 0.018, 1.   ]])
    """

    _parameter_constraints = Constraints()

    prototypes_: Any
    prototype_rows_: np.ndarray
    gamma_: float

    def __init__(
        self,
        gamma: Any = "scale",
        *,
        n_prototypes: int | str | None = "auto",
        random_state: Any = None,
    ) -> None:
        self.gamma = gamma
        self.n_prototypes = n_prototypes
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> MILESEmbedding:
        """Select prototypes and compute the width from the training bags.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : ignored
            Present for consistency with other estimators.

        Returns
        -------
        self
            The fitted transformer.
        """
        bags, fitted = self._validate_fit(X)
        rng = check_random_state(self.random_state)
        rows = drawn_points(bags, self.n_prototypes, rng)
        fitted |= {
            "prototypes_": bags.instances[rows],
            "prototype_rows_": rows,
            "_n_features_out": len(rows),
            "gamma_": resolve_gamma(self.gamma, bags.instances),
        }
        self._replace_fitted(fitted)
        return self

    def _rows(self, bags: Bags) -> np.ndarray:
        return largest_similarities(bags, self.prototypes_, self.gamma_)


class ConceptEmbedding(BagEmbedding):
    r"""Represent each bag by its distances from the concept points of the classes (DD-SVM).

    The concepts of a class are points t with scales s at which the diverse density of
    :class:`milearn.baselines.DiverseDensity` has a local maximum, with the bags of the class as
    positive bags. The row of a bag has one entry per concept,

    .. math::

        d_k(B) = \min_{x \in B} \Bigl( \sum_f s_{kf}^2 (x_f - t_{kf})^2 \Bigr)^{1/2} .

    Any scikit-learn classifier can follow; the support vector machine of the paper is
    :class:`milearn.baselines.DDSVM`.

    Read more in the :ref:`User Guide <methods_embeddings>`.

    .. versionadded:: 0.1.0

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

    _parameter_constraints = Constraints(n_init=[AT_LEAST_ONE, None])

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
        options = {name: getattr(self, name) for name in CONCEPT_OPTIONS}
        concepts = learn_concepts(part.instances, merged, **options)
        n_columns = len(concepts.concepts)
        self._replace_fitted({**noted, **concepts.fitted(), "_n_features_out": n_columns})
        warn_of_limit(self, concepts.n_limited, n_columns, "concept(s)")
        return self

    def _rows(self, bags: Bags) -> np.ndarray:
        return concept_distances(bags.instances, bags.offsets, self.concepts_, self.scales_)
