"""The check for values that are not finite."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn import get_config

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.rows_on_disk import pieces_of

# Bits of infinity and of the sign of a float16.
_HALF_INFINITY, _HALF_SIGN = 0x7C00, 0x8000


def check_finite(bags: Bags, allow_nan: bool) -> None:
    """Raise a ValueError for infinity, and for NaN unless it is allowed; it names the bag."""
    if get_config()["assume_finite"]:
        return
    parts = bags.source(dtype=bags.dtype).map(_first_wrong, allow_nan, in_parts=True)
    found = next((part for part in parts if part is not None), None)
    if found is None:
        return
    row, value = found
    bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
    what = "NaN" if np.isnan(value) else "infinity"
    remedy = (
        "impute it with milearn.preprocessing.InstanceTransformer(SimpleImputer()) or remove "
        "the instance"
        if what == "NaN"
        else "remove or clip it"
    )
    raise ValueError(f"Bag {bag} contains {what} (instance row {row}): {remedy}.")


def _first_wrong(block: Block, allow_nan: bool) -> tuple[int, float] | None:
    """Row and value of the first entry that is not finite."""
    if sparse.issparse(block.stored):
        entries = block.stored
        wrong = _wrong_entries(entries.data, allow_nan)
        if wrong is None:
            return None
        entry = int(np.argmax(wrong))
        row = int(np.searchsorted(entries.indptr, entry, side="right")) - 1
        return block.first_row + row, entries.data[entry]
    first = block.first_row
    for piece in pieces_of(block.stored, block.dtype):
        wrong = _wrong_entries(piece, allow_nan)
        if wrong is not None:
            entry = int(np.argmax(wrong))
            return first + entry // piece.shape[1], piece.flat[entry]
        first += len(piece)
    return None


def _wrong_entries(values: np.ndarray, allow_nan: bool) -> np.ndarray | None:
    """Mask of the entries that are not finite (NaN may be allowed); None without one."""
    if values.size == 0:
        return None
    if values.dtype == np.float16:
        # A sum would overflow, and integers are compared faster: infinity is the largest without
        # a sign, and NaN is above it.
        negative = values.view(np.uint16).max() >= _HALF_INFINITY | _HALF_SIGN
        sound = not negative and values.view(np.int16).max() < _HALF_INFINITY
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            sound = bool(np.isfinite(np.sum(values)))
    if sound:
        return None
    wrong = np.isinf(values) if allow_nan else ~np.isfinite(values)
    return wrong if wrong.any() else None
