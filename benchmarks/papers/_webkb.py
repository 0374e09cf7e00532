"""The web pages of Zhang et al. 2011 as bags of stemmed passages, with their links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..common.data import load_file

CATEGORIES = ("course", "faculty", "student")


@dataclass(frozen=True)
class Pages:
    """The pages of one category and as many others, in an order of their own."""

    bags: Any
    y: np.ndarray
    whole: Any
    graphs: dict[str, Any]


@lru_cache(maxsize=1)
def _stemmed() -> tuple[Any, Any]:
    """Word counts of passages without stop words, by stem; and the whole set."""
    from scipy import sparse
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    try:
        import snowballstemmer
    except ImportError as error:
        raise SystemExit(
            "This table stems words: install snowballstemmer (pip install 'milearn[benchmark]')."
        ) from error
    pages = load_file("webkb")
    words = [str(word) for word in pages.feature_names]
    kept = [column for column, word in enumerate(words) if word not in ENGLISH_STOP_WORDS]
    stems = snowballstemmer.stemmer("porter").stemWords([words[column] for column in kept])
    _, number = np.unique(stems, return_inverse=True)
    merge = sparse.csr_array(
        (np.ones(len(kept)), (kept, number)), shape=(len(words), number.max() + 1)
    )
    return sparse.csr_matrix(pages.data.instances.astype(float) @ merge), pages


@lru_cache(maxsize=3)
def pages_of(category: str) -> Pages:
    """Linked pages of the category, as many linked others (seed 0), tf-idf passages, graphs."""
    if category not in CATEGORIES:
        raise ValueError(f"There is no category {category!r}: choose from {', '.join(CATEGORIES)}.")
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfTransformer

    from milearn import Bags
    from milearn.structured import link_graph

    counts, pages = _stemmed()
    n = len(pages.target)
    with np.load(pages.filename) as file:
        links = file["bag_links"]
    direct = link_graph(links, n)
    linked = np.asarray(direct.sum(axis=0) + direct.sum(axis=1)).ravel() > 0
    mine = pages.target == list(pages.target_names).index(category)
    rng = np.random.default_rng(0)
    inside = np.flatnonzero(mine & linked)
    outside = rng.choice(np.flatnonzero(~mine & linked), len(inside), replace=False)
    chosen = rng.permutation(np.r_[inside, outside])
    # Sparse indices of 32 bits: scikit-learn's SVMs take no others.
    bags = Bags(counts, pages.data.offsets)[chosen]
    pool = sparse.csr_matrix(
        (np.ones(bags.n_instances), np.arange(bags.n_instances), bags.offsets),
        shape=(len(bags), bags.n_instances),
    )
    whole = TfidfTransformer().fit_transform(sparse.csr_matrix(pool @ bags.instances))
    passages = TfidfTransformer().fit_transform(sparse.csr_matrix(bags.instances))
    return Pages(
        bags=bags.with_instances(passages),
        y=mine[chosen].astype(int),
        whole=whole,
        graphs={
            kind: link_graph(links, n, kind=kind)[chosen][:, chosen]
            for kind in ("direct", "cocitation", "coupling")
        },
    )


def with_graph(pages: Pages, kind: str | None) -> Any:
    from milearn import Bags

    graph = None if kind is None else pages.graphs[kind]
    return Bags(pages.bags.instances, pages.bags.offsets, bag_graph=graph)
