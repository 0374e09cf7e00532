"""Samples of bags depend on their contents and not on their order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags
from milearn._bags.blocks import ArraySource
from milearn._bags.segments import gather_rows
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.descent import RowLimits
from milearn._solvers.common.passes import SampleLimits, sampled_source
from milearn._solvers.svm import starts
from milearn._solvers.svm.losses import Hinge
from milearn._solvers.svm.starts import screened_rows, solve_mi_svm_rows
from milearn.datasets import make_bags

FEW = SampleLimits(instances=300, per_feature=1, numbers=2**20, bags=12)


def data(seed, n_bags=90, n_features=16):
    """Bags, of which one in three is large, and signs."""
    bags, y = make_bags(n_bags, n_features, bag_size=(5, 20), flip_y=0.1, random_state=seed)
    large, y_large = make_bags(30, n_features, bag_size=(60, 80), random_state=seed + 100)
    both = Bags.concatenate([bags, large])
    return both, np.where(np.concatenate([y, y_large]) == 1, 1.0, -1.0)


def permuted(bags, signs, seed):
    """Bags in another order, with their instances in another order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(bags))
    blocks = [bags[int(bag)] for bag in order]
    return Bags.from_list([block[rng.permutation(len(block))] for block in blocks]), signs[order]


def test_the_sample_is_the_same_for_every_order_and_storage(tmp_path):
    bags, signs = data(0)
    limits = SampleLimits(instances=400, per_feature=1, numbers=2**13, bags=15)
    moved, moved_signs = permuted(bags, signs, 1)
    np.save(tmp_path / "X.npy", moved.instances)
    mapped = Bags(np.load(tmp_path / "X.npy", mmap_mode="r"), moved.offsets)
    shifted = bags.with_instances(bags.instances + 5.0)
    stored = [
        (bags.with_instances(sparse.csr_array(bags.instances)), signs, 0.0),
        (mapped, moved_signs, 0.0),
        (shifted, signs, 5.0),
    ]
    sample, chosen = sampled_source(bags.source(), signs, limits)
    assert sample.n_instances < bags.n_instances / 2
    assert (sample.sizes < bags.sizes[chosen]).any()
    assert min(np.sum(signs[chosen] == sign) for sign in (1.0, -1.0)) >= 15
    rows, offsets = gather_rows(bags.offsets, chosen)
    for own, first in zip(np.split(sample.instances, sample.offsets[1:-1]), offsets, strict=False):
        size = bags.sizes[chosen[np.searchsorted(offsets, first)]]
        whole = bags.instances[rows[first : first + size]]
        assert (own[:, None] == whole).all(axis=2).any(axis=1).all()
    for each, own_signs, origin in stored:
        found, own = sampled_source(each.source(block_bytes=2**14), own_signs, limits)
        values = found.instances.toarray() if each.is_sparse else found.instances
        np.testing.assert_array_equal(own_signs[own], signs[chosen])
        np.testing.assert_array_equal(found.offsets, sample.offsets)
        np.testing.assert_allclose(values - origin, sample.instances, atol=1e-12)


@pytest.mark.parametrize(("slack", "means"), [("bag", 0.0), ("instance", 0.0), ("bag", np.inf)])
def test_fits_of_many_instances_do_not_depend_on_the_order(slack, means, monkeypatch):
    monkeypatch.setattr(starts, "_MEANS", means)
    bags, signs = data(2)
    cases = [(bags, signs), permuted(bags, signs, 1)]
    ends = [
        solve_mi_svm_rows(
            # Several blocks, whose bags differ between the orders.
            ArraySource(each.instances, each.offsets, block_bytes=2**15),
            Hinge(own, np.full(len(own), 0.3)),
            slack,
            "auto",
            SolverOptions(1e-9, 100),
            limits=RowLimits(all_rows=0),
            sample=FEW,
        )
        for each, own in cases
    ]
    for end in ends[1:]:
        # The first value of the history is that of the start.
        assert end.history[0] == pytest.approx(ends[0].history[0], rel=1e-8)
        assert end.objective == pytest.approx(ends[0].objective, rel=1e-8)
        np.testing.assert_allclose(end.w, ends[0].w, atol=1e-5)


def test_the_screen_on_a_sample_does_not_depend_on_the_order():
    bags, signs = data(3)
    moved, moved_signs = permuted(bags, signs, 1)
    found, other = (
        each.instances[screened_rows(each.source(), own, np.ones(len(own)), FEW)]
        for each, own in ((bags, signs), (moved, moved_signs))
    )
    order = np.lexsort(found.T), np.lexsort(other.T)
    np.testing.assert_array_equal(found[order[0]], other[order[1]])
