"""Generated bags for classification."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import check_random_state

from ..._bags import Bags
from ..._bags.segments import offsets_of


def make_bags(
    n_bags: int = 100,
    n_features: int = 10,
    *,
    bag_size: int | tuple[int, int] | float = (5, 15),
    n_concepts: int = 1,
    concept_rule: str = "any",
    concept_centers: Any = None,
    concept_distance: float = 5.0,
    concept_scale: float = 1.0,
    witness_rate: float = 0.2,
    n_distractors: int = 0,
    distractor_rate: float = 0.2,
    poison_rate: float = 0.0,
    positive_fraction: float = 0.5,
    flip_y: float = 0.0,
    sparse: bool = False,
    density: float = 0.05,
    random_state: Any = None,
    return_instance_labels: bool = False,
) -> Any:
    """Random bags for classification, with known witnesses.

    Background instances are standard normal. Clusters are ``concept_distance`` away from the
    origin, each in its own direction: concepts, whose instances (the witnesses) make a bag
    positive; distractors, which occur in bags of both classes; and poison, which occurs in
    negative bags only, so that a model may learn its absence instead of the concept.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags.
    n_features : int, default=10
        Number of features.
    bag_size : int, (int, int) or float, default=(5, 15)
        Number of instances in a bag: a fixed number, a range from which it is drawn uniformly (both
        ends included), or for a float the mean of one plus a Poisson number.
    n_concepts : int, default=1
        Number of concepts.
    concept_rule : {"any", "all"}, default="any"
        Whether a positive bag has witnesses of one concept, or of all concepts. With "all",
        negative bags contain as many instances of concepts as positive ones but lack at least one
        concept.
    concept_centers : array-like of shape (n_concepts, n_features), default=None
        Centres of the concepts; by default, random directions.
    concept_distance : float, default=5.0
        Distance of all random clusters from the origin, in standard deviations of the background.
    concept_scale : float, default=1.0
        Standard deviation of a cluster around its centre. With ``sparse=True`` the background of an
        instance is scaled by it.
    witness_rate : float, default=0.2
        Expected fraction of witnesses in a positive bag, which has at least one (of each concept
        that it needs).
    n_distractors : int, default=0
        Number of distracting clusters.
    distractor_rate : float, default=0.2
        Probability that an instance that is not a witness comes from a distractor.
    poison_rate : float, default=0.0
        Probability that a negative bag contains an instance of the poison cluster.
    positive_fraction : float, default=0.5
        Fraction of positive bags; rounded to the nearest number of bags.
    flip_y : float, default=0.0
        Fraction of bags whose label is flipped afterwards.
    sparse : bool, default=False
        CSR instances: nonnegative, with a fraction ``density`` of nonzero features, as in texts.
    density : float, default=0.05
        Fraction of nonzero features of an instance if ``sparse``.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same bags in every call.
    return_instance_labels : bool, default=False
        Also return the instance labels.

    Returns
    -------
    X : Bags
        The bags.
    y : ndarray of shape (n_bags,), 0 or 1
        Their labels.
    instance_labels : ndarray of shape (n_instances,), 1 for witnesses
        Only with ``return_instance_labels=True``. With ``concept_rule="all"`` instances of a
        concept in negative bags are also 1, because the concept of an instance does not depend on
        its bag. They are not affected by label noise.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    See Also
    --------
    make_single_concept, make_threshold_concepts, make_false_frequency : Tests of the
        multiple-instance assumption.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> X, y, witnesses = make_bags(
    ...     n_bags=20, n_features=4, random_state=0, return_instance_labels=True
    ... )
    >>> X
    Bags(n_bags=20, n_instances=192, n_features=4, sizes=5..14, dtype=float64)
    >>> int(y.sum()), int(witnesses[y[X.bag_index] == 0].sum())
    (10, 0)
    """
    _check_parameters(locals())
    rng = check_random_state(random_state)
    y = random_labels(n_bags, positive_fraction, rng)
    needed = n_concepts if concept_rule == "all" else 1
    sizes = random_sizes(n_bags, bag_size, rng, at_least=needed)
    offsets = offsets_of(sizes)

    # Cluster of each instance: 0 the background, then concepts, distractors, poison.
    cluster = np.zeros(offsets[-1], dtype=np.intp)
    for bag, size in enumerate(sizes):
        block = np.zeros(size, dtype=np.intp)
        if n_distractors:
            hit = rng.random_sample(size) < distractor_rate
            block[hit] = 1 + n_concepts + rng.randint(n_distractors, size=hit.sum())
        places = rng.permutation(size)
        concepts = _concepts_of_bag(bool(y[bag]), int(size), n_concepts, needed, witness_rate, rng)
        block[places[: len(concepts)]] = concepts
        if not y[bag] and len(concepts) < size and rng.random_sample() < poison_rate:
            block[places[-1]] = 1 + n_concepts + n_distractors
        cluster[offsets[bag] : offsets[bag + 1]] = block

    shape = (1 + n_concepts + n_distractors + 1, n_features)
    centers = _centers(shape, concept_distance, density if sparse else None, rng)
    if concept_centers is not None:
        centers[1 : 1 + n_concepts] = concept_centers
    scale = np.where(cluster > 0, concept_scale, 1.0)
    if sparse:
        instances = csr_array(
            _sparse_noise(scale, n_features, density, rng) + csr_array(centers)[cluster]
        )
    else:
        noise = rng.standard_normal((len(cluster), n_features))
        instances = scale[:, None] * noise + centers[cluster]
    flipped = rng.permutation(n_bags)[: int(np.rint(flip_y * n_bags))]
    y[flipped] = 1 - y[flipped]
    X = Bags(instances, offsets)
    if return_instance_labels:
        return X, y, ((cluster >= 1) & (cluster <= n_concepts)).astype(np.int64)
    return X, y


def _check_parameters(given: dict[str, Any]) -> None:
    for name in ("n_bags", "n_features", "n_concepts"):
        check_count(name, given[name], 1)
    check_count("n_distractors", given["n_distractors"], 0)
    rates = ("witness_rate", "distractor_rate", "poison_rate", "positive_fraction", "flip_y")
    for name in rates:
        check_fraction(name, given[name])
    if not 0 < given["density"] <= 1:
        raise ValueError(f"density={given['density']!r} is out of range; it must lie in (0, 1].")
    if given["concept_rule"] not in ("any", "all"):
        raise ValueError(
            f"concept_rule={given['concept_rule']!r} is unknown; choose 'any' or 'all'."
        )
    if given["concept_rule"] == "all" and given["n_concepts"] < 2:
        raise ValueError(
            "concept_rule='all' asks for several concepts; raise n_concepts, or choose 'any'."
        )
    centers = given["concept_centers"]
    if centers is not None:
        shape = np.shape(centers)
        if shape != (given["n_concepts"], given["n_features"]):
            raise ValueError(
                f"concept_centers has shape {shape}; it must be (n_concepts, n_features) = "
                f"({given['n_concepts']}, {given['n_features']})."
            )


def _concepts_of_bag(
    positive: bool,
    size: int,
    n_concepts: int,
    needed: int,
    witness_rate: float,
    rng: np.random.RandomState,
) -> np.ndarray:
    """The concepts (1, 2, ...) of the witnesses of a bag."""
    if not positive and needed == 1:
        return np.zeros(0, dtype=np.intp)
    count = max(needed, rng.binomial(size, witness_rate))
    if needed == 1:
        return 1 + rng.randint(n_concepts, size=count)
    if positive:
        return np.concatenate(
            [1 + rng.permutation(n_concepts), 1 + rng.randint(n_concepts, size=count - needed)]
        )
    # As many instances as in a positive bag, so that the number is not informative.
    present = rng.permutation(n_concepts)[: rng.randint(1, n_concepts)]
    return 1 + rng.choice(present, size=count)


def _centers(
    shape: tuple[int, int], distance: float, density: float | None, rng: np.random.RandomState
) -> np.ndarray:
    """The background at the origin, and the centres of the other clusters at random."""
    centers = np.zeros(shape)
    if density is None:
        drawn = rng.standard_normal(shape)
        centers[1:] = (distance * drawn / np.linalg.norm(drawn, axis=1, keepdims=True))[1:]
        return centers
    used = max(1, int(np.rint(density * shape[1])))
    for row in centers[1:]:
        row[rng.permutation(shape[1])[:used]] = distance / np.sqrt(used)
    return centers


def _sparse_noise(
    scale: np.ndarray, n_features: int, density: float, rng: np.random.RandomState
) -> csr_array:
    size = 1 + rng.binomial(n_features - 1, density, size=len(scale))
    rows = np.repeat(np.arange(len(scale)), size)
    columns = rng.randint(n_features, size=len(rows))
    values = np.abs(rng.standard_normal(len(rows))) * scale[rows]
    # Values of a column that is drawn twice for an instance are added, as word counts.
    return csr_array((values, (rows, columns)), shape=(len(scale), n_features))


# -- checks, sizes and labels of every generator ---------------------------------------------------


def check_count(name: str, value: Any, minimum: int) -> None:
    if not isinstance(value, Integral) or value < minimum:
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
