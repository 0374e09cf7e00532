"""Tables of the default estimators: published figures, both halves, probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.commands import automatic
from benchmarks.common import data
from benchmarks.common.carbonneau import PUBLISHED, SETS, column_bests
from benchmarks.common.further import FURTHER, file_of
from benchmarks.common.halves import ASIDE, FRESH, GUIDE, half_of
from benchmarks.common.methods import AUTOMATIC, METHODS
from benchmarks.common.protocol import Summary, run_fold, tasks_for


def summary(dataset, method, accuracy, auc=0.9, missing=0):
    return Summary(dataset, method, accuracy, 0.01, auc, 1.0, 1.0, 5, missing, 0, 0)


def test_the_halves_are_halves_and_every_set_is_in_one():
    assert len(GUIDE) == len(ASIDE) == 12
    assert not set(GUIDE) & set(ASIDE)
    for name in (*automatic.FURTHER, *SETS, *automatic.LJ):
        assert half_of(name) in (("fresh",) if name in FRESH else ("guide", "aside"))
    assert half_of("webkb:student") == "aside"
    assert half_of("digits") == "generated"


def test_the_bests_of_the_published_columns_are_those_of_the_survey():
    bests = column_bests()
    assert [best[0] for best in bests] == [90.1, 92.4, 88.3, 68.2, 85.2]
    assert [best[1] for best in bests] == [95.6, 97.5, 95.0, 73.9, 92.6]
    assert sum(best[0] for best in bests) == pytest.approx(424.2)
    assert len(PUBLISHED) == 16


def test_a_set_counts_when_every_baseline_is_complete(capsys):
    rows = [summary("trec9/tst3", "default", 0.84), summary("sci", "default", 0.9)]
    rows += [summary("trec9/tst3", name, 0.80) for name in automatic.PLAIN[:-1]]
    rows += [summary("trec9/tst3", automatic.PLAIN[-1], 0.845)]
    rows += [summary("mutagenesis1", "default", 0.84)]
    rows += [summary("mutagenesis1", name, 0.80, missing=1) for name in automatic.PLAIN]
    automatic.show_further(rows, {})
    shown = capsys.readouterr().out
    assert "-0.5" in shown
    assert "or above, on 1 of 1 sets; on average -0.5 points" in shown
    assert "mutagenesis1  " not in shown


def test_the_five_sets_stand_above_the_published_rows(capsys):
    automatic.show_five([summary(name, "default", 0.9) for name in SETS])
    lines = capsys.readouterr().out.splitlines()
    own = next(line for line in lines if line.startswith("MIClassifier()"))
    assert own.split()[-1] == "450.0"
    assert any(line.startswith("best of the 16") and line.endswith("424.2") for line in lines)


def test_brier_scores_and_shares_are_those_of_the_records(capsys):
    stated, truth = [0.1, 0.9, 0.7, 1.0], [0, 1, 0, 1]
    records = {
        f"{name}{method}": {
            "dataset": name,
            "method": method,
            "result": {"probabilities": stated, "truth": truth},
        }
        for name in ("musk1", "fox")
        for method in ("default", "misvc-calibrated")
    }
    automatic.show_calibration(records)
    shown = capsys.readouterr().out
    brier = np.mean((np.array(stated) - truth) ** 2)
    assert f"all    {brier:>14.3f}" in shown
    last = next(line.split() for line in shown.splitlines() if line.startswith("0.8 to 1.0"))
    assert last[3:6] == ["0.95", "1.00", "4"]


@pytest.mark.parametrize("method", [each.name for each in AUTOMATIC if each.name != "plain-single"])
def test_every_method_runs_on_a_fold(method):
    task = tasks_for(
        "nested", ["digits-tiny"], [method], repeats=1, n_splits=2, n_inner=2, level="tiny"
    )[0]
    record = run_fold(task)
    assert "error" not in record, record.get("error")
    assert 0.0 <= record["result"]["accuracy"] <= 1.0
    assert ("paradigm" in record["result"]) == (method == "default")
    stated = "probabilities" in record["result"]
    assert stated == (method in ("default", "misvc-calibrated", "plain-trees", "plain-logistic"))
    assert METHODS[method].baseline == method.startswith("plain")


def test_further_sets_are_there_with_their_classes(data_dir):
    assert all(data.available(name) for name in FURTHER)
    assert file_of("webkb:student") == "webkb.npz"
    pages = data.load("webkb:student")
    assert pages.text
    assert pages.y.sum() == len(pages.y) // 2 == 150
    assert "10 classes" in data.describe(data.load("corel1000_10class"))
