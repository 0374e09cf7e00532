"""svmlight / libsvm files, where the query identifier is the bag.

``label qid:bag index:value ... # comment``, one row per instance. The text files of Andrews et al.
write ``instance:bag:label index:value ...`` instead; both are read.
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from .._errors import ContentError
from .record import BagRecord, group_rows

# Without it the last columns would be lost if they are empty.
_WIDTH = re.compile(rb"^#\s*n_features\s*[:=]\s*(\d{1,18})\s*$", re.MULTILINE)
_ANDREWS = re.compile(rb"^([^\s:#]+):([^\s:#]+):([^\s:#]+)(?=\s)", re.MULTILINE)


def read_svmlight(
    path: Path, *, n_features: int | None = None, zero_based: bool | str = "auto"
) -> BagRecord:
    """Read instances as CSR; column numbers count from 1 unless ``zero_based``."""
    raw = path.read_bytes()
    declared = _WIDTH.search(raw)
    if declared and n_features is None:
        n_features = int(declared[1])
    names = np.array([found[1].decode() for found in _ANDREWS.finditer(raw)])
    matrix, labels, bags = load_svmlight_file(
        BytesIO(_ANDREWS.sub(rb"\3 qid:\2", raw)),
        n_features=n_features,
        zero_based=zero_based,
        query_id=True,
    )
    if not np.isfinite(matrix.data).all():
        raise ContentError("a value is not a finite number; correct it.")
    fields = {"instance_names": names} if len(names) == len(labels) else None
    return group_rows(matrix, bags.tolist(), labels, row_fields=fields)
