"""The check for values that are not finite."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn import get_config

from .._bags import Bags
from .._bags.blocks import Block

__all__ = ["check_finite"]

# All bits of the exponent of a float16: infinity or NaN.
_HALF_EXPONENT = np.uint16(0x7C00)


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
    is_sparse = sparse.issparse(block.instances)
    values = block.instances.data if is_sparse else block.instances
    wrong = _wrong_entries(values, allow_nan)
    if wrong is None:
        return None
    entry = int(np.argmax(wrong))
    if is_sparse:
        row = int(np.searchsorted(block.instances.indptr, entry, side="right")) - 1
    else:
        row = entry // values.shape[1]
    return block.first_row + row, values.flat[entry]


def _wrong_entries(values: np.ndarray, allow_nan: bool) -> np.ndarray | None:
    """Mask of the entries that are not finite (NaN may be allowed); None without one."""
    if values.dtype == np.float16:
        # A sum would overflow, and comparing bits is faster than arithmetic in float16.
        sound = not (values.view(np.uint16) & _HALF_EXPONENT == _HALF_EXPONENT).any()
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            sound = bool(np.isfinite(np.sum(values)))
    if sound:
        return None
    wrong = np.isinf(values) if allow_nan else ~np.isfinite(values)
    return wrong if wrong.any() else None
