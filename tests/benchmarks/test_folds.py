"""Nemenyi's test of the tables of ranks, against published figures."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common.folds import nemenyi
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
