"""Linear programs with changing rows and columns: a HiGHS model with warm starts.

    min c'x   subject to   lower <= Ax <= upper,  l <= x <= u

Rows and columns have numbers that stay valid when others are removed. The last basis is primal
feasible after new columns and dual feasible after new rows, so the corresponding simplex method
continues from it. Solutions are checked by their optimality conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ...exceptions import SolverError

_FEASIBILITY_TOL = 1e-9
# Results with a larger relative residual or duality gap are rejected, regardless of the status.
_MAX_RESIDUAL = 1e-6
_DUAL_SIMPLEX, _PRIMAL_SIMPLEX = 1, 4


def _highspy() -> Any:
    """The library, imported with the first program; it has no type annotations."""
    import highspy

    return highspy


@cache
def _class_of_models() -> Any:
    """The class of models without output.

    Since HiGHS 1.16 the constructor prints the version, because it enables callbacks.
    """

    class Highs(_highspy().Highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return Highs


@dataclass
class LPResult:
    """Solution of a linear program with the residuals of its optimality conditions."""

    # Values of the columns and multipliers of the rows, by their numbers; zero for removed ones.
    # A row that is tight at its lower bound has a positive multiplier.
    x: np.ndarray
    y: np.ndarray
    # Reduced costs of the columns, by their numbers.
    reduced: np.ndarray
    objective: float
    # Largest violation of a bound, largest reduced cost or multiplier of the wrong sign, and
    # difference of the primal and dual objective.
    primal_residual: float
    dual_residual: float
    dual_gap: float
    # Iterations of the simplex method.
    n_iter: int


class _StableIndex:
    """Stable numbers of the rows or columns of a model, with their bounds."""

    def __init__(self) -> None:
        self.position = np.zeros(0, dtype=np.int64)  # -1 if removed
        self.lower = np.zeros(0)
        self.upper = np.zeros(0)
        self.size = 0

    def extend(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        made = len(self.position) + np.arange(len(lower))
        self.position = np.concatenate([self.position, self.size + np.arange(len(lower))])
        self.lower = np.concatenate([self.lower, lower])
        self.upper = np.concatenate([self.upper, upper])
        self.size += len(lower)
        return made

    def drop(self, numbers: np.ndarray) -> np.ndarray:
        gone = np.sort(self.position[numbers])
        self.position[numbers] = -1
        alive = self.position >= 0
        self.position[alive] -= np.searchsorted(gone, self.position[alive])
        self.size -= len(gone)
        return gone.astype(np.int32)  # positions in the model, which fit

    def spread(self, values: Any) -> np.ndarray:
        alive = self.position >= 0
        out = np.zeros(len(self.position))
        out[alive] = np.asarray(values, dtype=np.float64)[self.position[alive]]
        return out


class LPModel:
    """A linear program to which rows and columns are added and from which they are removed.

    Parameters
    ----------
    max_index : int
        Rows, columns and entries at most; HiGHS counts them in 32 bits.

    Examples
    --------
    >>> from milearn._solvers.common.lp import LPModel
    >>> model = LPModel()
    >>> x = model.add_columns(costs=[1.0, 1.0])
    >>> row = model.add_rows([2.0], starts=[0], columns=x, values=[1.0, 4.0])
    >>> model.solve().objective
    0.5
    """

    def __init__(self, max_index: int = 2**31 - 1) -> None:
        self._library = _highspy()
        self._highs, self.max_index = _class_of_models()(), max_index
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("primal_feasibility_tolerance", _FEASIBILITY_TOL),
            ("dual_feasibility_tolerance", _FEASIBILITY_TOL),
        ):
            self._check(self._highs.setOptionValue(option, value), f"setting {option}")
        self._columns = _StableIndex()
        self._rows = _StableIndex()

    @property
    def n_columns(self) -> int:
        return self._columns.size

    @property
    def n_rows(self) -> int:
        return self._rows.size

    def add_columns(
        self,
        costs: Any,
        lower: Any = 0.0,
        upper: Any = np.inf,
        *,
        starts: Any = None,
        rows: Any = (),
        values: Any = (),
    ) -> np.ndarray:
        """Add columns with entries in existing rows; returns their numbers.

        Column ``k`` has the entries ``starts[k]:starts[k + 1]`` of ``rows`` and ``values``; none
        when ``starts`` is None.
        """
        costs = np.asarray(costs, dtype=np.float64)
        lower, upper = (np.broadcast_to(each, costs.shape).astype(float) for each in (lower, upper))
        if len(costs) == 0:
            return np.zeros(0, dtype=np.int64)
        self._check_size(self.n_columns + len(costs), "columns")
        entries = self._entries(self._rows, starts, rows, values, len(costs))
        status = self._highs.addCols(len(costs), costs, lower, upper, *entries)
        self._check(status, "adding columns")
        return self._columns.extend(lower, upper)

    def add_rows(
        self,
        lower: Any,
        upper: Any = np.inf,
        *,
        starts: Any = None,
        columns: Any = (),
        values: Any = (),
    ) -> np.ndarray:
        """Add rows with entries in existing columns; returns their numbers."""
        lower = np.asarray(lower, dtype=np.float64)
        upper = np.broadcast_to(upper, lower.shape).astype(float)
        if len(lower) == 0:
            return np.zeros(0, dtype=np.int64)
        self._check_size(self.n_rows + len(lower), "rows")
        entries = self._entries(self._columns, starts, columns, values, len(lower))
        status = self._highs.addRows(len(lower), lower, upper, *entries)
        self._check(status, "adding rows")
        return self._rows.extend(lower, upper)

    def _entries(
        self, partners: _StableIndex, starts: Any, numbers: Any, values: Any, n: int
    ) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """Entries of n new rows or columns in the format of HiGHS."""
        starts = np.zeros(n) if starts is None else np.asarray(starts)[:n]
        values = np.asarray(values, dtype=np.float64)
        self._check_size(max(self._highs.getNumNz() + len(values), int(starts.max())), "entries")
        positions = partners.position[np.asarray(numbers, dtype=np.int64)]
        return len(positions), starts.astype(np.int32), positions.astype(np.int32), values

    def _check_size(self, size: int, what: str) -> None:
        if size > self.max_index:
            raise SolverError(
                f"The linear program needs {size} {what}, but HiGHS counts them in 32 bits: limit "
                "the learners, or fit on fewer bags."
            )

    def remove(self, columns: Any = (), rows: Any = ()) -> None:
        """Remove columns that are zero and rows with slack (or columns together with their rows).

        The basis is kept if the remaining basis has as many entries as there are rows.
        """
        highs, basis = self._highs, self._highs.getBasis()
        statuses = [list(basis.col_status), list(basis.row_status)]
        valid = basis.valid
        for side, (numbers, gone, delete) in enumerate(
            ((self._columns, columns, highs.deleteCols), (self._rows, rows, highs.deleteRows))
        ):
            if not len(gone):
                continue
            positions = numbers.drop(np.asarray(gone, dtype=np.int64))
            self._check(delete(len(positions), positions), "removing rows or columns")
            out = set(positions.tolist())
            statuses[side] = [each for k, each in enumerate(statuses[side]) if k not in out]
        basic = self._library.HighsBasisStatus.kBasic
        if valid and sum(each.count(basic) for each in statuses) == self.n_rows:
            basis.col_status, basis.row_status = statuses
            self._check(highs.setBasis(basis), "the basis after a removal")
        else:
            self.clear_basis()

    def basic(self) -> tuple[np.ndarray, np.ndarray]:
        """Which columns and rows are basic, by their numbers."""
        basis, basic = self._highs.getBasis(), self._library.HighsBasisStatus.kBasic
        if not basis.valid:
            raise SolverError("The linear program has no basis: solve it first.")
        columns = self._columns.spread([status == basic for status in basis.col_status]) > 0
        rows = self._rows.spread([status == basic for status in basis.row_status]) > 0
        return columns, rows

    def set_basis(
        self, basic_columns: np.ndarray, upper_columns: np.ndarray, basic_rows: np.ndarray
    ) -> None:
        """Set an estimate of the basis as the start of the next solution.

        If there are fewer or more basic variables than rows, HiGHS completes the basis. This takes
        one more factorisation.

        Parameters
        ----------
        basic_columns, upper_columns : ndarray of bool, shape (n_columns,)
            Basic columns, and nonbasic columns at their upper bound.
        basic_rows : ndarray of bool, shape (n_rows,)
            Rows with slack; the others are at their upper bound.
        """
        status, basis = self._library.HighsBasisStatus, self._library.HighsBasis()
        kinds = np.where(basic_columns, 0, np.where(upper_columns, 1, 2)).tolist()
        basis.col_status = [(status.kBasic, status.kUpper, status.kLower)[kind] for kind in kinds]
        kinds = np.where(basic_rows, 0, 1).tolist()
        basis.row_status = [(status.kBasic, status.kUpper)[kind] for kind in kinds]
        basis.valid = True
        basis.alien = bool(basic_columns.sum() + basic_rows.sum() != self.n_rows)
        self._check(self._highs.setBasis(basis), "an estimate of the basis")

    def clear_basis(self) -> None:
        """Make the next solution start from scratch."""
        self._check(self._highs.clearSolver(), "clearing the basis")

    def solve(self, *, primal: bool = False, time_limit: float = np.inf) -> LPResult | None:
        """Solve from the last basis; None if the time limit is reached first.

        Parameters
        ----------
        primal : bool, default=False
            Use the primal instead of the dual simplex method, for instance after adding columns.
        time_limit : float, default=inf
            Seconds.

        Raises
        ------
        milearn.exceptions.SolverError
            If HiGHS does not find a solution, even from scratch; the message contains its status.
        """
        strategy = _PRIMAL_SIMPLEX if primal else _DUAL_SIMPLEX
        status = self._run(strategy, time_limit)
        if status == self._library.HighsModelStatus.kTimeLimit:
            return None
        result = self._read_result() if status == self._library.HighsModelStatus.kOptimal else None
        if result is None or not self._usable(result):
            # After many changes the basis may be ill-conditioned: solve again without it.
            self.clear_basis()
            status = self._run(_DUAL_SIMPLEX, time_limit)
            if status == self._library.HighsModelStatus.kTimeLimit:
                return None
            result = (
                self._read_result() if status == self._library.HighsModelStatus.kOptimal else None
            )
        if result is None or not self._usable(result):
            name = self._highs.modelStatusToString(status)
            found = (
                "" if result is None else f", relative duality gap {self._relative_gap(result):.1e}"
            )
            raise SolverError(
                f"The linear program of {self.n_columns} columns and {self.n_rows} rows was not "
                f"solved by HiGHS (status: {name}{found}): lower C, or limit the learners."
            )
        return result

    def _run(self, strategy: int, time_limit: float) -> Any:
        highs = self._highs
        self._check(highs.setOptionValue("simplex_strategy", strategy), "setting the strategy")
        # The run time of the model accumulates over all of its solutions.
        limit = float(max(time_limit, 0.0) + highs.getRunTime())
        self._check(highs.setOptionValue("time_limit", limit), "setting the time limit")
        highs.run()
        if highs.getModelStatus() == self._library.HighsModelStatus.kNotset:
            # HiGHS refuses a number of threads after another model of this process had a different
            # one. Zero is the number that it has.
            self._check(highs.setOptionValue("threads", 0), "setting the threads")
            highs.run()
        return highs.getModelStatus()

    def _read_result(self) -> LPResult:
        solution, info = self._highs.getSolution(), self._highs.getInfo()
        columns, rows = self._columns, self._rows
        x = columns.spread(solution.col_value)
        y, reduced = rows.spread(solution.row_dual), columns.spread(solution.col_dual)
        dual, wrong = 0.0, 0.0
        for multipliers, numbers in ((y, rows), (reduced, columns)):
            for side, bound in (
                (np.maximum(multipliers, 0.0), numbers.lower),
                (np.minimum(multipliers, 0.0), numbers.upper),
            ):
                finite = np.isfinite(bound)
                dual += float(side[finite] @ bound[finite])
                wrong = max(wrong, float(np.abs(side[~finite]).max(initial=0.0)))
        objective = float(info.objective_function_value)
        return LPResult(
            x=x,
            y=y,
            reduced=reduced,
            objective=objective,
            primal_residual=float(info.max_primal_infeasibility),
            dual_residual=wrong,
            dual_gap=abs(objective - dual),
            n_iter=int(info.simplex_iteration_count),
        )

    def _relative_gap(self, result: LPResult) -> float:
        return result.dual_gap / max(1.0, abs(result.objective))

    def _usable(self, result: LPResult) -> bool:
        residual = max(result.primal_residual, result.dual_residual, self._relative_gap(result))
        return bool(residual <= _MAX_RESIDUAL)

    def _check(self, status: Any, what: str) -> None:
        if status == self._library.HighsStatus.kError:
            raise SolverError(f"HiGHS refused {what} (status: {status.name}).")
