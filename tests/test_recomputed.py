"""Random problems recomputed from their definitions in NumPy and SciPy, without our solvers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score

from milearn import metrics
from milearn.model_selection import (
    BagShuffleSplit,
    StratifiedBagKFold,
    transductive_cross_val_score,
)
from milearn.survival import MICoxPH, survival_outcomes
from milearn.svm import OrdinalMISVC
from tests.bags import random_bags

# Relative: only the order of sums differs.
ROUNDING = 1e-9


def draw(seed, n_bags=14, n_features=2, largest=4):
    """A generator, bags, and a weight of zero to three for each bag."""
    rng = np.random.default_rng(seed)
    bags = random_bags(seed, n_bags, n_features, largest)
    if seed % 3 == 0:
        # Ties.
        bags = bags.with_instances(np.sign(np.round(bags.instances)))
    return rng, bags, rng.permutation(np.arange(n_bags) % 4).astype(float)


def pooled(values, bags, how=np.max):
    return np.array([how(part, axis=0) for part in np.split(values, bags.offsets[1:-1])])


# -- fits ------------------------------------------------------------------------------------------


def cox_loss(risks, events, times, weights, ties):
    """Minus the logarithm of the partial likelihood, event by event."""
    if ties == "efron":
        # A weight counts bags.
        copies = np.repeat(np.arange(len(risks)), weights.astype(int))
        risks, events, times = risks[copies], events[copies], times[copies]
        weights = np.ones(len(copies))
    total = 0.0
    for time in np.unique(times[events & (weights > 0)]):
        dying = np.flatnonzero(events & (times == time))
        at_risk = np.flatnonzero(times >= time)
        for place, bag in enumerate(dying):
            counted = weights[at_risk]
            if ties == "efron":
                counted = counted - place / len(dying) * np.isin(at_risk, dying)
            total += weights[bag] * (logsumexp(risks[at_risk], b=counted) - risks[bag])
    return total


@pytest.mark.parametrize("pooling", ["max", "mean"])
@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("seed", range(3))
def test_cox(seed, ties, pooling):
    rng, bags, weights = draw(seed)
    events, times = rng.random(14) < 0.6, rng.integers(1, 6, 14).astype(float)
    events[np.argmax(weights)] = True
    C = 10.0 ** rng.uniform(-2, 1)
    if ties == "breslow":
        weights *= rng.uniform(0.5, 2, 14)
    model = MICoxPH(C, pooling=pooling, ties=ties, random_state=0, tol=1e-9)
    model.fit(bags, survival_outcomes(events, times), sample_weight=weights)

    def objective(w):
        risks = pooled(bags.instances @ w, bags, np.max if pooling == "max" else np.mean)
        return 0.5 * w @ w + C * cox_loss(risks, events, times, weights, ties)

    assert model.objective_ == pytest.approx(objective(model.coef_), rel=ROUNDING)
    risks = pooled(bags.instances @ model.coef_, bags)
    np.testing.assert_allclose(bags.instances[model.witnesses_] @ model.coef_, risks)
    if pooling == "mean":
        best = optimize.minimize(objective, model.coef_ + 0.1, method="BFGS", tol=1e-9).fun
        assert model.objective_ <= best + model.dual_gap_ + ROUNDING * (1 + best)


def ordinal_step(bags, ranks, costs, witnesses):
    """Least value of the convex problem in which witnesses exceed the lower thresholds."""
    n_features, n_thresholds = bags.shape[1], ranks.max()
    planes, starts = [], []
    for bag, threshold in itertools.product(range(len(bags)), range(n_thresholds)):
        above = threshold < ranks[bag]
        starts.append(len(planes))
        for row in [witnesses[bag]] if above else range(*bags.offsets[bag : bag + 2]):
            plane = np.r_[bags.instances[row], -np.eye(n_thresholds)[threshold]]
            planes.append(plane if above else -plane)
    planes, costs = np.array(planes), np.repeat(costs, n_thresholds)
    n, m = planes.shape[1], len(costs)
    slack = np.eye(m)[np.repeat(np.arange(m), np.diff([*starts, len(planes)]))]
    square = np.r_[np.ones(n_features), np.zeros(n_thresholds + m)]
    found = optimize.minimize(
        lambda z: 0.5 * (square * z) @ z + costs @ z[n:],
        np.r_[np.zeros(n), np.ones(m)],
        jac=lambda z: square * z + np.r_[np.zeros(n), costs],
        constraints=optimize.LinearConstraint(np.hstack([planes, slack]), 1.0),
        bounds=[(None, None)] * n + [(0.0, None)] * m,
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 300},
    ).x[:n]
    losses = np.maximum(0.0, np.maximum.reduceat(1.0 - planes @ found, starts))
    return 0.5 * np.sum(found[:n_features] ** 2) + costs @ losses


@pytest.mark.parametrize("seed", range(4))
def test_ordinal(seed):
    rng, bags, weights = draw(seed)
    ranks = rng.permutation(np.arange(14) % 3)
    weights[[0, 1, 2]] = 1.0
    used = weights > 0
    C = 10.0 ** rng.uniform(-2, 1)
    model = OrdinalMISVC(C, tol=1e-9, random_state=0).fit(bags, ranks, sample_weight=weights)
    _, places = np.unique(ranks[used], return_inverse=True)
    codes = np.zeros(14, dtype=int)
    codes[used] = places
    w, thresholds = model.coef_[0], model.thresholds_
    distances = pooled(bags.instances @ w, bags)[:, None] - thresholds
    sides = np.where(np.arange(len(thresholds)) < codes[:, None], 1.0, -1.0)
    losses = np.maximum(0.0, 1.0 - sides * distances).sum(axis=1)
    expected = 0.5 * w @ w + C * weights @ losses
    assert model.objective_ == pytest.approx(expected, rel=ROUNDING)
    part = bags[used]
    shift = part.offsets[:-1] - bags.offsets[:-1][used]
    step = ordinal_step(part, places, C * weights[used], model.witnesses_[used] + shift)
    # No point of the last convex problem is better than the certificate says.
    assert model.objective_ <= step + model.dual_gap_ + ROUNDING * (1 + step)


# -- splits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_splits_do_not_leak(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 40))
    bags = random_bags(seed, n, 1, 9)
    k, n_classes = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    y = rng.permutation(np.arange(n) % n_classes).astype(float)
    y[rng.choice(n, n // 10, replace=False)] = np.nan
    # Groups of one class, of several classes, and columns of sites and patients.
    groups = rng.integers(0, max(4, n // 3), n)
    if seed % 3 == 1:
        groups = groups * n_classes + np.arange(n) % n_classes
    columns = (
        np.column_stack([groups, rng.permutation(n) // 2]) if seed % 4 == 0 else groups[:, None]
    )
    pairs = [np.equal.outer(column, column) for column in columns.T]
    linked = sparse.csr_array(np.any(pairs, axis=0))
    merged = sparse.csgraph.connected_components(linked)[1]
    for cv, given, together, n_tested in (
        (StratifiedBagKFold(k), None, np.arange(n), 1),
        (StratifiedBagKFold(k, shuffle=True, random_state=seed), groups, groups, 1),
        (StratifiedBagKFold(k), columns, merged, 1),
        (BagShuffleSplit(3, test_size=0.4, random_state=seed), groups, groups, None),
    ):
        try:
            splits = list(cv.split(bags, y, given))
        except ValueError:
            # Groups of several classes may not be divisible, and no class of few groups is.
            units = [len(np.unique(together[y == code])) for code in range(n_classes)]
            assert given is not None
            assert seed % 3 != 1 or min(units) < k or columns.shape[1] > 1
            continue
        assert len(splits) == cv.get_n_splits()
        tested = np.zeros(n, dtype=int)
        for train, test in splits:
            tested[test] += 1
            assert not set(together[train]) & set(together[test])
            assert not np.isnan(y[test]).any()
            for side in (train, test):
                assert len(np.unique(side)) == len(side)
                assert set(y[side][~np.isnan(y[side])]) == set(y[~np.isnan(y)])
            if n_tested:
                # No bag is lost, but for those without a label that belong to the test groups.
                lost = np.setdiff1d(np.arange(n), np.r_[train, test])
                assert np.isnan(y[lost]).all()
                assert set(together[lost]) <= set(together[test])
        if n_tested:
            np.testing.assert_array_equal(tested, np.where(np.isnan(y), 0, n_tested))


class Recalls:
    """Keeps the labels of its fits; a scorer compares them with those of the test bags."""

    def __init__(self):
        self.seen = None

    def get_params(self, deep=True):
        return {}

    def set_params(self, **settings):
        return self

    def fit(self, X, y):
        self.seen = np.asarray(y, dtype=float)
        return self

    def predict(self, X):
        return self.seen


@pytest.mark.parametrize("seed", range(3))
def test_transduction_hides_the_labels_of_test_bags(seed):
    rng, bags, _ = draw(seed)
    y = rng.permutation(np.arange(14) % 2).astype(float)

    def scorer(view, X, truth):
        return float(np.isnan(view.predict(X)).all() and len(truth) in (3, 4))

    assert transductive_cross_val_score(Recalls(), bags, y, cv=4, scoring=scorer).all()


# -- metrics ---------------------------------------------------------------------------------------


def movers(distances):
    """Earth mover's distance: an assignment of so many copies that both bags have as many."""
    n, m = distances.shape
    copies = np.repeat(np.repeat(distances, m, axis=0), n, axis=1)
    return copies[optimize.linear_sum_assignment(copies)].mean()


def directed(d):
    return d.min(axis=1).mean()


DISTANCES = {
    "min": np.min,
    "max": lambda d: max(d.min(axis=1).max(), d.min(axis=0).max()),
    "mean": lambda d: (d.min(axis=1).sum() + d.min(axis=0).sum()) / sum(d.shape),
    "mind": lambda d: (directed(d) + directed(d.T)) / 2,
    "emd": movers,
}


def each_pair(function, X, Y):
    return np.array([[function(a, b) for b in Y] for a in X])


@pytest.mark.parametrize("seed", range(2))
def test_distances(seed):
    _, X, _ = draw(seed, 6)
    Y = random_bags(seed + 1, 5, 2, 4)
    for metric, reduce in DISTANCES.items():
        if metric == "emd":
            pytest.importorskip("ot")
        expected = each_pair(lambda a, b, reduce=reduce: reduce(cdist(a, b)), X, Y)
        # Distances are roots of squares, whose rounding is that of their size.
        np.testing.assert_allclose(metrics.bag_distances(X, Y, metric=metric), expected, atol=1e-7)
    expected = each_pair(lambda a, b: directed(cdist(a, b) ** 2), X, Y)
    found = metrics.bag_distances(X, Y, metric="mind", directed=True, squared=True)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def median(distances):
    """Median over pairs; of the positive ones if it is zero."""
    values = distances[np.triu_indices(len(distances), 1)]
    return np.median(values) or np.median(values[values > 0])


def unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def degrees(rows):
    d = cdist(rows, rows)
    n = len(d)
    return 1 / (d <= d.sum() / max(1, n * n - n) * (1 + 1e-6)).sum(axis=1)


def learnt(name, X, T):
    """A kernel without parameters of the bags X with the training bags T."""
    scale = median(cdist(T.instances, T.instances, "sqeuclidean"))

    def similar(a, b):
        return np.exp(-cdist(a, b, "sqeuclidean") / scale)

    if name == "set_median":
        sums = each_pair(lambda a, b: similar(a, b).sum(), X, T)
        own = [[similar(a, a).sum() for a in bags] for bags in (X, T)]
        return sums / np.sqrt(np.outer(*own))
    if name == "graph":

        def graph(a, b):
            left, right = degrees(a), degrees(b)
            return left @ similar(a, b) @ right / (left.sum() * right.sum())

        return each_pair(graph, X, T)
    if name in ("mind", "emd"):
        reduce = movers if name == "emd" else DISTANCES["mind"]
        power = 1 if name == "emd" else 2
        values = [each_pair(lambda a, b: reduce(cdist(a, b) ** power), each, T) for each in (X, T)]
        return np.exp(-values[0] / median(values[1]))
    rows = {
        "mean": lambda b: b.mean(axis=0),
        "unit_mean": lambda b: unit(b).mean(axis=0),
        "minmax_laplacian": lambda b: np.r_[b.min(axis=0), b.max(axis=0)],
        "statistics": lambda b: np.r_[b.min(axis=0), b.mean(axis=0), b.max(axis=0), b.std(axis=0)],
        "mind_rows": lambda b: [directed(cdist(b, t) ** 2) for t in T],
        "miles_rows": lambda b: similar(b, T.instances).max(axis=0),
    }[name]
    left, right = (np.array([rows(b) for b in bags]) for bags in (X, T))
    if name in ("statistics", "mind_rows", "miles_rows"):
        spread = right.std(axis=0)
        spread[spread < 1e-12] = 1.0
        left, right = ((each - right.mean(axis=0)) / spread for each in (left.copy(), right.copy()))
    if name == "mind_rows":
        left, right = (np.clip(each, -3, 3) for each in (left, right))
    how = "cityblock" if name in ("statistics", "minmax_laplacian") else "sqeuclidean"
    return np.exp(-cdist(left, right, how) / median(cdist(right, right, how)))


LEARNT = ("mean", "unit_mean", "minmax_laplacian", "statistics", "set_median", "mind")
ROWS = ("mind_rows", "miles_rows", "emd", "graph")


@pytest.mark.parametrize("seed", range(2))
def test_kernels(seed):
    _, T, _ = draw(seed, 6)
    X = random_bags(seed + 1, 5, 2, 4)
    for name in LEARNT + ROWS:
        if name == "emd":
            pytest.importorskip("ot")
        found = metrics.bag_kernel(X, T, bag_kernel=name)
        np.testing.assert_allclose(found, learnt(name, X, T), rtol=1e-6, atol=1e-9, err_msg=name)
        found = metrics.bag_kernel(T, bag_kernel=name)
        np.testing.assert_allclose(found, learnt(name, T, T), rtol=1e-6, atol=1e-9, err_msg=name)

    def s(a, b):
        return np.exp(-0.3 * cdist(a, b, "sqeuclidean")).sum()

    def ends(b):
        return np.r_[b.min(axis=0), b.max(axis=0)][None]

    for name, pair in {
        "set": s,
        "mean_set": lambda a, b: s(a, b) / (len(a) * len(b)),
        "normalized_set": lambda a, b: s(a, b) / np.sqrt(s(a, a) * s(b, b)),
        "minmax": lambda a, b: s(ends(a), ends(b)),
    }.items():
        found = metrics.bag_kernel(X, T, bag_kernel=name, gamma=0.3)
        np.testing.assert_allclose(found, each_pair(pair, X, T), rtol=1e-9, err_msg=name)


def cosine(a, b):
    return float(unit(a[None])[0] @ unit(b[None])[0])


@pytest.mark.parametrize("seed", range(2))
def test_cosine_kernels(seed):
    _, T, _ = draw(3 * seed + 1, 6)
    X = random_bags(seed + 50, 5, 2, 4)
    for name, row in {
        "mean": lambda b: b.mean(axis=0),
        "unit_mean": lambda b: unit(b).mean(axis=0),
        "minmax_laplacian": lambda b: np.r_[unit(b).min(axis=0), unit(b).max(axis=0)],
    }.items():
        expected = each_pair(lambda a, b, row=row: cosine(row(a), row(b)), X, T)
        found = metrics.bag_kernel(X, T, bag_kernel=name, cosine=True)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("seed", range(20))
def test_scores(seed):
    rng, bags, weights = draw(seed)
    weights += rng.random(14)
    events, times = rng.random(14) < 0.6, rng.integers(1, 6, 14).astype(float)
    events[np.argmin(times)] = True
    times[np.argmax(times)] = 9.0
    risks = np.round(rng.normal(size=14), seed % 3)
    good = total = 0.0
    for i, j in itertools.permutations(range(14), 2):
        if events[i] and (times[j] > times[i] or (times[j] == times[i] and not events[j])):
            pair = weights[i] * weights[j]
            total += pair
            good += pair * (0.5 if risks[i] == risks[j] else risks[i] > risks[j])
    y = survival_outcomes(events, times)
    found = metrics.concordance_index(y, risks, sample_weight=weights)
    assert found == pytest.approx(good / total)

    truth, clusters = rng.integers(0, 3, 14), rng.integers(0, 4, 14)
    best = max(
        np.mean(np.array(chosen)[clusters] == truth) for chosen in itertools.permutations(range(4))
    )
    assert metrics.clustering_accuracy(truth, clusters) == pytest.approx(best)

    groups, scores = rng.integers(0, 5, 14), rng.random(14)
    names = list(dict.fromkeys(groups.tolist()))
    for how, pool in {
        "max": np.max,
        "min": np.min,
        "mean": np.mean,
        "noisy_or": lambda p: 1 - np.prod(1 - p),
    }.items():
        values, found_names = metrics.group_scores(scores, groups, how=how)
        expected = [pool(scores[groups == name]) for name in names]
        np.testing.assert_allclose(values, expected)
        np.testing.assert_array_equal(found_names, names)
        labels = rng.integers(0, 2, 14)
        labels[groups == names[0]], labels[groups == names[1]] = 0, 1
        of_group = [labels[groups == name].max() for name in names]
        scorer = metrics.make_group_scorer(roc_auc_score, "patient", how=how, labels="any")
        found = scorer(Stated(scores), bags.with_bag_data({"patient": groups}), labels)
        assert found == pytest.approx(roc_auc_score(of_group, expected))


class Stated:
    """Decision values that are given."""

    def __init__(self, values):
        self.values = values

    def decision_function(self, X):
        return self.values
