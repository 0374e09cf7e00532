"""Stated duality gaps and lower bounds, compared with feasible points of other solvers.

A gap is right if the objective minus the gap is at most the value of every feasible point. Here the
feasible points come from cvxpy, scikit-learn's ``SVC`` and SciPy's ``linprog``. Their values are
computed anew, so a solver that misses its precision weakens a comparison and never fails one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.svm import SVC

from milearn import Bags
from milearn.baselines import MILES
from milearn.ensemble import LPBoost
from milearn.survival import MICoxPH
from milearn.svm import MISVC, SDPMIL, WellSVC
from tests.common.objectives import dense_instances, positive_class, weights_of_bags
from tests.oracles import blocks_of, cox_step, highest_of, partial_likelihood

# More instances, or features of larger or smaller size, are left out: the reference solvers fail.
_MOST_INSTANCES = 400
_SIZES = (1e-3, 1e3)
_ROUNDING = 1e-8
# The features of a kernel have its values up to rounding, which is multiplied by squared costs.
_LARGEST_COST = 1e3

# The name of a bound, the bound, and the value that it must not exceed.
_Pair = tuple[str, float, float]


def wrong_bounds(
    model: BaseEstimator, bags: Bags, y: np.ndarray, sample_weight: np.ndarray | None
) -> tuple[int, list[str]]:
    """Number of bounds that were compared, and a sentence for each one that is too high."""
    pairs = _PAIRS.get(type(model))
    X = dense_instances(bags)
    size = float(np.abs(X).max())
    if (
        pairs is None
        or len(X) > _MOST_INSTANCES
        or not _SIZES[0] < size < _SIZES[1]
        or getattr(model, "n_components", None) not in (None, "auto")
        or len(getattr(model, "classes_", (0, 1))) != 2
    ):
        return 0, []
    given = np.ones(len(bags)) if sample_weight is None else sample_weight
    compared = list(pairs(model, bags, y, given))
    wrong = [
        f"{name} is {bound!r}, and a feasible point has {value!r}"
        for name, bound, value in compared
        if bound > value + _ROUNDING * (abs(value) + 1e-6)
    ]
    return len(compared), wrong


def _costs(model: BaseEstimator, y: np.ndarray, given: np.ndarray) -> np.ndarray:
    return model.C * weights_of_bags(model, y, given)


def _features(model: BaseEstimator, bags: Bags) -> np.ndarray:
    """Rows whose inner products are the kernel values."""
    X = dense_instances(bags)
    if model.kernel == "linear":
        return X
    values, vectors = np.linalg.eigh(pairwise_kernels(X, metric=model.kernel, gamma=model.gamma_))
    return vectors * np.sqrt(np.clip(values, 0, None))


# -- convex steps ----------------------------------------------------------------------------------


def _maximum(model: MISVC, bags: Bags, y: np.ndarray, given: np.ndarray) -> Iterator[_Pair]:
    features, costs = _features(model, bags), _costs(model, y, given)
    positive = y == positive_class(model)
    witnesses = model.witnesses_[positive]
    if model.kernel != "linear" and costs.max() > _LARGEST_COST:
        return

    w, b = cp.Variable(features.shape[1]), cp.Variable()
    hinges = cp.pos(1 + features @ w + b)
    total = costs[positive] @ cp.pos(1 - features[witnesses] @ w - b)
    if model.slack == "bag":
        total += np.where(positive, 0.0, costs) @ highest_of(hinges, bags.offsets)
    else:
        total += np.where(positive, 0.0, costs)[bags.bag_index] @ hinges
    if not _solved(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + total))):
        return
    scores = features @ w.value + b.value
    value = 0.5 * w.value @ w.value + costs[positive] @ np.maximum(0, 1 - scores[witnesses])
    for block, label, cost in zip(blocks_of(scores, bags.offsets), positive, costs, strict=True):
        if not label:
            losses = np.maximum(0, 1 + block)
            value += cost * (losses.max() if model.slack == "bag" else losses.sum())
    yield "objective_ - dual_gap_", model.objective_ - model.dual_gap_, value
    yield "dual_gap_ below zero", -model.dual_gap_ - _ROUNDING * abs(model.objective_), 0.0


def _hazards(model: MICoxPH, bags: Bags, y: np.ndarray, given: np.ndarray) -> Iterator[_Pair]:
    if model.pooling != "max":
        return
    X, events, times = dense_instances(bags), y["event"], y["time"]
    dense = Bags(X, bags.offsets)
    witnesses = model.witnesses_
    w = cox_step(dense, (events, times, given, model.ties), model.C, witnesses)[1]
    if w is None:
        return
    tops = np.array([block.max() for block in blocks_of(X @ w, bags.offsets)])
    # The linear part takes the witnesses, and the sums over the bags at risk take the maxima.
    value = partial_likelihood(tops, events, times, given, model.ties)
    value += float((given * events) @ (tops - X[witnesses] @ w))
    value = 0.5 * w @ w + model.C * value
    yield "objective_ - dual_gap_", model.objective_ - model.dual_gap_, value


def _solved(problem: cp.Problem) -> bool:
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return False
    return problem.status in ("optimal", "optimal_inaccurate")


# -- selections ------------------------------------------------------------------------------------


def _selected_values(
    model: BaseEstimator, bags: Bags, y: np.ndarray, costs: np.ndarray
) -> Iterator[float]:
    """Values of the first problem of SDPMIL for random selections, each the optimum of one SVM."""
    features = _features(model, bags)
    features = features - features.mean(axis=0)  # the intercept takes it up
    positive = y == positive_class(model)
    negative = np.flatnonzero(~positive[bags.bag_index])
    rng = np.random.default_rng(0)
    for _ in range(10):
        chosen = (bags.offsets[:-1] + rng.integers(bags.sizes))[positive]
        rows = np.append(chosen, negative)
        labels = np.repeat([1, -1], [len(chosen), len(negative)])
        weights = np.append(costs[positive], costs[bags.bag_index[negative]])
        used = weights > 0
        if len(set(labels[used])) < 2:
            return
        svc = SVC(C=1.0, kernel="linear", tol=1e-6, max_iter=100_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # any point is feasible
            svc.fit(features[rows][used], labels[used], weights[used])
        w = svc.coef_.ravel()
        hinges = np.maximum(0, 1 - labels * (features[rows] @ w + svc.intercept_[0]))
        yield 0.5 * w @ w + weights @ hinges


def _selected(
    model: SDPMIL | WellSVC, bags: Bags, y: np.ndarray, given: np.ndarray
) -> Iterator[_Pair]:
    attained = model.upper_bound_ if isinstance(model, WellSVC) else model.objective_
    for value in (attained, *_selected_values(model, bags, y, _costs(model, y, given))):
        yield "lower_bound_", model.lower_bound_, value


# -- linear programs -------------------------------------------------------------------------------


def _program(columns: np.ndarray, signs: np.ndarray, costs: np.ndarray, free: bool) -> float:
    """min sum(a) + costs @ slack, signs * (columns @ a + b) >= 1 - slack; b is 0 unless free."""
    n, k = columns.shape
    b_bound = (None, None) if free else (0, 0)
    done = linprog(
        np.concatenate([np.ones(k), [0.0], costs]),
        A_ub=-np.hstack([signs[:, None] * columns, signs[:, None], np.eye(n)]),
        b_ub=-np.ones(n),
        bounds=[(0, None)] * k + [b_bound] + [(0, None)] * n,
    )
    if done.x is None:
        return np.inf
    weights, b = done.x[:k], done.x[k]
    slack = np.maximum(0, 1 - signs * (columns @ weights + b))
    return float(weights.sum() + costs @ slack)


def _similarities(model: MILES, bags: Bags, y: np.ndarray, given: np.ndarray) -> Iterator[_Pair]:
    if model.n_prototypes is not None:
        return
    X = dense_instances(bags)
    kernel = rbf_kernel(X, np.unique(X, axis=0), gamma=model.gamma_)
    columns = np.maximum.reduceat(kernel, bags.offsets[:-1], axis=0)
    signs = np.where(y == positive_class(model), 1.0, -1.0)
    both = np.hstack([columns, -columns])
    value = _program(both, signs, _costs(model, y, given), free=True)
    yield "lower_bound_", model.lower_bound_, value
    yield "lower_bound_", model.lower_bound_, model.objective_


def _boosted(model: LPBoost, bags: Bags, y: np.ndarray, given: np.ndarray) -> Iterator[_Pair]:
    yield "lower_bound_", model.lower_bound_, model.objective_
    if model.estimator != "stump":
        return
    X = dense_instances(bags)
    columns = [np.ones((len(X), 1))]
    for values in X.T:
        edges = np.unique(values)
        columns.append(np.where(values[:, None] > edges[None, :-1], 1.0, -1.0))
    stumps = np.hstack(columns)
    signs = np.where(y == positive_class(model), 1.0, -1.0)[bags.bag_index]
    costs = _costs(model, y, given)[bags.bag_index]
    value = _program(np.hstack([stumps, -stumps]), signs, costs, free=False)
    yield "lower_bound_", model.lower_bound_, value


_PAIRS: dict[
    type[BaseEstimator], Callable[[BaseEstimator, Bags, np.ndarray, np.ndarray], Iterator[_Pair]]
] = {
    MISVC: _maximum,
    MICoxPH: _hazards,
    SDPMIL: _selected,
    WellSVC: _selected,
    MILES: _similarities,
    LPBoost: _boosted,
}
