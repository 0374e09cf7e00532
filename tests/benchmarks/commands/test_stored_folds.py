"""The sets with published folds: which folds they are, how AUCs are averaged, and the command."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.commands.stored_folds import (
    FOLDS,
    NAMES,
    REPEATS,
    areas_of,
    show_areas,
    show_ranks,
    tasks_of,
)
from benchmarks.common.data import STORED, load, stored_folds
from benchmarks.common.methods import METHODS


def records_of(tasks, auc):
    return {
        task.key: {"method": task.method, "result": {"auc": auc(task), "fit_cpu_seconds": 1.0}}
        for task in tasks
    }


@pytest.fixture
def two_sets(data_dir):
    return STORED[:2]


def test_areas_are_averaged_over_folds_then_repetitions(two_sets, capsys):
    tasks = tasks_of(two_sets, NAMES[:3], 2, 3)
    records = records_of(tasks, lambda task: 0.5 + 0.1 * task.repeat + 0.01 * task.fold)
    areas = areas_of(tasks, records)
    np.testing.assert_allclose(areas[two_sets[0], NAMES[0]], [0.51, 0.61])
    gone = next(task for task in tasks if task.method == NAMES[1])
    del records[gone.key]
    assert (gone.dataset, NAMES[1]) not in areas_of(tasks, records)
    show_areas(tasks, records)
    printed = capsys.readouterr().out
    assert "56.0 +- 7.1" in printed
    show_ranks(tasks, records)
    assert "No ranks" in capsys.readouterr().out


def test_ranks_are_those_of_the_areas(two_sets, capsys):
    tasks = tasks_of(two_sets, NAMES[:3], 1, 2)
    order = dict(zip(NAMES[:3], (0.7, 0.9, 0.7), strict=True))
    show_ranks(tasks, records_of(tasks, lambda task: order[task.method]))
    lines = capsys.readouterr().out.splitlines()
    first = next(line for line in lines if line.startswith(METHODS[NAMES[1]].title))
    assert first.split()[-2:] == ["1.00", "2"]
    assert sum(line.endswith("2.50      0") for line in lines) == 2


def test_every_bag_is_left_out_once_in_each_repetition(two_sets):
    for name in two_sets:
        folds = stored_folds(name)
        assert folds.shape == (REPEATS, FOLDS, len(load(name).bags))
        assert ((~folds).sum(axis=1) == 1).all()
        task = tasks_of([name], ["all-blrt"], 1, 1)[0]
        train, test = next(iter(task.outer.split(None, None)))
        assert set(train) | set(test) == set(range(folds.shape[2]))
        assert task.settings["outer"] == "stored"


def test_all_sets_are_there(data_dir):
    assert len(STORED) == 10
    assert all(load(name).y.max() == 1 for name in STORED)


def test_the_command_runs_and_goes_on(data_dir, tmp_path, capsys):
    line = ["stored-folds", "--methods", "plain-linear", "all-mind", "--out", str(tmp_path)]
    line += ["--datasets", STORED[0], "--repeats", "1", "--folds", "2", "--jobs", "1"]
    for _ in range(2):
        assert main(line) == 0
        printed = capsys.readouterr()
        assert "records: stored-folds.jsonl (4 of 4)" in printed.out
    assert "4 of 4 records are there already" in printed.err
    with pytest.raises(SystemExit, match="'musk1' has no stored folds"):
        main(["stored-folds", "--datasets", "musk1", "--out", str(tmp_path)])
