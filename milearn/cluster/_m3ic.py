"""M3IC: maximum margin clustering of bags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state

from .._bags import Bags
from .._bags.coerce import canonical_matrix
from .._bags.storage import compute_dtype
from .._compat import (
    CallbackSupport,
    Interval,
    StrOptions,
    with_callbacks,
)
from .._fit.multi_start import MultiStart, warn_of_stops
from .._fit.threads import fit_context
from .._fit.validation import STORED_FLOATS
from .._fit.warn import warn_user
from .._solvers.cluster.initial_weights import k_means_weights
from .._solvers.cluster.margins import scores_of
from .._solvers.cluster.max_margin import ClusterProblem, ClusterSolution, max_margin_clusters
from .._solvers.common.options import SolverOptions
from .._solvers.common.passes import (
    STREAM_BYTES,
    PassSource,
    bag_maxima,
    bag_means,
    highest,
    instance_scores,
)
from ..base import BagClusterer

__all__ = ["M3IC"]


class M3IC(CallbackSupport, BagClusterer):
    r"""Maximum margin clustering of bags with one witness per bag.

    Each cluster has a weight vector :math:`w_p`. With

    .. math::

        g(x) = \frac{k}{k - 1} \Bigl( \max_u w_u^\top x - \frac1k \sum_v w_v^\top x \Bigr),
        \qquad m = \sum_{i=1}^n \frac{1}{n_i} \sum_j x_{ij},

    the problem is

    .. math::

        \min_{w_1, \dots, w_k} \quad & \tfrac12 \sum_p \|w_p\|^2
        + \frac{C}{n} \sum_{i=1}^n \bigl[ 1 - \max_j g(x_{ij}) \bigr]_+ \\
        \text{subject to} \quad & | (w_p - w_q)^\top m | \le \text{balance}
        \quad \text{for all } p < q.

    One instance of each bag, its witness, has to stand out for one cluster by a margin; it is that
    cluster's bag. The problem is not convex. The concave-convex procedure keeps the witness and
    the cluster of each bag, solves the convex problem that is left by cutting planes, and chooses
    both anew, until convergence. The objective never rises; the result is a local minimum that
    depends on ``init``, and the best of ``n_init`` is kept.

    With ``margin="runner-up"`` a witness has to stand out from the next cluster instead of the mean
    of all, :math:`g(x) = \max_u (w_u^\top x - \max_{v \ne u} w_v^\top x)`. With
    ``min_cluster_size`` the cluster :math:`p(i)` of each bag is a variable,

    .. math::

        \min_{w, p} \quad \tfrac12 \sum_p \|w_p\|^2
        + \frac{C}{n} \sum_{i=1}^n \bigl[ 1 - \max_j g_{p(i)}(x_{ij}) \bigr]_+
        \quad \text{subject to} \quad |\{i : p(i) = q\}| \ge \text{min\_cluster\_size}
        \quad \text{for all } q,

    with the same balance, where :math:`g_q` is :math:`g` with the cluster :math:`q` in place of the
    maximum over :math:`u`.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters, at most the number of bags.
    C : float, default=1.0
        Cost of the mean slack against the norm of the weights. Above zero.
    balance : float or None, default=1.0
        Largest difference between the clusters' scores of the sum of all bag means; it prevents
        that one cluster takes all. None leaves the constraint out. It acts on mean
        instances: clusters of equal size are not guaranteed.
    init : {"k-means", "random"} or array-like of shape (n_clusters, n_features), default="k-means"
        First weights, from which the first witnesses and clusters follow: the centres of k-means
        on the bag means less their mean, random ones, or given ones.
    n_init : int, default=5
        Number of starts, of which the one with the lowest objective is kept. Given weights are
        the first start, the others are random.
    margin : {"mean", "runner-up"}, default="mean"
        What a witness has to stand out from: the mean score of all clusters, as published, or the
        largest score of another cluster. For two clusters they are the same.
    min_cluster_size : int, default=None
        Smallest number of bags of a cluster, at most ``n_bags / n_clusters``. None is the published
        problem, which may leave clusters empty.
    tol : float, default=0.01
        Relative decrease of the objective at which to stop.
    max_iter : int, default=100
        Maximum number of convex steps per start.
    {random_state: the starts}
    n_jobs : int, default=None
        Number of starts that run in parallel; jobs that are left share a start's passes over the
        instances by threads. None means 1 unless in a :func:`joblib.parallel_config` context, -1
        means all processors.
    {verbose: the objective after each step}

    Attributes
    ----------
    labels_ : ndarray of shape (n_bags,)
        Cluster of each bag. With ``min_cluster_size`` that of the cheapest assignment that fills
        all clusters, from which ``predict``, the highest score, may differ.
    coef_ : ndarray of shape (n_clusters, n_features)
        Weights; they sum to zero over the clusters.
    witnesses_ : ndarray of shape (n_bags,)
        Row of the instance of each bag with the largest margin for its cluster.
    objective_ : float
        Value of the problem above at ``coef_``.
    objective_history_ : ndarray of shape (n_iter_,)
        The value after each step of the best start; it never rises.
    dual_gap_ : float
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int
        Convex steps of the best start.
    n_cuts_ : int
        Cutting planes made in these steps.
    converged_ : bool
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    ValueError
        For more clusters than bags, or fewer bags than clusters of ``min_cluster_size`` need, and
        for ``init`` of the wrong shape.
    milearn.exceptions.SolverError
        When a quadratic program is not solved.

    Warns
    -----
    ConvergenceWarning
        When the best start has not converged after ``max_iter`` steps or was stopped by a callback,
        or one of its convex steps missed its precision.

    See Also
    --------
    BAMIC : Clusters of bags by k-medoids over distances between bags.

    Notes
    -----
    The method is M3IC-MBM of [1]_, which starts from random weights. From there the lowest
    objective often leaves a cluster empty, for three clusters or more and a small C above all: to
    stand out from the mean of the others takes less than to stand out from each of them.
    ``min_cluster_size`` keeps every cluster: the assignment of bags is then a transportation
    problem, solved exactly by shortest paths over the clusters. Its cost grows with the number of
    bags that have to be passed on, times the number of bags.

    There is no intercept, as there, so the origin matters: centre
    and scale the instances, for which ``InstanceTransformer(StandardScaler())`` and then
    ``InstanceTransformer(Normalizer())`` have served well. The objective that is reported and by
    which starts are compared is that of the problem above; the paper compares the values of the
    last convex problems, which lie above it.

    A step reads all instances once, in blocks, so that they may lie in a read-only memory map
    that is larger than the memory. The cutting planes work on the witnesses alone.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "balance": [Interval(Real, 0.0, None, closed="left"), None],
        "margin": [StrOptions({"mean", "runner-up"})],
        "min_cluster_size": [Interval(Integral, 1, None, closed="left"), None],
        "init": [StrOptions({"k-means", "random"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    coef_: np.ndarray
    _dtypes = STORED_FLOATS

    def __init__(
        self,
        n_clusters: int = 2,
        C: float = 1.0,
        balance: float | None = 1.0,
        *,
        init: Any = "k-means",
        n_init: int = 5,
        margin: str = "mean",
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
        self.margin = margin
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
                f"min_cluster_size={smallest} in {self.n_clusters} clusters takes "
                f"{smallest * self.n_clusters} bags but there are {len(bags)}: lower it to at most "
                f"{len(bags) // self.n_clusters}."
            )
        starts = self._starts(bags, check_random_state(self.random_state))
        runs = MultiStart(self, self.max_iter)
        # Jobs for which there is no start share the blocks of a pass.
        n_threads = max(1, effective_n_jobs(self.n_jobs) // runs.n_workers(len(starts)))
        problem = ClusterProblem.of(
            _source(bags, n_threads), self.C, self.balance, margin=self.margin, smallest=smallest
        )
        solve = partial(_solve, problem, SolverOptions(self.tol, self.max_iter))
        (best,), task = runs.best(solve, [[(start,) for start in starts]], X=bags)
        self._replace_fitted(
            {
                **noted,
                "coef_": best.weights,
                "_margin": self.margin,
                "witnesses_": best.witnesses,
                "objective_": best.objective,
                "objective_history_": np.array(best.history),
                "dual_gap_": best.dual_gap,
                "n_iter_": best.n_iter,
                "n_cuts_": best.n_cuts,
                "converged_": best.converged,
                "labels_": best.labels,
            }
        )
        self._warn(best)
        task.end()
        return self

    def _takes_remote_bags(self) -> bool:
        return True

    def _starts(self, bags: Bags, rng: np.random.RandomState) -> list[np.ndarray]:
        shape = (self.n_clusters, bags.shape[1])
        starts = []
        if not isinstance(self.init, str):
            given = check_array(self.init, dtype=np.float64, input_name="init")
            if given.shape != shape:
                raise ValueError(
                    f"init has shape {given.shape}: give one row per cluster and one column per "
                    f"feature, {shape}."
                )
            starts.append(given)
        elif self.init == "k-means":
            means = bag_means(bags.source(), compute_dtype(bags))
            starts = k_means_weights(canonical_matrix(means), self.n_clusters, self.n_init, rng)
        return starts + [rng.normal(size=shape) for _ in range(self.n_init - len(starts))]

    def _warn(self, best: ClusterSolution) -> None:
        warn_of_stops("M3IC", [best], self.max_iter)
        if not best.steps_converged:
            warn_user(
                f"A convex step of M3IC was solved to a duality gap of {best.dual_gap:.1e} only "
                f"(objective {best.objective:.3g}): scale the features or lower C.",
                ConvergenceWarning,
            )

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
        return highest(_source(self._checked(X)), *scores_of(self._margin, self.coef_))[1]

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
        return bag_maxima(_source(self._checked(X)), *scores_of(self._margin, self.coef_))

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
        return instance_scores(_source(self._checked(X)), *scores_of(self._margin, self.coef_))

    def predict_instances(self, X: Any) -> np.ndarray:
        """Cluster of each instance on its own.

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

        It is the row in ``X.instances`` of the instance with the highest score for any cluster,
        the first of several equal ones.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Positions in ``X.instances``.
        """
        return highest(_source(self._checked(X)), *scores_of(self._margin, self.coef_))[0]


def _source(bags: Bags, n_jobs: int = 1) -> PassSource:
    # Blocks that stay in a core's cache, with digits of float64 whatever the type.
    return bags.source(block_bytes=STREAM_BYTES, dtype=np.float64, n_jobs=n_jobs)


def _solve(
    problem: ClusterProblem,
    options: SolverOptions,
    start: np.ndarray,
    on_iteration: Callable[..., bool],
) -> ClusterSolution:
    return max_margin_clusters(problem, start, options.watched_by(on_iteration))
