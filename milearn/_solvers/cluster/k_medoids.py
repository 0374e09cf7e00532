"""k-medoids on a matrix of distances, all starts side by side.

    min over medoids m_1..m_k of sum_i min_p D[i, m_p]

Assign every item to its nearest medoid, make the item with the smallest sum of distances to its
cluster the new medoid, repeat. Both steps are operations on whole matrices, in which the starts
stand beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.rounding import RELATIVE_TIE

__all__ = ["MedoidsResult", "k_medoids", "spread_medoids"]


@dataclass
class MedoidsResult:
    """The best of the starts.

    Attributes
    ----------
    medoids : ndarray of shape (k,)
    labels : ndarray of shape (n,)
    objective : float
    history : list of float
        The objective after each assignment.
    n_iter : int
    stopped : {"", "max_iter"}
        What ended the run; empty where the medoids stayed the same.
    """

    medoids: np.ndarray
    labels: np.ndarray
    objective: float
    history: list[float]
    n_iter: int
    stopped: str

    @property
    def converged(self) -> bool:
        """Whether the run ended by itself."""
        return not self.stopped


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
        That of the first start with the lowest objective; what differs by rounding alone is equal.
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
        found, totals = _assign(distances, now)
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
        # The last medoids have not been assigned to yet.
        labels[running], objectives[running] = _assign(distances, medoids[running])
    best = int(np.argmax(objectives <= objectives.min() * (1.0 + RELATIVE_TIE)))
    return MedoidsResult(
        medoids=medoids[best],
        labels=labels[best],
        objective=float(objectives[best]),
        history=histories[best],
        n_iter=int(iterations[best]),
        stopped="max_iter" if best in running else "",
    )


def _assign(distances: np.ndarray, medoids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nearest medoid of each item and the sum of distances to it, one row per start."""
    runs = np.arange(len(medoids))[:, None]
    near = distances[medoids]
    labels = near.argmin(axis=1)
    # Of two medoids at distance zero each keeps itself, so that no cluster is empty.
    labels[runs, medoids] = np.arange(medoids.shape[1])
    return labels, np.take_along_axis(near, labels[:, None, :], axis=1)[:, 0].sum(axis=1)


def _medoids(distances: np.ndarray, labels: np.ndarray, old: np.ndarray) -> np.ndarray:
    """The most central item of each cluster; the old medoid where it is as central as any."""
    n_runs, k = old.shape
    members = labels[:, None, :] == np.arange(k)[:, None]
    sums = members.reshape(n_runs * k, -1).astype(np.float64) @ distances
    sums = np.where(members, sums.reshape(members.shape), np.inf)
    new = sums.argmin(axis=2)
    best = np.take_along_axis(sums, new[:, :, None], axis=2)[:, :, 0]
    kept = np.take_along_axis(sums, old[:, :, None], axis=2)[:, :, 0]
    # Within rounding nothing is gained: without this two equal medoids could change for ever.
    return np.where(best < kept * (1 - 1e-12), new, old)


def spread_medoids(distances: np.ndarray, k: int, rng: np.random.RandomState) -> np.ndarray:
    """First medoids of k-means++: far from each other, by chance.

    One item after another is drawn with a probability in proportion to the square of its distance
    from those drawn before.
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
