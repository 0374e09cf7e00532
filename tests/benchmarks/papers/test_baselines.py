"""Rows of other methods beside published tables."""

from __future__ import annotations

from argparse import Namespace

from benchmarks.papers import baselines, cheung2006
from milearn.datasets import make_bags


def test_images_are_classified_and_counted_by_split(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cheung2006, "images", lambda: make_bags(n_bags=24, random_state=0))
    monkeypatch.setattr(baselines, "IMAGES", ("all-citation", "all-bow"))
    args = Namespace(out=tmp_path, repeats=2, fast=False, fresh=False, jobs=1)
    assert baselines.run_images(args) == 0
    printed = capsys.readouterr().out
    assert "CitationKNN" in printed
    assert "66.7 +- 2.2 (Hist-SVM)" in printed
    lines = (tmp_path / "cheung2006-baselines.jsonl").read_text().splitlines()
    assert len(lines) == 4


def test_methods_have_titles():
    assert set(baselines.METHODS) | set(baselines.IMAGES) <= set(baselines.TITLES)
