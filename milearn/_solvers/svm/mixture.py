r"""Instance selection relaxed to a mixture of selections: label generation, and a lower bound.

With multipliers g_i of positive bags and a_j of instances of negative bags, a selection h (one
instance of each positive bag) has the dual value

    D(g, a; h) = sum g + sum a - 1/2 |W(h)|^2,    W(h) = sum_i g_i z_i,h(i) - sum_j a_j z_j
    over 0 <= g_i <= c_i, 0 <= a_j <= c_j, sum g = sum a

and the optimum of instance selection is min_h max_{g,a} D >= max_{g,a} min_h D. The right side is
the label-generating relaxation of Li, Tsang, Kwok & Zhou (2013): a support vector machine with the
best mixture of the kernels of all selections. Selections are generated one at a time. The master
problem is the relaxation over mixtures of a pool of selections. The selection with the largest
|W(h)| is added to the pool as long as it exceeds those of the pool. It is found by enumeration if
there are few selections, and otherwise by a local search that changes one bag at a time.

The master minimises a convex function of the mixture m, J(m) = max_{g,a} sum g + sum a
- 1/2 sum_k m_k |W(h_k)|^2, by a bundle method. Every (g, a) gives a linear lower bound of J. The
next mixture minimises the maximum of these bounds plus the second-order term of J at the best
mixture so far, in which the multipliers at their bounds are fixed. A mixture that does not lower J
adds its linear function; if its value is far above the prediction, the second-order term is
doubled. Averages of (g, a) give the lower bound sum g + sum a - 1/2 max_k |W(h_k)|^2 of J.

The lower bound does not require that the master or the search is exact. *Any* feasible (g, a) gives
a lower bound if |W(h)|^2 <= U for all h. With multipliers scaled by t in [0, 1] it is
max_t t S - t^2 U / 2 with S = sum g + sum a, which is above zero. U is the maximum if all
selections are compared, and :func:`largest_norm` otherwise.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, optimize

from ..._bags.segments import gather_rows, segment_index, segment_max
from ..._compat import LimitedSVC
from ...exceptions import SolverError
from ..common.cccp import optimal_intercept
from ..common.qp import QPProblem, solve_qp

_MOST_CUTS = 60
_STALLS = 5
# Smallest fraction of the predicted decrease that a step has to reach.
_DESCENT = 1e-2
_AT_BOUND = 1e-6
_RIDGE = 1e-9
_MODEL_TOL = 1e-7
_SVC_SHARE, _SVC_TOL = 1e-3, 1e-8
_SVC_STEPS = 200
_MOST_STEPS = 2**31 - 1  # libsvm counts in 32 bits
_ROUNDING = 1e-9
# Differences of scores up to this multiple of their precision count as zero.
_NOISE = 30.0
_EPS = float(np.finfo(np.float64).eps)
_VANISHED = 1e-10
# Number of kernel values per block.
_ENTRIES = 2**20


@dataclass(frozen=True)
class MixtureProblem:
    """Inner products of the instances of two classes of bags, with the positive bags first."""

    gram: np.ndarray
    offsets: np.ndarray  # of the positive bags
    bag_costs: np.ndarray  # of the positive bags
    costs: np.ndarray  # of the negative instances

    @property
    def n_positive(self) -> int:
        """Number of instances of positive bags."""
        return int(self.offsets[-1])

    @cached_property
    def signs(self) -> np.ndarray:
        """Signs of the instances of a selection, then of the negative instances."""
        return np.repeat([1.0, -1.0], [len(self.bag_costs), len(self.costs)])

    @cached_property
    def all_costs(self) -> np.ndarray:
        """Costs of the instances of a selection, then of the negative instances."""
        return np.concatenate([self.bag_costs, self.costs])

    @cached_property
    def _mixed(self) -> np.ndarray:
        # The block of the negative instances, which is the largest, is the same for all mixtures.
        n = len(self.bag_costs)
        out = np.empty((n + len(self.costs),) * 2)
        out[n:, n:] = self.gram[self.n_positive :, self.n_positive :]
        return out

    def mixed(self, pool: np.ndarray, mixture: np.ndarray) -> np.ndarray:
        """The kernel of a mixture; the next call overwrites the array."""
        p, n, out = self.n_positive, len(self.bag_costs), self._mixed
        out[:n] = 0.0
        for k in np.flatnonzero(mixture):
            h = pool[k]
            out[:n, :n] += mixture[k] * self.gram[np.ix_(h, h)]
            out[:n, n:] += mixture[k] * self.gram[h, p:]
        out[n:, :n] = out[:n, n:].T
        return out

    def coefficients(self, selection: np.ndarray, g: np.ndarray, a: np.ndarray) -> np.ndarray:
        """W(h) as coefficients of the instances."""
        return np.concatenate([np.bincount(selection, g, self.n_positive), -a])

    def highest(self, scores: np.ndarray) -> np.ndarray:
        """The highest score of each positive bag, then the scores of the negative instances."""
        p = self.n_positive
        return np.concatenate([segment_max(scores[:p], self.offsets), scores[p:]])

    def loss(self, values: np.ndarray) -> float:
        """Sum of the losses at the scores of :meth:`highest`, with the intercept."""
        return float(self.all_costs @ np.maximum(0.0, 1.0 - self.signs * values))


@dataclass(frozen=True)
class MergedSelection:
    """Equal bags of a class merged, in an order that depends only on their contents."""

    problem: MixtureProblem
    points: np.ndarray  # the point of each instance of the problem
    bags: np.ndarray  # the merged bag of each positive bag
    _sorted: np.ndarray  # original rows of the positive bags, by bag and point
    _starts: np.ndarray  # start of each positive bag in these

    @classmethod
    def of(
        cls,
        gram: np.ndarray,
        point_of: np.ndarray,
        offsets: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
    ) -> MergedSelection:
        """Merge bags; ``gram`` is the kernel of the points, ``point_of`` the point of each row."""
        order = np.lexsort((point_of, segment_index(offsets)))
        keys = [
            (-sign, *point_of[order[first:last]].tolist())
            for sign, (first, last) in zip(signs, itertools.pairwise(offsets), strict=True)
        ]
        numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
        merged = np.array([numbers[key] for key in keys])
        _, first_bags = np.unique(merged, return_index=True)
        rows, merged_offsets = gather_rows(offsets, first_bags)
        points = point_of[order[rows]]
        costs = np.bincount(merged, weights)
        n = int((signs[first_bags] > 0).sum())
        problem = MixtureProblem(
            gram[np.ix_(points, points)],
            merged_offsets[: n + 1],
            costs[:n],
            np.repeat(costs[n:], np.diff(merged_offsets[n:])),
        )
        positive = np.flatnonzero(signs > 0)
        taken, starts = gather_rows(offsets, positive)
        return cls(problem, points, merged[positive], order[taken], starts[:-1])

    def start(self, selection: np.ndarray) -> np.ndarray:
        """The selection of the problem for a selection of original rows."""
        place = {row: number for number, row in enumerate(self._sorted.tolist())}
        inside = np.array([place[row] for row in selection.tolist()]) - self._starts
        found = np.empty(len(self.problem.bag_costs), dtype=np.intp)
        # If equal bags have different selections, use that of the first bag.
        found[self.bags[::-1]] = (self.problem.offsets[self.bags] + inside)[::-1]
        return found

    def rows(self, selection: np.ndarray) -> np.ndarray:
        """The original rows of all positive bags for a selection of the problem."""
        inside = selection[self.bags] - self.problem.offsets[self.bags]
        return np.asarray(self._sorted[self._starts + inside])

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of the instances of positive bags in the original order."""
        inside, _ = gather_rows(self.problem.offsets, self.bags)
        return np.asarray(values[inside][np.argsort(self._sorted)])


@dataclass(frozen=True)
class MixtureResult:
    """A mixture of selections with its function and bounds."""

    beta: np.ndarray  # the mixture of the functions W(h), as coefficients of the instances
    eta: np.ndarray  # weight of the selections with each instance of a positive bag
    selections: np.ndarray
    mixture: np.ndarray
    value: float  # of the relaxation over the pool
    gap: float  # bound on the difference of the value from its minimum over mixtures of the pool
    lower_bound: float  # of the objective over all selections
    precision: float  # of the scores of the support vector machine
    n_iter: int
    n_svms: int
    complete: bool  # no further selection was found that lowers the value
    converged: bool  # and the gap of the mixture is within the tolerance
    failure: str  # why the last mixture of the pool is not more precise, if its program failed


def mix_selections(
    problem: MixtureProblem,
    start: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    countable: int = 20_000,
    max_mixtures: int = 200,
) -> MixtureResult:
    """Generate selections until no further selection lowers the value.

    Parameters
    ----------
    problem : MixtureProblem
    start : ndarray of shape (n_positive_bags,)
        The first selection, rows of the Gram matrix.
    tol : float
        Relative tolerance for the gap of a master and for the gain of another selection.
    max_iter : int
        Maximum number of selections.
    countable : int, default=20000
        Maximum number of selections that are all compared.
    max_mixtures : int, default=200
        Maximum number of mixtures that a master evaluates.
    """
    precision = max(_SVC_SHARE * tol, _SVC_TOL)
    pool, mixture = start[None], np.ones(1)
    lower, n_iter, n_svms, complete = 0.0, 0, 0, False
    while True:
        n_iter += 1
        master, fitted = _master(problem, pool, mixture, tol, max_mixtures)
        mixture, g, a = master.mixture, master.g, master.a
        n_svms += fitted
        eta = np.bincount(pool.ravel(), np.repeat(mixture, pool.shape[1]), problem.n_positive)
        free = np.flatnonzero(g > 0)
        counted = np.log(np.diff(problem.offsets)[free]).sum() <= np.log(max(countable, 0.5))
        if counted:
            candidates = _every_selection(problem, free, pool[0])
        else:
            order = np.argsort(-master.norms, kind="stable")[:2]
            candidates = np.stack([_searched(problem, pool[k], g, a) for k in order])
        norms = _norms(problem, candidates, g, a)
        found, reached = candidates[int(norms.argmax())], float(norms.max())
        largest = reached if counted else largest_norm(problem, g, a, eta)
        # Scaled multipliers are feasible, and the bound is above zero.
        total = float(g.sum() + a.sum())
        share = min(1.0, total / largest) if largest > 0 else 1.0
        lower = max(lower, share * total - 0.5 * share**2 * largest)
        gained = 0.5 * (reached - float(master.norms.max()))
        if gained <= tol * master.value or (pool == found).all(axis=1).any():
            complete = True
            break
        if n_iter >= max_iter:
            break
        pool = np.vstack([pool, found])
        mixture = np.append(mixture * (1 - 1 / len(pool)), 1 / len(pool))
    return MixtureResult(
        beta=np.concatenate([eta * np.repeat(g, np.diff(problem.offsets)), -a]),
        eta=eta,
        selections=pool,
        mixture=mixture,
        value=master.value,
        gap=master.gap,
        lower_bound=lower,
        precision=precision,
        n_iter=n_iter,
        n_svms=n_svms,
        complete=complete,
        converged=complete and master.gap <= tol * master.value,
        failure=master.failure,
    )


@dataclass
class _Master:
    mixture: np.ndarray
    g: np.ndarray
    a: np.ndarray
    norms: np.ndarray
    value: float
    gap: float
    svm_gap: float
    free: np.ndarray
    free_kernel: np.ndarray
    failure: str = ""


def _master(
    problem: MixtureProblem, pool: np.ndarray, mixture: np.ndarray, tol: float, max_mixtures: int
) -> tuple[_Master, int]:
    """The best mixture of a pool, from a given start, and the number of evaluated mixtures."""
    best = _svm_of(problem, pool, mixture, tol)
    cuts, metric, stalls, n_svms = [best], _hessian(problem, pool, best), 0, 1
    for _ in range(max_mixtures):
        if best.gap <= tol * best.value:
            break
        try:
            mixture, predicted, below = _model_minimum(cuts, best, metric)
        except SolverError as error:
            # The cuts are not precise enough for a gap of this size. The gap is reported.
            best.failure = str(error)
            break
        best.gap = min(best.gap, best.value - below)
        if predicted <= 2.0 * best.svm_gap:
            # Either the precision of the support vector machine is reached, or the second-order
            # term keeps the step too short.
            stalls += 1
            if stalls > _STALLS:
                break
            metric = 0.1 * metric
            continue
        stalls = 0
        found = _svm_of(problem, pool, mixture, tol)
        n_svms += 1
        cuts = [*cuts[-_MOST_CUTS:], found]
        if found.value <= best.value - _DESCENT * predicted:
            found.gap = min(found.gap, best.gap - (best.value - found.value))
            best, metric = found, _hessian(problem, pool, found)
        elif found.value > best.value + predicted:
            metric = 2.0 * metric
    return best, n_svms


def _svm_of(problem: MixtureProblem, pool: np.ndarray, mixture: np.ndarray, tol: float) -> _Master:
    """The support vector machine with the kernel of a mixture."""
    n, signs, costs = len(problem.bag_costs), problem.signs, problem.all_costs
    kernel = problem.mixed(pool, mixture)
    svm = LimitedSVC(
        kernel="precomputed",
        C=1.0,
        tol=max(_SVC_SHARE * tol, _SVC_TOL),
        max_iter=min(_SVC_STEPS * len(signs) ** 2, _MOST_STEPS),
    ).fit(kernel, signs, sample_weight=costs)
    dual = np.zeros(len(signs))
    dual[svm.support_] = np.abs(svm.dual_coef_[0])
    g, a = np.minimum(dual, costs)[:n], np.minimum(dual, costs)[n:]
    # Scale the larger side down, so that both sums are equal.
    total = min(g.sum(), a.sum())
    g, a = g * (total / g.sum()), a * (total / a.sum())
    norms = _norms(problem, pool, g, a)
    # The primal value of the multipliers with the best intercept. It differs from that of libsvm if
    # all multipliers are at their bounds.
    beta = np.concatenate([g, -a])
    used = np.flatnonzero(beta)
    scores = beta[used] @ kernel[used]
    square = float(beta @ scores)
    intercept = optimal_intercept(scores, signs, costs)
    value = 0.5 * square + float(costs @ np.maximum(0.0, 1.0 - signs * (scores + intercept)))
    free = np.flatnonzero((dual > _AT_BOUND * costs) & (dual < (1.0 - _AT_BOUND) * costs))
    return _Master(
        mixture=mixture,
        g=g,
        a=a,
        norms=norms,
        value=value,
        gap=value - (2.0 * total - 0.5 * float(norms.max())),
        svm_gap=value - (2.0 * total - 0.5 * square),
        free=free,
        free_kernel=kernel[np.ix_(free, free)],
    )


def _hessian(problem: MixtureProblem, pool: np.ndarray, at: _Master) -> np.ndarray:
    """Second derivatives of J in the mixture.

    If the multipliers at their bounds are fixed, the derivative of the others by m_k is
    -P (K_k beta). P is the inverse of the free block of the kernel on the subspace where the sums
    of both sides are equal. The Hessian of J is then (K_k beta)' P (K_l beta).
    """
    p, m = problem.n_positive, len(pool)
    if not len(at.free):
        return np.zeros((m, m))
    images = np.empty((len(at.free), m))
    n, used = len(problem.bag_costs), np.flatnonzero(at.a)
    bags, others = at.free[at.free < n], at.free[at.free >= n] - n + p
    of_negatives = at.a[used] @ problem.gram[p + used]
    for k, h in enumerate(pool):
        of_bags = problem.gram[np.ix_(h[bags], h)] @ at.g
        of_others = problem.gram[np.ix_(others, h)] @ at.g
        images[:, k] = np.concatenate([of_bags, of_others])
        images[:, k] -= of_negatives[np.concatenate([h[bags], others])]
    # Subtract the common part of all selections, which does not affect the mixture.
    both = np.column_stack([images - (images @ at.mixture)[:, None], np.ones(len(at.free))])
    # A kernel of zeros, such as that of constant features, has no scale.
    ridge = _RIDGE * (float(np.trace(at.free_kernel)) / len(at.free) or 1.0)
    try:
        images = linalg.solve(at.free_kernel + ridge * np.eye(len(at.free)), both, assume_a="pos")
    except linalg.LinAlgError as error:
        raise SolverError(
            f"The kernel matrix of {len(at.free)} instances on the margin is not positive "
            "semidefinite in double precision: center and scale the features, or use another "
            "kernel."
        ) from error
    inner = both.T @ images
    hessian = inner[:m, :m] - np.outer(inner[:m, m], inner[:m, m]) / inner[m, m]
    return np.asarray(0.5 * (hessian + hessian.T))


def _model_minimum(
    cuts: list[_Master], best: _Master, metric: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """The mixture that minimises the cuts plus the second-order term at the best mixture.

    Every (g, a) of a cut gives the lower bound sum g + sum a - 1/2 sum_k m_k |W(h_k)|^2 of J(m).
    The same holds for averages of cuts.

    Returns
    -------
    (mixture, predicted, below)
        The predicted decrease, and a lower bound of J.
    """
    # Relative to the best mixture, in units of its gap and of steps that change J by this gap.
    unit, m = max(best.gap, _ROUNDING * best.value), len(best.mixture)
    length = float(np.sqrt(unit / max(float(np.diagonal(metric).max()), unit, 1e-300)))
    slopes = 0.5 * np.array([cut.norms for cut in cuts])
    totals = np.array([float(cut.g.sum() + cut.a.sum()) for cut in cuts])
    heights = totals - best.value - slopes @ best.mixture
    along = slopes - (slopes @ best.mixture)[:, None]  # steps sum to zero
    quadratic = np.zeros((m + 1, m + 1))
    quadratic[:m, :m] = metric * (length**2 / unit) + _RIDGE * np.eye(m)
    model = QPProblem(
        quadratic,
        np.append(np.zeros(m), 1.0),
        G=np.column_stack([-along * (length / unit), -np.ones(len(cuts))]),
        h=-heights / unit,
        A=np.append(np.ones(m), 0.0)[None],
        b=np.zeros(1),
        lb=np.append(-best.mixture / length, -np.inf),
    )
    found = solve_qp(model, tol=_MODEL_TOL)
    mixture = np.maximum(best.mixture + length * found.x[:m], 0.0)
    mixture[mixture < _VANISHED * mixture.max()] = 0.0
    mixture /= mixture.sum()
    duals = np.maximum(found.z, 0.0)
    duals /= duals.sum()
    below = float(duals @ totals - (duals @ slopes).max())
    predicted = -float((heights - slopes @ (mixture - best.mixture)).max())
    return mixture, predicted, below


def _norms(
    problem: MixtureProblem, selections: np.ndarray, g: np.ndarray, a: np.ndarray
) -> np.ndarray:
    """|W(h)|^2 for each of some selections."""
    p, used = problem.n_positive, np.flatnonzero(a)
    # Rows of a symmetric matrix are contiguous in memory, columns are not.
    columns = a[used] @ problem.gram[p + used]
    base = float(a[used] @ columns[p + used])
    parts = []
    step = max(1, _ENTRIES // len(g) ** 2)
    for first in range(0, len(selections), step):
        h = selections[first : first + step]
        images = problem.gram[h[:, :, None], h[:, None, :]] @ g
        parts.append((images - 2.0 * columns[h]) @ g + base)
    return np.concatenate(parts)


def _every_selection(problem: MixtureProblem, free: np.ndarray, start: np.ndarray) -> np.ndarray:
    """All selections that differ from ``start`` only in the bags ``free``."""
    spans = [range(problem.offsets[i], problem.offsets[i + 1]) for i in free]
    choices = np.array(list(itertools.product(*spans)), dtype=np.intp).reshape(-1, len(free))
    selections = np.repeat(start[None], len(choices), axis=0)
    selections[:, free] = choices
    return selections


def _searched(
    problem: MixtureProblem, start: np.ndarray, g: np.ndarray, a: np.ndarray
) -> np.ndarray:
    """Change one bag at a time as long as |W(h)| increases."""
    gram, found = problem.gram, start.copy()
    own = np.diagonal(gram)
    images = gram @ problem.coefficients(found, g, a)
    changed = True
    while changed:
        changed = False
        for i in np.flatnonzero(g > 0).tolist():
            rows = np.arange(problem.offsets[i], problem.offsets[i + 1])
            old = found[i]
            more = 2.0 * (images[rows] - images[old]) + g[i] * (
                own[rows] - 2.0 * gram[rows, old] + own[old]
            )
            best = int(np.argmax(more))
            if g[i] * more[best] > _ROUNDING * max(1.0, abs(float(images[old]) * g[i])):
                found[i] = rows[best]
                images += g[i] * (gram[rows[best]] - gram[old])
                changed = True
    return found


def best_along(
    problem: MixtureProblem, beta: np.ndarray, precision: float = 0.0
) -> tuple[float, float]:
    """Factor s and constant b for which s f + b is best for the problem of one selection.

    In the squared norm of the mixture each selection has its own function. The norm of their
    average f is smaller, so that its scores are too small for the margins. The problem

        s^2 |f|^2 / 2 + sum_i c_i [1 - s max_j f(x_ij) - b]_+ + sum_j c_j [1 + s f(x_j) + b]_+

    is convex in s >= 0 and b, because the maximum of s f is s times the maximum of f. If all scores
    are equal up to the ``precision`` of the support vector machine, s is zero.
    """
    scores = problem.gram @ beta
    square = float(beta @ scores)
    values = problem.highest(scores)

    def best(factor: float) -> tuple[float, float]:
        b = optimal_intercept(factor * values, problem.signs, problem.all_costs)
        return 0.5 * factor**2 * square + problem.loss(factor * values + b), b

    # Bounds on the size of scores with such multipliers, and on their error.
    diagonal = np.maximum(0.0, np.diagonal(problem.gram))
    size = float(np.abs(beta) @ np.sqrt(diagonal)) * float(np.sqrt(diagonal.max()))
    known = precision * min(1.0, size) + _EPS * size
    if square <= 0.0 or float(np.ptp(scores)) <= _NOISE * known:
        return 0.0, best(0.0)[1]
    # For a larger factor the norm alone exceeds the value at zero.
    largest = float(np.sqrt(2.0 * best(0.0)[0] / square))
    factor = optimize.minimize_scalar(
        lambda s: best(s)[0],
        bounds=(0.0, largest),
        method="bounded",
        options={"xatol": 1e-9 * largest},
    ).x
    return float(factor), best(factor)[1]


def largest_norm(problem: MixtureProblem, g: np.ndarray, a: np.ndarray, eta: np.ndarray) -> float:
    """An upper bound of |W(h)|^2 over all selections.

    Rows s = g_i z are written as s = m + d with a centre m of their bag. The square is then |M|^2
    + sum_i (2 M.d_i + |d_i|^2 + sum_{k != i} d_i.d_k) with M = sum_i m_i minus the negative part.
    Each term of the sum is bounded by its maximum over the rows of bag i, with the largest d_i.d_k
    of each other bag. The better of two bounds is returned, with the means and with the averages by
    ``eta`` as centres.
    """
    p, offsets = problem.n_positive, problem.offsets
    bag = segment_index(offsets)
    step = g[bag]
    A = step[:, None] * problem.gram[:p, :p] * step
    t = step * (problem.gram[:p, p:] @ a)
    base = float(a @ problem.gram[p:, p:] @ a)
    sizes = np.diff(offsets)
    bounds = []
    for weights in (1.0 / sizes[bag], eta):
        mean = np.add.reduceat(weights[:, None] * A, offsets[:-1], axis=0)
        along = mean.sum(axis=0) - t
        centres = np.add.reduceat(weights * along, offsets[:-1])
        square = float(centres.sum() - np.add.reduceat(weights * t, offsets[:-1]).sum()) + base
        both = np.add.reduceat(mean * weights, offsets[:-1], axis=1)
        products = A - mean[bag] - mean[bag].T + both[np.ix_(bag, bag)]
        met = segment_max(products.T, offsets).T
        own = met[np.arange(p), bag]
        each = 2.0 * (along - centres[bag]) + np.diagonal(products) + met.sum(axis=1) - own
        bounds.append(square + float(segment_max(each, offsets).sum()))
    return min(bounds)
