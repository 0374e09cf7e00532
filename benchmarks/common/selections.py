"""Selections of one instance of each positive bag: the best one, and one found by annealing.

The problem is that of linear ``MISVC(slack="instance")``, of ``SDPMIL`` and of ``WellSVC``, written
as a minimum over selections h of support vector machines,

    min_h min_{w,b}  1/2 |w|^2 + C sum_{y_i=1} [1 - f(x_{i h(i)})]_+
                     + C sum_{y_i=0} sum_j [1 + f(x_ij)]_+ .

Every support vector machine here is scikit-learn's: nothing is taken from the package.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from sklearn.svm import SVC

from milearn import Bags

__all__ = ["Branched", "Selections", "annealed", "branch_and_bound"]

# Of the support vector machines, and the relative gap at which the search ends.
_TOL, _GAP = 1e-4, 1e-4


@dataclass(frozen=True)
class Solution:
    """A support vector machine: values of its dual and of its problem, scores of ``rows``."""

    lower: float
    upper: float
    scores: np.ndarray


class Selections:
    """The problem for bags with classes 0 and 1.

    Parameters
    ----------
    bags : Bags
        Dense instances.
    y : ndarray of shape (n_bags,), 0 or 1
    C : float
    """

    def __init__(self, bags: Bags, y: np.ndarray, C: float) -> None:
        self.C = C
        labels = np.repeat(y, bags.sizes)
        self.negative = np.asarray(bags.instances[labels == 0], dtype=np.float64)
        self.rows = np.asarray(bags.instances[labels == 1], dtype=np.float64)
        self.offsets = np.concatenate([[0], np.cumsum(bags.sizes[y == 1])])
        # Where these rows are in the bags.
        self.places = np.flatnonzero(labels == 1)

    @property
    def n_bags(self) -> int:
        """Number of positive bags."""
        return len(self.offsets) - 1

    def span(self, bag: int) -> np.ndarray:
        """Rows of a positive bag."""
        return np.arange(self.offsets[bag], self.offsets[bag + 1])

    def solved(self, chosen: np.ndarray) -> Solution:
        """The support vector machine of the chosen rows and all negative instances.

        ``lower`` is the value of a feasible point of the dual, so the optimum is not below it.
        """
        X = np.concatenate([self.rows[chosen], self.negative])
        labels = np.repeat([1, 0], [len(chosen), len(self.negative)])
        model = SVC(kernel="linear", C=self.C, tol=_TOL).fit(X, labels)
        w, constant = model.coef_[0], model.intercept_[0]
        norm = 0.5 * float(w @ w)
        scores = X @ w + constant
        loss = np.maximum(0.0, 1.0 - np.where(labels == 1, scores, -scores)).sum()
        lower = float(np.abs(model.dual_coef_).sum()) - norm
        return Solution(lower, norm + self.C * float(loss), self.rows @ w + constant)

    def highest(self, scores: np.ndarray) -> np.ndarray:
        """Row with the highest score in each positive bag."""
        return np.array([bag[scores[bag].argmax()] for bag in map(self.span, range(self.n_bags))])

    def first(self) -> np.ndarray:
        """The instance of each positive bag that is nearest to the mean of the bag."""
        found = []
        for bag in range(self.n_bags):
            rows = self.rows[self.span(bag)]
            found.append(self.offsets[bag] + ((rows - rows.mean(axis=0)) ** 2).sum(axis=1).argmin())
        return np.array(found)


@dataclass(frozen=True)
class Branched:
    """Bounds of the optimum over all selections, and the best selection that was met.

    Attributes
    ----------
    lower, upper : float
        The optimum is between them. ``upper`` is the objective of a known solution.
    selection : ndarray of shape (n_positive,), or None
        Rows of that solution; None if none is below the one that was passed.
    n_solved : int
        Support vector machines.
    """

    lower: float
    upper: float
    selection: np.ndarray | None
    n_solved: int

    @property
    def closed(self) -> bool:
        """Whether both are the optimum up to the tolerance of the search."""
        return self.lower >= (1 - 2 * _GAP) * self.upper


def branch_and_bound(
    problem: Selections, upper: float = np.inf, max_solved: int = 20_000
) -> Branched:
    """Enumerate selections, but none whose first choices alone cost more than a known solution.

    A node has chosen an instance of some of the positive bags. Its support vector machine ignores
    the other positive bags, so its value is a lower bound of all selections that complete the node.
    The node with the lowest bound is taken first, and it branches on the bag with the largest loss.

    Parameters
    ----------
    problem : Selections
    upper : float, default=inf
        Objective of a known solution.
    max_solved : int, default=20000
        Support vector machines after which the search ends with its bounds. The node that reaches
        this number is finished.
    """
    n_solved, selection = 0, None
    # Bound, number of the node, chosen rows, bag to branch on.
    heap = [(0.0, 0, np.zeros(0, dtype=np.intp), int(np.argmin(np.diff(problem.offsets))))]
    # The lowest bound of nodes that are complete, or not below ``upper``.
    left = np.inf
    while heap and n_solved < max_solved and heap[0][0] < (1 - _GAP) * upper:
        bound, _, chosen, bag = heapq.heappop(heap)
        for row in problem.span(bag):
            rows = np.append(chosen, row)
            found = problem.solved(rows)
            n_solved += 1
            # The function of the node is a solution with its highest instances.
            highest = problem.highest(found.scores)
            losses = problem.C * np.maximum(0.0, 1.0 - found.scores)
            value = found.upper - losses[rows].sum() + losses[highest].sum()
            if value < upper:
                upper, selection = value, highest
            below = max(bound, found.lower)
            at = np.searchsorted(problem.offsets, rows, side="right") - 1
            others = np.delete(np.arange(problem.n_bags), at)
            open_losses = losses[highest][others]
            if not open_losses.any() or below >= (1 - _GAP) * upper:
                left = min(left, below)
            else:
                branch = int(others[np.argmax(open_losses)])
                heapq.heappush(heap, (below, n_solved, rows, branch))
    lower = min([upper, left, *(each[0] for each in heap[:1])])
    return Branched(float(lower), float(upper), selection, n_solved)


def annealed(
    problem: Selections,
    n_steps: int,
    rng: np.random.RandomState,
    temperatures: tuple[float, float] = (0.1, 1e-4),
) -> np.ndarray:
    """Simulated annealing: one positive bag at a time gets another instance.

    A selection with a higher objective is accepted with probability exp(-increase / T). T decreases
    geometrically between the two temperatures, in units of the first objective.

    Returns
    -------
    ndarray of shape (n_positive,)
        The rows of the best selection that was met, in the order of the positive bags.
    """
    chosen = problem.first()
    value = problem.solved(chosen).lower
    best, lowest = chosen, value
    movable = np.flatnonzero(np.diff(problem.offsets) > 1)
    for temperature in value * np.geomspace(*temperatures, n_steps):
        bag = movable[rng.randint(len(movable))]
        changed = chosen.copy()
        span = problem.span(bag)
        changed[bag] = rng.choice(span[span != chosen[bag]])
        other = problem.solved(changed).lower
        if rng.random_sample() < np.exp(min(0.0, value - other) / temperature):
            chosen, value = changed, other
        if value < lowest:
            best, lowest = chosen, value
    return best
