"""Structured targets: made, recognised and refused."""

from __future__ import annotations

import numpy as np
import pytest

from milearn._fit.outcomes import (
    has_outcomes,
    outcome_fields,
    survival_outcomes,
    validate_outcomes,
)
from milearn.survival import MICoxPH
from tests.bags import random_bags


def test_outcomes_are_those_of_scikit_survival():
    util = pytest.importorskip("sksurv.util", reason="needs the extra survival")
    event, time = [True, False, True], [3.0, 1.0, 2.0]
    found, expected = survival_outcomes(event, time), util.Surv.from_arrays(event, time)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("event", [[1, 0], np.array([1.0, 0.0]), [True, False]])
def test_events_may_be_numbers(event):
    np.testing.assert_array_equal(survival_outcomes(event, [1, 2])["event"], [True, False])


def test_fields_are_known_by_their_types():
    fields = [("days", np.int32), ("died", bool)]
    assert outcome_fields(np.zeros(2, dtype=fields)) == ("died", "days")
    assert has_outcomes(np.zeros(2, dtype=fields))
    for other in (
        np.zeros(2),
        np.zeros(2, dtype=[("a", bool)]),
        np.zeros(2, dtype=[("a", float), ("b", float)]),
        np.zeros(2, dtype=[("a", bool), ("b", float), ("c", float)]),
    ):
        assert not has_outcomes(other)
    assert not has_outcomes([True, 1.0])


def test_what_is_refused():
    with pytest.raises(
        ValueError, match=r"event holds 2 for bag 1: pass True for an observed event"
    ):
        survival_outcomes([0, 2], [1.0, 2.0])
    with pytest.raises(
        ValueError, match=r"time holds 1 missing value\(s\) \(NaN\), the first for bag 1"
    ):
        survival_outcomes([True, False], [1.0, np.nan])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        survival_outcomes([True, False], [1.0])
    bags = random_bags(0, 3)
    y = survival_outcomes([True] * 3, [1.0, 2.0, 3.0])
    broken = y.copy()
    broken["time"][1] = np.inf
    for target, message in (
        (None, "requires y to be passed"),
        (y[:2], "^y has 2 labels for 3 bags:"),
        ([1.0, 2.0, 3.0], r"milearn\.survival\.survival_outcomes\(event, time\)"),
        (broken, "y holds inf for bag 1"),
    ):
        with pytest.raises(ValueError, match=message):
            validate_outcomes(MICoxPH(), target, bags)
