"""The rule of ``n_components="auto"``: exact kernels for small data, otherwise landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

AUTO = "auto"


@dataclass(frozen=True)
class ComponentLimits:
    """Sizes up to which a kernel between instances is exact, and the landmarks beyond.

    At 6,600 instances, exact fits of MI-SVM take 1.4 times as long as those with landmarks (the
    geometric mean of five generated sets, .7 to 4.2 times), at the same AUC on new bags; at 15,000
    they take four times as long.

    Attributes
    ----------
    instances : int
        Instances of an exact kernel, whose matrix has one row and column for each.
    bags : int
        Bags of an exact fit, whose quadratic programs have a variable for each.
    landmarks : int
        Number of landmarks above either.
    pairs : float
        Pairs of an instance and an instance of a landmark, if landmarks are bags. There are fewer
        landmarks if they would have more pairs, but at least ``fewest``.
    entries : float
        Features of all instances, if they are in memory; otherwise infinite. There are fewer
        landmarks, but at least ``fewest``, if there would be more features.
    fewest : int
    """

    instances: int = 6_600
    bags: int = 2_000
    landmarks: int = 300
    pairs: float = np.inf
    entries: float = np.inf
    fewest: int = 30


# Of a kernel between bags; of a relaxation, whose time grows with the square of the landmarks; and
# where the features of all instances are in memory, in several copies.
BAG_LIMITS = ComponentLimits(instances=20_000, bags=1_000, pairs=1e9)
RELAXATION_LIMITS = ComponentLimits(bags=500, landmarks=100)
STORED_LIMITS = ComponentLimits(entries=2**25)


def auto_components(
    n_components: Any, n_bags: int, n_instances: int, limits: ComponentLimits | None = None
) -> int | None:
    """The number of landmarks of a fit; None for the exact kernel.

    Parameters
    ----------
    n_components : int, "auto" or None
        The parameter of an estimator. A number and None are returned as they are.
    n_bags, n_instances : int
        Sizes of the used bags.
    limits : ComponentLimits, default=None

    Returns
    -------
    int or None
    """
    if not isinstance(n_components, str):
        return None if n_components is None else int(n_components)
    limits = ComponentLimits() if limits is None else limits
    if n_instances <= limits.instances and n_bags <= limits.bags:
        return None
    affordable = min(limits.pairs * n_bags / n_instances, limits.entries) / n_instances
    return int(max(min(limits.fewest, limits.landmarks), min(limits.landmarks, affordable)))
