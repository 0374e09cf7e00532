"""Every command, paper and scale from end to end, on tiny data."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import sklearn

from benchmarks.__main__ import COMMANDS, build_parser, main
from benchmarks.commands import paper, scale
from benchmarks.common import data
from benchmarks.common.output import read_page
from benchmarks.common.protocol import run_fold, tasks_for
from benchmarks.common.records import SCHEMA, source_digest
from benchmarks.common.reports import collect

CHECKOUT = Path(__file__).resolve().parents[2]
MODULES = sorted((CHECKOUT / "benchmarks").rglob("*.py"))
# Of quick, all of which runs as the README's first command.
FEW = ["plain-minmax", "all-misvc"]
# The first is soon written; the others are long enough to be stopped while they run.
STOPPED = ["plain-minmax", "instancemisvc-rbf", "sdpmil-rbf"]

# Commands with their options; what has to be printed; and how many records are written.
LINES = {
    "quick": (f"--fast --jobs 1 --methods {' '.join(FEW)}", "digits-tiny: 24 bags", 8),
    "speed": ("--rounds 1 --datasets musk1 --kernels none --no-peers", "LPBoost", 1),
    "classical": (
        "--datasets musk1 fox --methods plain-mean all-misvc --repeats 1 --folds 2 --grid tiny "
        "--jobs 1",
        "average rank over 2 data sets",
        8,
    ),
    "stored-folds": ("--help", "published folds", None),
    "needles": (
        "--fast --methods misvc-linear plain-logistic oracle oracle-share",
        "slides with shares, oracle",
        15,
    ),
    "repertoires": ("--fast", "associated sequences (cmv)", 1),
    "calibration": ("--fast", "R2 on new bags", None),
    "survival": ("--help", "scikit-survival", None),
    "automatic": ("--recorded --help", "further sets", None),
    "ratios": ("--only M3IC", "M3IC, 4 clusters", None),
    "goals": ("", "goals are met", None),
    "report": ("", "report", None),
}
PAPERS = {
    "andrews2003-figure1": "reductions %",
    "andrews2003-figure2": "lower bound",
    "dpboost-real": "musk1",
    "guo2009-table1": "SDPMIL, polished",
}
SCALES = {
    "estimators --only MILESEmbedding": "1 of 1 end within 60 s",
    "linear": "9,874 x 10",
    "out-of-core": "slack",
    "boosting-sets": "HistGB",
    "milsd-links": "slope of generated",
    "cohort --only load map MISVC": "AUC of their",
}


def records_of(folder):
    return [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def ran(line, folder, capsys):
    """What a command line prints, which ends well without a failed record."""
    assert main([*line.split(), "--out", str(folder)]) == 0
    assert not [line for line in records_of(folder) if "error" in json.loads(line)]
    return capsys.readouterr().out


@pytest.mark.parametrize("command", LINES)
def test_a_command_runs_and_is_resumed(command, tiny, in_this_process, small, tmp_path, capsys):
    options, words, number = LINES[command]
    if "--help" in options:
        assert words in shown_help(capsys, command)
        return
    if command == "report":
        ran("ratios --only M3IC", tmp_path, capsys)
    line = f"{command} {options}"
    if command == "speed":
        line += " --timeout 60"
    assert words in ran(line, tmp_path, capsys)
    if number is not None:
        before = records_of(tmp_path)
        assert len(before) == number
        page = read_page(tmp_path / f"{command}.tables.json")
        ran(line, tmp_path, capsys)
        # The tables come from the records alone.
        assert records_of(tmp_path) == before
        assert read_page(tmp_path / f"{command}.tables.json").tables == page.tables


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_runs(name, tiny, small, tmp_path, capsys):
    assert PAPERS[name] in ran(f"paper {name} --fast --jobs 1", tmp_path, capsys)
    assert read_page(tmp_path / f"{name}.tables.json").tables


@pytest.mark.parametrize("line", SCALES)
def test_a_scale_runs(line, tiny, in_this_process, small, tmp_path, capsys):
    if line.startswith("cohort"):
        pytest.importorskip("h5py")
    name, _, options = line.partition(" ")
    assert SCALES[line] in ran(f"scale {name} --fast {options}", tmp_path, capsys)
    for record in map(json.loads, records_of(tmp_path)):
        assert record["result"]


def test_passes_over_workers(in_this_process, monkeypatch, tmp_path, capsys):
    distributed = pytest.importorskip("distributed")
    from benchmarks.scales import _workers

    # Threads of this process: tests/distributed has fits over processes.
    threads = partial(distributed.LocalCluster, processes=False)
    monkeypatch.setattr(_workers, "LocalCluster", threads)
    assert "two worker processes" in ran("scale dask --fast", tmp_path, capsys)
    (record,) = map(json.loads, records_of(tmp_path))
    found = record["result"]
    assert found["here"]["objective"] == pytest.approx(found["workers"]["objective"], rel=1e-3)
    assert 0 < found["largest_up"] < 2**20


@pytest.mark.real_data
@pytest.mark.parametrize(
    "name", sorted(set(collect("papers", paper.MODULES)) - set(PAPERS) - {"zhang2011-webkb"})
)
def test_a_paper_of_real_data_lists_its_data(name, capsys):
    assert name in shown_help(capsys, "paper")


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
        # The others keep no records.
        assert ("--fresh" in text) == (command not in ("report", "ratios", "goals"))
        assert "--out DIR" in text
    for name in collect("scales", scale.MODULES):
        assert name in shown_help(capsys, "scale")


def test_records_and_pages_name_times_and_versions(tmp_path, capsys):
    ran(f"quick --fast --jobs 1 --methods {' '.join(FEW)}", tmp_path, capsys)
    for record in map(json.loads, records_of(tmp_path)):
        assert record["schema"] == SCHEMA
        assert {"cpu_seconds", "wall_seconds"} <= set(record)
        assert {"fit_cpu_seconds", "fit_wall_seconds"} <= set(record["result"])
    page = read_page(tmp_path / "quick.tables.json")
    assert page.command.startswith("python -m benchmarks quick --fast --jobs 1")
    assert page.milearn_source == source_digest()
    assert page.versions["scikit-learn"] == sklearn.__version__


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_ctrl_c_ends_workers_in_order_and_their_records_are_those_of_one_process(tmp_path):
    # A shell's background job ignores SIGINT and so do its children: the handler is put back.
    start = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('benchmarks', run_name='__main__', alter_sys=True)"
    )
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", start, "quick", "--datasets", "concept"),
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
    written = {record["key"]: record for record in map(json.loads, records_of(tmp_path))}
    assert f"({len(written)} of 15)" in out
    tasks = tasks_for(
        *("quick", ["concept"], STOPPED),
        **{"repeats": 1, "n_splits": 5, "n_inner": 3, "level": "quick"},
    )
    assert set(written) <= {task.key for task in tasks}
    task = next(task for task in tasks if task.key in written)
    assert run_fold(task)["result"]["accuracy"] == written[task.key]["result"]["accuracy"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_modules_begin_without_extras_and_on_windows(path):
    # The README's first command installs the extra "benchmark" and nothing else.
    tree = ast.parse(path.read_text(encoding="utf-8"))

    def imported(nodes):
        return {
            name.partition(".")[0]
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module] if isinstance(node, ast.ImportFrom) else [])
            + [alias.name for alias in node.names]
            if name
        }

    # These run in processes of their own, or are imported where they are used.
    if path.stem not in {"_workers", "nets"}:
        extras = {"h5py", "pandas", "pyarrow", "dask", "distributed", "ot", "torch"}
        assert not imported(tree.body) & extras
    assert not imported(ast.walk(tree)) & {"fcntl", "grp", "posix", "pwd", "resource", "termios"}


def test_unknown_or_missing_data_end_in_one_sentence(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit, match="There is no data set 'musk3': choose from"):
        data.load("musk3")
    monkeypatch.setattr(data, "find_data_dir", lambda: None)
    with pytest.raises(SystemExit, match=r"musk2 is not here: put musk2\.npz"):
        data.load.__wrapped__("musk2")
    assert data.available("digits")
    assert not data.available("musk2")
    line = "quick --datasets concept-tiny musk1 --methods plain-mean --jobs 1"
    assert "musk1 is left out: no data folder" in ran(line, tmp_path, capsys)
