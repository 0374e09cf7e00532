"""Bags like slides of tissue: hundreds of frozen features, and a few instances that decide.

Twelve tissues have centres drawn from N(0, I). A bag has a lognormal number of instances,
proportions of the tissues drawn from a Dirichlet distribution, and a shift of all its instances
(staining). Each instance is the centre of its tissue, plus noise in 32 directions that all bags
have in common, plus noise in every feature. What makes a bag positive depends on the kind:

* ``witness``: some of its instances, a ``share`` of them on average and at least one, are at a
  centre of their own near one of the tissues. No other instance tells.
* ``mix``: three tissues are more frequent. No instance decides; the mean does.
* ``both``: both of these.
* ``shares``: both classes have such instances, and positive bags have more of them.
  The shift of the bag leaves them out.

The module was committed before any method was run on it. ``GUIDE_SEEDS`` are the draws by which
defaults may be chosen. Draws 100, 101 and 102 are run once, when nothing is open any more, and
nothing is changed because of what they show. Each seed draws its own tissues, directions and bags,
so the two halves have nothing in common but the recipe.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from milearn import Bags

GUIDE_SEEDS = (0, 1, 2)

KINDS = ("witness", "mix", "both", "shares")

_SHARE = r"(?:-([\d.]+)%)?"
_NAME = re.compile(rf"({'|'.join(KINDS)})-(\d+)x(\d+)x(\d+){_SHARE}{_SHARE}")

N_TISSUES = 12
# Near this tissue are the instances that decide.
NEAR = 4
# The Dirichlet weights of the first tissues in positive bags where the mix decides; others have 1.
FREQUENT, WEIGHT = 3, 4.0
N_DIRECTIONS = 32
COMMON_SCALE, NOISE, STAIN, DISTANCE = 2.0, 0.7, 0.5, 0.35
SIZE_SPREAD, SHARE_SPREAD, SPREAD_OF_SHARES = 0.5, 0.7, 0.5

# Values of the training bags, and of the test bags, that a cell may have: 400 MB in float32.
MAX_VALUES = 1e8
TEST_BAGS = (100, 500)
# Training bags of the grid; of the kinds without a share only those in the second list.
N_BAGS, FEW_N_BAGS = (50, 100, 200, 500, 1000), (50, 200, 1000)
SIZES = (
    *((30, n_features) for n_features in (32, 128, 512)),
    *((300, n_features) for n_features in (32, 128, 512, 1024)),
    *((3000, n_features) for n_features in (32, 128)),
)
SHARES, SHARE_OF_BOTH = (0.1, 0.02, 0.005, 0.001), 0.02


@dataclass(frozen=True)
class Cell:
    """One point of the grid.

    Attributes
    ----------
    kind : {"witness", "mix", "both", "shares"}
    n_bags : int
        Training bags; half of them are positive.
    size : int
        Median number of instances of a bag.
    n_features : int
    share : float
        Median share of deciding instances in a positive bag; 0 where the mix decides.
    negative : float
        The same for a negative bag; 0 but for ``shares``.
    """

    kind: str
    n_bags: int
    size: int
    n_features: int
    share: float
    negative: float = 0.0

    @property
    def name(self) -> str:
        """``witness-100x300x128-2%``: kind, bags, instances of each, features, share.

        For ``shares``, the share in negative bags follows.
        """
        shown = f"{self.kind}-{self.n_bags}x{self.size}x{self.n_features}"
        shares = {"mix": (), "shares": (self.share, self.negative)}.get(self.kind, (self.share,))
        return "-".join([shown, *(f"{100 * share:g}%" for share in shares)])

    @classmethod
    def named(cls, name: str) -> Cell:
        """The cell of a name.

        Raises
        ------
        ValueError
            For a name that is not that of a cell.
        """
        found = _NAME.fullmatch(name)
        if found is None:
            raise ValueError(
                f"{name!r} is not a cell: write {KINDS[0]}-100x300x128-2%, for example."
            )
        kind, n_bags, size, n_features, *shares = found.groups()
        share, negative = (float(each or 0) / 100 for each in shares)
        cell = cls(kind, int(n_bags), int(size), int(n_features), share, negative)
        if (cell.share > 0) != (kind != "mix"):
            raise ValueError(f"{name!r}: all kinds but mix have a share of deciding instances.")
        if (shares[1] is not None) != (kind == "shares"):
            raise ValueError(
                f"{name!r}: shares need a second share, of negative bags; others do not."
            )
        return cell

    @property
    def n_test(self) -> int:
        """Test bags: 500, or fewer where they are large, and at least 100."""
        low, high = TEST_BAGS
        return int(np.clip(MAX_VALUES // (self.size * self.n_features), low, high))


# Every kind on all sizes that are feasible and that differ from their neighbours. A positive bag
# has one deciding instance at least: a smaller share repeats this one.
GRID = tuple(
    Cell(kind, n_bags, size, n_features, share)
    for n_bags in N_BAGS
    for size, n_features in SIZES
    if n_bags * size * n_features <= MAX_VALUES
    for kind, share in (
        *(("witness", share) for share in SHARES if share * size >= 0.3),
        *((("mix", 0.0), ("both", SHARE_OF_BOTH)) if n_bags in FEW_N_BAGS else ()),
    )
)


@dataclass(frozen=True)
class Part:
    """Bags with labels, which instances decide, and how much the mix of tissues tells.

    Attributes
    ----------
    bags : Bags
        float32, as features of a network are stored.
    y : ndarray of shape (n_bags,), 0 or 1
    deciding : ndarray of bool, shape (n_instances,)
    log_ratios : ndarray of shape (n_bags,)
        Logarithm of the ratio of the densities of the drawn proportions in positive and negative
        bags, up to a constant.
    """

    bags: Bags
    y: np.ndarray
    deciding: np.ndarray
    log_ratios: np.ndarray


@dataclass(frozen=True)
class Slides:
    """Training bags, test bags, and the centre of the deciding instances."""

    cell: Cell
    train: Part
    test: Part
    centre: np.ndarray


def draw_slides(cell: Cell, seed: int) -> Slides:
    """Draw the bags of a cell."""
    rng = np.random.RandomState(seed)
    tissues = rng.standard_normal((N_TISSUES, cell.n_features))
    directions = rng.standard_normal((N_DIRECTIONS, cell.n_features))
    directions *= COMMON_SCALE / np.sqrt(N_DIRECTIONS)
    centre = tissues[NEAR] + DISTANCE * rng.standard_normal(cell.n_features)
    train, test = (
        _part(cell, n_bags, tissues, directions, centre, rng)
        for n_bags in (cell.n_bags, cell.n_test)
    )
    return Slides(cell, train, test, centre)


def _part(
    cell: Cell,
    n_bags: int,
    tissues: np.ndarray,
    directions: np.ndarray,
    centre: np.ndarray,
    rng: np.random.RandomState,
) -> Part:
    y = np.arange(n_bags) % 2
    spread = SPREAD_OF_SHARES if cell.kind == "shares" else SHARE_SPREAD
    even = np.ones(N_TISSUES)
    tilted = even.copy()
    if cell.kind in ("mix", "both"):
        tilted[:FREQUENT] = WEIGHT
    blocks, deciding, ratios = [], [], []
    for label in y:
        size = max(2, round(rng.lognormal(0, SIZE_SPREAD) * cell.size))
        proportions = rng.dirichlet(tilted if label else even)
        means = tissues[rng.choice(N_TISSUES, size, p=proportions)]
        chosen = np.zeros(size, dtype=bool)
        share = cell.share if label else cell.negative
        if share:
            count = max(label, round(rng.lognormal(0, spread) * share * size))
            chosen[rng.choice(size, min(size, count), replace=False)] = True
            means[chosen] = centre
        means += rng.standard_normal((size, N_DIRECTIONS)) @ directions
        means += NOISE * rng.standard_normal((size, cell.n_features))
        stained = ~chosen if cell.kind == "shares" else slice(None)
        means[stained] += STAIN * rng.standard_normal(cell.n_features)
        blocks.append(means.astype(np.float32))
        deciding.append(chosen)
        ratios.append((tilted - even) @ np.log(np.maximum(proportions, 1e-300)))
    return Part(Bags.from_list(blocks), y, np.concatenate(deciding), np.array(ratios))


def oracle_scores(slides: Slides) -> np.ndarray:
    """Scores of the test bags by what the recipe knows and no method does.

    For deciding instances, it is the highest inner product with the whitened difference of their
    centre and the mean of all instances, S^-1 (centre - mean), where S is the covariance of the
    training instances. For the mix, it is the logarithm of the likelihood ratio of the drawn
    proportions. Where both decide, a logistic regression combines the two on the training bags.
    """
    parts = (slides.train, slides.test)
    if slides.cell.kind == "mix":
        return slides.test.log_ratios
    highest = [
        np.maximum.reduceat(instance_scores(slides, part), part.bags.offsets[:-1]) for part in parts
    ]
    if slides.cell.kind == "witness":
        return highest[1]
    train, test = (
        np.column_stack([high, part.log_ratios]) for high, part in zip(highest, parts, strict=True)
    )
    scale = train.std(axis=0)
    model = LogisticRegression().fit(train / scale, slides.train.y)
    return model.decision_function(test / scale)


def instance_scores(slides: Slides, part: Part) -> np.ndarray:
    """Inner products of instances with S^-1 (centre - mean), see :func:`oracle_scores`."""
    rows = slides.train.bags.instances
    mean = rows.mean(axis=0, dtype=np.float64)
    covariance = (rows.T @ rows).astype(np.float64) / len(rows) - np.outer(mean, mean)
    # Less than the noise of a single feature by far.
    covariance += 1e-6 * np.eye(len(mean))
    direction = np.linalg.solve(covariance, slides.centre - mean).astype(np.float32)
    return part.bags.instances @ direction
