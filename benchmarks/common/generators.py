"""Generated bags of the papers: points in the plane, and features without information."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from milearn import Bags
from milearn._bags.segments import offsets_of


def plane_side(points: Any, *, margin: float = 0.1) -> np.ndarray:
    """Region of points of the unit square: 1 above the curve, -1 below it, 0 in its margin.

    The curve is ``x2 = 0.5 + 0.25 sin(2 pi x1)``; ``margin`` is the height of the band around it.
    """
    points = np.asarray(points, dtype=np.float64)
    above = points[:, 1] - 0.5 - 0.25 * np.sin(2.0 * np.pi * points[:, 0])
    return np.where(np.abs(above) <= margin / 2, 0, np.sign(above)).astype(np.int64)


def make_ambiguous_plane(
    n_ambiguous: int = 20,
    n_single: int | None = None,
    *,
    ambiguity: float = 3.0,
    margin: float = 0.1,
    random_state: Any = None,
    return_instance_labels: bool = False,
) -> Any:
    """Bags of points in the plane, and their labels.

    Instances are uniform over two regions of the unit square (see :func:`plane_side`). An ambiguous
    bag is positive: one instance is in the positive region and the others in the negative one. Its
    size is a Poisson number with the mean ``ambiguity``, drawn again until it is at least 2. The
    bags of one instance are drawn from both regions, half of them positive (rounded down).

    The regions of Figure 1 of Andrews & Hofmann (NIPS 16, 2003) are not published; these are
    different ones.
    """
    n_single = n_ambiguous if n_single is None else n_single
    rng = check_random_state(random_state)
    sizes = np.zeros(n_ambiguous, dtype=np.intp)
    while (sizes < 2).any():
        short = sizes < 2
        sizes[short] = rng.poisson(ambiguity, size=int(short.sum()))
    n_positive = int(n_single) // 2
    y = np.repeat([1, 0], [n_ambiguous + n_positive, n_single - n_positive])
    sizes = np.r_[sizes, np.ones(n_single, dtype=np.intp)]
    offsets = offsets_of(sizes)
    labels = np.repeat(y, sizes)
    for bag in range(n_ambiguous):
        labels[offsets[bag] : offsets[bag + 1]] = 0
        labels[offsets[bag] + rng.randint(sizes[bag])] = 1
    X = Bags(_drawn(labels, margin, rng), offsets)
    return (X, y, labels) if return_instance_labels else (X, y)


def _drawn(labels: np.ndarray, margin: float, rng: np.random.RandomState) -> np.ndarray:
    points = np.empty((len(labels), 2))
    left = np.arange(len(labels))
    while len(left):
        points[left] = rng.random_sample((len(left), 2))
        left = left[plane_side(points[left], margin=margin) != 2 * labels[left] - 1]
    return points
