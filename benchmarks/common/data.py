"""The data sets of the benchmarks and where the real ones lie: one place for tests and commands."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from milearn import Bags
from milearn.datasets import load_bags, load_digit_bags, make_bags

EMBEDDED = ("digits", "concept", "digits-tiny", "concept-tiny")
# Published with the folds of a cross-validation.
STORED = tuple(
    f"stored_folds/{name}"
    for name in (
        *("musk1", "fox", "mutagenesis1", "newsgroups2", "protein", "browncreeper", "winterwren"),
        *("corelafrican", "corelbeach", "corelbuses"),
    )
)
# Raw data of public repositories, most with folds.
PUBLIC = tuple(
    f"public/{name}"
    for name in (
        *("colon", "ucsbraw", "tiles_small", "tcr_thca", "mice_genotype", "depresjon", "spot"),
        *("android_class4", "chembl1862"),
    )
)
NEWSGROUPS = ("alt_atheism", "comp_graphics", "rec_autos", "sci_med", "talk_politics_guns")
FILES = (
    *("musk1", "musk2", "elephant", "fox", "tiger", "mutagenesis1"),
    *("trx_protein", "corel1000_10class"),
    *(f"trec9/tst{topic}" for topic in (1, 2, 3, 4, 7, 9, 10)),
    *(f"newsgroups/{group}" for group in NEWSGROUPS),
    *STORED,
    *PUBLIC,
)
# Pages of a class, or of a university, and as many others that are drawn: "webkb:student".
PAGES = 150
UNIVERSITIES = ("texas", "wisconsin")


def find_data_dir() -> Path | None:
    """Folder of the ``.npz`` data sets, or None when there is none.

    Looked for in this order: the environment variable ``MILEARN_DATA``, ``../shared/data``
    beside the checkout, ``~/milearn_data``. A folder counts when it holds ``musk1.npz``.
    """
    checkout = Path(__file__).resolve().parents[2]
    places = [checkout.parent / "shared" / "data", Path.home() / "milearn_data"]
    if os.environ.get("MILEARN_DATA"):
        places.insert(0, Path(os.environ["MILEARN_DATA"]))
    return next((place for place in places if (place / "musk1.npz").is_file()), None)


@dataclass(frozen=True)
class DataSet:
    """Bags with classes; of two, ``y`` is 1 for positive bags and 0 for the others."""

    name: str
    bags: Bags
    y: np.ndarray

    @property
    def text(self) -> bool:
        """Whether the instances are texts: sparse rows, to be scaled to unit length."""
        return hasattr(self.bags.instances, "indptr")

    def __str__(self) -> str:
        """``digits: 100 bags (50 positive), 680 instances, 64 features``."""
        n_bags, n_features = self.bags.shape
        n_classes = int(self.y.max()) + 1
        classes = f"{int(self.y.sum())} positive" if n_classes == 2 else f"{n_classes} classes"
        return (
            f"{self.name}: {n_bags} bags ({classes}), "
            f"{self.bags.n_instances} instances, {n_features} features"
        )


@lru_cache(maxsize=8)
def load(name: str) -> DataSet:
    """A data set by name; kept, since every fold of a worker asks for it again.

    Raises
    ------
    SystemExit
        For an unknown name, or real data that are not there: the message says where to put them.
    """
    kind, _, part = name.partition(":")
    if name in EMBEDDED:
        bags, y = _embedded(name)
    elif kind == "webkb":
        bags, y = _pages(part)
    elif name in FILES:
        bunch = load_file(name)
        bags, y = bunch.data, np.asarray(bunch.target)
        if "classes" in bunch:
            y = np.array([bunch.classes.tolist().index(label) for label in y])
        y = y.astype(int)
    else:
        names = ", ".join([*EMBEDDED, *FILES, "webkb:student"])
        raise SystemExit(f"There is no data set {name!r}: choose from {names}.")
    return DataSet(name, bags, y)


def path_of(name: str) -> Path:
    """The file of a data set.

    Raises
    ------
    SystemExit
        Where it is not there; the message says where to put it.
    """
    folder = find_data_dir()
    if folder is None or not (folder / f"{name}.npz").is_file():
        raise SystemExit(
            f"{name} is not here: put {name}.npz (and musk1.npz, by which the folder is known) "
            "into ~/milearn_data, or set MILEARN_DATA to their folder."
        )
    return folder / f"{name}.npz"


@lru_cache(maxsize=1)
def load_file(name: str) -> Any:
    """A file of the data folder as :func:`milearn.datasets.load_bags` reads it."""
    return load_bags(path_of(name))


def _pages(kind: str) -> tuple[Bags, np.ndarray]:
    """Pages of one class and as many of the others, drawn with seed 0.

    Those of a university are compared with those of the other three. Entries are log(1 + count),
    which nothing has to be learnt for.
    """
    bunch = load_file("webkb")
    kinds, places = bunch.target, bunch.groups
    mine, others = kinds == kind, kinds != kind
    if kind in UNIVERSITIES:
        mine, others = places == kind, (places != kind) & (places != "misc")
    rng = np.random.default_rng(0)
    n_pages = min(PAGES, int(mine.sum()))
    inside = rng.choice(np.flatnonzero(mine), n_pages, replace=False)
    outside = rng.choice(np.flatnonzero(others), n_pages, replace=False)
    chosen = rng.permutation(np.r_[inside, outside])
    bags = bunch.data[chosen]
    counts = bags.instances.astype(np.float64)
    counts.data = np.log1p(counts.data)
    return bags.with_instances(counts), mine[chosen].astype(int)


def _embedded(name: str) -> tuple[Bags, np.ndarray]:
    kind, _, size = name.partition("-")
    n_bags = 24 if size == "tiny" else 100
    if kind == "digits":
        bunch = load_digit_bags(n_bags=n_bags, random_state=0)
        return bunch.data, bunch.target
    # Clusters that mean nothing stand as far out as the one that makes a bag positive.
    return make_bags(
        n_bags=n_bags, bag_size=(3, 8), n_distractors=3, concept_distance=3.0, random_state=0
    )
