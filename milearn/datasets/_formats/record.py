"""Record of a data set between a file and a Bunch, and conversions common to the formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.coerce import is_missing
from ..._bags.segments import group_by_id
from ..._bags.stack import first_conflict
from .._errors import BagFileError

# The optional contents of a data set, by the name under which the Bunch shows them.
BAG_FIELDS = ("bag_names", "split", "groups", "sample_weight")
INSTANCE_FIELDS = ("instance_names", "instance_labels", "instance_position")
OTHER_FIELDS = ("target_names", "group_names", "bag_links", "bag_links_instance")
FIELDS = BAG_FIELDS + INSTANCE_FIELDS + OTHER_FIELDS

_MISSING = ("", "?")


@dataclass
class BagRecord:
    """A data set between a file and a Bunch.

    ``fields`` holds whatever of ``FIELDS`` is known.
    """

    bags: Bags
    target: np.ndarray | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    descr: str = ""

    def to_bunch(self, path: Path) -> Bunch:
        bunch = Bunch(data=self.bags, target=self.target)
        names = self.bags.feature_names
        if names is not None:
            bunch["feature_names"] = np.asarray(names, dtype=str)
        bunch.update({name: self.fields[name] for name in FIELDS if name in self.fields})
        bunch["DESCR"] = self.descr or self.describe(path)
        bunch["filename"] = str(path)
        return bunch

    def describe(self, path: Path) -> str:
        """One sentence on what the data set holds."""
        n_bags, n_features = self.bags.shape
        n_instances = self.bags.n_instances
        text = f"{path.name}: {n_bags} bags, {n_instances} instances, {n_features} features"
        return text + (", no labels." if self.target is None else ".")


def make_bags_of(path: Path, instances: Any, offsets: Any, **options: Any) -> Bags:
    """The container, with the file's name before the reason for which it refuses."""
    try:
        return Bags(instances, offsets, **options)
    except (TypeError, ValueError) as error:
        raise BagFileError(f"{path}: {error}") from error


def check_indices(path: Path, matrix: Any, what: str) -> None:
    """Refuse a compressed matrix whose indices point outside of it.

    Conversions in SciPy trust them and write wherever they point to. Its own check overlooks
    pointers that decrease when the last one says that there is no entry.
    """
    try:
        matrix.check_format(full_check=True)
        if (np.diff(matrix.indptr) < 0).any():
            raise ValueError("index pointer values must form a non-decreasing sequence")
    except ValueError as error:
        raise BagFileError(
            f"{path}: the sparse matrix of {what} is inconsistent ({error}); fetch or save the "
            "file again."
        ) from error


def group_rows(
    path: Path,
    instances: Any,
    bag_ids: Sequence[Any],
    labels: Sequence[Any] | None,
    *,
    lines: Sequence[int] | None = None,
    row_fields: dict[str, Any] | None = None,
    feature_names: Sequence[str] | None = None,
    declared: Sequence[str] | None = None,
) -> BagRecord:
    """Bags from a table with one row per instance, its rows in any order.

    Bags come in the order in which their identifiers appear first; instances keep their order.

    Parameters
    ----------
    path : Path
        Named in error messages.
    instances : array or CSR of shape (n_instances, n_features)
    bag_ids : sequence of n_instances hashable values
    labels : sequence of n_instances values or None
        The label of the instance's bag, equal within a bag.
    lines : sequence of n_instances int, default=None
        Line of each row in the file; rows are counted from 1 without it.
    row_fields : dict of arrays of length n_instances, default=None
        Further columns, put into the order of the instances.
    feature_names, declared
        Names of the columns; names of the classes in the order that the file declares.
    """
    names, codes, order, offsets = group_by_id(bag_ids)
    if not names:
        raise BagFileError(f"{path}: there is not a single instance in it; check the file.")
    in_order = bool((order[1:] > order[:-1]).all())
    target = None
    fields: dict[str, Any] = {}
    if labels is not None:
        first = order[offsets[:-1]]
        _check_labels(path, labels, codes, first, names, lines)
        target, classes = encode_labels([labels[row] for row in first], declared)
        if classes is not None:
            fields["target_names"] = classes
    fields["bag_names"] = np.array([str(name) for name in names])
    for name, values in (row_fields or {}).items():
        fields[name] = values if in_order else values[order]
    return BagRecord(
        make_bags_of(
            path,
            instances if in_order else instances[order],
            offsets,
            feature_names=feature_names,
        ),
        target,
        fields,
    )


def _check_labels(
    path: Path,
    labels: Sequence[Any],
    codes: np.ndarray,
    first: np.ndarray,
    names: list[Any],
    lines: Sequence[int] | None,
) -> None:
    conflict = first_conflict(labels, codes, first)
    if conflict is None:
        return
    place = [lines[row] if lines is not None else row + 1 for row in conflict]
    kind = "line" if lines is not None else "instance"
    start, row = conflict
    raise BagFileError(
        f"{path}: bag {str(names[codes[row]])!r} carries two labels, {str(labels[start])!r} "
        f"({kind} {place[0]}) and {str(labels[row])!r} ({kind} {place[1]}); give every "
        "instance of a bag the label of the bag."
    )


def encode_labels(
    labels: Sequence[Any], declared: Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Labels as numbers, and the names that the numbers stand for.

    Whole numbers become int64 and other numbers float64, both without names. Anything else is a
    class name: the codes 0, 1, ... follow ``declared``, else the sorted names. A missing label
    (None, NaN, an empty cell or ``?``) becomes NaN, which makes the labels float64.
    """
    missing = np.array([is_missing(label) or str(label).strip() in _MISSING for label in labels])
    known = [label for label, gap in zip(labels, missing, strict=True) if not gap]
    numbers = _numbers(known)
    if numbers is not None and declared is not None and _numbers(declared) is None:
        numbers = None
    names = None
    if numbers is None:
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
    whole = values.astype(np.int64) if (np.abs(values) < 2**53).all() else None
    return whole if whole is not None and (whole == values).all() else values


def parse_cells(
    path: Path,
    rows: Sequence[Sequence[str]],
    columns: Sequence[str],
    missing: str,
    where: Any,
) -> np.ndarray:
    """Numbers from text cells; ``where(row)`` says where in the file a row stands."""
    try:
        values = np.array(rows, dtype=np.float64).reshape(len(rows), len(columns))
    except ValueError:
        values = np.array(
            [
                [
                    _cell(path, text, name, where, row)
                    for text, name in zip(cells, columns, strict=True)
                ]
                for row, cells in enumerate(rows)
            ]
        ).reshape(len(rows), len(columns))
    if np.isfinite(values).all():
        return values
    for row, column in np.argwhere(~np.isfinite(values)):
        text = rows[row][column].strip()
        if np.isnan(values[row, column]):
            if missing == "nan":
                continue
            raise BagFileError(
                f"{path}: {where(row)}, column {columns[column]!r}: the value is missing "
                f"({text!r}); fill it in, or pass missing='nan' and impute before fitting."
            )
        raise BagFileError(
            f"{path}: {where(row)}, column {columns[column]!r}: {text!r} is not a finite number; "
            "correct it."
        )
    return values


def _cell(path: Path, text: str, name: str, where: Any, row: int) -> float:
    if text.strip() in _MISSING:
        return np.nan
    try:
        return float(text)
    except ValueError:
        raise BagFileError(
            f"{path}: {where(row)}, column {name!r}: {text.strip()!r} is not a number; correct it, "
            "or encode the column before reading."
        ) from None


def read_text(path: Path) -> str:
    """The whole file as UTF-8 text with plain newlines; an empty file is refused."""
    raw = path.read_bytes()
    if not raw.strip():
        raise BagFileError(
            f"{path}: the file is empty; if a download was interrupted, fetch it again."
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BagFileError(
            f"{path}: this is not a text file in UTF-8; check the format, or pass format=."
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def number_text(value: Any) -> str:
    """The shortest text that reads back as the same float64."""
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text


def label_texts(record: BagRecord) -> list[str]:
    """One text per bag: the class name where names are known, else the number; ``?`` is missing."""
    if record.target is None:
        return []
    names = record.fields.get("target_names")
    texts = []
    for value in record.target:
        if isinstance(value, (float, np.floating)) and np.isnan(value):
            texts.append("?")
        elif names is not None:
            texts.append(str(names[int(value)]))
        elif isinstance(value, (str, np.str_)):
            texts.append(str(value))
        else:
            texts.append(number_text(value))
    return texts


def names_of_bags(record: BagRecord) -> list[str]:
    """The bags' names, or their numbers from 0; a bag table needs them to be distinct."""
    names = record.fields.get("bag_names")
    if names is None:
        return [str(position) for position in range(len(record.bags))]
    return [str(name) for name in names]


def check_distinct(path: Path, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BagFileError(
                f"{path}: two bags have the name {name!r}, so that they would become one in this "
                "format; make bag_names distinct or save as .npz."
            )
        seen.add(name)


def feature_names_of(record: BagRecord) -> list[str]:
    names = record.bags.feature_names
    if names is None:
        return [f"f{column + 1}" for column in range(record.bags.shape[1])]
    return [str(name) for name in names]


def need_dense(path: Path, record: BagRecord, form: str) -> np.ndarray:
    if sparse.issparse(record.bags.instances):
        raise BagFileError(
            f"{path}: the format {form!r} holds dense instances only; save as .npz, .arff, .mat or "
            ".svmlight, or make the instances dense first."
        )
    return record.bags.instances


def need_labels(path: Path, record: BagRecord, form: str) -> np.ndarray:
    if record.target is None:
        raise BagFileError(
            f"{path}: the format {form!r} needs one label per bag; pass y, or save as .npz or .csv."
        )
    return record.target


def refuse_fields(path: Path, record: BagRecord, form: str, allowed: Sequence[str]) -> None:
    """A writer drops nothing silently: what its format cannot hold is an error."""
    extra = [name for name in FIELDS if name in record.fields and name not in allowed]
    extra += [
        name for name in ("bag_graph", "instance_graph") if getattr(record.bags, name) is not None
    ]
    extra += [f"instance_data[{name!r}]" for name in record.bags.instance_data]
    if extra:
        raise BagFileError(
            f"{path}: the format {form!r} cannot hold {', '.join(extra)}; leave that out or save "
            "as .npz."
        )
    if record.target is not None and record.target.ndim != 1:
        raise BagFileError(
            f"{path}: the format {form!r} holds one label per bag but y has shape "
            f"{record.target.shape}; save as .npz."
        )
