"""Style of the plots of the examples."""

from __future__ import annotations

from typing import Any


def larger_fonts(conf: dict[str, Any], file: str) -> None:
    """Fonts that can be read on a telephone, where a plot has half of its width."""
    import matplotlib as mpl

    mpl.rcParams.update({"font.size": 12.0, "axes.titlesize": 12.0, "legend.fontsize": 11.0})
