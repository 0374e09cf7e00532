"""Data sets that test whether a model respects the multiple-instance assumption.

Each generator returns training and test bags whose labels follow the same rule. An additional cue
agrees with the labels in training and contradicts them at test. It has no effect on models that
only use witnesses; other models have a low AUC at test. The three tasks are those of Raff & Holt
(2023); distributions and numbers are our own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..._bags import Bags
from .make import check_count


class _Scene:
    """Clusters on separate axes in a standard normal background."""

    def __init__(self, n_features: int, distance: float, rng: np.random.RandomState) -> None:
        check_count("n_features", n_features, 3)
        # A random rotation, so that clusters are not on coordinate axes.
        axes = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
        self.concepts = distance * axes[:2]
        self.poison = 2 * distance * axes[2]
        self.rng = rng

    def around(self, centers: Any, scale: float) -> np.ndarray:
        centers = np.atleast_2d(centers)
        return centers + scale * self.rng.standard_normal(centers.shape)

    def bag(self, n_background: int, n_concepts: tuple[int, int], poisoned: bool) -> np.ndarray:
        d = self.concepts.shape[1]
        parts = [self.rng.standard_normal((n_background, d))]
        parts += [
            self.around(np.repeat(center[None, :], count, axis=0), 0.5)
            for center, count in zip(self.concepts, n_concepts, strict=True)
            if count
        ]
        if poisoned:
            parts.append(self.around(self.poison, 0.1))
        block = np.concatenate(parts)
        return block[self.rng.permutation(len(block))]


def _labels(n_bags: int, rng: np.random.RandomState) -> np.ndarray:
    check_count("n_bags", n_bags, 2)
    return rng.permutation(np.arange(n_bags) % 2)


def _poisoned_parts(
    n_bags: int, rng: np.random.RandomState, block: Callable[[int, bool], np.ndarray]
) -> tuple[Bags, np.ndarray, Bags, np.ndarray]:
    """Training and test bags; ``block`` draws a bag, with poison in training if its label is 0."""
    parts: list[Any] = []
    for poisoned in (0, 1):
        y = _labels(n_bags, rng)
        parts += [Bags.from_list([block(label, label == poisoned) for label in y.tolist()]), y]
    return tuple(parts)


def make_single_concept(
    n_bags: int = 100,
    n_features: int = 16,
    *,
    bag_size: int = 10,
    distance: float = 6.0,
    random_state: Any = None,
) -> tuple[Bags, np.ndarray, Bags, np.ndarray]:
    """One concept, and a poison that is in different classes in training and test.

    A bag is positive if it contains an instance of the concept. In training every negative bag also
    contains one of the poison; at test every positive bag does. A model that has learned "no
    poison, hence positive" has an AUC below 1/2 at test. The largest instance score of a model of
    the concept does not depend on the poison.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags in each of the two parts; half of them are positive.
    n_features : int, default=16
        Number of features, at least 3.
    bag_size : int, default=10
        Background instances of a bag.
    distance : float, default=6.0
        Distance of the concept from the background, whose standard deviation is 1. The poison is
        twice as far away.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same bags in every call.

    Returns
    -------
    X_train, y_train, X_test, y_test : Bags and ndarray of shape (n_bags,), twice
        Bags and labels of both parts.

    References
    ----------
    E. Raff, J. Holt (2023). Reproducibility in multiple instance learning: a case for algorithmic
    unit tests. Advances in Neural Information Processing Systems 36. arXiv:2310.17867.

    Examples
    --------
    >>> from milearn.datasets import make_single_concept
    >>> X_train, y_train, X_test, y_test = make_single_concept(n_bags=20, random_state=0)
    >>> X_train, int(y_train.sum())
    (Bags(n_bags=20, n_instances=220, n_features=16, sizes=11..11, dtype=float64), 10)
    """
    rng = check_random_state(random_state)
    scene = _Scene(n_features, distance, rng)

    def block(label: int, poisoned: bool) -> np.ndarray:
        # The size does not depend on the poison, so that it is not a cue.
        return scene.bag(bag_size + 1 - label - poisoned, (label, 0), poisoned)

    return _poisoned_parts(n_bags, rng, block)


def make_threshold_concepts(
    n_bags: int = 100,
    n_features: int = 16,
    *,
    bag_size: int = 10,
    distance: float = 6.0,
    poison: bool = True,
    random_state: Any = None,
) -> tuple[Bags, np.ndarray, Bags, np.ndarray]:
    """Two concepts, of which a positive bag contains both.

    A positive bag contains one instance of each concept. A negative bag contains two instances of
    one concept or none, so that neither a single concept nor the number of instances of concepts is
    sufficient. A model whose bag score is the maximum over instances cannot solve this task; a
    model that combines maxima of several instance scores can.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags in each of the two parts; half of them are positive.
    n_features : int, default=16
        Number of features, at least 3.
    bag_size : int, default=10
        Background instances of a bag, at least 2.
    distance : float, default=6.0
        Distance of the concepts from the background, whose standard deviation is 1.
    poison : bool, default=True
        Whether negative bags in training, and positive ones at test, contain an instance of a
        poison as in :func:`make_single_concept`.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same bags in every call.

    Returns
    -------
    X_train, y_train, X_test, y_test : Bags and ndarray of shape (n_bags,), twice
        Bags and labels of both parts.

    References
    ----------
    E. Raff, J. Holt (2023). Reproducibility in multiple instance learning: a case for algorithmic
    unit tests. Advances in Neural Information Processing Systems 36. arXiv:2310.17867.

    Examples
    --------
    >>> from milearn.datasets import make_threshold_concepts
    >>> X_train, y_train, X_test, y_test = make_threshold_concepts(n_bags=20, random_state=0)
    >>> len(X_test), int(y_test.sum())
    (20, 10)
    """
    rng = check_random_state(random_state)
    scene = _Scene(n_features, distance, rng)

    def block(label: int, poisoned: bool) -> np.ndarray:
        held = (1, 1) if label else ((2, 0), (0, 2), (0, 0))[rng.randint(3)]
        poisoned = poison and poisoned
        return scene.bag(bag_size + 2 - sum(held) - poisoned, held, poisoned)

    return _poisoned_parts(n_bags, rng, block)


def make_false_frequency(
    n_bags: int = 100,
    n_features: int = 16,
    *,
    bag_size: int = 10,
    dilution: int = 20,
    distance: float = 6.0,
    random_state: Any = None,
) -> tuple[Bags, np.ndarray, Bags, np.ndarray]:
    """One concept, in bags whose size depends on the label, differently in training and test.

    A bag is positive if it contains an instance of the concept. In training positive bags contain
    three of them, and twice the background of negative bags. At test they contain one, and half the
    background of negative bags, which is ``dilution`` times as large. A model that uses the number
    of instances, or the fraction of the concept in a bag, fails at test.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags in each of the two parts; half of them are positive.
    n_features : int, default=16
        Number of features, at least 3.
    bag_size : int, default=10
        Background instances of a negative bag in training.
    dilution : int, default=20
        Background instances of a negative bag at test, in multiples of ``bag_size``.
    distance : float, default=6.0
        Distance of the concept from the background, whose standard deviation is 1.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same bags in every call.

    Returns
    -------
    X_train, y_train, X_test, y_test : Bags and ndarray of shape (n_bags,), twice
        Bags and labels of both parts.

    References
    ----------
    E. Raff, J. Holt (2023). Reproducibility in multiple instance learning: a case for algorithmic
    unit tests. Advances in Neural Information Processing Systems 36. arXiv:2310.17867.

    Examples
    --------
    >>> from milearn.datasets import make_false_frequency
    >>> X_train, y_train, X_test, y_test = make_false_frequency(n_bags=20, random_state=0)
    >>> X_train.n_instances, X_test.n_instances
    (330, 3010)
    """
    rng = check_random_state(random_state)
    scene = _Scene(n_features, distance, rng)
    y_train, y_test = _labels(n_bags, rng), _labels(n_bags, rng)
    train = [
        scene.bag(2 * bag_size if label else bag_size, (3 * int(label), 0), False)
        for label in y_train
    ]
    large = dilution * bag_size
    test = [
        scene.bag(max(1, large // 2) if label else large, (int(label), 0), False)
        for label in y_test
    ]
    return Bags.from_list(train), y_train, Bags.from_list(test), y_test
