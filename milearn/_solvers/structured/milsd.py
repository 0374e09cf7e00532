"""Maximum margin over bags with graphs on bags and on instances (Zhang et al. 2011).

For bags i with signs y_i in {-1, 0, 1} (0: unlabelled), f(x) = w.x + b and f_i = max_j f(x_ij):

    J(w, b) = 1/2 |w|^2 + c_0 sum_{y_i != 0} a_i [1 - y_i f_i]_+
              + c_1 sum_{(p,q) in bag graph} r_pq | s_p f_p - s_q f_q |
              + c_2 sum_{(p,q) in instance graph} r_pq | s_p f(x_p) - s_q f(x_q) |

What is concave is replaced by its linearisation at the current point: the maximum of a positive
bag, and in each of

    s_p f_p - s_q f_q <= s_p f_p - s_q f(x_q*),    s_q f_q - s_p f_p <= s_q f_q - s_p f(x_p*)

the maximum that is subtracted, by its highest instance. Negative bags and the third sum are
convex and stay. The convex problem goes to the cutting planes, with one slack per sum. All of
it are sums over rows of the instance matrix: a cut is X'a for one vector a of instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._bags.segments import segment_argmax, segment_max, segment_mean
from ..common.cccp import CCCPSolution, cccp
from ..common.cutting_plane import (
    CuttingPlaneOptions,
    CuttingPlaneResult,
    RiskProblem,
    cutting_plane,
)
from ..common.options import SolverOptions
from ..common.piecewise import lowest_point
from ..common.rounding import rounding_scale
from ..common.witnesses import Witnesses, mean_difference
from .edges import Edges

__all__ = [
    "MEANS",
    "LinearisedProblem",
    "StructuredPrecision",
    "StructuredProblem",
    "StructuredSolution",
    "linearised_bags",
    "solve_structured",
]

_MIN_GAP_TOL = 1e-12
# Relative gap of a step that counts as solved, in units of the one asked for.
_ACCEPTED_GAP = 10.0
# Stands for the linearisation at w = 0, where all instances of a bag share equally.
MEANS = np.zeros(0, dtype=np.intp)


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
                self.bag_edges.total_variation(best),
                self.instance_edges.total_variation(scores),
            ]
        )

    def best_intercept(self, scores: np.ndarray) -> float:
        """The b that minimises J for given w, the middle of those that do.

        ``scores`` are without intercept. J is convex and piecewise linear in b: a hinge has a
        break at y - f, an edge one where its difference vanishes.
        """
        best = segment_max(scores, self.offsets)
        labelled = self.signs != 0
        hinges = self.costs[0] * self.weights[labelled]
        breaks, changes = [self.signs[labelled] - best[labelled]], [hinges]
        fall = hinges[self.signs[labelled] > 0].sum()
        parts = ((self.bag_edges, best), (self.instance_edges, scores))
        for cost, (edges, values) in zip(self.costs[1:], parts, strict=True):
            slope = edges.scale_difference
            moving = np.abs(slope) > 1e-12
            breaks.append(-edges.differences(values)[moving] / slope[moving])
            steep = cost * edges.weights[moving] * np.abs(slope[moving])
            changes.append(2.0 * steep)
            fall += steep.sum()
        return lowest_point(np.concatenate(breaks), np.concatenate(changes), float(fall))


@dataclass(frozen=True)
class StructuredPrecision:
    """Where the cutting planes of a convex step stop.

    Attributes
    ----------
    tols : ndarray of shape (3,) or None, default=None
        Precision of each sum, in its units. None: a relative gap of the square of the tolerance
        of the outer iteration.
    max_cuts : int, default=5000
        Maximum number of cutting-plane steps of one convex problem.
    """

    tols: np.ndarray | None = None
    max_cuts: int = 5000


@dataclass(kw_only=True)
class StructuredSolution(CCCPSolution):
    """A local minimum of J.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    intercept : float
    risks : ndarray of shape (3,), the sums in J
    violations : ndarray of shape (3,)
        By how much each sum exceeded its slack when the cutting planes stopped.
    step_converged : bool
        Whether the last convex problem was solved to the precision asked for.
    n_cutting : int
        Cutting-plane steps in all convex problems; zero for another solver.
    out_of_digits : bool
        Whether the last convex problem missed its precision because double precision allows no
        better, and not by a limit on the way.
    n_passes : int
        Passes over all instances of a solver that goes by them.
    """

    w: np.ndarray
    intercept: float
    risks: np.ndarray
    violations: np.ndarray
    step_converged: bool
    n_cutting: int
    out_of_digits: bool = False
    n_passes: int = 0


@dataclass
class _StructuredPoint:
    """A convex solution with its best intercept, and the linearisation of the next problem."""

    objective: float
    dual_gap: float
    linearisation: np.ndarray
    risks: np.ndarray
    intercept: float
    solution: CuttingPlaneResult


def solve_structured(
    problem: StructuredProblem,
    options: SolverOptions,
    precision: StructuredPrecision | None = None,
    start: np.ndarray | None = None,
) -> StructuredSolution:
    """A local minimum by the concave-convex procedure with cutting planes inside.

    Parameters
    ----------
    problem : StructuredProblem
    options : SolverOptions
    precision : StructuredPrecision, default=None
    start : ndarray of int, default=None
        First linearisation: a row of each bag of :func:`linearised_bags`. None starts from w = 0,
        where all instances of a bag share equally.

    Raises
    ------
    SolverError
        When a quadratic program is not solved.
    """
    precision = precision or StructuredPrecision()
    linearised = LinearisedProblem(problem)
    # J is strongly convex in w: a gap of tol**2 leaves an error of about tol in w.
    first_tol = max(options.tol**2, _MIN_GAP_TOL)
    tols = precision.tols
    n_cutting = 0

    def step(
        witnesses: np.ndarray, before: _StructuredPoint | None, inner_tol: float
    ) -> _StructuredPoint:
        nonlocal n_cutting
        solution = cutting_plane(
            linearised.risk_problem(witnesses),
            CuttingPlaneOptions(
                tols=0.0 if tols is None else tols * (inner_tol / first_tol),
                gap_tol=inner_tol if tols is None else 0.0,
                objective_scale=linearised.objective_scale,
                max_iter=precision.max_cuts,
                qp_solver=options.qp_solver,
            ),
            start=None if before is None else (before.solution.w, before.solution.b),
        )
        n_cutting += solution.n_iter
        scores = problem.X @ solution.w
        intercept = problem.best_intercept(scores) if problem.fit_intercept else 0.0
        risks = problem.risks(scores + intercept)
        return _StructuredPoint(
            objective=0.5 * float(solution.w @ solution.w) + float(problem.costs @ risks),
            dual_gap=solution.gap,
            linearisation=linearised.witnesses(scores),
            risks=risks,
            intercept=intercept,
            solution=solution,
        )

    run = cccp(step, MEANS if start is None else start, options, inner_tol=first_tol)
    point = run.point
    size = max(abs(point.objective), linearised.objective_scale)
    # No cut may be missing and the gap be wide all the same: programs were solved too loosely.
    closed = tols is not None or point.dual_gap <= _ACCEPTED_GAP * first_tol * size
    return StructuredSolution(
        w=point.solution.w,
        intercept=point.intercept,
        risks=point.risks,
        violations=point.solution.violations,
        step_converged=point.solution.converged and closed,
        out_of_digits=point.solution.converged and not closed,
        n_cutting=n_cutting,
        objective_scale=linearised.objective_scale,
        **run.outcome(),
    )


def linearised_bags(problem: StructuredProblem) -> np.ndarray:
    """The bags whose maximum is linearised: the positive ones, and those with a link; sorted."""
    bags: np.ndarray = np.union1d(np.flatnonzero(problem.signs > 0), problem.bag_edges.nodes)
    return bags


class LinearisedProblem:
    """The convex problems of one problem, stated by an instance of each linearised bag."""

    def __init__(self, problem: StructuredProblem) -> None:
        self.problem = problem
        self.bags = linearised_bags(problem)
        labelled = problem.signs != 0
        self.objective_scale = rounding_scale(problem.costs[0] * problem.weights[labelled])
        self._highest = Witnesses(problem.offsets, self.bags, _AlongDifference(problem))

    def witnesses(self, scores: np.ndarray) -> np.ndarray:
        """Row of the highest instance of each linearised bag.

        What rounding cannot tell apart goes by the difference of the means of positive and
        negative bags: any of them linearises the maximum, and order must not choose.
        """
        return self._highest.of(scores)

    def risk_problem(self, witnesses: np.ndarray) -> RiskProblem:
        """The convex problem with the concave parts linearised at ``witnesses``."""
        problem = self.problem
        return RiskProblem(
            oracle=_StructuredRisks(problem, self.bags, witnesses).oracle,
            dim=problem.X.shape[1],
            costs=problem.costs,
            n_free=int(problem.fit_intercept),
        )


class _AlongDifference:
    """Scores of instances along the difference of the means of both classes."""

    def __init__(self, problem: StructuredProblem) -> None:
        self.problem = problem

    @cached_property
    def difference(self) -> np.ndarray:
        problem = self.problem
        coefs = mean_difference(problem.offsets, problem.signs, problem.weights)
        return np.asarray(problem.X.T @ coefs)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.problem.X[rows] @ self.difference)


class _StructuredRisks:
    """The three sums with their concave parts linearised at one instance of each bag.

    Parameters
    ----------
    problem : StructuredProblem
    bags : ndarray of int
        The bags that are linearised.
    witnesses : ndarray of int
        A row of each of them; empty for the mean of all instances.
    """

    def __init__(self, problem: StructuredProblem, bags: np.ndarray, witnesses: np.ndarray) -> None:
        self.problem, self.bags, self.witnesses = problem, bags, witnesses
        self.n_bags, self.n_instances = len(problem.signs), int(problem.offsets[-1])
        self.sizes = np.diff(problem.offsets)
        self.positive = np.flatnonzero(problem.signs > 0)
        self.negative = np.flatnonzero(problem.signs < 0)

    def oracle(self, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values of the sums at (w, b), and a subgradient of each.

        Each part returns its value, its derivative in b, and the coefficients of scores.
        """
        problem = self.problem
        scores = problem.X @ w
        if problem.fit_intercept:
            scores = scores + b[0]
        top = segment_argmax(scores, problem.offsets)
        best, linear = scores[top], self._linear(scores)
        values, slopes, free = np.zeros(3), np.zeros((3, problem.X.shape[1])), np.zeros((3, 1))
        values[0], free[0], convex, linearised = self._hinges(best, linear)
        slopes[0] = problem.X.T @ self._on_instances(convex, top, linearised)
        if len(problem.bag_edges):
            values[1], free[1], convex, linearised = self._bag_links(best, linear)
            slopes[1] = problem.X.T @ self._on_instances(convex, top, linearised)
        if len(problem.instance_edges):
            values[2], free[2], coefficients = self._instance_links(scores)
            slopes[2] = problem.X.T @ coefficients
        return values, slopes, free if problem.fit_intercept else free[:, :0]

    def _linear(self, scores: np.ndarray) -> np.ndarray:
        """What stands for the maximum of each bag where that is linearised."""
        if len(self.witnesses) == 0:
            return segment_mean(scores, self.problem.offsets)
        values = np.zeros(self.n_bags)
        values[self.bags] = scores[self.witnesses]
        return values

    def _on_instances(
        self, convex: np.ndarray, top: np.ndarray, linearised: np.ndarray
    ) -> np.ndarray:
        """Coefficients of instances from those of the two scores of each bag."""
        total = np.zeros(self.n_instances)
        total[top] = convex
        if len(self.witnesses) == 0:
            total += np.repeat(linearised / self.sizes, self.sizes)
        else:
            total[self.witnesses] += linearised[self.bags]
        return total

    def _hinges(
        self, best: np.ndarray, linear: np.ndarray
    ) -> tuple[float, float, np.ndarray, np.ndarray]:
        weights = self.problem.weights
        convex, linearised = np.zeros(self.n_bags), np.zeros(self.n_bags)
        short = self.positive[linear[self.positive] < 1.0]
        over = self.negative[best[self.negative] > -1.0]
        linearised[short] = -weights[short]
        convex[over] = weights[over]
        value = weights[short] @ (1.0 - linear[short]) + weights[over] @ (1.0 + best[over])
        free = weights[over].sum() - weights[short].sum()
        return float(value), float(free), convex, linearised

    def _bag_links(
        self, best: np.ndarray, linear: np.ndarray
    ) -> tuple[float, float, np.ndarray, np.ndarray]:
        edges = self.problem.bag_edges
        a, c = edges.left_scale, edges.right_scale
        ahead = a * best[edges.left] - c * linear[edges.right]
        behind = c * best[edges.right] - a * linear[edges.left]
        first = ahead >= behind
        up = np.where(first, edges.left, edges.right)
        down = np.where(first, edges.right, edges.left)
        rise = edges.weights * np.where(first, a, c)
        fall = edges.weights * np.where(first, c, a)
        return (
            float(edges.weights @ np.where(first, ahead, behind)),
            float(rise.sum() - fall.sum()),
            np.bincount(up, weights=rise, minlength=self.n_bags),
            -np.bincount(down, weights=fall, minlength=self.n_bags),
        )

    def _instance_links(self, scores: np.ndarray) -> tuple[float, float, np.ndarray]:
        links, n = self.problem.instance_edges, self.n_instances
        difference = links.differences(scores)
        pull = links.weights * np.sign(difference)
        rise, fall = pull * links.left_scale, pull * links.right_scale
        coefficients = np.bincount(links.left, weights=rise, minlength=n)
        coefficients -= np.bincount(links.right, weights=fall, minlength=n)
        return float(pull @ difference), float(rise.sum() - fall.sum()), coefficients
