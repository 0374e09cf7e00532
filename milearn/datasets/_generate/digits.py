"""Bags of the handwritten digits that are included in scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state

from ..._bags import Bags
from ..._bags.segments import offsets_of
from .make import check_fraction, random_labels, random_sizes, size_range


def load_digit_bags(
    n_bags: int = 200,
    *,
    digit: int = 9,
    bag_size: int | tuple[int, int] = (4, 10),
    positive_fraction: float = 0.5,
    witness_rate: float = 0.0,
    scale: bool = True,
    replace: bool = False,
    random_state: Any = 0,
    return_X_y: bool = False,
) -> Any:
    """Bags of handwritten digits; a bag is positive if it contains a given digit.

    The images are the 1797 scans of 8 x 8 pixels of :func:`sklearn.datasets.load_digits`.

    Parameters
    ----------
    n_bags : int, default=200
        Number of bags.
    digit : int, default=9
        The digit, 0 to 9, that makes a bag positive.
    bag_size : int or (int, int), default=(4, 10)
        Number of images in a bag, or a range from which it is drawn uniformly (ends included).
    positive_fraction : float, default=0.5
        Fraction of positive bags; rounded to the nearest number of bags.
    witness_rate : float, default=0.0
        A positive bag contains the digit once, and each of its other images is the digit with this
        probability.
    scale : bool, default=True
        Pixels from 0 to 1 instead of 0 to 16.
    replace : bool, default=False
        Whether an image may occur more than once. Otherwise no image is in two bags, so that you
        can split the bags into training and test as you like.
    random_state : int, RandomState instance or None, default=0
        Choice of the images. The default always gives the same bags.
    return_X_y : bool, default=False
        Return ``(data, target)``.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or (Bags, ndarray)
        ``data`` : Bags with 64 features. ``target`` : ndarray of shape (n_bags,), 1 for bags with
        the digit. ``instance_labels`` : ndarray of shape (n_instances,), 1 for images of the digit.
        ``instance_digits`` : the digit on each image. ``instance_index`` : its row in
        ``load_digits``. Also ``feature_names``, ``target_names`` and ``DESCR``.

    Raises
    ------
    ValueError
        If there are not enough images, or a parameter is out of its range.

    Examples
    --------
    >>> from milearn.datasets import load_digit_bags
    >>> digits = load_digit_bags(n_bags=100)
    >>> digits.data
    Bags(n_bags=100, n_instances=680, n_features=64, sizes=4..10, dtype=float64)
    >>> int(digits.target.sum()), int(digits.instance_labels.sum())
    (50, 50)
    """
    if digit not in range(10):
        raise ValueError(f"digit={digit!r} is not a digit; choose 0 to 9.")
    check_fraction("positive_fraction", positive_fraction)
    check_fraction("witness_rate", witness_rate)
    bounds = size_range(bag_size)
    rng = check_random_state(random_state)
    source = load_digits()
    target = random_labels(n_bags, positive_fraction, rng)
    sizes = random_sizes(n_bags, bounds, rng)
    offsets = offsets_of(sizes)
    shows = np.zeros(offsets[-1], dtype=bool)
    for bag in np.flatnonzero(target):
        shows[offsets[bag] : offsets[bag + 1]] = rng.random_sample(sizes[bag]) < witness_rate
        shows[offsets[bag] + rng.randint(sizes[bag])] = True
    index = np.empty(offsets[-1], dtype=np.intp)
    for wanted, pool, what in (
        (shows, np.flatnonzero(source.target == digit), f"images of {digit}"),
        (~shows, np.flatnonzero(source.target != digit), "images of other digits"),
    ):
        need = int(wanted.sum())
        if need > len(pool) and not replace:
            raise ValueError(
                f"{need} {what} are needed but there are {len(pool)}; ask for fewer or smaller "
                "bags, or pass replace=True."
            )
        index[wanted] = rng.choice(pool, size=need, replace=replace)
    instances = source.data[index] / (16.0 if scale else 1.0)
    bags = Bags(instances, offsets, feature_names=source.feature_names)
    if return_X_y:
        return bags, target
    return Bunch(
        data=bags,
        target=target,
        feature_names=np.array(source.feature_names),
        target_names=np.array([f"no {digit}", f"{digit}"]),
        instance_labels=shows.astype(np.int64),
        instance_digits=source.target[index],
        instance_index=index,
        DESCR=f"Bags of handwritten digits; positive when a bag holds a {digit}.",
    )
