"""The relaxation of a disjunctive program by parallel reductions: one linear program that grows.

The relaxation (6) of a program (5), see :mod:`.problem`, takes, for each bag, the hull of the
union over x in X_i of what satisfies the constraint of x and every constraint j, as a linear
program (7) in copies of alpha for every x, alpha_k = sum_x alpha_k^x. Here (7) is never written
down in full.

A bag starts as one disjunct of all its points, whose hull without the reductions (x, j) is the one
row sum_k alpha_k max over x in X_i of h_k(x) + xi_i >= 1, which needs no copies. A point is split
off into a disjunct with copies of its own when reductions are violated that the disjunct cannot
satisfy as a whole; what is left stays one disjunct. Both are hulls of unions of the same sets.

Nor is there a column for each copy. A learner has one default disjunct a bag, to which alpha_k
belongs but for what columns t_k^d >= 0 carry over to other disjuncts, sum_d t_k^d <= alpha_k; these
columns are generated when their reduced cost asks for them. Slacks xi_j are shared out the same
way. At the end the value is that of (7).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..common.lp import LPModel, LPResult
from .problem import (
    DisjunctiveProblem,
    Group,
    Prices,
    score_columns,
)

__all__ = ["Relaxation"]

_NOISE = 1e-11


@dataclass
class _Disjunct:
    members: np.ndarray
    eta: int
    slack: int
    margins: list[tuple[np.ndarray, int]] = field(default_factory=list)
    reductions: dict[int, int] = field(default_factory=dict)  # j: row


@dataclass
class _Bag:
    members: np.ndarray
    row: int
    slack: int
    disjuncts: list[_Disjunct] = field(default_factory=list)
    convexity: int = -1
    slack_link: int = -1
    # By learner: the disjunct that has alpha_k, the row of sum_d t_k^d <= alpha_k (-1: there is
    # none), and the columns t_k^d by disjunct.
    default: list[int] = field(default_factory=list)
    links: list[int] = field(default_factory=list)
    moved: list[dict[int, int]] = field(default_factory=list)
    # By constraint j: the row of its first reduction, whose slack is xi_j itself, and the row of
    # what others take of it (-1: there is no other).
    shared: dict[int, list[int]] = field(default_factory=dict)


@dataclass
class _Piece:
    """A part of the present solution that one point of a bag, or a whole disjunct, carries."""

    bag: int
    disjunct: int  # -1: the bag has no copies yet
    point: int  # -1: the disjunct as a whole
    eta: float
    alpha: np.ndarray


class Relaxation:
    """The relaxation (6) of a disjunctive program, grown by learners and by reductions.

    Parameters
    ----------
    problem : DisjunctiveProblem

    Attributes
    ----------
    learners : list
        Names of the learners in the program, in the order of ``H``.
    H : ndarray of shape (n_learners, n_points), int8
    model : LPModel
    result : LPResult
        The last solution.
    n_reductions : int
        Pairs (x, j) in the program.
    """

    def __init__(self, problem: DisjunctiveProblem) -> None:
        self.problem = problem
        self.learners: list[Any] = []
        self.H = np.zeros((0, problem.n_points), dtype=np.int8)
        self.model = LPModel()
        self.result: LPResult | None = None
        self._alpha: list[int] = []
        r, p = len(problem.points), len(problem.members)
        self._slacks = self.model.add_columns(problem.costs)
        self._rows = self.model.add_rows(
            np.ones(r), starts=np.arange(r), columns=self._slacks, values=np.ones(r)
        )
        slacks = self.model.add_columns(problem.member_costs)
        rows = self.model.add_rows(
            np.ones(p), starts=np.arange(p), columns=slacks, values=np.ones(p)
        )
        self.bags = [
            _Bag(block, int(row), int(slack))
            for block, row, slack in zip(problem.members, rows, slacks, strict=True)
        ]
        self._changed_rows = False

    # -- state ----------------------------------------------------------------------------

    @property
    def n_reductions(self) -> int:
        return sum(len(each.reductions) for bag in self.bags for each in bag.disjuncts)

    @property
    def n_active_reductions(self) -> int:
        """Reductions with a dual variable above zero."""
        y = self._solved.y
        return sum(
            bool(y[row] > _NOISE)
            for bag in self.bags
            for each in bag.disjuncts
            for row in each.reductions.values()
        )

    @property
    def n_active_margins(self) -> int:
        """Margin constraints of points with a dual variable above zero."""
        y = self._solved.y
        count = int((y[self._rows] > _NOISE).sum())
        for bag in self.bags:
            rows = [bag.row] + [row for each in bag.disjuncts for _, row in each.margins]
            count += int((y[rows] > _NOISE).sum())
        return count

    @property
    def _solved(self) -> LPResult:
        assert self.result is not None, "solve first"
        return self.result

    @property
    def value(self) -> float:
        """Value of the program as it stands."""
        return self._solved.objective

    @property
    def alpha(self) -> np.ndarray:
        """Weights of the learners, shape (n_learners,)."""
        return np.maximum(0.0, self._solved.x[self._alpha])

    @property
    def scores(self) -> np.ndarray:
        """F of every point."""
        return self.alpha @ self.H

    def solve(self, time_limit: float = np.inf) -> bool:
        """Solve the program as it stands; False when the time was over before it was solved."""
        result = self.model.solve(primal=not self._changed_rows, time_limit=time_limit)
        if result is None:
            self._pad()
            return False
        self.result = result
        self._changed_rows = False
        return True

    def _pad(self) -> None:
        # The last solution is still feasible for the columns; what is new in the program is zero.
        if self.result is not None:
            x, y, reduced = self.model.blank()
            x[: len(self.result.x)] = self.result.x
            y[: len(self.result.y)] = self.result.y
            reduced[: len(self.result.reduced)] = self.result.reduced
            self.result = replace(self.result, x=x, y=y, reduced=reduced)

    # -- columns --------------------------------------------------------------------------

    def prices(self) -> Prices:
        """The dual variables, in the form in which learners are scored by them."""
        problem, y = self.problem, np.maximum(0.0, self._solved.y)
        linear = np.bincount(
            problem.points, weights=problem.signs * y[self._rows], minlength=problem.n_points
        )
        groups = []
        for number, bag in enumerate(self.bags):
            if y[bag.row] > _NOISE:
                groups.append(_whole(bag.members, y[bag.row]))
            group = self._group(number, y)
            if group is not None:
                groups.append(group)
        return Prices(linear, groups, self.scores)

    def _group(self, number: int, y: np.ndarray) -> Group | None:
        bag = self.bags[number]
        entries = [
            (block, y[row], owner)
            for owner, each in enumerate(bag.disjuncts)
            for block, row in each.margins
            if y[row] > _NOISE
        ]
        active = [
            (owner, j, y[row])
            for owner, each in enumerate(bag.disjuncts)
            for j, row in each.reductions.items()
            if y[row] > _NOISE
        ]
        if not entries and not active:
            return None
        used = sorted({j for _, j, _ in active})
        place = {j: k for k, j in enumerate(used)}
        weights = np.zeros((len(bag.disjuncts), len(used)))
        for owner, j, value in active:
            weights[owner, place[j]] = self.problem.signs[j] * value
        return Group(
            members=[block for block, _, _ in entries],
            u=np.array([value for _, value, _ in entries]),
            owners=np.array([owner for _, _, owner in entries], dtype=np.intp),
            points=self.problem.points[used],
            weights=weights,
            shares=np.maximum(0.0, self._solved.x[[each.eta for each in bag.disjuncts]]),
            bag=number,
        )

    def add_learners(
        self, learners: list[Any], columns: np.ndarray, prices: Prices | None = None
    ) -> None:
        """Add learners.

        Parameters
        ----------
        learners : list
        columns : ndarray of shape (len(learners), n_points), of -1 and 1
        prices : Prices, default=None
            The dual variables by which they were chosen: each goes to the disjuncts where it is
            worth most.
        """
        problem, n = self.problem, len(learners)
        rows: list[np.ndarray] = []
        values: list[np.ndarray] = []
        ambiguous = np.array([bag.row for bag in self.bags], dtype=np.int64)
        fixed = np.concatenate([self._rows, ambiguous])
        entries = np.empty((n, len(fixed)))
        entries[:, : len(problem.points)] = problem.signs * columns[:, problem.points]
        for k, bag in enumerate(self.bags, start=len(problem.points)):
            entries[:, k] = columns[:, bag.members].max(axis=1)
        given = {} if prices is None else prices.given(columns)
        for k in range(n):
            rows.append(fixed)
            values.append(entries[k])
        for number, bag in enumerate(self.bags):
            if not bag.disjuncts:
                continue
            best = np.argmax(given[number], axis=0) if number in given else np.zeros(n, dtype=int)
            parts = [self._entries(each, columns) for each in bag.disjuncts]
            for k, place in enumerate(best.tolist()):
                named, coefficients = parts[place]
                rows[k] = np.concatenate([rows[k], named])
                values[k] = np.concatenate([values[k], coefficients[k]])
                bag.default.append(place)
                bag.links.append(-1)
                bag.moved.append({})
        starts = np.cumsum([0] + [len(part) for part in rows])
        alpha = self.model.add_columns(
            np.ones(n), starts=starts, rows=np.concatenate(rows), values=np.concatenate(values)
        )
        self._alpha += alpha.tolist()
        self.learners += learners
        self.H = np.concatenate([self.H, columns.astype(np.int8)])

    def _entries(self, each: _Disjunct, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of a disjunct in which learners stand, and their coefficients (n_learners, rows)."""
        j = np.fromiter(each.reductions, dtype=np.intp, count=len(each.reductions))
        rows = [row for _, row in each.margins] + list(each.reductions.values())
        values = [columns[:, block].max(axis=1)[:, None] for block, _ in each.margins]
        values.append(self.problem.signs[j] * columns[:, self.problem.points[j]])
        return np.array(rows, dtype=np.int64), np.concatenate(values, axis=1, dtype=np.float64)

    def add_transfers(self, prices: Prices, tol: float, most: int) -> int:
        """Add the columns t_k^d that are worth most; returns how many."""
        if not len(self.learners):
            return 0
        y = self._solved.y
        found: list[tuple[float, int, int, int]] = []
        every = np.arange(len(self.learners))
        for number, given in prices.given(self.H).items():
            bag = self.bags[number]
            links = np.array(bag.links)
            paid = np.where(links >= 0, np.maximum(0.0, y[links]), 0.0)
            gain = given - given[np.array(bag.default), every] - paid
            for place, k in zip(*np.nonzero(gain > tol), strict=True):
                if int(place) not in bag.moved[k]:
                    found.append((-gain[place, k], number, int(k), int(place)))
        found.sort()
        wanted: dict[int, list[tuple[int, int]]] = {}
        for _, number, k, place in found[:most]:
            wanted.setdefault(number, []).append((k, place))
        for number, pairs in wanted.items():
            self._move(self.bags[number], pairs)
        return min(len(found), most)

    def _move(self, bag: _Bag, pairs: list[tuple[int, int]]) -> None:
        """Columns that carry learners over from their default to other disjuncts of a bag."""
        pairs = [(k, d) for k, d in pairs if d != bag.default[k] and d not in bag.moved[k]]
        if not pairs:
            return
        fresh = sorted({k for k, _ in pairs if bag.links[k] < 0})
        made = self.model.add_rows(
            np.zeros(len(fresh)),
            starts=np.arange(len(fresh)),
            columns=[self._alpha[k] for k in fresh],
            values=np.ones(len(fresh)),
        )
        for k, row in zip(fresh, made.tolist(), strict=True):
            bag.links[k] = row
        rows, values = [], []
        for k, place in pairs:
            column = self.H[[k]]
            there, gained = self._entries(bag.disjuncts[place], column)
            here, lost = self._entries(bag.disjuncts[bag.default[k]], column)
            rows.append(np.concatenate([there, here, [bag.links[k]]]))
            values.append(np.concatenate([gained[0], -lost[0], [-1.0]]))
        columns = self.model.add_columns(
            np.zeros(len(pairs)),
            starts=np.cumsum([0] + [len(part) for part in rows]),
            rows=np.concatenate(rows),
            values=np.concatenate(values),
        )
        for (k, place), column in zip(pairs, columns.tolist(), strict=True):
            bag.moved[k][place] = column

    def _held(self, bag: _Bag, place: int, values: np.ndarray) -> tuple[list[int], list[float]]:
        """Columns and coefficients of sum_k values_k alpha_k^d for a disjunct d of a bag."""
        columns, out = [], []
        for k, value in enumerate(values.tolist()):
            if bag.default[k] == place:
                columns.append(self._alpha[k])
                out.append(value)
                columns += bag.moved[k].values()
                out += [-value] * len(bag.moved[k])
            elif place in bag.moved[k]:
                columns.append(bag.moved[k][place])
                out.append(value)
        return columns, out

    def _copies(self, bag: _Bag, place: int) -> np.ndarray:
        """alpha_k^d in the present solution, shape (n_learners,)."""
        x = self._solved.x
        out = np.zeros(len(self.learners))
        for k, column in enumerate(self._alpha):
            if bag.default[k] == place:
                out[k] = x[column] - sum(x[each] for each in bag.moved[k].values())
            elif place in bag.moved[k]:
                out[k] = x[bag.moved[k][place]]
        return np.maximum(0.0, out)

    def prune_learners(self, prices: Prices, margin: float) -> int:
        """Take out learners without weight that score below 1 - margin; returns how many."""
        alpha = self._solved.x[self._alpha]
        poor = (score_columns(prices, self.H) < 1.0 - margin) & (alpha == 0.0)
        if not poor.any():
            return 0
        # Only where as many basic variables go as rows: the rest is then still a basis.
        columns, rows = self.model.basic()
        for k in np.flatnonzero(poor).tolist():
            mine = [self._alpha[k]]
            links = []
            for bag in self.bags:
                if bag.disjuncts and bag.links[k] >= 0:
                    links.append(bag.links[k])
                    mine += bag.moved[k].values()
            poor[k] = columns[mine].sum() + rows[links].sum() == len(links)
        if not poor.any():
            return 0
        gone, kept = np.flatnonzero(poor).tolist(), np.flatnonzero(~poor).tolist()
        out = [self._alpha[k] for k in gone]
        links = []
        for bag in self.bags:
            if bag.disjuncts:
                out += [column for k in gone for column in bag.moved[k].values()]
                links += [bag.links[k] for k in gone if bag.links[k] >= 0]
                bag.default = [bag.default[k] for k in kept]
                bag.links = [bag.links[k] for k in kept]
                bag.moved = [bag.moved[k] for k in kept]
        self.model.remove(out, links)
        self._alpha = [self._alpha[k] for k in kept]
        self.learners = [self.learners[k] for k in kept]
        self.H = self.H[kept]
        return len(gone)

    # -- rows -----------------------------------------------------------------------------

    def separate(self, tol: float, most: int) -> tuple[int, float]:
        """Add the most violated reductions; returns how many, and the largest violation.

        A reduction (x, j) asks s_j F^x(x_j) + xi_j^x >= eta^x with sum_x xi_j^x <= xi_j, so for
        given copies what counts is by how much sum_x [eta^x - s_j F^x(x_j)]_+ exceeds xi_j; the
        score (10) is the term of one x.
        """
        problem = self.problem
        pieces = self._pieces()
        if not pieces or not len(problem.points):
            return 0, 0.0
        signed = problem.signs[:, None] * self.H[:, problem.points].T
        alphas = np.stack([piece.alpha for piece in pieces])
        etas = np.array([piece.eta for piece in pieces])
        lacking = np.maximum(0.0, etas[:, None] - alphas @ signed.T)
        owner = np.array([piece.bag for piece in pieces])
        firsts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        excess = np.add.reduceat(lacking, firsts, axis=0) - self._solved.x[self._slacks]
        largest = float(excess.max())
        if largest <= tol or most <= 0:
            return 0, max(0.0, largest)
        # The most violated constraints of each bag first, so that no bag takes all places.
        rank = np.argsort(-excess, axis=1, kind="stable")
        per_bag = max(3, most // (4 * len(firsts)))
        chosen = [
            (excess[b, j], b, j) for b in range(len(firsts)) for j in rank[b, :per_bag].tolist()
        ]
        chosen = [each for each in chosen if each[0] > tol]
        chosen.sort(key=lambda each: (-each[0], each[1], each[2]))
        wanted: dict[int, list[int]] = {}
        for _, b, j in chosen[:most]:
            wanted.setdefault(b, []).append(j)
        stops = np.r_[firsts[1:], len(pieces)]
        before = self.n_reductions
        for b, places in wanted.items():
            left = most - (self.n_reductions - before)
            if left <= 0:
                break
            self._reduce(pieces, lacking, range(firsts[b], stops[b]), np.array(places), left)
        self._changed_rows = True
        return self.n_reductions - before, largest

    def _pieces(self) -> list[_Piece]:
        x, alpha = self._solved.x, self.alpha
        pieces: list[_Piece] = []
        for number, bag in enumerate(self.bags):
            parts: list[_Piece] = []
            if not bag.disjuncts:
                parts += self._parts(number, -1, bag.members, 1.0, alpha)
            for place, each in enumerate(bag.disjuncts):
                eta = max(0.0, float(x[each.eta]))
                copies = self._copies(bag, place)
                if eta > _NOISE or copies.any():
                    parts += self._parts(number, place, each.members, eta, copies)
            # A bag that one point satisfies has no reduction that the constraints j do not imply.
            if bag.disjuncts or len(parts) > 1:
                pieces += parts
        return pieces

    def _parts(
        self, bag: int, disjunct: int, members: np.ndarray, eta: float, alpha: np.ndarray
    ) -> list[_Piece]:
        """What a disjunct of several points carries, shared out to points one after the other.

        Each learner with weight goes to a point on which it attains its maximum over the members,
        to as few points as a greedy choice finds; the rest is shared in proportion.
        """
        whole = [_Piece(bag, disjunct, -1, eta, alpha)]
        if len(members) == 1:
            return whole
        up = self.H[:, members] > 0
        weighty = (alpha > _NOISE) & up.any(axis=1)
        total = float(alpha[weighty].sum())
        if total <= 0.0:
            return whole
        left = np.where(weighty, alpha, 0.0)
        shared: list[tuple[int, np.ndarray]] = []
        while left.any():
            covered = left @ up
            point = int(np.argmax(covered))
            taken = np.where(up[:, point], left, 0.0)
            shared.append((int(members[point]), taken))
            left = np.where(up[:, point], 0.0, left)
        if len(shared) == 1:
            return whole
        rest = np.where(weighty, 0.0, alpha)
        parts = []
        for point, taken in shared:
            share = float(taken.sum()) / total
            parts.append(_Piece(bag, disjunct, point, eta * share, taken + share * rest))
        return parts

    def _reduce(
        self,
        pieces: list[_Piece],
        lacking: np.ndarray,
        mine: range,
        places: np.ndarray,
        most: int,
    ) -> None:
        bag = self.bags[pieces[mine[0]].bag]
        for number in mine:
            piece = pieces[number]
            asked = places[lacking[number, places] > 0.0][:most]
            if not len(asked):
                continue
            most -= len(asked)
            place = max(piece.disjunct, 0)
            if piece.point >= 0:
                place = self._split(bag, place, piece.point)
                # The solution that was split up, so that the next one starts near it.
                held = np.flatnonzero(piece.alpha > _NOISE).tolist()
                self._move(bag, [(k, place) for k in held])
            self._add_reductions(bag, place, asked)

    def _split(self, bag: _Bag, place: int, point: int) -> int:
        """A disjunct for one point of another, which keeps the other points; its place."""
        n = len(self._alpha)
        if not bag.disjuncts:
            bag.convexity = int(self.model.add_rows([1.0], 1.0)[0])
            bag.slack_link = int(
                self.model.add_rows([0.0], starts=[0], columns=[bag.slack], values=[1.0])[0]
            )
            bag.default, bag.links, bag.moved = [0] * n, [-1] * n, [{} for _ in range(n)]
            self._add_disjunct(bag, bag.members)
        source = bag.disjuncts[place]
        rest = source.members[source.members != point]
        if not len(rest):
            return place
        source.members = rest
        # The row of more points stays: it is weaker but true, and the basis stays as it is.
        self._add_margin(bag, place)
        self._add_disjunct(bag, np.array([point]))
        return len(bag.disjuncts) - 1

    def _add_disjunct(self, bag: _Bag, members: np.ndarray) -> None:
        eta, slack = self.model.add_columns(
            np.zeros(2),
            starts=[0, 1],
            rows=[bag.convexity, bag.slack_link],
            values=[1.0, -1.0],
        ).tolist()
        bag.disjuncts.append(_Disjunct(members, eta, slack))
        self._add_margin(bag, len(bag.disjuncts) - 1)

    def _add_margin(self, bag: _Bag, place: int) -> None:
        each = bag.disjuncts[place]
        highest = self.H[:, each.members].max(axis=1)
        columns, values = self._held(bag, place, highest)
        row = self.model.add_rows(
            [0.0],
            starts=[0],
            columns=[*columns, each.slack, each.eta],
            values=[*values, 1.0, -1.0],
        )
        each.margins.append((each.members, int(row[0])))

    def _add_reductions(self, bag: _Bag, place: int, constraints: np.ndarray) -> None:
        each, problem, model = bag.disjuncts[place], self.problem, self.model
        for j in constraints.tolist():
            if j in each.reductions:
                continue
            if j not in bag.shared:
                slack = int(self._slacks[j])
            else:
                first, link = bag.shared[j]
                if link < 0:
                    columns = [self._slacks[j]]
                    link = int(model.add_rows([0.0], starts=[0], columns=columns, values=[1.0])[0])
                    bag.shared[j][1] = link
                made = model.add_columns([0.0], starts=[0], rows=[first, link], values=[-1.0, -1.0])
                slack = int(made[0])
            signed = problem.signs[j] * self.H[:, problem.points[j]]
            columns, values = self._held(bag, place, signed)
            row = model.add_rows(
                [0.0],
                starts=[0],
                columns=[*columns, slack, each.eta],
                values=[*values, 1.0, -1.0],
            )
            each.reductions[j] = int(row[0])
            bag.shared.setdefault(j, [int(row[0]), -1])


def _whole(members: np.ndarray, u: float) -> Group:
    return Group(
        members=[members],
        u=np.array([u]),
        owners=np.zeros(1, dtype=np.intp),
        points=np.zeros(0, dtype=np.intp),
        weights=np.zeros((1, 0)),
        shares=np.ones(1),
    )
