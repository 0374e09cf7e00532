"""One measured fit on generated data: ``python -m benchmarks.scales._size_fit '<json>'``.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from milearn import Bags, MIClassifier
from milearn.baselines import EMDD, MILES, CitationKNN, MIForest, MILBoost
from milearn.cluster import BAMIC, M3IC
from milearn.datasets import make_bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.structured import MILSD, LinkContentMF
from milearn.svm import MISVC, SDPMIL, BagSVC, CoupledMISVC, InstanceMISVC, WellSVC

from ..common.memory import measured

__all__ = ["ESTIMATORS", "bags_of", "measure", "random_graph"]

_ENOUGH_SECONDS = 0.5
_MAX_FITS = 5

# Every name: how it is printed, and how it is made for a number of clusters.
ESTIMATORS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "misvc": ("MISVC, rbf", lambda k: CoupledMISVC(C=1.0)),
    "misvc-bag": (
        "MISVC, max, bag slack, linear",
        lambda k: MISVC(kernel="linear", slack="bag", C=0.1),
    ),
    "misvc-instance": (
        "MISVC, max, instance slack, linear",
        lambda k: MISVC(kernel="linear", slack="instance", C=0.1),
    ),
    "misvc-rbf": ("MISVC, max, bag slack, rbf", lambda k: MISVC(C=1.0)),
    "instancemisvc": ("InstanceMISVC, linear", lambda k: InstanceMISVC(kernel="linear", C=0.1)),
    "sdpmil": ("SDPMIL, linear", lambda k: SDPMIL(kernel="linear", C=0.1)),
    "milsd": ("MILSD, no graph", lambda k: MILSD(graph="auto")),
    "dpboost": ("DPBoost", lambda k: DPBoost()),
    "lpboost": ("LPBoost", lambda k: LPBoost()),
    "wellsvc": ("WellSVC, rbf", lambda k: WellSVC()),
    "bagsvc": ("BagSVC", lambda k: BagSVC()),
    "miclassifier": ("MIClassifier", lambda k: MIClassifier(random_state=0)),
    "miles": ("MILES", lambda k: MILES()),
    "citationknn": ("CitationKNN", lambda k: CitationKNN()),
    "emdd": ("EMDD, 3 starts", lambda k: EMDD(3)),
    "milboost": ("MILBoost, stumps", lambda k: MILBoost()),
    "miforest": ("MIForest, 50 trees", lambda k: MIForest(50, random_state=0)),
    "m3ic": (
        "M3IC, one random start",
        lambda k: M3IC(k, init="random", n_init=1, random_state=0),
    ),
    "bamic": (
        "BAMIC, one random start",
        lambda k: BAMIC(k, n_init=1, random_state=0),
    ),
    "milsd-bag": ("MILSD, links of bags", lambda k: MILSD(graph="bag", mu=1.0)),
    "milsd-instance": ("MILSD, links of instances", lambda k: MILSD(graph="instance", mu=1.0)),
    "linkcontentmf": ("LinkContentMF, links of bags", lambda k: LinkContentMF(10)),
}


def bags_of(
    *, n_bags: int, bag_size: int, n_features: int, n_clusters: int = 2
) -> tuple[Bags, np.ndarray]:
    """Bags that no classifier separates; with three or more clusters, their numbers as labels."""
    if n_clusters == 2:
        return make_bags(
            n_bags,
            n_features,
            bag_size=bag_size,
            concept_distance=3.0,
            flip_y=0.1,
            random_state=0,
        )
    rng = np.random.default_rng(0)
    instances = rng.normal(size=(n_bags * bag_size, n_features))
    y = np.arange(n_bags) % n_clusters
    # One instance of a bag stands in the direction of its cluster.
    centres = rng.normal(size=(n_clusters, n_features))
    centres *= 5.0 / np.linalg.norm(centres, axis=1, keepdims=True)
    instances[::bag_size] += centres[y]
    return Bags(instances, np.arange(0, n_bags * bag_size + 1, bag_size)), y


def random_graph(labels: np.ndarray, n_links: int) -> sparse.csr_array:
    """A symmetric graph with about ``n_links`` links, four of five within a class."""
    rng = np.random.default_rng(1)
    n = len(labels)
    pairs = np.empty((0, 2), dtype=np.intp)
    while len(pairs) < n_links:
        more = np.sort(rng.integers(n, size=(2 * n_links, 2)), axis=1)
        same = labels[more[:, 0]] == labels[more[:, 1]]
        kept = (more[:, 0] != more[:, 1]) & (same | (rng.random(len(more)) < 0.25))
        pairs = np.unique(np.concatenate([pairs, more[kept]]), axis=0)
    pairs = pairs[rng.permutation(len(pairs))[:n_links]]
    half = sparse.coo_array((np.ones(n_links), pairs.T), shape=(n, n))
    return (half + half.T).tocsr()


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Times and peak memory of a fit.

    The task names the ``method`` and the sizes: ``n_bags``, ``bag_size``, ``n_features``, and
    perhaps ``n_clusters`` and ``n_links``.
    """
    sizes = {name: task[name] for name in ("n_bags", "bag_size", "n_features")}
    n_clusters = task.get("n_clusters", 2)
    bags, y = bags_of(**sizes, n_clusters=n_clusters)
    if "n_links" in task:
        instance = task["method"] == "milsd-instance"
        graph = random_graph(y[bags.bag_index] if instance else y, task["n_links"])
        links = {"instance_graph" if instance else "bag_graph": graph}
        bags = Bags(bags.instances, bags.offsets, **links)
    make = ESTIMATORS[task["method"]][1]
    clusters = task["method"] in ("m3ic", "bamic")
    fit = (lambda X, y: make(n_clusters).fit(X)) if clusters else lambda X, y: make(2).fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The first fit imports solver libraries: a few bags take that away.
        few = np.arange(min(len(bags), max(40, 2 * n_clusters)))
        fit(bags[few], y[few])
        caught.clear()
        result, model = measured(lambda: fit(bags, y), enough=_ENOUGH_SECONDS, most=_MAX_FITS)
    steps = getattr(model, "n_iter_", None)
    return {
        **result,
        "n_iter": None if steps is None else np.asarray(steps).tolist(),
        "data_mb": (bags.instances.nbytes) / 2**20,
        "warnings": dict(Counter(item.category.__name__ for item in caught)),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
