"""Dense features far from zero, for methods that do not depend on the origin.

A million away from zero inner products have a dozen digits more than the differences between
instances, and double precision keeps none of these. Every method whose function has an intercept
without a penalty, or that only needs distances, may subtract one point from all instances first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["centre_of"]


def centre_of(instances: Any, *, deviations: float = 10.0, n_rows: int = 1000) -> np.ndarray | None:
    """The point to subtract from instances, or None where no feature is far from zero.

    Sparse and memory-mapped instances stay as they are: without zeros, or in memory, they would be
    too large.

    Parameters
    ----------
    instances : matrix of shape (n_instances, n_features)
    deviations : float, default=10.0
        A feature is far from zero if its mean exceeds so many times its standard deviation.
    n_rows : int, default=1000
        Number of instances that means and standard deviations are taken over.

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
