"""Controls: the same links, or positions, without what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def permuted_nodes(graph: Any, rng: np.random.Generator) -> sparse.csr_array:
    """The graph after its nodes were permuted: its degrees, weights and groups, at other nodes."""
    links = sparse.coo_array(graph)
    place = rng.permutation(graph.shape[0])
    return sparse.csr_array((links.data, (place[links.row], place[links.col])), links.shape)


def permuted_positions(bags: Any, rng: np.random.Generator, coords: str = "coords") -> Any:
    """Bags whose instances have exchanged their positions inside each bag."""
    from milearn import Bags

    order = np.concatenate(
        [
            first + rng.permutation(last - first)
            for first, last in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
        ]
    )
    positions = np.asarray(bags.instance_data[coords])[order]
    return Bags(
        bags.instances, bags.offsets, instance_data={**bags.instance_data, coords: positions}
    )
