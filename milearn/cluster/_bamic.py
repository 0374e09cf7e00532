"""BAMIC: k-medoids over Hausdorff distances between bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.distinct import drawn_bags, most_bags
from .._bags.rows_on_disk import in_memory
from .._compat import StrOptions
from .._constraints import AT_LEAST_ONE, Constraints
from .._fit.multi_start import warn_of_stops
from .._fit.threads import fit_context
from .._solvers.cluster.k_medoids import k_medoids, nearest, spread_medoids
from ..base import BagClusterer
from ..metrics import bag_distances

# Bags up to which max_samples="auto" uses all.
_AUTO_BAGS = 5000


class BAMIC(BagClusterer):
    r"""k-medoids clustering of bags over Hausdorff distances.

    With the distance :math:`D` between bags that ``metric`` names, the problem is

    .. math::

        \min_{m_1, \dots, m_k} \; \sum_{i=1}^n \min_p D(B_i, B_{m_p}),

    where the medoids :math:`B_{m_p}` are bags of the data. The algorithm alternates between
    assigning bags to their nearest medoid and replacing each medoid by the most central bag of its
    cluster, until convergence. The objective does not increase; the result is a local minimum.

    Read more in the :ref:`User Guide <methods_clustering>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters, at most the number of bags.
    metric : {"min", "max", "mean"}, default="mean"
        Minimal, maximal or average Hausdorff distance, see
        :func:`milearn.metrics.bag_distances`.
    init : {"random", "k-means++"} or array-like of shape (n_clusters,), default="random"
        Initial medoids: bags sampled uniformly, sampled far from each other, or given positions
        of bags.
    n_init : int, default=10
        Number of runs. The result with the lowest objective is kept. If ``init`` is an array, it
        is used in the first run, and the other runs start from random medoids.
    max_iter : int, default=300
        Maximum number of assignments per start.
    max_samples : int, "auto" or None, default="auto"
        Number of bags, drawn without replacement, among which medoids are searched; afterwards all
        bags are assigned to the nearest medoid. None uses all bags. "auto" does so up to 5,000 bags
        and :math:`2^{33}` pairs of instances, and above draws as many bags as have both. Given
        medoids are always among the drawn bags.
    random_state : int, RandomState instance or None, default=None
        Determines the starts and the drawn bags.
    n_jobs : int, default=None
        Number of parallel jobs for the distances. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.

    Attributes
    ----------
    labels_ : ndarray of shape (n_bags,)
        Cluster of each bag.
    medoids_ : ndarray of shape (n_clusters,)
        Positions of the medoids among the bags.
    medoid_bags_ : Bags of n_clusters bags
        The medoids themselves.
    objective_ : float
        Value of the problem above, for all bags.
    objective_history_ : ndarray of shape (n_iter_,)
        The value after each assignment of the best run. It does not increase. If bags were drawn,
        it is that of the drawn bags.
    n_iter_ : int
        Number of assignments of the best run.
    converged_ : bool
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        If there are fewer bags than clusters, or if ``init`` has the wrong shape or type, or
        contains invalid or repeated positions.
    MemoryError
        If the matrix of distances does not fit into the available memory, see
        :func:`milearn.metrics.bag_distances`.

    Warns
    -----
    ConvergenceWarning
        If the medoids still change after ``max_iter`` assignments.

    See Also
    --------
    M3IC : Maximum margin clustering, which needs no distances.
    milearn.metrics.bag_distances : The distances.

    Notes
    -----
    The algorithm is that of [1]_. All runs share one matrix of distances, which dominates the
    memory, and most of the time is spent on computing it from all pairs of instances. Both grow
    with the square of the number of bags, so a sample of many bags is clustered, as in CLARA [2]_,
    but only one, which is larger. Features should be on the same scale.

    References
    ----------
    .. [1] M.-L. Zhang, Z.-H. Zhou. Multi-instance clustering with applications to multi-instance
       prediction. Applied Intelligence 31, 2009.
    .. [2] L. Kaufman, P. J. Rousseeuw. Finding Groups in Data: An Introduction to Cluster Analysis,
       chapter 3. Wiley, 1990.

    Examples
    --------
    >>> from milearn.cluster import BAMIC
    >>> bags = [[[0.0], [0.5]], [[0.2]], [[9.0], [9.5]], [[9.2]]]
    >>> BAMIC(random_state=0).fit(bags).labels_
    array([0, 0, 1, 1])
    """

    medoid_bags_: Bags
    _metric: str

    _parameter_constraints = Constraints(
        init=[StrOptions({"random", "k-means++"}), "array-like"],
        max_samples=[AT_LEAST_ONE, StrOptions({"auto"}), None],
    )

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        metric: str = "mean",
        init: Any = "random",
        n_init: int = 10,
        max_iter: int = 300,
        max_samples: int | str | None = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.max_samples = max_samples
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> BAMIC:
        """Cluster bags.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : ignored
            Present for consistency with other estimators.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_clusters(X)
        given = None if isinstance(self.init, str) else self._given_medoids(len(bags))
        rng = check_random_state(self.random_state)
        drawn = self._drawn(bags, given, rng)
        whole = len(drawn) == len(bags)
        sample = bags if whole else bags[drawn]
        distances = bag_distances(sample, metric=self.metric, n_jobs=self.n_jobs)
        starts = [] if given is None else [np.searchsorted(drawn, given)]
        while len(starts) < self.n_init:
            starts.append(
                spread_medoids(distances, self.n_clusters, rng)
                if isinstance(self.init, str) and self.init == "k-means++"
                else rng.choice(len(sample), self.n_clusters, replace=False)
            )
        result = k_medoids(distances, np.array(starts), max_iter=self.max_iter)
        medoids = in_memory(sample[result.medoids])
        labels, objective = result.labels, result.objective
        if not whole:
            near = bag_distances(bags, medoids, metric=self.metric, n_jobs=self.n_jobs)
            (labels,), (objective,) = nearest(near.T[None], drawn[result.medoids][None])
        self._replace_fitted(
            {
                **noted,
                "medoids_": drawn[result.medoids],
                "medoid_bags_": medoids,
                "objective_": float(objective),
                "objective_history_": np.array(result.history),
                "n_iter_": result.n_iter,
                "converged_": not result.stopped,
                "labels_": labels,
                "_metric": self.metric,
            }
        )
        warn_of_stops("BAMIC", [result], self.max_iter, "raise max_iter")
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of the nearest medoid of each bag.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Numbers of clusters, from 0.
        """
        return self._of_bags(X, self._nearest)

    def _nearest(self, bags: Bags) -> np.ndarray:
        distances = bag_distances(bags, self.medoid_bags_, metric=self._metric, n_jobs=self.n_jobs)
        return distances.argmin(axis=1)

    def _drawn(
        self, bags: Bags, given: np.ndarray | None, rng: np.random.RandomState
    ) -> np.ndarray:
        """Positions of the bags among which medoids are searched, ascending."""
        n_drawn = len(bags) if self.max_samples is None else self.max_samples
        if n_drawn == "auto":
            n_drawn = most_bags(bags, _AUTO_BAGS, with_each_other=True)
        drawn = drawn_bags(bags, max(int(n_drawn), self.n_clusters), rng)
        return drawn if given is None else np.union1d(drawn, given)

    def _given_medoids(self, n_bags: int) -> np.ndarray:
        medoids = np.asarray(self.init)
        if medoids.shape != (self.n_clusters,) or medoids.dtype.kind not in "iu":
            raise ValueError(
                f"init has shape {medoids.shape} and type {medoids.dtype}: give "
                f"{self.n_clusters} integers, the position of one bag per cluster."
            )
        if (medoids < 0).any() or (medoids >= n_bags).any():
            raise ValueError(f"init holds positions outside of 0 to {n_bags - 1}: {medoids}.")
        if len(np.unique(medoids)) < len(medoids):
            raise ValueError(f"init names a bag twice: {medoids}.")
        return medoids.astype(np.intp)
