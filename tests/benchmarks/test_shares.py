"""Worlds in which a share decides: names, draws and oracles."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.common import shares
from benchmarks.common.shares import ORACLES, SHARES, draw_cells, oracle_of_shares
from benchmarks.common.slides import Cell, draw_slides


def true_shares(part):
    return np.array([each.mean() for each in np.split(part.deciding, part.bags.offsets[1:-1])])


def test_names_of_shares_are_read():
    assert [Cell.named(cell.name) for cell in SHARES] == list(SHARES)
    assert len(SHARES) == 9
    assert max(cell.share for cell in SHARES) == 0.2
    assert SHARES[0].name == "shares-120x300x64-3%-0%"
    for name in ("shares-120x300x64-5%", "witness-120x300x64-5%-1%"):
        with pytest.raises(ValueError, match="a second share"):
            Cell.named(name)


@pytest.mark.parametrize("world", ["shares", "cells"])
def test_both_classes_have_changed_instances_and_positive_bags_have_more(world, monkeypatch):
    monkeypatch.setattr(shares, "CELL_SIZES", (1000, 2000))
    cell = Cell("shares", 100, 200, 8, 0.05, 0.01) if world == "shares" else shares.CELLS
    slides = draw_slides(cell, 0) if world == "shares" else draw_cells(0)
    assert len(slides.train.bags) == cell.n_bags
    assert not np.array_equal(slides.train.bags[0], slides.test.bags[0])
    for part in (slides.train, slides.test):
        found = true_shares(part)
        assert np.median(found[part.y == 1]) == pytest.approx(cell.share, rel=0.3)
        assert np.median(found[part.y == 0]) == pytest.approx(cell.negative, rel=0.5)
        # The centre is that of the changed instances.
        changed = part.bags.instances[part.deciding].mean(axis=0)
        others = part.bags.instances[~part.deciding].mean(axis=0)
        assert np.linalg.norm(changed - slides.centre) < 0.3 * np.linalg.norm(others - changed)


def test_oracles_of_shares():
    slides = draw_slides(Cell("shares", 60, 100, 8, 0.2, 0.05), 0)
    scores = {name: oracle_of_shares(slides, name) for name in ORACLES}
    part = slides.test
    np.testing.assert_allclose(scores["oracle-share"], true_shares(part), rtol=1e-12)
    sizes = np.diff(part.bags.offsets)
    np.testing.assert_allclose(scores["oracle-count"], true_shares(part) * sizes, rtol=1e-12)
    assert (scores["oracle-maximum"] > scores["oracle-mean"]).all()
    aucs = {name: roc_auc_score(part.y, found) for name, found in scores.items()}
    assert max(aucs, key=aucs.get) == "oracle-share"
    assert min(aucs.values()) > 0.5
