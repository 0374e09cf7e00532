"""Samples of bags depend on their contents and not on their order."""

from __future__ import annotations

import numpy as np
import pytest

from milearn import Bags
from milearn._bags.blocks import ArraySource
from milearn._bags.segments import gather_rows
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.descent import RowLimits
from milearn._solvers.common.passes import SampleLimits, sampled_source
from milearn._solvers.svm import starts
from milearn._solvers.svm.losses import Hinge
from milearn._solvers.svm.starts import solve_mi_svm_rows
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


def test_the_sample_has_parts_of_bags_of_both_classes_wherever_zero_is():
    bags, signs = data(0)
    limits = SampleLimits(instances=400, per_feature=1, numbers=2**13, bags=15)
    sample, chosen = sampled_source(bags.source(), signs, limits)
    assert sample.n_instances < bags.n_instances / 2
    assert (sample.sizes < bags.sizes[chosen]).any()
    assert min(np.sum(signs[chosen] == sign) for sign in (1.0, -1.0)) >= 15
    rows, offsets = gather_rows(bags.offsets, chosen)
    for own, first in zip(np.split(sample.instances, sample.offsets[1:-1]), offsets, strict=False):
        size = bags.sizes[chosen[np.searchsorted(offsets, first)]]
        whole = bags.instances[rows[first : first + size]]
        assert (own[:, None] == whole).all(axis=2).any(axis=1).all()
    shifted = bags.with_instances(bags.instances + 5.0)
    found, own = sampled_source(shifted.source(block_bytes=2**14), signs, limits)
    np.testing.assert_array_equal(own, chosen)
    np.testing.assert_allclose(found.instances - 5.0, sample.instances, atol=1e-12)


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
