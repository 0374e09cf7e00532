"""Naive counterparts of what the solvers of the ensembles do."""

from __future__ import annotations

import numpy as np


def all_columns(X):
    """Every stump on the rows of X as a column of -1 and 1, and the constants."""
    columns = [np.ones(len(X)), -np.ones(len(X))]
    for values in X.T:
        for cut in np.unique(values)[1:]:
            columns += [np.where(values >= cut, 1.0, -1.0), np.where(values >= cut, -1.0, 1.0)]
    return np.array(columns)
