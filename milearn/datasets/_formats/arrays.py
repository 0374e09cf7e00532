"""Names and checks of the arrays of a data set, for formats of plain arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags import Bags
from ..._bags.segments import offsets_of
from ..._bags.text import bags_of_texts, holds_text
from ..._fit.outcomes import has_outcomes, outcome_fields, survival_outcomes
from .._errors import ContentError
from .record import (
    BAG_FIELDS,
    FIELDS,
    INSTANCE_FIELDS,
    BagRecord,
    check_indices,
    inconsistent,
    make_bags_of,
)

__all__ = ["arrays_of", "pickled", "record_of"]

# Names of fields in the file that differ from the Bunch.
_KEYS = {"target_names": "class_names", "groups": "group"}
_GRAPHS = ("bag_graph", "instance_graph")
# Events and times of outcomes of survival analysis, which are the target.
_OUTCOMES = ("y_event", "y_time")
# Keys of the names of further arrays of instances and bags, and of their numbered arrays.
_DATA = ("instance_data", "bag_data")
_CSR = ("data", "indices", "indptr", "shape")
# Bags of text: all texts in UTF-8, one after the other, and the first byte of each.
_TEXT = ("text", "text_offsets")
_REMEDY = "write bag files with milearn.datasets.save_bags."


def record_of(arrays: dict[str, np.ndarray]) -> BagRecord:
    """The data set of the arrays of :func:`arrays_of`; unknown keys are ignored."""
    texts = None
    if "instances" in arrays:
        instances: Any = arrays["instances"]
        if instances.ndim != 2:
            raise ContentError(
                f"'instances' has shape {instances.shape}; it must be (n_instances, n_features)."
            )
    elif all(key in arrays for key in _CSR):
        instances = _csr(arrays, "", "instances")
    elif all(key in arrays for key in _TEXT):
        texts = _texts(*(arrays[key] for key in _TEXT))
        instances = np.zeros((len(texts), 1))
    else:
        raise ContentError(
            f"neither 'instances' nor {', '.join(map(repr, _CSR))} is among the arrays "
            f"({', '.join(sorted(arrays)) or 'none'}); {_REMEDY}"
        )
    if "bag_offsets" not in arrays:
        raise ContentError(
            f"the array 'bag_offsets' is missing, so that the bags are unknown; {_REMEDY}"
        )
    graphs = {name: _csr(arrays, f"{name}_", name) for name in _GRAPHS if f"{name}_data" in arrays}
    bags = make_bags_of(
        _supported(instances),
        arrays["bag_offsets"],
        feature_names=arrays.get("feature_names"),
        **{key: _further(arrays, key) for key in _DATA},
        **graphs,
    )
    for name in ("y", *_OUTCOMES, *BAG_FIELDS, *INSTANCE_FIELDS):
        values = arrays.get(_KEYS.get(name, name))
        per_instance = name in INSTANCE_FIELDS
        expected = bags.n_instances if per_instance else len(bags)
        if values is not None and values.shape[:1] != (expected,):
            raise ContentError(
                f"{_KEYS.get(name, name)!r} has shape {values.shape} but there are {expected} "
                f"{'instances' if per_instance else 'bags'}; the arrays have inconsistent lengths, "
                "save the file again."
            )
    fields = {name: arrays[key] for name in FIELDS if (key := _KEYS.get(name, name)) in arrays}
    if texts is not None:
        bags = bags_of_texts(bags, texts)
    return BagRecord(bags, _target(arrays), fields, str(arrays.get("DESCR", "")))


def _texts(content: np.ndarray, offsets: np.ndarray) -> list[str]:
    """The texts of the arrays of :func:`_text_parts`."""
    valid = (
        (content.dtype, content.ndim, offsets.ndim) == (np.uint8, 1, 1)
        and offsets.dtype.kind in "iu"
        and offsets.size > 0
        and (offsets[0], offsets[-1]) == (0, content.size)
        and bool((offsets[1:] >= offsets[:-1]).all())
    )
    if not valid:
        raise ContentError("the arrays of texts are inconsistent; save the file again.")
    places, together = offsets.tolist(), content.tobytes()
    try:
        return [together[i:j].decode() for i, j in pairwise(places)]
    except UnicodeDecodeError as error:
        raise ContentError(f"the texts are not UTF-8 ({error}); save the file again.") from error


def _text_parts(bags: Bags) -> dict[str, np.ndarray]:
    try:
        parts = [str(text).encode() for text in bags.instances[:, 0]]
    except UnicodeEncodeError as error:
        raise ContentError(f"a text holds half a character ({error}); correct it.") from error
    content = np.frombuffer(b"".join(parts), dtype=np.uint8)
    return dict(zip(_TEXT, (content, offsets_of([len(part) for part in parts])), strict=True))


def _target(arrays: dict[str, np.ndarray]) -> np.ndarray | None:
    event, time = (arrays.get(key) for key in _OUTCOMES)
    if event is None or time is None:
        return arrays.get("y")
    try:
        return survival_outcomes(event, time)
    except ValueError as error:
        raise ContentError(f"the outcomes are wrong ({error}); save the file again.") from error


def _further(arrays: dict[str, np.ndarray], what: str) -> dict[str, np.ndarray]:
    names = arrays.get(what, np.empty(0, dtype=str))
    keys = [f"{what}_{number}" for number in range(names.size)]
    if names.ndim != 1 or not all(key in arrays for key in keys):
        raise ContentError(
            f"{what!r} names {names.size} arrays, of which one is missing; save the file again."
        )
    return {name: arrays[key] for name, key in zip(names.tolist(), keys, strict=True)}


def _csr(arrays: dict[str, np.ndarray], prefix: str, what: str) -> sparse.csr_array:
    parts: Any = [arrays.get(prefix + key) for key in _CSR]
    try:
        *content, shape = parts
        if np.shape(shape) != (2,):
            raise ValueError("its shape must be two numbers")
        matrix = sparse.csr_array(tuple(content), shape=tuple(int(n) for n in shape))
    except (TypeError, ValueError) as error:
        raise inconsistent(what, error) from error
    check_indices(matrix, what)
    return matrix


def _supported(matrix: Any) -> Any:
    """float32 for small integers, which is exact and needs half the memory of float64."""
    small = matrix.dtype.kind in "iub" and matrix.dtype.itemsize <= 2
    return matrix.astype(np.float32) if small else matrix


def arrays_of(record: BagRecord) -> dict[str, Any]:
    """All parts of a data set as arrays, by key.

    ``instances`` can be read in blocks and may be in a file.
    """
    bags = record.bags
    arrays: dict[str, Any] = {"bag_offsets": bags.offsets.astype(np.int64)}
    if bags.is_sparse:
        arrays |= _csr_parts(bags.instances, "")
    elif holds_text(bags):
        arrays |= _text_parts(bags)
    else:
        arrays["instances"] = bags.instance_rows
    if record.target is not None and has_outcomes(record.target):
        names = outcome_fields(record.target) or ()
        arrays |= {key: record.target[name] for key, name in zip(_OUTCOMES, names, strict=True)}
    elif record.target is not None:
        arrays["y"] = record.target
    if bags.feature_names is not None:
        arrays["feature_names"] = np.asarray(bags.feature_names, dtype=str)
    for name in _GRAPHS:
        if getattr(bags, name) is not None:
            arrays |= _csr_parts(getattr(bags, name), f"{name}_")
    for key in _DATA:
        further = getattr(bags, key)
        if further:
            arrays[key] = np.array(list(further), dtype=str)
            arrays |= {f"{key}_{number}": data for number, data in enumerate(further.values())}
    arrays |= {
        _KEYS.get(name, name): record.fields[name] for name in FIELDS if name in record.fields
    }
    if record.descr:
        arrays["DESCR"] = np.array(record.descr)
    for key, values in arrays.items():
        if values.dtype.hasobject:
            raise ContentError(
                f"{key!r} holds Python objects, which would need a pickle; convert it to numbers "
                "or strings."
            )
    return arrays


def _csr_parts(matrix: Any, prefix: str) -> dict[str, np.ndarray]:
    parts = (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape, dtype=np.int64))
    return {prefix + key: part for key, part in zip(_CSR, parts, strict=True)}


def pickled(what: str) -> ContentError:
    return ContentError(
        f"{what} Python objects (a pickle), which are never loaded because a pickle can run code; "
        f"{_REMEDY}"
    )
