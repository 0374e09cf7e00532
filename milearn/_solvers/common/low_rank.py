"""Landmarks of Nystroem's method, and features in their span."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from ..._bags.distinct import row_ranks
from .gram import Matrix

# Eigenvalues of the landmarks below this fraction of the largest one are rounding errors.
_NEGLIGIBLE_DIRECTION = 1e-10


def choose_landmarks(rows: Matrix, n_landmarks: int, rng: Any) -> np.ndarray:
    """Indices of rows sampled without replacement from the distinct rows, or all of these.

    The sample does not depend on the order of the rows or on their multiplicity.
    """
    _, first = np.unique(row_ranks(rows), return_index=True)
    if len(first) <= n_landmarks:
        return first
    return np.asarray(first[rng.permutation(len(first))[:n_landmarks]])


def whitening(
    matrix: np.ndarray, negligible: float = _NEGLIGIBLE_DIRECTION
) -> tuple[np.ndarray, float]:
    """Q with Q Q' the inverse of a kernel matrix on its positive part, so that k(x, L) Q are
    features of x, and the smallest eigenvalue as a fraction of the largest."""
    values, vectors = eigh(0.5 * (matrix + matrix.T))
    largest = float(np.abs(values).max())
    keep = values > negligible * largest
    if not keep.any():
        return np.zeros((len(matrix), 1)), 0.0
    return vectors[:, keep] / np.sqrt(values[keep]), float(values[0] / largest)
