"""The commands from end to end, as a user calls them."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sklearn

from benchmarks.__main__ import COMMANDS, build_parser, main, typed
from benchmarks.commands._quick_others import CLUSTERERS, REGRESSORS, run_others
from benchmarks.common import data
from benchmarks.common.page import read_page
from benchmarks.common.protocol import run_fold, tasks_for
from benchmarks.common.records import RecordFile, source_digest
from benchmarks.common.tasks import SCHEMA

# Of quick, all of which runs as the README's first command.
FEW = ["plain-minmax", "default", "all-misvc"]
# The first is soon written; the others are long enough to be stopped while they run.
STOPPED = ["plain-minmax", "instancemisvc-rbf", "sdpmil-rbf"]
CHECKOUT = Path(__file__).resolve().parents[3]


def test_regression_and_clustering_of_quick(tmp_path, capsys):
    path = tmp_path / "quick.jsonl"
    with RecordFile(path) as file:
        records, complete, wanted = run_others(file, jobs=1, small=True)
    assert complete
    assert len(records) == wanted == len(path.read_text().splitlines())
    found = {record["method"]: record["result"] for record in records.values()}
    assert set(found) == {*REGRESSORS, *CLUSTERERS}
    assert all(0 < found[name]["relative_error"] < 3 for name in REGRESSORS)
    assert all(1 / 3 <= found[name]["accuracy"] <= 1 for name in CLUSTERERS)
    printed = capsys.readouterr().out
    assert all(model.title in printed for model in (REGRESSORS | CLUSTERERS).values())


def test_quick_writes_records_tables_and_a_plot_and_resumes(tmp_path, capsys):
    options = ["quick", "--fast", "--jobs", "1", "--out", str(tmp_path), "--methods", *FEW]
    assert main(options) == 0
    first = capsys.readouterr()
    lines = (tmp_path / "quick.jsonl").read_text().splitlines()
    number = 2 * len(FEW) * 2  # data sets, methods, folds
    assert len(lines) == number
    for record in map(json.loads, lines):
        assert record["schema"] == SCHEMA
        assert {"cpu_seconds", "wall_seconds"} <= set(record)
        assert {"fit_cpu_seconds", "fit_wall_seconds"} <= set(record["result"])
    assert "digits-tiny: 24 bags" in first.out
    assert "MIClassifier" in first.out
    assert "accuracy %" in first.out
    assert (tmp_path / "quick.png").read_bytes().startswith(b"\x89PNG")

    page = read_page(tmp_path / "quick.tables.json")
    assert page.command.startswith("python -m benchmarks quick --fast --jobs 1")
    assert page.milearn_source == source_digest()
    assert page.versions["scikit-learn"] == sklearn.__version__
    assert [table.title.partition(":")[0] for table in page.tables] == [
        "digits-tiny",
        "concept-tiny",
    ]
    for table in page.tables:
        assert str(table) in first.out

    assert main([*options, "--no-plot"]) == 0
    second = capsys.readouterr()
    assert f"{number} of {number} records are there already" in second.err
    assert (tmp_path / "quick.jsonl").read_text().splitlines() == lines
    # The tables come from the records alone, so both runs show the same ones.
    assert read_page(tmp_path / "quick.tables.json").tables == page.tables


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_ctrl_c_ends_workers_in_order_and_their_records_are_those_of_one_process(tmp_path):
    # A shell's background job ignores SIGINT and so do its children: the handler is put back.
    start = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('benchmarks', run_name='__main__', alter_sys=True)"
    )
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", start, "quick", "--datasets", "concept", "--no-plot"),
            *("--methods", *STOPPED),
            *("--jobs", "2", "--out", str(tmp_path)),
        ],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    results = tmp_path / "quick.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if results.exists() and results.read_bytes().count(b"\n") >= 2:
            break
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "the same command goes on from here" in err
    assert "Traceback" not in err
    written = {
        record["key"]: record for record in map(json.loads, results.read_text().splitlines())
    }
    assert f"({len(written)} of 15)" in out
    tasks = tasks_for(
        *("quick", ["concept"], STOPPED),
        **{"repeats": 1, "n_splits": 5, "n_inner": 3, "level": "quick"},
    )
    assert set(written) <= {task.key for task in tasks}
    task = next(task for task in tasks if task.key in written)
    assert run_fold(task)["result"]["accuracy"] == written[task.key]["result"]["accuracy"]


def test_nested_runs_on_embedded_data(tmp_path, capsys):
    line = [
        *("nested", "--datasets", "concept-tiny", "--methods", "baseline-mean"),
        *("baseline-setkernel", "--repeats", "2", "--folds", "2", "--grid", "tiny"),
        *("--jobs", "1", "--out", str(tmp_path)),
    ]
    assert main(line) == 0
    out = capsys.readouterr().out
    assert "baseline: set kernel + SVC" in out
    assert "(8 of 8)" in out


def shown_help(capsys, *args):
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([*args, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_names_every_command_and_option(capsys):
    top = shown_help(capsys)
    for command in COMMANDS:
        assert command in top
        text = shown_help(capsys, command)
        assert ("--fresh" in text) == (
            command not in ("report", "equal", "ratios", "paths", "sites", "ordinal", "goals")
        )  # they keep no records
        assert "--out DIR" in text


# These run in processes of their own, or are imported where they are used.
OF_EXTRAS = {"_dask_fit", "nets"}


@pytest.mark.parametrize(
    "path",
    sorted(p for p in (CHECKOUT / "benchmarks").rglob("*.py") if p.stem not in OF_EXTRAS),
    ids=lambda path: path.stem,
)
def test_benchmarks_begin_without_the_extras_of_the_package(path):
    # The README's first command installs the extra "benchmark" and nothing else.
    body = ast.parse(path.read_text(encoding="utf-8")).body
    imported = {
        name.partition(".")[0]
        for node in body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [])
        + [alias.name for alias in node.names]
        if name
    }
    assert not imported & {"h5py", "pandas", "pyarrow", "dask", "distributed", "ot", "torch"}


@pytest.mark.parametrize(
    "path", sorted((CHECKOUT / "benchmarks").rglob("*.py")), ids=lambda path: path.stem
)
def test_no_module_imports_what_windows_does_not_have(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
        )
        if name
    }
    assert not imported & {"fcntl", "grp", "posix", "pwd", "resource", "termios"}


def test_the_command_is_kept_without_what_does_not_matter():
    line = ["quick", "--fresh", "--out", "some/folder", "--methods", "a b", "--out=x", "--fast"]
    assert typed(line) == "quick --methods 'a b' --fast"


def test_without_real_data_quick_leaves_musk_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(data, "find_data_dir", lambda: None)
    args = build_parser().parse_args(
        [
            *("quick", "--datasets", "concept-tiny", "musk1", "--methods", "baseline-minmax"),
            *("--jobs", "1", "--no-plot", "--out", str(tmp_path)),
        ]
    )
    assert args.main(args) == 0
    assert "musk1 is left out: no data folder" in capsys.readouterr().out


def test_unknown_or_missing_data_end_in_one_sentence(monkeypatch):
    with pytest.raises(SystemExit, match="There is no data set 'musk3': choose from"):
        data.load("musk3")
    monkeypatch.setattr(data, "find_data_dir", lambda: None)
    with pytest.raises(SystemExit, match=r"musk2 is not here: put musk2\.npz"):
        data.load.__wrapped__("musk2")
    assert data.available("digits")
    assert not data.available("musk2")


def test_all_types_commands_that_exist_and_goes_on_after_one_that_fails(
    tmp_path, monkeypatch, capsys
):
    from benchmarks import __main__ as cli
    from benchmarks.commands import all as everything

    typed = []

    def run_command(line):
        try:
            args = build_parser().parse_args(line)
        except SystemExit:  # which the command itself may raise, and "all" goes on after
            pytest.fail(f"{line} is not a command line.")
        assert args.out == tmp_path
        typed.append(args.command)
        if args.command == "speed":
            raise SystemExit("no data")
        return {"backends": 2, "report": 0}.get(args.command, 0)

    monkeypatch.setattr(cli, "main", run_command)
    for extra in ([], ["--fast"], ["--fresh"]):
        typed.clear()
        args = build_parser().parse_args(["all", "--out", str(tmp_path), *extra])
        assert everything.main(args) == 2
        assert typed == [name.split()[0] for name, _ in everything.STEPS]
        assert set(typed) == set(cli.COMMANDS) - {"equal", "all"}
        assert typed[-2:] == ["goals", "report"]
    assert "no data" in capsys.readouterr().out

    monkeypatch.setattr(cli, "main", lambda line: 130)
    assert everything.main(build_parser().parse_args(["all"])) == 130


def summary(dataset, method, accuracy, missing=0):
    from benchmarks.common.protocol import Summary

    values = {"dataset": dataset, "method": method, "accuracy": accuracy, "missing": missing}
    others = {"folds": 10, "failed": 0, "warned": 0, "sd": 0.0, "auc": 0.5}
    others |= {"fit_cpu_seconds": 1.0, "fit_wall_seconds": 2.0}
    return Summary(**values, **others)


def test_selection_sets_the_search_beside_the_best_baseline_of_complete_rows():
    from benchmarks.commands.selection import choices, verdicts

    rows = [
        *(summary("musk1", "baseline-minmax", 0.9), summary("musk1", "baseline-mean", 0.8)),
        *(summary("musk1", "selected", 0.85), summary("fox", "baseline-mean", 0.6)),
        *(summary("fox", "selected", 0.6), summary("tiger", "baseline-mean", 0.7)),
        summary("tiger", "selected", 0.8, missing=1),
    ]
    assert verdicts(rows) == [
        ["musk1", "85.0", "90.0", "min/max + SVC", "no, 5.0 points below"],
        ["fox", "60.0", "60.0", "mean + SVC", "yes"],
    ]
    taken = [{"estimator": "SDPMIL()"}, {"estimator": "MISVC()", "rows": "BagStatistics()"}]
    records = [
        {"dataset": "fox", "method": "selected", "result": {"chosen": taken[number]}}
        for number in (0, 1, 1)
    ]
    records += [
        {"dataset": "fox", "method": "selected", "error": "none"},
        {"dataset": "fox", "method": "baseline-mean", "result": {"chosen": {}}},
    ]
    assert choices(records) == [["fox", "MISVC() on rows", "2"], ["fox", "SDPMIL()", "1"]]


def test_defaults_choose_each_setting_on_the_other_sets():
    from benchmarks.commands.defaults import (
        accuracies,
        averages,
        by_dataset,
        left_out,
    )

    first, second = "MISVC() C=1 gamma=1", "SDPMIL() C=10 gamma=0.3"
    values = {first: (0.9, 0.5, 0.7), second: (0.6, 0.9, 0.6)}
    rows = [
        summary(dataset, name, values[name][number], missing=int(dataset == "d"))
        for name in values
        for number, dataset in enumerate(("a", "b", "d"))
    ]
    datasets, table = accuracies(rows)
    assert datasets == ["a", "b"]
    means = averages(table, datasets)
    cells = {row[0]: dict(zip(means.columns[1:], row[1:], strict=True)) for row in means.rows}
    assert "mean accuracy over a, b;" in means.title
    assert cells["MISVC()"]["C=1, gamma=1"] == "70.0"
    assert cells["SDPMIL()"]["C=10, gamma=0.3"] == "75.0"
    assert cells["SDPMIL()"]["C=1, gamma=1"] == "-"
    alone = by_dataset(datasets, {"SDPMIL() C=10 gamma=1": table[second]})
    assert alone.columns == ["estimator", "a", "b"]
    assert alone.rows == [["SDPMIL()", "60.0", "90.0"]]
    # On b alone the second is better, so a gets the second, whatever a itself would say.
    assert left_out(datasets, table).rows == [
        ["a", "60.0", second, "90.0", first],
        ["b", "50.0", first, "90.0", second],
    ]
