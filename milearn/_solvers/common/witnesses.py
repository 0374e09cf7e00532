"""Highest instances of bags, selected independently of the order of the instances.

Instances tie exactly where a weight vector vanishes on all that distinguishes them, as it does at
w = 0. Any of them linearises the maximum, so a second score decides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._bags.segments import gather_rows, segment_argmax, segment_max, segment_sum
from .rounding import RELATIVE_TIE

__all__ = ["Witnesses", "mean_difference"]


class Witnesses:
    """The highest instance of each of some bags; a second score decides between equal ones.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
    bags : ndarray of int
        The bags that are asked for.
    second_scores : callable
        ``second_scores(rows)`` returns a score of each of the given instances. It is called for
        instances that tie, once for each of them.
    tie : float, default=RELATIVE_TIE
        What scores that tie may differ by, as a share of the largest absolute one or of 1.
    """

    def __init__(
        self,
        offsets: np.ndarray,
        bags: np.ndarray,
        second_scores: Callable[[np.ndarray], np.ndarray],
        tie: float = RELATIVE_TIE,
    ) -> None:
        self.bags, self.second_scores, self.tie = bags, second_scores, tie
        self.rows, self.offsets = gather_rows(offsets, bags)
        self._known = np.full(len(self.rows), np.nan)

    def of(self, scores: np.ndarray, *, constant: bool = False) -> np.ndarray:
        """Row of the highest instance of each bag, from the scores of all instances.

        Where the function is ``constant`` up to the precision of its solver, all instances tie.
        """
        if len(self.bags) == 0:
            return np.zeros(0, dtype=np.intp)
        own, sizes = scores[self.rows], np.diff(self.offsets)
        near = np.inf if constant else self.tie * max(1.0, float(np.abs(own).max()))
        tied = own >= np.repeat(segment_max(own, self.offsets) - near, sizes)
        several = np.repeat(segment_sum(tied.astype(np.intp), self.offsets) > 1, sizes)
        ranking = np.where(tied, 0.0, -np.inf)
        asked = np.flatnonzero(tied & several)
        ranking[asked] = self._second(asked)
        rows: np.ndarray = self.rows[segment_argmax(ranking, self.offsets)]
        return rows

    def _second(self, asked: np.ndarray) -> np.ndarray:
        unknown = asked[np.isnan(self._known[asked])]
        if len(unknown):
            self._known[unknown] = self.second_scores(self.rows[unknown])
        known: np.ndarray = self._known[asked]
        return known


def mean_difference(offsets: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of the instances in the difference of the means of both classes.

    The weighted mean of the means of positive bags, less that of negative bags. Bags of sign zero
    take no part.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
    signs : ndarray of shape (n_bags,), 1.0, -1.0 or 0.0
    weights : ndarray of shape (n_bags,)

    Returns
    -------
    ndarray of shape (n_instances,)
    """
    total = np.where(signs > 0, weights[signs > 0].sum(), weights[signs < 0].sum())
    sizes = np.diff(offsets)
    coefs = np.zeros(len(sizes))
    # A class without weight has no mean.
    np.divide(signs * weights, total * sizes, out=coefs, where=total > 0)
    return np.repeat(coefs, sizes)
