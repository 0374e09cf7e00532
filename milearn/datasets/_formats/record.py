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
from ..._bags.annotations import differing_row
from ..._bags.canonical import is_missing
from ..._bags.constructors import bags_of_texts
from ..._bags.rows_on_disk import holds_text
from ..._bags.segments import group_by_id, offsets_of
from ..._fit.outcomes import has_outcomes, outcome_fields, survival_outcomes
from .._errors import ContentError
from .text import MISSING, check_not_empty, number_text

# The optional contents of a data set, by their names in a Bunch.
BAG_FIELDS = ("bag_names", "split", "groups", "sample_weight")
INSTANCE_FIELDS = ("instance_names", "instance_labels", "instance_position")
OTHER_FIELDS = ("target_names", "group_names", "bag_links", "bag_links_instance")
FIELDS = BAG_FIELDS + INSTANCE_FIELDS + OTHER_FIELDS
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
REMEDY = "write bag files with milearn.datasets.save_bags."


@dataclass
class BagRecord:
    """A data set between a file and a Bunch; ``fields`` contains its optional contents."""

    bags: Bags
    target: np.ndarray | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    descr: str = ""

    def to_bunch(self, path: Path) -> Bunch:
        bunch = Bunch(data=self.bags, target=self.target)
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

    def bag_numbers(self) -> np.ndarray:
        """The names of the bags as integers, or their numbers from 1."""
        if "bag_names" not in self.fields:
            return np.arange(1, len(self.bags) + 1)
        texts = self.bag_names()
        if not all(text.isdecimal() for text in texts) or len(set(texts)) != len(texts):
            raise ContentError(
                "this format numbers its bags, but bag_names are not distinct whole numbers; leave "
                "bag_names out or save as .npz."
            )
        return np.array([int(text) for text in texts])


def float_type(dtype: Any) -> np.dtype:
    """A type of instances that a user asks for."""
    if np.dtype(dtype) not in (np.float64, np.float32, np.float16):
        raise ValueError(f"dtype={dtype!r} is not supported; choose float64, float32 or float16.")
    return np.dtype(dtype)


def make_bags_of(make: Callable[..., Bags], /, *parts: Any, **options: Any) -> Bags:
    """The container, or an error about the file if its parts are invalid."""
    try:
        return make(*parts, **options)
    except (TypeError, ValueError) as error:
        raise ContentError(str(error)) from error


def check_indices(matrix: Any, what: str) -> None:
    """Raise an error for a compressed matrix with indices out of range.

    Conversions in SciPy do not check indices and write outside of the arrays. SciPy's check does
    not find decreasing pointers if the last pointer is zero, or if their difference overflows.
    """
    try:
        matrix.check_format(full_check=True)
        if (matrix.indptr[1:] < matrix.indptr[:-1]).any():
            raise ValueError("index pointer values must form a non-decreasing sequence")
    except ValueError as error:
        raise inconsistent(what, error) from error


def inconsistent(what: str, error: Exception) -> ContentError:
    return ContentError(
        f"the sparse matrix of {what} is inconsistent ({error}); fetch or save the file again."
    )


def group_rows(
    instances: Any,
    bag_ids: Sequence[Any],
    labels: Sequence[Any] | None,
    *,
    lines: Sequence[int] | None = None,
    row_fields: dict[str, Any] | None = None,
    feature_names: Sequence[str] | None = None,
    declared: Sequence[str] | None = None,
    bag_columns: dict[str, Sequence[Any]] | None = None,
) -> BagRecord:
    """Bags from a table with one row per instance, its rows in any order.

    Bags come in the order in which their identifiers appear first; instances keep their order.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features)
    bag_ids : sequence of n_instances hashable values
    labels : sequence of n_instances values or None
        The label of the instance's bag, equal within a bag.
    lines : sequence of n_instances int, default=None
        Line of each row in the file; by default, rows are counted from 1.
    row_fields : dict of arrays of length n_instances, default=None
        Further columns, which are sorted like the instances.
    feature_names, declared
        Names of the columns; names of the classes in the order of the file.
    bag_columns : dict of sequences of length n_instances, default=None
        Columns of ``bag_data``, which are constant within each bag.
    """
    names, codes, order, offsets = group_by_id(bag_ids)
    if not names:
        raise ContentError("there is not a single instance in it; check the file.")
    first = order[offsets[:-1]]
    record = BagRecord(
        make_bags_of(
            Bags.from_ids,
            instances,
            bag_ids,
            feature_names=feature_names,
            bag_data={name: column_of(cells) for name, cells in (bag_columns or {}).items()},
        )
    )
    if labels is not None:
        row = differing_row(np.array(labels, dtype=object), codes, first)
        if row is not None:
            start = first[codes[row]]
            places = [
                f"(line {lines[at]})" if lines else f"(instance {at + 1})" for at in (start, row)
            ]
            raise ContentError(
                f"bag {str(names[codes[row]])!r} carries two labels, {str(labels[start])!r} "
                f"{places[0]} and {str(labels[row])!r} {places[1]}; give every instance of a bag "
                "the label of the bag."
            )
        record.target, classes = encode_labels([labels[row] for row in first], declared)
        if classes is not None:
            record.fields["target_names"] = classes
    record.fields["bag_names"] = np.array([str(name) for name in names])
    for name, values in (row_fields or {}).items():
        record.fields[name] = values[order]
    return record


def column_of(cells: Sequence[Any]) -> np.ndarray:
    """A column of bag_data: whole numbers, numbers, in which gaps are NaN, or texts."""
    gaps = np.array([is_missing(cell) or cell == "" for cell in cells], dtype=bool)
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


def read_numbers(cells: Sequence[str]) -> Sequence[Any]:
    """Cells of a text file as numbers, and empty ones as None, if all others are numbers."""
    try:
        return [float(cell) if cell.strip() else None for cell in cells]
    except ValueError:
        return cells


def encode_labels(
    labels: Sequence[Any], declared: Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Labels as numbers, and the names of the numbers.

    Whole numbers become int64 and other numbers float64, both without names. Anything else is a
    class name, with codes 0, 1, ... in the order of ``declared`` or of the sorted names. A missing
    label (None, NaN, an empty cell or ``?``) becomes NaN, which makes the labels float64.
    """
    missing = np.array([is_missing(label) or str(label).strip() in MISSING for label in labels])
    known = [label for label, gap in zip(labels, missing, strict=True) if not gap]
    numbers, names = as_numbers(known), None
    if numbers is None or (declared is not None and as_numbers(declared) is None):
        texts = [str(label) for label in known]
        listed = list(declared) if declared is not None else sorted(set(texts))
        position = {name: code for code, name in enumerate(listed)}
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
            f"({', '.join(sorted(arrays)) or 'none'}); {REMEDY}"
        )
    if "bag_offsets" not in arrays:
        raise ContentError(
            f"the array 'bag_offsets' is missing, so that the bags are unknown; {REMEDY}"
        )
    graphs = {name: _csr(arrays, f"{name}_", name) for name in _GRAPHS if f"{name}_data" in arrays}
    if instances.dtype.kind in "iub" and instances.dtype.itemsize <= 2:
        # This is exact and needs half the memory of float64.
        instances = instances.astype(np.float32)
    bags = make_bags_of(
        Bags,
        instances,
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
    target = arrays.get("y")
    if all(key in arrays for key in _OUTCOMES):
        try:
            target = survival_outcomes(*(arrays[key] for key in _OUTCOMES))
        except ValueError as error:
            raise ContentError(f"the outcomes are wrong ({error}); save the file again.") from error
    return BagRecord(bags, target, fields, str(arrays.get("DESCR", "")))


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
        f"{REMEDY}"
    )


# -- .npz files ----------------------------------------------------------------------------------


def read_npz(path: Path) -> BagRecord:
    """Read the layout of :func:`write_npz`."""
    check_not_empty(path.stat().st_size)
    with open(path, "rb") as file:
        start = file.read(6)
        if start[:1] == b"\x80":
            raise pickled("the file holds")
        if start == b"\x93NUMPY":
            raise ContentError(f"this is a single array (.npy), not an .npz archive; {REMEDY}")
        file.seek(0)
        arrays: dict[str, np.ndarray] = {}
        try:
            # zipfile and NumPy raise exceptions of any kind for damaged files (an unknown
            # compression, a header that is not a Python literal, a missing password).
            if start[:2] != b"PK":
                raise ValueError("no zip archive")
            with np.load(file, allow_pickle=False) as archive:
                for key in archive.files:
                    if f"{key}.npy" not in archive.zip.namelist():
                        raise ContentError(f"the member {key!r} is not an array; {REMEDY}")
                    npz_header(archive, key)
                    arrays[key] = archive[key]
                    check_unicode(arrays[key])
        except (ContentError, MemoryError):
            raise
        except Exception as error:
            raise ContentError(
                "the .npz archive cannot be read; it is truncated or not an .npz file, fetch or "
                "save it again."
            ) from error
    return record_of(arrays)


def npz_header(archive: Any, name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array in an archive, without its values."""
    with archive.zip.open(f"{name}.npy") as member:
        old = np.lib.format.read_magic(member) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    if dtype.hasobject:
        raise pickled(f"the array {name!r} holds")
    # A damaged header must not allocate memory for more values than the archive contains.
    size = archive.zip.getinfo(f"{name}.npy").file_size
    if dtype.itemsize < 1 or math.prod(shape) * dtype.itemsize > size:
        raise ContentError(f"the array {name!r} is truncated; fetch or save the file again.")
    return shape, dtype


def check_unicode(values: np.ndarray) -> None:
    """Raise an error for invalid Unicode text, which would fail later."""
    if values.dtype.kind == "U":
        for start in range(0, values.size, 2**20):
            values.reshape(-1)[start : start + 2**20].tolist()


def write_npz(path: Path, record: BagRecord, file: BinaryIO) -> None:
    """Write every part of a record as a compressed array."""
    arrays = arrays_of(record)
    if "instances" in arrays:
        arrays["instances"] = record.bags.instances
    np.savez_compressed(file, **arrays)
