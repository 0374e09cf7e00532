"""A lower bound of instance selection from a mixture of selections.

With multipliers g_i of the positive bags and a_j of the instances of negative ones, a selection
h (one instance of each positive bag) has the dual value

    D(g, a; h) = sum g + sum a - 1/2 |W(h)|^2,    W(h) = sum_i g_i z_i,h(i) - sum_j a_j z_j
    over 0 <= g_i <= c_i, 0 <= a_j <= c_j, sum g = sum a

and the optimum of instance selection is min_h max_{g,a} D >= max_{g,a} min_h D. The right side is
the label-generating relaxation of Li, Tsang, Kwok & Zhou (2013): a support vector machine whose
kernel is a mixture of those of the selections. Selections are generated one by one: the one with
the largest |W(h)| under the present multipliers joins the mixture.

Finding that selection is a hard problem itself, so a local search generates and does not prove.
What proves is this: *any* feasible (g, a) gives a bound once |W(h)|^2 <= U is known for all h,
and scaling it by t in [0, 1] gives max_t t S - t^2 U / 2 with S = sum g + sum a > 0, which is
above zero. U is the maximum itself where all selections can be counted, else the bound of
:func:`largest_norm`. Neither the SVM nor the search need be exact for the bound to hold.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ..._bags.segments import segment_index, segment_max, segment_mean
from ..._compat import LimitedSVC
from .guo_relaxation import RelaxationProblem

__all__ = ["SelectionBound", "bound_selection", "largest_norm"]

_COUNTABLE = 20_000
_MIXTURES = 10
_BOUND_RTOL = 1e-3
_PATIENCE = 5


@dataclass
class SelectionBound:
    """Lower bound and mixture of selections.

    Attributes
    ----------
    lower_bound : float
        No selection and no SVM has a lower objective.
    selections : ndarray of shape (n_selections, n_positive_bags)
        Rows of the instances, in the order of the relaxation (positive bags first).
    eta : ndarray of shape (n_positive_instances,)
        Part of the mixture that selects each instance.
    exact : bool
        Whether U was the maximum itself where the bound was found.
    n_rounds : int
    """

    lower_bound: float
    selections: np.ndarray
    eta: np.ndarray
    exact: bool
    n_rounds: int


def bound_selection(
    problem: RelaxationProblem,
    start: np.ndarray,
    *,
    max_rounds: int = 30,
    countable: int = _COUNTABLE,
) -> SelectionBound:
    """Generate selections and return the best bound on the way.

    Parameters
    ----------
    problem : RelaxationProblem
        Its features must have the inner products of the kernel, not an approximation of them.
    start : ndarray of shape (n_positive_bags,)
        The first selection.
    max_rounds : int, default=30
    countable : int, default=20000
        Maximum number of selections that are all looked at.
    """
    p = problem.n_positive
    Z, offsets = problem.features[:p], problem.bag_offsets
    svm = _MixtureSVM(problem)
    pool, mixture = start[None], np.ones(1)
    best, exact, waited, rounds = 0.0, False, 0, 0
    for rounds in range(1, max_rounds + 1):  # noqa: B007
        mixture, g, base, largest = svm.mix(pool, mixture)
        step = g[segment_index(offsets)][:, None] * Z
        counted = _count(offsets, g, countable)
        if counted:
            top, found = _largest_of_all(step, base, offsets, g, start)
        else:
            top = largest_norm(step, base, offsets, mixture_of(pool, mixture, p))
            found = _local_search(step, base, offsets, pool[np.argmax(svm.norms)])
        total = svm.total
        share = min(1.0, total / top) if top > 0 else 1.0
        bound = share * total - 0.5 * share**2 * top
        waited = 0 if bound > best * (1 + _BOUND_RTOL) else waited + 1
        if bound > best:
            best, exact = bound, counted
        reached = float(np.sum((step[found].sum(axis=0) - base) ** 2))
        if reached <= largest * (1 + _BOUND_RTOL) or waited >= _PATIENCE:
            break
        if (pool == found).all(axis=1).any():
            break
        pool = np.vstack([pool, found])
        mixture = np.append(mixture * (1 - 1 / len(pool)), 1 / len(pool))
    return SelectionBound(
        lower_bound=best,
        selections=pool,
        eta=mixture_of(pool, mixture[: len(pool)], p),
        exact=exact,
        n_rounds=rounds,
    )


def mixture_of(pool: np.ndarray, mixture: np.ndarray, n: int) -> np.ndarray:
    """Part of a mixture of selections that selects each of n instances."""
    return np.bincount(pool.ravel(), np.repeat(mixture, pool.shape[1]), minlength=n)


class _MixtureSVM:
    """Support vector machines under mixtures of selections."""

    def __init__(self, problem: RelaxationProblem) -> None:
        p, offsets = problem.n_positive, problem.bag_offsets
        self.Z, self.N = problem.features[:p], problem.features[p:]
        self.inner = self.N @ self.N.T
        self.costs = np.append(problem.costs[offsets[:-1]], problem.costs[p:])
        self.n_bags = len(offsets) - 1
        self.signs = np.repeat([1.0, -1.0], [self.n_bags, len(self.N)])
        self.total = 0.0
        self.norms = np.zeros(0)

    def mix(
        self, pool: np.ndarray, mixture: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Weights of the mixture, g, the sum over negative instances and the largest |W|^2.

        Each SVM is followed by the weights that are best for its w, |w_k| over their sum.
        """
        for _ in range(_MIXTURES):
            g, base = self._solve(pool, mixture)
            W = np.einsum("kir,i->kr", self.Z[pool], g) - base
            self.norms = np.einsum("kr,kr->k", W, W)
            largest, mean = float(self.norms.max()), float(mixture @ self.norms)
            if largest <= mean * (1 + _BOUND_RTOL):
                break
            weights = mixture * np.sqrt(self.norms)
            mixture = weights / weights.sum()
        return mixture, g, base, largest

    def _solve(self, pool: np.ndarray, mixture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n = self.n_bags
        kernel = np.empty((len(self.signs), len(self.signs)))
        kernel[n:, n:] = self.inner
        blocks = self.Z[pool]
        kernel[:n, :n] = sum(
            share * block @ block.T for share, block in zip(mixture, blocks, strict=True)
        )
        kernel[:n, n:] = np.tensordot(mixture, blocks, axes=1) @ self.N.T
        kernel[n:, :n] = kernel[:n, n:].T
        # Multipliers of an unfinished SVM are feasible too; the bound tells their worth.
        limit = 20 * len(self.signs) ** 2
        svm = LimitedSVC(kernel="precomputed", C=1.0, tol=1e-4, max_iter=limit)
        svm.fit(kernel, self.signs, sample_weight=self.costs)
        dual = np.zeros(len(self.signs))
        dual[svm.support_] = np.abs(svm.dual_coef_[0])
        dual = np.minimum(dual, self.costs)
        g, a = dual[:n], dual[n:]
        # Feasible to the last digit: the larger side is scaled down to the other.
        total = min(g.sum(), a.sum())
        g, a = g * (total / g.sum()), a * (total / a.sum())
        self.total = 2.0 * float(total)
        return g, a @ self.N


def largest_norm(step: np.ndarray, base: np.ndarray, offsets: np.ndarray, eta: np.ndarray) -> float:
    """An upper bound of |sum_i step[h(i)] - base|^2 over all choices h of one row per bag.

    Rows are counted from a centre of their bag, s = m + d. The square is then
    |M|^2 + sum_i (2 M.d_i + |d_i|^2 + sum_{k != i} d_i.d_k) with M = sum_i m_i - base, and each bag
    may take the best row on the assumption that every other bag meets it as well as it can. Of
    two centres, the mean and that of ``eta``, the better one counts.
    """
    bag = segment_index(offsets)
    found = []
    for weights in (None, eta):
        if weights is None:
            centres = segment_mean(step, offsets)
        else:
            centres = np.add.reduceat(weights[:, None] * step, offsets[:-1], axis=0)
        d = step - centres[bag]
        M = centres.sum(axis=0) - base
        products = d @ d.T
        met = segment_max(products.T, offsets).T
        own = met[np.arange(len(bag)), bag]
        each = 2.0 * d @ M + np.diagonal(products) + met.sum(axis=1) - own
        found.append(float(M @ M + segment_max(each, offsets).sum()))
    return min(found)


def _count(offsets: np.ndarray, g: np.ndarray, countable: int) -> bool:
    """Whether the selections that differ in a bag with a multiplier can all be looked at."""
    sizes = np.diff(offsets)[g > 0]
    return countable > 0 and float(np.log(sizes).sum()) <= np.log(countable)


def _largest_of_all(
    step: np.ndarray, base: np.ndarray, offsets: np.ndarray, g: np.ndarray, start: np.ndarray
) -> tuple[float, np.ndarray]:
    """The largest |sum_i step[h(i)] - base|^2 and where it is, over all selections."""
    used = np.flatnonzero(g > 0)
    choices = np.array(
        list(itertools.product(*(range(offsets[i], offsets[i + 1]) for i in used))), dtype=np.intp
    ).reshape(-1, len(used))
    gram = step @ step.T
    along = step @ base
    norms = np.zeros(len(choices))
    for one in range(len(used)):
        norms -= 2.0 * along[choices[:, one]]
        for other in range(len(used)):
            norms += gram[choices[:, one], choices[:, other]]
    top = int(np.argmax(norms))
    found = start.copy()
    found[used] = choices[top]
    return float(norms[top] + base @ base), found


def _local_search(
    step: np.ndarray, base: np.ndarray, offsets: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Change one bag at a time while |sum_i step[h(i)] - base| grows."""
    found = start.copy()
    W = step[found].sum(axis=0) - base
    changed = True
    while changed:
        changed = False
        for i, (first, end) in enumerate(itertools.pairwise(offsets)):
            rest = W - step[found[i]]
            squares = np.sum((rest + step[first:end]) ** 2, axis=1)
            row = first + int(np.argmax(squares))
            if squares[row - first] > squares[found[i] - first] * (1 + 1e-9):
                found[i] = row
                W = rest + step[row]
                changed = True
    return found
