"""The problems of MI-SVM, mi-SVM and MI-SVM of ordered classes: J and its convex steps.

An objective sees scores, and neither kernels nor solvers. Over kernel values it has

* ``value(scores, norm2, intercept)``, J and the best intercept near the given one;
* ``linearised(scores, intercept, value)``, what replaces the concave part, witnesses or labels,
  after a step of that value;
* ``step(linearisation)``, the convex step as :class:`Groups`.

The first two are problems of Andrews et al. (2003) for bags i with signs y_i and costs c_i. Over
rows, :class:`MISVMProblem` has the value at the highest scores and the convex step over a working
set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import ArraySource, PassSource, stacked
from ..._bags.segments import (
    gather_rows,
    pooling_matrix,
    segment_argmax,
    segment_index,
    segment_max,
    segment_min,
)
from ..common.cccp import optimal_intercept, rounding_scale
from ..common.descent import WorkingSet
from ..common.newton import GroupProblem
from ..common.passes import HighestInstances, is_constant

Matrix = Any  # an ndarray or a CSR matrix
Point = tuple[np.ndarray, np.ndarray]

# Gap of the problem of bags of one vector, from which the procedure over rows starts.
_START_TOL = 0.05
# Numbers in rows of a step that are converted to double precision: larger problems are not solved
# to many digits.
DOUBLE_NUMBERS = 2**22


@dataclass
class Groups:
    """min 1/2 |w|^2 + sum_g c_g max_{t in g} [m_t - s_g (f_t + b)]_+ with f = P scores.

    Pattern t, a row of ``P`` of shape (n_patterns, n_instances), is an instance or the mean of
    several; s_g is a sign and c_g above zero.
    """

    P: sparse.csr_array
    offsets: np.ndarray
    signs: np.ndarray
    costs: np.ndarray
    # The m_t of all patterns.
    margins: np.ndarray

    @classmethod
    def of_rows(
        cls, rows: np.ndarray, n: int, offsets: np.ndarray, signs: np.ndarray, costs: np.ndarray
    ) -> Groups:
        """Patterns of one of n instances each, with margins of one."""
        P = sparse.csr_array((np.ones(len(rows)), rows, np.arange(len(rows) + 1)), (len(rows), n))
        return cls(P, offsets, signs, costs, np.ones(len(rows)))

    def __post_init__(self) -> None:
        # The group of each pattern, and its sign.
        self.owner = segment_index(self.offsets)
        self.sign = np.asarray(self.signs[self.owner])

    def value(self, scores: np.ndarray, norm2: float) -> tuple[float, float]:
        """The value of the step for scores of the patterns, and the best intercept."""
        worst = segment_min(self.sign * scores + 1.0 - self.margins, self.offsets)
        b = optimal_intercept(self.signs * worst, self.signs, self.costs)
        hinge = np.maximum(0.0, 1.0 - worst - self.signs * b)
        return 0.5 * norm2 + float(self.costs @ hinge), b


class BagHinge:
    """MI-SVM.

    J(w, b) = 1/2 |w|^2 + sum_{y_i>0} c_i [1 - max_j f(x_ij)]_+ + (negative bags),
    one slack per bag:        sum_{y_i<0} c_i [1 + max_j f(x_ij)]_+
    one slack per instance:   sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+

    The hinge of a positive bag is concave in the maximum: a step replaces it by the hinge of one
    instance, the witness. The hinge of a negative bag is convex and is not changed.
    """

    def __init__(
        self,
        offsets: np.ndarray,
        signs: np.ndarray,
        costs: np.ndarray,
        slack: str,
        highest: HighestInstances,
    ) -> None:
        self.offsets, self.by_instance = offsets, slack == "instance"
        self.positive, self.negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
        self.rows, own = gather_rows(offsets, self.negative)
        bags = self.negative
        if self.by_instance:
            bags, own = np.repeat(bags, np.diff(own)), np.arange(len(self.rows) + 1)
        n = len(self.positive)
        self.group_offsets = np.r_[np.arange(n), n + own]
        self.signs = np.repeat([1.0, -1.0], [n, len(bags)])
        self.costs = costs[np.r_[self.positive, bags]]
        self.scale, self.highest = rounding_scale(self.costs), highest
        self.at_zero = 2.0 * float(np.bincount(self.signs < 0, self.costs, 2).min())

    def value(self, scores: np.ndarray, norm2: float, intercept: float) -> tuple[float, float]:
        """J, at most the value of a step with these scores."""
        tops = segment_max(scores, self.offsets)
        below = scores[self.rows] if self.by_instance else tops[self.negative]
        values = np.r_[tops[self.positive], below]
        b = optimal_intercept(values, self.signs, self.costs)
        hinge = np.maximum(0.0, 1.0 - self.signs * (values + b))
        return 0.5 * norm2 + float(self.costs @ hinge), b

    def linearised(self, scores: np.ndarray, intercept: float, value: float) -> np.ndarray:
        """The witnesses; all instances tie where the value of the step is that of a constant."""
        return self.highest.of(scores, constant=is_constant(value, self.at_zero))

    def step(self, witnesses: np.ndarray | None) -> Groups:
        """The convex step for witnesses, or for the means of positive bags."""
        n, rows = int(self.offsets[-1]), self.rows
        given = self.group_offsets, self.signs, self.costs
        if witnesses is not None:
            return Groups.of_rows(np.r_[witnesses, rows], n, *given)
        below = Groups.of_rows(rows, n, *given)
        P = sparse.vstack([pooling_matrix(self.offsets)[self.positive], below.P], format="csr")
        return Groups(P, *given, np.ones(P.shape[0]))


class InstanceLabels:
    """mi-SVM: every instance of a positive bag has a label u_ij, at least one of them positive.

    J(w, b) = min_u 1/2 |w|^2 + sum_{y_i>0} c_i sum_j [1 - u_ij f(x_ij)]_+
              + sum_{y_i<0} c_i sum_j [1 + f(x_ij)]_+

    For given labels this is an SVM over all instances.
    """

    def __init__(self, offsets: np.ndarray, signs: np.ndarray, costs: np.ndarray) -> None:
        self.offsets, self.positive = offsets, np.flatnonzero(signs > 0)
        self.inside = np.repeat(signs > 0, np.diff(offsets))
        self.costs = np.repeat(costs, np.diff(offsets))
        self.scale = rounding_scale(costs)

    def value(self, scores: np.ndarray, norm2: float, intercept: float) -> tuple[float, float]:
        """J with the best intercept for the labels at the given one."""
        labels = self.linearised(scores, intercept)
        b = optimal_intercept(scores, labels, self.costs)
        hinge = np.maximum(0.0, 1.0 - labels * (scores + b))
        return 0.5 * norm2 + float(self.costs @ hinge), b

    def linearised(
        self, scores: np.ndarray, intercept: float, value: float | None = None
    ) -> np.ndarray:
        """The labels of smallest loss: the signs of the scores, at least one positive per bag."""
        labels = np.where(self.inside & (scores + intercept > 0), 1.0, -1.0)
        labels[segment_argmax(scores, self.offsets)[self.positive]] = 1.0
        return labels

    def step(self, labels: np.ndarray) -> Groups:
        """The support vector machine for labels."""
        n = len(labels)
        return Groups.of_rows(np.arange(n), n, np.arange(n + 1), labels, self.costs)

    def widened(
        self, scores: np.ndarray, intercept: float, norm2: float
    ) -> tuple[float, float, np.ndarray]:
        """The multiple of a function, doubled while that lowers J, its intercept and labels.

        Where every instance is labelled, margins are wider than with one of each bag.
        """
        best, factor = np.inf, 1.0
        while factor < 2.0**10:
            value, b = self.value(factor * scores, factor**2 * norm2, factor * intercept)
            if value >= best:
                break
            best, found = value, (factor, b, self.linearised(scores, intercept))
            factor *= 2.0
        return found


# -- over rows -------------------------------------------------------------------------------------


@dataclass
class MISVMProblem:
    r"""Bags with their ranks, from 0 and without gaps, and the costs of their slacks.

    With ranks :math:`r_i \in \{0, \dots, T\}`, costs :math:`c_i`, the highest scores
    :math:`f_i = \max_j \langle w, x_{ij} \rangle` and the intercepts :math:`b_0, \dots, b_{T-1}`,

    .. math::

        J(w, b) = \tfrac12 \|w\|^2 + \sum_i c_i \Bigl(
        \sum_{t < r_i} [1 - (f_i + b_t)]_+ + \sum_{t \ge r_i} [1 + (f_i + b_t)]_+ \Bigr) .

    A bag is positive for the intercepts below its rank and negative for the others. With two
    classes T = 1, and this is MI-SVM; each instance of a negative bag may then have a slack of its
    own, as if it were a bag. Intercepts are the negative thresholds between ordered classes. For
    fixed w the best ones are those of T separate problems of one variable, so they are in order:
    the bags above a threshold are also above the lower ones.
    """

    source: PassSource
    ranks: np.ndarray
    costs: np.ndarray
    # Whether each instance of a negative bag has a slack; only for two classes.
    by_instance: bool = False

    def __post_init__(self) -> None:
        self.n_intercepts = int(self.ranks.max())
        # The bags with witnesses, and the intercepts for which a bag is positive.
        self.upper = np.flatnonzero(self.ranks > 0)
        self.above = np.arange(self.n_intercepts) < self.ranks[:, None]
        # Cost of all slacks of each bag, if it is negative.
        sizes = np.diff(self.source.offsets)
        self.negative_costs = self.costs * sizes if self.by_instance else self.costs
        # The smallest value of a constant function.
        sides = self.costs @ self.above, self.negative_costs @ ~self.above
        self.at_zero = 2.0 * float(np.minimum(*sides).sum())

    def part(self, source: PassSource, bags: np.ndarray) -> MISVMProblem:
        """The problem of some bags."""
        return replace(self, source=source, ranks=self.ranks[bags], costs=self.costs[bags])

    def between(self, witnesses: Matrix, rows: Matrix, bags: np.ndarray) -> Point:
        """A rough function between witnesses and rows that stand for some bags."""
        alone = np.arange(len(bags) + 1)
        costs = np.where(self.ranks > 0, self.costs, self.negative_costs)
        source = ArraySource(rows, alone)
        part = replace(self, source=source, ranks=self.ranks[bags], costs=costs[bags])
        step, _ = part.step(witnesses, WorkingSet(rows, alone[:-1], alone[:-1]))
        found = step.solve((np.zeros(rows.shape[1]), np.zeros(part.n_intercepts)), _START_TOL)
        return found.w, found.v

    def along(self, direction: np.ndarray, tops: np.ndarray) -> Point:
        """A multiple of a direction of length one, by the highest scores of all bags."""
        problem, rows = replace(self, by_instance=False), tops[:, None]
        factor, v = problem.between(rows[self.upper], rows, np.arange(len(tops)))
        return factor[0] * direction, v

    def value(
        self,
        point: Point,
        tops: np.ndarray,
        of_witnesses: np.ndarray,
        of_instances: float | None = None,
    ) -> float:
        """J for the highest scores of all bags and scores of the witnesses.

        ``of_instances`` are the losses of instances with slacks.
        """
        w, b = point
        negative = of_instances
        if negative is None:
            hinges = np.maximum(0.0, 1.0 + tops[:, None] + b)
            negative = float(self.costs @ np.where(self.above, 0.0, hinges).sum(axis=1))
        hinges = np.maximum(0.0, 1.0 - of_witnesses[:, None] - b)
        positive = np.where(self.above[self.upper], hinges, 0.0).sum(axis=1)
        return 0.5 * float(w @ w) + negative + float(self.costs[self.upper] @ positive)

    def step(
        self,
        witnesses: Matrix,
        working: WorkingSet,
        beyond: np.ndarray | None = None,
        double_numbers: float = DOUBLE_NUMBERS,
    ) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over a working set, and the keys of its rows.

        The witnesses come first and the sum of the rows beyond the band last. Rows in float32 stay
        in it if they have more than ``double_numbers`` numbers.
        """
        T, owners = self.n_intercepts, working.owners
        counts = self.ranks[self.upper]
        place, t_above = np.repeat(np.arange(len(counts)), counts), np.nonzero(self.above)[1]
        new = np.ones(len(owners), dtype=bool)
        if not self.by_instance:
            new[1:] = owners[1:] != owners[:-1]
        ends = np.append(np.flatnonzero(new), len(owners))
        owner = owners[ends[:-1]]
        group, t_group = np.nonzero(np.arange(T) >= self.ranks[owner][:, None])
        picked, offsets = gather_rows(ends, group)
        t_below, n_above = np.repeat(t_group, np.diff(offsets)), len(place)
        keys = [(self.source.n_instances + self.upper[place]) * T + t_above]
        keys += [working.numbers[picked] * T + t_below]
        parts, costs = [(witnesses, place), (working.rows, picked)], [self.costs[self.upper[place]]]
        costs += [self.costs[owner[group]]]
        if beyond is not None and beyond[-1] > 0:
            mean: Matrix = beyond[None, :-1] / beyond[-1]
            if sparse.issparse(witnesses):
                mean = sparse.csr_array(mean)
            parts, costs = [*parts, (mean, np.zeros(1, dtype=np.intp))], [*costs, beyond[-1:]]
            keys, offsets = [*keys, np.array([-1])], np.append(offsets, offsets[-1] + 1)
            t_below = np.append(t_below, 0)
        Z, numbers = rows_of_parts(parts, double_numbers), np.arange(n_above + len(t_below))
        # A slice of a CSR array would be assigned entry by entry.
        above = Z.data[: Z.indptr[n_above]] if sparse.issparse(Z) else Z[:n_above]
        above *= -1.0
        e = np.zeros((len(numbers), T))
        e[numbers, np.r_[t_above, t_below]] = np.where(numbers < n_above, -1.0, 1.0)
        bounds = np.r_[np.arange(n_above), n_above + offsets]
        return GroupProblem(Z, e, bounds, np.concatenate(costs)), np.concatenate(keys)


def rows_of_parts(
    parts: list[tuple[Matrix, np.ndarray]], double_numbers: float, at_once: int = 2**14
) -> Matrix:
    """Rows with the given numbers of each matrix; dense ones are many, and are copied once."""
    if sparse.issparse(parts[0][0]):
        return stacked([rows[numbers] for rows, numbers in parts])
    all_rows, all_numbers = zip(*parts, strict=True)
    n_rows, n_columns = sum(map(len, all_numbers)), all_rows[0].shape[1]
    single = n_rows * n_columns > double_numbers and parts[1][0].dtype == np.float32
    found, first = np.empty((n_rows, n_columns), dtype=np.float32 if single else np.float64), 0
    for rows, numbers in parts:
        for start in range(0, len(numbers), at_once):
            some = numbers[start : start + at_once]
            found[first : first + len(some)] = rows[some]
            first += len(some)
    return found
