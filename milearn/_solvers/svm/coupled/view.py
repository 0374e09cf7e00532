"""Views of coupled bags by passes over all instances, and the linearisation of the maximum.

The instances near the top of their bags belong to the working set, and all of a small problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.blocks import Block, stacked
from ...._bags.segments import (
    pooling_matrix,
    segment_index,
    segment_max,
    segment_rank,
)
from ...common.passes import TieRule
from .cccp import top_subgradient

Matrix = Any  # an ndarray or a CSR matrix

# Witness of a bag that is linearised by a mean of its instances.
MEAN = -1


@dataclass(frozen=True)
class CoupledLimits:
    """Which instances belong to a working set, and the maximum number of passes."""

    # Numbers in all instances up to which all instances belong to it.
    everything: int = 2**20
    # Distance from the limit of its bag within which an instance does, in units of the margin.
    band: float = 0.3
    # Maximum number of numbers that a pass adds, unless that is less than so many rows of each bag.
    numbers: int = 2**21
    per_bag: int = 2
    max_passes: int = 500
    # Instances above which the first steps of a hard maximum are solved roughly. Below, they are
    # exact, so that a start ends in the same minimum as in the dual.
    exact_instances: int = 2_000


@dataclass(frozen=True)
class Place:
    """Where a pass looks: w, the scales of instances, their number, and the limits."""

    w: np.ndarray
    scales: np.ndarray | None
    n_instances: int
    limits: CoupledLimits

    def is_small(self, block: Block) -> bool:
        """Whether all instances belong to the working set, and are worth all digits."""
        return self.n_instances * block.width <= self.limits.everything

    def scores(self, block: Block) -> np.ndarray:
        """Scores of the instances of a block."""
        scores = block.scores(self.w, precise=self.is_small(block))
        return scores if self.scales is None else scores * self.scales[block.rows]

    def taken(self, block: Block, rows: np.ndarray) -> Matrix:
        """Some instances of a block, scaled."""
        found = block.take(rows)
        return found if self.scales is None else scaled_rows(found, self.scales[block.rows][rows])


@dataclass(frozen=True)
class Linearisation:
    """One instance of each bag, or a mean of them: row numbers, and scaled vectors."""

    rows: np.ndarray
    vectors: Matrix


@dataclass(frozen=True)
class BlockView:
    """Result of a pass over a block."""

    # Highest score of each bag, the linearisation of the maximum, and whether it left ties open.
    top: np.ndarray
    held: Linearisation
    tied: bool
    # The working set: row numbers, scaled instances, and their bags.
    numbers: np.ndarray
    rows: Matrix
    owners: np.ndarray


def together(parts: list[Linearisation]) -> Linearisation:
    """The linearisation of all blocks."""
    rows = np.concatenate([part.rows for part in parts])
    return Linearisation(rows, stacked([part.vectors for part in parts]))


def tops_of_block(block: Block, place: Place, rule: TieRule | None) -> Linearisation:
    """The highest instances of a block; the rule is that of a hard maximum."""
    weights, _ = _linearised(block, place.scores(block), rule)
    rows = np.flatnonzero(weights)
    return _mixtures(block, weights[rows], rows, place.taken(block, rows))


def view_of_block(
    block: Block, place: Place, rule: TieRule | None, bounds: np.ndarray
) -> BlockView:
    """A pass over a block; instances below ``bounds`` of their bags cost nothing."""
    scores, sizes, limits = place.scores(block), np.diff(block.offsets), place.limits
    numbers = place.n_instances * block.width
    top = segment_max(scores, block.offsets)
    if place.is_small(block):
        near = np.ones(len(scores), dtype=bool)
    else:
        near = scores > np.repeat(np.maximum(top, bounds[block.bags]) - limits.band, sizes)
    most = max(limits.per_bag * len(top), int(limits.numbers / numbers * len(scores)))
    if int(near.sum()) > most:
        # If scores hardly differ, the highest rows of each bag are enough.
        near &= segment_rank(scores, block.offsets) < most // len(top)
    weights, tied = _linearised(block, scores, rule)
    near[weights > 0] = True
    rows = np.flatnonzero(near)
    found = place.taken(block, rows)
    return BlockView(
        top=top,
        held=_mixtures(block, weights[rows], rows, found),
        tied=tied,
        numbers=rows + block.first_row,
        rows=found,
        owners=segment_index(block.offsets)[rows] + block.first_bag,
    )


def _linearised(block: Block, scores: np.ndarray, rule: TieRule | None) -> tuple[np.ndarray, bool]:
    """Weights of the instances in the linearisation of the maximum, and whether ties are left."""
    if rule is None:
        return top_subgradient(scores, block.offsets), False
    weights = np.zeros(len(scores))
    rows, tied = rule.highest(block, scores, np.arange(len(block.offsets) - 1))
    weights[rows] = 1.0
    return weights, tied


def _mixtures(
    block: Block, weights: np.ndarray, rows: np.ndarray, vectors: Matrix
) -> Linearisation:
    """The sum of some rows of each bag with these weights, and its number if it is one row."""
    used = np.flatnonzero(weights)
    starts = np.searchsorted(rows[used], block.offsets)
    numbers = rows[used][starts[:-1]] + block.first_row
    if len(used) == len(numbers):
        return Linearisation(numbers, vectors[used])
    numbers[np.diff(starts) > 1] = MEAN
    return Linearisation(numbers, pooling_matrix(starts, weights[used]) @ vectors[used])


# -- bags as rows ----------------------------------------------------------------------------------


def scaled_rows(rows: Matrix, scale: np.ndarray) -> Matrix:
    """Rows times a scale of each."""
    if sparse.issparse(rows):
        return (sparse.diags_array(scale) @ rows).tocsr()
    return rows * scale[:, None]


def _inverse_norms(rows: Matrix) -> np.ndarray:
    """One over the norm of each row; zero for a row of zeros."""
    if sparse.issparse(rows):
        squares = np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    else:
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    inverse = np.zeros(len(squares))
    np.divide(1.0, np.sqrt(squares), out=inverse, where=squares > 0)
    return inverse


def scaled_bags(block: Block, bag_kernel: str) -> tuple[Matrix, np.ndarray]:
    """The scaled sums of the instances of each bag, and the scales of instances."""
    sizes = np.diff(block.offsets)
    sums = pooling_matrix(block.offsets, 1.0) @ block.instances
    if bag_kernel == "mean_set":
        return scaled_rows(sums, 1.0 / sizes), np.zeros(0)
    if bag_kernel == "set":
        return sums, np.zeros(0)
    return scaled_rows(sums, _inverse_norms(sums)), _inverse_norms(block.instances)


def bag_means(block: Block, scales: np.ndarray | None) -> Matrix:
    """The means of the scaled instances of each bag."""
    weights = np.repeat(1.0 / np.diff(block.offsets), np.diff(block.offsets))
    if scales is not None:
        weights = weights * scales[block.rows]
    return pooling_matrix(block.offsets, weights) @ block.instances
