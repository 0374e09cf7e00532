"""Share discriminants: the share is found, whatever the names of the classes and the storage."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from milearn import Bags, MIClassifier
from milearn._bags.segments import segment_argmax, segment_max
from milearn._fit.warn import _with_bags, warn_of_private_features
from milearn._solvers.common.passes import SampleLimits
from milearn._solvers.common.screen import proportions_of
from milearn._solvers.discriminant.search import ShareSearch, _cuts_between
from milearn._solvers.discriminant.superquantile import ascend, superquantiles
from milearn.discriminant_analysis import ShareDiscriminant, ShareRegressor
from milearn.model_selection._inner import class_folds, merged_classes, parts_of


def cohort(seed, shares, size=150, d=8, shift=3.0):
    """Bags with a share of instances that are moved along one direction, and these shares."""
    rng = np.random.default_rng(seed)
    away = rng.normal(size=d)
    away *= shift / np.linalg.norm(away)
    blocks, true = [], []
    for share in shares:
        n = int(rng.integers(size // 2, 2 * size))
        changed = rng.random(n) < share
        blocks.append(rng.normal(size=(n, d)) + changed[:, None] * away)
        true.append(changed.mean())
    return Bags.from_list(blocks), np.array(true)


@pytest.fixture(scope="module")
def shares():
    y = np.arange(90) % 2
    bags, true = cohort(0, np.where(y == 1, 0.06, 0.01), d=20, shift=4.5)
    return bags, y, true


@pytest.fixture(scope="module")
def few():
    y = np.arange(36) % 2
    bags, _ = cohort(0, np.where(y == 1, 0.3, 0.1), size=20, d=4)
    return bags, y, ShareDiscriminant(n_parts=3).fit(bags[:24], y[:24])


@pytest.fixture(scope="module")
def model(shares):
    bags, y, _ = shares
    return ShareDiscriminant(n_parts=3).fit(bags[:60], y[:60])


def test_a_share_that_differs_is_found(shares, model):
    bags, y, true = shares
    assert 0.02 < model.share_ < 0.5
    assert model.orientation_ == 1
    assert roc_auc_score(y[60:], model.decision_function(bags[60:])) > 0.95
    np.testing.assert_allclose(model.selected_share(bags[60:]), true[60:], atol=0.05)
    own = model.share_scores_[list(model.shares_).index(model.share_)]
    assert own > model.share_scores_.max() - 0.02
    assert model.share_scores_[0] < 0.8  # of the highest instance


def test_a_score_is_the_mean_of_its_witnesses(shares, model):
    bags = shares[0][60:]
    scores = model.instance_decision_function(bags)
    mask = model.witness_mask(bags)
    np.testing.assert_allclose(
        model.decision_function(bags),
        [
            scores[first:last][mask[first:last]].mean()
            for first, last in zip(bags.offsets, bags.offsets[1:], strict=False)
        ],
    )
    assert mask[model.witness(bags)].all()
    np.testing.assert_allclose(model.predict_proba(bags).sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(bags), model.predict_proba(bags).argmax(axis=1))


def test_names_of_the_classes_in_either_order(few):
    bags, y, model = few
    names = np.where(y == 1, "healthy", "ill")
    other = ShareDiscriminant(n_parts=3).fit(bags[:24], names[:24])
    assert other.orientation_ == -1
    np.testing.assert_allclose(other.coef_, -model.coef_)
    np.testing.assert_allclose(other.decision_function(bags), -model.decision_function(bags))
    np.testing.assert_allclose(other.selected_share(bags), model.selected_share(bags))
    np.testing.assert_array_equal(other.witness_mask(bags), model.witness_mask(bags))
    # A witness has the highest score of "ill", whatever decides.
    lowest = segment_argmax(-model.instance_decision_function(bags), bags.offsets)
    np.testing.assert_array_equal(other.witness(bags), lowest)


def test_half_precision_is_read_as_double_precision(few):
    bags, y, _ = few
    half = bags.instances.astype(np.float16)
    single, double = (
        ShareDiscriminant(n_parts=3).fit(bags.with_instances(half.astype(kind)), y)
        for kind in (np.float16, np.float64)
    )
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-6)


@pytest.mark.parametrize("seed", [143, 165])
def test_features_of_two_values_in_another_order_and_sparse(seed):
    """Scores of bags tie, and are rounded in another way."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(16, 30), rng.integers(2, 8)
    sizes = rng.integers(1, 12, n)
    X, offsets = (rng.random((sizes.sum(), d)) < 0.4).astype(float), np.r_[0, np.cumsum(sizes)]
    y = rng.permutation(np.arange(n) % 2)
    order = np.concatenate(
        [rng.permutation(rows) for rows in np.split(np.arange(len(X)), offsets[1:-1])]
    )
    model = ShareDiscriminant().fit(Bags(X, offsets), y)
    for instances in (X[order], sparse.csr_array(X)):
        other = ShareDiscriminant().fit(Bags(instances, offsets), y)
        np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("seed", "share"), [(116, 0.0), (142, 0.3)])
def test_rounding_does_not_decide_which_instances_are_selected(seed, share):
    """Features of three values, of which many instances have the same score."""
    rng = np.random.default_rng(seed)
    d, sizes = rng.integers(3, 9), rng.integers(2, 15, 20)
    X, offsets = rng.integers(0, 3, (sizes.sum(), d)) * 0.3 + 0.1, np.r_[0, np.cumsum(sizes)]
    bags, y = Bags(X, offsets), rng.permutation(np.arange(20) % 2)
    model = ShareDiscriminant(share=share).fit(bags, y)
    shares = model.selected_share(bags)
    alone = [model.selected_share(bags[[bag]])[0] for bag in range(20)]
    np.testing.assert_array_equal(alone, shares)
    np.testing.assert_array_equal(model.selected_share(bags[::-1]), shares[::-1])
    np.testing.assert_array_equal(
        model.selected_share(bags.with_instances(sparse.csr_array(X))), shares
    )


@pytest.mark.parametrize("ordered", [[2.0, 2.0, 2.0], [0.0, 0.0]])
def test_a_cut_above_equal_scores_and_between_others(ordered):
    assert _cuts_between(np.array(ordered)) == 2 * ordered[0]
    scores = np.repeat([-1.0, 0.5, 1.0, 1.0 + 1e-13], 3)
    np.testing.assert_allclose(_cuts_between(scores), [0.75])


@pytest.mark.parametrize("seed", [41, 93])
def test_names_of_the_classes_where_orientations_tie(seed):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(14, 20), rng.integers(1, 5)
    sizes = rng.integers(1, 5, n)
    X, offsets = rng.integers(0, 2, (sizes.sum(), d)).astype(float), np.r_[0, np.cumsum(sizes)]
    bags, y = Bags(X, offsets), rng.permutation(np.arange(n) % 2)
    model, other = ShareDiscriminant().fit(bags, y), ShareDiscriminant().fit(bags, 1 - y)
    np.testing.assert_allclose(other.predict_proba(bags)[:, ::-1], model.predict_proba(bags))


def test_three_classes():
    y = np.arange(90) % 3
    bags, _ = cohort(1, np.array([0.0, 0.05, 0.3])[y], size=40)
    names = np.array(["none", "few", "many"])[y]
    model = ShareDiscriminant(n_parts=3).fit(bags[:60], names[:60])
    assert model.coef_.shape == (3, 8)
    assert model.share_scores_.shape == (3, len(model.shares_))
    assert model.witness_mask(bags[:2]).shape == (bags[:2].n_instances,)
    assert model.selected_share(bags).shape == (90, 3)
    assert model.score(bags[60:], names[60:]) > 0.7
    np.testing.assert_allclose(model.predict_proba(bags).sum(axis=1), 1)


def test_a_given_share(few):
    bags, y, _ = few
    highest = ShareDiscriminant(share=0, n_parts=3).fit(bags, y)
    assert highest.share_ == highest.pooling_ == 0
    scores = highest.instance_decision_function(bags)
    sign = highest.orientation_
    np.testing.assert_allclose(
        highest.decision_function(bags), sign * segment_max(sign * scores, bags.offsets)
    )
    mean = ShareDiscriminant(share=1.0, n_parts=3).fit(bags, y)
    np.testing.assert_array_equal(mean.shares_, [1.0])
    assert mean.pooling_ in (1 / 3, 1.0)


def test_groups_stay_together():
    # Both bags of a patient are nearly the same, and labels are random: held-out scores of bags
    # whose twin was in training would be right.
    rng = np.random.default_rng(0)
    bags, _ = cohort(5, np.full(30, 0.05), size=30, d=30)
    X = Bags.from_list([bags[bag] + 1e-3 * rng.normal() for bag in range(30) for _ in "ab"])
    y, groups = np.repeat(rng.permutation(np.arange(30) % 2), 2), np.repeat(np.arange(30), 2)
    apart = ShareDiscriminant(n_parts=3).fit(X, y, groups=groups)
    together = ShareDiscriminant(n_parts=3).fit(X, y)
    assert together.share_scores_.max() > apart.share_scores_.max() + 0.1


def test_values():
    values = np.random.default_rng(0).random(90)
    bags, true = cohort(2, 0.3 * values, size=60, shift=4.0)
    model = ShareRegressor(n_parts=3).fit(bags[:60], values[:60])
    assert model.score(bags[60:], values[60:]) > 0.6
    assert np.corrcoef(model.selected_share(bags[60:]), true[60:])[0, 1] > 0.95
    less = ShareRegressor(n_parts=3).fit(bags[:60], 100 - 50 * values[:60])
    assert less.orientation_ == -model.orientation_
    assert less.score(bags[60:], 100 - 50 * values[60:]) > 0.6


def test_many_features_and_one_class_of_one_bag():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    bags, _ = cohort(3, np.where(y == 1, 0.3, 0.02), size=30, d=2)
    words = sparse.random_array(
        (bags.n_instances, 2000), density=0.01, random_state=rng, format="csr"
    )
    X = bags.with_instances(sparse.hstack([bags.instances, words], format="csr"))
    model = ShareDiscriminant(n_parts=3).fit(X, y)
    assert model.coef_.shape == (2002,)
    assert model.score(X, y) > 0.9
    few, _ = cohort(4, [0.5, 0.0, 0.0], size=20)
    alone = ShareDiscriminant(n_parts=3).fit(few, [1, 0, 0])
    assert np.all(np.isfinite(alone.decision_function(few)))


def test_a_sample_finds_the_share_and_all_bags_the_direction(shares):
    bags, y, _ = shares
    source, targets, weights = bags.source(), 2.0 * y[None] - 1, np.ones(90)
    folds = [(np.arange(90) % 3 != fold, np.arange(90) % 3 == fold) for fold in range(3)]
    folds = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in folds]
    limits = SampleLimits(instances=4_000, per_feature=0, numbers=80_000, bags=18)
    search = ShareSearch(source, targets, weights, limits=limits)
    assert len(search.bags) < 90
    for parts in ([], folds):
        found, held_out, _ = search.validated(0, folds, parts)
        whole = ShareSearch(source, targets, weights, share=found.choice.share)
        whole, _, _ = whole.validated(0, folds, parts)
        cosine = found.coef @ whole.coef / np.linalg.norm(found.coef) / np.linalg.norm(whole.coef)
        assert cosine > 0.9
        # Bags that are not in the sample have scores, too.
        assert roc_auc_score(y, held_out) > 0.95
    # A rare class of three is in the sample.
    several = 2.0 * (np.where(np.arange(90) < 6, 2, y) == np.arange(3)[:, None]) - 1
    search = ShareSearch(source, several, weights, limits=limits)
    assert all(set(target[search.bags]) == {-1, 1} for target in several)


def test_few_bags_of_a_class_and_one_bag_alone():
    bags, _ = cohort(6, np.where(np.arange(84) % 21 == 0, 0.2, 0.01), size=40, shift=4.5)
    y = np.where(np.arange(84) % 21 == 0, "ill", "healthy")
    model = ShareDiscriminant(n_parts=3).fit(bags, y)
    together = model.decision_function(bags)
    assert roc_auc_score(y == "ill", together) > 0.95
    for bag in (0, 1, 21):
        np.testing.assert_allclose(model.decision_function(bags[[bag]]), together[bag])
        np.testing.assert_allclose(model.selected_share(bags[[bag]]).shape, (1,))


def parts_with_groups(n_parts):
    bags, _ = cohort(7, np.full(50, 0.1), size=6, d=3)
    y = np.arange(50) % 2
    merged, codes, *_ = merged_classes(bags, y, np.ones(50), np.arange(50) // 2 % 15)
    rng = np.random.RandomState(0)
    folds = class_folds(merged, codes, rng)
    return merged, folds, parts_of(folds, lambda: class_folds(merged, codes, rng), bags, n_parts)


def test_parts_lack_two_of_five_folds_and_keep_groups_together():
    merged, folds, parts = parts_with_groups(11)
    assert len(parts) == 15
    np.testing.assert_array_equal(parts[0][1], np.union1d(folds[0][1], folds[1][1]))
    lacked = np.zeros(50, dtype=int)
    for train, test in parts:
        np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(50))
        assert not set(merged.groups[train]) & set(merged.groups[test])
        lacked[test] += 1
    np.testing.assert_array_equal(lacked, 6)
    assert len({tuple(test) for _, test in parts}) == 15
    assert parts_of([], list, merged.bags, 5) == parts_with_groups(0)[2] == []
    automatic = []
    for n_bags, size, n_features in (
        (50, 1, 4),
        (50, 1, 8),
        (50, 1, 99),
        (110, 1, 99),
        (200, 1, 99),
        (40, 700, 500),
    ):
        zeros = Bags(
            np.zeros((n_bags * size, n_features), np.float16), np.arange(n_bags + 1) * size
        )
        automatic.append(len(parts_of(folds, lambda: folds, zeros)))
    assert automatic == [0, 5, 40, 30, 10, 15]
    # Fewer folds are drawn anew, since a part lacks one of them.
    three = [(np.arange(3) != k, np.array([k])) for k in range(3)]
    assert [test.tolist() for _, test in parts_of(three, lambda: three[::-1], merged.bags, 2)] == [
        [2],
        [1],
        [0],
    ]


def naive_odds(scores, targets):
    """exp((n - 1) r^2 / 2) - 1 below its limit, with Spearman's formula for the ranks."""
    r = np.corrcoef(targets, rankdata(scores))[0, 1]
    found = np.exp((len(targets) - 1) * max(r, 0) ** 2 / 2) - 1
    return found / (1 + found / 1e4)


def test_the_direction_is_the_weighted_mean_of_those_of_parts(shares):
    bags, y, _ = shares
    bags, targets, fold_of = bags[:40], 2.0 * y[:40] - 1, np.arange(40) // 2 % 5
    lacked = [(fold_of == k) | (fold_of == (k + step) % 5) for k in range(5) for step in (0, 1)]
    parts = [(np.flatnonzero(~test), np.flatnonzero(test)) for test in lacked]
    search = ShareSearch(bags.source(), targets[None], np.ones(40), share=0.05)
    every = [search._found(0, *part) for part in parts]
    solution = search._of_parts(0, every, None)
    held_out, _ = search._held_out_of_parts(0, every)

    def naive(without):
        """The direction and the scores of parts that lack these bags, which judge nothing."""
        # Of one that lacks no others, nothing would tell what it is worth.
        members = [each for each in every if each.tested[without].all()]
        members = [each for each in members if each.tested.sum() > len(without)]
        judges = [np.setdiff1d(np.flatnonzero(each.tested), without) for each in members]
        rest, best = np.setdiff1d(np.concatenate(judges), without), (-1.0,)
        for number, choice in enumerate(search.choices):
            odds = [
                naive_odds(each.scores[number][judging], targets[judging])
                for each, judging in zip(members, judges, strict=True)
            ]
            means = [
                np.average(
                    [each.scores[number][bag] for each in members if each.tested[bag]],
                    weights=[
                        o + 1e-9 for o, each in zip(odds, members, strict=True) if each.tested[bag]
                    ],
                )
                for bag in rest
            ]
            value = np.corrcoef(targets[rest], rankdata(means))[0, 1]
            if value > best[0] + 1e-9:
                best = (
                    value,
                    choice,
                    sum(o * each.directions[number] for o, each in zip(odds, members, strict=True)),
                )
        _, choice, start = best
        assert choice.sign == 1
        own = np.ones(40)
        own[without] = 0
        pull = proportions_of((targets - np.average(targets, weights=own)) * own)
        last = ascend(search.source, search.metric, start[None], np.full(1, 0.05), pull, 4)
        pooled = superquantiles(search.source, last.directions, [choice.pooling])[0, :, 0]
        return last.directions[0], (pooled - pooled[own > 0].mean()) / pooled[own > 0].std()

    direction, scores = naive([])
    np.testing.assert_allclose(
        solution.coef / np.linalg.norm(solution.coef),
        direction / np.linalg.norm(direction),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        superquantiles(search.source, solution.coef[None], [solution.choice.pooling])[0, :, 0]
        + solution.intercept,
        scores,
        atol=1e-6,
    )
    _, scores = naive(np.flatnonzero(fold_of == 2))
    np.testing.assert_allclose(held_out[fold_of == 2], scores[fold_of == 2], atol=1e-6)


def test_unseen_bags_tell_which_parts_have_found_something():
    """One instance of 60 decides: a fit on all bags does not find it, nor do most of the parts."""
    rows = np.random.default_rng(0).normal(size=(244, 60, 64))
    y = np.arange(244) % 2
    rows[y == 1, 0] += 4.5 / 8
    train, test = (Bags.from_list(list(part)) for part in (rows[:44], rows[44:]))
    model = ShareDiscriminant(share=0.0).fit(train, y[:44])
    assert roc_auc_score(y[44:], model.decision_function(test)) > 0.9
    search = ShareSearch(train.source(), 2.0 * y[None, :44] - 1, np.ones(44), share=0.0)
    direction = search._followed(search.targets[0], np.ones(44))[0, 0]
    assert model.orientation_ == 1
    highest = superquantiles(test.source(), direction[None], [0.0])[0, :, 0]
    assert roc_auc_score(y[44:], highest) < 0.7


def test_where_all_fits_find_it_folds_choose(few):
    """Parts lack more bags, so that their scores of unseen bags are worse."""
    bags, y, model = few
    of_folds = ShareDiscriminant(n_parts=0).fit(bags[:24], y[:24])
    np.testing.assert_array_equal(model.share_scores_, of_folds.share_scores_)
    assert (model.share_, model.pooling_) == (of_folds.share_, of_folds.pooling_)


def receptors(n_shared):
    """40 bags of 100 one-hot receptors: 40 of their own, 60 of shared ones; one is in no bag."""
    own = np.arange(40 * 40).reshape(40, 40)
    shared = own.size + np.random.default_rng(0).integers(0, n_shared, size=(40, 60))
    features = np.concatenate([own, shared], axis=1).ravel()
    entries = np.ones(features.size), (np.arange(features.size), features)
    X = sparse.csr_array(entries, shape=(features.size, own.size + n_shared + 1))
    return Bags(X, np.arange(0, features.size + 1, 100)), np.arange(40) % 2


def test_features_of_one_bag_only_are_told_before_the_first_fit():
    bags, y = receptors(50)
    with pytest.warns(UserWarning, match=r"1,600 of 1,650 .*SequenceAbundance.*k-mers"):
        ShareDiscriminant(share=1.0, n_parts=0).fit(bags, y)
    # Here a warning is an error, which ends the fit before models are made.
    with pytest.raises(UserWarning, match=r"1,600 of 1,650"):
        MIClassifier().fit(bags, y)
    # The same from blocks of a few bags.
    source = bags.source(block_bytes=8 * 500)
    assert len(source.map(lambda block: block)) > 1
    first, last = source.fold(_with_bags, (np.full(1_651, 40), np.full(1_651, -1)))
    assert np.count_nonzero(first == last) == 1_600
    # Where a sixth is shared, there is none.
    merged_classes(*receptors(300), np.ones(40), None)


def test_features_of_one_bag_take_no_memory_for_each_block(monkeypatch):
    X = sparse.csr_array((np.ones(50_000), np.arange(50_000), np.arange(50_001)))
    bags, source = Bags(X, np.arange(0, 50_001, 1_000)), Bags.source
    monkeypatch.setattr(Bags, "source", lambda self: source(self, block_bytes=8 * 2_000))
    assert len(bags.source().map(lambda block: block)) >= 50
    tracemalloc.start()
    with pytest.warns(UserWarning, match="50,000 of 50,000"):
        warn_of_private_features(bags)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Of 50 blocks, two numbers for each feature would be 40 MB.
    assert peak < 10 * 8 * 50_000


@pytest.mark.parametrize("seed", [1, 4])
def test_with_more_features_than_bags_the_objective_tells_equal_directions_apart(seed):
    """All directions that were followed separate the 40 bags, and one of them new bags, too."""
    rng = np.random.default_rng(seed)
    changed = rng.normal(size=300)
    changed *= 8.0 / np.linalg.norm(changed)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 60, 300)) + 0.7 * rng.normal(size=(80, 1, 300))
    X[y == 1, :3] += changed
    model = ShareDiscriminant(n_parts=0).fit(X[:40], y[:40])
    assert roc_auc_score(y[40:], model.decision_function(X[40:])) > 0.95
