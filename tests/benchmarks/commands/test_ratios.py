"""The ratios that CI prints."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.commands import ratios
from benchmarks.common.page import Page
from benchmarks.common.table import Table


def arguments(*words):
    parser = argparse.ArgumentParser()
    ratios.add_arguments(parser)
    return parser.parse_args(list(words))


@pytest.fixture
def kept(tmp_path, monkeypatch):
    path = tmp_path / "ratios.tables.json"
    columns = ("estimator", "plain", "s", "plain s", "ratio", "kept ratio")
    rows = [
        ["CitationKNN", "SVC", "0.2", "0.1", "2.00", ""],
        ["MILES", "SVC", "1", "1", "1.00", ""],
    ]
    Page(command="ratios", tables=[Table(columns=columns, rows=rows, align="llrrrr")]).write(path)
    monkeypatch.setattr(ratios, "KEPT", path)


def test_a_fit_that_became_slower_is_named(kept, monkeypatch, capsys):
    monkeypatch.setattr(ratios, "measured", lambda pair: (0.4, 0.1))
    assert ratios.main(arguments("--only", "CitationKNN", "MILES")) == 0
    printed = capsys.readouterr().out
    assert "More than 1.5 times the kept ratio: MILES, CitationKNN." in printed
    monkeypatch.setattr(ratios, "measured", lambda pair: (0.14, 0.1))
    ratios.main(arguments("--only", "CitationKNN", "MILES"))
    assert "More than" not in capsys.readouterr().out


def test_fits_are_measured(monkeypatch):
    monkeypatch.setattr(ratios, "ROUNDS", 1)
    pair = next(pair for pair in ratios.pairs() if pair.name == "MILES")
    ours, plain = ratios.measured(pair)
    assert ours > 0
    assert plain > 0


def test_names_are_their_own():
    names = [pair.name for pair in ratios.pairs()]
    assert len(set(names)) == len(names)


def test_without_kept_figures_there_is_nothing_to_compare(tmp_path):
    assert ratios.kept_ratios(tmp_path / "none.json") == {}
