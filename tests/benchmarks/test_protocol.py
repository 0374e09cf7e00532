"""The stream of folds: resumed, stopped by Ctrl-C, failing in places; and its tables."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from benchmarks.common import protocol as _protocol
from benchmarks.common.methods import METHODS, select
from benchmarks.common.protocol import (
    run,
    summarise,
    tasks_for,
)
from benchmarks.common.records import SCHEMA, RecordFile, environment


@pytest.fixture
def tasks():
    return tasks_for(
        "quick",
        ["concept-tiny"],
        ["misvc-bag-rbf", "misvc-default"],
        repeats=2,
        n_splits=2,
        n_inner=2,
        level="tiny",
    )


@pytest.fixture
def file(tmp_path):
    return RecordFile(tmp_path / "quick.jsonl")


TIMES = {"fit_cpu_seconds": 0.1, "fit_wall_seconds": 0.2}


def made_up(task, accuracy=0.75):
    return {
        "schema": SCHEMA,
        "key": task.key,
        "dataset": task.dataset,
        "method": task.method,
        "repeat": task.repeat,
        "fold": task.fold,
        "versions": environment(),
        "warnings": {},
        "result": {"accuracy": accuracy, "auc": 0.8} | TIMES,
    }


def test_a_key_knows_the_settings(tasks):
    other = tasks_for(
        "quick",
        ["concept-tiny"],
        ["misvc-bag-rbf"],
        repeats=1,
        n_splits=2,
        n_inner=3,
        level="tiny",
    )
    assert tasks[0].method == other[0].method
    assert tasks[0].key != other[0].key


def test_ctrl_c_keeps_what_is_finished_and_the_next_run_goes_on(tasks, file, capsys):
    calls = []

    def interrupted(task):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(task.key)
        return made_up(task)

    records, complete = run(tasks, file, jobs=1, label="", function=interrupted)
    assert not complete
    assert len(records) == 3
    assert "Stopped with 3 of 8 records written" in capsys.readouterr().err
    records, complete = run(tasks, file, jobs=1, label="", function=made_up)
    assert complete
    assert len(records) == 8


def test_ctrl_c_right_after_a_record_is_written_does_not_forget_it(
    tasks, file, monkeypatch, capsys
):
    append = file.append

    def interrupted(record):
        append(record)
        raise KeyboardInterrupt

    monkeypatch.setattr(file, "append", interrupted)
    records, complete = run(tasks, file, jobs=1, label="", function=made_up)
    assert not complete
    assert list(records) == [tasks[0].key]
    assert "Stopped with 1 of 8 records written" in capsys.readouterr().err


def test_a_failing_fold_is_recorded_shown_and_tried_again(tasks, file, monkeypatch, capsys):
    def broken(task):
        raise RuntimeError("no luck")

    monkeypatch.setattr(_protocol, "_result", broken)
    records, complete = run(tasks[:1], file, jobs=1, label="")
    assert complete
    assert records[tasks[0].key]["error"] == "RuntimeError: no luck"
    assert "failed: RuntimeError: no luck" in capsys.readouterr().err
    (summary,) = summarise(tasks[:1], records, over="fold")
    assert (summary.failed, summary.folds) == (1, 0)
    monkeypatch.undo()
    records, _ = run(tasks[:1], file, jobs=1, label="")
    assert "error" not in records[tasks[0].key]


def test_spread_over_folds_and_over_repetitions(tasks):
    baseline = [task for task in tasks if task.method == "misvc-bag-rbf"]
    values = dict(zip([task.key for task in baseline], [0.5, 0.7, 0.8, 1.0], strict=True))
    records = {task.key: made_up(task, values[task.key]) for task in baseline}
    (over_folds,) = summarise(tasks, records, over="fold")
    assert over_folds.accuracy == pytest.approx(0.75)
    assert over_folds.sd == pytest.approx(np.std([0.5, 0.7, 0.8, 1.0], ddof=1))
    (over_repeats,) = summarise(tasks, records, over="repeat")
    assert over_repeats.accuracy == pytest.approx(0.75)
    assert over_repeats.sd == pytest.approx(np.std([0.6, 0.9], ddof=1))
    del records[baseline[-1].key]
    (incomplete,) = summarise(tasks, records, over="fold")
    assert incomplete.missing == 1


def test_every_method_has_a_grid_that_its_pipeline_knows():
    for method in METHODS.values():
        pipeline = method.build()
        for level in ("tiny", "quick", "full"):
            # ParameterGrid takes one grid or several, as GridSearchCV does.
            for candidate in ParameterGrid(method.grid(10, level)):
                clone(pipeline).set_params(**candidate)
                assert any(name.endswith("gamma") for name in candidate) == (method.kernel == "rbf")


def test_an_unknown_method_is_named():
    with pytest.raises(SystemExit, match="There is no method 'misvk'"):
        select(["misvk"])
