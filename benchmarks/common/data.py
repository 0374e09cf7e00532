"""The data sets of the benchmarks and where the real ones lie: one place for tests and commands."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the tests' conftest only wants the folder: no reason to import a package for it
    import numpy as np

    from milearn import Bags

EMBEDDED = ("digits", "concept", "digits-tiny", "concept-tiny")
# Published with the folds of a cross-validation.
STORED = tuple(
    f"stored_folds/{name}"
    for name in (
        *("musk1", "fox", "mutagenesis1", "newsgroups2", "protein", "browncreeper", "winterwren"),
        *("corelafrican", "corelbeach", "corelbuses"),
    )
)
FILES = {
    name: f"{name}.npz"
    for name in (
        *("musk1", "musk2", "elephant", "fox", "tiger", "mutagenesis1"),
        *(f"trec9/tst{number}" for number in (1, 2, 3, 7, 10)),
        *(
            f"newsgroups/{group}"
            for group in (
                *("alt_atheism", "comp_graphics", "rec_autos", "sci_med"),
                "talk_politics_guns",
            )
        ),
        *STORED,
    )
}

# Pages of a class and as many others that are drawn.
PAGES = 150
UNIVERSITIES = ("texas", "wisconsin")
_WEBKB = ("course", "faculty", "student", "department", "project", "staff", *UNIVERSITIES)

FURTHER = (
    "trec9/tst4",
    "trec9/tst9",
    "trx_protein",
    "corel1000_10class",
    *(f"webkb:{kind}" for kind in _WEBKB),
)


def find_data_dir() -> Path | None:
    """Folder of the ``.npz`` data sets, or None when there is none.

    Looked for in this order: the environment variable ``MILEARN_DATA``, ``../shared/data``
    beside the checkout, ``~/milearn_data``. A folder counts when it holds ``musk1.npz``.
    """
    checkout = Path(__file__).resolve().parents[2]
    places = [checkout.parent / "shared" / "data", Path.home() / "milearn_data"]
    if os.environ.get("MILEARN_DATA"):
        places.insert(0, Path(os.environ["MILEARN_DATA"]))
    for place in places:
        if (place / "musk1.npz").is_file():
            return place
    return None


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


def available(name: str) -> bool:
    """Whether :func:`load` can load it here."""
    if name in EMBEDDED:
        return True
    folder = find_data_dir()
    if folder is None or name not in {*FILES, *FURTHER}:
        return False
    return (folder / FILES.get(name, file_of(name))).is_file()


@lru_cache(maxsize=8)
def load(name: str) -> DataSet:
    """A data set by name; kept, since every fold of a worker asks for it again.

    Raises
    ------
    SystemExit
        For an unknown name, or real data that are not there: the message says where to put them.
    """
    if name in EMBEDDED:
        return DataSet(name, *_embedded(name))
    if name in FURTHER and available(name):
        return DataSet(name, *load_further(name))
    if name not in FILES:
        names = ", ".join([*EMBEDDED, *FILES, *FURTHER])
        raise SystemExit(f"There is no data set {name!r}: choose from {names}.")
    folder = find_data_dir()
    if folder is None or not (folder / FILES[name]).is_file():
        raise SystemExit(
            f"{name} is not here: put {FILES[name]} (and musk1.npz, by which the folder is "
            "known) into ~/milearn_data, or set MILEARN_DATA to their folder."
        )
    from milearn.datasets import load_bags

    bunch = load_bags(folder / FILES[name])
    return DataSet(name, bunch.data, bunch.target.astype(int))


def load_file(name: str) -> Any:
    """A file of the data folder as :func:`milearn.datasets.load_bags` reads it.

    For data that are no two-class sets: ``"lj_16_30_2"``, ``"trec9/tst1"``, ``"webkb"``.

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
    from milearn.datasets import load_bags

    return load_bags(folder / f"{name}.npz")


@lru_cache(maxsize=16)
def stored_folds(name: str) -> np.ndarray:
    """Which bags of one of ``STORED`` to train on, shape (n_repeats, n_folds, n_bags)."""
    import numpy as np

    n_bags = len(load(name).bags)
    with np.load(find_data_dir() / FILES[name]) as file:
        return np.unpackbits(file["folds"], axis=2, count=n_bags).astype(bool)


def file_of(name: str) -> str:
    """File of a data set: ``"webkb:student"`` is made of ``webkb.npz``."""
    return name.partition(":")[0] + ".npz"


def load_further(name: str) -> tuple[Bags, np.ndarray]:
    """Bags and classes of one of ``FURTHER``."""
    import numpy as np

    file, _, kind = name.partition(":")
    if kind:
        return _pages(kind)
    bunch = load_file(file)
    return bunch.data, np.asarray(bunch.target).astype(int)


@lru_cache(maxsize=1)
def _web() -> tuple[Bags, np.ndarray, np.ndarray]:
    """Pages, the name of the class of each, and the name of its university."""
    import numpy as np

    bunch = load_file("webkb")
    kinds = np.array([str(name) for name in bunch.target_names])
    places = np.array([str(name) for name in bunch.group_names])
    return bunch.data, kinds[np.asarray(bunch.target).astype(int)], places[bunch.groups]


def _pages(kind: str) -> tuple[Bags, np.ndarray]:
    """Pages of one class and as many of the others, drawn with seed 0.

    Those of a university are compared with those of the other three. Entries are log(1 + count),
    which nothing has to be learnt for.
    """
    import numpy as np

    pages, kinds, places = _web()
    mine, others = kinds == kind, kinds != kind
    if kind in UNIVERSITIES:
        mine, others = places == kind, (places != kind) & (places != "misc")
    rng = np.random.default_rng(0)
    n_pages = min(PAGES, int(mine.sum()))
    inside = rng.choice(np.flatnonzero(mine), n_pages, replace=False)
    outside = rng.choice(np.flatnonzero(others), n_pages, replace=False)
    chosen = rng.permutation(np.r_[inside, outside])
    bags = pages[chosen]
    counts = bags.instances.astype(np.float64)
    counts.data = np.log1p(counts.data)
    return bags.with_instances(counts), mine[chosen].astype(int)


def _embedded(name: str) -> tuple[Bags, np.ndarray]:
    from milearn.datasets import load_digit_bags, make_bags

    kind, _, size = name.partition("-")
    n_bags = 24 if size == "tiny" else 100
    if kind == "digits":
        bunch = load_digit_bags(n_bags=n_bags, random_state=0)
        return bunch.data, bunch.target
    # Clusters that mean nothing stand as far out as the one that makes a bag positive.
    return make_bags(
        n_bags=n_bags, bag_size=(3, 8), n_distractors=3, concept_distance=3.0, random_state=0
    )


def describe(data: DataSet) -> str:
    """``digits: 100 bags (50 positive), 680 instances, 64 features``."""
    n_bags, n_features = data.bags.shape
    n_classes = int(data.y.max()) + 1
    classes = f"{int(data.y.sum())} positive" if n_classes == 2 else f"{n_classes} classes"
    return (
        f"{data.name}: {n_bags} bags ({classes}), "
        f"{data.bags.n_instances} instances, {n_features} features"
    )
