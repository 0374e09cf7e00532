"""The three matrix inequalities of Guo (2009), handed to a conic solver as they are.

The oracle of :func:`milearn._solvers.svm.selection_relaxation.solve_relaxation`, which finds the
same value from a quadratic program. With Q = K o yy', costs c, v = e + m - l + t y:

    min  d
    s.t. [ Q            v                                        ]
         [ v'   2d - g + h + c_pos'e_pos - 2 c_neg'l_neg         ]  >= 0
         [ I   sqrt(c)(l_pos + eta) ]        [ I   sqrt(c) l_pos ]
         [ .          g             ] >= 0,  [ .         h       ]  >= 0
         m, l, eta >= 0,  l_pos <= s,  h <= s c_pos'l_pos,  sums of eta over bags = 1 or >= 1

What the paper leaves out is the last line's bound on l and h. Where Q is singular, the first
inequality holds only for v in its range and has no interior; it is then stated within the range
of Q, and v is held there by equations, which changes nothing but makes it solvable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from milearn._solvers.svm.selection_relaxation import RelaxationProblem


@dataclass
class ConicSolution:
    """Value, gap, and scores of the instances in the order in which they were given."""

    value: float
    gap: float
    scores: np.ndarray


def solve_three_cones(problem: RelaxationProblem, *, tol: float = 1e-8) -> ConicSolution:
    """Solve the semidefinite program; its cost grows with the sixth power of the instances."""
    n = len(problem.rows)
    state = _Program(problem)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, tol)
    A, b, sizes = state.stacked()
    cones = [
        clarabel.ZeroConeT(sizes[0]),
        clarabel.NonnegativeConeT(sizes[1]),
        *(clarabel.PSDTriangleConeT(size) for size in sizes[2:]),
    ]
    q = np.zeros(state.width)
    q[state.delta] = 1.0
    empty = sparse.csc_matrix((state.width, state.width))
    solution = clarabel.DefaultSolver(empty, q, A, b, cones, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved")
    x = np.asarray(solution.x)
    shift = x[state.shift]
    v = 1.0 + x[state.surplus] - x[state.slacks] + shift * problem.signs
    scores = np.empty(n)
    scores[problem.rows] = problem.signs * v - shift
    gap = float(abs(solution.obj_val - solution.obj_val_dual))
    return ConicSolution(float(solution.obj_val), gap, scores)


class _Program:
    """Rows of A and b with b - A x in the cones, in the order in which the cones are named."""

    def __init__(self, problem: RelaxationProblem) -> None:
        n, p = len(problem.rows), problem.n_positive
        self.problem = problem
        self.delta, self.g, self.h, self.shift = range(4)
        self.surplus = slice(4, 4 + n)
        self.slacks = slice(4 + n, 4 + 2 * n)
        self.eta = slice(4 + 2 * n, 4 + 2 * n + p)
        self.width = 4 + 2 * n + p

    def _row_block(self, **parts: Any) -> sparse.csr_array:
        """Rows that are zero but for the named variables."""
        height = max(np.atleast_2d(part).shape[0] for part in parts.values())
        block = np.zeros((height, self.width))
        for name, part in parts.items():
            place = getattr(self, name)
            if isinstance(place, slice):
                block[:, place] = part
            else:
                block[:, place] = np.ravel(part)
        return sparse.csr_array(block)

    def stacked(self) -> tuple[sparse.csc_matrix, np.ndarray, list[int]]:
        """A, b and the sizes of the cones."""
        problem = self.problem
        n, p = len(problem.rows), problem.n_positive
        c, s = problem.costs, problem.slack_bound
        signed = problem.features * problem.signs[:, None]
        values, vectors = np.linalg.eigh(signed @ signed.T)
        inside = values > 1e-11 * values[-1]
        null, basis = vectors[:, ~inside], vectors[:, inside]
        n_bags = len(problem.bag_offsets) - 1
        members = np.zeros((n_bags, p))
        members[np.repeat(np.arange(n_bags), np.diff(problem.bag_offsets)), np.arange(p)] = 1.0

        def along(directions: np.ndarray) -> dict[str, np.ndarray]:
            """Coefficients of directions'v; its constant is directions'e."""
            return {
                "surplus": directions.T,
                "slacks": -directions.T,
                "shift": directions.T @ problem.signs,
            }

        bag_rows = self._row_block(eta=members)
        first_p = np.eye(n)[:p]
        zero = [(self._row_block(**along(null)), -null.sum(axis=0))] if null.shape[1] else []
        positive = [
            (-self._row_block(surplus=np.eye(n)), np.zeros(n)),
            (-self._row_block(slacks=np.eye(n)), np.zeros(n)),
            (-self._row_block(eta=np.eye(p)), np.zeros(p)),
            (self._row_block(slacks=first_p), np.full(p, s)),
            (self._row_block(h=1.0, slacks=np.append(-s * c[:p], np.zeros(n - p))), np.zeros(1)),
        ]
        if problem.exactly_one:
            zero.append((bag_rows, np.ones(n_bags)))
        else:
            positive.append((-bag_rows, -np.ones(n_bags)))
        root = np.sqrt(c[:p])
        corner = self._row_block(
            delta=2.0,
            g=-1.0,
            h=1.0,
            eta=c[:p],
            slacks=np.append(np.zeros(p), -2.0 * c[p:]),
        )
        cones = [
            _bordered(values[inside], basis.sum(axis=0), self._row_block(**along(basis)), corner),
            _bordered(
                np.ones(p),
                np.zeros(p),
                self._row_block(slacks=root[:, None] * first_p, eta=np.diag(root)),
                self._row_block(g=1.0),
            ),
            _bordered(
                np.ones(p),
                np.zeros(p),
                self._row_block(slacks=root[:, None] * first_p),
                self._row_block(h=1.0),
            ),
        ]
        parts = [*zero, *positive, *((block, constant) for block, constant, _ in cones)]
        A = sparse.vstack([block for block, _ in parts])
        b = np.concatenate([constant for _, constant in parts])
        sizes = [
            sum(len(constant) for _, constant in zero),
            sum(len(constant) for _, constant in positive),
            *(size for _, _, size in cones),
        ]
        return sparse.csc_matrix(A), b, sizes


def _bordered(
    diagonal: np.ndarray, constant: np.ndarray, border: Any, corner: Any
) -> tuple[Any, np.ndarray, int]:
    """The matrix [diag, constant + border x; ., corner x] as rows of A and b, upper triangle."""
    k = len(diagonal)
    height = (k + 1) * (k + 2) // 2
    b = np.zeros(height)
    index = np.arange(k)
    b[index * (index + 3) // 2] = diagonal
    last = k * (k + 1) // 2
    # Off the diagonal the cone counts entries times sqrt(2), so that inner products agree.
    b[last : last + k] = np.sqrt(2.0) * constant
    place = sparse.csr_array(
        (np.append(np.full(k, -np.sqrt(2.0)), -1.0), (last + np.arange(k + 1), np.arange(k + 1))),
        shape=(height, k + 1),
    )
    return place @ sparse.vstack([border, corner], format="csr"), b, k + 1
