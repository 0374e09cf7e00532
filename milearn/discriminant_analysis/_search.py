"""The search for a direction, a share and an orientation that separate bags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._bags.blocks import PassSource
from .._solvers.common.screen import rank_correlations
from .._solvers.discriminant.superquantile import (
    AscentSettings,
    Discriminant,
    counts_of,
    discriminants,
    superquantiles,
)

# Shares that are compared; of those with equal counts in every bag only the first one is.
GRID = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# A score is pooled over these multiples of the share.
_POOLINGS = (1 / 3, 1.0, 3.0)


@dataclass(frozen=True)
class ShareModel:
    """A direction, and how the scores of its instances become the score of a bag.

    The score of a bag is ``sign`` times the superquantile of the ``pooling`` share.
    """

    direction: np.ndarray
    share: float
    pooling: float
    sign: int
    # Score of each training bag, as if it had been held out where there are inner folds.
    scores: np.ndarray
    # Shares that were compared, and the best rank correlation of each.
    compared: dict[float, float]
    n_passes: int


def distinct_shares(sizes: np.ndarray, shares: Any) -> list[float]:
    """Shares with different counts of instances, lowest first."""
    kept: dict[bytes, float] = {}
    for share in sorted(shares):
        kept.setdefault(counts_of(sizes, share).tobytes(), float(share))
    return list(kept.values())


def poolings_of(share: float) -> list[float]:
    """Shares over which the scores of a direction are averaged."""
    return [min(1.0, factor * share) for factor in _POOLINGS] if share > 0 else [0.0]


def fit_share(
    source: PassSource,
    targets: np.ndarray,
    weights: np.ndarray,
    shares: list[float],
    folds: list[tuple[np.ndarray, np.ndarray]],
    settings: AscentSettings,
) -> ShareModel:
    """The best model of bags with targets.

    Parameters
    ----------
    source : PassSource
    targets : ndarray of shape (n_bags,)
        What the scores should grow with. For two classes, -1 and 1.
    weights : ndarray of shape (n_bags,), above zero
    shares : list of float
    folds : list of (train, test)
        Without folds the share is chosen by the training scores.
    settings : AscentSettings
    """
    places = [(share, pooling) for share in shares for pooling in poolings_of(share)]
    read = sorted({pooling for _, pooling in places})
    held = {(sign, *place): np.zeros(len(targets)) for sign in (1, -1) for place in places}
    n_passes, whole = 0, {}
    rounds = folds if folds else [(np.arange(len(targets)), np.arange(len(targets)))]
    for train, test in rounds:
        own = np.zeros(len(targets))
        own[train] = weights[train]
        for sign in (1, -1):
            found, passes = discriminants(source, sign * targets, own, shares, settings)
            if not folds:
                whole[sign] = found
            directions = np.stack([each.direction for each in found])
            values = superquantiles(source, directions, read)
            n_passes += passes + 1
            for share, pooling in places:
                scores = values[read.index(pooling), :, shares.index(share)]
                held[sign, share, pooling][test] = sign * standardised(scores, own)[test]
    values = rank_correlations(np.stack([*held.values()]), centred(targets, weights), weights)
    # Ties go to fewer instances.
    order = sorted(
        zip(held, values.tolist(), strict=True), key=lambda each: (-round(each[1], 9), each[0][2])
    )
    (sign, share, pooling), _ = order[0]
    compared = {
        each: max(value for key, value in order if key[1] == each) for each in shares
    }
    if folds:
        found, passes = discriminants(source, sign * targets, weights, [share], settings)
        n_passes += passes
        chosen: Discriminant = found[0]
    else:
        chosen = whole[sign][shares.index(share)]
    return ShareModel(
        chosen.direction, share, pooling, sign, held[sign, share, pooling], compared, n_passes
    )


def centred(targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Targets less their weighted mean."""
    return np.asarray(targets - np.average(targets, weights=weights))


def standardised(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Scores in standard deviations from their mean, both over the bags with weights."""
    mean = np.average(scores, weights=weights)
    variance = np.average((scores - mean) ** 2, weights=weights)
    return np.asarray((scores - mean) / (np.sqrt(variance) or 1.0))
