"""k-medoids on a matrix of distances, vectorised over all starts.

    min over medoids m_1..m_k of sum_i min_p D[i, m_p]

Assign every item to its nearest medoid, make the item with the smallest sum of distances to its
cluster the new medoid, repeat. Both steps are matrix operations over all starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.cccp import RELATIVE_TIE


@dataclass
class MedoidsResult:
    """The best of the starts."""

    # Of shape (k,).
    medoids: np.ndarray
    # Of shape (n,).
    labels: np.ndarray
    objective: float
    # The objective after each assignment.
    history: list[float]
    n_iter: int
    # "max_iter", or empty if the medoids did not change.
    stopped: str


def k_medoids(distances: np.ndarray, starts: np.ndarray, *, max_iter: int) -> MedoidsResult:
    """Alternate assignments and medoids until convergence, from each start.

    Parameters
    ----------
    distances : ndarray of shape (n, n)
    starts : ndarray of shape (n_starts, k)
        First medoids, distinct within each start.
    max_iter : int
        Maximum number of assignments per start.

    Returns
    -------
    MedoidsResult
        The result of the first start with the lowest objective, up to rounding.
    """
    medoids = starts.copy()
    n_starts = len(starts)
    running = np.arange(n_starts)
    labels = np.empty((n_starts, len(distances)), dtype=np.intp)
    objectives = np.full(n_starts, np.inf)
    histories: list[list[float]] = [[] for _ in range(n_starts)]
    iterations = np.zeros(n_starts, dtype=np.intp)
    for _ in range(max_iter):
        now = medoids[running]
        found, totals = nearest(distances[now], now)
        labels[running], objectives[running] = found, totals
        for run, total in zip(running, totals, strict=True):
            histories[run].append(float(total))
        iterations[running] += 1
        following = _medoids(distances, found, now)
        moved = (following != now).any(axis=1)
        medoids[running] = following
        running = running[moved]
        if len(running) == 0:
            break
    if len(running):
        # Items have not been assigned to the last medoids yet.
        now = medoids[running]
        labels[running], objectives[running] = nearest(distances[now], now)
    best = int(np.argmax(objectives <= objectives.min() * (1.0 + RELATIVE_TIE)))
    return MedoidsResult(
        medoids=medoids[best],
        labels=labels[best],
        objective=float(objectives[best]),
        history=histories[best],
        n_iter=int(iterations[best]),
        stopped="max_iter" if best in running else "",
    )


def nearest(near: np.ndarray, medoids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nearest medoid of each item and the sum of distances to it, one row per start.

    ``near`` has shape (n_starts, k, n).
    """
    runs = np.arange(len(medoids))[:, None]
    labels = near.argmin(axis=1)
    # Each medoid belongs to its own cluster, even if two medoids are equal, so no cluster is empty.
    labels[runs, medoids] = np.arange(medoids.shape[1])
    return labels, np.take_along_axis(near, labels[:, None, :], axis=1)[:, 0].sum(axis=1)


def _medoids(distances: np.ndarray, labels: np.ndarray, old: np.ndarray) -> np.ndarray:
    """The most central item of each cluster; ties are broken in favour of the old medoid."""
    n_runs, k = old.shape
    members = labels[:, None, :] == np.arange(k)[:, None]
    sums = members.reshape(n_runs * k, -1).astype(np.float64) @ distances
    sums = np.where(members, sums.reshape(members.shape), np.inf)
    new = sums.argmin(axis=2)
    best = np.take_along_axis(sums, new[:, :, None], axis=2)[:, :, 0]
    kept = np.take_along_axis(sums, old[:, :, None], axis=2)[:, :, 0]
    # Gains within rounding do not count. Otherwise two equal medoids could alternate for ever.
    return np.where(best < kept * (1 - 1e-12), new, old)


def spread_medoids(distances: np.ndarray, k: int, rng: np.random.RandomState) -> np.ndarray:
    """Initial medoids of k-means++.

    Items are drawn one after another, with probabilities proportional to the squared distance from
    the nearest item drawn so far.
    """
    n = len(distances)
    chosen = [int(rng.randint(n))]
    nearest = distances[chosen[0]].copy()
    for _ in range(k - 1):
        weights = nearest * nearest
        weights[chosen] = 0.0
        if weights.sum() == 0:
            weights = np.ones(n)
            weights[chosen] = 0.0
        chosen.append(int(rng.choice(n, p=weights / weights.sum())))
        nearest = np.minimum(nearest, distances[chosen[-1]])
    return np.array(chosen)
