"""svmlight / libsvm files, where the query identifier is the bag.

``label qid:bag index:value ... # comment``, one row per instance. The text files of Andrews et al.
write ``instance:bag:label index:value ...`` instead; both are read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from .._errors import ContentError
from .record import BagRecord, group_rows
from .text import NOTHING, number_text, read_text

# Without it the last columns would be lost if they are empty.
_WIDTH = re.compile(r"#\s*n_features\s*[:=]\s*(\d+)")
_MAX_COLUMN = np.iinfo(np.int64).max


def read_svmlight(
    path: Path, *, n_features: int | None = None, zero_based: bool | str = "auto"
) -> BagRecord:
    """Read instances as CSR; column numbers count from 1 unless ``zero_based``."""
    data: list[float] = []
    indices: list[int] = []
    indptr, heads, lines = [0], [], []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        declared = _WIDTH.match(line)
        if declared and n_features is None:
            # Python does not convert texts with thousands of digits.
            n_features = int(declared[1]) if len(declared[1]) < 20 else 0
            if not 0 < n_features <= _MAX_COLUMN:
                raise ContentError(
                    f"line {number} declares {declared[1][:40]} features, which is not a number "
                    f"between 1 and {_MAX_COLUMN}; correct it."
                )
        head, *pairs = line.partition("#")[0].split() or [""]
        if not head:
            continue
        heads.append(_head(head, pairs, number))
        lines.append(number)
        for pair in pairs:
            column, value = _pair(pair, number)
            indices.append(column)
            data.append(value)
        if not np.isfinite(data[indptr[-1] :]).all():
            raise ContentError(
                f"line {number} holds a value that is not a finite number; correct it."
            )
        indptr.append(len(data))
    if not lines:
        raise ContentError(NOTHING)
    columns, width = _columns(np.array(indices, dtype=np.int64), n_features, zero_based)
    matrix = sparse.csr_array(
        (np.array(data), columns, np.array(indptr)), shape=(len(lines), width)
    )
    names, bags, labels = zip(*heads, strict=True)
    fields = {} if None in names else {"instance_names": np.array(names)}
    return group_rows(matrix, bags, labels, lines=lines, row_fields=fields)


def _head(head: str, pairs: list[str], line: int) -> tuple[str | None, str, float]:
    """Name, bag and label of an instance; the bag may be in ``pairs``."""
    name: str | None = None
    if head.count(":") == 2:
        name, bag, label = head.split(":")
    elif pairs and pairs[0].startswith("qid:"):
        label, bag = head, pairs.pop(0)[4:]
    else:
        raise ContentError(
            f"line {line} names no bag; write qid:<number of the bag> after the label."
        )
    try:
        return name, bag, float(label)  # a number, because "1" and "+1" are the same label
    except ValueError:
        raise ContentError(
            f"line {line}: the label {label!r} is not a number; correct it, or pass format= if "
            "this is not an svmlight file."
        ) from None


def _pair(pair: str, line: int) -> tuple[int, float]:
    index, _, text = pair.partition(":")
    try:
        column, value = int(index), float(text)
    except ValueError:
        raise ContentError(
            f"line {line}: {pair!r} is not of the form index:value; the line is damaged or the "
            "file truncated."
        ) from None
    if not 0 <= column < _MAX_COLUMN:
        raise ContentError(
            f"line {line}: {pair[:40]!r} has a column number that is not between 0 and "
            f"{_MAX_COLUMN - 1}; correct it."
        )
    return column, value


def _columns(
    columns: np.ndarray, n_features: int | None, zero_based: bool | str
) -> tuple[np.ndarray, int]:
    """Columns counted from 0, and their number."""
    low, high = int(columns.min(initial=1)), int(columns.max(initial=0))
    if zero_based == "auto":
        zero_based = low == 0
    first = 0 if zero_based else 1
    width = high + 1 - first if len(columns) else 0
    if low < first or (n_features is not None and width > n_features):
        raise ContentError(
            f"the column numbers run from {low} to {width - 1 + first}, which does not fit "
            f"n_features={n_features}, zero_based={zero_based}; correct these."
        )
    return columns - first, width if n_features is None else n_features


def write_svmlight(path: Path, record: BagRecord, file: BinaryIO) -> None:
    """Write the non-zero values with columns counted from 1, and the number of columns first."""
    bags = record.bags
    target: Any = record.target
    numbers = record.bag_numbers()
    matrix = sparse.csr_array(bags.instances)
    file.write(f"# n_features: {bags.shape[1]}\n".encode())
    for row, bag in enumerate(bags.bag_index):
        entries = slice(*matrix.indptr[row : row + 2])
        pairs = zip(matrix.indices[entries], matrix.data[entries], strict=True)
        cells = [f"{column + 1}:{number_text(value)}" for column, value in pairs]
        head = f"{number_text(target[bag])} qid:{numbers[bag]} "
        file.write((head + " ".join(cells)).rstrip().encode() + b"\n")
