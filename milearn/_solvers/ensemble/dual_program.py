"""Linear programs with many rows and few columns, stored as their duals.

    min c'x   subject to   Ax >= b (some rows with equality),  x >= 0,

is solved by HiGHS as

    max b'y   subject to   A'y <= c,   y >= 0 (free for equations).

A program of boosting has a row and a slack for every instance, and a column for each of a few
hundred learners. The size of its basis is the number of instances, and every change of a slack is a
step of the simplex method. In the dual a slack is an upper bound on y. The size of the basis is the
number of learners, and the dual simplex method, which handles new learners, passes many bounds in
one step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.lp import LPModel, LPResult


class DualProgram:
    """A linear program in x >= 0 with variable rows and columns, solved by its dual.

    Rows and columns are those of the program in x; their numbers do not change. In results ``x``
    are the values of columns and ``y`` the multipliers of rows.

    Attributes
    ----------
    dual : LPModel
        The dual, with a column for each row and a row for each column that is not only a bound.
    """

    def __init__(self) -> None:
        self.dual = LPModel()
        # For each column its row of the dual, and the dual variable that it bounds; -1 for none.
        self._row = np.zeros(0, dtype=np.int64)
        self._bounds = np.zeros(0, dtype=np.int64)
        self._costs = np.zeros(0)
        self._n_rows = 0

    def add_soft_rows(self, costs: np.ndarray) -> None:
        """Add rows ``xi >= 1`` with slacks xi and their costs, to an empty program.

        A row and its slack have the same number.
        """
        rows = self.dual.add_columns(-np.ones(len(costs)), 0.0, costs)
        self._n_rows += len(rows)
        self._extend(np.full(len(rows), -1), rows, costs)

    def add_rows(
        self,
        lower: Any,
        *,
        equal: bool = False,
        starts: Any = None,
        columns: Any = (),
        values: Any = (),
    ) -> np.ndarray:
        """Add rows ``Ax >= lower`` or ``Ax = lower`` on existing columns, and return numbers."""
        columns = np.asarray(columns, dtype=np.int64)
        self._write_out(columns)
        least = -np.inf if equal else 0.0
        costs = -np.asarray(lower, dtype=np.float64)
        rows = self.dual.add_columns(
            costs, least, starts=starts, rows=self._row[columns], values=values
        )
        self._n_rows += len(rows)
        return rows

    def add_columns(
        self, costs: Any, *, starts: Any = None, rows: Any = (), values: Any = ()
    ) -> np.ndarray:
        """Add columns x >= 0 with entries in existing rows, and return their numbers."""
        costs = np.asarray(costs, dtype=np.float64)
        made = self.dual.add_rows(
            np.full(len(costs), -np.inf), costs, starts=starts, columns=rows, values=values
        )
        return self._extend(made, np.full(len(made), -1), costs)

    def _extend(self, rows: np.ndarray, bounds: np.ndarray, costs: np.ndarray) -> np.ndarray:
        numbers = len(self._row) + np.arange(len(rows))
        self._row = np.concatenate([self._row, rows])
        self._bounds = np.concatenate([self._bounds, bounds])
        self._costs = np.concatenate([self._costs, costs])
        return numbers

    def _write_out(self, columns: np.ndarray) -> None:
        """Add rows of the dual for slacks that are only bounds, because they get more entries.

        The bound remains as an additional slack with the same cost. This does not change the
        program, because further entries only increase the use of the slack.
        """
        slacks = np.unique(columns[self._row[columns] < 0])
        if len(slacks):
            self._row[slacks] = self.dual.add_rows(
                np.full(len(slacks), -np.inf),
                self._costs[slacks],
                starts=np.arange(len(slacks)),
                columns=self._bounds[slacks],
                values=np.ones(len(slacks)),
            )

    def remove(self, columns: Any, rows: Any) -> None:
        """Remove columns that are not slacks, and rows.

        The basis is kept if as many basic variables are removed as columns, see :meth:`basic`.
        """
        columns = np.asarray(columns, dtype=np.int64)
        self.dual.remove(rows, self._row[columns])
        self._row[columns] = -1

    def basic(self) -> tuple[np.ndarray, np.ndarray]:
        """Masks of the basic dual variables, of columns (their reduced costs) and of rows."""
        variables, constraints = self.dual.basic()
        written = self._row >= 0
        columns = np.zeros(len(self._row), dtype=bool)
        columns[written] = constraints[self._row[written]]
        return columns, variables

    def set_basis(self, columns: np.ndarray, rows: np.ndarray, slacks: np.ndarray) -> None:
        """Set the basis by the columns and slacks that are expected to be above zero.

        Every slack must belong to one row, and no row or column may have been removed.

        Parameters
        ----------
        columns : ndarray of bool, shape (n_columns,)
            Mask of columns; entries of slacks are ignored.
        rows : ndarray of bool, shape (n_rows,)
            Rows that are active without a slack: with a multiplier between its bounds.
        slacks : ndarray of bool, shape (n_rows,)
            Rows with a slack above zero.
        """
        written = self._row >= 0
        idle = np.zeros(int(written.sum()), dtype=bool)
        idle[self._row[written]] = ~columns[written]
        self.dual.set_basis(rows, slacks, idle)

    def zero_solution(self) -> tuple[np.ndarray, np.ndarray]:
        """Zeros of the shapes of ``x`` and ``y`` of a solution."""
        return np.zeros(len(self._row)), np.zeros(self._n_rows)

    def solve(self, *, rows_changed: bool = False, time_limit: float = np.inf) -> LPResult | None:
        """Solve from the last basis; None if the time limit is reached.

        Parameters
        ----------
        rows_changed : bool, default=False
            Whether rows were added. The last basis is then feasible for the dual program and the
            primal simplex method is used, otherwise the dual simplex method.
        time_limit : float, default=inf
            Seconds.
        """
        found = self.dual.solve(primal=rows_changed, time_limit=time_limit)
        if found is None:
            return None
        x = np.zeros(len(self._row))
        written = self._row >= 0
        x[written] = np.maximum(0.0, -found.y[self._row[written]])
        bounded = self._bounds >= 0
        # The multiplier of a bound is the part of the slack that only its own row uses.
        x[bounded] += np.maximum(0.0, -found.reduced[self._bounds[bounded]])
        return LPResult(
            x=x,
            y=found.x,
            reduced=np.zeros(0),
            objective=-found.objective,
            primal_residual=found.dual_residual,
            dual_residual=found.primal_residual,
            dual_gap=found.dual_gap,
            n_iter=found.n_iter,
        )
