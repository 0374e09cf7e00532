"""Checks of parameters, random sizes and random labels for generators of bags."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np


def check_count(name: str, value: Any, minimum: int) -> None:
    if not isinstance(value, numbers.Integral) or value < minimum:
        raise ValueError(f"{name}={value!r} is out of range; it must be an integer >= {minimum}.")


def check_fraction(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r} is out of range; it must lie in [0, 1].")


def size_range(bag_size: Any) -> tuple[int, int]:
    """The smallest and the largest size of a bag."""
    pair = tuple(bag_size) if isinstance(bag_size, (tuple, list)) else (bag_size, bag_size)
    if len(pair) != 2 or not 1 <= pair[0] <= pair[1]:
        raise ValueError(
            f"bag_size={bag_size!r} is out of range; it must be a number >= 1 or an increasing "
            "pair of such."
        )
    return int(pair[0]), int(pair[1])


def random_sizes(
    n_bags: int, bag_size: Any, rng: np.random.RandomState, at_least: int = 1
) -> np.ndarray:
    if isinstance(bag_size, float):
        if bag_size < 1:
            raise ValueError(f"bag_size={bag_size!r} is out of range; a mean must be >= 1.")
        return np.maximum(1 + rng.poisson(bag_size - 1, size=n_bags), at_least)
    low, high = size_range(bag_size)
    if low < at_least:
        raise ValueError(
            f"bag_size={bag_size!r} leaves no room for one witness of each of {at_least} concepts; "
            "make the bags larger."
        )
    return rng.randint(low, high + 1, size=n_bags)


def random_labels(n_bags: int, positive_fraction: float, rng: np.random.RandomState) -> np.ndarray:
    """Random labels 0 and 1; the number of ones is the fraction of bags, rounded."""
    labels = np.zeros(n_bags, dtype=np.int64)
    labels[rng.permutation(n_bags)[: int(np.rint(positive_fraction * n_bags))]] = 1
    return labels
