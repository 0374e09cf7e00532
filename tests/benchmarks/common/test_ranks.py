"""Ranks over data sets, and the command that prints them."""

from __future__ import annotations

import numpy as np

from benchmarks.__main__ import build_parser
from benchmarks.commands.classical import rank_table, ranks_of
from benchmarks.common.protocol import Summary
from benchmarks.common.ranks import plot_ranks
from milearn.model_selection import rank_methods


def test_a_row_says_how_sure_its_distance_to_the_first_is():
    names = ["baseline-mean", "single-rbf", "baseline-minmax"]
    scores = np.random.default_rng(0).uniform(size=(8, 3)) + [0.5, 0.0, 0.0]
    ranks = rank_methods(scores, names)
    table = rank_table(ranks)
    assert table.rows[0][0] == "baseline: mean + SVC"
    assert table.rows[0][2:] == ["", ""]
    assert table.rows[1][2] == f"{ranks.nemenyi[0, 1]:.2g}"
    assert table.rows[1][3] == f"{ranks.wilcoxon[0, 1]:.2g}"


def test_plot_is_a_picture(tmp_path):
    ranks = rank_methods(np.random.default_rng(0).uniform(size=(6, 4)), list("abcd"))
    path = plot_ranks(ranks, {"a": "method a"}, tmp_path / "ranks.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def summary(dataset, method, accuracy, missing=0, failed=0):
    return Summary(dataset, method, accuracy, 0.0, 0.5, 0.0, 0.0, 10, missing, failed, 0)


def test_a_data_set_with_missing_folds_is_not_ranked():
    methods = ["baseline-mean", "baseline-minmax"]
    summaries = [summary(d, m, 0.5 + 0.1 * (m == methods[0])) for d in "abc" for m in methods]
    assert ranks_of(summaries, methods).n_datasets == 3
    summaries[0] = summary("a", methods[0], 0.9, missing=1)
    summaries[3] = summary("b", methods[1], 0.9, failed=1)
    assert ranks_of(summaries, methods) is None
    summaries[3] = summary("b", methods[1], 0.9)
    assert ranks_of(summaries, methods).n_datasets == 2


def test_classical_prints_ranks_and_shares_records_with_nested(tmp_path, capsys):
    options = [
        *(
            "--datasets",
            "digits-tiny",
            "concept-tiny",
            "--methods",
            "baseline-mean",
            "baseline-minmax",
        ),
        *("--repeats", "1", "--folds", "2", "--grid", "tiny", "--jobs", "1"),
        *("--out", str(tmp_path)),
    ]
    args = build_parser().parse_args(["classical", *options])
    assert args.main(args) == 0
    out = capsys.readouterr().out
    assert "average rank over 2 data sets" in out
    assert "published, not checked" in out
    args = build_parser().parse_args(["nested", *options])
    assert args.main(args) == 0
    assert "8 of 8 records are there already" in capsys.readouterr().err
