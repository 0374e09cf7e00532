"""Highest instances of bags, selected independently of the order of the instances.

Instances tie exactly if a weight vector vanishes on all their differences, for example at w = 0.
Any of them linearises the maximum, so ties are broken by a second score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._bags.blocks import Block
from ..._bags.segments import gather_rows, segment_argmax, segment_max, segment_sum
from .cccp import RELATIVE_TIE


class HighestInstances:
    """The highest instance of each of some bags, with a second score to break ties.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
    bags : ndarray of int
        Positions of these bags.
    second_scores : callable
        ``second_scores(rows)`` returns a score of each of the given instances. It is called only
        for instances that tie, and once for each of them.
    tie : float, default=RELATIVE_TIE
        Difference up to which scores tie, as a fraction of the largest absolute score or of 1.
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

        If the function is ``constant`` up to the precision of its solver, all instances tie.
        """
        if len(self.bags) == 0:
            return np.zeros(0, dtype=np.intp)
        tied, several = self._tied(scores, constant)
        ranking = np.where(tied, 0.0, -np.inf)
        asked = np.flatnonzero(tied & several)
        ranking[asked] = self._second(asked)
        rows: np.ndarray = self.rows[segment_argmax(ranking, self.offsets)]
        return rows

    def has_ties(self, scores: np.ndarray) -> bool:
        """Whether several instances of a bag are equally high."""
        return len(self.bags) > 0 and bool(self._tied(scores, constant=False)[1].any())

    def _tied(self, scores: np.ndarray, constant: bool) -> tuple[np.ndarray, np.ndarray]:
        """Whether instances tie with the highest of their bag, and whether there are several."""
        own, sizes = scores[self.rows], np.diff(self.offsets)
        near = np.inf if constant else self.tie * max(1.0, float(np.abs(own).max()))
        tied = own >= np.repeat(segment_max(own, self.offsets) - near, sizes)
        counts = segment_sum(tied.astype(np.intp), self.offsets)
        return tied, np.repeat(counts > 1, sizes)

    def _second(self, asked: np.ndarray) -> np.ndarray:
        unknown = asked[np.isnan(self._known[asked])]
        if len(unknown):
            self._known[unknown] = self.second_scores(self.rows[unknown])
        known: np.ndarray = self._known[asked]
        return known


@dataclass(frozen=True)
class TieRule:
    """How a pass breaks ties: by a second weight vector; all instances tie if ``constant``."""

    second: np.ndarray | None = None
    constant: bool = False

    def highest(
        self, block: Block, scores: np.ndarray, bags: np.ndarray
    ) -> tuple[np.ndarray, bool]:
        """Rows of the highest instances of bags of a block, and whether ties were left open."""
        rule = HighestInstances(block.offsets, bags, lambda rows: block.take(rows) @ self.second)
        if self.second is None:
            return segment_argmax(scores, block.offsets)[bags], rule.has_ties(scores)
        return rule.of(scores, constant=self.constant), False


def is_constant(value: float, at_zero: float, rounding: float = 1e-12) -> bool:
    """Whether the solution of a convex step is a constant function, as far as its value tells.

    A solution w other than 0 has a value below that of w = 0, however small the difference.
    """
    return value >= (1.0 - rounding) * at_zero


def mean_difference(offsets: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of the instances in the difference of the means of both classes.

    The weighted mean of the means of positive bags, minus that of negative bags. Bags of sign zero
    are ignored.

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
    # The mean of a class without weight is not defined.
    np.divide(signs * weights, total * sizes, out=coefs, where=total > 0)
    return np.repeat(coefs, sizes)
