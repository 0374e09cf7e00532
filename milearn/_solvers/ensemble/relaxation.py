"""The relaxation of a disjunctive program by parallel reductions: a linear program that grows.

The relaxation (6) of a program (5), see :mod:`.problem`, contains for each bag the hull of a union
over x in X_i: the sets where the constraint of x and every constraint j hold. It is the linear
program (7) in copies of alpha for every x, alpha_k = sum_x alpha_k^x. Most of the rows and columns
of (7) are not needed, and are generated only when they are:

* A bag starts as one disjunct with all its points. Its hull without the reductions (x, j) is the
  row sum_k alpha_k max over x in X_i of h_k(x) + xi_i >= 1, which needs no copies. If reductions
  are violated that the disjunct as a whole cannot satisfy, a point is split off into a new disjunct
  with copies. Both are hulls of unions of the same sets.
* A copy has a column only if it has a negative reduced cost. A learner has one home disjunct per
  bag, to which alpha_k belongs except for the part that columns t_k^d >= 0 move to other disjuncts,
  sum_d t_k^d <= alpha_k. Slacks xi_j are divided in the same manner. The final value is that of
  (7).
* A constraint j has a row only if it is nearly active in an interior solution or violated by a
  later solution (sifting). Most constraints of a large program are inactive, and each of their
  entries makes every step of the simplex method slower.

This module contains the state of the program. :mod:`.relaxation_columns` adds and removes learners
and copies, and :mod:`.relaxation_rows` adds reductions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..common.lp import LPResult
from .dual_program import DualProgram
from .learners import WeakLearner
from .problem import DisjunctiveProblem

# Weights and dual variables up to this count as zero.
ZERO_TOL = 1e-11
# Largest violation of constraints without a row, which is the tolerance of the simplex method.
_VIOLATION_TOL = 1e-9
# Number of constraints that are added at once, in addition to the number of learners.
_ROWS_AT_A_TIME = 50


@dataclass
class Disjunct:
    """Points of a bag whose constraints hold as a union, with the rows and columns of its hull."""

    # Points.
    members: np.ndarray
    # Columns of its weight in the hull of the bag, and of its part of the slack of the bag.
    eta: int
    slack: int
    # Row of each margin constraint, and the members at the time when it was added.
    margins: list[tuple[np.ndarray, int]] = field(default_factory=list)
    # Row of the reduction by each constraint j.
    reductions: dict[int, int] = field(default_factory=dict)

    def entries(
        self, problem: DisjunctiveProblem, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows that contain learners, and their coefficients (n_learners, n_rows)."""
        j = np.fromiter(self.reductions, dtype=np.intp, count=len(self.reductions))
        rows = [row for _, row in self.margins] + list(self.reductions.values())
        values = [columns[:, block].max(axis=1)[:, None] for block, _ in self.margins]
        values.append(problem.signed(columns, j))
        return np.array(rows, dtype=np.int64), np.concatenate(values, axis=1, dtype=np.float64)


@dataclass
class BagHull:
    """The hull of one bag: a single row, until reductions split it into disjuncts."""

    # Points.
    members: np.ndarray
    # Row and slack column of the bag as a whole.
    row: int
    slack: int
    # Empty as long as the bag has no copies.
    disjuncts: list[Disjunct] = field(default_factory=list)
    # Rows of the sum of eta, which is one, and of the sum of slacks, which is that of the bag.
    convexity_row: int = -1
    slack_row: int = -1
    # For each learner, the place of the disjunct to which alpha_k belongs.
    home_disjunct: list[int] = field(default_factory=list)
    # For each learner, the row sum_d t_k^d <= alpha_k; -1 if there is none.
    link_rows: list[int] = field(default_factory=list)
    # For each learner, the column t_k^d by the place of d.
    copy_columns: list[dict[int, int]] = field(default_factory=list)
    # For each constraint j with a reduction, the row of its first reduction, whose slack is xi_j,
    # and the row for the slacks of other disjuncts; -1 if there is none.
    shared_slacks: dict[int, list[int]] = field(default_factory=dict)

    def add_learner(self, home: int) -> None:
        """Add a learner without copies."""
        self.home_disjunct.append(home)
        self.link_rows.append(-1)
        self.copy_columns.append({})

    def keep_learners(self, kept: list[int]) -> None:
        """Remove all other learners."""
        self.home_disjunct = [self.home_disjunct[k] for k in kept]
        self.link_rows = [self.link_rows[k] for k in kept]
        self.copy_columns = [self.copy_columns[k] for k in kept]

    def alpha_terms(
        self, place: int, alpha_columns: list[int], values: np.ndarray
    ) -> tuple[list[int], list[float]]:
        """Columns and coefficients of sum_k values_k alpha_k^d for the disjunct d at a place."""
        columns: list[int] = []
        coefficients: list[float] = []
        for k, value in enumerate(values.tolist()):
            copies = self.copy_columns[k]
            if self.home_disjunct[k] == place:
                columns.append(alpha_columns[k])
                coefficients.append(value)
                columns += copies.values()
                coefficients += [-value] * len(copies)
            elif place in copies:
                columns.append(copies[place])
                coefficients.append(value)
        return columns, coefficients

    def alpha_copies(self, place: int, alpha_columns: list[int], x: np.ndarray) -> np.ndarray:
        """alpha_k^d in a solution x for the disjunct d at a place, shape (n_learners,)."""
        out = np.zeros(len(alpha_columns))
        for k, column in enumerate(alpha_columns):
            copies = self.copy_columns[k]
            if self.home_disjunct[k] == place:
                out[k] = x[column] - sum(x[each] for each in copies.values())
            elif place in copies:
                out[k] = x[copies[place]]
        return np.maximum(0.0, out)


class Relaxation:
    """The relaxation (6) of a disjunctive program, grown by learners and by reductions.

    Parameters
    ----------
    problem : DisjunctiveProblem
    constraints : ndarray of int, default=None
        The constraints with a sign that have a row from the start; by default, all.

    Attributes
    ----------
    learners : list of WeakLearner
        The learners in the program, in the order of ``H``.
    H : ndarray of shape (n_learners, n_points), int8
    model : DualProgram
    alpha_columns : list of int
        Column of each learner's weight.
    slack_columns, margin_rows : ndarray of shape (r,)
        Slack and row of each constraint with a sign; -1 if it has none.
    bags : list of BagHull
        The ambiguous bags.
    rows_changed : bool
        Whether rows were added after the last solution, which is then not primal feasible.
    """

    def __init__(self, problem: DisjunctiveProblem, constraints: np.ndarray | None = None) -> None:
        self.problem = problem
        self.learners: list[WeakLearner] = []
        self.H = np.zeros((0, problem.n_points), dtype=np.int8)
        self.model = DualProgram()
        self.alpha_columns: list[int] = []
        self.rows_changed = False
        self._result: LPResult | None = None
        self._scores: np.ndarray | None = None
        self.margin_rows = np.full(len(problem.points), -1, dtype=np.int64)
        self.slack_columns = self.margin_rows.copy()
        self.include(np.arange(len(problem.points)) if constraints is None else constraints)
        rows, slacks = self.model.add_soft_rows(np.ones(len(problem.members)), problem.member_costs)
        self.bags = [
            BagHull(block, int(row), int(slack))
            for block, row, slack in zip(problem.members, rows, slacks, strict=True)
        ]

    def include(self, constraints: np.ndarray) -> None:
        """Add rows, with their slacks, for constraints with a sign."""
        problem = self.problem
        rows, slacks = self.model.add_soft_rows(
            np.ones(len(constraints)),
            problem.costs[constraints],
            self.alpha_columns,
            problem.signed(self.H, constraints).T,
        )
        self.margin_rows[constraints], self.slack_columns[constraints] = rows, slacks

    def solve(self, remaining: Callable[[], float] = lambda: np.inf) -> bool:
        """Solve the program, and return False if the time limit was reached."""
        while True:
            result = self.model.solve(rows_changed=self.rows_changed, time_limit=remaining())
            if result is None:
                self._pad()
                return False
            self._result = result
            self._scores = None
            self.rows_changed = False
            missing = self._violated()
            if not len(missing):
                return True
            self.include(missing)
            self.rows_changed = True

    def _violated(self) -> np.ndarray:
        """The most violated constraints without a row."""
        absent = np.flatnonzero(self.margin_rows < 0)
        if not len(absent):
            return absent
        problem = self.problem
        lacking = 1.0 - problem.signs[absent] * self.scores[problem.points[absent]]
        order = np.argsort(-lacking, kind="stable")[: _ROWS_AT_A_TIME + len(self.learners)]
        return np.asarray(absent[order[lacking[order] > _VIOLATION_TOL]])

    def adopt(
        self,
        alpha: np.ndarray,
        y: np.ndarray,
        used: np.ndarray,
        free: np.ndarray,
        slack: np.ndarray,
    ) -> None:
        """Set weights of the learners as the current solution, and an estimate of the basis.

        All rows must be those of points or of bags without disjuncts.

        Parameters
        ----------
        alpha : ndarray of shape (n_learners,)
        y : ndarray of shape (r + n_bags,)
            Multipliers of the constraints and of the bags.
        used : ndarray of bool, shape (n_learners,)
            Mask of learners with a weight above zero.
        free, slack : ndarray of bool, shape (r + n_bags,)
            Masks of rows with a multiplier between its bounds, and of rows with a slack above zero.
        """
        x, _ = self.model.zero_solution()
        x[self.alpha_columns] = alpha
        there = np.flatnonzero(np.r_[self.margin_rows, [bag.row for bag in self.bags]] >= 0)
        y, free, slack = y[there], free[there], slack[there]
        columns = np.zeros(len(x), dtype=bool)
        columns[self.alpha_columns] = used
        self.model.set_basis(columns, free, slack)
        scores = alpha @ self.H
        problem = self.problem
        lacking = np.maximum(0.0, 1.0 - problem.signs * scores[problem.points])
        with_slack = self.slack_columns >= 0
        x[self.slack_columns[with_slack]] = lacking[with_slack]
        for bag in self.bags:
            x[bag.slack] = max(0.0, 1.0 - float(alpha @ self.H[:, bag.members].max(axis=1)))
        slacks = problem.costs @ lacking
        slacks += problem.member_costs @ x[[bag.slack for bag in self.bags]]
        value = float(alpha.sum() + slacks)
        gap = abs(value - float(y.sum()))
        self._result, self._scores = LPResult(x, y, np.zeros(0), value, 0.0, 0.0, gap, 0), scores

    def _pad(self) -> None:
        # The last solution is still feasible for the columns, with zeros for new variables.
        if self._result is not None:
            x, y = self.model.zero_solution()
            x[: len(self._result.x)] = self._result.x
            y[: len(self._result.y)] = self._result.y
            self._result = replace(self._result, x=x, y=y)

    @property
    def result(self) -> LPResult:
        """The last solution."""
        if self._result is None:
            raise RuntimeError("The relaxation has not been solved.")
        return self._result

    @property
    def value(self) -> float:
        """Value of the current program."""
        return self.result.objective

    @property
    def alpha(self) -> np.ndarray:
        """Weights of the learners, shape (n_learners,)."""
        alpha: np.ndarray = np.maximum(0.0, self.result.x[self.alpha_columns])
        return alpha

    @property
    def scores(self) -> np.ndarray:
        """F of every point."""
        if self._scores is None:
            alpha = self.alpha
            used = np.flatnonzero(alpha)
            self._scores = alpha[used] @ self.H[used]
        return self._scores

    def margin_multipliers(self, y: np.ndarray) -> np.ndarray:
        """Multipliers of the constraints, shape (r,), from multipliers by row number."""
        return _spread(y, self.margin_rows)

    @property
    def margin_slacks(self) -> np.ndarray:
        """Slacks of the constraints with a sign, shape (r,)."""
        return _spread(self.result.x, self.slack_columns)

    @property
    def n_reductions(self) -> int:
        """Number of pairs (x, j) in the program."""
        return sum(len(each.reductions) for bag in self.bags for each in bag.disjuncts)

    @property
    def n_active_reductions(self) -> int:
        """Number of reductions with a dual variable above zero."""
        y = self.result.y
        return sum(
            bool(y[row] > ZERO_TOL)
            for bag in self.bags
            for each in bag.disjuncts
            for row in each.reductions.values()
        )

    @property
    def n_active_margins(self) -> int:
        """Number of margin constraints with a dual variable above zero."""
        y = self.result.y
        count = int((self.margin_multipliers(y) > ZERO_TOL).sum())
        for bag in self.bags:
            rows = [bag.row] + [row for each in bag.disjuncts for _, row in each.margins]
            count += int((y[rows] > ZERO_TOL).sum())
        return count


def _spread(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """``values[numbers]``, with zero for negative numbers."""
    out = np.zeros(len(numbers))
    there = numbers >= 0
    out[there] = values[numbers[there]]
    return out
