"""Maximum margin clustering of bags: witnesses by passes, convex steps by cutting planes.

    min 1/2 sum_p |w_p|^2 + C/n sum_i [1 - max_j max_p g_p(x_ij)]_+,   |(w_p - w_q)'m| <= balance,
    m = sum_i mean_j x_ij,   and g_p the margin of :mod:`.margins`

or, with a minimum number of bags per cluster, over the weights and the clusters p(i) of the bags,

    min 1/2 sum_p |w_p|^2 + C/n sum_i [1 - max_j g_{p(i)}(x_ij)]_+,   |{i: p(i) = q}| >= smallest.

The concave-convex procedure fixes one witness and one cluster per bag. This gives a convex risk, a
sum of n hinges with one slack. It is an upper bound of the objective that is tight at the current
weights, because g_p is concave in them. Then witnesses and clusters are updated: each bag gets its
best ones, or the cheapest assignment that fills every cluster is computed. This cannot increase the
value, because the previous witnesses and clusters remain feasible. Each step makes one pass over
all instances, in blocks, so they can be in a memory map; the cutting planes use only the witnesses.
The weights always sum to zero over the clusters, since their mean only increases the norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._bags.blocks import PassSource
from ..common.cccp import CCCPSolution, SolverOptions, cccp, rounding_scale
from ..common.passes import gather, sum_of_means
from .assignment import assign
from .balance import Balance
from .cutting_plane import cutting_plane
from .margins import LinearisedRisk, best_of_bags, margin_weights


@dataclass
class ClusterProblem:
    """The data of the problem."""

    source: PassSource
    C: float
    balance: float | None  # None: no constraint
    smallest: int = 0  # minimum number of bags per cluster

    def __post_init__(self) -> None:
        # The vector m above.
        self.mean_sum = None if self.balance is None else sum_of_means(self.source)

    def choose(
        self, weights: np.ndarray, *, first: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Witness, cluster and hinge of each bag at the lowest cost.

        The ``first`` choice does not depend on the length of the weights.
        """
        vectors = margin_weights(weights)
        margins, rows = best_of_bags(self.source, vectors)
        # Among clusters with zero loss, prefer the one with the largest margin.
        clusters = margins.argmax(axis=1)
        if self.smallest:
            costs = -margins if first else np.maximum(1.0 - margins, 0.0)
            clusters = assign(costs, clusters, self.smallest)
        chosen = np.arange(len(clusters)), clusters
        return rows[chosen], clusters, np.maximum(1.0 - margins[chosen], 0.0)


@dataclass
class _ClusterPoint:
    """A convex solution, and the linearisation of the next problem."""

    objective: float
    dual_gap: float
    linearisation: np.ndarray
    weights: np.ndarray


@dataclass(kw_only=True)
class ClusterSolution(CCCPSolution):
    """A stationary point."""

    weights: np.ndarray
    # Row of the witness and cluster of each bag.
    witnesses: np.ndarray
    labels: np.ndarray
    n_cuts: int  # in all steps

    @property
    def n_empty(self) -> int:
        """Number of empty clusters."""
        return len(self.weights) - len(np.unique(self.labels))


def max_margin_clusters(
    problem: ClusterProblem, start: np.ndarray, options: SolverOptions
) -> ClusterSolution:
    """One run of the concave-convex procedure.

    Parameters
    ----------
    problem : ClusterProblem
    start : ndarray of shape (n_clusters, n_features)
        Weights that determine the initial witnesses and clusters; their length does not matter.
    options : SolverOptions
        ``tol`` is also the relative duality gap of the last convex step; without it the run has not
        converged.

    Raises
    ------
    SolverError
        If a quadratic program is not solved.
    """
    (k, d), source, C = start.shape, problem.source, problem.C
    balance = Balance.of(problem.mean_sum, problem.balance, k)
    n_cuts, scale = 0, rounding_scale(np.array([C]))

    def step(linearisation: np.ndarray, before: _ClusterPoint | None, tol: float) -> _ClusterPoint:
        nonlocal n_cuts
        rows, clusters = linearisation
        order = np.argsort(clusters, kind="stable")
        counts = np.bincount(clusters, minlength=k)
        witnesses = gather(source, rows[order])
        risk = LinearisedRisk(witnesses, counts, balance)
        first = balance.split(np.zeros((k, d)) if before is None else before.weights)
        held = balance.n_held, balance.width
        solved = cutting_plane(risk, first, C, tol, scale=scale, held=held)
        n_cuts += solved.n_iter
        weights = balance.join(solved.w, k)
        rows, clusters, hinges = problem.choose(weights)
        objective = 0.5 * float(np.sum(weights * weights)) + C * float(hinges.mean())
        return _ClusterPoint(objective, solved.gap, np.stack([rows, clusters]), weights)

    chosen = np.stack(problem.choose(start, first=True)[:2])
    # The last step may lower the objective by tol, of which its gap then is a larger fraction.
    run = cccp(step, chosen, options, inner_tol=0.5 * options.tol)
    best = run.point
    if not run.stopped and run.dual_gap > options.tol * max(run.objective, scale):
        run.stopped = "gap"
    return ClusterSolution(
        weights=best.weights,
        witnesses=best.linearisation[0],
        labels=best.linearisation[1],
        n_cuts=n_cuts,
        objective_scale=scale,
        **run.outcome(),
    )
