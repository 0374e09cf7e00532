"""The critical difference diagram: ranks, bars and names."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from milearn.inspection import CriticalDifferenceDisplay
from milearn.model_selection import rank_methods

# Nine sets on which a is always first, d always last, and b and c take turns.
SCORES = np.arange(4.0)[::-1] + np.zeros((9, 1))
SCORES[::2, [1, 2]] = SCORES[::2, [2, 1]]


def test_points_names_and_bars_show_the_ranks():
    _, ax = plt.subplots()
    ranks = rank_methods(SCORES, list("abcd"))
    display = CriticalDifferenceDisplay(ranks=ranks, titles={"d": "Delta"}).plot(ax)
    assert display.ax_ is ax
    np.testing.assert_allclose(display.points_.get_offsets()[:, 0], [1.0, 22 / 9, 23 / 9, 4.0])
    names = [text.get_text() for text in display.texts_]
    assert names == ["a  1.00", "c  2.44", "2.56  b", "4.00  Delta"]
    (bar,) = display.bars_
    np.testing.assert_allclose(bar.get_xdata(), [2.41, 2.59], atol=0.01)
    assert "9 data sets" in display.ax_.get_title(loc="left")


def test_bars_that_overlap_are_in_rows():
    scores = np.arange(4.0)[::-1] + np.random.default_rng(0).normal(scale=1.5, size=(10, 4))
    ranks = rank_methods(scores, list("abcd"))
    display = CriticalDifferenceDisplay(ranks=ranks).plot()
    spans = [tuple(ranks.ranks[[first, last]]) for first, last in ranks.cliques()]
    assert ranks.cliques() == [(0, 2), (1, 3)]
    for bar, span in zip(display.bars_, spans, strict=True):
        np.testing.assert_allclose(bar.get_xdata(), np.add(span, [-0.03, 0.03]))
    assert len({bar.get_ydata()[0] for bar in display.bars_}) == len(spans)
