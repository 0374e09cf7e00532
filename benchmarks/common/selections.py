"""Selections of one instance of each positive bag, enumerated.

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


def lowest(problem: Selections, max_solved: int = 20_000) -> float:
    """A lower bound of the optimum over all selections, which is tight where the search ends.

    Selections are enumerated, but none whose first choices alone cost more than a known solution.

    A node has chosen an instance of some of the positive bags. Its support vector machine ignores
    the other positive bags, so its value is a lower bound of all selections that complete the node.
    The node with the lowest bound is taken first, and it branches on the bag with the largest loss.

    Parameters
    ----------
    problem : Selections
    max_solved : int, default=20000
        Support vector machines after which the search ends with its bounds. The node that reaches
        this number is finished.
    """
    n_solved, upper = 0, np.inf
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
            upper = min(upper, value)
            below = max(bound, found.lower)
            at = np.searchsorted(problem.offsets, rows, side="right") - 1
            others = np.delete(np.arange(problem.n_bags), at)
            open_losses = losses[highest][others]
            if not open_losses.any() or below >= (1 - _GAP) * upper:
                left = min(left, below)
            else:
                branch = int(others[np.argmax(open_losses)])
                heapq.heappush(heap, (below, n_solved, rows, branch))
    return float(min([upper, left, *(each[0] for each in heap[:1])]))
