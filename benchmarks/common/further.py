"""Data sets beyond the classical ones: more texts, web pages, pictures of ten classes, proteins."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from milearn import Bags

__all__ = ["FURTHER", "UNIVERSITIES", "file_of", "load_further"]

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


def file_of(name: str) -> str:
    """File of a data set: ``"webkb:student"`` is made of ``webkb.npz``."""
    return name.partition(":")[0] + ".npz"


def load_further(name: str) -> tuple[Bags, np.ndarray]:
    """Bags and classes of one of ``FURTHER``."""
    from .data import load_file

    file, _, kind = name.partition(":")
    if kind:
        return _pages(kind)
    bunch = load_file(file)
    return bunch.data, np.asarray(bunch.target).astype(int)


@lru_cache(maxsize=1)
def _web() -> tuple[Bags, np.ndarray, np.ndarray]:
    """Pages, the name of the class of each, and the name of its university."""
    from .data import load_file

    bunch = load_file("webkb")
    kinds = np.array([str(name) for name in bunch.target_names])
    places = np.array([str(name) for name in bunch.group_names])
    return bunch.data, kinds[np.asarray(bunch.target).astype(int)], places[bunch.groups]


def _pages(kind: str) -> tuple[Bags, np.ndarray]:
    """Pages of one class and as many of the others, drawn with seed 0.

    Those of a university are compared with those of the other three. Entries are log(1 + count),
    which nothing has to be learnt for.
    """
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
