"""The pictures of README, landing page, "Getting started", shares, hospitals and other tutorials.

``python docs/picture.py`` writes witness.png, slides.png, start-*.png, shares-shares.png,
sites-new.png, matters.png, r-survival.png and second-cohort.png in docs/_static. Names draw only
those: ``python docs/picture.py witness slides``.
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
from milearn.inspection import InstanceScoresDisplay

DOCS = Path(__file__).resolve().parent
TARGET = DOCS / "_static"
# Legible at 390 pixels, to which a telephone scales them.
FONTS = {"font.size": 12.0, "axes.titlesize": 13.0}


def draw() -> None:
    """Digits: the scores of one bag, by the lines of the README."""
    X, y = load_digit_bags(return_X_y=True)
    model = MIClassifier(random_state=0).fit(X[:150], y[:150])
    new = np.arange(150, 200)
    bag = new[(y[new] == 1) & (X.sizes[new] == 8)][0]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(5.2, 3.0), height_ratios=(3.4, 1.0))
    figure.subplots_adjust(left=0.16, right=0.99, top=0.9, bottom=0.02, hspace=0.05)
    InstanceScoresDisplay.from_estimator(model, X, bag=bag, ax=top)
    top.get_legend().remove()
    top.set(title="A new bag: only the 9 scores above 0", ylabel="score of the digit", xlabel="")
    top.set(xticks=[], xlim=(-0.5, 7.5))
    digits = np.pad(-X[bag].reshape(8, 8, 8), ((0, 0), (0, 0), (2, 2)))
    bottom.imshow(np.hstack(list(digits)), cmap="gray")
    bottom.set_axis_off()
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
    left.set_title("simulated tumour")
    display = InstanceScoresDisplay.from_estimator(
        model, X, bag=number, coordinates="coords", limit=10.0, ax=right
    )
    right.get_legend().remove()
    right.set_title("scores of patches")
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
        if not (example.options.get(doctest.SKIP) or example.exc_msg):
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
    figure = names_of("guide/shares.rst")["display"].figure_
    figure.set_size_inches(6.4, 3.2)
    figure.savefig(TARGET / "shares-shares.png", dpi=120, metadata={"Software": None})


def draw_sites() -> None:
    """Scores at a new hospital, as the lines of the tutorial on hospitals draw them."""
    figure = names_of("tutorials/sites.rst")["display"].figure_
    figure.set_size_inches(6.4, 3.2)
    figure.savefig(TARGET / "sites-new.png", dpi=120, metadata={"Software": None})


def draw_r() -> None:
    """Survival of two groups of patients, as the lines of the tutorial for users of R draw it."""
    figure = names_of("tutorials/r.rst")["figure"]
    figure.set_size_inches(6.4, 3.2)
    figure.savefig(TARGET / "r-survival.png", dpi=120, metadata={"Software": None})


def draw_second_cohort() -> None:
    """Scores of a second cohort with a new class, as the lines of its tutorial draw them."""
    figure = names_of("tutorials/second_cohort.rst")["display"].figure_
    figure.set_size_inches(6.4, 3.2)
    figure.savefig(TARGET / "second-cohort.png", dpi=120, metadata={"Software": None})


def draw_matters() -> None:
    """Differences of means and importances, as the lines of their tutorial draw them."""
    figure = names_of("tutorials/matters.rst")["figure"]
    figure.set_size_inches(6.4, 2.6)
    figure.savefig(TARGET / "matters.png", dpi=120, metadata={"Software": None})


PICTURES = {
    "witness": draw,
    "slides": draw_slides,
    "start": draw_start,
    "shares": draw_shares,
    "sites": draw_sites,
    "matters": draw_matters,
    "r": draw_r,
    "second-cohort": draw_second_cohort,
}


if __name__ == "__main__":
    plt.rcParams.update(FONTS)
    for wanted in sys.argv[1:] or PICTURES:
        PICTURES[wanted]()
