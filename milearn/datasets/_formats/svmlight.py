"""svmlight / libsvm files, the query identifier being the bag.

``label qid:bag index:value ... # comment``, one row per instance. The text files of Andrews et al.
write ``instance:bag:label index:value ...`` instead; both are read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

import numpy as np
from scipy import sparse

from .._errors import BagFileError
from .mat import bag_numbers
from .record import (
    BagRecord,
    group_rows,
    need_labels,
    number_text,
    read_text,
    refuse_fields,
)

# Without it the last columns of a set would vanish where no instance of the file uses them.
_WIDTH = re.compile(r"#\s*n_features\s*[:=]\s*(\d+)")
_MAX_COLUMN = np.iinfo(np.int64).max


def read_svmlight(
    path: Path, *, n_features: int | None = None, zero_based: bool | str = "auto"
) -> BagRecord:
    """Read instances as CSR; column numbers count from 1 unless ``zero_based``."""
    data: list[float] = []
    indices: list[int] = []
    indptr, bags, labels, lines = [0], [], [], []
    andrews: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        width = _WIDTH.match(line)
        if width and n_features is None:
            n_features = _counted(path, width[1], number)
        line = line.partition("#")[0].strip()
        if not line:
            continue
        head, *pairs = line.split()
        if head.count(":") == 2:
            name, bag, label = head.split(":")
            andrews.setdefault("instance_names", []).append(name)
        else:
            label = head
            if not pairs or not pairs[0].startswith("qid:"):
                raise BagFileError(
                    f"{path}: line {number} names no bag; write qid:<number of the bag> after the "
                    "label."
                )
            bag = pairs.pop(0)[4:]
        bags.append(bag)
        labels.append(label)
        lines.append(number)
        for pair in pairs:
            index, _, value = pair.partition(":")
            try:
                column = int(index)
                data.append(float(value))
            except ValueError:
                raise BagFileError(
                    f"{path}: line {number}: {pair!r} is not of the form index:value; the line is "
                    "damaged or the file truncated."
                ) from None
            if not 0 <= column < _MAX_COLUMN:
                raise BagFileError(
                    f"{path}: line {number}: {pair[:40]!r} has a column number that is not between "
                    f"0 and {_MAX_COLUMN - 1}; correct it."
                )
            indices.append(column)
        if not np.isfinite(data[indptr[-1] :]).all():
            raise BagFileError(
                f"{path}: line {number} holds a value that is not a finite number; correct it."
            )
        indptr.append(len(data))
    if not lines:
        raise BagFileError(f"{path}: there is not a single instance in it; check the file.")
    for label, number in zip(labels, lines, strict=True):
        _check_label(path, label, number)
    columns = np.array(indices, dtype=np.int64)
    low = int(columns.min(initial=1))
    if zero_based == "auto":
        zero_based = low == 0
    columns = columns - (0 if zero_based else 1)
    highest = int(columns.max(initial=-1)) + 1
    if low < (0 if zero_based else 1) or (n_features is not None and highest > n_features):
        raise BagFileError(
            f"{path}: the column numbers run from {low} to {highest - (1 if zero_based else 0)}, "
            f"which does not fit n_features={n_features}, zero_based={zero_based}; correct these."
        )
    shape = (len(lines), highest if n_features is None else n_features)
    matrix = sparse.csr_array((np.array(data), columns, np.array(indptr)), shape=shape)
    names = {key: np.array(values) for key, values in andrews.items() if len(values) == len(lines)}
    # As numbers, because "1" and "+1" are the same label.
    numbers = [float(label) for label in labels]
    return group_rows(path, matrix, bags, numbers, lines=lines, row_fields=names)


def _counted(path: Path, text: str, number: int) -> int:
    # Python refuses to convert texts of thousands of digits.
    width = int(text) if len(text) < 20 else _MAX_COLUMN + 1
    if not 0 < width <= _MAX_COLUMN:
        raise BagFileError(
            f"{path}: line {number} declares {text[:40]} features, which is not a number between 1 "
            f"and {_MAX_COLUMN}; correct it."
        )
    return width


def _check_label(path: Path, label: str, number: int) -> None:
    try:
        float(label)
    except ValueError:
        raise BagFileError(
            f"{path}: line {number}: the label {label!r} is not a number; correct it, or pass "
            "format= if this is not an svmlight file."
        ) from None


def write_svmlight(path: Path, file: BinaryIO, record: BagRecord) -> None:
    """Write the non-zero values with columns counted from 1, and the number of columns first."""
    refuse_fields(path, record, "svmlight", ("bag_names",))
    target = need_labels(path, record, "svmlight")
    bags = record.bags
    numbers = bag_numbers(path, record)
    matrix = sparse.csr_array(bags.instances)
    file.write(f"# n_features: {bags.shape[1]}\n".encode())
    for row, bag in enumerate(bags.bag_index):
        start, stop = matrix.indptr[row], matrix.indptr[row + 1]
        cells = [number_text(target[bag]), f"qid:{numbers[bag]}"]
        cells += [
            f"{column + 1}:{number_text(value)}"
            for column, value in zip(
                matrix.indices[start:stop], matrix.data[start:stop], strict=True
            )
        ]
        file.write((" ".join(cells) + "\n").encode())
