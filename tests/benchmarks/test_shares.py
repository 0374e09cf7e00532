"""Worlds in which a share decides: names, draws and oracles."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.common.shares import ORACLES, SHARES, oracle_of_shares
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
