"""SDPMIL(relaxation="tight"): a bound that always holds, against enumeration."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from milearn import SDPMIL
from milearn._bags.segments import segment_sum
from milearn._solvers.svm import selection as _selection
from milearn._solvers.svm import selection_bound as _selection_bound
from milearn._solvers.svm.selection_bound import bound_selection, largest_norm
from milearn.datasets import load_bags
from tests.bags import labelled_bags
from tests.oracles import selection_optimum

SIZES = [(3, 4, 3), (3, 4, 30), (5, 8, 10), (2, 1, 2)]


@pytest.mark.parametrize("countable", [20_000, 0])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_the_bound_is_never_above_the_optimum_and_never_trivial(C, size, countable, monkeypatch):
    # 0: no selections are counted, so that the bound of the norm has to do.
    monkeypatch.setattr(
        _selection, "bound_selection", partial(bound_selection, countable=countable)
    )
    n_positive, n_negative, d = size
    for seed, kernel in enumerate(["linear", "rbf"] * 2):
        bags, y = labelled_bags(seed, n_positive=n_positive, n_negative=n_negative, d=d)
        model = SDPMIL(C=C, kernel=kernel, relaxation="tight").fit(bags, y)
        gram = bags.instances @ bags.instances.T
        if kernel == "rbf":
            gram = rbf_kernel(bags.instances, gamma=model.gamma_)
        best = selection_optimum(gram, bags, y, C)
        assert 0 < model.lower_bound_ <= best * (1 + 1e-7)
        assert model.objective_ >= best * (1 - 1e-6)
        assert model.optimality_gap_ == model.objective_ - model.lower_bound_
        assert model.relaxation_value_ == model.lower_bound_


def test_the_bound_counts_weights():
    bags, y = labelled_bags(1, n_positive=4, n_negative=5)
    weights = np.where(y == 1, 3.0, 0.5)
    model = SDPMIL(1.0, kernel="linear", relaxation="tight")
    model.fit(bags, y, sample_weight=weights)
    best = selection_optimum(bags.instances @ bags.instances.T, bags, y, 1.0, weights)
    assert 0.5 * best < model.lower_bound_ <= best * (1 + 1e-7)


def test_the_bound_is_near_where_bags_are_clear():
    for seed in range(5):
        bags, y = labelled_bags(seed, n_positive=5, n_negative=5, shift=4.0)
        model = SDPMIL(C=1.0, kernel="linear", relaxation="tight").fit(bags, y)
        assert model.optimality_gap_ <= 0.1 * model.objective_


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_the_mixed_selections_is_kept(seed):
    bags, y = labelled_bags(seed, n_positive=6, n_negative=6)
    rounded = SDPMIL(kernel="linear").fit(bags, y)
    tight = SDPMIL(kernel="linear", relaxation="tight").fit(bags, y)
    polished = SDPMIL(kernel="linear", relaxation="tight", polish=True).fit(bags, y)
    assert polished.objective_ <= tight.objective_ <= rounded.objective_
    assert polished.lower_bound_ == tight.lower_bound_
    assert rounded.lower_bound_ == 0.0
    assert segment_sum(tight.eta_, bags.offsets)[y == 1] == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_of_the_norm_and_its_count(seed):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 4, size=5))]
    step, base = rng.normal(size=(offsets[-1], 3)), rng.normal(size=3)
    every = itertools.product(*(range(a, b) for a, b in itertools.pairwise(offsets)))
    squares = {h: float(np.sum((step[list(h)].sum(axis=0) - base) ** 2)) for h in every}
    mixture = np.repeat(1.0 / np.diff(offsets), np.diff(offsets))
    top = max(squares.values())
    bound = largest_norm(step, base, offsets, mixture)
    assert top <= bound * (1 + 1e-12)
    assert bound <= 3 * top
    start = offsets[:-1].copy()
    counted, found = _selection_bound._largest_of_all(step, base, offsets, np.ones(5), start)
    assert counted == pytest.approx(top)
    assert squares[tuple(found)] == pytest.approx(top)
    local = _selection_bound._local_search(step, base, offsets, start)
    assert squares[tuple(start)] <= squares[tuple(local)] <= top * (1 + 1e-12)


def test_one_class_against_the_rest_has_a_bound_each():
    bags, _ = labelled_bags(0, n_positive=6, n_negative=6)
    model = SDPMIL(kernel="linear", relaxation="tight").fit(bags, np.arange(12) % 3)
    assert model.lower_bound_.shape == model.optimality_gap_.shape == (3,)
    assert (model.lower_bound_ > 0).all()
    assert (model.optimality_gap_ >= -1e-9).all()


def test_real_bags_have_a_bound(data_dir):
    bunch = load_bags(data_dir / "musk1.npz")
    bags = bunch.data.with_instances(bunch.data.instances / 100.0)
    model = SDPMIL(C=0.1, kernel="linear", relaxation="tight", polish=True).fit(bags, bunch.target)
    assert 0 < model.lower_bound_ < model.objective_
