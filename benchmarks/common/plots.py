"""Plots of the results; matplotlib's own canvas, so that no display is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .methods import METHODS
from .protocol import Summary

__all__ = ["plot_accuracies", "plot_sizes"]

_BASELINE = "#9c4a00"
_OURS = "#1f5f99"


def plot_accuracies(
    summaries: Sequence[Summary], path: Path, *, title: str, spread: str
) -> Path | None:
    """One panel per data set: accuracies with error bars, the best baseline as a line.

    Parameters
    ----------
    summaries : sequence of Summary
    path : Path
        The PNG to write.
    title : str
        Says what was run.
    spread : str
        What the error bars are, for the axis.

    Returns
    -------
    Path, or None when matplotlib is not installed
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    shown = [item for item in summaries if item.folds]
    datasets = list(dict.fromkeys(item.dataset for item in shown))
    methods = list(dict.fromkeys(item.method for item in shown))
    if not shown:
        return None
    figure = Figure(
        figsize=(2.4 + 3.0 * len(datasets), 1.6 + 0.36 * len(methods)), layout="constrained"
    )
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(datasets), sharey=True, squeeze=False)[0]
    for panel, dataset in zip(panels, datasets, strict=True):
        here = {item.method: item for item in shown if item.dataset == dataset}
        baselines = [item.accuracy for name, item in here.items() if METHODS[name].baseline]
        if baselines:
            panel.axvline(
                100 * max(baselines),
                color=_BASELINE,
                linestyle="--",
                linewidth=1.2,
                label="best baseline",
            )
        for name, item in here.items():
            # One repetition has no spread over repetitions: a point without a bar says so.
            bar = 100 * item.sd if item.sd == item.sd else None
            panel.errorbar(
                100 * item.accuracy,
                methods.index(name),
                xerr=bar,
                fmt="D" if METHODS[name].baseline else "o",
                color=_BASELINE if METHODS[name].baseline else _OURS,
                markersize=6,
                capsize=3,
            )
        panel.set_title(dataset)
        panel.set_xlabel(f"accuracy, %\n(bar: {spread})")
        panel.grid(axis="x", alpha=0.3)
        panel.set_axisbelow(True)
    panels[0].set_yticks(range(len(methods)), [METHODS[name].title for name in methods])
    panels[0].set_ylim(len(methods) - 0.5, -0.5)  # the first method on top, as in the table
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper right", frameon=False)
    figure.suptitle(title, x=0.02, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path


def plot_sizes(
    curves: dict[str, list[tuple[float, float]]], path: Path, *, size: str
) -> Path | None:
    """Time over size on log axes, one line per method; None without matplotlib or data.

    Parameters
    ----------
    curves : dict
        Pairs of size and seconds for each title.
    path : Path
        The PNG to write.
    size : str
        What grows, for the axis.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    shown = {title: points for title, points in curves.items() if points}
    if not shown:
        return None
    figure = Figure(figsize=(8.0, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    for number, (title, points) in enumerate(shown.items()):
        marker = "osD^vP*X<>"[number % 10]
        panel.loglog(*zip(*points, strict=True), marker=marker, markersize=5, label=title)
    panel.set_xlabel(size)
    panel.set_ylabel("CPU time of a fit, s")
    panel.grid(alpha=0.3, which="major")
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path


def plot_curves(
    curves: dict[str, list[tuple[float, float]]], path: Path, *, x: str, y: str
) -> Path | None:
    """Curves over a logarithmic axis; None without matplotlib or data.

    Parameters
    ----------
    curves : dict
        Points (x, y) for each title.
    path : Path
        The PNG to write.
    x, y : str
        What the axes show.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    shown = {title: points for title, points in curves.items() if points}
    if not shown:
        return None
    figure = Figure(figsize=(8.0, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    for number, (title, points) in enumerate(shown.items()):
        marker = "osD^vP*X<>"[number % 10]
        panel.semilogx(*zip(*points, strict=True), marker=marker, markersize=5, label=title)
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    panel.grid(alpha=0.3, which="major")
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path
