"""A folder of tiny data sets, and measurements in this process."""

from __future__ import annotations

import json
from functools import partial
from importlib import import_module

import pytest

from benchmarks.commands import _speed_fit, calibration, speed
from benchmarks.common import data
from benchmarks.papers import andrews2003, zhang2011, zhang2011_protein
from benchmarks.scales import cohort, compared, estimators, linear, series
from milearn import MIClassifier
from milearn.datasets import make_bags, save_bags


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """Every data set of two classes, as 24 bags."""
    folder = tmp_path_factory.mktemp("data")
    bags, y = make_bags(24, 5, bag_size=(2, 4), concept_distance=3.0, random_state=0)
    for name in data.FILES.values():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        save_bags(folder / name, bags, y)
    return folder


@pytest.fixture
def tiny(tiny_folder, monkeypatch):
    """The tiny data sets in the place of the real ones."""
    monkeypatch.setenv("MILEARN_DATA", str(tiny_folder))
    data.load.cache_clear()
    yield
    data.load.cache_clear()


@pytest.fixture
def in_this_process(monkeypatch):
    """Measurements run here: an import costs seconds. ``test_fresh`` has processes of their own."""

    def run(function, task, **limits):
        module, _, name = function.partition(":")
        found = getattr(import_module(module), name)(json.loads(json.dumps(task)))
        return json.loads(json.dumps(found))

    for module in (series, cohort, estimators, speed, zhang2011, zhang2011_protein):
        monkeypatch.setattr(module, "in_fresh_process", run)
    # Limits would remain for this process.
    for module in (cohort, estimators):
        monkeypatch.setattr(module, "limit_memory", lambda mib: None)
    monkeypatch.setattr(estimators, "limit_cpu", lambda seconds: None)


@pytest.fixture
def small(monkeypatch):
    """Less of what ``--fast`` leaves: one fit of a case, few patches, one ambiguity."""
    for module in (series, _speed_fit):
        monkeypatch.setattr(module, "_MAX_FITS", 1)
    monkeypatch.setattr(cohort, "FAST_SIZES", (30, 40, 64))
    monkeypatch.setattr(linear, "SLACKS", linear.SLACKS[:1])
    monkeypatch.setattr(linear, "LARGE", linear.LARGE // 20)
    monkeypatch.setattr(compared, "PAIRS", (300, 600))
    monkeypatch.setattr(estimators, "SIZES", ((200, 5, 5),))
    monkeypatch.setattr(andrews2003, "LAMBDAS", andrews2003.LAMBDAS[:1])
    # The linear model alone: tests/auto has the others.
    monkeypatch.setattr(calibration, "MIClassifier", partial(MIClassifier, time_limit=1e-9))
