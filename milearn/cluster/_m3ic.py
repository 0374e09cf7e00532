"""M3IC: maximum margin clustering of bags."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state

from .._bags import Bags
from .._bags.coerce import canonical_matrix
from .._solvers.cluster.max_margin import ClusterResult, InstanceStream, max_margin_clusters
from .._solvers.common.qp import check_qp_solver
from ..base import BagClusterer
from ..utils._sklearn import (
    CallbackSupport,
    FitTask,
    Interval,
    StrOptions,
    fit_context,
    with_callbacks,
)

__all__ = ["M3IC"]

# Objectives that differ by this share of them are equal but for rounding.
_SAME = 1e-9


class M3IC(CallbackSupport, BagClusterer):
    r"""Maximum margin clustering of bags with one witness a bag.

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
    both anew, until the objective rests. It never rises; the result is a local minimum that
    depends on ``init``, and the best of ``n_init`` is kept.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters, at most the number of bags.
    C : float, default=1.0
        Cost of the mean slack against the norm of the weights. Above zero.
    balance : float or None, default=1.0
        Most by which the clusters may differ in their score of the sum of all bag means; it
        prevents that one cluster takes all. None leaves the constraint out. It acts on mean
        instances: clusters of equal size are not guaranteed.
    init : {"k-means", "random"} or array-like of shape (n_clusters, n_features), default="k-means"
        First weights, from which the first witnesses and clusters follow: the centres of k-means
        on the bag means less their mean, random ones, or given ones.
    n_init : int, default=5
        Number of starts, of which the one with the lowest objective is kept. Given weights are
        the first start, the others are random.
    tol : float, default=0.01
        Relative decrease of the objective at which to stop.
    cutting_plane_tol : float, default=0.01
        Precision of the mean slack in a convex step.
    max_iter : int, default=100
        Most convex steps a start.
    qp_solver : str, default=None
        Backend of qpsolvers for the dual problems, "piqp" when None.
    random_state : int, RandomState instance or None, default=None
        For the starts.
    n_jobs : int, default=None
        Workers for the starts.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    labels_ : ndarray of shape (n_bags,)
        Cluster of each bag.
    coef_ : ndarray of shape (n_clusters, n_features)
        Weights; they sum to zero over the clusters.
    witnesses_ : ndarray of shape (n_bags,)
        Row of the instance that decides each bag.
    objective_ : float
        Value of the problem above at ``coef_``.
    objective_history_ : ndarray of shape (n_iter_,)
        The value after each step of the best start; it never rises.
    gap_ : float
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int
        Convex steps of the best start.
    n_cuts_ : int
        Cutting planes made in these steps.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Warns
    -----
    ConvergenceWarning
        When the best start has not settled after ``max_iter`` steps, or one of its convex steps
        missed its precision.

    Raises
    ------
    ValueError
        For more clusters than bags, and for ``init`` of the wrong shape.
    milearn.exceptions.SolverError
        When a dual problem is not solved.

    See Also
    --------
    BAMIC : k-medoids over distances between bags.

    Notes
    -----
    The method is M3IC-MBM of [1]_, which starts from random weights. From there the lowest
    objective often leaves a cluster empty, for three clusters or more and a small C above all: to
    stand out from the mean of the others takes less than to stand out from each of them. The
    start from k-means leads to a local minimum that keeps its clusters.

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
        "init": [StrOptions({"k-means", "random"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "cutting_plane_tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "qp_solver": [str, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int = 2,
        C: float = 1.0,
        balance: float | None = 1.0,
        *,
        init: Any = "k-means",
        n_init: int = 5,
        tol: float = 0.01,
        cutting_plane_tol: float = 0.01,
        max_iter: int = 100,
        qp_solver: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.C = C
        self.balance = balance
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.cutting_plane_tol = cutting_plane_tol
        self.max_iter = max_iter
        self.qp_solver = qp_solver
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

        Returns
        -------
        self
        """
        check_qp_solver(self.qp_solver)
        bags = self._validated(X)
        starts = self._starts(bags, check_random_state(self.random_state))
        stream = InstanceStream(bags.instances, bags.offsets)
        mean_sum = None if self.balance is None else stream.sum_of_means()
        progress = self._start_task(len(starts), X=bags)
        results = self._run(stream, starts, mean_sum, progress)
        # Starts may end in the same clusters by other names: the first of them, not rounding, wins.
        lowest = min(result.objective for result in results)
        best = next(each for each in results if each.objective <= lowest * (1 + _SAME))
        self.coef_ = best.weights
        self.witnesses_ = best.rows
        self.objective_ = best.objective
        self.objective_history_ = np.array(best.history)
        self.gap_ = best.gap
        self.n_iter_ = best.n_iter
        self.n_cuts_ = best.n_cuts
        self.converged_ = best.converged
        self.labels_ = best.clusters
        self._warn(best)
        progress.end()
        return self

    def _starts(self, bags: Bags, rng: np.random.RandomState) -> list[np.ndarray]:
        shape = (self.n_clusters, bags.shape[1])
        starts = []
        if not isinstance(self.init, str):
            given = check_array(self.init, dtype=np.float64, input_name="init")
            if given.shape != shape:
                raise ValueError(
                    f"init has shape {given.shape}: give one row a cluster and one column a "
                    f"feature, {shape}."
                )
            starts.append(given)
        elif self.init == "k-means":
            means = _bag_means(bags)
            for _ in range(self.n_init):
                found = KMeans(self.n_clusters, n_init=1, random_state=rng.randint(2**31 - 1))
                with warnings.catch_warnings():
                    # Bags with equal means leave clusters empty; as a start that will do.
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    centres = found.fit(means).cluster_centers_.astype(np.float64)
                starts.append(centres - centres.mean(axis=0))
        return starts + [rng.normal(size=shape) for _ in range(self.n_init - len(starts))]

    def _run(
        self,
        stream: InstanceStream,
        starts: list[np.ndarray],
        mean_sum: np.ndarray | None,
        progress: FitTask,
    ) -> list[ClusterResult]:
        settings: dict[str, Any] = {
            "balance": self.balance,
            "tol": self.tol,
            "cutting_plane_tol": self.cutting_plane_tol,
            "max_iter": self.max_iter,
            "mean_sum": mean_sum,
            "qp_solver": self.qp_solver,
        }
        if len(starts) > 1 and self.n_jobs not in (None, 1):
            return Parallel(n_jobs=self.n_jobs)(
                delayed(max_margin_clusters)(stream, start, self.C, **settings) for start in starts
            )
        results = []
        for number, start in enumerate(starts):
            part = progress.part("run", max_steps=self.max_iter)
            report = self._reporter(part, number, len(starts))
            results.append(
                max_margin_clusters(stream, start, self.C, on_iteration=report, **settings)
            )
            part.end()
        return results

    def _reporter(self, part: FitTask, number: int, n_runs: int) -> Any:
        def report(iteration: int, objective: float) -> bool:
            if self.verbose:
                print(
                    f"[M3IC] start {number + 1}/{n_runs}, iteration {iteration}: "
                    f"objective {objective:.6g}"
                )
            return part.step()

        return report

    def _warn(self, best: ClusterResult) -> None:
        if not best.converged:
            warnings.warn(
                f"M3IC stopped at max_iter={self.max_iter} before it settled: raise max_iter or "
                "tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if not best.inner_converged:
            warnings.warn(
                f"A convex step of M3IC was solved to a duality gap of {best.gap:.1e} only "
                f"(objective {best.objective:.3g}): scale the features, lower C, or raise "
                "cutting_plane_tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _stream(self, X: Any) -> InstanceStream:
        bags = self._checked(X)
        return InstanceStream(bags.instances, bags.offsets)

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of each bag: that of its witness, shape (n_bags,)."""
        return self._stream(X).choose(self.coef_)[1]

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each bag for each cluster: the highest of its instances.

        Returns
        -------
        ndarray of shape (n_bags, n_clusters)
            The largest entry of a row is the bag's margin; its column is the bag's cluster.
        """
        return self._stream(X).decide(self.coef_)

    def instance_decision_function(self, X: Any) -> np.ndarray:
        r"""Score :math:`\frac{k}{k-1} (w_p - \bar w)^\top x` of each instance for each cluster.

        Returns
        -------
        ndarray of shape (n_instances, n_clusters), in the order of ``X.instances``
        """
        return self._stream(X).score(self.coef_)

    def predict_instances(self, X: Any) -> np.ndarray:
        """Cluster of each instance on its own, shape (n_instances,), in ``X.instances``' order."""
        return self.instance_decision_function(X).argmax(axis=1)

    def witness(self, X: Any) -> np.ndarray:
        """Row of the instance that decides each bag, shape (n_bags,).

        It is the row in ``X.instances`` of the instance with the highest score for any cluster,
        the first of several equal ones.
        """
        return self._stream(X).choose(self.coef_)[0]


def _bag_means(bags: Bags) -> Any:
    weights = np.repeat(1.0 / bags.sizes, bags.sizes).astype(bags.dtype)
    places = (weights, np.arange(bags.n_instances), bags.offsets)
    pool = sparse.csr_array(places, shape=(len(bags), bags.n_instances))
    means = pool @ bags.instances
    return canonical_matrix(means)
