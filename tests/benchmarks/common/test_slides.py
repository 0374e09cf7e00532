"""Generated slides: the recipe, the oracle, and the halves of the draws."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.common.slides import (
    GRID,
    GUIDE_SEEDS,
    KEPT_SEEDS,
    KINDS,
    MAX_VALUES,
    Cell,
    draw_slides,
    half_of_seed,
    oracle_scores,
)


def test_no_draw_is_in_both_halves():
    assert not set(GUIDE_SEEDS) & set(KEPT_SEEDS)
    assert {half_of_seed(seed) for seed in GUIDE_SEEDS} == {"guide"}
    assert {half_of_seed(seed) for seed in KEPT_SEEDS} == {"kept"}
    assert half_of_seed(7) == "other"


def test_every_cell_of_the_grid_is_feasible_and_has_a_name_of_its_own():
    assert len({cell.name for cell in GRID}) == len(GRID)
    assert {cell.kind for cell in GRID} == set(KINDS)
    for cell in GRID:
        assert cell.n_bags * cell.size * cell.n_features <= MAX_VALUES
        assert 100 <= cell.n_test <= 500
        assert cell.share * cell.size >= 0.3 or cell.kind == "mix"


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_decides_what_makes_a_bag_positive(kind):
    slides = draw_slides(Cell(kind, 60, 20, 24, 0.0 if kind == "mix" else 0.1), 0)
    part = slides.train
    has_witness = np.maximum.reduceat(part.deciding, part.bags.offsets[:-1])
    assert part.bags.dtype == np.float32
    if kind == "mix":
        assert not has_witness.any()
    else:
        np.testing.assert_array_equal(has_witness, part.y == 1)
        inside = part.bags.instances[part.deciding].mean(axis=0)
        assert np.linalg.norm(inside - slides.centre) < 0.5 * np.linalg.norm(slides.centre)
    if kind == "witness":
        assert not part.log_ratios.any()
    else:
        assert roc_auc_score(part.y, part.log_ratios) > 0.9


def test_half_of_the_positive_bags_have_more_deciding_instances_than_the_share():
    part = draw_slides(Cell("witness", 400, 200, 2, 0.05), 3).train
    counts = np.add.reduceat(part.deciding.astype(int), part.bags.offsets[:-1])
    proportions = (counts / part.bags.sizes)[part.y == 1]
    assert 0.035 < np.median(proportions) < 0.065
    assert 170 < np.median(part.bags.sizes) < 230


def test_a_draw_is_repeated_by_its_seed_alone():
    cell = Cell("both", 10, 8, 5, 0.1)
    first, again, other = (draw_slides(cell, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.test.bags.instances, again.test.bags.instances)
    assert not np.isin(other.train.bags.instances, first.train.bags.instances).any()


@pytest.mark.parametrize(("kind", "least"), [("witness", 0.9), ("mix", 0.95), ("both", 0.97)])
def test_the_oracle_knows_what_decides(kind, least):
    slides = draw_slides(Cell(kind, 60, 30, 128, 0.0 if kind == "mix" else 0.1), 0)
    assert roc_auc_score(slides.test.y, oracle_scores(slides)) > least
