"""Record of a data set between a file and a Bunch, and its layout as plain arrays in .npz files."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.canonical import check_length, number
from ..._bags.constructors import bags_of_texts, label_of_bags
from ..._bags.kinds import is_missing
from ..._bags.names import bag_text, canonical_ids
from ..._bags.rows_on_disk import holds_text
from ..._bags.segments import offsets_of
from ..._fit.outcomes import has_outcomes, outcome_fields, survival_outcomes
from ..._fit.warn import warn_user
from .._errors import ContentError
from .text import is_gap, number_text, quoted_names

# The optional contents of a data set, by their names in a Bunch.
BAG_FIELDS = ("bag_names", "split", "groups", "sample_weight")
INSTANCE_FIELDS = ("instance_names", "instance_labels")
FIELDS = (*BAG_FIELDS, *INSTANCE_FIELDS, "classes")
# Names of fields in the file that differ from the Bunch.
_KEYS = {"classes": "class_names", "groups": "group"}
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
        """The text of each label; ``?`` is missing."""
        labels = [] if self.target is None else self.target.tolist()
        return ["?" if is_missing(label) else label_text(label) for label in labels]

    # -- labels and lengths

    def set_labels(self, labels: Sequence[Any], *options: Any) -> None:
        """Store the labels of the bags, see :func:`as_labels`."""
        self.target, classes = as_labels(labels, *options)
        if classes is not None:
            self.fields["classes"] = classes

    def codes(self) -> Any:
        """The labels as positions in ``classes``, as files hold them; others as they are."""
        target: Any = self.target
        if "classes" not in self.fields or target.ndim != 1:
            return target
        code_of = {label: code for code, label in enumerate(self.fields["classes"].tolist())}
        return np.array([np.nan if is_missing(y) else code_of[y] for y in target.tolist()])

    def check_lengths(self) -> None:
        """Raise an error for labels or a field that do not fit the bags or instances."""
        lengths = dict.fromkeys(("y", *BAG_FIELDS), len(self.bags))
        lengths |= dict.fromkeys(INSTANCE_FIELDS, self.bags.n_instances)
        parts = self.fields | {"y": self.target}
        for name, n in lengths.items():
            values = parts.get(name)
            if values is not None:
                check_length(name, values, n, "instance" if name in INSTANCE_FIELDS else "bag")


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


def warn_of_zeros(bags: Bags) -> None:
    """Warn if some instances, but not all of their bag, consist of zeros."""
    if bags.is_sparse or holds_text(bags) or bags.shape[1] < 2:
        return
    rows = np.flatnonzero(bags.instances[:, 0] == 0)
    rows = rows[~bags.instances[rows].any(axis=1)]
    among_others = np.bincount(bags.bag_index[rows], minlength=len(bags)) < bags.sizes
    rows = rows[among_others[bags.bag_index[rows]]]
    if len(rows):
        warn_user(
            f"{len(rows)} of {bags.n_instances} instances consist of zeros, the first in "
            f"{bag_text(bags, bags.bag_index[rows[0]])}. If they stand for failures, such as "
            "conformers that were not found, leave them out by "
            "X.select_instances(X.instances.any(axis=1)).",
            UserWarning,
        )


def group_rows(
    instances: Any,
    bag_ids: Sequence[Any],
    labels: Any = None,
    *,
    row_fields: dict[str, np.ndarray] | None = None,
    feature_names: Sequence[str] | None = None,
    bag_data: dict[str, Any] | None = None,
    classes: np.ndarray | None = None,
    label_column: str = "label",
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
    classes : ndarray, default=None
        See :func:`as_labels`.
    label_column : str, default="label"
        For messages.
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
        record.set_labels(
            make_bags_of(label_of_bags, cells, bag_ids),
            classes,
            lambda bag: f"bag {str(ids[bag])!r}, column {label_column!r}",
        )
    return record


# What a message calls a position of a column.
Place = Callable[[int], str]


def column_of(cells: Sequence[Any], place: Place) -> np.ndarray:
    """A column of bag_data: whole numbers, numbers, in which gaps are NaN, or texts."""
    known = np.array([not is_gap(cell) for cell in cells], dtype=bool)
    some = [*compress(cells, known)]
    numbers = _numbers(some, np.flatnonzero(known), place)
    if numbers is not None and some and not any(isinstance(cell, str) for cell in some):
        return _with_gaps(numbers, known)
    column = np.full(len(cells), "", dtype=object)
    column[known] = [*map(str, some)]
    return column.astype(str)


def as_labels(
    labels: Sequence[Any], classes: np.ndarray | None = None, place: Place | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Labels as they are written, and all classes in their order.

    Whole numbers become int64 and other numbers float64, also if a table has them as texts;
    anything else is text. A missing label (None, NaN, an empty cell or ``?``) becomes NaN. The
    classes are the declared ones, the sorted texts, or None for numbers. If texts are declared, all
    labels are texts.
    """
    place = place or (lambda at: f"label {at + 1}")
    known = np.array([not is_gap(label) for label in labels], dtype=bool)
    rows, some = np.flatnonzero(known), [*compress(labels, known)]
    values: Any = None
    if classes is None or classes.dtype.kind != "U":
        remedy = ", or declare all labels as texts by classes=" if classes is None else ""
        values = _numbers(some, rows, place, remedy)
    if values is None:
        values = np.array([label_text(label) for label in some], dtype=str)
        classes = np.unique(values) if classes is None else classes
    if classes is not None:
        for at in np.flatnonzero(~np.isin(values, classes))[:1]:
            listed = quoted_names(classes.tolist())
            raise ContentError(
                f"{place(rows[at])}: {values[at].item()!r} is not among the classes {listed}."
            )
    return _with_gaps(values, known), classes


def declared_classes(classes: Any) -> np.ndarray | None:
    """The classes that a user declares, as an array of texts or of numbers."""
    if classes is None:
        return None
    array = np.asarray(classes)
    array = array.astype(str) if array.dtype.kind in "OSU" else array
    if array.ndim != 1 or array.dtype.kind not in "Uiufb" or len(np.unique(array)) < len(array):
        raise ValueError(f"classes={classes!r} must be a list of different texts or numbers.")
    return array


def _numbers(
    cells: list[Any], rows: np.ndarray, place: Place, remedy: str = ""
) -> np.ndarray | None:
    """The cells as numbers, None for texts, or an error if all but one word are numbers."""
    numbers = as_numbers(cells)
    if numbers is None:
        texts = [str(cell) for cell in cells]
        distinct = dict.fromkeys(texts)
        words = [text for text in distinct if as_numbers([text]) is None]
        truth = [text for text in words if text.lower() in ("true", "false")]
        if truth == words and len(truth) < len(distinct):
            other = next(text for text in distinct if text not in words)
            raise ContentError(
                f"{place(rows[texts.index(truth[0])])}: {truth[0]!r} is in a column with "
                f"{other!r}; write each value in one way, such as 0 and 1 for False and True."
            )
        if len(words) == 1 < len(distinct):
            raise ContentError(
                f"{place(rows[texts.index(words[0])])}: {words[0]!r} is the only word in a column "
                f"of numbers; correct it, or leave the cell empty if the value is missing{remedy}."
            )
    return numbers


def _with_gaps(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The known values at their places, and NaN at the others."""
    if known.all():
        return values
    filled = np.full(len(known), np.nan, dtype=object if values.dtype.kind == "U" else float)
    filled[known] = values
    return filled


def label_text(label: Any) -> str:
    if isinstance(label, bytes):
        return label.decode()
    return number_text(label) if isinstance(label, float) else str(label)


def as_numbers(labels: Sequence[Any]) -> np.ndarray | None:
    try:
        values = np.array([number(label) for label in labels], dtype=np.float64)
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
    for name, values in arrays.items():
        # Python ends in an internal error for characters that do not exist.
        if values.dtype.kind == "U" and values.size:
            codes = np.frombuffer(values.astype(values.dtype.newbyteorder("=")).tobytes(), "u4")
            if codes.max(initial=0) > sys.maxunicode:
                raise ContentError(f"the texts of {name!r} are damaged; fetch the file again.")
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
    target = _decoded("y", arrays.get("y"), fields.get("classes"))
    if "group_names" in arrays:  # of files of before version 0.4
        fields["groups"] = _decoded("group", fields.get("groups"), arrays["group_names"])
    if all(key in arrays for key in _OUTCOMES):
        target = make_bags_of(survival_outcomes, *(arrays[key] for key in _OUTCOMES))
    record = BagRecord(bags, target, fields, str(arrays.get("DESCR", "")))
    make_bags_of(record.check_lengths)
    return record


def _decoded(key: str, codes: Any, names: np.ndarray | None) -> Any:
    """The values that a file holds as positions in ``names``; NaN is a missing value."""
    if codes is None or names is None or codes.ndim != 1:
        return codes
    known = np.array([not is_missing(code) for code in codes.tolist()], dtype=bool)
    places = codes[known]
    if not np.isin(places, np.arange(len(names))).all():
        raise ContentError(f"{key!r} holds other values than the positions of {len(names)} names.")
    return _with_gaps(names[places.astype(np.intp)], known)


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
        arrays["y"] = record.codes()
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
