"""Base class of the displays: import of matplotlib, axes, colours and legends."""

from __future__ import annotations

from typing import Any

import numpy as np

# Okabe and Ito's palette, which can be distinguished with any colour vision, and is dark enough to
# be visible on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#9A6A00", "#56B4E9")
HIGHLIGHT = "#D55E00"
NEUTRAL = "#7F8FA3"
LINE = "#333333"


class Display:
    """Base class of the displays, which store their artists and axes."""

    def _open(self, ax: Any, figsize: tuple[float, float] | None = (7.4, 3.8)) -> Any:
        """The given axes, or the axes of a new figure."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                'Displays need matplotlib, which is not installed: pip install "milearn[plot]".'
            ) from error
        if ax is None:
            _, ax = plt.subplots(figsize=figsize, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _dashed(self, at: float | None, label: str, *, vertical: bool = True) -> Any:
        """A line across the axes, or None without a position."""
        if at is None:
            return None
        draw = self.ax_.axvline if vertical else self.ax_.axhline
        return draw(at, color=LINE, linestyle="--", linewidth=1.2, label=label)

    def _band(self, x: Any, low: Any, high: Any, color: str, label: str) -> Any:
        """A shaded band between two curves."""
        style = {"color": color, "alpha": 0.25, "linewidth": 0}
        return self.ax_.fill_between(x, low, high, label=label, **style)

    def _label(self, x: str, y: str) -> None:
        """Set labels of the axes, remove the frame, and add a legend to the right of the plot."""
        ax = self.ax_
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        ax.spines[["top", "right"]].set_visible(False)
        if ax.get_legend_handles_labels()[1]:
            place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.3}
            ax.legend(frameon=False, handlelength=1.5, **place)


def evenly_spaced(n: int, limit: int) -> np.ndarray:
    """At most ``limit`` of ``n`` positions, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, n - 1, min(n, limit)).round().astype(np.intp))


def legend_below(ax: Any) -> None:
    """A legend below the label of the axis, if there is a colour bar to the right."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(0.0, -0.45, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=ax.transAxes + shift,
        frameon=False,
        borderaxespad=0.0,
        handletextpad=0.3,
    )
