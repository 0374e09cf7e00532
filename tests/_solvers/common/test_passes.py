"""Sources of passes, and the passes, against loops over bags."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags
from milearn._bags.blocks import ArraySource, product
from milearn._solvers.common import passes
from tests._bags.kinds import dense
from tests.cases import every_pair

FORMS = {
    "float64": np.asarray,
    "float32": np.float32,
    "float16": np.float16,
    "csr": sparse.csr_array,
}


def some_bags(seed, n_bags=25, d=3, largest=9):
    """Bags whose values float16 holds too."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, largest + 1, size=n_bags))])
    return rng.normal(size=(offsets[-1], d)).astype(np.float16).astype(float), offsets


@pytest.fixture
def mapped(tmp_path):
    """Rows of a memory map as a container gives them, every other bag of it selected."""

    def make(instances, offsets):
        sizes = np.diff(offsets)
        twice = np.repeat(np.arange(len(sizes)), 2)
        rows = np.concatenate([np.r_[offsets[bag] : offsets[bag + 1]] for bag in twice])
        np.save(tmp_path / "x.npy", instances[rows])
        whole = np.load(tmp_path / "x.npy", mmap_mode="r")
        return Bags(whole, np.r_[0, np.cumsum(sizes[twice])])[::2].instance_rows

    return make


def test_a_fold_goes_through_the_rows_in_order():
    instances, offsets = some_bags(2)
    source = pickle.loads(pickle.dumps(ArraySource(instances, offsets, 8 * 3 * 4, n_jobs=2)))
    seen = source.fold(lambda state, block, more: [*state, (block.rows, more)], [], 5)
    assert [rows.start for rows, _ in seen] == [0, *(rows.stop for rows, _ in seen[:-1])]
    assert seen[-1] == (slice(seen[-1][0].start, len(instances)), 5)


@pytest.mark.parametrize(
    ("n_jobs", "form", "block_bytes"),
    every_pair([1, 2], [*FORMS, "mapped"], [1, 8 * 3 * 5, 2**20]),
)
def test_passes_equal_loops(block_bytes, form, n_jobs, mapped):
    for seed in range(2):
        instances, offsets = some_bags(seed)
        weights = np.random.default_rng(seed).normal(size=(4, 3))
        made = mapped(instances, offsets) if form == "mapped" else FORMS[form](instances)
        source = ArraySource(made, offsets, block_bytes, n_jobs=n_jobs)
        rows, vectors, values = passes.highest(source, weights)
        maxima = passes.bag_maxima(source, weights)
        means = dense(passes.bag_means(source, np.float64))
        scores = instances @ weights.T
        for i, (a, b) in enumerate(pairwise(offsets)):
            best = scores[a:b].max(axis=1)
            assert rows[i] == a + best.argmax()
            assert vectors[i] == scores[rows[i]].argmax()
            assert values[i] == pytest.approx(best.max(), rel=1e-12)
            np.testing.assert_allclose(maxima[i], scores[a:b].max(axis=0), rtol=1e-10)
            np.testing.assert_allclose(means[i], instances[a:b].mean(axis=0), rtol=1e-10)
        np.testing.assert_allclose(passes.instance_scores(source, weights), scores, rtol=1e-9)
        m = sum(instances[a:b].mean(axis=0) for a, b in pairwise(offsets))
        np.testing.assert_allclose(passes.sum_of_means(source), m, rtol=1e-10)
        taken = passes.gather(source, rows)
        assert taken.dtype == np.float64
        np.testing.assert_array_equal(dense(taken), instances[rows])


@pytest.mark.parametrize("block_bytes", [1, 2**20])
def test_ties_go_to_the_first_vector_then_to_the_first_instance(block_bytes):
    # In both bags x and -x have the same score, for the two vectors.
    instances = np.array([[-1.0], [1.0], [1.0], [-1.0], [1.0], [-1.0]])
    source = ArraySource(instances, np.array([0, 4, 6]), block_bytes)
    weights = np.array([[1.0], [-1.0]])
    rows, vectors, _ = passes.highest(source, weights)
    assert rows.tolist() == [1, 4]
    assert vectors.tolist() == [0, 0]
    assert (passes.bag_maxima(source, weights).argmax(axis=1) == vectors).all()


def test_a_sum_of_means_that_is_zero_but_for_rounding_is_zero():
    rng = np.random.default_rng(0)
    instances = rng.normal(size=(50, 3))
    instances -= instances.mean(axis=0)
    instances[:, 2] += 1.0
    m = passes.sum_of_means(ArraySource(instances, np.arange(51)))
    assert (m[:2] == 0).all()
    assert m[2] == pytest.approx(50.0)


def test_scores_of_many_rows_have_all_digits():
    rows = (np.arange(5_000_000) % 7).astype(np.float16)[:, None]  # more than one block
    np.testing.assert_array_equal(product(rows, np.array([0.1])), 0.1 * (np.arange(5_000_000) % 7))
    for form in FORMS.values():
        scores = product(form(np.eye(3)), np.array([0.1, 0.2, 0.3]))
        np.testing.assert_array_equal(scores, [0.1, 0.2, 0.3])
        assert product(form(np.eye(3))[:0], np.ones(3)).shape == (0,)
