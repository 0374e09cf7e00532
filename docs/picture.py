"""The pictures of README, landing page, "Getting started", shares and results of rare instances.

``python docs/picture.py`` writes witness.png, slides.png, start-*.png, shares-*.png and
needles*.png in docs/_static. Names draw only those: ``python docs/picture.py needles needles-map``.
The last two are drawn from the tables of docs/results.
"""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from milearn import Bags, MIClassifier
from milearn.datasets import load_digit_bags
from milearn.inspection import InstanceScoresDisplay, WitnessDisplay

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from benchmarks.common.output import (  # noqa: E402 (the path comes first)
    SUFFIX,
    Table,
    read_page,
)

TARGET = DOCS / "_static"
# Legible at 390 pixels, to which a telephone scales them.
FONTS = {"font.size": 12.0, "axes.titlesize": 13.0}


def draw() -> None:
    """Digits: the scores of one bag, and the deciding digits of all positive test bags."""
    X, y = load_digit_bags(n_bags=200, return_X_y=True)
    model = MIClassifier(random_state=0).fit(X[:120], y[:120])
    positive = 120 + np.flatnonzero(y[120:] == 1)
    bag = positive[np.flatnonzero(X.sizes[positive] == 8)[0]]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(5.2, 5.6), height_ratios=(1.0, 1.1))
    figure.subplots_adjust(left=0.16, right=0.99, top=0.95, bottom=0.01, hspace=0.45)
    InstanceScoresDisplay.from_estimator(model, X, bag=bag, ax=top)
    top.get_legend().remove()
    top.set(title="One new bag: only the 9 scores above 0", ylabel="score of the digit", xlabel="")
    WitnessDisplay.from_estimator(model, X, bags=positive[:24], instance_shape=(8, 8), ax=bottom)
    for inset in bottom.child_axes:  # without the scores, which are too small to read
        inset.set_title("")
    bottom.set_title("The deciding digits of 24 new positive bags")
    figure.savefig(TARGET / "witness.png", dpi=150, metadata={"Software": None})


def draw_slides() -> None:
    """Generated slides: the new one with the largest tumour, and the scores of its patches."""
    rng = np.random.default_rng(0)
    direction = rng.normal(size=64)
    direction *= 5.0 / np.linalg.norm(direction)
    tissues = 0.7 * rng.normal(size=(4, 64))
    y = np.arange(80) % 2
    slides = [slide(rng, tissues, direction if tumour else None) for tumour in y]
    X = Bags.from_list(
        [features for features, _, _ in slides],
        instance_data={"coords": [places for _, places, _ in slides]},
    )
    model = MIClassifier(random_state=0).fit(X[:50], y[:50])
    new = np.arange(50, 80)
    right = np.mean(model.predict(X[new]) == y[new])
    share = np.mean([changed.mean() for _, _, changed in slides[1::2]])
    print(f"{right:.1%} of {len(new)} new slides, {share:.1%} of the patches of a positive slide")
    number = max(new[y[new] == 1], key=lambda one: slides[one][2].sum())
    _, places, changed = slides[number]
    places = places - places.min(axis=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(5.2, 2.7), width_ratios=(0.82, 1.0))
    figure.subplots_adjust(left=0.01, right=0.91, top=0.9, bottom=0.02, wspace=0.06)
    truth = np.full(places[:, ::-1].max(axis=0) + 1, np.nan)
    truth[places[:, 1], places[:, 0]] = changed
    left.imshow(truth, cmap="Reds", vmin=-0.3, vmax=1.3)
    left.set_title("tumour (not given)")
    display = InstanceScoresDisplay.from_estimator(
        model, X, bag=number, coordinates="coords", limit=10.0, ax=right
    )
    right.get_legend().remove()
    right.set_title("scores")
    display.colorbar_.set_label("")
    for ax in (left, right):
        ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    figure.savefig(TARGET / "slides.png", dpi=150, metadata={"Software": None})


def slide(rng: Any, tissues: Any, direction: Any) -> tuple[Any, Any, Any]:
    """Features, places and labels of the patches of a generated slide.

    A slide has regions of four tissues. With a ``direction``, the patches of one or two disks of it
    are shifted by it.
    """
    width, height = rng.integers(24, 33, size=2)
    column, row = np.meshgrid(np.arange(width), np.arange(height))
    places = np.column_stack([column.ravel(), row.ravel()])
    x, y = (places - [width / 2, height / 2]).T
    angle, phases = np.arctan2(y, x), rng.uniform(0.0, 2.0 * np.pi, size=2)
    border = 0.85 + 0.12 * np.sin(2 * angle + phases[0]) + 0.08 * np.sin(3 * angle + phases[1])
    places = places[np.hypot(2 * x / width, 2 * y / height) < border]
    centres = places[rng.choice(len(places), size=5)]
    region = np.argmin(((places[:, None] - centres) ** 2).sum(axis=2), axis=1)
    features = tissues[rng.integers(4, size=5)[region]] + rng.normal(size=(len(places), 64))
    changed = np.zeros(len(places), dtype=bool)
    if direction is not None:
        for _ in range(rng.integers(1, 3)):
            centre = places[rng.integers(len(places))]
            changed |= np.hypot(*(places - centre).T) < rng.uniform(1.2, 2.4)
        features[changed] += direction
    return features.astype(np.float32), places, changed


def names_of(page: str) -> dict[str, Any]:
    """Names that the lines of a page define."""
    names: dict[str, Any] = {}
    text = (DOCS / page).read_text(encoding="utf-8")
    for example in doctest.DocTestParser().get_examples(text):
        if not example.options.get(doctest.SKIP):
            exec(example.source, names)
    return names


def draw_start() -> None:
    """What the lines of "Getting started" draw, as they stand there."""
    names = names_of("start.rst")
    for name, display in (("scores", names["one"]), ("witnesses", names["many"])):
        display.figure_.set_size_inches(6.4, 3.2)
        display.figure_.savefig(TARGET / f"start-{name}.png", dpi=120, metadata={"Software": None})


def draw_shares() -> None:
    """What the lines of the guide to shares draw."""
    names = names_of("guide/shares.rst")
    for name in ("shares", "bags", "instances"):
        figure = names["display" if name == "shares" else name].figure_
        figure.set_size_inches(6.4, 3.2)
        figure.savefig(TARGET / f"shares-{name}.png", dpi=120, metadata={"Software": None})


def kept(name: str) -> list[Table]:
    """The tables of a file of docs/results."""
    return list(read_page(DOCS / "results" / f"{name}{SUFFIX}").tables)


def draw_needles() -> None:
    """AUC over the share of deciding instances, from the kept table."""
    table = next(table for table in kept("needles") if "by share of deciding" in table.title)
    shown = ("MIClassifier", "MISVC", "gated attention", "DSMIL", "mean, Logistic", "oracle")
    percent = [float(row[0].rstrip("%")) for row in table.rows]
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for number, begin in enumerate(shown):
        column = next(i for i, name in enumerate(table.columns) if name.startswith(begin))
        areas = [float(row[column]) for row in table.rows]
        line = {"color": "black", "linestyle": "--"} if begin == "oracle" else {}
        label = table.columns[column].removesuffix(", clipped z-scores")
        ax.semilogx(percent, areas, marker="osD^vP"[number], label=label, **line)
    ax.set_xticks(percent, [f"{each:g}" for each in percent])
    ax.minorticks_off()
    ax.set(xlabel="share of deciding instances, %", ylabel="AUC x 100 on new bags")
    ax.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    figure.savefig(TARGET / "needles.png", dpi=130, metadata={"Software": None})


def draw_needles_map() -> None:
    """AUC of the linear MISVC, of its start from means and of the oracle, from the kept tables."""
    tables = kept("needles-map")
    figure, panels = plt.subplots(
        len(tables), 1, figsize=(6.4, 2.6 * len(tables)), sharex=True, layout="constrained"
    )
    for ax, table in zip(panels, tables, strict=True):
        cells = [[float(c) if c != "-" else np.nan for c in row[2:]] for row in table.rows]
        drawn = ax.imshow(cells, cmap="viridis", vmin=50, vmax=100, aspect="auto")
        for (row, column), value in np.ndenumerate(cells):
            if np.isfinite(value):
                ink = "black" if value > 80 else "white"
                ax.text(column, row, f"{value:.0f}", ha="center", va="center", color=ink)
        ax.set_yticks(range(len(table.rows)), [row[0] for row in table.rows])
        ax.set(ylabel="share", title=table.title.partition(":")[0])
        ax.title.set_fontsize(11)
    columns = [name.replace(" x ", "\n") for name in tables[0].columns[2:]]
    panels[-1].set_xticks(range(len(columns)), columns)
    panels[-1].set_xlabel("training bags, and features below")
    figure.colorbar(drawn, ax=panels, label="AUC x 100")
    figure.savefig(TARGET / "needles-map.png", dpi=110, metadata={"Software": None})


PICTURES = {
    "witness": draw,
    "slides": draw_slides,
    "start": draw_start,
    "shares": draw_shares,
    "needles": draw_needles,
    "needles-map": draw_needles_map,
}


if __name__ == "__main__":
    plt.rcParams.update(FONTS)
    for wanted in sys.argv[1:] or PICTURES:
        PICTURES[wanted]()
