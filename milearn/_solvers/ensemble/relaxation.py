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

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ..._bags.segments import offsets_of
from .problem import NONE, BagPrices, DisjunctiveProblem, DualPrices, WholeBags, comparable

# Weights up to this count as zero.
_ZERO = 1e-11


@dataclass(frozen=True)
class Disjunct:
    """Points whose constraints hold as a union, and the constraints j that reduce it."""

    members: np.ndarray
    constraints: np.ndarray = field(default_factory=lambda: NONE)


class Relaxation:
    """Rows of the linear program, and its columns that are no learners.

    The rows are those of the points with a sign (y) and of the bags (u, or the minimum of a bag
    with several disjuncts), and then, for each disjunct, its margin (u) and its reductions (z). The
    last ones bound z for all disjuncts of a bag (q).

    Parameters
    ----------
    problem : DisjunctiveProblem
    splits : dict of lists of Disjunct, default=None
        The disjuncts of each bag that has several.

    Attributes
    ----------
    costs, right, start : ndarray of shape (n_rows,)
        Costs of the slacks of the rows, their right sides, and feasible multipliers.
    columns : ndarray of shape (n_columns, n_rows), int8
        For each disjunct its weight eta, then slacks and their copies.
    column_costs : ndarray of shape (n_columns,)
    """

    def __init__(
        self, problem: DisjunctiveProblem, splits: dict[int, list[Disjunct]] | None = None
    ) -> None:
        splits = splits or {}
        self.problem, self.splits = problem, splits
        r, n = len(problem.points), len(problem.points) + len(problem.members)
        self.disjuncts = [each for bag in sorted(splits) for each in splits[bag]]
        sizes = [len(each.constraints) for each in self.disjuncts]
        self._bag = np.repeat(sorted(splits), [len(splits[bag]) for bag in sorted(splits)])
        self._bag = self._bag.astype(np.intp)
        # Rows of the disjuncts: that of the margin, and those of the reductions, with their
        # disjunct, their constraint, and the number of this pair of a bag and a constraint.
        self._first = n + offsets_of(np.array(sizes, dtype=np.intp) + 1)
        self.margins, self.n_soft = self._first[:-1], n
        self.reductions = np.setdiff1d(np.arange(n, self._first[-1]), self.margins)
        self._owner = np.repeat(np.arange(len(sizes)), sizes)
        self._constraint = np.concatenate([NONE, *(each.constraints for each in self.disjuncts)])
        keys, first, self._pair, n_of_pair = np.unique(
            self._bag[self._owner] * max(1, r) + self._constraint,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        self._pair_constraint = keys % max(1, r)
        self._reduced, place, counts = np.unique(
            self._pair_constraint, return_inverse=True, return_counts=True
        )
        # If a bag has a constraint in one disjunct only, its reduction takes all of the slack.
        several = n_of_pair > 1
        shared = self.reductions[first]
        shared[several] = self._first[-1] + np.arange(several.sum())
        copied = np.flatnonzero(several[self._pair])

        soft = np.concatenate([problem.costs, problem.member_costs])
        self.costs = np.concatenate([soft, np.zeros(self._first[-1] + several.sum() - n)])
        self.costs[self.margins] = problem.member_costs[self._bag]
        self.costs[self.reductions] = soft[self._constraint]
        self.costs[shared] = soft[self._pair_constraint]
        self.right = (np.arange(len(self.costs)) < n).astype(np.float64)
        self.start = 0.5 * self.costs
        self.start[shared] *= 0.8 / counts[place]
        self.start[self.reductions[copied]] = 0.5 * self.start[shared[self._pair[copied]]]
        self.start[r + self._bag] = 0.25 * self.costs[r + self._bag]
        # The minimum over the disjuncts of a bag has no other bound than this one.
        np.add.at(self.costs, r + self._bag[self._owner], soft[self._constraint])

        n_etas, n_slacks, n_copies = len(sizes), len(self._reduced), len(copied)
        self.columns = np.zeros((n_etas + n_slacks + n_copies, len(self.costs)), dtype=np.int8)
        etas, slacks, copies = np.split(self.columns, [n_etas, n_etas + n_slacks])
        etas[np.arange(n_etas), r + self._bag] = 1
        etas[np.arange(n_etas), self.margins] = -1
        etas[self._owner, self.reductions] = -1
        slacks[np.arange(n_slacks), self._reduced] = 1
        slacks[place, shared] = 1
        copies[np.arange(n_copies), self.reductions[copied]] = 1
        copies[np.arange(n_copies), shared[self._pair[copied]]] = -1
        self.column_costs = np.zeros(len(self.columns))
        self.column_costs[n_etas : n_etas + n_slacks] = soft[self._reduced]

    def lifted(self, y: np.ndarray) -> np.ndarray:
        """Multipliers of another relaxation of the problem, with each bag as a whole."""
        out = np.zeros(len(self.costs))
        out[: self.n_soft] = y[: self.n_soft]
        out[self.margins] = y[len(self.problem.points) + self._bag]
        return out

    @property
    def margin_rows(self) -> np.ndarray:
        """Rows of margins, of points, whole bags and disjuncts."""
        split = len(self.problem.points) + self._bag
        return np.concatenate([np.setdiff1d(np.arange(self.n_soft), split), self.margins])

    @property
    def n_reductions(self) -> int:
        """Number of pairs (x, j)."""
        return len(self.reductions)

    def dual_value(self, y: np.ndarray) -> tuple[float, float]:
        """Value of multipliers, and by what factor they exceed costs of slacks, at least one."""
        problem, r = self.problem, len(self.problem.points)
        if not self.disjuncts:
            return float(y.sum()), 1.0
        paid = y[self.margins] + np.bincount(
            self._owner, y[self.reductions], minlength=len(self.disjuncts)
        )
        least = np.full(len(problem.members), np.inf)
        np.minimum.at(least, self._bag, paid)
        soft = y[: self.n_soft].copy()
        soft[r + self._bag] = least[self._bag]
        highest = np.zeros(len(self._pair_constraint))
        np.maximum.at(highest, self._pair, y[self.reductions])
        used = y[:r].copy()
        np.add.at(used, self._pair_constraint, highest)
        return float(soft.sum()), float((used / problem.costs).max(initial=1.0))

    def prices(self, y: np.ndarray, scores: np.ndarray | None = None) -> DualPrices:
        """Multipliers of the rows as prices that score learners."""
        problem, r = self.problem, len(self.problem.points)
        u, bags = y[r : self.n_soft].copy(), []
        for bag, own in self._disjuncts_of_bags():
            u[bag] = 0.0
            used = np.unique(np.concatenate([self.disjuncts[d].constraints for d in own]))
            weights = np.zeros((len(own), len(used)))
            for row, d in zip(weights, own, strict=True):
                z = y[self._first[d] + 1 : self._first[d + 1]]
                row[np.searchsorted(used, self.disjuncts[d].constraints)] = z
            weights *= problem.signs[used]
            members = [self.disjuncts[d].members for d in own]
            bags.append(BagPrices(members, y[self.margins[own]], problem.points[used], weights))
        whole = WholeBags(*problem.flat_members, u)
        linear = np.bincount(problem.points, problem.signs * y[:r], problem.n_points)
        return DualPrices(linear, whole, bags, scores)

    def _disjuncts_of_bags(self) -> Iterator[tuple[int, np.ndarray]]:
        """Each bag of several disjuncts, and the numbers of its disjuncts."""
        for bag in sorted(self.splits):
            yield bag, np.flatnonzero(self._bag == bag)

    def etas(self, entries: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """The part of each disjunct in the positive margins of its bag, shape (n_disjuncts,)."""
        reached = np.maximum(0, entries[:, self.margins]).T @ alpha + _ZERO
        return np.asarray(reached / np.bincount(self._bag, reached)[self._bag])

    def entries(self, H: np.ndarray, prices: DualPrices) -> np.ndarray:
        """Coefficients of learners in the rows, (n_learners, n_rows) bytes.

        In bags of several disjuncts each learner belongs to the one with the highest value for it.
        """
        problem, r = self.problem, len(self.problem.points)
        out = np.zeros((len(H), len(self.costs)), dtype=np.int8)
        out[:, :r] = problem.signs.astype(np.int8) * H[:, problem.points]
        out[:, r : self.n_soft] = problem.highest(H)
        out[:, r + self._bag] = 0
        for (_, own), bag in zip(self._disjuncts_of_bags(), prices.bags, strict=True):
            # Of equal values the last, see separated.
            values = comparable(bag.disjunct_values(H))[::-1]
            chosen = own[::-1][np.argmax(values, axis=0)]
            for d in own:
                each, mine = self.disjuncts[d], np.flatnonzero(chosen == d)
                out[mine, self._first[d]] = H[np.ix_(mine, each.members)].max(axis=1)
                signed = problem.signed(H[mine], each.constraints)
                out[mine, self._first[d] + 1 : self._first[d + 1]] = signed
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
        problem, n_etas = self.problem, len(self.disjuncts)
        columns, alpha = np.split(weights, [len(self.columns)])
        parts = self._solution_parts(H, entries, columns, alpha)
        if not parts or not len(problem.points) or limit <= 0:
            return None
        signed = problem.signed(H)
        etas, shares = np.array([part.eta for part in parts]), [part.alpha for part in parts]
        lacking = np.maximum(0.0, etas[:, None] - np.stack(shares) @ signed)
        slacks = np.maximum(0.0, 1.0 - alpha @ signed)
        paid = columns[n_etas : n_etas + len(self._reduced)]
        slacks[self._reduced] = np.maximum(slacks[self._reduced], paid)
        firsts = np.flatnonzero(np.diff([part.bag for part in parts], prepend=-1))
        excess = np.add.reduceat(lacking, firsts, axis=0) - slacks
        stops = np.append(firsts[1:], len(parts))
        splits = {bag: list(disjuncts) for bag, disjuncts in self.splits.items()}
        for b, constraints in most_violated(excess, tol, limit).items():
            # The last point split off covers most: learners go to it first, as in this solution.
            for k in reversed(range(firsts[b], stops[b])):
                asked = np.array([j for j in constraints if lacking[k, j] > 0.0][:limit], np.intp)
                if len(asked):
                    _reduce(splits, problem, parts[k], asked)
                    limit -= len(asked)
        found = Relaxation(problem, splits)
        return found if found.n_reductions > self.n_reductions else None

    def _solution_parts(
        self, H: np.ndarray, entries: np.ndarray, columns: np.ndarray, alpha: np.ndarray
    ) -> list[_SolutionPart]:
        found: list[_SolutionPart] = []
        own = dict(self._disjuncts_of_bags())
        for bag, members in enumerate(self.problem.members):
            if bag not in own:
                parts = _divided(H, members, _SolutionPart(bag, 0, -1, 1.0, alpha))
                # If one point satisfies a bag, its reductions are implied by the constraints j.
                found += parts if len(parts) > 1 else []
                continue
            for place, d in enumerate(own[bag]):
                copies = np.where(entries[:, self._first[d]] != 0, alpha, 0.0)
                whole = _SolutionPart(bag, place, -1, float(columns[d]), copies)
                found += _divided(H, self.disjuncts[d].members, whole)
        return found


@dataclass
class _SolutionPart:
    """The part of a solution that belongs to one point of a bag, or to a disjunct."""

    bag: int
    disjunct: int  # its place in the bag
    point: int  # -1: the whole disjunct
    eta: float
    alpha: np.ndarray


def _reduce(
    splits: dict[int, list[Disjunct]],
    problem: DisjunctiveProblem,
    part: _SolutionPart,
    constraints: np.ndarray,
) -> None:
    """Add reductions of a part of the solution, for which its point is split off."""
    disjuncts = splits.setdefault(part.bag, [Disjunct(problem.members[part.bag])])
    source = disjuncts[part.disjunct]
    rest = source.members[source.members != part.point]
    if part.point < 0 or not len(rest):
        constraints = np.union1d(source.constraints, constraints)
        disjuncts[part.disjunct] = replace(source, constraints=constraints)
    else:
        disjuncts[part.disjunct] = replace(source, members=rest)
        disjuncts.append(Disjunct(np.array([part.point]), np.sort(constraints)))


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


def _divided(H: np.ndarray, members: np.ndarray, whole: _SolutionPart) -> list[_SolutionPart]:
    """The part of the solution of a disjunct with several points, divided among its points.

    Each learner with weight is assigned to a point where it attains its maximum over the members. A
    greedy choice uses few points; the other learners are divided in proportion.
    """
    if len(members) == 1:
        return [whole]
    up = H[:, members] > 0
    covering = (whole.alpha > _ZERO) & up.any(axis=1)
    total = float(whole.alpha[covering].sum())
    if total <= 0.0:
        return [whole]
    left = np.where(covering, whole.alpha, 0.0)
    divided: list[tuple[int, np.ndarray]] = []
    while left.any():
        covered = comparable(left @ up)
        point = int(np.argmax(covered))
        divided.append((int(members[point]), np.where(up[:, point], left, 0.0)))
        left = np.where(up[:, point], 0.0, left)
    if len(divided) == 1:
        return [whole]
    rest = np.where(covering, 0.0, whole.alpha)
    parts = []
    for member, taken in divided:
        share = float(taken.sum()) / total
        alpha = taken + share * rest
        parts.append(_SolutionPart(whole.bag, whole.disjunct, member, whole.eta * share, alpha))
    return parts
