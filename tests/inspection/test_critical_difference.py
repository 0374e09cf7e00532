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
    expected = np.stack([[1.0, 22 / 9, 23 / 9, 4.0], range(4)], axis=1)
    np.testing.assert_allclose(display.points_.get_offsets(), expected)
    assert [text.get_text() for text in display.texts_] == ["a", "c", "b", "Delta"]
    (bar,) = display.bars_
    np.testing.assert_allclose(bar.get_ydata(), [0.8, 2.2])
    assert display.ax_.get_xlabel() == "average rank over 9 data sets"


def test_bars_that_overlap_are_beside_each_other():
    scores = np.arange(4.0)[::-1] + np.random.default_rng(0).normal(scale=1.5, size=(10, 4))
    ranks = rank_methods(scores, list("abcd"))
    display = CriticalDifferenceDisplay(ranks=ranks).plot()
    assert ranks.cliques() == [(0, 2), (1, 3)]
    for bar, ends in zip(display.bars_, ranks.cliques(), strict=True):
        np.testing.assert_allclose(bar.get_ydata(), np.add(ends, [-0.2, 0.2]))
    assert len({bar.get_xdata()[0] for bar in display.bars_}) == 2
