"""Large instances in float16 or in a file, which are scaled when they are read."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags, MIClassifier, MIRegressor
from milearn._bags.blocks import BLOCK_BYTES
from milearn.datasets import make_bags
from tests.common.few_trees import FEW_TREES

# Any data are large; the kernels of pairs are left out by their cost, without a warning.
LIMITS = replace(FEW_TREES, float64_numbers=0, pair_cost=0.0)


class Classifier(MIClassifier):
    _size_limits = LIMITS


class Regressor(MIRegressor):
    _size_limits = LIMITS


class AlwaysFloat64(MIClassifier):
    _size_limits = replace(LIMITS, float64_numbers=2**25, instance_landmarks=2**25)


class ComparesAll(MIClassifier):
    _size_limits = replace(FEW_TREES, float64_numbers=500, instance_landmarks=1)


def halves(n_bags=52, n_features=6, seed=0):
    bags, y = make_bags(n_bags, n_features, bag_size=(3, 9), flip_y=0.1, random_state=seed)
    return bags.with_instances(bags.instances.astype(np.float16)), y


def mapped(bags, folder):
    np.save(folder / "X.npy", bags.instances)
    return Bags(np.load(folder / "X.npy", mmap_mode="r"), bags.offsets)


@pytest.fixture(scope="module")
def exact():
    bags, y = halves()
    return AlwaysFloat64(random_state=0).fit(bags[:40], y[:40])


@pytest.mark.parametrize("kind", ["map", "float32"])
def test_models_are_those_of_float64(kind, exact, tmp_path):
    bags, y = halves()
    stored = mapped(bags, tmp_path) if kind == "map" else bags
    if kind == "float32":
        stored = bags.with_instances(bags.instances.astype(np.float32))
    found = Classifier(random_state=0).fit(stored[:40], y[:40])
    assert sorted(found.scores_) == sorted(exact.scores_)
    assert found.paradigm_ == exact.paradigm_
    np.testing.assert_allclose(found.predict_proba(stored), exact.predict_proba(bags), atol=1e-3)
    scores, expected = (
        model.instance_decision_function(each) for model, each in ((found, stored), (exact, bags))
    )
    np.testing.assert_allclose(scores, expected, atol=0.02)


def test_models_that_need_all_instances_are_named():
    bags, y = halves()
    with pytest.warns(UserWarning, match="set_median.*and the highest instances.*GB") as caught:
        model = ComparesAll(random_state=0).fit(bags, y)
    assert len(caught) == 1
    assert {"average", "combined", "linear", "share", "trees", "logistic"} < set(model.scores_)
    assert "instance" not in model.scores_
    assert sum("all instances in float64" in note for note in model.skipped_) == 2


def test_statistics_that_do_not_fit_are_refused(monkeypatch):
    bags, y = halves(400, n_features=10)
    monkeypatch.setattr("milearn._kernels.memory.available_memory", lambda: 2.0**20)
    with pytest.raises(MemoryError, match=r"400 bags with 10 features .*: reduce the features"):
        Classifier().fit(bags, y)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_predictions_in_parts_are_those_of_all_bags(storage, exact, monkeypatch):
    bags = halves()[0]
    expected = exact.predict_proba(bags), exact.instance_decision_function(bags)
    monkeypatch.setattr("milearn.auto._candidates._MOST_INSTANCES", 20)
    parts = bags.with_instances(storage(bags.instances.astype(np.float64)))
    np.testing.assert_allclose(exact.predict_proba(parts), expected[0], rtol=1e-9)
    np.testing.assert_allclose(exact.instance_decision_function(parts), expected[1], rtol=1e-9)


def test_the_peak_is_that_of_blocks(tmp_path):
    class OneFold(Regressor):
        _size_limits = replace(LIMITS, test_bags=2)

    rng, n_bags, size, width = np.random.default_rng(0), 10, 500, 128
    X, y = rng.standard_normal((n_bags * size, width), dtype=np.float32), rng.normal(size=n_bags)
    # What is easily learnt takes few steps.
    X = (X + np.repeat(y, size)[:, None]).astype(np.float16)
    bags = mapped(Bags(X, np.arange(0, len(X) + 1, size)), tmp_path)
    del X
    tracemalloc.start()
    try:
        OneFold(random_state=0).fit(bags, y).predict(bags[:2])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Six arrays of the size of the instances in float64, which are 0.15 of a block.
    assert peak < 0.9 * BLOCK_BYTES
