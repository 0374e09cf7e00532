"""The table of the multiple-instance assumption, and rows below the published ones."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.__main__ import build_parser
from benchmarks.commands.assumption import TESTS, AssumptionTask, table_of
from benchmarks.commands.classical import best_accuracy, rows_below, threshold_table
from benchmarks.common.carbonneau import PUBLISHED
from benchmarks.common.classifiers import CLASSIFIERS
from milearn.utils import all_estimators


def test_the_assumption_is_kept_where_every_draw_of_the_first_two_tests_is_passed():
    chosen = [each for each in CLASSIFIERS if each.name in ("all-misvc", "all-set", "all-miles")]
    tasks = [
        AssumptionTask(each.name, test, k) for each in chosen for test in TESTS for k in (0, 1)
    ]
    records = {task.key: {"result": {"auc": 1.0}} for task in tasks}
    records["assumption all-set false frequency 1"] = {"result": {"auc": 0.5}}
    records["assumption all-miles two concepts 0"] = {"error": "MemoryError"}
    rows = {row[0]: list(row[1:]) for row in table_of(chosen, tasks, records).rows}
    assert rows["MISVC, max loss"] == ["1.00*", "1.00*", "1.00*", "yes"]
    assert rows["set kernel, SVC"] == ["1.00*", "0.75 ", "1.00*", "no"]
    assert rows["MILES"] == ["1.00*", "1.00*", "failed", "yes"]


def test_the_command_runs_and_goes_on(tmp_path, capsys):
    options = ["assumption", "--methods", "all-citation", "--repeats", "1", "--out", str(tmp_path)]
    for _ in range(2):
        args = build_parser().parse_args(options)
        assert args.main(args) == 0
        assert "CitationKNN" in capsys.readouterr().out
    assert len((tmp_path / "assumption.jsonl").read_text().splitlines()) == len(TESTS)


def test_rows_that_are_well_below_the_published_one_are_listed():
    published = PUBLISHED["MILES"][0][0] / 100
    found = [
        SimpleNamespace(dataset=name, method=method, accuracy=value, folds=1)
        for name, method, value in (
            ("musk1", "all-miles", published - 0.03),
            ("musk1", "all-milboost", 0.99),
            ("digits", "all-miles", 0.1),
            ("musk1", "all-vlad", 0.1),
        )
    ]
    (row,) = rows_below(found)
    assert row[:3] == ["MILES", "MILES", "musk1"]


@pytest.mark.parametrize(
    ("scores", "truth", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], 0.75),
        ([0.6, 0.7, 0.8, 0.9], [0, 0, 1, 1], 1.0),
        ([0.4, 0.3, 0.2], [0, 1, 1], 2 / 3),
        ([0.5, 0.5, 0.5], [0, 0, 1], 2 / 3),
    ],
)
def test_best_threshold_of_a_fold(scores, truth, expected):
    assert best_accuracy(np.array(scores), np.array(truth)) == pytest.approx(expected)


def test_thresholds_of_test_folds_gain_without_any_information():
    rng = np.random.default_rng(0)
    records = [
        {
            "dataset": name,
            "method": "default",
            "result": {
                "accuracy": 0.5,
                "probabilities": rng.random(10).tolist(),
                "truth": [0, 1] * 5,
            },
        }
        for name in ("musk1", "fox")
        for _ in range(50)
    ]
    records.append({"dataset": "fox", "method": "all-set", "result": {"accuracy": 0.9}})
    table = threshold_table(records)
    honest, chosen = table.rows
    assert honest[1:] == ["honest", "50.0", "50.0", "100.0"]
    assert 60 < float(chosen[2]) < 75
    assert float(chosen[4]) == pytest.approx(float(chosen[2]) + float(chosen[3]), abs=0.11)
    assert threshold_table(records[-1:]) is None


def test_every_classifier_of_the_package_is_in_the_table():
    # Without links it is a factorisation of the content alone; of two classes it is MISVC.
    left_out = {"LinkContentMF", "OrdinalMISVC"}
    listed = {
        type(step).__name__
        for each in CLASSIFIERS
        for step in [each.build(text=False)]
        for step in (step, *(part for _, part in getattr(step, "steps", ())))
    }
    public = {name for name, _ in all_estimators(type_filter="classifier")}
    assert public - left_out <= listed


@pytest.mark.parametrize("classifier", [each for each in CLASSIFIERS if each.theirs])
def test_published_rows_are_named_as_they_are_there(classifier):
    assert classifier.theirs in PUBLISHED
