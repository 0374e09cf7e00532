"""Worlds in which both classes have changed instances, and one class has a larger share of them.

``shares`` are the slides of :mod:`.slides` with deciding instances in both classes. ``cells`` are
blood samples: 500 to 5,000 cells of ten types with 30 markers. In a changed cell five markers of
the first type are moved, and the markers of all cells of a donor are shifted. Types, directions
and markers are drawn by the seed.
"""

from __future__ import annotations

import numpy as np

from milearn import Bags

from .slides import TEST_BAGS, Cell, Part, Slides, instance_scores

NEGATIVE_SHARES, RATIOS, LARGEST = (0.005, 0.02, 0.05), (2, 3, 10), 0.2
SHAPE, SHARE_WITHOUT = (120, 300, 64), 0.03
SHARES = (
    Cell("shares", *SHAPE, SHARE_WITHOUT, 0.0),
    *(
        Cell("shares", *SHAPE, round(ratio * share, 4), share)
        for share in NEGATIVE_SHARES
        for ratio in RATIOS
        if round(ratio * share, 4) <= LARGEST
    ),
)

# Training donors, median of their cells, markers, and shares of changed cells.
CELLS = Cell("cells", 60, 2750, 30, 0.01, 0.001)
CELLS_NAME = f"cells-{CELLS.n_bags}"
CELL_SIZES, CELL_SPREAD = (500, 5000), 0.4
N_TYPES, TYPE_SCALE, TYPE_WEIGHT = 10, 1.5, 5.0
N_MOVED, MOVE, SHIFT = 5, 2.5, 0.3

WORLDS = (*(cell.name for cell in SHARES), CELLS_NAME)
# What a method would reach that knows the direction, or each changed instance.
ORACLES = {f"oracle-{name}": f"oracle: {name}" for name in ("maximum", "mean", "count", "share")}


def is_world(name: str) -> bool:
    """Whether a data set is one of these worlds, of any size."""
    return name == CELLS_NAME or name.startswith("shares-")


def draw_cells(seed: int) -> Slides:
    """Draw training donors, test donors and the centre of changed cells."""
    rng = np.random.RandomState(seed)
    markers = CELLS.n_features
    types = TYPE_SCALE * rng.standard_normal((N_TYPES, markers))
    noise = 0.5 * rng.standard_normal((markers, markers)) / np.sqrt(markers) + 0.7 * np.eye(markers)
    centre = types[0].copy()
    centre[rng.choice(markers, N_MOVED, replace=False)] += MOVE * rng.choice([-1, 1], N_MOVED)
    train, test = (_donors(n, types, noise, centre, rng) for n in (CELLS.n_bags, TEST_BAGS[0]))
    return Slides(CELLS, train, test, centre)


def _donors(
    n_donors: int,
    types: np.ndarray,
    noise: np.ndarray,
    centre: np.ndarray,
    rng: np.random.RandomState,
) -> Part:
    y = np.arange(n_donors) % 2
    low, high = CELL_SIZES
    blocks, changed = [], []
    for label in y:
        size = rng.randint(low, high + 1)
        proportions = rng.dirichlet(np.full(N_TYPES, TYPE_WEIGHT))
        cells = types[rng.choice(N_TYPES, size, p=proportions)]
        share = (CELLS.share if label else CELLS.negative) * rng.lognormal(0, CELL_SPREAD)
        changed.append(rng.random_sample(size) < share)
        cells[changed[-1]] = centre
        cells += rng.standard_normal(cells.shape) @ noise
        cells += SHIFT * rng.standard_normal(len(centre))
        blocks.append(cells.astype(np.float32))
    return Part(Bags.from_list(blocks), y, np.concatenate(changed), np.zeros(n_donors))


def oracle_of_shares(slides: Slides, oracle: str) -> np.ndarray:
    """Scores of the test bags: the count or the share of their changed instances.

    ``"oracle-maximum"`` and ``"oracle-mean"`` pool the scores of :func:`.slides.instance_scores`.
    """
    part, starts = slides.test, slides.test.bags.offsets[:-1]
    if oracle in ("oracle-count", "oracle-share"):
        values = part.deciding.astype(np.float64)
    else:
        values = instance_scores(slides, part)
    if oracle == "oracle-maximum":
        return np.maximum.reduceat(values, starts)
    sums = np.add.reduceat(values, starts)
    return sums if oracle == "oracle-count" else sums / np.diff(part.bags.offsets)
