"""Worlds in which a share decides: names, draws and oracles."""

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.common.shares import ORACLES, oracle_of_shares
from benchmarks.common.slides import Cell, draw_slides


def true_shares(part):
    return np.array([each.mean() for each in np.split(part.deciding, part.bags.offsets[1:-1])])


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
