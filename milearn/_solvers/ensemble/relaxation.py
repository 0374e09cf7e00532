"""The relaxation of a disjunctive program by parallel reductions.

The relaxation (6) of a program (5), see :mod:`.problem`, contains for each bag the hull of a union
over x in X_i: the sets where the constraint of x and every constraint j hold. It is the linear
program (7) in copies of alpha for every x. Most of it is not needed:

* A bag starts as one disjunct with all its points. Its hull without the reductions (x, j) is the
  row sum_k alpha_k max over x in X_i of h_k(x) + xi_i >= 1, which needs no copies. If reductions
  are violated that the disjunct as a whole cannot satisfy, a point is split off into a disjunct of
  its own. Both are hulls of unions of the same sets.
* With multipliers u of margins and z of reductions, the dual is

      max  sum_j y_j + sum_i min_d (u_id + sum_j z_idj)
      s.t. sum_j y_j s_j h(x_j) + sum_i max_d (u_id max_{x in d} h(x) + sum_j z_idj s_j h(x_j)) <= 1
           y_j + sum_i max_d z_idj <= C_j,   u_id <= C_i

  for every learner h. A maximum over the disjuncts of a bag is generated like a learner: a column
  of the program is a learner with one disjunct for each bag, which has its whole weight. There are
  no copies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from .problem import NONE, DisjunctiveProblem, DualPrices, Unions, comparable

# Weights up to this count as zero.
_ZERO = 1e-11


@dataclass(frozen=True, eq=False)
class Disjunct:
    """Points of a bag whose constraints hold as a union, and the constraints j that reduce it."""

    bag: int
    members: np.ndarray
    constraints: np.ndarray


class Relaxation:
    """Rows of the linear program, and its columns that are no learners.

    The rows are those of the points with a sign (y) and of the bags (u, or the minimum of a bag
    with several disjuncts), then the margins of the disjuncts of such bags (u), the reductions (z),
    and for each bag and constraint the maximum of z over the disjuncts.

    Parameters
    ----------
    problem : DisjunctiveProblem
    disjuncts : list of Disjunct, default=None
        In the order of their bags; by default, each bag is one. Bags of one have no constraints.

    Attributes
    ----------
    margins, reductions : ndarray of int
        Row of the margin of each disjunct, and of each reduction.
    costs, right : ndarray of shape (n_rows,)
        Costs of the slacks of the rows, and their right sides.
    columns : ndarray of shape (n_columns, n_rows), int8
        For each disjunct of bags of several its weight eta, then slacks and their copies.
    column_costs : ndarray of shape (n_columns,)
    """

    def __init__(
        self, problem: DisjunctiveProblem, disjuncts: list[Disjunct] | None = None
    ) -> None:
        if disjuncts is None:
            disjuncts = [Disjunct(bag, block, NONE) for bag, block in enumerate(problem.members)]
        self.problem, self.disjuncts, r = problem, disjuncts, len(problem.points)
        bag = np.array([each.bag for each in disjuncts], dtype=np.intp)
        self.unions = Unions.of([each.members for each in disjuncts], bag)
        soft = np.concatenate([problem.costs, problem.member_costs])
        # The disjunct and the constraint of each reduction, and its pair of a bag and a constraint.
        sizes = [len(each.constraints) for each in disjuncts]
        self._owner = owner = np.repeat(np.arange(len(disjuncts)), sizes)
        self._constraint = np.concatenate([NONE, *(each.constraints for each in disjuncts)])
        pairs, self._pair = np.unique(bag[owner] * r + self._constraint, return_inverse=True)
        self._pair_constraint = pairs % r
        self._reduced, place = np.unique(self._pair_constraint, return_inverse=True)

        self._split = split = np.flatnonzero(self.unions.several)
        n, n_split, n_reductions = len(soft), len(split), len(owner)
        self.margins = r + bag
        self.margins[split] = n + np.arange(n_split)
        self.reductions = n + n_split + np.arange(n_reductions)
        shared = n + n_split + n_reductions + np.arange(len(pairs))
        costs = soft, soft[r + bag[split]], soft[self._constraint], soft[self._pair_constraint]
        self.costs = np.concatenate(costs)
        # The minimum over the disjuncts of a bag has no other bound than this one.
        np.add.at(self.costs, r + bag[owner], soft[self._constraint])
        self.right = (np.arange(len(self.costs)) < n).astype(np.float64)

        n_slacks = len(self._reduced)
        self.columns = np.zeros((n_split + n_slacks + n_reductions, len(self.costs)), np.int8)
        etas, slacks, copies = np.split(self.columns, [n_split, n_split + n_slacks])
        etas[np.arange(n_split), r + bag[split]] = 1
        etas[np.arange(n_split), self.margins[split]] = -1
        etas[np.searchsorted(split, owner), self.reductions] = -1
        slacks[np.arange(n_slacks), self._reduced] = 1
        slacks[place, shared] = 1
        copies[np.arange(n_reductions), self.reductions] = 1
        copies[np.arange(n_reductions), shared[self._pair]] = -1
        self.column_costs = np.zeros(len(self.columns))
        self.column_costs[n_split : n_split + n_slacks] = soft[self._reduced]

    def lifted(self, y: np.ndarray) -> np.ndarray:
        """Multipliers of another relaxation of the problem, with each bag as a whole."""
        r, n = len(self.problem.points), len(self.problem.points) + len(self.problem.members)
        out = np.zeros(len(self.costs))
        out[:n] = y[:n]
        out[self.margins] = y[r + self.unions.bag]
        return out

    def dual_value(self, y: np.ndarray) -> tuple[float, float]:
        """Value of multipliers, and by what factor they exceed costs of slacks, at least one."""
        used, paid, z = y[: len(self.problem.points)].copy(), y[self.margins], y[self.reductions]
        np.add.at(paid, self._owner, z)
        value = used.sum() + np.minimum.reduceat(paid, self.unions.groups).sum()
        highest = np.zeros(len(self._pair_constraint))
        np.maximum.at(highest, self._pair, z)
        np.add.at(used, self._pair_constraint, highest)
        return float(value), float((used / self.problem.costs).max(initial=1.0))

    def prices(self, y: np.ndarray, scores: np.ndarray | None = None) -> DualPrices:
        """Multipliers of the rows as prices that score learners."""
        problem, weights = self.problem, None
        signed = problem.signs * y[: len(problem.points)]
        if len(self.reductions):
            values = problem.signs[self._constraint] * y[self.reductions]
            places = self._owner, problem.points[self._constraint]
            shape = len(self.disjuncts), problem.n_points
            weights = sparse.csr_array((values, places), shape=shape)
        linear = np.bincount(problem.points, signed, problem.n_points)
        return DualPrices(linear, self.unions, y[self.margins], weights, scores)

    def entries(self, H: np.ndarray, prices: DualPrices) -> np.ndarray:
        """Coefficients of learners in the rows, (n_learners, n_rows) bytes.

        A learner belongs to the disjunct of a bag that has the highest value for it.
        """
        problem, unions, every = self.problem, self.unions, np.arange(len(self.disjuncts))
        out = np.zeros((len(H), len(self.costs)), dtype=np.int8)
        out[:, : len(problem.points)] = problem.signs.astype(np.int8) * H[:, problem.points]
        # Of equal values the last, see separated.
        values = comparable(prices.disjunct_values(H))
        top = np.maximum.reduceat(values, unions.groups, axis=1)[:, unions.bag]
        last = np.maximum.reduceat(np.where(values == top, every, -1), unions.groups, axis=1)
        chosen = last[:, unions.bag] == every
        out[:, self.margins] = chosen * unions.highest(H)
        out[:, self.reductions] = chosen[:, self._owner] * problem.signed(H, self._constraint)
        return out

    def separated(
        self, H: np.ndarray, entries: np.ndarray, weights: np.ndarray, tol: float, limit: int
    ) -> Relaxation | None:
        """This relaxation with the reductions that a solution violates most; None without any.

        A reduction (x, j) is s_j F^x(x_j) + xi_j^x >= eta^x with sum_x xi_j^x <= xi_j. For given
        copies the violation of constraint j is sum_x [eta^x - s_j F^x(x_j)]_+ - xi_j; the score
        (10) is the term of one x.

        Parameters
        ----------
        H : ndarray of shape (n_learners, n_points)
        entries : ndarray of shape (n_learners, n_rows)
        weights : ndarray of shape (n_columns + n_learners,)
            Values of the columns, and weights of the learners.
        tol : float
        limit : int
            Maximum number of reductions to add.
        """
        n_split, n_slacks = len(self._split), len(self._reduced)
        ends = n_split, n_split + n_slacks, len(self.columns)
        of_etas, paid, _, alpha = np.split(weights, ends)
        etas = np.ones(len(self.disjuncts))
        etas[self._split] = of_etas
        parts: list[tuple[int, int, float, np.ndarray]] = []
        for d, each in enumerate(self.disjuncts):
            copies = np.where(entries[:, self.margins[d]] != 0, alpha, 0.0)
            divided = _divided(H, each.members, etas[d], copies)
            # If one point satisfies a bag, its reductions are implied by the constraints j.
            if self.unions.several[d] or len(divided) > 1:
                parts += [(d, *part) for part in divided]
        if not parts or limit <= 0:
            return None
        signed = self.problem.signed(H)
        shares = np.stack([part[3] for part in parts]) @ signed
        lacking = np.maximum(0.0, np.array([part[2] for part in parts])[:, None] - shares)
        slacks = np.maximum(0.0, 1.0 - alpha @ signed)
        slacks[self._reduced] = np.maximum(slacks[self._reduced], paid)
        bags = self.unions.bag[[part[0] for part in parts]]
        firsts = np.flatnonzero(np.diff(bags, prepend=-1))
        excess = np.add.reduceat(lacking, firsts, axis=0) - slacks
        stops = np.append(firsts[1:], len(parts))
        found = list(self.disjuncts)
        for b, constraints in most_violated(excess, tol, limit).items():
            # The last point split off covers most: learners go to it first, as in this solution.
            for k in reversed(range(firsts[b], stops[b])):
                asked = np.array([j for j in constraints if lacking[k, j] > 0.0][:limit])
                if len(asked):
                    # A part of a disjunct, for which its point is split off.
                    limit -= len(asked)
                    d, point = parts[k][:2]
                    rest = found[d].members[found[d].members != point]
                    if point < 0 or not len(rest):
                        asked = np.union1d(found[d].constraints, asked)
                        found[d] = replace(found[d], constraints=asked)
                    else:
                        found[d] = replace(found[d], members=rest)
                        found.append(Disjunct(found[d].bag, np.array([point]), np.sort(asked)))
        tighter = Relaxation(self.problem, sorted(found, key=lambda each: each.bag))
        return tighter if len(tighter.reductions) > len(self.reductions) else None


def most_violated(excess: np.ndarray, tol: float, limit: int) -> dict[int, list[int]]:
    """Constraints whose reductions are violated, by the row of ``excess``, most violated first.

    Of equal violations the first is chosen.
    """
    # Limit the number of constraints per bag, so that all bags have some.
    falling = -comparable(excess)
    rank = np.argsort(falling, axis=1, kind="stable")
    per_bag = max(3, limit // (4 * len(excess)))
    chosen = [(falling[b, j], b, j) for b in range(len(excess)) for j in rank[b, :per_bag].tolist()]
    chosen = sorted(each for each in chosen if excess[each[1:]] > tol)
    wanted: dict[int, list[int]] = {}
    for _, b, j in chosen[:limit]:
        wanted.setdefault(b, []).append(j)
    return wanted


def _divided(
    H: np.ndarray, members: np.ndarray, eta: float, alpha: np.ndarray
) -> list[tuple[int, float, np.ndarray]]:
    """The part of the solution of a disjunct, divided among its points: point, eta and weights.

    Each learner with weight is assigned to a point where it attains its maximum over the members. A
    greedy choice uses few points; the other learners are divided in proportion. If one point is
    enough, the part is that of the whole disjunct, with the point -1.
    """
    up = H[:, members] > 0
    covering = (alpha > _ZERO) & up.any(axis=1)
    left = np.where(covering, alpha, 0.0)
    total, divided = float(left.sum()), []
    while left.any():
        point = int(np.argmax(comparable(left @ up)))
        divided.append((int(members[point]), np.where(up[:, point], left, 0.0)))
        left = np.where(up[:, point], 0.0, left)
    if len(divided) < 2:
        return [(-1, eta, alpha)]
    rest, parts = np.where(covering, 0.0, alpha), []
    for member, taken in divided:
        share = float(taken.sum()) / total
        parts.append((member, eta * share, taken + share * rest))
    return parts
