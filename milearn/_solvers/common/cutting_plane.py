"""Cutting planes for a sum of convex, piecewise linear risks beside a squared norm.

    min 1/2 |w|^2 + sum_s c_s R_s(w, b)   subject to   the last entries of w lie in a convex set

Each risk R_s >= 0 has one slack and is replaced by the largest of its cuts, the tangent planes
R_s(v) + g'(w - v) found so far. In the dual that is a quadratic program with one variable per cut:
a few dozen, whatever the number of bags and features. The most violated cut of every risk
is added where its violation exceeds that risk's own precision, and the program is solved again
(Joachims, Finley & Yu, Machine Learning 77, 2009: the 1-slack formulation, here with several
slacks). The dual value is a lower bound at every step, the best point seen an upper one.

The convex set never enters the quadratic program as constraints, whose multipliers need not be
bounded: of given multipliers of the cuts, the minimiser on the last entries is a projection onto
the set. The dual is then concave and, for a polyhedral set, piecewise quadratic, and Newton's
method with an exact line search takes it to its maximum by a program over the cuts for each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from .qp import (
    ActiveSet,
    QPProblem,
    solve_qp,
)

__all__ = [
    "CuttingPlaneOptions",
    "CuttingPlaneResult",
    "Held",
    "Oracle",
    "RiskProblem",
    "cutting_plane",
]

# Oracle: (w, b) -> (values (S,), slopes (S, dim), free_slopes (S, n_free)).
Oracle = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]

# A violation that rounding alone explains, as a share of the risk.
_ROUNDING = 1e-13
_QP_TOL = 1e-9
_MIN_QP_TOL = 1e-13
# While a missing cut weighs more than this share of the objective, programs of few variables are
# solved to a low precision only.
_EARLY_RATIO = 1e-4
_EARLY_MAX_VARIABLES = 200
_EARLY_QP_TOL = 1e-8
# This part of what the missing cut weighs is their precision where it is known.
_EARLY_PART = 1e-2
# Arrays of the model with one entry per variable of the dual.
_BY_VARIABLE = ("free", "offsets", "sets", "idle", "multipliers")
# Multipliers of an early program, as fractions of the costs, up to which they are taken for zero.
_ZERO_MULTIPLIER = 1e-7
# Newton steps of one dual program with a convex set, and halvings of a line search.
_MAX_NEWTON_STEPS = 50
_MAX_HALVINGS = 60
# Slope along a step at which its line search ends, as a share of that at its beginning.
_LINE_SEARCH = 0.01
# Newton's method ends only where no more than this part of the objective can be gained.
_KINK = 1e-4


class Held(Protocol):
    """A closed polyhedron in which the last entries of w are held."""

    @property
    def size(self) -> int:
        """Number of the entries."""
        ...

    def project(self, z: np.ndarray) -> np.ndarray:
        """The nearest point of the set."""
        ...

    def derivative(self, z: np.ndarray) -> np.ndarray:
        """A generalised derivative of the projection, a symmetric matrix."""
        ...


@dataclass(frozen=True)
class RiskProblem:
    """The problem that cutting planes solve.

    Attributes
    ----------
    oracle : callable
        ``oracle(w, b)`` returns the values of the risks, shape (S,), and a subgradient of each,
        shapes (S, dim) and (S, n_free). What it returns is copied.
    dim : int
        Length of w.
    costs : ndarray of shape (S,)
        Weight of each risk. A risk of weight zero is not looked at.
    n_free : {0, 1}, default=0
        Number of unpenalised variables b, the intercept.
    held : Held, default=None
        The set of the last entries of w.
    refine : callable, default=None
        For risks of which the oracle knows a part: called with the best point and the lower
        bound where the run would end, it may let the risks grow and says whether it did. The
        run then goes on from that point with all its cuts, which are still below the risks;
        ``objective`` and ``history`` speak of the risks as they are at that time.
    """

    oracle: Oracle
    dim: int
    costs: np.ndarray
    n_free: int = 0
    held: Held | None = None
    refine: Callable[[np.ndarray, np.ndarray, float], bool] | None = None


@dataclass(frozen=True)
class CuttingPlaneOptions:
    """When a run ends, and how its quadratic programs are solved.

    Attributes
    ----------
    tols : float or ndarray of shape (S,), default=0.0
        Precision of each risk, in its units: the run ends when no risk exceeds its slack by more.
    gap_tol : float, default=0.0
        The run also ends when the gap is at most this share of the objective.
    objective_scale : float, default=0.0
        What stands for the objective in ``gap_tol`` where the objective is smaller.
    max_iter : int, default=1000
        Maximum number of calls of the oracle.
    drop_after : int, default=20
        A cut is dropped when its multiplier was zero for so many steps.
    qp_solver : str, default=None
    on_iteration : callable, default=None
        Called with the number of calls and the best objective; True asks to stop.
    """

    tols: np.ndarray | float = 0.0
    gap_tol: float = 0.0
    objective_scale: float = 0.0
    max_iter: int = 1000
    drop_after: int = 20
    qp_solver: str | None = None
    on_iteration: Callable[[int, float], bool] | None = None


@dataclass
class CuttingPlaneResult:
    """The best point of the run, with what certifies it.

    Attributes
    ----------
    w : ndarray of shape (dim,)
    b : ndarray of shape (n_free,)
    objective : float
        Value of the problem at (w, b), an upper bound of its optimum.
    lower_bound : float
        Largest dual value seen.
    values : ndarray of shape (S,)
        The risks at (w, b).
    slacks, violations : ndarray of shape (S,)
        What the cuts say of the risks at the last minimiser of the model, and by how much the
        risks there exceed it.
    n_iter : int
        Calls of the oracle.
    n_cuts : int
        Cuts kept at the end.
    converged : bool
    history : list of float
        Best objective after each call of the oracle.
    """

    w: np.ndarray
    b: np.ndarray
    objective: float
    lower_bound: float
    values: np.ndarray
    slacks: np.ndarray
    violations: np.ndarray
    n_iter: int = 0
    n_cuts: int = 0
    converged: bool = False
    history: list[float] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """Distance of the upper from the lower bound."""
        return max(0.0, self.objective - self.lower_bound)


def cutting_plane(
    problem: RiskProblem,
    options: CuttingPlaneOptions,
    start: tuple[np.ndarray, np.ndarray] | None = None,
) -> CuttingPlaneResult:
    """Minimise half the squared norm and a weighted sum of risks by cutting planes.

    Parameters
    ----------
    problem : RiskProblem
    options : CuttingPlaneOptions
    start : tuple of ndarray, default=None
        (w, b) to begin from, zero by default. A set of the last entries of w has to hold it; the
        result is never worse than it.

    Returns
    -------
    CuttingPlaneResult

    Raises
    ------
    SolverError
        When a quadratic program is not solved.
    """
    n_free, max_iter = problem.n_free, options.max_iter
    if n_free not in (0, 1):
        raise ValueError(f"n_free={n_free}: at most one variable goes without a penalty.")
    costs = np.asarray(problem.costs, dtype=float)
    tols = np.broadcast_to(np.asarray(options.tols, dtype=float), costs.shape)
    counted = costs > 0
    model = _CutModel(problem, options)
    w, b = (np.zeros(problem.dim), np.zeros(n_free)) if start is None else start
    result: CuttingPlaneResult | None = None
    lower, history, early = 0.0, list[float](), False
    for n_iter in range(1, max_iter + 1):
        values, slopes, free_slopes = problem.oracle(w, b)
        objective = 0.5 * float(w @ w) + float(costs @ values)
        slacks = model.slacks(w, b)
        violations = np.where(counted, values - slacks, 0.0)
        if result is None or objective < result.objective:
            result = CuttingPlaneResult(w, b, objective, lower, values, slacks, violations)
        history.append(result.objective)
        result.lower_bound, result.slacks, result.violations = lower, slacks, violations
        result.n_iter, result.n_cuts, result.history = n_iter, len(model), history
        asked_to_stop = options.on_iteration is not None and options.on_iteration(
            n_iter, result.objective
        )
        above = violations > np.maximum(tols, _ROUNDING * values)
        within = result.gap <= options.gap_tol * max(abs(result.objective), options.objective_scale)
        # A start without any risk is above no cut, but it is not what minimises the model.
        more = bool(above.any()) or (n_iter == 1 and bool(w.any()))
        # Where no cut is missing but the gap is too wide, the program was solved too loosely.
        if not within and not more and options.gap_tol > 0:
            more = model.tighten()
        # No cut is missing, but that was said by a solution of low precision.
        more = more or (early and result.gap > float(costs @ tols))
        if within or not more:
            if (
                n_iter < max_iter
                and problem.refine is not None
                and problem.refine(result.w, result.b, lower)
            ):
                w, b, result = result.w, result.b, None
                continue
            result.converged = True
            break
        if asked_to_stop or n_iter == max_iter:
            break
        for s in np.flatnonzero(above):
            model.add(int(s), values[s], slopes[s], free_slopes[s, 0] if n_free else 0.0, w, b)
        # Far from the end a program need not be solved to the last digit.
        missing = float((costs * violations)[above].min()) if above.any() else 0.0
        early = n_free == 0 and missing > _EARLY_RATIO * result.objective
        enough = _EARLY_PART * missing if early else 0.0
        w, b, value = model.minimise(result.b, result.objective, enough=enough)
        lower = max(lower, value)
    if result is None:
        raise ValueError(f"max_iter={max_iter} must be at least 1.")
    return result


class _CutModel:
    """The cuts so far, their Gram matrix, and the dual program over them.

    The arrays have room for more cuts than are in use.
    """

    def __init__(self, problem: RiskProblem, options: CuttingPlaneOptions) -> None:
        self.costs = np.asarray(problem.costs, dtype=float)
        self.n_free, self.dim, self.held = problem.n_free, problem.dim, problem.held
        # Entries of w that no set holds.
        self.n_loose = self.dim - (0 if self.held is None else self.held.size)
        self.drop_after, self.qp_solver = options.drop_after, options.qp_solver
        self.qp_tol, self.size = _QP_TOL, 0
        self._reserve(16)

    def __len__(self) -> int:
        return self.size

    def tighten(self) -> bool:
        """Solve the programs more precisely from now on; False where that is not possible."""
        if self.qp_tol <= _MIN_QP_TOL:
            return False
        self.qp_tol = max(1e-2 * self.qp_tol, _MIN_QP_TOL)
        return True

    def _reserve(self, room: int) -> None:
        old = self.__dict__.copy()
        self.slopes = np.zeros((room, self.dim))
        self.gram = np.zeros((room, room))
        self.free = np.zeros(room)
        self.offsets = np.zeros(room)
        self.sets = np.zeros(room, dtype=np.intp)
        self.idle = np.zeros(room, dtype=np.intp)
        self.multipliers = np.zeros(room)
        n = self.size
        if "slopes" in old:
            self.slopes[:n] = old["slopes"][:n]
            self.gram[:n, :n] = old["gram"][:n, :n]
            for name in _BY_VARIABLE:
                getattr(self, name)[:n] = old[name][:n]

    def _heights(self, w: np.ndarray) -> np.ndarray:
        """The value of each cut at w, without the intercept's part."""
        heights: np.ndarray = self.offsets[: self.size] + self.slopes[: self.size] @ w
        return heights

    def slacks(self, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The largest cut of each risk at a point, or zero."""
        cuts = slice(0, self.size)
        heights = self._heights(w)
        if self.n_free:
            heights += self.free[cuts] * b[0]
        slacks = np.zeros(len(self.costs))
        np.maximum.at(slacks, self.sets[cuts], heights)
        return slacks

    def add(
        self, s: int, value: float, slope: np.ndarray, free: float, w: np.ndarray, b: np.ndarray
    ) -> None:
        """The tangent plane of risk ``s`` at (w, b)."""
        n = self.size
        if n == len(self.offsets):
            self._reserve(2 * n)
        self.slopes[n] = slope
        products = self.slopes[: n + 1, : self.n_loose] @ slope[: self.n_loose]
        self.gram[n, : n + 1] = self.gram[: n + 1, n] = products
        self.free[n] = free
        self.offsets[n] = value - slope @ w - (free * b[0] if self.n_free else 0.0)
        self.sets[n], self.idle[n], self.multipliers[n] = s, 0, 0.0
        self.size = n + 1

    def minimise(
        self, near: np.ndarray, objective: float, *, enough: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Minimiser of the model and its dual value; of several intercepts the nearest one.

        Above zero ``enough`` asks for a low precision only: that of the value, where it is known.
        """
        n = self.size
        if n == 0:  # no cuts yet: the norm alone
            return np.zeros(self.dim), near, 0.0
        # In fractions of the costs and units of the objective: a precision then means the same
        # for every C.
        unit = self.costs[self.sets[:n]]
        scale = objective if objective > 0 else 1.0
        early = enough > 0 and n <= _EARLY_MAX_VARIABLES
        if self.held is None:
            x = self._solved(self._dual(self.gram[:n, :n], self.offsets[:n], unit, scale), early)
        else:
            x = self._by_newton(unit, scale, early, enough)
        self.multipliers[:n] = x
        weights = x * unit
        w = self._minimiser(weights)
        value = float(weights @ self.offsets[:n]) - 0.5 * float(w @ w)
        if self.held is not None:
            # Where a projection moved them, the last entries are not the slope.
            ends = w[self.n_loose :]
            value += float((weights @ self.slopes[:n, self.n_loose :] + ends) @ ends)
        b = self._intercept(w, near) if self.n_free else near
        self._drop()
        return w, b, value

    def _minimiser(self, weights: np.ndarray) -> np.ndarray:
        """What minimises the model whose cuts have these weights."""
        w: np.ndarray = -(weights @ self.slopes[: len(weights)])
        if self.held is not None:
            w[self.n_loose :] = self.held.project(w[self.n_loose :])
        return w

    def _dual(
        self, gram: np.ndarray, offsets: np.ndarray, unit: np.ndarray, scale: float
    ) -> QPProblem:
        n = self.size
        used, group = np.unique(self.sets[:n], return_inverse=True)
        members = np.zeros((len(used), n))
        members[group, np.arange(n)] = 1.0
        free = self.free[:n] * unit
        steepest = float(np.abs(free).max())
        equality = free / steepest if steepest > 0 else None
        return QPProblem(
            gram * (unit[:, None] * (unit / scale)),
            offsets * (unit / -scale),
            G=members,
            h=np.ones(len(members)),
            A=equality,
            b=None if equality is None else np.zeros(1),
            lb=np.zeros(n),
        )

    def _solved(self, problem: QPProblem, early: bool) -> np.ndarray:
        if early:
            x = solve_qp(problem, tol=_EARLY_QP_TOL, solver=self.qp_solver).x
            x = np.where(x > _ZERO_MULTIPLIER, x, 0.0)
            # Any multipliers that keep within the costs give a bound.
            return np.asarray(x / (problem.G.T @ np.maximum(problem.G @ x, 1.0)))
        n = self.size
        old = self.multipliers[:n]
        idle = (old <= 0) & (np.arange(n) < n - 1)
        warm_start = ActiveSet(
            lower=idle, upper=np.zeros(n, bool), tight=problem.G @ old > 1 - 1e-9
        )
        solution = solve_qp(problem, tol=self.qp_tol, solver=self.qp_solver, start=warm_start)
        multipliers: np.ndarray = np.maximum(solution.x, 0.0)
        return multipliers

    def _by_newton(self, unit: np.ndarray, scale: float, early: bool, enough: float) -> np.ndarray:
        """Multipliers that maximise the dual where a set holds the last entries of w."""
        held = self.held
        assert held is not None
        n, x = self.size, self.multipliers[: self.size].copy()
        loose, ends = self.gram[:n, :n], self.slopes[:n, self.n_loose :]
        tol = _EARLY_QP_TOL if early else self.qp_tol

        def gradient(weights: np.ndarray) -> np.ndarray:
            nearest = held.project(-(weights @ ends))
            return np.asarray(self.offsets[:n] - loose @ weights + ends @ nearest)

        def ascent(derivative: np.ndarray) -> tuple[np.ndarray, float]:
            gram = loose + ends @ derivative @ ends.T
            found = self._solved(self._dual(gram, slope + gram @ weights, unit, scale), early)
            return found, float(slope @ ((found - x) * unit))

        for _ in range(_MAX_NEWTON_STEPS):
            weights = x * unit
            slope = gradient(weights)
            # No multipliers within the costs gain more than the best corner of them.
            corner = self._corner(slope, unit)
            most = float(slope @ (corner - weights))
            if most <= enough:
                break
            found, rise = ascent(held.derivative(-(weights @ ends)))
            if rise <= tol * scale:
                # Next to a kink a quadratic may say that nothing can be gained where much can.
                if most <= _KINK * scale:
                    break
                found, rise = ascent(held.derivative(-(corner @ ends)))
                if rise <= tol * scale:
                    break
            step = (found - x) * unit
            low, high, t = 0.0, 1.0, 1.0
            for _ in range(_MAX_HALVINGS):
                left = float(gradient(weights + t * step) @ step)
                if abs(left) <= _LINE_SEARCH * rise or (t == 1.0 and left > 0):
                    break
                low, high = (t, high) if left > 0 else (low, t)
                t = 0.5 * (low + high)
            x = x + t * (found - x)
        return x

    def _corner(self, slope: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Of each risk the steepest cut with all of its cost, where it rises."""
        corner, n = np.zeros(self.size), self.size
        for s in np.unique(self.sets[:n]):
            cuts = np.flatnonzero(self.sets[:n] == s)
            steepest = cuts[slope[cuts].argmax()]
            corner[steepest] = unit[steepest] if slope[steepest] > 0 else 0.0
        return corner

    def _intercept(self, w: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Minimiser of the model over b alone, the one nearest to ``near``.

        The model is convex and piecewise linear in b: walk downhill from one kink to the next.
        """
        cuts = slice(0, self.size)
        weight = np.concatenate([self.costs, self.costs[self.sets[cuts]]])
        sets = np.concatenate([np.arange(len(self.costs)), self.sets[cuts]])
        # Each risk is at least zero: that is its first line.
        height = np.concatenate([np.zeros(len(self.costs)), self._heights(w)])
        slope = np.concatenate([np.zeros(len(self.costs)), self.free[cuts]])
        b = float(near[0])
        flat = 1e-12 * float(weight @ np.abs(slope))
        for direction in (1.0, -1.0):
            steep, at = direction * slope, height + slope * b
            # Of the lines that attain the maximum, the one that does so just beyond b.
            order = np.lexsort((steep, at, sets))
            active = order[np.searchsorted(sets[order], np.arange(len(self.costs)), "right") - 1]
            walked = 0.0
            while weight[active] @ steep[active] < -flat:
                rise = steep - steep[active][sets]
                fall = at[active][sets] - at + walked * (steep[active][sets] - steep)
                step = np.full(len(rise), np.inf)
                np.divide(np.maximum(fall, 0.0), rise, out=step, where=rise > 0)
                k = int(step.argmin())
                if not np.isfinite(step[k]):
                    break
                walked += step[k]
                active[sets[k]] = k
            if walked > 0:
                return np.array([b + direction * walked])
        return near

    def _drop(self) -> None:
        n = self.size
        self.idle[:n] = np.where(self.multipliers[:n] > 0, 0, self.idle[:n] + 1)
        kept = np.flatnonzero(self.idle[:n] <= self.drop_after)
        m = len(kept)
        if m == n:
            return
        self.slopes[:m] = self.slopes[kept]
        self.gram[:m, :m] = self.gram[np.ix_(kept, kept)]
        for name in _BY_VARIABLE:
            array = getattr(self, name)
            array[:m] = array[kept]
        self.size = m
