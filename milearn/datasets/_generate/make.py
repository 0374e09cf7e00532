"""Generated bags: of clusters, of digits, in the plane, and of artificial molecules."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state

from ..._bags import Bags
from ..._bags.canonical import stack_features
from ..._bags.segments import offsets_of, segment_max
from ..._fit.validation import check_bags


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


def plane_side(points: Any, *, margin: float = 0.1) -> np.ndarray:
    """Find the region of points of the unit square: above the curve, below it, or its margin.

    The curve is :math:`x_2 = 0.5 + 0.25 \\sin 2 \\pi x_1`.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

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

    See Also
    --------
    make_ambiguous_plane : Generate bags of such points.

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
    """Generate bags of points in the plane; one point of a positive bag is positive.

    Instances are uniform over two regions of the unit square, separated by a curved margin (see
    :func:`plane_side`). An ambiguous bag is positive: one instance is in the positive region and
    the others in the negative one. Its size is a Poisson number, drawn again until it is at least
    2. The bags of one instance are drawn from both regions.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

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

    See Also
    --------
    plane_side : Find the region of a point.

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
    add_irrelevant_features : Add features without information.

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
        check_count(name, value, 1)
    if not isinstance(n_features, numbers.Integral) or n_features < n_relevant:
        raise ValueError(
            f"n_features={n_features!r} is out of range; it must be an integer and at least "
            f"n_relevant={n_relevant}."
        )
    bounds = size_range(bag_size)
    rng = check_random_state(random_state)
    offsets = offsets_of(random_sizes(n_bags, bounds, rng))
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


def add_irrelevant_features(X: Any, n_features: int, *, random_state: Any = None) -> Bags:
    """Add features without information to bags.

    Each new column contains values of an existing column, drawn at random with replacement. It has
    the same distribution as a feature of these data but is independent of bags and labels.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    X : bags, see :class:`milearn.Bags`
        The bags to extend.
    n_features : int
        Number of features to append.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same features in every call.

    Returns
    -------
    Bags
        If there are feature names, the new ones are "irrelevant0", "irrelevant1", ...

    See Also
    --------
    make_affinity : Generate molecules.

    Examples
    --------
    >>> from milearn.datasets import add_irrelevant_features, make_affinity
    >>> X, y = make_affinity(n_bags=20, random_state=0)
    >>> add_irrelevant_features(X, 20, random_state=0).shape
    (20, 50)
    """
    check_count("n_features", n_features, 0)
    bags = check_bags(X)
    rng = check_random_state(random_state)
    n, width = bags.instances.shape
    columns = rng.randint(width, size=n_features)
    fresh = np.empty((n, n_features), dtype=bags.dtype)
    for position, column in enumerate(columns):
        values = bags.instances[:, [column]]
        values = values.toarray() if sparse.issparse(values) else values
        fresh[:, position] = values[rng.randint(n, size=n), 0]
    names: Any = bags.feature_names
    if names is not None:
        names = [*names, *(f"irrelevant{i}" for i in range(n_features))]
    return bags.with_instances(stack_features([bags.instances, fresh]), feature_names=names)


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


class _Scene:
    """Clusters on separate axes in a standard normal background.

    They make data sets that test whether a model respects the multiple-instance assumption.
    Training and test bags have labels that follow the same rule. An additional cue agrees with the
    labels in training and contradicts them at test. It has no effect on models that only use
    witnesses; other models have a low AUC at test. The three tasks are those of Raff & Holt (2023);
    distributions and numbers are our own.
    """

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
    """Generate bags of one concept and a decoy that changes its class in the test data.

    A bag is positive if it contains an instance of the concept. In training every negative bag also
    contains one of the poison; at test every positive bag does. A model that has learned "no
    poison, hence positive" has an AUC below 1/2 at test. The largest instance score of a model of
    the concept does not depend on the poison.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

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

    See Also
    --------
    make_threshold_concepts, make_false_frequency : Other tests of the multiple-instance assumption.

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
    """Generate bags of two concepts; a positive bag contains both.

    A positive bag contains one instance of each concept. A negative bag contains two instances of
    one concept or none, so that neither a single concept nor the number of instances of concepts is
    sufficient. A model whose bag score is the maximum over instances cannot solve this task; a
    model that combines maxima of several instance scores can.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

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

    See Also
    --------
    make_single_concept, make_false_frequency : Other tests of the multiple-instance assumption.

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
    """Generate bags of one concept whose sizes mislead a model that counts instances.

    A bag is positive if it contains an instance of the concept. In training positive bags contain
    three of them, and twice the background of negative bags. At test they contain one, and half the
    background of negative bags, which is ``dilution`` times as large. A model that uses the number
    of instances, or the fraction of the concept in a bag, fails at test.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

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

    See Also
    --------
    make_single_concept, make_threshold_concepts : Other tests of the multiple-instance assumption.

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
