"""Average ranks of methods, and which of them are not significantly different."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model_selection import Ranks
from ._plotting import COLORS, LINE, Display

_ROW = 0.62  # distance of two names, in heights of the rank axis' labels
_BAR = 0.3  # distance of two bars
_TICKS = 12  # maximum number of ticks


@dataclass(kw_only=True, eq=False, repr=False)
class CriticalDifferenceDisplay(Display):
    """Average ranks of methods over data sets, as a critical difference diagram.

    The axis has the average ranks, and 1 is the best. A bar joins methods that are next to each
    other in the ranking, and of which no pair is significantly different by Wilcoxon's signed-rank
    test with Holm's correction.

    Parameters
    ----------
    ranks : Ranks
        Ranks and p-values: ``comparison.ranks()`` of the result of
        :func:`~milearn.model_selection.compare`, or the result of
        :func:`~milearn.model_selection.rank_methods` for a table of scores.
    titles : mapping of str to str, default=None
        Names of methods in the plot, by their names in ``ranks``.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        Figure of the display.
    points_ : matplotlib PathCollection
        The average ranks on the axis.
    texts_ : list of matplotlib Text
        Names and average ranks of the methods, best first.
    bars_ : list of matplotlib Line2D
        Bars that join methods without a significant difference.

    See Also
    --------
    milearn.model_selection.compare : Scores of estimators on data sets.
    milearn.model_selection.rank_methods : Ranks and p-values.

    References
    ----------
    J. Demsar. Statistical comparisons of classifiers over multiple data sets. Journal of Machine
    Learning Research 7, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.inspection import CriticalDifferenceDisplay
    >>> from milearn.model_selection import rank_methods
    >>> scores = np.random.default_rng(0).uniform(size=(10, 3)) + [0.0, 0.4, 0.5]
    >>> ranks = rank_methods(scores, ["mean", "kernel", "MI-SVM"])
    >>> display = CriticalDifferenceDisplay(ranks=ranks).plot()  # doctest: +SKIP
    """

    ranks: Ranks
    titles: Mapping[str, str] | None = None

    def plot(self, ax: Any = None) -> CriticalDifferenceDisplay:
        """Plot the ranks.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        CriticalDifferenceDisplay
            This display.
        """
        ranks, k = self.ranks.ranks, len(self.ranks.methods)
        cliques = self.ranks.cliques()
        rows = _rows(cliques)
        half = (k + 1) // 2  # methods with their names on the left
        top = 1.0 + _BAR * (2 + max(rows, default=-1))
        ax = self._open(ax, (8.0, 1.3 + 0.27 * (top + _ROW * half)))
        self._plot_axis(ax, k)
        self.points_ = ax.scatter(
            ranks, np.zeros(k), s=24, color=COLORS[0], zorder=3, clip_on=False
        )
        self.texts_ = []
        for place, (name, rank) in enumerate(zip(self.ranks.methods, ranks, strict=True)):
            left = place < half
            row = place if left else k - 1 - place
            self.texts_.append(self._plot_name(ax, name, float(rank), top + _ROW * row, left))
        self.bars_ = []
        for row, (first, last) in zip(rows, cliques, strict=True):
            span = (float(ranks[first]) - 0.03, float(ranks[last]) + 0.03)
            height = -(0.6 + _BAR * row)
            self.bars_ += ax.plot(
                span, (height, height), color=LINE, linewidth=3.5, solid_capstyle="butt"
            )
        ax.set_ylim(-(top + _ROW * (half - 0.4)), 0.5)
        return self

    def _plot_axis(self, ax: Any, k: int) -> None:
        margin = 0.06 * (k - 1)
        ax.set_xlim(1 - margin, k + margin)
        ax.spines[["left", "right", "bottom"]].set_visible(False)
        ax.spines["top"].set_position(("data", 0.0))
        ax.spines["top"].set_bounds(1, k)
        ax.xaxis.tick_top()
        ax.set_xticks(np.arange(1, k + 1, -(-k // _TICKS)))
        ax.yaxis.set_visible(False)
        title = (
            f"average rank over {self.ranks.n_datasets} data sets; bars join methods that do not "
            f"differ\nsignificantly (Wilcoxon and Holm, level {self.ranks.alpha:g})"
        )
        ax.set_title(title, fontsize=10, loc="left", pad=18)

    def _plot_name(self, ax: Any, name: str, rank: float, depth: float, left: bool) -> Any:
        """A line from the rank downwards and to the side, where the name is."""
        side = 0.0 if left else 1.0
        edge = ax.get_xlim()[0 if left else 1]
        ax.plot((rank, rank, edge), (0.0, -depth, -depth), color=LINE, linewidth=0.8, clip_on=False)
        shown = (self.titles or {}).get(name, name)
        return ax.text(
            side + (-0.01 if left else 0.01),
            -depth,
            f"{shown}  {rank:.2f}" if left else f"{rank:.2f}  {shown}",
            ha="right" if left else "left",
            va="center",
            transform=ax.get_yaxis_transform(),
        )


def _rows(cliques: list[tuple[int, int]]) -> list[int]:
    """The first row below the axis in which each bar does not touch another one."""
    ends: list[int] = []
    rows = []
    for first, last in cliques:
        row = next((row for row, end in enumerate(ends) if end < first), len(ends))
        ends[row : row + 1] = [last]
        rows.append(row)
    return rows
