"""BagOfWords, VLAD and FisherVector against loops over bags, and over memory maps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime

from milearn import Bags
from milearn.datasets import load_bags, save_bags
from milearn.embedding import VLAD, BagOfWords, FisherVector
from tests.toys import two_level_bags


def nearest_words(bag, words):
    return np.array([np.argmin([np.linalg.norm(x - word) for word in words]) for x in bag])


def unit(row, power):
    row = np.sign(row) * np.abs(row) ** power
    return row / np.linalg.norm(row)


@pytest.mark.parametrize("batch_size", [None, 20])
def test_histograms_are_those_of_the_loop(batch_size):
    bags, _ = two_level_bags(n_bags=15)
    model = BagOfWords(6, batch_size=batch_size, random_state=0).fit(bags[:10])
    places = [nearest_words(bag, model.words_) for bag in bags]
    expected = np.array([np.bincount(each, minlength=6) for each in places])
    np.testing.assert_allclose(model.transform(bags), expected / bags.sizes[:, None])
    counts = BagOfWords(6, counts=True, batch_size=batch_size, random_state=0).fit(bags[:10])
    np.testing.assert_array_equal(counts.transform(bags), expected)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_vlad_is_that_of_the_loop(power):
    bags, _ = two_level_bags(n_bags=15)
    model = VLAD(4, power=power, random_state=0).fit(bags[:10])
    rows = []
    for bag in bags:
        places = nearest_words(bag, model.words_)
        parts = [(bag[places == k] - model.words_[k]).sum(axis=0) for k in range(4)]
        rows.append(unit(np.concatenate(parts), power))
    np.testing.assert_allclose(model.transform(bags), rows, rtol=1e-9, atol=1e-12)


def test_fisher_vectors_are_gradients_of_the_likelihood():
    bags, _ = two_level_bags(n_bags=12)
    model = FisherVector(2, power=1.0, random_state=0).fit(bags)
    mixture = model.mixture_
    weights, means, deviations = (
        mixture.weights_,
        mixture.means_,
        np.sqrt(mixture.covariances_),
    )

    def likelihood(parameters, bag):
        """Mean log-likelihood, weights by a softmax as in the derivation of the vector."""
        odds, mu, sigma = np.split(parameters, [2, 8])
        mu, sigma = mu.reshape(2, 3), sigma.reshape(2, 3)
        share = np.exp(odds) / np.exp(odds).sum()
        z = (bag[:, None] - mu) / sigma
        density = share * np.exp(-0.5 * (z**2).sum(axis=2)) / sigma.prod(axis=1)
        return np.log(density.sum(axis=1)).mean()

    at = np.concatenate([np.log(weights), means.ravel(), deviations.ravel()])
    rows = []
    for bag in bags:
        by_weight, by_mean, by_deviation = np.split(
            approx_fprime(at, likelihood, 1e-7, bag), [2, 8]
        )
        # Divided by the square roots of the diagonal of the Fisher information.
        by_mean = by_mean.reshape(2, 3) * deviations / np.sqrt(weights)[:, None]
        by_deviation = by_deviation.reshape(2, 3) * deviations / np.sqrt(2 * weights)[:, None]
        parts = [by_weight / np.sqrt(weights)]
        for k in range(2):
            parts += [by_mean[k], by_deviation[k]]
        rows.append(unit(np.concatenate(parts), 1.0))
    np.testing.assert_allclose(model.transform(bags), rows, atol=1e-5)


@pytest.mark.parametrize("model", [BagOfWords(5), VLAD(3), FisherVector(2)])
def test_a_memory_map_and_float16_are_read_in_blocks(model, tmp_path):
    bags, y = two_level_bags(n_bags=20)
    half = bags.with_instances(bags.instances.astype(np.float16))
    save_bags(tmp_path / "bags", half, y, format="npy-folder")
    mapped = load_bags(tmp_path / "bags", mmap=True).data
    model = model.set_params(random_state=0)
    expected = model.fit_transform(half.with_instances(half.instances.astype(np.float64)))
    np.testing.assert_allclose(model.fit_transform(mapped), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["memory", "mapped"])
@pytest.mark.parametrize("model", [BagOfWords(5), VLAD(3), FisherVector(2)])
def test_bags_larger_than_a_block_are_read_in_parts(model, kind, tmp_path, monkeypatch):
    bags, y = two_level_bags(n_bags=12, size=60)
    expected = model.set_params(random_state=0).fit(bags).transform(bags)
    if kind == "mapped":
        save_bags(tmp_path / "bags", bags, y, format="npy-folder")
        bags = load_bags(tmp_path / "bags", mmap=True).data
    monkeypatch.setitem(Bags.source.__kwdefaults__, "block_bytes", 8 * 3 * 16)
    source, sizes = bags.source(), []
    source.map(lambda block: sizes.append(block.stored.shape[0]), in_parts=True)
    assert max(sizes) == 16 < max(bags.sizes)
    np.testing.assert_allclose(model.transform(bags), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model", [BagOfWords(50), VLAD(50), FisherVector(50)])
def test_there_are_no_more_words_than_distinct_instances(model):
    bags = Bags(np.repeat(np.eye(3), 10, axis=0), [0, 10, 15, 30])
    rows = model.set_params(random_state=0).fit_transform(bags)
    assert rows.shape == (3, len(model.get_feature_names_out()))
    assert len(getattr(model, "words_", [0, 0, 0])) == 3
    alone = model.fit(Bags(np.ones((1, 3)), [0, 1])).transform(bags)
    assert np.isfinite(alone).all()


@pytest.mark.parametrize("model", [BagOfWords(4), VLAD(4), FisherVector(2)])
def test_a_sample_bounds_the_training_instances(model):
    bags, _ = two_level_bags(n_bags=40)
    few = model.set_params(max_instances=8, random_state=0).fit(bags)
    words = few.words_ if hasattr(few, "words_") else few.mixture_.means_
    assert words.shape == (len(words), 3)
    again = few.transform(bags)
    other = model.set_params(max_instances=8, random_state=1).fit_transform(bags)
    assert not np.allclose(again, other)


@pytest.mark.parametrize("shift", [2.0**24, 2.0**30])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_words_far_from_zero_are_the_nearest_ones(kind, shift):
    bags, _ = two_level_bags(n_bags=30)
    # Multiples of a power of two, so that the shifted instances are exact.
    near = bags.with_instances(np.round(bags.instances * 512) / 512)
    far = near.with_instances(near.instances + shift)
    if kind == "csr":
        far = far.with_instances(sparse.csr_array(far.instances))
    words = BagOfWords(8, counts=True, random_state=0).fit(far)
    places = [nearest_words(bag, words.words_ - shift) for bag in near]
    expected = [np.bincount(each, minlength=8) for each in places]
    np.testing.assert_array_equal(words.transform(far), expected)
    model = VLAD(4, power=1.0, random_state=0).fit(far)
    found, model.words_ = model.transform(far), model.words_ - shift
    np.testing.assert_allclose(found, model.transform(near), atol=1e-5)


@pytest.mark.parametrize("shift", [2.0**20, 2.0**24, 2.0**30])
def test_fisher_vectors_do_not_depend_on_the_origin(shift):
    bags, _ = two_level_bags(n_bags=30)
    near = bags.with_instances(np.round(bags.instances * 512) / 512)
    model = FisherVector(2, random_state=0).fit(near)
    far = FisherVector(2, random_state=0).fit(near.with_instances(near.instances + shift))
    found = far.transform(near.with_instances(near.instances + shift))
    # The Gaussians may have another order.
    np.testing.assert_allclose(np.sort(found), np.sort(model.transform(near)), atol=1e-9)
    means = np.sort(far.mixture_.means_, axis=0) - shift
    np.testing.assert_allclose(means, np.sort(model.mixture_.means_, axis=0), atol=1e-6)


def test_a_mixture_of_two_distant_clusters_is_refused():
    bags, _ = two_level_bags()
    distance = 1e9 * (np.arange(bags.n_instances) % 2)
    far = bags.with_instances(bags.instances + distance[:, None])
    with pytest.raises(ValueError, match="ill-defined empirical covariance"):
        FisherVector(2).fit(far)
