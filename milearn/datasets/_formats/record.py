"""Record of a data set between a file and a Bunch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.bag_data import differing_row
from ..._bags.coerce import is_missing
from ..._bags.segments import group_by_id
from ..._bags.stack import first_conflict
from .._errors import ContentError
from .text import MISSING, number_text

# The optional contents of a data set, by their names in a Bunch.
BAG_FIELDS = ("bag_names", "split", "groups", "sample_weight")
INSTANCE_FIELDS = ("instance_names", "instance_labels", "instance_position")
OTHER_FIELDS = ("target_names", "group_names", "bag_links", "bag_links_instance")
FIELDS = BAG_FIELDS + INSTANCE_FIELDS + OTHER_FIELDS


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


def make_bags_of(instances: Any, offsets: Any, **options: Any) -> Bags:
    """The container, or an error about the file if its parts are invalid."""
    try:
        return Bags(instances, offsets, **options)
    except (TypeError, ValueError) as error:
        raise ContentError(str(error)) from error


def check_indices(matrix: Any, what: str) -> None:
    """Raise an error for a compressed matrix with indices out of range.

    Conversions in SciPy do not check indices and write outside of the arrays. SciPy's check does
    not find decreasing pointers if the last pointer is zero.
    """
    try:
        matrix.check_format(full_check=True)
        if (np.diff(matrix.indptr) < 0).any():
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
    in_order = bool((order[1:] > order[:-1]).all())
    first = order[offsets[:-1]]
    record = BagRecord(
        make_bags_of(
            instances if in_order else instances[order],
            offsets,
            feature_names=feature_names,
            bag_data={
                name: _constant(name, column_of(cells), codes, first, names)
                for name, cells in (bag_columns or {}).items()
            },
        )
    )
    if labels is not None:
        conflict = first_conflict(labels, codes, first)
        if conflict is not None:
            name = str(names[codes[conflict[0]]])
            raise _two_labels(name, *((labels[row], row, lines) for row in conflict))
        record.target, classes = encode_labels([labels[row] for row in first], declared)
        if classes is not None:
            record.fields["target_names"] = classes
    record.fields["bag_names"] = np.array([str(name) for name in names])
    for name, values in (row_fields or {}).items():
        record.fields[name] = values if in_order else values[order]
    return record


def _constant(
    name: str, values: np.ndarray, codes: np.ndarray, first: np.ndarray, names: Sequence[Any]
) -> np.ndarray:
    """One entry per bag of a column that is constant within each bag."""
    row = differing_row(values, codes, first)
    if row is not None:
        raise ContentError(
            f"bag {str(names[codes[row]])!r} has two entries in the column {name!r} of bag_data, "
            f"{str(values[first[codes[row]]])!r} and {str(values[row])!r}; give every instance of "
            "a bag the entry of the bag."
        )
    return values[first]


def column_of(cells: Sequence[Any]) -> np.ndarray:
    """A column of bag_data: whole numbers, numbers, in which gaps are NaN, or texts."""
    gaps = np.array([is_missing(cell) or cell == "" for cell in cells], dtype=bool)
    known = [cell for cell, gap in zip(cells, gaps, strict=True) if not gap]
    numbers = None if any(isinstance(cell, str) for cell in known) else _numbers(known)
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


def _two_labels(name: str, *rows: tuple[Any, int, Sequence[int] | None]) -> ContentError:
    first, second = (
        f"{str(label)!r} " + (f"(line {lines[row]})" if lines else f"(instance {row + 1})")
        for label, row, lines in rows
    )
    return ContentError(
        f"bag {name!r} carries two labels, {first} and {second}; give every instance of a bag the "
        "label of the bag."
    )


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
    numbers, names = _numbers(known), None
    if numbers is None or (declared is not None and _numbers(declared) is None):
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


def _numbers(labels: Sequence[Any]) -> np.ndarray | None:
    try:
        values = np.array([float(label) for label in labels], dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if not np.isfinite(values).all():
        return None
    whole = (np.abs(values) < 2**53).all() and (values == np.rint(values)).all()
    return values.astype(np.int64) if whole else values
