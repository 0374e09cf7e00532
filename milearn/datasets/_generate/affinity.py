"""Artificial molecules: regression of a binding affinity, after Amar, Dooly, Goldman & Zhang."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ..._bags import Bags
from ..._bags.segments import offsets_of, segment_max
from ..._bags.stack import stack_features
from ..._fit.validation import check_bags
from .make import check_count, random_sizes, size_range

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
    r"""Random artificial molecules with their binding affinity, for regression.

    A bag is a molecule and an instance one of its shapes: distances :math:`d_k` to the receptor
    along ``n_features`` directions, of which ``n_relevant`` are relevant. The affinity of a shape
    is its energy relative to the best one,

    .. math::

        a(x) = \frac{\sum_k s_k \, v(d_k / \sigma_k)}{\sum_k s_k}, \qquad
        v(u) = 4 \, (u^{-6} - u^{-12}),

    with the Lennard-Jones potential :math:`-v`, where :math:`v` has its maximum 1 at
    :math:`u = 2^{1/6}`, scale factors :math:`s_k` and receptor distances :math:`\sigma_k`. The
    value of a molecule is the affinity of its best shape, in [0, 1].

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
