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
from milearn._solvers.svm import mi_svm_rows
from milearn._solvers.svm.losses import Hinge
from milearn._solvers.svm.mi_svm_rows import solve_from, solve_mi_svm_rows
from milearn._solvers.svm.objectives import MISVMProblem
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
    assert (np.diff(sample.offsets) < bags.sizes[chosen]).any()
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
    monkeypatch.setattr(mi_svm_rows, "_MEANS", means)
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


def test_a_sample_of_fewer_bags_than_features_gives_a_direction(monkeypatch):
    # Its ends on the sample separate bags by noise: from them, J of all bags ended at 0.945.
    monkeypatch.setattr(mi_svm_rows, "_MEANS", 0.0)
    rng, n_bags, size, n_features = np.random.default_rng(0), 400, 60, 200
    signs = np.where(np.arange(n_bags) % 2, 1.0, -1.0)
    concept = rng.standard_normal(n_features)
    concept *= 4.0 / np.linalg.norm(concept)
    tissues = rng.standard_normal((12, n_features))
    instances = rng.standard_normal((n_bags * size, n_features))
    instances += tissues[rng.integers(12, size=len(instances))]
    instances[np.flatnonzero(signs > 0) * size] += concept
    signs = np.where(rng.random(n_bags) < 0.1, -signs, signs)
    source = ArraySource(instances, np.arange(n_bags + 1) * size)
    options, limits = SolverOptions(1e-3, 100), RowLimits(all_rows=0)
    loss = Hinge(signs, np.full(n_bags, 3e-3))
    sample = SampleLimits(instances=6_000, per_feature=1, numbers=2**23, bags=50)
    end = solve_mi_svm_rows(source, loss, "bag", "auto", options, limits=limits, sample=sample)
    problem = MISVMProblem(source, (signs > 0).astype(np.intp), loss.weights)
    direction = concept / 4.0
    highest = (instances @ direction).reshape(n_bags, size).max(axis=1)
    true = solve_from(problem, problem.along(direction, highest), options, limits=limits)
    assert end.objective <= 1.01 * true.objective


def test_a_wider_band_has_more_rows_of_each_bag():
    assert [RowLimits(band=band).of_bag(100, 10) for band in (0.3, 0.45, 0.675)] == [4, 9, 20]
    assert RowLimits(band=0.675, numbers=3_000).of_bag(100, 10) == 3
