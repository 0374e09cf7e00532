"""Checksum of the content of a data set, independent of its file format."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags import Bags

__all__ = ["content_sha256"]


def content_sha256(bags: Bags, y: Any) -> str:
    """SHA-256 of the values and of the sign of the labels, in hexadecimal.

    The checksum does not depend on the order of bags, the order of instances in a bag, names, the
    file format, sparsity, or the type (float32 or float64). It shows whether two files have the
    same data.
    """
    matrix = sparse.csr_array(bags.instances).astype(np.float64)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    rows = []
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        columns = matrix.indices[start:stop].astype("<i8").tobytes()
        values = matrix.data[start:stop].astype("<f8").tobytes()
        rows.append(hashlib.sha256(columns + values).digest())
    blocks = []
    for bag, label in enumerate((np.asarray(y) > 0).tolist()):
        block = sorted(rows[bags.offsets[bag] : bags.offsets[bag + 1]])
        blocks.append(hashlib.sha256(bytes([label]) + b"".join(block)).digest())
    total = hashlib.sha256(str(bags.shape[1]).encode() + b"".join(sorted(blocks)))
    return total.hexdigest()
