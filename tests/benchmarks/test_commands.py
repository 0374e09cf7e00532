"""Every command, paper and scale from end to end, on tiny data."""

from __future__ import annotations

import ast
import runpy
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sklearn

from benchmarks.__main__ import COMMANDS, GROUPS, build_parser, main
from benchmarks.commands import automatic, calibration, quick, survival
from benchmarks.commands.goals import KEPT_PAGES
from benchmarks.common import data
from benchmarks.common.folds import BINS
from benchmarks.common.output import read_page
from benchmarks.common.runner import memory, run, source_digest
from benchmarks.papers import zhang2009
from benchmarks.scales import coverage, links
from milearn import MIClassifier, MIRegressor

CHECKOUT, FOLDER = Path(__file__).resolve().parents[2], "milearn/metrics"
MODULES = sorted((CHECKOUT / "benchmarks").rglob("*.py"))
# Commands with their options, and what has to be printed.
LINES = """
quick --fast --methods plain-minmax all-misvc | digits-tiny: 24 bags
speed --rounds 1 --datasets musk1 --kernels none --no-peers | LPBoost
classical --datasets musk1 fox --methods plain-mean all-misvc --repeats 2 --folds 2 | average rank
stored-folds --datasets stored_folds/musk1 stored_folds/fox --methods all-misvc all-dd | rank by
public --sets colon chembl1862 --methods all-misvc plain-trees --splits 1 | AUC of instances
needles --fast --methods plain-logistic oracle oracle-share | slides with shares, oracle
repertoires --fast | associated sequences (cmv)
calibration --fast | R2 on new bags
survival --fast | Concordance x 100
automatic | stated probability
ratios --only M3IC | M3IC, 4 clusters
paper andrews2003-figure2 | lower bound
paper guo2009-table1 --fast --repeats 1 | SDPMIL, polished
paper cheung2006-table1 --fast | Gaussian, CoupledMISVC
paper zhang2009-table3 --fast --repeats 1 | best grid point
scale estimators --fast --only MILESEmbedding | 1 of 1 end within 60 s
scale linear --fast | 9,874 x 10
scale out-of-core --fast | slack
scale boosting-sets --fast | HistGB
scale milsd-links --fast | slope of generated
scale cohort --fast --only load map MISVC | passes
scale coverage --fast | 30 groups of 3 bags
scale dask --fast | two worker processes
scale house --fast | tests, CPU time
"""
LINES = [line.split(" | ") for line in LINES.strip().splitlines()]
# What needs more than the tests install on every system.
NEEDS = {"cohort": "h5py", "survival": "sksurv", "dask": "distributed"}


def made_up(args, datasets, methods, cv, repeats=1):
    """Records as those of a cross-validation of two folds."""
    record = dict.fromkeys(("accuracy", "auc", "cpu_seconds", "squares", "bags"), 0.5)
    for low, _ in BINS:
        record |= {f"{name} {low}": 1.0 for name in ("bags", "stated", "positive")}
    record |= {"repeat": 0, "error": None, "chosen average": 1.0}
    return {(name, method): [record, record] for name in datasets for method in methods}


@pytest.fixture
def small(monkeypatch):
    """Less of what ``--fast`` leaves."""
    monkeypatch.setattr(links, "PAIRS", (300, 600))
    monkeypatch.setattr(coverage, "DESIGNS", coverage.DESIGNS[2:3])
    monkeypatch.setattr(coverage, "SCORES", coverage.SCORES[-1:])
    monkeypatch.setattr(calibration, "CLASSES", calibration.CLASSES[:1])
    # The first model alone: tests/auto has the others.
    monkeypatch.setattr(calibration, "MIClassifier", partial(MIClassifier, time_limit=1e-9))
    for module in (calibration, quick):
        monkeypatch.setattr(module, "MIRegressor", partial(MIRegressor, time_limit=1e-9))
    few = {name: survival.TITLES[name] for name in ("cox-max", "ridge-max", "true")}
    monkeypatch.setattr(survival, "TITLES", few)
    monkeypatch.setattr(survival, "COSTS", survival.COSTS[:1])
    monkeypatch.setattr(zhang2009, "SCALINGS", zhang2009.SCALINGS[:1])
    monkeypatch.setattr(zhang2009, "BAMIC_RUNS", 1)
    monkeypatch.setattr(automatic, "cross_validated", made_up)
    # tests/test_house.py counts the lines of all folders.
    count = runpy.run_path(str(CHECKOUT / ".ci" / "lines"))["folder_sizes"]
    script = {"folder_sizes": lambda root, name: {name: count(root, FOLDER)[FOLDER]}}
    read = runpy.run_path
    changed = {str(CHECKOUT / ".ci" / "lines"): script}
    monkeypatch.setattr(runpy, "run_path", lambda path: changed.get(path) or read(path))
    monkeypatch.setattr(automatic, "show_regression", lambda: None)


@pytest.mark.parametrize(("line", "words"), LINES, ids=lambda text: text.partition(" --")[0])
def test_a_command_runs(line, words, tiny, here, small, monkeypatch, tmp_path, capsys):
    typed = line.split()
    name = typed[1 if typed[0] in GROUPS else 0]
    extra = pytest.importorskip(NEEDS.get(name, "numpy"))
    if name == "dask":
        # Threads of this process: tests/distributed has fits over processes.
        monkeypatch.setattr(extra, "LocalCluster", partial(extra.LocalCluster, processes=False))
    typed += ["--jobs", "1"] if typed[0] not in ("scale", "speed", "ratios") else []
    assert main([*typed, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert words in out
    assert "FAILED" not in out
    page = read_page(tmp_path / f"{name}.tables.json")
    assert page.command == " ".join(["python -m benchmarks", *typed])
    assert page.tables
    assert page.milearn_source == source_digest("milearn")
    assert page.versions["scikit-learn"] == sklearn.__version__


def test_a_run_goes_on_and_a_failure_is_told_and_tried_again(tmp_path, capsys):
    args = build_parser().parse_args(["calibration", "--out", str(tmp_path)])
    args.failed, calls = False, []

    def work(number):
        calls.append(number)
        if number == 2 and len(calls) == 2:
            raise RuntimeError("no luck")
        return np.full(2, number)

    assert run(args, work, [(1,), (2,), (3,)])[1] is None
    assert args.failed
    assert "FAILED: 2: RuntimeError: no luck" in capsys.readouterr().out
    np.testing.assert_array_equal(run(args, work, [(1,), (2,), (3,)]), [[1, 1], [2, 2], [3, 3]])
    assert calls == [1, 2, 3, 2]
    assert source_digest("benchmarks") in str(memory(args).location)


def test_every_recorded_command_can_be_typed():
    for path in KEPT_PAGES.glob("*.tables.json"):
        words = shlex.split(read_page(path).command.removeprefix("python -m benchmarks "))
        assert build_parser().parse_args(words).command == words[0]


def test_the_help_lists_every_command(capsys):
    # argparse reads a percent sign in a help text as a format.
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*COMMANDS, *GROUPS))
    assert "with 95 % intervals" in " ".join(printed.split())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_modules_begin_without_extras_and_on_windows(path):
    # The README's first command installs the extra "benchmark" and nothing else.
    tree = ast.parse(path.read_text(encoding="utf-8"))

    def imported(nodes):
        names = [
            name
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
        ]
        return {name.partition(".")[0] for name in names if name}

    extras = {"h5py", "pandas", "pyarrow", "distributed", "ot", "torch", "sksurv", "olga"}
    assert not imported(tree.body) & extras
    assert not imported(ast.walk(tree)) & {"fcntl", "grp", "posix", "pwd", "resource", "termios"}


def test_unknown_or_missing_data_end_in_one_sentence(monkeypatch):
    with pytest.raises(SystemExit, match="There is no data set 'musk3': choose from"):
        data.load("musk3")
    monkeypatch.setattr(data, "find_data_dir", lambda: None)
    with pytest.raises(SystemExit, match=r"musk2 is not here: put musk2\.npz"):
        data.path_of("musk2")
