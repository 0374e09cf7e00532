"""Picture of the ranks of methods over data sets."""

from __future__ import annotations

from pathlib import Path

from milearn.inspection import CriticalDifferenceDisplay
from milearn.model_selection import Ranks

__all__ = ["plot_ranks"]


def plot_ranks(ranks: Ranks, titles: dict[str, str], path: Path) -> Path:
    """Critical difference diagram with the bars of Wilcoxon's test."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 1.6 + 0.2 * len(ranks.methods)), layout="constrained")
    FigureCanvasAgg(figure)
    CriticalDifferenceDisplay(ranks=ranks, titles=titles).plot(figure.subplots())
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path
