"""Earth mover's distances between bags, whose instances have equal weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment

from .._bags.segments import bag_ranges
from .memory import require_memory
from .pairs import Side, block_shape, squares

# Maximum number of pivots of the network simplex, far more than bags of thousands need.
_MAX_PIVOTS = 10_000_000


def require_pot() -> Any:
    """The module ``ot`` of POT.

    Raises
    ------
    ImportError
        If POT is not installed.
    """
    try:
        import ot
    except ImportError as error:
        raise ImportError(
            "The earth mover's distance is computed by POT, which is not installed: "
            "pip install 'milearn[emd]'."
        ) from error
    return ot


def earth_movers(
    rows: Side, columns: Side, *, symmetric: bool, n_jobs: int | None = None
) -> np.ndarray:
    r"""Smallest mean distance over which the instances of one bag can be moved onto the other.

    .. math::

        \min_{F \ge 0} \sum_{ij} F_{ij} \|a_i - b_j\|
        \quad \text{s.t.} \quad \sum_j F_{ij} = 1 / n_A, \; \sum_i F_{ij} = 1 / n_B.

    Parameters
    ----------
    rows, columns : Side
    symmetric : bool
        Whether both sides are the same bags, whose diagonal is then exactly zero.
    n_jobs : int, default=None
        Number of threads; the solver releases the GIL.

    Returns
    -------
    ndarray of shape (n_left_bags, n_right_bags)
    """
    ot = require_pot()
    limits = block_shape()
    largest = [
        max(limit, int(np.diff(side.offsets).max()))
        for side, limit in zip((rows, columns), limits, strict=True)
    ]
    # Costs as squares and as roots, the copy of the solver, and its flow.
    require_memory(
        32.0 * largest[0] * largest[1],
        f"The earth mover's distance between bags of up to {largest[0]} and {largest[1]} instances",
        "draw some instances of large bags, as max_instances= of bag_distances does",
    )
    out = np.zeros((len(rows.offsets) - 1, len(columns.offsets) - 1))
    others = list(bag_ranges(columns.offsets, limits[1]))

    def strip(group: tuple[int, int]) -> None:
        for other in others:
            if symmetric and other[1] <= group[0]:
                continue
            top, left = int(rows.offsets[group[0]]), int(columns.offsets[other[0]])
            of = slice(top, int(rows.offsets[group[1]]))
            to = slice(left, int(columns.offsets[other[1]]))
            costs = np.sqrt(squares(rows, columns, of, to))
            for i in range(*group):
                own = costs[rows.offsets[i] - top : rows.offsets[i + 1] - top]
                for j in range(max(other[0], i + 1) if symmetric else other[0], other[1]):
                    begin, end = columns.offsets[j] - left, columns.offsets[j + 1] - left
                    out[i, j] = _transport(ot, own[:, begin:end])

    Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(
        delayed(strip)(group) for group in bag_ranges(rows.offsets, limits[0])
    )
    if symmetric:
        out += out.T
    return out


def _transport(ot: Any, costs: np.ndarray) -> float:
    """Cost of moving equal weights of the rows onto equal weights of the columns."""
    n_left, n_right = costs.shape
    if n_left == 1 or n_right == 1:
        return float(costs.mean())
    if n_left == n_right and n_left <= 64:
        # A permutation is optimal, and computing it is three times as fast for small bags.
        return float(costs[linear_sum_assignment(costs)].mean())
    # The tolerances of the solver are absolute. A power of two changes no digit.
    exponent = int(np.frexp(costs.max())[1])
    # The dual variables, which centring would concern, are not used.
    cost = ot.emd2(
        np.full(n_left, 1.0 / n_left),
        np.full(n_right, 1.0 / n_right),
        np.ldexp(costs, -exponent, dtype=np.float64),
        numItermax=_MAX_PIVOTS,
        center_dual=False,
        check_marginals=False,
    )
    return float(np.ldexp(cost, exponent))
