"""Figures of the public sets, their intervals, their folds and their kept rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score, roc_auc_score

from benchmarks.__main__ import main
from benchmarks.commands import public
from benchmarks.common import data
from benchmarks.common.methods import METHODS
from benchmarks.common.output import read_page

RNG = np.random.default_rng(0)


def test_areas_are_those_of_bags_drawn_again():
    y = RNG.integers(0, 2, 40)
    scores = RNG.normal(size=(40, 1)).round(1) + y[:, None]
    weights = RNG.multinomial(40, np.full(40, 1 / 40), size=3)
    found = public.area(y, [(scores, np.zeros(40))], weights)
    for area, often in zip(found, weights, strict=True):
        again = np.repeat(np.arange(40), often)
        assert area == pytest.approx(roc_auc_score(y[again], scores[again, 0]))


def test_areas_compare_bags_of_a_fold_and_average_classes():
    y, folds = np.tile([0, 1, 2], 20), np.repeat([0, 1], 30)
    scores = RNG.normal(size=(60, 3)) + np.eye(3)[y]
    shifted = scores + 100.0 * folds[:, None]
    areas = [
        np.mean(
            [roc_auc_score(y[part] == k, scores[part, k]) for part in np.split(np.arange(60), 2)]
        )
        for k in range(3)
    ]
    assert public.area(y, [(shifted, folds)], np.ones((1, 60))) == pytest.approx(np.mean(areas))


def test_determination_is_that_of_bags_drawn_again():
    y = RNG.normal(size=30)
    predicted = y[:, None] + RNG.normal(size=(30, 1))
    weights = RNG.multinomial(30, np.full(30, 1 / 30), size=3)
    for found, often in zip(
        public.determination(y, [(predicted, np.zeros(30))], weights), weights, strict=True
    ):
        again = np.repeat(np.arange(30), often)
        assert found == pytest.approx(r2_score(y[again], predicted[again, 0]))


def test_folds_are_stored_or_keep_groups_together(tiny):
    name = "public/tiles_small"
    bunch = data.load_file(name)
    np.testing.assert_array_equal(public.folds_of(name, 0), np.arange(24) // 2 % 5)
    first, second = (public.folds_of(name, split) for split in (1, 2))
    assert np.any(first != second)
    for folds in (first, second):
        assert np.unique(folds).size == 5
        assert all(np.unique(folds[bunch.groups == each]).size == 1 for each in bunch.groups)
    # Numbers have no stored folds.
    assert np.bincount(public.folds_of("public/chembl1862", 0)).tolist() == [5, 5, 5, 5, 4]


def test_a_run_of_some_rows_keeps_the_others(tiny, tmp_path):
    def typed(*words):
        assert main(["public", "--out", str(tmp_path), "--splits", "1", *words]) == 0
        return read_page(tmp_path / "public.tables.json").tables[0].rows

    (net,) = typed("--sets", "colon", "--methods", "plain-logistic")
    both = typed("--sets", "colon", "depresjon", "--methods", "plain-statistics")
    assert [row[0] for row in both] == ["colon", "colon", "depresjon"]
    assert both[0] == net
    low, figure, high = (float(net[column]) for column in (3, 2, 4))
    assert 0 <= low <= figure <= high <= 100


def test_nets_are_averaged_and_have_no_row_for_numbers(tiny, tmp_path, monkeypatch):
    plain = METHODS["plain-logistic"].make(False)
    monkeypatch.setattr(public, "has_nets", lambda: True)
    monkeypatch.setattr(public, "make_nets", lambda name: [clone(plain) for _ in range(3)])
    typed = ["--sets", "colon", "chembl1862", "--methods", "plain-logistic", "gated-attention"]
    assert main(["public", "--out", str(tmp_path), "--splits", "1", *typed]) == 0
    rows = read_page(tmp_path / "public.tables.json").tables[0].rows
    same, net, _ = rows
    assert [row[0] for row in rows] == ["colon", "colon", "chembl1862"]
    assert net[1] == "gated attention"
    assert net[2:6] == same[2:6]
