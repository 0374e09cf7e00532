"""Record of a data set between a file and a Bunch, and its layout as plain arrays in .npz files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.canonical import is_missing
from ..._bags.constructors import bags_of_texts, label_of_bags
from ..._bags.names import canonical_ids
from ..._bags.rows_on_disk import holds_text
from ..._bags.segments import offsets_of
from ..._fit.outcomes import has_outcomes, outcome_fields, survival_outcomes
from .._errors import ContentError
from .text import is_gap, number_text

# The optional contents of a data set, by their names in a Bunch.
BAG_FIELDS = ("bag_names", "split", "groups", "sample_weight")
INSTANCE_FIELDS = ("instance_names", "instance_labels")
FIELDS = (*BAG_FIELDS, *INSTANCE_FIELDS, "target_names", "group_names")
# Names of fields in the file that differ from the Bunch.
_KEYS = {"target_names": "class_names", "groups": "group"}
GRAPHS = ("bag_graph", "instance_graph")
# Events and times of outcomes of survival analysis, which are the target.
_OUTCOMES = ("y_event", "y_time")
# Keys of the names of further arrays of instances and bags, and of their numbered arrays.
_DATA = ("instance_data", "bag_data")
_CSR = ("data", "indices", "indptr", "shape")
# Bags of text: all texts in UTF-8, one after the other, and the first byte of each.
_TEXT = ("text", "text_offsets")
_REMEDY = "write bag files with milearn.datasets.save_bags."


@dataclass
class BagRecord:
    """A data set between a file and a Bunch; ``fields`` contains its optional contents."""

    bags: Bags
    target: np.ndarray | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    descr: str = ""

    def to_bunch(self, path: Path) -> Bunch:
        names = canonical_ids(self.fields.get("bag_names"), len(self.bags))
        bunch = Bunch(data=self.bags._changed(names=names), target=self.target)
        if self.bags.feature_names is not None:
            bunch["feature_names"] = np.asarray(self.bags.feature_names, dtype=str)
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

    # -- texts for text formats

    def bag_names(self) -> list[str]:
        """The names of the bags, or their numbers from 0."""
        return [str(name) for name in self.fields.get("bag_names", range(len(self.bags)))]

    def feature_names(self) -> list[str]:
        names = self.bags.feature_names
        if names is None:
            return [f"f{column + 1}" for column in range(self.bags.shape[1])]
        return [str(name) for name in names]

    def label_texts(self) -> list[str]:
        """One text per bag: the name of its class or the number; ``?`` is missing."""
        names = self.fields.get("target_names")
        texts = []
        for value in [] if self.target is None else self.target:
            if is_missing(value):
                texts.append("?")
            elif names is not None:
                texts.append(str(names[int(value)]))
            else:
                texts.append(str(value) if isinstance(value, str) else number_text(value))
        return texts

    # -- labels and lengths

    def set_labels(self, labels: Sequence[Any], declared: Sequence[str] | None = None) -> None:
        """Store the labels of the bags as they are in a table."""
        self.target, names = encode_labels(labels, declared)
        if names is not None:
            self.fields["target_names"] = names

    def check_lengths(self) -> None:
        """Raise an error for labels or a field that do not fit the bags or instances."""
        lengths = dict.fromkeys(("y", *BAG_FIELDS), len(self.bags))
        lengths |= dict.fromkeys(INSTANCE_FIELDS, self.bags.n_instances)
        parts = self.fields | {"y": self.target}
        for name, n in lengths.items():
            values = parts.get(name)
            if values is not None and values.shape[:1] != (n,):
                raise ValueError(f"{name} has shape {values.shape} but {n} entries are needed.")


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


def check_indices(matrix: Any) -> None:
    """Raise an error for a compressed matrix with indices out of range.

    Conversions in SciPy do not check indices and write outside of the arrays. SciPy's check does
    not find decreasing pointers if the last pointer is zero, or if their difference overflows.
    """
    matrix.check_format(full_check=True)
    if (matrix.indptr[1:] < matrix.indptr[:-1]).any():
        raise ValueError("the row pointers of a sparse matrix decrease")


def group_rows(
    instances: Any,
    bag_ids: Sequence[Any],
    labels: Any = None,
    *,
    row_fields: dict[str, np.ndarray] | None = None,
    feature_names: Sequence[str] | None = None,
    bag_data: dict[str, Any] | None = None,
) -> BagRecord:
    """Bags from a table with one row per instance, its rows in any order.

    Bags come in the order in which their identifiers appear first; instances keep their order.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features)
    bag_ids : sequence of n_instances hashable values
    labels : array-like of shape (n_instances,) or None
        The label of the instance's bag, equal within a bag.
    row_fields : dict of arrays of length n_instances, default=None
        Fields of the instances, which are sorted like these.
    feature_names : sequence of str, default=None
    bag_data : dict of arrays of length n_instances, default=None
        Columns of ``bag_data``, which are constant within each bag.
    """
    bags, ids = make_bags_of(
        Bags.from_ids,
        instances,
        bag_ids,
        return_ids=True,
        feature_names=feature_names,
        instance_data=row_fields,
        bag_data=bag_data,
    )
    fields = {"bag_names": np.array([str(name) for name in ids]), **bags.instance_data}
    record = BagRecord(bags._changed(instance_data={}), fields=fields)
    if labels is not None:
        cells = np.asarray(labels, dtype=object)
        record.set_labels(make_bags_of(label_of_bags, cells, bag_ids))
    return record


def column_of(cells: Sequence[Any]) -> np.ndarray:
    """A column of bag_data: whole numbers, numbers, in which gaps are NaN, or texts."""
    gaps = np.array([is_gap(cell) for cell in cells], dtype=bool)
    known = [cell for cell, gap in zip(cells, gaps, strict=True) if not gap]
    numbers = None if any(isinstance(cell, str) for cell in known) else as_numbers(known)
    if numbers is None or not known:
        texts = ["" if gap else str(cell) for cell, gap in zip(cells, gaps, strict=True)]
        return np.array(texts, dtype=str)
    if not gaps.any():
        return numbers
    filled = np.full(len(cells), np.nan)
    filled[~gaps] = numbers
    return filled


def encode_labels(
    labels: Sequence[Any], declared: Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Labels as numbers, and the names of the numbers.

    Whole numbers become int64 and other numbers float64, both without names. Anything else is a
    class name, with codes 0, 1, ... in the order of ``declared`` or of the sorted names. A missing
    label (None, NaN, an empty cell or ``?``) becomes NaN, which makes the labels float64.
    """
    missing = np.array([is_gap(label) for label in labels], dtype=bool)
    known = [label for label, gap in zip(labels, missing, strict=True) if not gap]
    numbers, names = as_numbers(known), None
    if numbers is None or (declared is not None and as_numbers(declared) is None):
        texts = [str(label) for label in known]
        listed = list(declared) if declared is not None else sorted(set(texts))
        position = {name: code for code, name in enumerate(listed)}
        for text in texts:
            if text not in position:
                raise ContentError(f"y holds {text!r}, which is not among target_names.")
        numbers = np.array([position[text] for text in texts], dtype=np.int64)
        names = np.array(listed, dtype=str)
    if not missing.any():
        return numbers, names
    target = np.full(len(labels), np.nan)
    target[~missing] = numbers
    return target, names


def as_numbers(labels: Sequence[Any]) -> np.ndarray | None:
    try:
        values = np.array([float(label) for label in labels], dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if not np.isfinite(values).all():
        return None
    whole = (np.abs(values) < 2**53).all() and (values == np.rint(values)).all()
    return values.astype(np.int64) if whole else values


# -- arrays --------------------------------------------------------------------------------------


def record_of(arrays: dict[str, np.ndarray]) -> BagRecord:
    """The data set of the arrays of :func:`arrays_of`; unknown keys are ignored."""
    texts = None
    if "instances" in arrays:
        instances: Any = arrays["instances"]
    elif all(key in arrays for key in _CSR):
        instances = _csr(arrays, "")
    elif all(key in arrays for key in _TEXT):
        content, offsets = arrays["text"].tobytes(), arrays["text_offsets"].tolist()
        texts = [content[i:j].decode() for i, j in pairwise(offsets)]
        instances = np.zeros((len(texts), 1))
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
        **{
            key: {str(name): arrays[f"{key}_{at}"] for at, name in enumerate(arrays.get(key, ()))}
            for key in _DATA
        },
        **{name: _csr(arrays, f"{name}_") for name in GRAPHS if f"{name}_data" in arrays},
    )
    if texts is not None:
        bags = bags_of_texts(bags, texts)
    fields = {name: arrays[key] for name in FIELDS if (key := _KEYS.get(name, name)) in arrays}
    target = arrays.get("y")
    if all(key in arrays for key in _OUTCOMES):
        target = make_bags_of(survival_outcomes, *(arrays[key] for key in _OUTCOMES))
    record = BagRecord(bags, target, fields, str(arrays.get("DESCR", "")))
    make_bags_of(record.check_lengths)
    return record


def _csr(arrays: dict[str, np.ndarray], prefix: str) -> sparse.csr_array:
    *content, shape = (arrays[prefix + key] for key in _CSR)
    matrix = sparse.csr_array(tuple(content), shape=tuple(int(n) for n in shape))
    check_indices(matrix)
    return matrix


def _text_parts(bags: Bags) -> dict[str, np.ndarray]:
    try:
        parts = [str(text).encode() for text in bags.instances[:, 0]]
    except UnicodeEncodeError as error:
        raise ContentError(f"a text holds half a character ({error}); correct it.") from error
    content = np.frombuffer(b"".join(parts), dtype=np.uint8)
    return dict(zip(_TEXT, (content, offsets_of([len(part) for part in parts])), strict=True))


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
    for name in GRAPHS:
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


def write_npz(path: Path, record: BagRecord, file: BinaryIO) -> None:
    """Write every part of a record as a compressed array."""
    arrays = arrays_of(record)
    if "instances" in arrays:
        arrays["instances"] = record.bags.instances
    np.savez_compressed(file, **arrays)
