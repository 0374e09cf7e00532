"""One embedding of a memory map, in a process of its own: ``python -m ... _embeddings_fit JSON``.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from milearn import Bags
from milearn.embedding import VLAD, BagOfWords, FisherVector
from milearn.preprocessing import BagStatistics

from ..common.memory import PeakMemory, Stopwatch, anonymous

__all__ = ["BAG_SIZE", "MODELS", "measure"]

BAG_SIZE = 1_000
MODELS = {
    "BagStatistics": BagStatistics(("mean", "std", "max")),
    "BagOfWords": BagOfWords(random_state=0),
    "VLAD": VLAD(random_state=0),
    "FisherVector": FisherVector(random_state=0),
}


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Times of fit and transform, and the highest anonymous memory of both."""
    instances = np.load(task["path"], mmap_mode="r")
    bags = Bags(instances, np.arange(0, len(instances) + 1, task["bag_size"]))
    model = MODELS[task["method"]]
    with PeakMemory(anonymous) as memory:
        watch = Stopwatch()
        model.fit(bags)
        fit = watch.seconds("fit_")
        watch = Stopwatch()
        rows = model.transform(bags)
        transform = watch.seconds("transform_")
    return {
        **fit,
        **transform,
        "before_mb": memory.before / 2**20,
        "peak_mb": memory.peak / 2**20,
        "shape": list(rows.shape),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
