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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..common.lp import LPResult
from .dual_program import DualProgram
from .learners import WeakLearner
from .problem import (
    BagPrices,
    DisjunctiveProblem,
    DualPrices,
    WholeBags,
    comparable,
    score_columns,
)

# Weights and dual variables up to this count as zero.
ZERO_TOL = 1e-11


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
    # Row of the bag as a whole; its slack is the column of the same number.
    row: int
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
        The first rows are its constraints with a sign, then its bags. The first columns are the
        slacks of these rows, so that a slack has the number of its row.

    Attributes
    ----------
    learners : list of WeakLearner
        The learners in the program, in the order of ``H``.
    H : ndarray of shape (n_learners, n_points), int8
    model : DualProgram
    alpha_columns : list of int
        Column of each learner's weight.
    bags : list of BagHull
        The ambiguous bags.
    rows_changed : bool
        Whether rows were added after the last solution, which is then not primal feasible.
    """

    def __init__(self, problem: DisjunctiveProblem) -> None:
        self.problem = problem
        self.learners: list[WeakLearner] = []
        self.H = np.zeros((0, problem.n_points), dtype=np.int8)
        self.model = DualProgram()
        self.alpha_columns: list[int] = []
        self.rows_changed = False
        self._result: LPResult | None = None
        self._scores: np.ndarray | None = None
        self.model.add_soft_rows(np.concatenate([problem.costs, problem.member_costs]))
        first = len(problem.points)
        self.bags = [BagHull(block, row) for row, block in enumerate(problem.members, first)]

    def solve(self, remaining: Callable[[], float] = lambda: np.inf) -> bool:
        """Solve the program, and return False if the time limit was reached."""
        result = self.model.solve(rows_changed=self.rows_changed, time_limit=remaining())
        if result is None:
            self._pad()
            return False
        self._result, self._scores, self.rows_changed = result, None, False
        return True

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
        columns = np.zeros(len(x), dtype=bool)
        columns[self.alpha_columns] = used
        self.model.set_basis(columns, free, slack)
        problem = self.problem
        reached = problem.signs * (alpha @ self.H)[problem.points]
        x[: len(y)] = np.maximum(0.0, 1.0 - np.r_[reached, alpha @ problem.highest(self.H)])
        slacks = np.concatenate([problem.costs, problem.member_costs]) @ x[: len(y)]
        value = float(alpha.sum() + slacks)
        gap = abs(value - float(y.sum()))
        self._result, self._scores = LPResult(x, y, np.zeros(0), value, 0.0, 0.0, gap, 0), None

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
        rows = [row for bag in self.bags for each in bag.disjuncts for _, row in each.margins]
        soft = y[: len(self.problem.points) + len(self.bags)]
        return int((soft > ZERO_TOL).sum() + (y[rows] > ZERO_TOL).sum())

    def dual_prices(self, y: np.ndarray | None = None) -> DualPrices:
        """Multipliers of the rows as prices that score learners.

        Parameters
        ----------
        y : ndarray, default=None
            Multipliers by row number; by default, those of the last solution.
        """
        problem = self.problem
        y = np.maximum(0.0, self.result.y if y is None else y)
        linear = problem.linear_prices(y[: len(problem.points)])
        found = [self._prices_of_disjuncts(number, y) for number in range(len(self.bags))]
        bags = [prices for prices in found if prices is not None]
        u = y[len(problem.points) :][: len(self.bags)]
        whole = WholeBags(*problem.flat_members, np.where(u > ZERO_TOL, u, 0.0))
        return DualPrices(linear, bags, self.scores, whole if len(u) else None)

    def _prices_of_disjuncts(self, number: int, y: np.ndarray) -> BagPrices | None:
        problem, bag = self.problem, self.bags[number]
        margins = [
            (block, y[row], owner)
            for owner, each in enumerate(bag.disjuncts)
            for block, row in each.margins
            if y[row] > ZERO_TOL
        ]
        reductions = [
            (owner, j, y[row])
            for owner, each in enumerate(bag.disjuncts)
            for j, row in each.reductions.items()
            if y[row] > ZERO_TOL
        ]
        if not margins and not reductions:
            return None
        used = sorted({j for _, j, _ in reductions})
        position = {j: k for k, j in enumerate(used)}
        weights = np.zeros((len(bag.disjuncts), len(used)))
        for owner, j, value in reductions:
            weights[owner, position[j]] = problem.signs[j] * value
        return BagPrices(
            members=[block for block, _, _ in margins],
            u=np.array([value for _, value, _ in margins]),
            owners=np.array([owner for _, _, owner in margins], dtype=np.intp),
            points=problem.points[used],
            weights=weights,
            eta=np.maximum(0.0, self.result.x[[each.eta for each in bag.disjuncts]]),
            bag=number,
        )

    def add_learners(
        self,
        learners: list[WeakLearner],
        columns: np.ndarray,
        prices: DualPrices | None = None,
    ) -> None:
        """Add learners to the program.

        Parameters
        ----------
        learners : list of WeakLearner
        columns : ndarray of shape (len(learners), n_points), of -1 and 1
        prices : DualPrices, default=None
            The dual variables by which they were chosen. The home of a learner in a bag is the
            disjunct with the highest value for it.
        """
        if not learners:
            return
        problem, n = self.problem, len(learners)
        entries = np.concatenate([problem.signed(columns), problem.highest(columns)], axis=1)
        values = list(entries.astype(np.float64))
        rows = [np.arange(entries.shape[1])] * n
        paid = {} if prices is None else prices.disjunct_values(columns)
        for number, bag in enumerate(self.bags):
            if not bag.disjuncts:
                continue
            homes = np.argmax(paid[number], axis=0) if number in paid else np.zeros(n, dtype=int)
            parts = [each.entries(problem, columns) for each in bag.disjuncts]
            for k, home in enumerate(homes.tolist()):
                more_rows, coefficients = parts[home]
                rows[k] = np.concatenate([rows[k], more_rows])
                values[k] = np.concatenate([values[k], coefficients[k]])
                bag.add_learner(home)
        alpha = self.model.add_columns(
            np.ones(n),
            starts=np.cumsum([0] + [len(part) for part in rows]),
            rows=np.concatenate(rows),
            values=np.concatenate(values),
        )
        self.alpha_columns += alpha.tolist()
        self.learners += learners
        self.H = np.concatenate([self.H, columns.astype(np.int8)])

    def add_copies(self, prices: DualPrices, tol: float, max_copies: int) -> int:
        """Add the copy columns t_k^d that improve most, and return their number."""
        if not len(self.learners):
            return 0
        y = self.result.y
        found: list[tuple[float, int, int, int]] = []
        every = np.arange(len(self.learners))
        for number, values in prices.disjunct_values(self.H).items():
            bag = self.bags[number]
            links = np.array(bag.link_rows)
            cost = np.where(links >= 0, np.maximum(0.0, y[links]), 0.0)
            gain = comparable(values - values[np.array(bag.home_disjunct), every] - cost)
            for place, k in zip(*np.nonzero(gain > tol), strict=True):
                if int(place) not in bag.copy_columns[k]:
                    found.append((-gain[place, k], number, int(k), int(place)))
        found.sort()
        wanted: dict[int, list[tuple[int, int]]] = {}
        for _, number, k, place in found[:max_copies]:
            wanted.setdefault(number, []).append((k, place))
        for number, pairs in wanted.items():
            self.copy_learners(self.bags[number], pairs)
        return min(len(found), max_copies)

    def copy_learners(self, bag: BagHull, pairs: list[tuple[int, int]]) -> None:
        """Add columns that move learners from their home to other disjuncts of a bag.

        Parameters
        ----------
        bag : BagHull
        pairs : list of (learner, place of the disjunct)
            Pairs with the home of a learner, or that already have a column, are ignored.
        """
        model, problem = self.model, self.problem
        homes, copies = bag.home_disjunct, bag.copy_columns
        pairs = [(k, d) for k, d in pairs if d != homes[k] and d not in copies[k]]
        if not pairs:
            return
        unlinked = sorted({k for k, _ in pairs if bag.link_rows[k] < 0})
        links = model.add_rows(
            np.zeros(len(unlinked)),
            starts=np.arange(len(unlinked)),
            columns=[self.alpha_columns[k] for k in unlinked],
            values=np.ones(len(unlinked)),
        )
        for k, row in zip(unlinked, links.tolist(), strict=True):
            bag.link_rows[k] = row
        moved = self.H[[k for k, _ in pairs]]
        targets = np.array([place for _, place in pairs])
        sources = np.array([homes[k] for k, _ in pairs])
        rows = [np.zeros(0, dtype=np.int64)] * len(pairs)
        values = [np.zeros(0)] * len(pairs)
        for sign, places in ((1.0, targets), (-1.0, sources)):
            for place in np.unique(places).tolist():
                mine = np.flatnonzero(places == place)
                numbers, entries = bag.disjuncts[place].entries(problem, moved[mine])
                for each, coefficients in zip(mine.tolist(), sign * entries, strict=True):
                    rows[each] = np.concatenate([rows[each], numbers])
                    values[each] = np.concatenate([values[each], coefficients])
        for each, (k, _) in enumerate(pairs):
            rows[each] = np.append(rows[each], bag.link_rows[k])
            values[each] = np.append(values[each], -1.0)
        columns = model.add_columns(
            np.zeros(len(pairs)),
            starts=np.cumsum([0] + [len(part) for part in rows]),
            rows=np.concatenate(rows),
            values=np.concatenate(values),
        )
        for (k, place), column in zip(pairs, columns.tolist(), strict=True):
            bag.copy_columns[k][place] = column

    def prune_learners(self, prices: DualPrices, margin: float) -> int:
        """Remove learners without weight and with a score below 1 - margin; return their number."""
        alpha = self.result.x[self.alpha_columns]
        poor = (score_columns(prices, self.H) < 1.0 - margin) & (alpha == 0.0)
        if not poor.any():
            return 0
        split = [bag for bag in self.bags if bag.disjuncts]
        # Only if as many basic variables are removed as columns, so that the rest is still a basis.
        basic_columns, basic_rows = self.model.basic()
        for k in np.flatnonzero(poor).tolist():
            columns, links = self._variables_of(split, k)
            poor[k] = basic_columns[columns].sum() + basic_rows[links].sum() == len(columns)
        if not poor.any():
            return 0
        removed, kept = np.flatnonzero(poor).tolist(), np.flatnonzero(~poor).tolist()
        columns, links = [], []
        for k in removed:
            mine, my_links = self._variables_of(split, k)
            columns += mine
            links += my_links
        for bag in split:
            bag.keep_learners(kept)
        self.model.remove(columns, links)
        self.alpha_columns = [self.alpha_columns[k] for k in kept]
        self.learners = [self.learners[k] for k in kept]
        self.H = self.H[kept]
        return len(removed)

    def _variables_of(self, split: list[BagHull], k: int) -> tuple[list[int], list[int]]:
        """Columns of a learner, including its copies, and the rows that link them."""
        columns, links = [self.alpha_columns[k]], []
        for bag in split:
            if bag.link_rows[k] >= 0:
                links.append(bag.link_rows[k])
                columns += bag.copy_columns[k].values()
        return columns, links

    def separate(self, tol: float, max_reductions: int) -> tuple[int, float]:
        """Add the most violated reductions, and return their number and the largest violation.

        A reduction (x, j) is s_j F^x(x_j) + xi_j^x >= eta^x with sum_x xi_j^x <= xi_j. For given
        copies the violation of constraint j is sum_x [eta^x - s_j F^x(x_j)]_+ - xi_j; the score
        (10) is the term of one x.
        """
        problem = self.problem
        parts = self._solution_parts()
        if not parts or not len(problem.points):
            return 0, 0.0
        alphas = np.stack([part.alpha for part in parts])
        etas = np.array([part.eta for part in parts])
        lacking = np.maximum(0.0, etas[:, None] - alphas @ problem.signed(self.H))
        owner = np.array([part.bag for part in parts])
        firsts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        excess = np.add.reduceat(lacking, firsts, axis=0) - self.result.x[: len(problem.points)]
        largest = float(excess.max())
        if largest <= tol or max_reductions <= 0:
            return 0, max(0.0, largest)
        stops = np.r_[firsts[1:], len(parts)]
        before = self.n_reductions
        for b, constraints in most_violated(excess, tol, max_reductions).items():
            room = max_reductions - (self.n_reductions - before)
            if room <= 0:
                break
            mine = slice(firsts[b], stops[b])
            self._reduce(parts[mine], lacking[mine], np.array(constraints), room)
        self.rows_changed = True
        return self.n_reductions - before, largest

    def _solution_parts(self) -> list[_SolutionPart]:
        x, alpha = self.result.x, self.alpha
        found: list[_SolutionPart] = []
        for number, bag in enumerate(self.bags):
            parts: list[_SolutionPart] = []
            if not bag.disjuncts:
                parts += _divided(self.H, bag.members, _SolutionPart(number, -1, -1, 1.0, alpha))
            for place, each in enumerate(bag.disjuncts):
                eta = max(0.0, float(x[each.eta]))
                copies = bag.alpha_copies(place, self.alpha_columns, x)
                if eta > ZERO_TOL or copies.any():
                    whole = _SolutionPart(number, place, -1, eta, copies)
                    parts += _divided(self.H, each.members, whole)
            # If one point satisfies a bag, its reductions are implied by the constraints j.
            if bag.disjuncts or len(parts) > 1:
                found += parts
        return found

    def _reduce(
        self,
        parts: list[_SolutionPart],
        lacking: np.ndarray,
        constraints: np.ndarray,
        limit: int,
    ) -> None:
        """Add the violated reductions of the parts of one bag by the given constraints."""
        bag = self.bags[parts[0].bag]
        for part, lacks in zip(parts, lacking, strict=True):
            asked = constraints[lacks[constraints] > 0.0][:limit]
            if not len(asked):
                continue
            limit -= len(asked)
            place = max(part.disjunct, 0)
            if part.point >= 0:
                place = self._split(bag, place, part.point)
                # Copy the learners of the divided solution: the next one starts close to it.
                carried = np.flatnonzero(part.alpha > ZERO_TOL).tolist()
                self.copy_learners(bag, [(k, place) for k in carried])
            self._add_reductions(bag, place, asked)

    def _split(self, bag: BagHull, place: int, point: int) -> int:
        """Split one point off a disjunct, and return the place of the new disjunct."""
        if not bag.disjuncts:
            model = self.model
            bag.convexity_row = int(model.add_rows([1.0], equal=True)[0])
            link = model.add_rows([0.0], starts=[0], columns=[bag.row], values=[1.0])
            bag.slack_row = int(link[0])
            for _ in self.alpha_columns:
                bag.add_learner(0)
            self._add_disjunct(bag, bag.members)
        source = bag.disjuncts[place]
        rest = source.members[source.members != point]
        if not len(rest):
            return place
        source.members = rest
        # Keep the row of all points: it is valid, although weaker, and the basis does not change.
        self._add_margin(bag, place)
        self._add_disjunct(bag, np.array([point]))
        return len(bag.disjuncts) - 1

    def _add_disjunct(self, bag: BagHull, members: np.ndarray) -> None:
        eta, slack = self.model.add_columns(
            np.zeros(2),
            starts=[0, 1],
            rows=[bag.convexity_row, bag.slack_row],
            values=[1.0, -1.0],
        ).tolist()
        bag.disjuncts.append(Disjunct(members, eta, slack))
        self._add_margin(bag, len(bag.disjuncts) - 1)

    def _add_margin(self, bag: BagHull, place: int) -> None:
        each = bag.disjuncts[place]
        highest = self.H[:, each.members].max(axis=1)
        row = self._add_disjunct_row(bag, place, highest, each.slack)
        each.margins.append((each.members, row))

    def _add_reductions(self, bag: BagHull, place: int, constraints: np.ndarray) -> None:
        each, problem = bag.disjuncts[place], self.problem
        for j in constraints.tolist():
            if j in each.reductions:
                continue
            slack = self._slack_of_reduction(bag, j)
            signed = problem.signed(self.H, [j])[:, 0]
            row = self._add_disjunct_row(bag, place, signed, slack)
            each.reductions[j] = row
            bag.shared_slacks.setdefault(j, [row, -1])

    def _slack_of_reduction(self, bag: BagHull, j: int) -> int:
        """The slack column for another reduction by constraint j."""
        if j not in bag.shared_slacks:
            return j
        model = self.model
        first, link = bag.shared_slacks[j]
        if link < 0:
            link = int(model.add_rows([0.0], starts=[0], columns=[j], values=[1.0])[0])
            bag.shared_slacks[j][1] = link
        return int(model.add_columns([0.0], starts=[0], rows=[first, link], values=[-1.0, -1.0])[0])

    def _add_disjunct_row(self, bag: BagHull, place: int, values: np.ndarray, slack: int) -> int:
        """Add sum_k values_k alpha_k^d + slack >= eta^d for the disjunct d at a place."""
        columns, coefficients = bag.alpha_terms(place, self.alpha_columns, values)
        row = self.model.add_rows(
            [0.0],
            starts=[0],
            columns=[*columns, slack, bag.disjuncts[place].eta],
            values=[*coefficients, 1.0, -1.0],
        )
        return int(row[0])


@dataclass
class _SolutionPart:
    """The part of the current solution that belongs to one point of a bag, or to a disjunct."""

    bag: int
    disjunct: int  # -1: the bag has no disjuncts
    point: int  # -1: the whole disjunct
    eta: float
    alpha: np.ndarray


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
    covering = (whole.alpha > ZERO_TOL) & up.any(axis=1)
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
