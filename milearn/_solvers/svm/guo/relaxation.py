"""The semidefinite relaxation of instance selection (Guo 2009, with a bound on the slacks).

For instances of positive and of negative bags with costs c_i, a bound s on the slacks of instances
of positive bags, and f(x) = w.z + b:

    min  1/2 |w|^2 + sum_pos c_i ( 1/2 (l_i + e_i)^2 - s/2 l_i - 1/2 e_i ) + sum_neg c_i l_i
    s.t. y_i f(x_i) >= 1 - l_i,  l >= 0,  l_pos <= s,  e >= 0,
         sum of e over each positive bag = 1, or >= 1

The upper limit 1 of e needs no constraint: if a sum is 1 the limit is implied, and if a sum is
above 1 its multiplier is zero and every e_i of the bag is at most 1/2.

With few features the problem is solved by the interior point method of :mod:`.interior_point`. With
a kernel, or with more sparse features than instances, the linear systems of that method would be as
large as the number of instances. Then the method of multipliers of :mod:`.newton` is used, whose
systems have a row for each multiplier that changes. If rounding limits its precision, the interior
point method is also used, and the solution with the smaller error is kept.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from ....exceptions import SolverError
from .interior_point import InteriorPointMethod
from .newton import Found, MultiplierMethod
from .problem import RelaxationProblem

__all__ = ["RelaxationProblem", "RelaxationResult", "solve_relaxation"]

# A solution of the method of multipliers is final up to the first of these errors. Up to the second
# it is kept unless the interior point method is more precise.
_GOOD_TOL = 1e-8
_STAGNATION_TOL = 1e-4


@dataclass
class RelaxationResult:
    """A solution of the relaxation with the residuals of its optimality conditions."""

    w: np.ndarray  # with a kernel matrix, coefficients of the instances
    intercept: float
    scores: np.ndarray  # with the intercept, in the original order of the instances
    rows: np.ndarray  # the instances of positive bags
    slacks: np.ndarray
    eta: np.ndarray  # of the instances of positive bags
    value: float
    gap: float
    primal_residual: float  # largest violation of a constraint
    dual_residual: float  # largest entry of the gradient of the Lagrangian, in units of the costs
    unit: float  # the largest cost
    n_iter: int
    solver: str

    @property
    def error(self) -> float:
        """The largest of the residuals and the gap relative to objective plus largest cost."""
        gap = self.gap / (self.unit + abs(self.value))
        return max(gap, self.primal_residual, self.dual_residual)


def solve_relaxation(problem: RelaxationProblem, *, tol: float = 1e-8) -> RelaxationResult:
    """Solve the relaxation.

    Parameters
    ----------
    problem : RelaxationProblem
    tol : float, default=1e-8
        Duality gap relative to the objective plus the largest cost, and residuals.

    Raises
    ------
    SolverError
        If no solution is found.
    """
    if problem.is_kernel and np.ptp(problem.features) == 0:
        # Equal instances: only the intercept counts, and systems of the kernel would be singular.
        flat = copy(problem)
        flat.features, flat.is_kernel = np.zeros((len(problem.rows), 1)), False
        return replace(solve_relaxation(flat, tol=tol), w=np.zeros(len(problem.rows)))
    # In units of the largest cost all multipliers are of order one.
    unit = float(problem.costs.max())
    newton = None
    if problem.is_kernel or problem.is_sparse:
        multipliers = MultiplierMethod(problem, unit)
        found = multipliers.run(tol)
        if found is not None and found.error <= _STAGNATION_TOL:
            newton = _in_units(problem, unit, found, multipliers.n_iter, "newton")
            if found.error <= max(tol, _GOOD_TOL):
                return newton
    method = InteriorPointMethod(problem, unit)
    try:
        found = method.run(tol)
    except SolverError:
        if newton is None:
            raise
        return newton
    other = _in_units(problem, unit, found, method.n_iter, "interior-point")
    return other if newton is None or other.error <= newton.error else newton


def _in_units(
    problem: RelaxationProblem, unit: float, found: Found, n_iter: int, solver: str
) -> RelaxationResult:
    # Convert w, or the coefficients of the instances, from units of the largest cost.
    w = found.w * (unit * problem.signs if problem.is_kernel else np.sqrt(unit))
    intercept = problem.intercept(w, found.b)
    return RelaxationResult(
        w=w,
        intercept=intercept,
        scores=_in_order(problem, np.asarray(problem.features @ w + intercept)),
        rows=problem.positive_rows,
        slacks=found.slacks,
        eta=found.eta,
        value=problem.value(w, found.slacks, found.eta),
        gap=found.gap * unit,
        primal_residual=found.primal_residual,
        dual_residual=found.dual_residual,
        unit=unit,
        n_iter=n_iter,
        solver=solver,
    )


def _in_order(problem: RelaxationProblem, values: np.ndarray) -> np.ndarray:
    ordered = np.empty(len(values))
    ordered[problem.rows] = values
    return ordered
