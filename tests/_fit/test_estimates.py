"""Warnings before fits that take long: said once, before they begin, with a remedy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import EfficiencyWarning

from milearn import Bags
from milearn._fit.estimates import (
    features_seconds,
    kernel_seconds,
    mixture_seconds,
    relaxation_seconds,
    warn_if_long,
)
from milearn.datasets import make_bags
from milearn.svm import MISVC, SDPMIL, CoupledMISVC, CoupledMISVR, InstanceMISVC, _formulations

# CPU seconds with one thread: bags, instances, features; seen, and not only when this was written.
SEEN = [
    (kernel_seconds("maximum", 100, 1000, 10), 0.14),
    (kernel_seconds("maximum", 316, 3160, 20), 3.2),
    (kernel_seconds("maximum", 200, 8000, 10), 11.2),
    (kernel_seconds("maximum", 100, 1000, 1000), 0.48),
    (kernel_seconds("coupled", 100, 1000, 20), 0.20),
    (kernel_seconds("coupled", 1000, 10_000, 20), 15.2),
    (kernel_seconds("coupled", 200, 8000, 10), 5.4),
    (kernel_seconds("labels", 200, 2000, 10), 0.47),
    (features_seconds(20_240, 20, 300), 7.2),
    (features_seconds(100_192, 20, 300), 8.8),
    (kernel_seconds("labels", 316, 3160, 20), 6.7),
    (relaxation_seconds(200, 2015, 2015), 2.9),
    (relaxation_seconds(100, 996, 996), 0.63),
    (relaxation_seconds(3162, 31_620, 20), 7.0),
    (mixture_seconds(2000), 3.7),
    (mixture_seconds(4000), 34.9),
]


@pytest.mark.parametrize(("estimate", "seen"), SEEN)
def test_rates_are_those_that_were_measured(estimate, seen):
    assert seen / 4 <= estimate <= 4 * seen


class Begun(Exception):
    """The fit went on after the warning."""


@pytest.mark.parametrize(
    ("model", "where", "remedy"),
    [
        (MISVC(), "milearn.svm._formulations.training_gram", "n_components=300"),
        (CoupledMISVC(), "milearn.svm._coupled._bag_gram", "n_components=300"),
        (CoupledMISVR(), "milearn.svm._coupled._bag_gram", "n_components=300"),
        (InstanceMISVC(), "milearn.svm._formulations.training_gram", "kernel='linear'"),
        (SDPMIL(), "milearn.svm._sdpmil.training_gram", "n_components=100"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_it_is_said_before_the_fit_begins(model, where, remedy, monkeypatch):
    def begin(*arguments, **options):
        raise Begun

    monkeypatch.setattr(where, begin)
    monkeypatch.setattr(_formulations, "warn_if_long", partial(warn_if_long, long_seconds=1e-3))
    bags, y = make_bags(40, random_state=0)
    target = y.astype(float) if isinstance(model, CoupledMISVR) else y
    said = rf"40 bags with {bags.n_instances} instances .* by a factor of 10 perhaps\): .*{remedy}"
    with pytest.warns(EfficiencyWarning, match=said) as caught, pytest.raises(Begun):
        model.fit(bags, target)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_what_is_short_or_goes_by_passes_says_nothing(monkeypatch):
    bags, y = make_bags(160, random_state=0)
    MISVC().fit(bags[:40], y[:40])
    monkeypatch.setattr(_formulations, "warn_if_long", partial(warn_if_long, long_seconds=0.0))
    MISVC(kernel="linear").fit(bags, y)
    CoupledMISVC(n_components=5, random_state=0).fit(bags, y)


@pytest.mark.parametrize(("n", "time"), [(100_000, "hours"), (2_000_000, "days")])
def test_hours_and_days(n, time, monkeypatch):
    monkeypatch.setattr("milearn.svm._formulations.training_gram", lambda *arguments: 1 / 0)
    bags = Bags(np.zeros((n, 1), dtype=np.float32), np.arange(0, n + 1, 1000))
    with (
        pytest.warns(EfficiencyWarning, match=rf"estimated to take [\d.]+ {time} \("),
        pytest.raises(ZeroDivisionError),
    ):
        MISVC(gamma=1.0, n_components=None).fit(bags, np.arange(len(bags)) % 2)
