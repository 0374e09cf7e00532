"""Ranks of methods over data sets: who is ahead on the whole, and by more than chance?

Demsar, Journal of Machine Learning Research 7, 2006: Friedman's test on the ranks, then Nemenyi's
critical difference for all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

__all__ = ["Ranks", "plot_ranks", "rank_methods"]


@dataclass(frozen=True)
class Ranks:
    """Average ranks, best first.

    Attributes
    ----------
    methods : tuple of str
    ranks : tuple of float
        1 is best; methods that tie share the mean of their ranks.
    n_datasets : int
    p_value : float
        Of Friedman's test that all methods are alike; NaN for fewer than three methods.
    critical_difference : float
        Two methods whose ranks differ by less are not told apart at the 5 % level.
    """

    methods: tuple[str, ...]
    ranks: tuple[float, ...]
    n_datasets: int
    p_value: float
    critical_difference: float

    def cliques(self) -> list[tuple[int, int]]:
        """Longest runs of methods that are not told apart, as first and last position."""
        found: list[tuple[int, int]] = []
        for first, rank in enumerate(self.ranks):
            near = [
                i for i, other in enumerate(self.ranks) if other - rank < self.critical_difference
            ]
            last = max(near)
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found


def rank_methods(scores: np.ndarray, methods: Sequence[str], alpha: float = 0.05) -> Ranks:
    """Rank methods by scores of shape (n_datasets, n_methods), larger being better."""
    n_datasets, n_methods = scores.shape
    mean = rankdata(-scores, axis=1).mean(axis=0)
    order = np.argsort(mean, kind="stable")
    alike = bool((scores == scores[:, :1]).all())
    p_value = (
        float(friedmanchisquare(*scores.T).pvalue)
        if n_methods > 2 and n_datasets > 1 and not alike
        else float("nan")
    )
    q = studentized_range.ppf(1.0 - alpha, n_methods, np.inf) / np.sqrt(2.0)
    return Ranks(
        methods=tuple(methods[i] for i in order),
        ranks=tuple(float(mean[i]) for i in order),
        n_datasets=n_datasets,
        p_value=p_value,
        critical_difference=float(q * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets))),
    )


def plot_ranks(ranks: Ranks, titles: dict[str, str], path: Path) -> Path | None:
    """Critical-difference plot: methods on an axis of ranks, a bar over those not told apart.

    Returns None when matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    n = len(ranks.methods)
    figure = Figure(figsize=(8.0, 1.2 + 0.34 * n), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, (method, rank) in enumerate(zip(ranks.methods, ranks.ranks, strict=True)):
        axes.plot([rank, rank], [0, place + 1], color="#8a94a0", linewidth=1)
        axes.plot(rank, place + 1, "o", color="#1f5f99")
        axes.annotate(
            f"{titles.get(method, method)}  {rank:.2f}",
            (rank, place + 1),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
        )
    for number, (first, last) in enumerate(ranks.cliques()):
        height = -0.45 - 0.4 * number
        axes.plot(
            [ranks.ranks[first] - 0.03, ranks.ranks[last] + 0.03],
            [height, height],
            color="#9c4a00",
            linewidth=4,
            solid_capstyle="round",
        )
    axes.set_xlim(0.8, n + 0.5 + 0.35 * n)
    axes.set_xticks(range(1, n + 1))
    axes.set_ylim(n + 0.8, -0.9 - 0.4 * len(ranks.cliques()))
    axes.xaxis.tick_top()
    axes.yaxis.set_visible(False)
    for side in ("left", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_title(
        f"average rank over {ranks.n_datasets} data sets; bars: not told apart "
        f"(critical difference {ranks.critical_difference:.2f})",
        loc="left",
        fontsize=10,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path
