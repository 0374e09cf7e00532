"""Where the real data sets lie: one place for tests and benchmarks."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["find_data_dir"]


def find_data_dir() -> Path | None:
    """Folder of the ``.npz`` data sets, or None when there is none.

    Looked for in this order: the environment variable ``MILEARN_DATA``, ``../shared/data``
    beside the checkout, ``~/milearn_data``. A folder counts when it holds ``musk1.npz``.
    """
    checkout = Path(__file__).resolve().parent.parent
    places = [checkout.parent / "shared" / "data", Path.home() / "milearn_data"]
    if os.environ.get("MILEARN_DATA"):
        places.insert(0, Path(os.environ["MILEARN_DATA"]))
    for place in places:
        if (place / "musk1.npz").is_file():
            return place
    return None
