"""M3IC: maximum margin clustering of bags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_random_state

from .._bags import Bags
from .._bags.blocks import PassSource
from .._bags.canonical import canonical_matrix
from .._compat import CallbackSupport, with_callbacks
from .._constraints import AT_LEAST_ONE, NOT_NEGATIVE, Constraints
from .._fit.multi_start import MultiStart, warn_of_stops
from .._fit.threads import fit_context
from .._fit.validation import STORED_FLOATS
from .._solvers.cluster.initial_weights import k_means_weights
from .._solvers.cluster.margins import margin_weights
from .._solvers.cluster.max_margin import ClusterProblem, ClusterSolution, max_margin_clusters
from .._solvers.common.cccp import SolverOptions
from .._solvers.common.passes import STREAM_BYTES, bag_maxima, highest, instance_scores
from ..base import BagClusterer
from ..preprocessing import BagStatistics

# Lower limit of the relative gap, which is due to rounding.
_MIN_TOL = 1e-10
# What k-means groups the bags by for the first starts, and how often witnesses are then chosen.
_STARTS = [(("min", "max"), 3), (("mean",), 0)]


class M3IC(CallbackSupport, BagClusterer):
    r"""Maximum margin clustering of bags with one witness per bag.

    Each cluster has a weight vector :math:`w_p`. The problem is [1]_

    .. math::

        \min_{w_1, \dots, w_k} \quad & \tfrac12 \sum_p \|w_p\|^2
        + \frac{C}{n} \sum_{i=1}^n \bigl[ 1 - \max_j g(x_{ij}) \bigr]_+ , \quad
        g(x) = \frac{k}{k - 1} \Bigl( \max_u w_u^\top x - \frac1k \sum_v w_v^\top x \Bigr) \\
        \text{subject to} \quad & | (w_p - w_q)^\top m | \le \text{balance}
        \quad \text{for all } p < q, \qquad m = \sum_{i=1}^n \frac{1}{n_i} \sum_j x_{ij}.

    One instance of each bag, its witness, must have a large margin for one cluster, to which the
    bag is assigned. The concave-convex procedure finds a stationary point from each of ``n_init``
    starts. The one with the fewest empty clusters is kept, and of several the one with the lowest
    objective.

    Read more in the :ref:`User Guide <methods_clustering>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters, at most the number of bags.
    C : float, default=1.0
        Cost of the mean slack relative to the norm of the weights. Must be positive.
    balance : float or None, default=1.0
        Largest difference between the clusters' scores of the sum of all bag means, which prevents
        one cluster from containing all bags. None omits the constraint.
    init : array-like of shape (n_clusters, n_features), default=None
        Weights of the first start; the others are random. None starts from the means of the
        instances that tell apart the clusters of k-means on minima and maxima of the bags, then
        from the centres of k-means on the bag means, both centred, then from random weights.
    n_init : int, default=20
        Number of starts.
    min_cluster_size : int, default=None
        Minimum number of bags per cluster. None is the published problem, in which clusters can be
        empty.
    tol : float, default=0.01
        Relative decrease of the objective at which to stop, and duality gap of the convex steps
        relative to the objective; at least 1e-10.
    max_iter : int, default=100
        Maximum number of convex steps per run.
    random_state : int, RandomState instance or None, default=None
        Determines the starts.
    n_jobs : int, default=None
        Number of parallel jobs over runs, then blocks of instances. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    labels_ : ndarray of shape (n_bags,)
        Cluster of each bag. With ``min_cluster_size`` it can differ from ``predict``, which uses
        the highest score.
    coef_ : ndarray of shape (n_clusters, n_features)
        The weights, which sum to zero over the clusters.
    witnesses_ : ndarray of shape (n_bags,)
        Row of the instance of each bag with the largest margin for its cluster.
    objective_ : float
        Value of the problem above at ``coef_``.
    objective_history_ : ndarray of shape (n_iter_,)
        The value after each step of the best run; it never increases.
    start_objectives_ : ndarray of shape (n_init,)
        The value that each run reached.
    dual_gap_ : float
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int
        Number of convex steps.
    n_cuts_ : int
        Number of cutting planes in these steps.
    converged_ : bool
        Whether the best run converged, with a duality gap of at most ``tol`` times the objective.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        If there are too few bags, or ``init`` has the wrong shape.
    milearn.exceptions.SolverError
        If a quadratic program is not solved.

    Warns
    -----
    ConvergenceWarning
        If the best run or one of its convex steps has not converged.

    See Also
    --------
    BAMIC : Clusters of bags by k-medoids over distances between bags.

    Notes
    -----
    [1]_ starts from random weights and keeps the lowest objective. It often has empty clusters, in
    particular for three or more clusters and a small C. Runs without them are preferred here; set
    ``min_cluster_size`` if all runs have them.

    There is no intercept, so the origin matters. Centre and scale the instances, for example by
    ``InstanceTransformer(StandardScaler())`` followed by ``InstanceTransformer(Normalizer())``.
    Instances can be a memory map that is larger than the memory.

    References
    ----------
    .. [1] D. Zhang, F. Wang, L. Si, T. Li. M3IC: Maximum margin multiple instance clustering.
       IJCAI 2009.

    Examples
    --------
    >>> from milearn.cluster import M3IC
    >>> bags = [[[1.0, 0.1], [0.0, 0.2]], [[0.9, 0.0]], [[-1.0, 0.1]], [[0.0, 0.1], [-1.2, 0.0]]]
    >>> model = M3IC(C=10.0, random_state=0).fit(bags)
    >>> [int(label == model.labels_[0]) for label in model.labels_]
    [1, 1, 0, 0]
    >>> model.witnesses_
    array([0, 2, 3, 5])
    """

    _parameter_constraints = Constraints(
        balance=[NOT_NEGATIVE, None],
        min_cluster_size=[AT_LEAST_ONE, None],
        init=["array-like", None],
        tol=[NOT_NEGATIVE],
    )

    coef_: np.ndarray
    _dtypes = STORED_FLOATS

    def __init__(
        self,
        n_clusters: int = 2,
        C: float = 1.0,
        balance: float | None = 1.0,
        *,
        init: Any = None,
        n_init: int = 20,
        min_cluster_size: int | None = None,
        tol: float = 0.01,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.C = C
        self.balance = balance
        self.init = init
        self.n_init = n_init
        self.min_cluster_size = min_cluster_size
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> M3IC:
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
        smallest = self.min_cluster_size or 0
        if smallest * self.n_clusters > len(bags):
            raise ValueError(
                f"min_cluster_size={smallest} in {self.n_clusters} clusters needs "
                f"{smallest * self.n_clusters} bags but there are {len(bags)}: lower it to at most "
                f"{len(bags) // self.n_clusters}."
            )
        runs = MultiStart(self, self.max_iter)
        # Additional jobs share the blocks of a pass.
        source = _source(bags, runs.n_threads(self.n_init))
        starts = self._starts(bags, source, check_random_state(self.random_state))
        problem = ClusterProblem(source, self.C, self.balance, smallest)
        options = SolverOptions(max(self.tol, _MIN_TOL), self.max_iter)
        solve = partial(_solve, problem, options)
        (best,), task = runs.best(solve, [[(start,) for start in starts]], X=bags)
        self._replace_fitted(
            {
                **noted,
                "coef_": best.weights,
                "witnesses_": best.witnesses,
                "objective_": best.objective,
                "objective_history_": np.array(best.history),
                "start_objectives_": runs.start_objectives,
                "dual_gap_": best.dual_gap,
                "n_iter_": best.n_iter,
                "n_cuts_": best.n_cuts,
                "converged_": best.converged,
                "labels_": best.labels,
            }
        )
        warn_of_stops("M3IC", [best], self.max_iter)
        task.end()
        return self

    def _starts(
        self, bags: Bags, source: PassSource, rng: np.random.RandomState
    ) -> list[np.ndarray]:
        shape = (self.n_clusters, bags.shape[1])
        starts = []
        if self.init is not None:
            given = check_array(self.init, dtype=np.float64, input_name="init")
            if given.shape != shape:
                raise ValueError(
                    f"init has shape {given.shape}: give one row per cluster and one column per "
                    f"feature, {shape}."
                )
            starts.append(given)
        for statistics, rounds in [] if starts else _STARTS[: self.n_init]:
            points = canonical_matrix(BagStatistics(statistics).fit_transform(bags))
            starts.append(k_means_weights(source, points, self.n_clusters, rng, rounds))
        return starts + [rng.normal(size=shape) for _ in range(self.n_init - len(starts))]

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of each bag: the one with the highest score of an instance.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Numbers of clusters, from 0.
        """
        return highest(_source(self._checked(X)), margin_weights(self.coef_))[1]

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each bag for each cluster: the highest of its instances.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to score.

        Returns
        -------
        ndarray of shape (n_bags, n_clusters)
            The largest entry of a row is the bag's margin; its column is the bag's cluster.
        """
        return bag_maxima(_source(self._checked(X)), margin_weights(self.coef_))

    def instance_decision_function(self, X: Any) -> np.ndarray:
        """Margin :math:`g_p(x)` of each instance for each cluster.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags whose instances to score.

        Returns
        -------
        ndarray of shape (n_instances, n_clusters), in the order of ``X.instances``
            Scores of the instances.
        """
        source = _source(self._checked(X))
        return instance_scores(source, margin_weights(self.coef_))

    def predict_instances(self, X: Any) -> np.ndarray:
        """Cluster of each instance, as :meth:`predict` returns it for a bag of it alone.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags whose instances to assign.

        Returns
        -------
        ndarray of shape (n_instances,), in the order of ``X.instances``
            Numbers of clusters, from 0.
        """
        return self.instance_decision_function(X).argmax(axis=1)

    def witness(self, X: Any) -> np.ndarray:
        """Row of the instance that decides each bag.

        It is the row in ``X.instances`` of the instance with the highest score for any cluster.
        Ties are broken in favour of the first instance.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Positions in ``X.instances``.
        """
        return highest(_source(self._checked(X)), margin_weights(self.coef_))[0]


def _source(bags: Bags, n_jobs: int = 1, *, block_bytes: int = STREAM_BYTES) -> PassSource:
    # Blocks fit into a core's cache and are computed in float64 for any type.
    return bags.source(block_bytes=block_bytes, dtype=np.float64, n_jobs=n_jobs)


def _solve(
    problem: ClusterProblem,
    options: SolverOptions,
    start: np.ndarray,
    on_iteration: Callable[..., bool],
) -> ClusterSolution:
    return max_margin_clusters(problem, start, options.watched_by(on_iteration))
