r"""Instance selection relaxed to a mixture of selections: label generation, and a lower bound.

With multipliers g_i of the positive bags and a_j of the instances of negative ones, a selection h
(one instance of each positive bag) has the dual value

    D(g, a; h) = sum g + sum a - 1/2 |W(h)|^2,    W(h) = sum_i g_i z_i,h(i) - sum_j a_j z_j
    over 0 <= g_i <= c_i, 0 <= a_j <= c_j, sum g = sum a

and the optimum of instance selection is min_h max_{g,a} D >= max_{g,a} min_h D. The right side is
the label-generating relaxation of Li, Tsang, Kwok & Zhou (2013): a support vector machine with the
best mixture of the kernels of all selections. Selections are generated one at a time. The master is
the problem over the mixtures of a pool, and the selection with the largest |W(h)| joins the pool
while it is above those of the pool. All selections are compared where they are few. Otherwise a
local search changes one bag at a time.

The master minimises a convex function of the mixture m, J(m) = max_{g,a} sum g + sum a
- 1/2 sum_k m_k |W(h_k)|^2, by a bundle method: every (g, a) gives a linear function below J, and
the next mixture minimises the highest of them and the second-order term of J at the best mixture so
far, that of the support vector machine with the multipliers at their bounds fixed. A mixture that
does not lower J adds its linear function, and doubles that term where it is far above. Averages of
(g, a) bound J from below by sum g + sum a - 1/2 max_k |W(h_k)|^2.

The lower bound needs neither the master nor the search to be exact. *Any* feasible (g, a) gives one
once |W(h)|^2 <= U is known for all h. Scaled by t in [0, 1] it is max_t t S - t^2 U / 2 with
S = sum g + sum a, which is above zero. U is the maximum where all selections are compared, and
:func:`largest_norm` otherwise.
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
from ..common.piecewise import optimal_intercept
from ..common.qp import solve_qp
from ..common.qp_problem import QPProblem

__all__ = [
    "MergedSelection",
    "MixtureProblem",
    "MixtureResult",
    "best_along",
    "largest_norm",
    "mix_selections",
]

_MOST_CUTS = 60
_STALLS = 5
# Share of the predicted decrease that a step has to reach.
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
# Kernel values that are gathered at a time.
_ENTRIES = 2**20


@dataclass(frozen=True)
class MixtureProblem:
    """Bags of two classes by the inner products of their instances, positive bags first."""

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
        """Signs of a selection: of its instances, then of the negative ones."""
        return np.repeat([1.0, -1.0], [len(self.bag_costs), len(self.costs)])

    @cached_property
    def all_costs(self) -> np.ndarray:
        """Costs of a selection: of its instances, then of the negative ones."""
        return np.concatenate([self.bag_costs, self.costs])

    @cached_property
    def _mixed(self) -> np.ndarray:
        # Between negative instances no mixture changes anything, and they are nearly all.
        n = len(self.bag_costs)
        out = np.empty((n + len(self.costs),) * 2)
        out[n:, n:] = self.gram[self.n_positive :, self.n_positive :]
        return out

    def mixed(self, pool: np.ndarray, mixture: np.ndarray) -> np.ndarray:
        """The kernel of a mixture, in memory that the next call overwrites."""
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
        """The scores that the losses take: highest of each positive bag, then the negative ones."""
        p = self.n_positive
        return np.concatenate([segment_max(scores[:p], self.offsets), scores[p:]])

    def loss(self, values: np.ndarray) -> float:
        """Sum of the losses at the scores of :meth:`highest`, with the intercept."""
        return float(self.all_costs @ np.maximum(0.0, 1.0 - self.signs * values))


@dataclass(frozen=True)
class MergedSelection:
    """Equal bags of a class merged, in an order that depends on their contents alone."""

    problem: MixtureProblem
    points: np.ndarray  # the point of each instance of the problem
    bags: np.ndarray  # the merged bag of each positive bag
    _sorted: np.ndarray  # rows of the positive bags as given, by bag and point
    _starts: np.ndarray  # of the positive bags in these

    @classmethod
    def of(
        cls,
        gram: np.ndarray,
        point_of: np.ndarray,
        offsets: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
    ) -> MergedSelection:
        """Merge bags; ``gram`` is that of the points, ``point_of`` has the point of each row."""
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
        """A selection of rows as given, as one of the problem."""
        place = {row: number for number, row in enumerate(self._sorted.tolist())}
        inside = np.array([place[row] for row in selection.tolist()]) - self._starts
        found = np.empty(len(self.problem.bag_costs), dtype=np.intp)
        # Equal bags may have different selections: that of the first is taken.
        found[self.bags[::-1]] = (self.problem.offsets[self.bags] + inside)[::-1]
        return found

    def rows(self, selection: np.ndarray) -> np.ndarray:
        """A selection of the problem as rows of all positive bags as given."""
        inside = selection[self.bags] - self.problem.offsets[self.bags]
        return np.asarray(self._sorted[self._starts + inside])

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of the instances of positive bags, in the order of the rows as given."""
        inside, _ = gather_rows(self.problem.offsets, self.bags)
        return np.asarray(values[inside][np.argsort(self._sorted)])


@dataclass(frozen=True)
class MixtureResult:
    """A mixture of selections with its function and bounds."""

    beta: np.ndarray  # the mixture of the functions W(h), by instances
    eta: np.ndarray  # part of the mixture that selects each instance of a positive bag
    selections: np.ndarray
    mixture: np.ndarray
    value: float  # of the relaxation over the pool
    gap: float  # what the value may be above the minimum over mixtures of the pool
    lower_bound: float  # no selection and no support vector machine has a lower objective
    precision: float  # of the scores of the support vector machine
    n_iter: int
    n_svms: int
    complete: bool  # no selection was found that is worth adding
    converged: bool  # besides, the mixture was found to the precision that was asked for


def mix_selections(
    problem: MixtureProblem,
    start: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    countable: int = 20_000,
    max_mixtures: int = 200,
) -> MixtureResult:
    """Generate selections until none is worth adding.

    Parameters
    ----------
    problem : MixtureProblem
    start : ndarray of shape (n_positive_bags,)
        The first selection, rows of the Gram matrix.
    tol : float
        Share of the value up to which the gap of a master, and the gain of another selection, are
        ignored.
    max_iter : int
        Maximum number of selections.
    countable : int, default=20000
        Maximum number of selections that are all compared.
    max_mixtures : int, default=200
        Maximum number of mixtures that a master compares.
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
        # Scaled, the multipliers stay feasible, and the bound is above zero.
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


def _master(
    problem: MixtureProblem, pool: np.ndarray, mixture: np.ndarray, tol: float, max_mixtures: int
) -> tuple[_Master, int]:
    """The best mixture of a pool, from a first one, and how many were compared."""
    best = _svm_of(problem, pool, mixture, tol)
    cuts, metric, stalls, n_svms = [best], _hessian(problem, pool, best), 0, 1
    for _ in range(max_mixtures):
        if best.gap <= tol * best.value:
            break
        try:
            mixture, predicted, below = _model_minimum(cuts, best, metric)
        except SolverError:
            # The cuts have fewer digits than a gap of this size needs. The gap is reported.
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
    # Feasible to the last digit: the larger side is scaled down to the other.
    total = min(g.sum(), a.sum())
    g, a = g * (total / g.sum()), a * (total / a.sum())
    norms = _norms(problem, pool, g, a)
    # The value of the function of these multipliers, with the best intercept for it. That of
    # libsvm is not the best where all multipliers are at their bounds.
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

    While the multipliers at their bounds stay there, the others move by -P (K_k beta) for a
    change of m_k, where P is the inverse of the free block of the kernel on the changes that keep
    the sums of both sides equal, so that J has the Hessian (K_k beta)' P (K_l beta).
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
    # The part that all selections have in common has no effect on the mixture.
    both = np.column_stack([images - (images @ at.mixture)[:, None], np.ones(len(at.free))])
    ridge = _RIDGE * max(float(np.trace(at.free_kernel)) / len(at.free), 1e-300)
    try:
        images = linalg.solve(at.free_kernel + ridge * np.eye(len(at.free)), both, assume_a="pos")
    except linalg.LinAlgError as error:
        raise SolverError(
            f"The kernel matrix of {len(at.free)} instances on the margin is not positive "
            "semidefinite to the digits of float64: center and scale the features, or take "
            "another kernel."
        ) from error
    inner = both.T @ images
    hessian = inner[:m, :m] - np.outer(inner[:m, m], inner[:m, m]) / inner[m, m]
    return np.asarray(0.5 * (hessian + hessian.T))


def _model_minimum(
    cuts: list[_Master], best: _Master, metric: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """The minimum over mixtures of the cuts below J and the second-order term at the best.

    Every (g, a) of a cut bounds J(m) from below by sum g + sum a - 1/2 sum_k m_k |W(h_k)|^2, and so
    does every average of cuts.

    Returns
    -------
    (mixture, predicted, below)
        The decrease that the model predicts, and a lower bound of J.
    """
    # From the best mixture, in units of its gap and of the steps that change J by so much.
    unit, m = max(best.gap, _ROUNDING * best.value), len(best.mixture)
    length = min(1.0, float(np.sqrt(unit / max(float(np.diagonal(metric).max()), 1e-300))))
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
    """|W(h)|^2 of some selections."""
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
    """All selections that differ from a first one in the bags ``free`` only."""
    spans = [range(problem.offsets[i], problem.offsets[i + 1]) for i in free]
    choices = np.array(list(itertools.product(*spans)), dtype=np.intp).reshape(-1, len(free))
    selections = np.repeat(start[None], len(choices), axis=0)
    selections[:, free] = choices
    return selections


def _searched(
    problem: MixtureProblem, start: np.ndarray, g: np.ndarray, a: np.ndarray
) -> np.ndarray:
    """Change one bag at a time while |W(h)| grows."""
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
    """Factor s and constant b with which s f + b is best for the problem of one selection.

    The squared norm of the mixture counts each selection by itself, and f keeps a share of it only:
    its scores are too small for the margins. In s and b the problem

        s^2 |f|^2 / 2 + sum_i c_i [1 - s max_j f(x_ij) - b]_+ + sum_j c_j [1 + s f(x_j) + b]_+

    is convex for s >= 0, for the maximum of s f is s times that of f. Scores of a support vector
    machine that differ by no more than its ``precision`` are taken for equal, and s is zero.
    """
    scores = problem.gram @ beta
    square = float(beta @ scores)
    values = problem.highest(scores)

    def best(factor: float) -> tuple[float, float]:
        b = optimal_intercept(factor * values, problem.signs, problem.all_costs)
        return 0.5 * factor**2 * square + problem.loss(factor * values + b), b

    # What multipliers of this size can add to a score, and to how many digits it is known.
    diagonal = np.maximum(0.0, np.diagonal(problem.gram))
    size = float(np.abs(beta) @ np.sqrt(diagonal)) * float(np.sqrt(diagonal.max()))
    known = precision * min(1.0, size) + _EPS * size
    if square <= 0.0 or float(np.ptp(scores)) <= _NOISE * known:
        return 0.0, best(0.0)[1]
    # With a larger factor the norm alone is more than the value at zero.
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

    Rows s = g_i z are counted from a centre of their bag, s = m + d. The square is then |M|^2
    + sum_i (2 M.d_i + |d_i|^2 + sum_{k != i} d_i.d_k) with M = sum_i m_i less the negative part. It
    is bounded bag by bag: by its best row, with the largest d_i.d_k that each other bag allows. Of
    two centres, the mean and that of ``eta``, the better one is taken.
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
