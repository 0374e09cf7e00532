"""Concordance against a loop over pairs and against scikit-survival."""

from __future__ import annotations

import numpy as np
import pytest

from milearn.metrics import concordance_index
from milearn.survival import survival_outcomes


def by_pairs(y, risks, weights):
    right = total = 0.0
    for first, at, risk, weight in zip(y["event"], y["time"], risks, weights, strict=True):
        for second, later, other, its in zip(y["event"], y["time"], risks, weights, strict=True):
            if first and (at < later or (at == later and not second)):
                total += weight * its
                right += weight * its * (0.5 if risk == other else float(risk > other))
    return right / total


def random_case(seed, n):
    rng = np.random.default_rng(seed)
    y = survival_outcomes(rng.random(n) < 0.6, rng.integers(0, 8, n))
    return y, rng.integers(-4, 5, n).astype(float), rng.integers(0, 4, n).astype(float)


def test_equals_a_loop_over_pairs():
    for seed in range(60):
        y, risks, weights = random_case(seed, 4 + seed)
        assert concordance_index(y, risks) == pytest.approx(by_pairs(y, risks, np.ones(len(y))))
        if (weights * y["event"] * (y["time"] < y["time"].max())).any():
            found = concordance_index(y, risks, sample_weight=weights)
            assert found == pytest.approx(by_pairs(y, risks, weights))


def test_rounding_is_a_tie():
    y = survival_outcomes([True, True, True], [1.0, 2.0, 3.0])
    assert concordance_index(y, [0.3, 0.1 + 0.2, 0.3]) == 0.5


@pytest.mark.parametrize("largest", [1e6, 1e9, 1e12])
def test_one_large_risk_does_not_tie_the_others(largest):
    y = survival_outcomes([True] * 4, [1.0, 2.0, 3.0, 4.0])
    assert concordance_index(y, [largest, 3.0, 2.0, 1.0]) == 1.0
    # Zero and what rounding leaves of it are equal.
    assert concordance_index(y, [largest, 0.0, 1e-15, -1e-15]) == 0.75


def test_what_is_refused():
    y = survival_outcomes([False, True], [1.0, 2.0])
    with pytest.raises(ValueError, match="No two samples are comparable"):
        concordance_index(y, [0.0, 1.0])
    with pytest.raises(ValueError, match="must be a structured array"):
        concordance_index([1.0, 2.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        concordance_index(y, [0.0, 1.0, 2.0])
