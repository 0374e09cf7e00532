"""Record of a data set between a file and a Bunch, and its layout as plain arrays in .npz files."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.canonical import check_length
from ..._bags.frames import (
    KINDS,
    arrays_of_frame,
    frame_of_arrays,
    with_objects,
    without_objects,
)
from ..._bags.kinds import are_missing, as_labels, column, ordered_categories
from ..._bags.names import bag_text
from ..._fit.outcomes import has_outcomes, outcome_fields, survival_outcomes
from .._errors import ContentError
from .table import quoted_names

# The optional contents of a data set, by their names in a Bunch and in files.
BAG_FIELDS = ("split", "groups", "sample_weight")
INSTANCE_FIELDS = ("instance_names", "instance_labels")
FIELDS = (*BAG_FIELDS, *INSTANCE_FIELDS, "classes")
GRAPHS = ("bag_graph", "instance_graph")
# Events and times of outcomes of survival analysis, which are the target.
_OUTCOMES = ("y_event", "y_time")
# Keys of the names of the columns of instances and bags, and of their numbered arrays.
_DATA = ("instance_data", "bag_data")
CSR = ("data", "indices", "indptr", "shape")
_REMEDY = "write bag files with milearn.datasets.save_bags."


@dataclass
class BagRecord:
    """A data set between a file and a Bunch; ``fields`` contains its optional contents."""

    bags: Bags
    target: np.ndarray | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    descr: str = ""

    def to_bunch(self, path: Path) -> Bunch:
        bunch = Bunch(data=self.bags, target=self.target)
        for key, names in (
            ("feature_names", self.bags.feature_names),
            ("bag_names", self.bags.names),
        ):
            if names is not None:
                bunch[key] = names.copy()
        bunch.update({name: self.fields[name] for name in FIELDS if name in self.fields})
        bunch["DESCR"] = self.descr or self.describe(path)
        bunch["filename"] = str(path)
        return bunch

    def describe(self, path: Path) -> str:
        """One sentence on the content of the data set."""
        n_bags, n_features = self.bags.shape
        n_instances = self.bags.n_instances
        text = f"{path.name}: {n_bags} bags, {n_instances} instances, {n_features} features"
        return text + (", no labels." if self.target is None else ".")

    def set_labels(self, values: Any, classes: Any = None) -> None:
        """Store the labels of the bags, and all classes in their order.

        The classes are the declared ones, those of ordered categories, or the sorted texts; numbers
        have none.
        """
        ranks = ordered_categories(values)
        target = as_labels(make_bags_of(column, values, "label"))
        known = declared_classes(ranks if classes is None else classes)
        some = target[~are_missing(target)]
        if known is None and some.dtype == object:
            known = np.unique(some)
        self.target = target
        if known is None:
            return
        for bag in np.flatnonzero(~are_missing(target) & ~np.isin(target, known))[:1].tolist():
            raise ContentError(
                f"the label of {bag_text(self.bags, bag)} is {target.tolist()[bag]!r}, and not one "
                f"of the classes {quoted_names(known.tolist())}."
            )
        self.fields["classes"] = known

    def check_lengths(self) -> None:
        """Raise an error for labels or a field that do not fit the bags or instances."""
        lengths = dict.fromkeys(("y", *BAG_FIELDS), len(self.bags))
        lengths |= dict.fromkeys(INSTANCE_FIELDS, self.bags.n_instances)
        parts = self.fields | {"y": self.target}
        for name, n in lengths.items():
            if (values := parts.get(name)) is not None:
                check_length(name, values, n, "instance" if name in INSTANCE_FIELDS else "bag")


def declared_classes(classes: Any) -> np.ndarray | None:
    """The classes that a user declares, as an array of texts or of numbers."""
    if classes is None:
        return None
    known = as_labels(column(classes, "classes"))
    if len({*known.tolist()}) < len(known):
        raise ValueError(f"classes={classes!r} must be a list of different texts or numbers.")
    return known


def float_type(dtype: Any) -> np.dtype:
    """A type of instances that a user asks for."""
    if np.dtype(dtype) not in (np.float64, np.float32, np.float16):
        raise ValueError(f"dtype={dtype!r} is not supported; choose float64, float32 or float16.")
    return np.dtype(dtype)


def make_bags_of(make: Callable[..., Any], /, *parts: Any, **options: Any) -> Any:
    """The result of ``make``, or an error about the file if the parts are invalid."""
    try:
        return make(*parts, **options)
    except (TypeError, ValueError) as error:
        raise ContentError(str(error)) from error


# -- arrays --------------------------------------------------------------------------------------


def arrays_of(record: BagRecord) -> dict[str, Any]:
    """All parts of a data set as arrays without objects, by key.

    ``instances`` can be read in blocks and may be in a file.
    """
    bags = record.bags
    arrays: dict[str, Any] = {"bag_offsets": bags.offsets.astype(np.int64)}
    if bags.is_sparse:
        arrays |= _csr_parts(bags.instances, "")
    elif bags.dtype == object:
        arrays["texts"] = bags.instances[:, 0]
    if record.target is not None and has_outcomes(record.target):
        fields = outcome_fields(record.target) or ()
        arrays |= {key: record.target[name] for key, name in zip(_OUTCOMES, fields, strict=True)}
    elif record.target is not None:
        arrays["y"] = record.target
    for key, names in (("feature_names", bags.feature_names), ("bag_names", bags.names)):
        if names is not None:
            arrays[key] = names
    for name in GRAPHS:
        if getattr(bags, name) is not None:
            arrays |= _csr_parts(getattr(bags, name), f"{name}_")
    data = {"instance_data": bags.instance_data, "bag_data": bags.bag_data.reset_index(drop=True)}
    for key, frame in data.items():
        if len(frame.columns) or not np.array_equal(frame.index, np.arange(len(frame))):
            arrays |= make_bags_of(arrays_of_frame, frame, key)
    arrays |= {name: record.fields[name] for name in FIELDS if name in record.fields}
    if record.descr:
        arrays["DESCR"] = np.array(record.descr)
    arrays = make_bags_of(without_objects, arrays)
    if not bags.is_sparse and bags.dtype != object:
        arrays["instances"] = bags.instance_rows
    return arrays


def record_of(arrays: dict[str, np.ndarray]) -> BagRecord:
    """The data set of the arrays of :func:`arrays_of`; unknown keys are ignored."""
    for name, values in arrays.items():
        # Python ends in an internal error for characters that do not exist.
        if values.dtype.kind == "U" and values.size:
            codes = np.frombuffer(values.astype(values.dtype.newbyteorder("=")).tobytes(), "u4")
            if codes.max(initial=0) > sys.maxunicode:
                raise ContentError(f"the texts of {name!r} are damaged; fetch the file again.")
    arrays = _of_version_0_4(with_objects(arrays))
    if "instances" in arrays:
        instances: Any = arrays["instances"]
    elif all(key in arrays for key in CSR):
        instances = _csr(arrays, "")
    elif "texts" in arrays:
        instances = arrays["texts"][:, np.newaxis]
    else:
        raise ContentError(f"{', '.join(arrays) or 'no array'} is not a set of bags; {_REMEDY}")
    if instances.dtype.kind in "iub" and instances.dtype.itemsize <= 2:
        # This is exact and needs half the memory of float64.
        instances = instances.astype(np.float32)
    bags = make_bags_of(
        Bags,
        instances,
        arrays["bag_offsets"],
        feature_names=arrays.get("feature_names"),
        names=arrays.get("bag_names"),
        **{key: _data(arrays, key) for key in _DATA if key in arrays},
        **{name: _csr(arrays, f"{name}_") for name in GRAPHS if f"{name}_data" in arrays},
    )
    target = arrays.get("y")
    if all(key in arrays for key in _OUTCOMES):
        target = make_bags_of(survival_outcomes, *(arrays[key] for key in _OUTCOMES))
    fields = {name: arrays[name] for name in FIELDS if name in arrays}
    record = BagRecord(bags, target, fields, str(arrays.get("DESCR", "")))
    make_bags_of(record.check_lengths)
    return record


def _data(arrays: dict[str, np.ndarray], key: str) -> Any:
    if key + KINDS in arrays:
        frame = frame_of_arrays(arrays, key)
        named = key == "bag_data" and "bag_names" in arrays
        return frame.set_axis(arrays["bag_names"]) if named else frame
    return {str(name): arrays[f"{key}_{at}"] for at, name in enumerate(arrays[key])}


def _of_version_0_4(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a file of an older version under the keys of this one."""
    arrays = dict(arrays)
    if "text" in arrays and "text_offsets" in arrays:
        content, offsets = arrays["text"].tobytes(), arrays["text_offsets"].tolist()
        texts = [content[i:j].decode() for i, j in pairwise(offsets)]
        arrays["texts"] = np.array(texts, dtype=object)
    for old, name in (("class_names", "classes"), ("group", "groups")):
        if old in arrays:
            arrays[name] = arrays[old]
    # Labels and groups as positions in a list of names; NaN is a missing value.
    for key, names in (("y", "class_names"), ("groups", "group_names")):
        if names in arrays and key in arrays and arrays[key].ndim == 1:
            known = ~np.isnan(arrays[key])
            places = arrays[key][known]
            if not np.isin(places, np.arange(len(arrays[names]))).all():
                n_names = len(arrays[names])
                raise ContentError(f"{key!r} holds other values than positions of {n_names} names.")
            arrays[key] = np.full(len(known), np.nan, dtype=object)
            arrays[key][known] = arrays[names][places.astype(np.intp)]
    return arrays


def _csr(arrays: dict[str, np.ndarray], prefix: str) -> sparse.csr_array:
    *content, shape = (arrays[prefix + key] for key in CSR)
    matrix = sparse.csr_array(tuple(content), shape=tuple(int(n) for n in shape))
    # Conversions in SciPy do not check indices and write outside of the arrays. SciPy's check does
    # not find decreasing pointers if the last pointer is zero, or if their difference overflows.
    matrix.check_format(full_check=True)
    if (matrix.indptr[1:] < matrix.indptr[:-1]).any():
        raise ValueError("the row pointers of a sparse matrix decrease")
    return matrix


def _csr_parts(matrix: Any, prefix: str) -> dict[str, np.ndarray]:
    parts = (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape, dtype=np.int64))
    return {prefix + key: part for key, part in zip(CSR, parts, strict=True)}


# -- .npz files ----------------------------------------------------------------------------------


def read_npz(path: Path) -> BagRecord:
    """Read the layout of :func:`write_npz`."""
    # NumPy does not close a file that it cannot read.
    with open(path, "rb") as file:
        try:
            archive: Any = np.load(file, allow_pickle=False)
            for key in archive.files:
                npz_header(archive, key)
            return record_of({key: archive[key] for key in archive.files})
        except ValueError as error:
            if "pickle" not in str(error):
                raise
            raise ContentError(
                "it holds Python objects (a pickle), which are never loaded because a pickle can "
                f"run code; {_REMEDY}"
            ) from None


def npz_header(archive: Any, name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array in an archive, without its values."""
    with archive.zip.open(f"{name}.npy") as member:
        version = min(np.lib.format.read_magic(member)[0], 2)
        shape, _, dtype = getattr(np.lib.format, f"read_array_header_{version}_0")(member)
    check_size(name, math.prod(shape), dtype, archive.zip.getinfo(f"{name}.npy").file_size)
    return shape, dtype


def check_size(name: str, n_values: int, dtype: np.dtype, n_bytes: int) -> None:
    """Raise an error for a header with more values than ``n_bytes`` of a file can hold.

    A damaged header must not allocate memory. Values of no bytes, which are empty texts, would
    otherwise be as many as the header says.
    """
    if n_values * max(dtype.itemsize, 1) > n_bytes:
        raise ContentError(f"the array {name!r} is truncated; fetch or save the file again.")


def write_npz(record: BagRecord, file: BinaryIO) -> None:
    """Write every part of a record as a compressed array."""
    arrays = arrays_of(record)
    if "instances" in arrays:
        arrays["instances"] = record.bags.instances
    np.savez_compressed(file, **arrays)
