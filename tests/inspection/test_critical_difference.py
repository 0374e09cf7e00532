"""The critical difference diagram: ranks, bars and names."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from milearn.inspection import CriticalDifferenceDisplay
from milearn.model_selection import Comparison, compare
from tests.toys import LeastSquaresBags, two_level_bags

# Nine sets on which a is always first, d always last, and b and c take turns.
SCORES = np.arange(4.0)[::-1] + np.zeros((9, 1))
SCORES[::2, [1, 2]] = SCORES[::2, [2, 1]]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def spans(lines):
    return [tuple(np.round(line.get_xdata(), 2)) for line in lines]


def test_points_names_and_bars_show_the_ranks():
    display = CriticalDifferenceDisplay.from_scores(SCORES, list("abcd"))
    np.testing.assert_allclose(display.points_.get_offsets()[:, 0], [1.0, 22 / 9, 23 / 9, 4.0])
    assert [text.get_text() for text in display.texts_] == [
        *("a  1.00", "c  2.44"),
        *("2.56  b", "4.00  d"),
    ]
    assert spans(display.bars_) == [(2.41, 2.59)]
    assert "9 data sets" in display.ax_.get_title(loc="left")


def test_bars_of_nemenyi_are_those_of_the_critical_difference():
    display = CriticalDifferenceDisplay.from_scores(SCORES, list("abcd"), test="nemenyi")
    width = display.ranks.critical_difference
    assert width == pytest.approx(2.569 * np.sqrt(20 / 54), abs=1e-3)  # 1.56
    assert spans(display.bars_) == [(0.97, 2.59), (2.41, 4.03)]
    low, high = (bar.get_ydata()[0] for bar in display.bars_)
    assert low != high  # they overlap


def test_a_comparison_is_plotted_with_titles_and_a_score():
    sets = {f"set {k}": two_level_bags(n_bags=24, seed=k) for k in range(3)}
    methods = {"weak": LeastSquaresBags(), "strong": LeastSquaresBags(alpha=1e6)}
    found = compare(methods, sets, cv=2, scoring=["accuracy", "roc_auc"])
    _, ax = plt.subplots()
    display = CriticalDifferenceDisplay.from_comparison(
        found, "roc_auc", alpha=0.1, test="nemenyi", titles={"weak": "Weak ridge"}, ax=ax
    )
    assert display.ax_ is ax
    np.testing.assert_array_equal(display.ranks.ranks, found.ranks("roc_auc").ranks)
    assert display.ranks.alpha == 0.1
    assert any("Weak ridge" in text.get_text() for text in display.texts_)
    assert isinstance(found, Comparison)


def test_many_methods_have_a_readable_axis_and_one_test_is_known():
    scores = np.random.default_rng(0).uniform(size=(5, 30))
    display = CriticalDifferenceDisplay.from_scores(scores, [str(i) for i in range(30)])
    assert len(display.texts_) == 30
    assert display.ax_.get_xticks().tolist() == list(range(1, 31, 3))
    with pytest.raises(ValueError, match="test='t' is unknown"):
        CriticalDifferenceDisplay.from_scores(scores, [str(i) for i in range(30)], test="t")
