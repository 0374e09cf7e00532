"""Maximum margin over bags with graphs on bags and on instances (Zhang et al. 2011).

For bags i with signs y_i in {-1, 0, 1} (0: unlabelled), f(x) = w.x + b and f_i = max_j f(x_ij):

    J(w, b) = 1/2 |w|^2 + c_0 sum_{y_i != 0} a_i [1 - y_i f_i]_+
              + c_1 sum_{(p,q) in bag graph} r_pq | s_p f_p - s_q f_q |
              + c_2 sum_{(p,q) in instance graph} r_pq | s_p f(x_p) - s_q f(x_q) |

What is concave is replaced by its linearisation at the current point: the maximum of a positive
bag, and in each of

    s_p f_p - s_q f_q <= s_p f_p - s_q f(x_q*),    s_q f_q - s_p f_p <= s_q f_q - s_p f(x_p*)

the maximum that is subtracted, by its highest instance. Negative bags and the third sum are
convex and stay. The convex problem goes to the cutting planes, one constraint set a sum. All of
it are sums over rows of the instance matrix: a cut is X'a for one vector a of instances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._bags.segments import (
    segment_argmax,
    segment_max,
    segment_mean,
    segment_sum,
)
from ..common.cccp import cccp
from ..common.cutting_plane import CuttingPlaneResult, cutting_plane
from ..svm.grouped_hinge import lowest_point
from .edges import Edges

__all__ = ["StructuredProblem", "StructuredResult", "linearised_bags", "solve_structured"]

_TIE = 1e-9
_TIGHTEST = 1e-12
# Stands for the linearisation at w = 0, where all instances of a bag share equally.
_MEANS = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class StructuredProblem:
    """The data of one problem.

    Attributes
    ----------
    X : ndarray or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    signs : ndarray of shape (n_bags,), 1.0, -1.0 or 0.0
    weights : ndarray of shape (n_bags,)
        a_i above; those of unlabelled bags are not used.
    costs : ndarray of shape (3,)
    bag_edges, instance_edges : Edges
    fit_intercept : bool
    """

    X: Any
    offsets: np.ndarray
    signs: np.ndarray
    weights: np.ndarray
    costs: np.ndarray
    bag_edges: Edges
    instance_edges: Edges
    fit_intercept: bool

    def risks(self, scores: np.ndarray) -> np.ndarray:
        """The three sums at scores of all instances, intercept included."""
        best = segment_max(scores, self.offsets)
        hinge = np.maximum(0.0, 1.0 - self.signs * best)[self.signs != 0]
        return np.array(
            [
                self.weights[self.signs != 0] @ hinge,
                self.bag_edges.roughness(best),
                self.instance_edges.roughness(scores),
            ]
        )

    def best_intercept(self, scores: np.ndarray) -> float:
        """The b that minimises J for given w, the middle of those that do.

        ``scores`` are without intercept. J is convex and piecewise linear in b: a hinge has a
        break at y - f, an edge one where its difference vanishes.
        """
        best = segment_max(scores, self.offsets)
        told = self.signs != 0
        hinges = self.costs[0] * self.weights[told]
        breaks, changes = [self.signs[told] - best[told]], [hinges]
        fall = hinges[self.signs[told] > 0].sum()
        parts = ((self.bag_edges, best), (self.instance_edges, scores))
        for cost, (edges, values) in zip(self.costs[1:], parts, strict=True):
            tilt = edges.tilt
            tilted = np.abs(tilt) > 1e-12
            breaks.append(-edges.differences(values)[tilted] / tilt[tilted])
            steep = cost * edges.shares[tilted] * np.abs(tilt[tilted])
            changes.append(2.0 * steep)
            fall += steep.sum()
        return lowest_point(np.concatenate(breaks), np.concatenate(changes), float(fall))


@dataclass
class StructuredResult:
    """A local minimum of J.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    intercept : float
    objective : float, J recomputed at the solution
    risks : ndarray of shape (3,), the sums in J
    history : list of float
    n_iter : int, convex problems
    converged : bool
    gap : float
        Distance of the last convex problem from its lower bound, in units of the objective.
    violations : ndarray of shape (3,)
        By how much each sum exceeded its slack when the cutting planes stopped.
    settled : bool
        Whether the cutting planes of the last convex problem reached their precision.
    n_cutting : int
        Cutting-plane steps in all convex problems.
    """

    w: np.ndarray
    intercept: float
    objective: float
    risks: np.ndarray
    history: list[float]
    n_iter: int
    converged: bool
    gap: float
    violations: np.ndarray
    settled: bool
    n_cutting: int


@dataclass
class _Point:
    objective: float
    gap: float
    linearisation: np.ndarray
    risks: np.ndarray
    intercept: float
    solution: CuttingPlaneResult


def solve_structured(
    problem: StructuredProblem,
    *,
    tol: float,
    max_iter: int,
    tols: np.ndarray | None = None,
    max_cuts: int = 5000,
    start: np.ndarray | None = None,
    qp_solver: str | None = None,
    on_iteration: Callable[[int, float], bool] | None = None,
) -> StructuredResult:
    """A local minimum by the concave-convex procedure with cutting planes inside.

    Parameters
    ----------
    problem : StructuredProblem
    tol, max_iter : see :func:`milearn._solvers.common.cccp.cccp`
    tols : ndarray of shape (3,), default=None
        Precision of each sum at which the cutting planes stop. None: a relative gap of
        ``tol**2``.
    max_cuts : int, default=5000
        Most cutting-plane steps of one convex problem.
    start : ndarray of int, default=None
        First linearisation: a row of each bag of :func:`linearised_bags`. None starts from w = 0,
        where all instances of a bag share equally.
    qp_solver : str, default=None
    on_iteration : callable, default=None
    """
    linearised = _Linearised(problem)
    # J is strongly convex in w: a gap of tol**2 leaves an error of about tol in w.
    first_tol = max(tol**2, _TIGHTEST)
    n_cutting = 0

    def step(witnesses: np.ndarray, before: _Point | None, inner_tol: float) -> _Point:
        nonlocal n_cutting
        solution = cutting_plane(
            linearised.oracle(witnesses),
            problem.X.shape[1],
            problem.costs,
            tols=0.0 if tols is None else tols * (inner_tol / first_tol),
            gap_tol=inner_tol if tols is None else 0.0,
            n_free=int(problem.fit_intercept),
            max_iter=max_cuts,
            start=None if before is None else (before.solution.w, before.solution.b),
            qp_solver=qp_solver,
        )
        n_cutting += solution.n_iter
        scores = problem.X @ solution.w
        intercept = problem.best_intercept(scores) if problem.fit_intercept else 0.0
        risks = problem.risks(scores + intercept)
        return _Point(
            objective=0.5 * float(solution.w @ solution.w) + float(problem.costs @ risks),
            gap=solution.gap,
            linearisation=linearised.witnesses(scores),
            risks=risks,
            intercept=intercept,
            solution=solution,
        )

    run = cccp(
        step,
        _MEANS if start is None else start,
        tol=tol,
        max_iter=max_iter,
        inner_tol=first_tol,
        on_iteration=on_iteration,
    )
    point = run.point
    return StructuredResult(
        w=point.solution.w,
        intercept=point.intercept,
        objective=point.objective,
        risks=point.risks,
        history=run.history,
        n_iter=run.n_iter,
        converged=run.converged,
        gap=point.gap,
        violations=point.solution.violations,
        settled=point.solution.converged,
        n_cutting=n_cutting,
    )


def linearised_bags(problem: StructuredProblem) -> np.ndarray:
    """The bags whose maximum is linearised: the positive ones, and those with a link; sorted."""
    return np.union1d(np.flatnonzero(problem.signs > 0), problem.bag_edges.nodes)


class _Linearised:
    """The convex problems of one problem, stated by an instance of each linearised bag."""

    def __init__(self, problem: StructuredProblem) -> None:
        self.problem = problem
        self.bags = linearised_bags(problem)
        self._second: np.ndarray | None = None

    def witnesses(self, scores: np.ndarray) -> np.ndarray:
        """Row of the highest instance of each linearised bag.

        What rounding cannot tell apart goes by the difference of the means of positive and
        negative bags: any of them linearises the maximum, and order must not choose.
        """
        offsets = self.problem.offsets
        sizes = np.diff(offsets)
        near = _TIE * max(1.0, float(np.abs(scores).max()))
        tied = scores >= np.repeat(segment_max(scores, offsets) - near, sizes)
        several = segment_sum(tied.astype(np.intp), offsets)[self.bags] > 1
        ranking = np.where(tied, 0.0, -np.inf)
        if several.any():
            ranking[tied] = self._mean_difference()[tied]
        return segment_argmax(ranking, offsets)[self.bags]

    def _mean_difference(self) -> np.ndarray:
        if self._second is None:
            problem = self.problem
            signs, weights = problem.signs, np.where(problem.signs != 0, problem.weights, 0.0)
            side = np.where(signs > 0, weights[signs > 0].sum(), weights[signs < 0].sum())
            sizes = np.diff(problem.offsets)
            shares = np.repeat(signs * weights / (side * sizes), sizes)
            self._second = problem.X @ (problem.X.T @ shares)
        return self._second

    def oracle(self, witnesses: np.ndarray) -> Callable:
        """Values and slopes of the three sums, the concave parts linearised at ``witnesses``."""
        problem, bags = self.problem, self.bags
        X, offsets = problem.X, problem.offsets
        n, n_bags = int(offsets[-1]), len(problem.signs)
        edges, links = problem.bag_edges, problem.instance_edges
        signs, weights = problem.signs, problem.weights
        positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
        sizes = np.diff(offsets)

        def linear(scores: np.ndarray) -> np.ndarray:
            if len(witnesses) == 0:
                return segment_mean(scores, offsets)
            values = np.zeros(n_bags)
            values[bags] = scores[witnesses]
            return values

        def spread(convex: np.ndarray, top: np.ndarray, linearised: np.ndarray) -> np.ndarray:
            """Coefficients of instances from those of bags."""
            total = np.zeros(n)
            total[top] = convex
            if len(witnesses) == 0:
                total += np.repeat(linearised / sizes, sizes)
            else:
                total[witnesses] += linearised[bags]
            return total

        def oracle(w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            scores = X @ w
            if problem.fit_intercept:
                scores = scores + b[0]
            top = segment_argmax(scores, offsets)
            best, low = scores[top], linear(scores)
            values = np.zeros(3)
            slopes = np.zeros((3, X.shape[1]))
            free = np.zeros((3, 1))

            convex, linearised = np.zeros(n_bags), np.zeros(n_bags)
            short = positive[low[positive] < 1.0]
            over = negative[best[negative] > -1.0]
            values[0] = weights[short] @ (1.0 - low[short]) + weights[over] @ (1.0 + best[over])
            linearised[short] = -weights[short]
            convex[over] = weights[over]
            slopes[0] = X.T @ spread(convex, top, linearised)
            free[0] = weights[over].sum() - weights[short].sum()

            if len(edges):
                a, c = edges.left_scale, edges.right_scale
                ahead = a * best[edges.left] - c * low[edges.right]
                behind = c * best[edges.right] - a * low[edges.left]
                first = ahead >= behind
                values[1] = edges.shares @ np.where(first, ahead, behind)
                up = np.where(first, edges.left, edges.right)
                down = np.where(first, edges.right, edges.left)
                rise = edges.shares * np.where(first, a, c)
                fall = edges.shares * np.where(first, c, a)
                convex[:] = np.bincount(up, weights=rise, minlength=n_bags)
                linearised[:] = -np.bincount(down, weights=fall, minlength=n_bags)
                slopes[1] = X.T @ spread(convex, top, linearised)
                free[1] = rise.sum() - fall.sum()

            if len(links):
                difference = links.differences(scores)
                pull = links.shares * np.sign(difference)
                values[2] = pull @ difference
                rise, fall = pull * links.left_scale, pull * links.right_scale
                total = np.bincount(links.left, weights=rise, minlength=n)
                total -= np.bincount(links.right, weights=fall, minlength=n)
                slopes[2] = X.T @ total
                free[2] = rise.sum() - fall.sum()
            return values, slopes, free if problem.fit_intercept else free[:, :0]

        return oracle
