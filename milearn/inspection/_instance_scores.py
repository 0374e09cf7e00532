"""Scores of the instances of one bag, as bars or as a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._bags import Bags
from .._bags.annotations import PATCH_SIZE, array_of
from .._bags.canonical import check_choice
from .._bags.names import position_of
from .._fit.warn import warn_user
from ._scores import HIGHLIGHT, LINE, NEUTRAL, Display, given_bags, legend_below, scored_instances

_MAX_BARS = 300  # if a bag has more instances, one bar represents several of them
_MAX_POINTS = 2000  # if a map has more points, they are smaller
_PANELS_IN_A_ROW = 4
_MAX_EMPTY = 16  # maximum number of grid cells per instance for a plot as a grid


@dataclass(kw_only=True, eq=False, repr=False)
class InstanceScoresDisplay(Display):
    """Scores of the instances of one bag.

    The plot has bars in the order of the instances, with the :term:`witness` in another colour, or
    is a map if the instances have coordinates: a heat map if they are on a grid, otherwise coloured
    points. Of a merged bag, such as a patient with several slides, each part has a map of its own.
    It is recommended to use :meth:`from_estimator`.

    Read more in the :ref:`User Guide <guide_instance_scores>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    scores : array-like of shape (n_instances,)
        Score of each instance of the bag.
    witness : int, default=None
        Position in the bag of the instance with the highest score, which is the default.
    coordinates : array-like of shape (n_instances, 2), default=None
        Column (x, to the right) and row (y, downwards) of each instance.
    patch_size : float or array-like of shape (n_instances,), default=None
        Side of the patches, in the unit of the coordinates. The coordinates are then the upper left
        corners of the patches; if None, they are the centres.
    parts : array-like of shape (n_instances,), default=None
        Part of the bag from which each instance comes, such as the slide. A map has one panel for
        each part, with the same colours. By default, the bag has one part.
    threshold : float, default=0.0
        Score above which an instance indicates the class; None for regression.
    score_name : str, default="score"
        Label of the scores.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display, which contain the panels of several parts.
    figure_ : matplotlib Figure
        Figure of the display.
    bars_ : matplotlib BarContainer or None
        One bar per instance. In a bag of more than 300 instances each bar represents several
        consecutive ones by their highest score.
    image_ : matplotlib AxesImage or None
        The heat map; cells without an instance are masked. To see a picture below it, use
        ``display.image_.set_alpha(0.5)`` and ``display.ax_.imshow(picture, zorder=-1)``. None for
        several parts.
    points_ : matplotlib PathCollection or None
        The points of a map whose instances are not on a grid. None for several parts.
    maps_ : list of AxesImage or PathCollection
        The map of each part, in the order of their sorted names; ``maps_[0].axes`` is its panel.
        Empty without a map.
    line_ : matplotlib Line2D or None
        The threshold.
    colorbar_ : matplotlib Colorbar or None
        Scale of the map.

    Raises
    ------
    ValueError
        If the lengths of scores, parts and coordinates differ. In ``plot``, for a map without
        coordinates, or an unknown ``kind``.

    See Also
    --------
    WitnessDisplay : The deciding instances of many bags.
    BagScoresDisplay : Scores of bags.

    Examples
    --------
    >>> from milearn import MISVC
    >>> from milearn.datasets import load_digit_bags
    >>> from milearn.inspection import InstanceScoresDisplay
    >>> X, y = load_digit_bags(n_bags=40, return_X_y=True)
    >>> model = MISVC().fit(X, y)
    >>> display = InstanceScoresDisplay.from_estimator(model, X, bag=3)  # doctest: +SKIP
    """

    scores: Any
    witness: int | None = None
    coordinates: Any = None
    patch_size: Any = None
    parts: Any = None
    threshold: float | None = 0.0
    score_name: str = "score"

    def __post_init__(self) -> None:
        self.scores = np.asarray(self.scores, dtype=np.float64)
        n = len(self.scores)
        for name, shape in (("coordinates", (n, 2)), ("parts", (n,))):
            given = getattr(self, name)
            if given is not None and np.shape(given) != shape:
                raise ValueError(
                    f"{name} must have shape {shape}, got {np.shape(given)}: give one entry per "
                    "instance of the bag."
                )
        if self.coordinates is not None:
            self.coordinates = np.asarray(self.coordinates, dtype=np.float64)
        self.parts = np.zeros(n) if self.parts is None else np.asarray(self.parts)
        if self.witness is None:
            self.witness = int(np.argmax(self.scores))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        bag: int = 0,
        class_label: Any = None,
        coordinates: Any = None,
        patch_size: float | None = None,
        parts: Any = None,
        kind: str = "auto",
        cmap: Any = None,
        limit: float | None = None,
        ax: Any = None,
    ) -> InstanceScoresDisplay:
        """Plot the instance scores of one bag by a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator that scores instances; it may be in a pipeline or a search.
        X : bags, see :class:`milearn.Bags`
            Bags, of which one is plotted.
        bag : int or str, default=0
            Position of the bag in ``X``, or its name if the names are texts.
        class_label : label, default=None
            Class of the scores, as for :func:`instance_scores`.
        coordinates : str or array-like of shape (n_instances of the bag, 2), default=None
            Column and row of each instance, or the name of an entry of ``X.instance_data`` that
            contains them.
        patch_size : float or array-like of shape (n_instances of the bag,), default=None
            Side of the patches, if the coordinates are their upper left corners; None if they are
            centres. By default, ``instance_data["patch_size_level0"]`` if it exists, which
            :func:`milearn.datasets.load_bag_folder` reads from files of TRIDENT.
        parts : str or array-like of shape (n_instances of the bag,), default=None
            Part of the bag from which each instance comes, or the name of an entry of
            ``X.instance_data``. By default, "bag" if it exists, which :meth:`milearn.Bags.merge`
            adds: the map of a patient then has a panel for each slide.
        kind : {"auto", "bars", "map"}, default="auto"
            Type of the plot; "auto" is a map if there are coordinates.
        cmap : str or matplotlib Colormap, default=None
            Colours of a map.
        limit : float, default=None
            Distance from the threshold at which the colours of a map are cut off, see :meth:`plot`.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        InstanceScoresDisplay
            The display with the plot.
        """
        bags = given_bags(X)
        position = position_of(bags, bag)
        one = bags[[position]]
        found = scored_instances(estimator, one, class_label)
        if parts is None and "bag" in one.instance_data:
            parts = "bag"
        known: Any = np.asarray(one.instance_data.get(PATCH_SIZE, np.nan))
        if patch_size is None and isinstance(coordinates, str) and np.isfinite(known).all():
            patch_size = known
        display = cls(
            scores=found.scores,
            witness=int(found.witnesses[0]),
            coordinates=_entry(one, "coordinates", coordinates),
            patch_size=patch_size,
            parts=_entry(one, "parts", parts),
            threshold=found.threshold,
            score_name=found.name,
        ).plot(ax, kind=kind, cmap=cmap, limit=limit)
        if bags.names is not None:
            above = 18 if len(display.maps_) > 1 else None  # the names of panels
            display.ax_.set_title(str(bags.names[position]), loc="left", pad=above)
        return display

    def plot(
        self,
        ax: Any = None,
        *,
        kind: str = "auto",
        cmap: Any = None,
        limit: float | None = None,
    ) -> InstanceScoresDisplay:
        """Plot the scores.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.
        kind : {"auto", "bars", "map"}, default="auto"
            Type of the plot; "auto" is a map if there are coordinates.
        cmap : str or matplotlib Colormap, default=None
            Colours of a map. By default, diverging from the threshold if there is one.
        limit : float, default=None
            Distance from the threshold, in both directions, at which the colours of a map are cut
            off: scores beyond it have the same colour. Maps with the same limit can be compared,
            and a few instances slightly above the threshold are visible among many far below it.
            None includes all scores.

        Returns
        -------
        InstanceScoresDisplay
            This display.
        """
        check_choice("kind", kind, ("auto", "bars", "map"))
        as_map = kind == "map" or (kind == "auto" and self.coordinates is not None)
        if as_map and self.coordinates is None:
            raise ValueError("A map needs coordinates: pass coordinates=, or use kind='bars'.")
        self.bars_ = self.image_ = self.points_ = self.line_ = self.colorbar_ = None
        self.maps_: list[Any] = []
        if as_map:
            self._plot_map(ax, cmap, limit)
        else:
            self._open(ax, (min(10.5, max(7.0, 0.7 * len(self.scores) + 1.2)), 4.0))
            self._plot_bars()
        return self

    def _plot_bars(self) -> None:
        ax, n = self.ax_, len(self.scores)
        each = -(-n // _MAX_BARS)
        firsts = np.arange(0, n, each)
        heights = np.maximum.reduceat(self.scores, firsts)
        colors = [NEUTRAL] * len(firsts)
        assert self.witness is not None, "set by __post_init__"
        heights[self.witness // each] = self.scores[self.witness]
        colors[self.witness // each] = HIGHLIGHT
        middles = (firsts + np.minimum(firsts + each, n) - 1) / 2
        width = 0.8 if each == 1 else float(each)
        self.bars_ = ax.bar(middles, heights, color=colors, width=width)
        patch = {"marker": "s", "markersize": 9, "linestyle": "none"}
        ax.plot([], [], color=HIGHLIGHT, label="witness", **patch)
        if each > 1:  # a single bar would be too thin
            tip = (self.witness, self.scores[self.witness])
            ax.plot(*tip, color=HIGHLIGHT, marker="v", markersize=9, zorder=3)
        if n > 1:
            several = f"others: the highest\nof each {each} in a row"
            label = "other instances" if each == 1 else several
            ax.plot([], [], color=NEUTRAL, label=label, **patch)
        self.line_ = self._dashed(self.threshold, "threshold", vertical=False)
        ax.set_xlim(-0.6 * each, n - 1 + 0.6 * each)
        ax.xaxis.get_major_locator().set_params(integer=True)
        self._label("instance of the bag", self.score_name)

    def _plot_map(self, ax: Any, cmap: Any, limit: float | None) -> None:
        sides = np.zeros(len(self.scores)) if self.patch_size is None else self.patch_size
        sides = np.broadcast_to(sides, self.scores.shape)
        centres = self.coordinates + 0.5 * sides[:, np.newaxis]
        low, high, colors = float(self.scores.min()), float(self.scores.max()), "viridis"
        extend = "neither"
        if self.threshold is not None:
            furthest = float(np.abs(self.scores - self.threshold).max())
            reach = limit or furthest or 1.0
            low, high, colors = self.threshold - reach, self.threshold + reach, "RdBu_r"
            extend = "both" if furthest > reach else "neither"
        style = {"cmap": cmap or colors, "vmin": low, "vmax": high}
        names, codes = np.unique(self.parts, return_inverse=True)
        panels = self._panels(ax, len(names))
        for number, (name, panel) in enumerate(zip(names, panels, strict=True)):
            rows = np.flatnonzero(codes == number)
            size = None if self.patch_size is None else float(sides[rows[0]])
            self.maps_.append(_map(panel, centres[rows], self.scores[rows], size, style))
            if number + _PANELS_IN_A_ROW >= len(names):
                panel.set_xlabel("column")
            if number % _PANELS_IN_A_ROW == 0:
                panel.set_ylabel("row")
            if len(names) > 1:
                panel.set_title(str(name), fontsize="medium")
        if len(names) == 1:
            (drawn,) = self.maps_
            self.image_ = drawn if hasattr(drawn, "get_extent") else None
            self.points_ = None if self.image_ is drawn else drawn
        place, panel = centres[self.witness], panels[codes[self.witness]]
        ring = {"marker": "o", "markerfacecolor": "none", "markersize": 12, "linestyle": "none"}
        # White around black is visible on dark and light cells.
        panel.plot(*place, markeredgecolor="white", markeredgewidth=4.0, **ring)
        panel.plot(*place, markeredgecolor="black", markeredgewidth=1.8, label="witness", **ring)
        legend_below(panel)
        self.colorbar_ = self.figure_.colorbar(
            self.maps_[0], ax=panels, label=self.score_name, shrink=0.85, extend=extend
        )

    def _panels(self, ax: Any, n: int) -> list[Any]:
        """The axes of each of ``n`` parts, in the place of the given ones or in a new figure."""
        if n == 1:
            return [self._open(ax, None)]
        columns = min(n, _PANELS_IN_A_ROW)
        shape = -(-n // columns), columns
        place = self._open(ax, (2.6 * shape[1] + 1.2, 2.8 * shape[0] + 0.6)).get_subplotspec()
        if place is None:
            raise ValueError(
                f"The map has {n} parts, which need axes of a grid: pass one of plt.subplots as ax."
            )
        self.ax_.set_axis_off()
        grid = place.subgridspec(*shape)
        return [self.figure_.add_subplot(grid[divmod(each, columns)]) for each in range(n)]


def _map(
    ax: Any, centres: np.ndarray, scores: np.ndarray, size: float | None, style: dict[str, Any]
) -> Any:
    """Scores as a picture, or as points if they are not on a grid."""
    grid = _as_grid(centres, scores, size)
    if grid is not None:
        values, extent = grid
        step = (extent[1] - extent[0]) / values.shape[1]
        if size is not None and _is_other_size(size, step, ~np.ma.getmaskarray(values)):
            warn_user(
                f"patch_size={size:g}, but neighbours are {step:g} apart: the map may be shifted "
                "by half of the difference. Pass the side of the patches in the unit of the "
                "coordinates.",
                UserWarning,
            )
        return ax.imshow(values, extent=extent, interpolation="nearest", **style)
    share = min(1.0, _MAX_POINTS / len(centres))
    line = {"edgecolors": LINE, "linewidths": 0.4 * share}
    points = ax.scatter(*centres.T, c=scores, s=max(1.0, 36.0 * share), **line, **style)
    ax.set_aspect("equal")
    ax.invert_yaxis()
    return points


def _is_other_size(size: float, step: float, filled: np.ndarray) -> bool:
    """Whether patches of this size would neither touch nor overlap by whole steps.

    It is unknown if few instances are neighbours.
    """
    pairs = (filled[1:] & filled[:-1]).sum() + (filled[:, 1:] & filled[:, :-1]).sum()
    shares = size / step
    return bool(pairs >= filled.sum() and (shares < 1 - 1e-6 or abs(shares % 1) > 1e-6))


def _entry(bags: Bags, what: str, given: Any) -> Any:
    """An array of the instances, or the entry of ``instance_data`` of this name."""
    if not isinstance(given, str):
        return given
    return array_of(bags.instance_data, given, f"instance_data of {what}=")


def _as_grid(
    centres: np.ndarray, scores: np.ndarray, size: float | None
) -> tuple[np.ndarray, tuple[float, float, float, float]] | None:
    """Scores as an image and its extent, if the instances are on a grid with few gaps."""
    cells, lows, steps = [], [], []
    for axis in range(2):
        values = np.unique(centres[:, axis])
        step = float(np.diff(values).min()) if len(values) > 1 else float(size or 1.0)
        index = (centres[:, axis] - values[0]) / step
        if not np.allclose(index, np.rint(index), atol=1e-6 * max(1.0, float(index.max()))):
            return None
        cells.append(np.rint(index).astype(np.intp))
        lows.append(float(values[0]) - step / 2)
        steps.append(step)
    columns, rows = cells
    shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    n = len(scores)
    if (n < 2 and size is None) or shape[0] * shape[1] > _MAX_EMPTY * n:
        return None
    values = np.ma.masked_all(shape)
    if len(np.unique(rows * shape[1] + columns)) < n:
        return None  # two instances at the same place are only visible as points
    values[rows, columns] = scores
    left, top = lows
    return values, (left, left + shape[1] * steps[0], top + shape[0] * steps[1], top)
