"""Generated bags: of clusters, of digits, and of artificial molecules."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state, check_scalar

from ..._bags import Bags
from ..._bags.canonical import check_choice
from ..._bags.segments import offsets_of, segment_max


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
    """Generate random bags for classification, with known witnesses.

    Background instances are standard normal. Clusters are ``concept_distance`` away from the
    origin, each in its own direction: concepts, whose instances (the witnesses) make a bag
    positive; distractors, which occur in bags of both classes; and poison, which occurs in
    negative bags only, so that a model may learn its absence instead of the concept.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

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
    load_digit_bags : Load bags of handwritten digits.

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
    y = _random_labels(n_bags, positive_fraction, rng)
    needed = n_concepts if concept_rule == "all" else 1
    sizes = _random_sizes(n_bags, bag_size, rng, at_least=needed)
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
    for name, least in (("n_bags", 1), ("n_features", 1), ("n_concepts", 1), ("n_distractors", 0)):
        check_scalar(given[name], name, Integral, min_val=least)
    for name in ("witness_rate", "distractor_rate", "poison_rate", "positive_fraction", "flip_y"):
        check_scalar(given[name], name, Real, min_val=0, max_val=1)
    check_scalar(
        given["density"], "density", Real, min_val=0, max_val=1, include_boundaries="right"
    )
    rule, n_concepts = given["concept_rule"], given["n_concepts"]
    check_choice("concept_rule", rule, ("any", "all"))
    if rule == "all" and n_concepts < 2:
        raise ValueError(
            "concept_rule='all' asks for several concepts; raise n_concepts, or choose 'any'."
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


# -- sizes and labels of every generator ----------------------------------------------------------


def _random_sizes(
    n_bags: int, bag_size: Any, rng: np.random.RandomState, at_least: int = 1
) -> np.ndarray:
    if isinstance(bag_size, float):
        check_scalar(bag_size, "bag_size", float, min_val=1)
        return np.maximum(1 + rng.poisson(bag_size - 1, size=n_bags), at_least)
    low, high = bag_size if isinstance(bag_size, (tuple, list)) else (bag_size, bag_size)
    if not at_least <= low <= high:
        raise ValueError(
            f"bag_size={bag_size!r} is out of range; it must be a number >= {at_least}, so that "
            "there is room for the witnesses, or an increasing pair of such."
        )
    return rng.randint(low, high + 1, size=n_bags)


def _random_labels(n_bags: int, positive_fraction: float, rng: np.random.RandomState) -> np.ndarray:
    """Random labels 0 and 1; the number of ones is the fraction of bags, rounded."""
    labels = np.zeros(n_bags, dtype=np.int64)
    labels[rng.permutation(n_bags)[: int(np.rint(positive_fraction * n_bags))]] = 1
    return labels


# The Lennard-Jones potential has its minimum at this multiple of sigma.
_BEST = 2.0 ** (1.0 / 6.0)


def make_affinity(
    n_bags: int = 100,
    n_features: int = 30,
    *,
    n_relevant: int = 16,
    n_scales: int = 2,
    bag_size: int | tuple[int, int] = (3, 5),
    random_state: Any = None,
    return_instance_values: bool = False,
) -> Any:
    r"""Generate artificial molecules with their binding affinity, for regression.

    A bag is a molecule and an instance one of its shapes: distances :math:`d_k` to the receptor
    along ``n_features`` directions, of which ``n_relevant`` are relevant. The affinity of a shape
    is its energy relative to the best one,

    .. math::

        a(x) = \frac{\sum_k s_k \, v(d_k / \sigma_k)}{\sum_k s_k}, \qquad
        v(u) = 4 \, (u^{-6} - u^{-12}),

    with the Lennard-Jones potential :math:`-v`, where :math:`v` has its maximum 1 at
    :math:`u = 2^{1/6}`, scale factors :math:`s_k` and receptor distances :math:`\sigma_k`. The
    value of a molecule is the affinity of its best shape, in [0, 1].

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_bags : int, default=100
        Number of molecules.
    n_features : int, default=30
        Number of distances.
    n_relevant : int, default=16
        Number of relevant distances, which are the first ones.
    n_scales : int, default=2
        Number of different scale factors 1, 1/2, 1/3, ..., assigned cyclically.
    bag_size : int or (int, int), default=(3, 5)
        Number of shapes of a molecule: a fixed number, or a range from which it is drawn (ends
        included).
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same molecules in every call.
    return_instance_values : bool, default=False
        Also return the affinities of the shapes.

    Returns
    -------
    X : Bags
        The molecules.
    y : ndarray of shape (n_bags,)
        Their affinities.
    instance_values : ndarray of shape (n_instances,)
        Only with ``return_instance_values=True``.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    See Also
    --------
    make_bags : Generate random bags for classification.

    Notes
    -----
    The model follows [1]_ and [2]_ in outline: Lennard-Jones energies, scale factors, and the best
    shape. Not all of their constants are published, so the published sets (LJ-16.30.2 and
    others) are not reproduced.

    References
    ----------
    .. [1] R. Amar, D. Dooly, S. Goldman, Q. Zhang. Multiple-instance learning of real-valued data.
       ICML 2001.
    .. [2] D. Dooly, Q. Zhang, S. Goldman, R. Amar. Multiple-instance learning of real-valued data.
       JMLR 3, 2002.

    Examples
    --------
    >>> from milearn.datasets import make_affinity
    >>> X, y = make_affinity(n_bags=50, random_state=0)
    >>> X
    Bags(n_bags=50, n_instances=193, n_features=30, sizes=3..5, dtype=float64)
    >>> bool(0 <= y.min() < 0.4 and 0.7 < y.max() <= 1)
    True
    """
    for name, value in (("n_bags", n_bags), ("n_relevant", n_relevant), ("n_scales", n_scales)):
        check_scalar(value, name, Integral, min_val=1)
    check_scalar(n_features, "n_features", Integral, min_val=n_relevant)
    rng = check_random_state(random_state)
    offsets = offsets_of(_random_sizes(n_bags, bag_size, rng))
    # A shape with a low affinity has wrong distances in most directions: use a common factor.
    fit = rng.uniform(0.0, 1.0, size=(offsets[-1], 1))
    away = 1.2 * (1.0 - fit) * rng.uniform(0.2, 1.0, size=(offsets[-1], n_features))
    sigma = rng.uniform(5.0, 9.0, size=n_features)
    relative = _BEST + away
    factors = 1.0 / (1.0 + np.arange(n_relevant) % n_scales)
    energies = 4.0 * (relative[:, :n_relevant] ** -6 - relative[:, :n_relevant] ** -12)
    values = energies @ factors / factors.sum()
    distances = sigma * relative
    # The irrelevant distances are independent of the relevant ones.
    distances[:, n_relevant:] = sigma[n_relevant:] * (
        _BEST + rng.uniform(0.0, 1.2, size=(offsets[-1], n_features - n_relevant))
    )
    X, y = Bags(distances, offsets), segment_max(values, offsets)
    return (X, y, values) if return_instance_values else (X, y)


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
    """Load bags of handwritten digits; a bag is positive if it contains a given digit.

    The images are the 1797 scans of 8 x 8 pixels of :func:`sklearn.datasets.load_digits`.

    Read more in the :ref:`User Guide <guide_choose>`.

    .. versionadded:: 0.1.0

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

    See Also
    --------
    make_bags : Generate random bags.

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
    check_scalar(positive_fraction, "positive_fraction", Real, min_val=0, max_val=1)
    check_scalar(witness_rate, "witness_rate", Real, min_val=0, max_val=1)
    rng = check_random_state(random_state)
    source = load_digits()
    target = _random_labels(n_bags, positive_fraction, rng)
    sizes = _random_sizes(n_bags, bag_size, rng)
    offsets = offsets_of(sizes)
    shows = np.zeros(offsets[-1], dtype=bool)
    for bag in np.flatnonzero(target):
        shows[offsets[bag] : offsets[bag + 1]] = rng.random_sample(sizes[bag]) < witness_rate
        shows[offsets[bag] + rng.randint(sizes[bag])] = True
    index = np.empty(offsets[-1], dtype=np.intp)
    for wanted, images in ((shows, source.target == digit), (~shows, source.target != digit)):
        index[wanted] = rng.choice(np.flatnonzero(images), wanted.sum(), replace=replace)
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
