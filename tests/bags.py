"""Bags without structure, for tests in which the data do not matter, and bags of tissues."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.metrics.pairwise import sigmoid_kernel

from milearn import Bags
from milearn._bags.segments import pooling_matrix
from milearn._solvers.svm.coupled.gram import BagGram


def random_bags(seed=0, n_bags=9, d=4, largest=6, *, centre=0.0, zeros=0.0):
    """Normal instances about a centre; ``zeros`` is the share of values that are zero."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=n_bags)
    instances = centre + rng.normal(size=(sizes.sum(), d))
    instances[rng.random(instances.shape) < zeros] = 0.0
    return Bags(instances, np.r_[0, np.cumsum(sizes)])


def labelled_bags(seed=0, *, n_positive=3, n_negative=4, d=3, largest=3, shift=0.0):
    """Random bags and labels, positive ones first; ``shift`` moves an instance of each of them."""
    bags = random_bags(seed, n_positive + n_negative, d, largest)
    instances = bags.instances.copy()
    instances[bags.offsets[:n_positive], 0] += shift
    return Bags(instances, bags.offsets), (np.arange(len(bags)) < n_positive).astype(int)


def folder_of_bags(path, *names, sizes=None):
    """A folder with a file of each bag, all whose values are the number of the file, from 1 on."""
    path.mkdir(exist_ok=True)
    for at, name in enumerate(names):
        np.save(path / f"{name}.npy", np.full(((sizes or {}).get(name, 2), 3), at + 1.0))
    return path


def plain_labels(labels):
    """Labels as a list in which missing ones are equal."""
    values = labels.tolist() if hasattr(labels, "tolist") else labels
    return [None if pd.isna(label) else label for label in values]


def indefinite_kernel(left, right):
    """A kernel whose matrices have negative eigenvalues."""
    return sigmoid_kernel(left, right, gamma=0.5, coef0=-0.5)


def bag_gram(gram, offsets, of_bags, of_instances):
    """Products of scaled sums of the instances of each bag, and of scaled instances."""
    weights = pooling_matrix(offsets, np.repeat(of_bags, np.diff(offsets)))
    return BagGram(gram, offsets, weights, of_instances)


def tissues(seed, n_bags=60, size=100, d=300):
    """Instances of a few tissues far from each other; a twentieth of a positive bag is moved.

    Returns the instances, offsets, labels, and which instances are moved.
    """
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n_bags * size, d))
    X += 3.0 * rng.normal(size=(6, d))[rng.randint(6, size=len(X))]
    offsets, y = np.arange(0, len(X) + 1, size), np.arange(n_bags) % 2
    place = rng.normal(size=d) / np.sqrt(d)
    moved = (np.arange(len(X)) % size < 0.05 * size) & (np.repeat(y, size) == 1)
    X[moved] += 4.0 * place
    return X, offsets, y, moved


# -- tests of the multiple-instance assumption -----------------------------------------------------


class _Scene:
    """Clusters on separate axes in a standard normal background.

    Training and test bags have labels that follow the same rule. An additional cue agrees with the
    labels in training and contradicts them at test. It has no effect on models that only use
    witnesses; other models have a low AUC at test. The three tasks are those of Raff & Holt (2023,
    arXiv:2310.17867); distributions and numbers are our own.
    """

    def __init__(self, random_state, n_features=16, distance=6.0):
        self.rng = np.random.RandomState(random_state)
        # A random rotation, so that clusters are not on coordinate axes.
        axes = np.linalg.qr(self.rng.standard_normal((n_features, n_features)))[0]
        self.concepts = distance * axes[:2]
        self.poison = 2 * distance * axes[2]

    def around(self, centers, scale):
        return centers + scale * self.rng.standard_normal(centers.shape)

    def bag(self, n_background, n_concepts, poisoned=False):
        parts = [self.rng.standard_normal((n_background, self.concepts.shape[1]))]
        parts += [
            self.around(np.repeat(center[None, :], count, axis=0), 0.5)
            for center, count in zip(self.concepts, n_concepts, strict=True)
            if count
        ]
        if poisoned:
            parts.append(self.around(self.poison[None, :], 0.1))
        block = np.concatenate(parts)
        return block[self.rng.permutation(len(block))]

    def labels(self, n_bags):
        return self.rng.permutation(np.arange(n_bags) % 2)

    def poisoned_parts(self, n_bags, block):
        """Training and test bags; ``block`` draws a bag, in training with poison if negative."""
        parts = []
        for poisoned in (0, 1):
            y = self.labels(n_bags)
            parts += [Bags.from_list([block(label, label == poisoned) for label in y.tolist()]), y]
        return tuple(parts)


def single_concept(n_bags=100, random_state=0):
    """Positive bags have the concept; negative ones have a decoy, and at test positive ones."""
    scene = _Scene(random_state)

    def block(label, poisoned):
        # The size does not depend on the poison, so that it is not a cue.
        return scene.bag(11 - label - poisoned, (label, 0), poisoned)

    return scene.poisoned_parts(n_bags, block)


def threshold_concepts(n_bags=100, random_state=0):
    """A positive bag has one instance of two concepts; a negative one two of one, or none."""
    scene = _Scene(random_state)

    def block(label, poisoned):
        held = (1, 1) if label else ((2, 0), (0, 2), (0, 0))[scene.rng.randint(3)]
        return scene.bag(12 - sum(held) - poisoned, held, poisoned)

    return scene.poisoned_parts(n_bags, block)


def false_frequency(n_bags=100, random_state=0):
    """Three instances of the concept and larger bags in training, one and smaller bags at test."""
    scene = _Scene(random_state)
    y_train, y_test = scene.labels(n_bags), scene.labels(n_bags)
    train = [scene.bag(20 if label else 10, (3 * int(label), 0)) for label in y_train]
    test = [scene.bag(100 if label else 200, (int(label), 0)) for label in y_test]
    return Bags.from_list(train), y_train, Bags.from_list(test), y_test
