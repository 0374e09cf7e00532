r"""Groups assigned to folds with the smallest deviation of their counts, as an integer program.

The groups :math:`s` have counts :math:`T_{sj} \ge 0` in the columns :math:`j` (for example bags of
class :math:`j`), with the sums :math:`N_j`. With :math:`n_{fj}` the sum of column :math:`j` over
the groups of fold :math:`f` of :math:`k`, the deviation is

.. math:: \sum_j \frac{w_j}{2 N_j} \sum_f | n_{fj} - N_j / k | .

For one column of weight 1 it is the share of the counts that would have to change fold for equal
folds. The sums over :math:`f` of :math:`n_{fj} - N_j / k` vanish, so that half of the absolute
values is the sum of the excesses :math:`o_{fj} = \max(0, n_{fj} - N_j / k)`. Since :math:`n_{fj}`
is an integer, an excess also satisfies :math:`o_{fj} \ge (1 - r_j / k) (n_{fj} - q_j)` with
:math:`N_j = k q_j + r_j`. These cuts make the relaxation as tight as the division of every column
by itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from ...exceptions import SolverError

__all__ = ["GroupFolds", "InfeasibleFoldsError", "assign_groups", "deviation_of", "division_bound"]

# Deviations that differ by less are equal.
_EQUAL = 1e-9
_INFEASIBLE = 2


class InfeasibleFoldsError(SolverError):
    """No assignment gives every fold each of the required columns."""


@dataclass(frozen=True)
class GroupFolds:
    """An assignment of groups to folds, with a proof of how good it is.

    Attributes
    ----------
    folds : ndarray of shape (n_groups,)
        Fold of each group.
    deviation : float
        Its deviation.
    bound : float
        A lower bound of the deviation of all assignments.
    seconds : float
        Time used, by the clock.
    """

    folds: np.ndarray
    deviation: float
    bound: float
    seconds: float

    @property
    def is_optimal(self) -> bool:
        return self.deviation <= self.bound + _EQUAL


def assign_groups(
    table: np.ndarray,
    weights: np.ndarray,
    n_folds: int,
    *,
    start: np.ndarray | None,
    required: np.ndarray,
    time_limit: float | None,
) -> GroupFolds:
    """The assignment of groups to folds with the smallest deviation.

    Single groups are moved and pairs exchanged until neither lowers the deviation of ``start``. If
    the result does not attain the bound of :func:`division_bound`, the integer program is solved by
    the branch and bound method of HiGHS.

    Parameters
    ----------
    table : ndarray of int of shape (n_groups, n_columns)
        Counts, with a positive sum in every column.
    weights : ndarray of shape (n_columns,)
        Nonnegative weights of the columns.
    n_folds : int
    start : ndarray of shape (n_groups,) or None
        Fold of each group in a feasible assignment.
    required : ndarray of bool of shape (n_columns,)
        Columns of which every fold needs a positive sum.
    time_limit : float or None
        Seconds for the integer program.

    Returns
    -------
    GroupFolds

    Raises
    ------
    InfeasibleFoldsError
        If there is no feasible assignment.
    SolverError
        If none was found in time and there is no start.
    """
    begin = time.perf_counter()
    bound = division_bound(table, weights, n_folds)
    folds, deviation = None, np.inf
    if start is not None:
        folds = _exchanged(table, weights, n_folds, start, required)
        deviation = deviation_of(table, weights, n_folds, folds)
    if folds is None or deviation > bound + _EQUAL:
        found, proved = _branch_and_bound(table, weights, n_folds, required, time_limit)
        bound = max(bound, proved)
        if found is not None:
            better = deviation_of(table, weights, n_folds, found)
            if better < deviation:
                folds, deviation = found, better
    if folds is None:
        raise SolverError(f"No assignment to folds was found within {time_limit} s.")
    return GroupFolds(folds, deviation, min(bound, deviation), time.perf_counter() - begin)


def deviation_of(table: np.ndarray, weights: np.ndarray, n_folds: int, folds: np.ndarray) -> float:
    """The deviation of an assignment."""
    counts = np.zeros((n_folds, table.shape[1]))
    np.add.at(counts, folds, table)
    totals = table.sum(axis=0)
    return float((np.abs(counts - totals / n_folds) @ (weights / (2 * totals))).sum())


def division_bound(table: np.ndarray, weights: np.ndarray, n_folds: int) -> float:
    """The deviation if every column were divided by itself, into sums that differ by at most 1."""
    totals = table.sum(axis=0)
    rest = totals % n_folds
    return float((weights / totals) @ (rest * (n_folds - rest) / n_folds))


def _exchanged(
    table: np.ndarray, weights: np.ndarray, n_folds: int, start: np.ndarray, required: np.ndarray
) -> np.ndarray:
    """The assignment after moves and exchanges, each of which lowers the deviation."""
    n_groups = len(table)
    totals = table.sum(axis=0)
    scale, target = weights / (2 * totals), totals / n_folds
    folds = start.copy()
    counts = np.zeros((n_folds, table.shape[1]))
    np.add.at(counts, folds, table)
    # The last rows are moves: partners without counts, one for each fold.
    partners = np.vstack([table, np.zeros((n_folds, table.shape[1]), dtype=table.dtype)])
    failures, group = 0, 0
    while failures < n_groups:
        here = folds[group]
        there = np.concatenate([folds, np.arange(n_folds)])
        moved = table[group] - partners
        left, right = counts[here] - moved, counts[there] + moved
        before = np.abs(counts - target) @ scale
        gain = before[here] + before[there]
        gain -= np.abs(left - target) @ scale + np.abs(right - target) @ scale
        allowed = (there != here) & ((left > 0) & (right > 0) | ~required).all(axis=1)
        gain[~allowed] = -np.inf
        best = int(np.argmax(gain))
        if gain[best] > _EQUAL:
            counts[here], counts[there[best]] = left[best], right[best]
            folds[group] = there[best]
            if best < n_groups:
                folds[best] = here
            failures = 0
        else:
            failures += 1
        group = (group + 1) % n_groups
    return folds


def _branch_and_bound(
    table: np.ndarray,
    weights: np.ndarray,
    n_folds: int,
    required: np.ndarray,
    time_limit: float | None,
) -> tuple[np.ndarray | None, float]:
    """The best assignment of the integer program, None if there is none yet, and its bound."""
    n_groups, n_columns = table.shape
    totals = table.sum(axis=0)
    # Group s is in fold f: variable s * n_folds + f. The excesses follow, column by column.
    n_members = n_groups * n_folds
    n_excesses = n_columns * n_folds
    cost = np.concatenate([np.zeros(n_members), np.repeat(weights / totals, n_folds)])
    upper = np.ones((n_groups, n_folds))
    # Folds can be numbered by their largest group, so group i in this order is in folds 0 to i.
    order = np.argsort(-(table / totals) @ weights, kind="stable")
    upper[order[:n_folds]] = np.tri(n_folds)[: len(order)]
    one_fold = sparse.kron(sparse.eye_array(n_groups), np.ones((1, n_folds)))
    sums = sparse.kron(table.T, sparse.eye_array(n_folds), format="csr")
    excesses = sparse.eye_array(n_excesses)
    quotient, rest = np.divmod(totals, n_folds)
    slope = np.repeat(1 - rest / n_folds, n_folds)
    constraints = [
        LinearConstraint(_padded(one_fold, n_excesses), 1, 1),
        LinearConstraint(
            sparse.hstack([-sums, excesses], format="csr"), -np.repeat(totals / n_folds, n_folds)
        ),
        LinearConstraint(
            sparse.hstack([-(sparse.diags_array(slope) @ sums), excesses], format="csr"),
            -slope * np.repeat(quotient, n_folds),
        ),
    ]
    if required.any():
        needed = np.flatnonzero(np.repeat(required, n_folds))
        constraints.append(LinearConstraint(_padded(sums[needed], n_excesses), 1))
    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if time_limit is not None:
        options["time_limit"] = float(time_limit)
    found = milp(
        cost,
        integrality=np.concatenate([np.ones(n_members), np.zeros(n_excesses)]),
        bounds=Bounds(0, np.concatenate([upper.ravel(), np.full(n_excesses, np.inf)])),
        constraints=constraints,
        options=options,
    )
    if found.status == _INFEASIBLE:
        raise InfeasibleFoldsError("No assignment gives every fold each of the required columns.")
    bound = getattr(found, "mip_dual_bound", None)
    bound = -np.inf if bound is None else float(bound)
    if found.x is None:
        return None, bound
    return found.x[:n_members].reshape(n_groups, n_folds).argmax(axis=1), bound


def _padded(matrix: Any, n_excesses: int) -> Any:
    """A constraint matrix of the assignment with columns of zeros for the excesses."""
    return sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], n_excesses))], format="csr")
