"""SDPMIL(relaxation="tight"): a bound that always holds, against enumeration."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from sklearn import clone, config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from milearn import SDPMIL
from milearn._bags.segments import segment_sum
from milearn._solvers.svm.selection import SelectionSettings
from milearn.exceptions import SolverError
from milearn.svm import _sdpmil
from tests.bags import labelled_bags, random_bags
from tests.cases import every_pair
from tests.oracles import selection_optimum
from tests.toys import OFTEN_CONSTANT

SIZES = [(3, 4, 3), (3, 4, 30), (5, 8, 10), (2, 1, 2)]


@cache
def optimum_of(seed, size, C, gamma):
    """The optimum by enumeration; the kernel is linear if there is no gamma."""
    n_positive, n_negative, d = size
    bags, y = labelled_bags(seed, n_positive=n_positive, n_negative=n_negative, d=d)
    gram = bags.instances @ bags.instances.T
    if gamma is not None:
        gram = rbf_kernel(bags.instances, gamma=gamma)
    return selection_optimum(gram, bags, y, C)


@pytest.mark.parametrize(
    ("C", "size", "countable"), every_pair([0.1, 10.0], SIZES, [20_000, 0]), ids=str
)
def test_the_bound_is_never_above_the_optimum_and_never_trivial(C, size, countable, monkeypatch):
    # 0: no selections are counted, so that the bound of the norm has to do.
    monkeypatch.setattr(
        _sdpmil, "SelectionSettings", partial(SelectionSettings, countable=countable)
    )
    n_positive, n_negative, d = size
    for seed, kernel in enumerate(["linear", "rbf"]):
        bags, y = labelled_bags(seed, n_positive=n_positive, n_negative=n_negative, d=d)
        model = SDPMIL(C=C, kernel=kernel, relaxation="tight").fit(bags, y)
        best = optimum_of(seed, size, C, model.gamma_ if kernel == "rbf" else None)
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


@pytest.mark.parametrize("seed", range(2))
def test_the_best_of_the_mixed_selections_is_kept(seed):
    bags, y = labelled_bags(seed, n_positive=6, n_negative=6)
    rounded = SDPMIL(kernel="linear").fit(bags, y)
    tight = SDPMIL(kernel="linear", relaxation="tight").fit(bags, y)
    polished = SDPMIL(kernel="linear", relaxation="tight", polish=True).fit(bags, y)
    assert polished.objective_ <= tight.objective_ <= rounded.objective_
    assert polished.lower_bound_ == tight.lower_bound_
    assert rounded.lower_bound_ == 0.0
    assert segment_sum(tight.eta_, bags.offsets)[y == 1] == pytest.approx(1.0)


@pytest.mark.parametrize(("seed", "polish"), [(5, False), (8, True)])
def test_weights_are_repetitions_and_order_does_not_matter(seed, polish):
    """Noisy bags, in which a search from another start ends in another selection."""
    rng = np.random.default_rng(seed)
    bags, y = random_bags(seed, 24), np.arange(24) % 2
    weights = rng.integers(1, 4, size=24)
    model = SDPMIL(relaxation="tight", polish=polish)
    weighted = clone(model).fit(bags, y, sample_weight=weights)
    order = rng.permutation(np.repeat(np.arange(24), weights))
    repeated = clone(model).fit(bags[order], y[order])
    for name in ("objective_", "lower_bound_", "relaxation_value_"):
        assert getattr(repeated, name) == pytest.approx(getattr(weighted, name), rel=1e-6)
    np.testing.assert_allclose(
        repeated.decision_function(bags), weighted.decision_function(bags), atol=1e-4
    )
    first = np.array([np.flatnonzero(order == bag)[0] for bag in range(24)])
    chosen = repeated.selected_[first]
    rows = np.where(chosen >= 0, chosen - repeated_offsets(bags, order)[first], -1)
    expected = np.where(y == 1, weighted.selected_ - bags.offsets[:-1], -1)
    np.testing.assert_array_equal(rows, expected)


def repeated_offsets(bags, order):
    return np.r_[0, np.cumsum(bags.sizes[order])][:-1]


def test_a_matrix_that_does_not_fit_is_refused_with_a_remedy():
    bags, y = labelled_bags(0, n_positive=30, n_negative=30)
    with config_context(working_memory=0.2), pytest.raises(MemoryError, match="working_memory"):
        SDPMIL(kernel="linear", relaxation="tight").fit(bags, y)


@OFTEN_CONSTANT
def test_one_class_against_the_rest_has_a_bound_each():
    bags, _ = labelled_bags(0, n_positive=6, n_negative=6)
    model = SDPMIL(kernel="linear", relaxation="tight").fit(bags, np.arange(12) % 3)
    assert model.lower_bound_.shape == model.optimality_gap_.shape == (3,)
    assert (model.lower_bound_ > 0).all()
    assert (model.optimality_gap_ >= -1e-9).all()


def test_a_mixture_that_fails_is_told(monkeypatch):
    def fails(*args, **options):
        raise SolverError("The cuts are too similar.")

    monkeypatch.setattr("milearn._solvers.svm.mixture.solve_qp", fails)
    bags, y = labelled_bags(0, n_positive=5, n_negative=8, d=4)
    with pytest.warns(ConvergenceWarning, match="lower_bound_ may be too low: The cuts are"):
        model = SDPMIL(relaxation="tight", kernel="linear", C=1.0).fit(bags, y)
    assert not model.converged_
    assert model.lower_bound_ <= model.objective_
