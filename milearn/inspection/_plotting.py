"""Matplotlib where it is needed, and the colours that all displays have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "COLORS",
    "HIGHLIGHT",
    "LINE",
    "NEUTRAL",
    "axes_of",
    "evenly_spaced",
    "legend_below",
    "legend_beside",
]

# Okabe and Ito's palette, which readers with any colour vision can tell apart; dark enough to be
# seen on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#9A6A00", "#56B4E9")
HIGHLIGHT = "#D55E00"
NEUTRAL = "#7F8FA3"
LINE = "#333333"


def axes_of(ax: Any = None, figsize: tuple[float, float] | None = None) -> Any:
    """The axes to draw in: those given, or the only ones of a new figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'Displays need matplotlib, which is not installed: pip install "milearn[plot]".'
        ) from error
    if ax is None:
        _, ax = plt.subplots(figsize=figsize, layout="constrained")
    return ax


def evenly_spaced(n: int, limit: int) -> np.ndarray:
    """At most ``limit`` of ``n`` positions, from the first to the last."""
    return np.unique(np.linspace(0, n - 1, min(n, limit)).round().astype(np.intp))


def legend_beside(ax: Any) -> None:
    """A legend to the right of the data: it hides nothing, and there is room for a title."""
    _, labels = ax.get_legend_handles_labels()
    if labels:
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            frameon=False,
            borderaxespad=0.3,
            handlelength=1.5,
        )


def legend_below(ax: Any) -> None:
    """A legend under the label of the axis, where a scale takes the room to the right."""
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
