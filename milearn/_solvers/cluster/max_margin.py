"""Maximum margin clustering of bags: witnesses by passes, convex steps by cutting planes.

    min 1/2 sum_p |w_p|^2 + C/n sum_i [1 - max_j g(x_ij)]_+,   |(w_p - w_q)'m| <= balance,
    g(x) = k/(k-1) (max_u w_u'x - mean_v w_v'x),   m = sum_i mean_j x_ij

The concave-convex procedure keeps of every bag one witness and one cluster; what is left is a
convex risk of n hinges with one slack. A pass over all instances happens once per step, in blocks,
so that the instances may lie in a memory map; the cutting plane sees the witnesses alone. Weights
always sum to zero over the clusters: the mean is not worth its norm and counts nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..common.cccp import CCCPSolution, cccp
from ..common.cutting_plane import CuttingPlaneOptions, RiskProblem, cutting_plane
from ..common.options import SolverOptions
from ..common.passes import PassSource, gather, highest, sum_of_means

__all__ = [
    "ClusterProblem",
    "ClusterSolution",
    "LinearisedRisk",
    "margin_weights",
    "max_margin_clusters",
]

# A block of witnesses that has to be converted to float64.
_BLOCK_BYTES = 2**21
# Maximum number of cutting planes in one convex step.
_MAX_CUTS = 1000


@dataclass(frozen=True)
class ClusterProblem:
    """The data of the problem.

    Attributes
    ----------
    source : PassSource
    C : float
    balance : float or None
        None leaves the constraint out.
    mean_sum : ndarray of shape (n_features,)
        m above, ``sum_of_means(source)``; not used without ``balance``.
    """

    source: PassSource
    C: float
    balance: float | None
    mean_sum: np.ndarray | None

    @classmethod
    def of(cls, source: PassSource, C: float, balance: float | None) -> ClusterProblem:
        """The problem of the bags of a source."""
        return cls(source, C, balance, None if balance is None else sum_of_means(source))


def margin_weights(weights: np.ndarray) -> np.ndarray:
    """Weights whose highest score is the margin g: k/(k-1) times their difference from the mean.

    They are zero for one cluster.

    Parameters
    ----------
    weights : ndarray of shape (n_clusters, n_features)

    Returns
    -------
    ndarray of shape (n_clusters, n_features)
    """
    k = len(weights)
    differences: np.ndarray = weights - weights.sum(axis=0) / k
    return differences * (k / max(k - 1, 1))


class LinearisedRisk:
    """Mean hinge of bags whose witness and cluster are fixed; an oracle for the cutting plane.

    R(w) = 1/n sum_i [1 - k/(k-1) (w_{r_i} - mean_v w_v)'z_i]_+

    Parameters
    ----------
    witnesses : ndarray or CSR of shape (n_bags, n_features)
        Bags of one cluster in consecutive rows, the clusters in order.
    counts : ndarray of shape (n_clusters,)
        Bags of each cluster.
    normal : ndarray of shape (n_features,), default=None
        Unit vector on which no weight may stand: slopes are made orthogonal to it.
    """

    def __init__(
        self, witnesses: Any, counts: np.ndarray, *, normal: np.ndarray | None = None
    ) -> None:
        self.witnesses, self.normal = witnesses, normal
        self.n_bags, self.n_features = witnesses.shape
        self.bounds = np.concatenate([[0], np.cumsum(counts)])
        dense = not sparse.issparse(witnesses)
        # Blocks only where they have to be converted.
        self.limit = (
            max(1, _BLOCK_BYTES // (8 * max(1, self.n_features)))
            if dense and witnesses.dtype != np.float64
            else self.n_bags
        )

    def __call__(self, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        k = len(self.bounds) - 1
        margins = margin_weights(w.reshape(k, -1))
        sums = np.zeros((k, self.n_features))
        value = 0.0
        for p in range(k):
            for first in range(self.bounds[p], self.bounds[p + 1], self.limit):
                last = min(first + self.limit, self.bounds[p + 1])
                block = self.witnesses[first:last]
                if not sparse.issparse(block):
                    block = np.asarray(block, dtype=np.float64)
                hinges = np.maximum(1.0 - block @ margins[p], 0.0)
                value += float(hinges.sum())
                sums[p] += (hinges > 0).astype(np.float64) @ block
        slope = margin_weights(sums) / -self.n_bags
        if self.normal is not None:
            slope -= np.outer(slope @ self.normal, self.normal)
        return np.array([value / self.n_bags]), slope.reshape(1, -1), np.zeros((1, 0))


@dataclass
class _ClusterPoint:
    """A convex solution, and the linearisation of the next problem."""

    objective: float
    dual_gap: float
    linearisation: np.ndarray
    weights: np.ndarray


@dataclass(kw_only=True)
class ClusterSolution(CCCPSolution):
    """A local minimum.

    Attributes
    ----------
    weights : ndarray of shape (n_clusters, n_features)
    witnesses, labels : ndarray of shape (n_bags,)
        Row of the witness, and cluster, of each bag.
    steps_converged : bool
        Whether every convex step reached its precision.
    n_cuts : int
        Cutting planes made in all steps together.
    """

    weights: np.ndarray
    witnesses: np.ndarray
    labels: np.ndarray
    steps_converged: bool
    n_cuts: int


def max_margin_clusters(
    problem: ClusterProblem,
    start: np.ndarray,
    options: SolverOptions,
    cutting_plane_tol: float,
) -> ClusterSolution:
    """One run of the concave-convex procedure.

    Parameters
    ----------
    problem : ClusterProblem
    start : ndarray of shape (n_clusters, n_features)
        Weights that choose the first witnesses and clusters; their length does not matter.
    options : SolverOptions
    cutting_plane_tol : float
        Precision of the mean slack of a convex step.

    Raises
    ------
    SolverError
        When a quadratic program is not solved.
    """
    (k, d), source, C = start.shape, problem.source, problem.C
    balance = _Balance.of(problem, k)
    n_cuts, steps_converged = 0, True

    def step(linearisation: np.ndarray, before: _ClusterPoint | None, tol: float) -> _ClusterPoint:
        nonlocal n_cuts, steps_converged
        rows, clusters = linearisation
        order = np.argsort(clusters, kind="stable")
        counts = np.bincount(clusters, minlength=k)
        solved = cutting_plane(
            RiskProblem(
                oracle=LinearisedRisk(gather(source, rows[order]), counts, normal=balance.normal),
                dim=k * d,
                costs=np.array([C]),
                constraints=balance.rows,
                constraint_bound=balance.bound,
                common_shift=balance.common_shift,
            ),
            CuttingPlaneOptions(tols=tol, max_iter=_MAX_CUTS, qp_solver=options.qp_solver),
            start=None if before is None else (before.weights.ravel(), np.zeros(0)),
        )
        n_cuts += solved.n_iter
        steps_converged &= solved.converged
        weights = solved.w.reshape(k, d)
        rows, clusters, margins = highest(source, margin_weights(weights))
        hinges = np.maximum(1.0 - margins, 0.0)
        objective = 0.5 * float(np.sum(weights * weights)) + C * float(hinges.mean())
        return _ClusterPoint(objective, solved.gap, np.stack([rows, clusters]), weights)

    rows, clusters, _ = highest(source, margin_weights(start))
    run = cccp(step, np.stack([rows, clusters]), options, inner_tol=cutting_plane_tol)
    best = run.point
    return ClusterSolution(
        weights=best.weights,
        witnesses=best.linearisation[0],
        labels=best.linearisation[1],
        steps_converged=steps_converged,
        n_cuts=n_cuts,
        **run.outcome(),
    )


@dataclass(frozen=True)
class _Balance:
    """The balance constraint: a direction in which no weight may point, or rows and their bound.

    The attributes are those of :class:`LinearisedRisk` and
    :class:`~milearn._solvers.common.cutting_plane.RiskProblem`.
    """

    normal: np.ndarray | None = None
    rows: sparse.csr_array | None = None
    bound: float = 0.0
    common_shift: bool = False

    @classmethod
    def of(cls, problem: ClusterProblem, k: int) -> _Balance:
        """The constraint of ``k`` clusters, in memory of the size of their weights."""
        m, balance = problem.mean_sum, problem.balance
        if m is None or balance is None or np.isinf(balance) or k == 1:
            return cls()
        length = float(np.linalg.norm(m))
        if length == 0:
            return cls()
        if balance == 0:
            # Weights that sum to zero and agree on m are zero on it.
            return cls(normal=m / length)
        # In units of the direction: the dual program is then scaled like its cuts.
        direction, bound = (m / length)[None], balance / length
        first, second = np.triu_indices(k, 1)
        if len(first) > k:
            # More pairs than clusters: the scores of m lie in an interval as wide as the balance.
            rows = sparse.kron(sparse.eye_array(k), direction, format="csr")
            return cls(rows=rows, bound=0.5 * bound, common_shift=True)
        differences = np.zeros((len(first), k))
        differences[np.arange(len(first)), first] = 1.0
        differences[np.arange(len(first)), second] = -1.0
        return cls(
            rows=sparse.kron(sparse.csr_array(differences), direction, format="csr"), bound=bound
        )
