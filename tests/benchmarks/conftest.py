"""A folder of tiny data sets, and measurements in this process."""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks.commands import speed
from benchmarks.common import data, fresh, memory
from benchmarks.common.methods import METHODS, Method
from benchmarks.papers import zhang2011
from benchmarks.scales import boosting, cohort, dask, estimators, linear
from milearn.datasets import make_bags, save_bags
from milearn.preprocessing import BagStatistics


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """Every data set of two classes, as 24 bags."""
    folder = tmp_path_factory.mktemp("data")
    bags, y = make_bags(24, 5, bag_size=(2, 4), concept_distance=3.0, random_state=0)
    training = np.tile(np.arange(24) % 4 > 1, (5, 10, 1)) ^ (np.arange(10) % 2 == 1)[:, None]
    for name in data.FILES:
        path = folder / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_bags(path, bags, y)
        if name in data.STORED:
            np.savez(path, **np.load(path), folds=np.packbits(training, axis=2))
    pairs = np.arange(24) // 2
    for name in data.PUBLIC:
        path = folder / f"{name}.npz"
        if name.endswith("chembl1862"):
            save_bags(path, bags, y + np.linspace(0.0, 0.5, 24))
        else:
            labels = np.tile([0, 1], bags.n_instances)[: bags.n_instances]
            save_bags(path, bags, y, groups=pairs, instance_labels=labels)
            np.savez(path, **np.load(path), fold=pairs % 5)
    return folder


@pytest.fixture
def tiny(tiny_folder, monkeypatch):
    """The tiny data sets in the place of the real ones, and one cost for the means of bags.

    The other methods that search for a cost of logistic regression keep their seven.
    """
    monkeypatch.setenv("MILEARN_DATA", str(tiny_folder))
    logistic = Method(
        METHODS["plain-logistic"].title,
        lambda text: make_pipeline(BagStatistics("mean"), LogisticRegression()),
    )
    monkeypatch.setitem(METHODS, "plain-logistic", logistic)
    for cached in (data.load, data.load_file, zhang2011._proteins):
        cached.cache_clear()
    yield
    for cached in (data.load, data.load_file, zhang2011._proteins):
        cached.cache_clear()


@pytest.fixture
def here(monkeypatch):
    """Measurements run here: an import costs seconds. ``test_fresh`` has a process of its own."""

    def run(function, task, *limits):
        module, _, name = function.partition(":")
        found = getattr(import_module(module), name)(json.loads(json.dumps(task)))
        return json.loads(json.dumps(found))

    for module in (fresh, speed, zhang2011, boosting, dask, estimators, linear):
        monkeypatch.setattr(module, "in_fresh_process", run)
    # Limits would remain for this process.
    monkeypatch.setattr(memory, "_limit", lambda name, value: None)
    monkeypatch.setattr(speed, "MAX_FITS", 1)
    monkeypatch.setattr(cohort, "FAST_SIZES", (30, 40, 64))
    monkeypatch.setattr(linear, "LARGE", linear.LARGE // 50)
    monkeypatch.setattr(linear, "SLACKS", ("bag",))
    monkeypatch.setattr(estimators, "SIZES", {"A": (200, 5, 5)})
