"""Nemenyi's test of the tables of ranks, against published figures, and the seeds of methods."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common.folds import nemenyi
from benchmarks.common.methods import METHODS
from milearn import Bags
from milearn.model_selection import rank_methods
from tests.model_selection.test_ranks import DEMSAR, NAMES


def test_the_example_of_demsar():
    critical, p_values = nemenyi(rank_methods(DEMSAR, NAMES))
    assert critical == pytest.approx(1.25, abs=5e-3)
    assert p_values.min() > 0.05  # the paper: at 5 % no pair differs


# Table 5 (a) of Demsar (2006).
@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (10, 3.164)])
def test_critical_values_are_those_of_the_published_table(k, q):
    found = rank_methods(np.random.default_rng(0).uniform(size=(7, k)), [str(i) for i in range(k)])
    critical, p_values = nemenyi(found)
    assert critical == pytest.approx(q * np.sqrt(k * (k + 1) / 42), abs=1e-3)
    np.testing.assert_array_equal(p_values < 0.05, found.ranks - found.ranks[0] > critical)


def test_methods_have_the_same_figures_in_every_run():
    for method in METHODS.values():
        found = method.model(False).get_params()
        assert all(
            value is not None for name, value in found.items() if name.endswith("random_state")
        )
    rng = np.random.default_rng(0)
    bags, y = Bags(rng.normal(size=(3000, 2)), np.arange(0, 3001, 150)), np.arange(20) % 2
    rows = [METHODS["all-set"].model(False)[:2].fit(bags, y).transform(bags) for _ in range(2)]
    np.testing.assert_array_equal(*rows)
