"""Ranks over data sets, and the command that prints them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.stats import wilcoxon

from benchmarks.__main__ import build_parser
from benchmarks.commands.classical import rank_table, ranks_of
from benchmarks.common.protocol import Summary
from benchmarks.common.ranks import plot_ranks, rank_methods


def test_ranks_and_critical_difference_of_a_published_example():
    # The table of nemenyi's q in Demsar (2006): q = 2.569 for four methods at 5 %.
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=(14, 4))
    ranks = rank_methods(scores, ["a", "b", "c", "d"])
    assert ranks.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)
    assert sum(ranks.ranks) == pytest.approx(10.0)
    assert list(ranks.ranks) == sorted(ranks.ranks)


def test_the_best_everywhere_has_rank_one_and_ties_share():
    scores = np.array([[0.9, 0.5, 0.5], [0.8, 0.4, 0.4], [0.7, 0.6, 0.6]])
    ranks = rank_methods(scores, ["x", "y", "z"])
    assert ranks.methods == ("x", "y", "z")
    assert ranks.ranks == (1.0, 2.5, 2.5)
    assert 0 < ranks.p_value < 0.1


def test_nemenyi_distinguishes_what_the_critical_difference_parts():
    order = np.arange(4.0)[::-1]
    scores = np.tile(order, (40, 1)) + np.linspace(0, 1, 40)[:, None]
    ranks = rank_methods(scores, list("abcd"))
    assert ranks.ranks == (1.0, 2.0, 3.0, 4.0)
    assert ranks.critical_difference == pytest.approx(0.7416, rel=1e-3)
    few = rank_methods(scores[:10], list("abcd"))
    assert few.critical_difference == pytest.approx(1.483, rel=1e-3)
    for found in (ranks, few):
        gaps = np.abs(np.subtract.outer(found.ranks, found.ranks))
        np.testing.assert_array_equal(found.nemenyi < 0.05, gaps > found.critical_difference)


def test_wilcoxon_is_corrected_by_holm_and_asks_for_the_pair_alone():
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=(12, 3))
    ranks = rank_methods(scores, list("abc"))
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    plain = {
        (one, two): wilcoxon(
            *(scores[:, "abc".index(name)] for name in (one, two)), zero_method="zsplit"
        ).pvalue
        for one, two in pairs
    }
    largest = 0.0
    for number, pair in enumerate(sorted(pairs, key=plain.get)):
        largest = min(1.0, max(largest, (3 - number) * plain[pair]))
        assert ranks.wilcoxon.loc[pair] == pytest.approx(largest)
        assert ranks.wilcoxon.loc[pair[::-1]] == pytest.approx(largest)


def test_methods_that_are_alike_have_no_p_value_and_no_warning():
    ranks = rank_methods(np.ones((3, 3)), list("abc"))
    assert ranks.ranks == (2.0, 2.0, 2.0)
    assert np.isnan(ranks.p_value)
    assert (ranks.nemenyi == 1.0).all(axis=None)
    assert (ranks.wilcoxon == 1.0).all(axis=None)


def test_a_row_says_how_sure_its_distance_to_the_first_is():
    names = ["baseline-mean", "single-rbf", "baseline-minmax"]
    scores = np.random.default_rng(0).uniform(size=(8, 3)) + [0.5, 0.0, 0.0]
    ranks = rank_methods(scores, names)
    table = rank_table(ranks)
    assert table.rows[0][0] == "baseline: mean + SVC"
    assert table.rows[0][2:] == ["", ""]
    second = ranks.methods[1]
    assert table.rows[1][2] == f"{ranks.nemenyi.loc[names[0], second]:.2g}"
    assert table.rows[1][3] == f"{ranks.wilcoxon.loc[names[0], second]:.2g}"


def test_plot_is_a_picture(tmp_path):
    ranks = rank_methods(np.random.default_rng(0).uniform(size=(6, 4)), list("abcd"))
    path = plot_ranks(ranks, {"a": "method a"}, tmp_path / "ranks.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_scikit_posthocs_the_user_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "scikit_posthocs", None)
    with pytest.raises(SystemExit, match="Ranks need scikit-posthocs"):
        rank_methods(np.eye(3), list("abc"))


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
    assert "published, unchecked" in out
    args = build_parser().parse_args(["nested", *options])
    assert args.main(args) == 0
    assert "8 of 8 records are there already" in capsys.readouterr().err
