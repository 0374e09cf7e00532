"""Cutting planes for a sum of convex, piecewise linear risks beside a squared norm.

    min 1/2 |w|^2 + sum_s c_s R_s(w, b)   subject to   |H w| <= l

Each risk R_s >= 0 has one slack and is replaced by the largest of its cuts, the tangent planes
R_s(v) + g'(w - v) found so far. In the dual that is a quadratic program with one variable a cut:
a few dozen, whatever the number of bags and features. The most violated cut of every risk
is added where its violation exceeds that risk's own precision, and the program is solved again
(Joachims, Finley & Yu, Machine Learning 77, 2009: the 1-slack formulation, here with several
slacks). The dual value is a lower bound at every step, the best point seen an upper one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .qp import (
    ActiveSet,
    QPProblem,
    solve_qp,
    solve_qp_fast,
)

__all__ = ["CuttingPlaneResult", "Oracle", "cutting_plane"]

# Oracle: (w, b) -> (values (S,), slopes (S, dim), free_slopes (S, n_free)).
Oracle = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]

# A violation that rounding alone explains, as a share of the risk.
_ROUNDING = 1e-13
_QP_TOL = 1e-9
# While a cut that is missing weighs more than this share of the objective, small programs are
# solved to the rough precision; shares below the last number are none.
_FAR = 1e-4
_FEW = 200
_ROUGH_TOL = 1e-8
_NO_SHARE = 1e-7
_TIGHTEST_QP_TOL = 1e-13


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
    oracle: Oracle,
    dim: int,
    costs: np.ndarray,
    *,
    tols: np.ndarray | float,
    n_free: int = 0,
    hard: np.ndarray | None = None,
    hard_bound: float = 0.0,
    gap_tol: float = 0.0,
    max_iter: int = 1000,
    start: tuple[np.ndarray, np.ndarray] | None = None,
    drop_after: int = 20,
    qp_solver: str | None = None,
    on_iteration: Callable[[int, float], bool] | None = None,
    refine: Callable[[np.ndarray, np.ndarray, float], bool] | None = None,
) -> CuttingPlaneResult:
    """Minimise half the squared norm and a weighted sum of risks by cutting planes.

    Parameters
    ----------
    oracle : callable
        ``oracle(w, b)`` returns the values of the risks, shape (S,), and a subgradient of each,
        shapes (S, dim) and (S, n_free). What it returns is copied.
    dim : int
        Length of w.
    costs : ndarray of shape (S,)
        Weight of each risk. A risk of weight zero is not looked at.
    tols : float or ndarray of shape (S,)
        Precision of each risk: the run ends when no risk exceeds its slack by more than that.
    n_free : {0, 1}, default=0
        Number of unpenalised variables b, the intercept.
    hard : ndarray of shape (p, dim), default=None
        Rows whose product with w may not exceed ``hard_bound`` in absolute value.
    hard_bound : float, default=0.0
    gap_tol : float, default=0.0
        The run also ends when the gap is at most this share of the objective.
    max_iter : int, default=1000
        Most calls of the oracle.
    start : tuple of ndarray, default=None
        (w, b) to begin from, zero by default. It has to respect ``hard``; the result is never
        worse than it.
    drop_after : int, default=20
        A cut that took no part for so many steps is forgotten.
    qp_solver : str, default=None
    on_iteration : callable, default=None
        Called with the number of calls and the best objective; True asks to stop.
    refine : callable, default=None
        For risks of which the oracle knows a part: called with the best point and the lower
        bound where the run would end, it may let the risks grow and says whether it did. The
        run then goes on from that point with all its cuts, which are still below the risks;
        ``objective`` and ``history`` speak of the risks as they are at that time.

    Returns
    -------
    CuttingPlaneResult

    Raises
    ------
    SolverError
        When a quadratic program is not solved.
    """
    if n_free not in (0, 1):
        raise ValueError(f"n_free={n_free}: at most one variable goes without a penalty.")
    costs = np.asarray(costs, dtype=float)
    tols = np.broadcast_to(np.asarray(tols, dtype=float), costs.shape)
    counted = costs > 0
    model = _Model(dim, costs, n_free, hard, hard_bound, drop_after, qp_solver)
    w, b = (np.zeros(dim), np.zeros(n_free)) if start is None else start
    result: CuttingPlaneResult | None = None
    lower, history, far = 0.0, [], False
    for n_iter in range(1, max_iter + 1):
        values, slopes, free_slopes = oracle(w, b)
        objective = 0.5 * float(w @ w) + float(costs @ values)
        slacks = model.slacks(w, b)
        violations = np.where(counted, values - slacks, 0.0)
        if result is None or objective < result.objective:
            result = CuttingPlaneResult(w, b, objective, lower, values, slacks, violations)
        history.append(result.objective)
        result.lower_bound, result.slacks, result.violations = lower, slacks, violations
        result.n_iter, result.n_cuts, result.history = n_iter, len(model), history
        asked_to_stop = on_iteration is not None and on_iteration(n_iter, result.objective)
        above = violations > np.maximum(tols, _ROUNDING * values)
        within = result.gap <= gap_tol * abs(result.objective)
        # A start without any risk is above no cut, but it is not what minimises the model.
        more = bool(above.any()) or (n_iter == 1 and bool(w.any()))
        # Where no cut is missing but the gap is too wide, the program was solved too loosely.
        if not within and not more and gap_tol > 0:
            more = model.tighten()
        # No cut is missing, but that was said by a rough solution.
        more = more or (far and result.gap > float(costs @ tols))
        if within or not more:
            if n_iter < max_iter and refine is not None and refine(result.w, result.b, lower):
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
        far = n_free == 0 and missing > _FAR * result.objective
        w, b, value = model.minimise(result.b, result.objective, rough=far)
        lower = max(lower, value)
    if result is None:
        raise ValueError(f"max_iter={max_iter} must be at least 1.")
    return result


class _Model:
    """The cuts so far, their Gram matrix, and the dual program over them.

    The first rows are the hard constraints, in both directions; the cuts follow. All arrays have
    room for more rows than are in use.
    """

    def __init__(
        self,
        dim: int,
        costs: np.ndarray,
        n_free: int,
        hard: np.ndarray | None,
        hard_bound: float,
        drop_after: int,
        qp_solver: str | None,
    ) -> None:
        rows = np.zeros((0, dim)) if hard is None else np.vstack([hard, -hard])
        self.costs, self.n_free = costs, n_free
        self.drop_after, self.qp_solver = drop_after, qp_solver
        self.qp_tol = _QP_TOL
        self.n_hard = self.size = n = len(rows)
        self._reserve(n + 16, dim)
        self.rows[:n] = rows
        self.gram[:n, :n] = rows @ rows.T
        self.offsets[:n] = -hard_bound

    def __len__(self) -> int:
        return self.size - self.n_hard

    def tighten(self) -> bool:
        """Solve the programs more precisely from now on; False where that is not possible."""
        if self.qp_tol <= _TIGHTEST_QP_TOL:
            return False
        self.qp_tol = max(1e-2 * self.qp_tol, _TIGHTEST_QP_TOL)
        return True

    def _reserve(self, room: int, dim: int) -> None:
        old = self.__dict__.copy()
        self.rows = np.zeros((room, dim))
        self.gram = np.zeros((room, room))
        self.free = np.zeros(room)
        self.offsets = np.zeros(room)
        self.sets = np.zeros(room, dtype=int)
        self.idle = np.zeros(room, dtype=int)
        self.shares = np.zeros(room)
        n = self.size
        if "rows" in old:
            self.gram[:n, :n] = old["gram"][:n, :n]
            for name in ("rows", "free", "offsets", "sets", "idle", "shares"):
                getattr(self, name)[:n] = old[name][:n]

    def slacks(self, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The largest cut of each risk at a point, or zero."""
        cuts = slice(self.n_hard, self.size)
        heights = self.offsets[cuts] + self.rows[cuts] @ w
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
        if n == len(self.rows):
            self._reserve(2 * n, len(w))
        self.rows[n] = slope
        products = self.rows[: n + 1] @ slope
        self.gram[n, : n + 1] = self.gram[: n + 1, n] = products
        self.free[n] = free
        self.offsets[n] = value - slope @ w - (free * b[0] if self.n_free else 0.0)
        self.sets[n], self.idle[n], self.shares[n] = s, 0, 0.0
        self.size = n + 1

    def minimise(
        self, near: np.ndarray, objective: float, *, rough: bool = False
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Minimiser of the model and its dual value; of several intercepts the nearest one."""
        n, p = self.size, self.n_hard
        if n == p:  # no cuts yet: the norm alone
            return np.zeros(self.rows.shape[1]), near, 0.0
        # In shares of the costs and units of the objective: a precision then means the same
        # for every C.
        unit = np.ones(n)
        unit[p:] = self.costs[self.sets[p:n]]
        scale = objective if objective > 0 else 1.0
        if len(self.costs) == 1:
            members = np.zeros((1, n))
            members[0, p:] = 1.0
        else:
            used, group = np.unique(self.sets[p:n], return_inverse=True)
            members = np.zeros((len(used), n))
            members[group, np.arange(p, n)] = 1.0
        free = self.free[:n] * unit
        steepest = float(np.abs(free).max())
        problem = QPProblem(
            self.gram[:n, :n] * (unit[:, None] * (unit / scale)),
            self.offsets[:n] * (unit / -scale),
            G=members,
            h=np.ones(len(members)),
            A=free[None, :] / steepest if steepest > 0 else None,
            b=np.zeros(1) if steepest > 0 else None,
            lb=np.zeros(n),
        )
        if rough and n <= _FEW:
            shares = solve_qp_fast(problem, tol=_ROUGH_TOL, solver=self.qp_solver)
            shares = np.where(shares > _NO_SHARE, shares, 0.0)
            # Any shares that keep within the costs give a bound.
            shares[p:] /= members[:, p:].T @ np.maximum(members @ shares, 1.0)
            self.shares[:n] = shares
        else:
            self.shares[:n] = self._exact_shares(problem, members)
        weights = self.shares[:n] * unit
        w = -(weights @ self.rows[:n])
        value = float(weights @ self.offsets[:n]) - 0.5 * float(w @ w)
        b = self._intercept(w, near) if self.n_free else near
        self._forget()
        return w, b, value

    def _exact_shares(self, problem: QPProblem, members: np.ndarray) -> np.ndarray:
        n = self.size
        old = self.shares[:n]
        idle = (old <= 0) & (np.arange(n) < n - 1)
        guess = ActiveSet(lower=idle, upper=np.zeros(n, bool), tight=members @ old > 1 - 1e-9)
        solution = solve_qp(problem, tol=self.qp_tol, solver=self.qp_solver, start=guess)
        return np.maximum(solution.x, 0.0)

    def _intercept(self, w: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Minimiser of the model over b alone, the one nearest to ``near``.

        The model is convex and piecewise linear in b: walk downhill from one kink to the next.
        """
        cuts = slice(self.n_hard, self.size)
        weight = np.concatenate([self.costs, self.costs[self.sets[cuts]]])
        sets = np.concatenate([np.arange(len(self.costs)), self.sets[cuts]])
        # Each risk is at least zero: that is its first line.
        height = np.concatenate(
            [np.zeros(len(self.costs)), self.offsets[cuts] + self.rows[cuts] @ w]
        )
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

    def _forget(self) -> None:
        n = self.size
        self.idle[:n] = np.where(self.shares[:n] > 0, 0, self.idle[:n] + 1)
        keep = self.idle[:n] <= self.drop_after
        keep[: self.n_hard] = True
        if keep.all():
            return
        rows = np.flatnonzero(keep)
        m = len(rows)
        self.gram[:m, :m] = self.gram[np.ix_(rows, rows)]
        for name in ("rows", "free", "offsets", "sets", "idle", "shares"):
            array = getattr(self, name)
            array[:m] = array[rows]
        self.size = m
