"""Ambiguous bags in the unit square, in the spirit of Andrews & Hofmann (2003), Figure 1."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..._bags import Bags
from ..._bags.segments import offsets_of
from .make import check_count


def plane_side(points: Any, *, margin: float = 0.1) -> np.ndarray:
    """Region of points of the unit square: 1 above the curve, -1 below it, 0 in the margin.

    The curve is :math:`x_2 = 0.5 + 0.25 \\sin 2 \\pi x_1`.

    Parameters
    ----------
    points : array-like of shape (n_points, 2)
        Points of the unit square.
    margin : float, default=0.1
        Height of the band around the curve, which is in neither region.

    Returns
    -------
    ndarray of shape (n_points,), int64
        Regions of the points: 1, -1 or 0.

    Examples
    --------
    >>> from milearn.datasets import plane_side
    >>> plane_side([[0.5, 0.9], [0.5, 0.5], [0.5, 0.1]])
    array([ 1,  0, -1])
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
    """Positive bags with one positive instance, and bags of one instance, in the plane.

    Instances are uniform over two regions of the unit square, separated by a curved margin (see
    :func:`plane_side`). An ambiguous bag is positive: one instance is in the positive region and
    the others in the negative one. Its size is a Poisson number, drawn again until it is at least
    2. The bags of one instance are drawn from both regions.

    Parameters
    ----------
    n_ambiguous : int, default=20
        Number of ambiguous bags.
    n_single : int, default=None
        Number of bags of one instance, half of them positive (rounded down); by default, the number
        of ambiguous bags.
    ambiguity : float, default=3.0
        Mean of the Poisson numbers (the lambda of the paper).
    margin : float, default=0.1
        Height of the band between the regions.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same bags in every call.
    return_instance_labels : bool, default=False
        Also return the instance labels.

    Returns
    -------
    X : Bags
        Ambiguous bags first.
    y : ndarray of shape (n_bags,), 0 or 1
        Labels of the bags.
    instance_labels : ndarray of shape (n_instances,), 0 or 1
        Only with ``return_instance_labels=True``.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    References
    ----------
    S. Andrews, T. Hofmann. Multiple Instance Learning via Disjunctive Programming Boosting. NIPS
    16, 2003. The regions of its Figure 1 are not published; these are different ones.

    Examples
    --------
    >>> from milearn.datasets import make_ambiguous_plane
    >>> X, y, labels = make_ambiguous_plane(random_state=0, return_instance_labels=True)
    >>> X
    Bags(n_bags=40, n_instances=87, n_features=2, sizes=1..7, dtype=float64)
    >>> int(y.sum()), int(labels.sum())
    (30, 30)
    """
    n_single = n_ambiguous if n_single is None else n_single
    check_count("n_ambiguous", n_ambiguous, 0)
    check_count("n_single", n_single, 0)
    if n_ambiguous + n_single == 0:
        raise ValueError("n_ambiguous and n_single are both 0; ask for some bags.")
    if not isinstance(ambiguity, Real) or not 0 < ambiguity < np.inf:
        raise ValueError(f"ambiguity={ambiguity!r} is out of range; it must be above 0.")
    if not isinstance(margin, Real) or not 0 <= margin <= 0.4:
        raise ValueError(f"margin={margin!r} is out of range; it must lie in [0, 0.4].")
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
