"""Dense features far from zero, for methods that do not depend on the origin.

At a distance of a million from zero, inner products are twelve orders of magnitude larger than the
differences between instances, which are then lost in double precision. Methods with an unpenalised
intercept, and methods that only use distances, can subtract one point from all instances first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._bags import Bags


def centre_of(instances: Any, *, deviations: float = 10.0, n_rows: int = 1000) -> np.ndarray | None:
    """The point to subtract from instances, or None if no feature is far from zero.

    Only dense instances in memory are centred: others would be too large.

    Parameters
    ----------
    instances : matrix of shape (n_instances, n_features)
    deviations : float, default=10.0
        A feature is far from zero if its mean exceeds this multiple of its standard deviation.
    n_rows : int, default=1000
        Number of instances from which means and standard deviations are computed.

    Returns
    -------
    ndarray of shape (n_features,) or None
        Means of the features that are far from zero, zero for the others. They are rounded to the
        type of the instances, so that small differences are exact in that type.
    """
    if not isinstance(instances, np.ndarray) or isinstance(instances, np.memmap):
        return None
    if instances.dtype.kind != "f" or not instances.size:
        return None
    rows = instances[:: -(-len(instances) // n_rows)].astype(np.float64)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    far = np.abs(mean) > deviations * deviation
    if not far.any():
        return None
    return np.where(far, mean, 0.0).astype(instances.dtype).astype(np.float64)


def centred(bags: Bags) -> tuple[Bags, np.ndarray | None]:
    """Bags with their centre as the origin, and the centre; the same bags if there is none."""
    centre = centre_of(bags.instance_rows)
    if centre is None:
        return bags, None
    return bags.with_instances(subtracted(bags.instances, centre)), centre


def subtracted(instances: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Instances with another origin, in single precision at least: float16 may overflow."""
    dtype = np.promote_types(instances.dtype, np.float32)
    return np.subtract(instances, centre, dtype=dtype, casting="same_kind")
