"""The benchmark of probabilities: its draws, slopes and tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from benchmarks.commands.calibration import (
    CalibrationTask,
    _classes,
    brier_score,
    show_classes,
    show_values,
    slope_of,
    tasks_of,
)


def test_slope_tells_probabilities_that_are_too_extreme():
    rng = np.random.default_rng(0)
    log_odds = 2.0 * rng.normal(size=20_000)
    truth = rng.random(20_000) < expit(log_odds)
    assert slope_of(log_odds, truth) == pytest.approx(1.0, abs=0.06)
    assert slope_of(2.0 * log_odds, truth) == pytest.approx(0.5, abs=0.03)


def test_brier_scores_of_two_and_three_classes():
    stated = np.array([[0.2, 0.8], [0.6, 0.4]])
    assert brier_score(stated, np.array([1, 0])) == pytest.approx((0.04 + 0.16) / 2)
    three = np.array([[0.5, 0.25, 0.25]])
    assert brier_score(three, np.array([0])) == pytest.approx(0.25 + 2 * 0.0625)


@pytest.mark.parametrize(("dataset", "share"), [("two classes", 1 / 21), ("three classes", 1 / 3)])
def test_training_bags_have_the_proportions_of_all(dataset, share):
    task = CalibrationTask(dataset, "MIClassifier", 63, share, 0)
    bags, y = _classes(task, 163)
    again, _ = _classes(task, 163)
    np.testing.assert_array_equal(bags.instances, again.instances)
    counts = np.bincount(y[:63])
    np.testing.assert_allclose(counts, 63 * np.bincount(y) / 163, atol=1.0)


def test_tables(capsys):
    tasks = tasks_of([40], 1)
    rng = np.random.default_rng(0)
    records = {}
    for task in tasks:
        result = {"r2": 0.5}
        if task.dataset != "values":
            n_classes = 2 if task.dataset == "two classes" else 3
            truth = np.arange(600) % n_classes
            stated = rng.dirichlet(np.ones(n_classes), size=600)
            result = {"stated": stated.tolist(), "truth": truth.tolist()}
        records[task.key] = {"result": result}
    show_classes(tasks, records)
    show_values(tasks, records)
    printed = capsys.readouterr().out
    for words in ("two classes, 1:1", "two classes, 1:20", "three classes, 1:2", "0.500"):
        assert words in printed
    assert slope_of(logit(np.clip(stated[:, 0], 1e-12, 1 - 1e-12)), truth == 0) < 0.3
