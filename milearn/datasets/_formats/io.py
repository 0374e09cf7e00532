"""Reading and writing of all file formats: ``load_bags`` and ``save_bags``."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.annotations import bag_columns
from ..._bags.canonical import MISSING, check_choice
from ..._bags.kinds import ordered_categories
from ..._bags.rows_on_disk import LazyRows, converted, holds_text
from ..._fit.outcomes import has_outcomes
from ..._fit.validation import check_order
from .._errors import ContentError, file_name_in_errors
from .arff import read_arff, write_arff
from .mat import read_mat
from .npy_folder import check_parent, is_npy_folder, read_npy_folder, write_npy_folder
from .record import (
    BAG_FIELDS,
    FIELDS,
    GRAPHS,
    BagRecord,
    as_labels,
    as_numbers,
    declared_classes,
    float_type,
    label_text,
    read_npz,
    warn_of_zeros,
    write_npz,
)
from .svmlight import read_svmlight
from .table import read_table, write_csv, write_parquet
from .text import is_gap


@dataclass(frozen=True)
class Format:
    """Reader, writer, options and limits of a format."""

    read: Callable[..., BagRecord]
    # Called with the path, the record, and an open file for the path.
    write: Callable[..., None] | None = None
    suffixes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of load_bags
    start: bytes | None = None  # of the files; of an npy-folder, which is none, None
    inside: bytes | None = None  # of text, somewhere in the first kilobytes
    holds: Set[str] | None = None  # of what _special names; None for everything


_COLUMNS = ("bag", "label", "instance", "instance_label", "bag_data", "classes", "missing")
_IN_TABLES = {"classes", "instance_names", "instance_labels", "bag_data", "no labels"}
_IN_ARFF = {"classes", "sample_weight", "sparse instances"}
_read_tsv, _write_tsv = partial(read_table, delimiter="\t"), partial(write_csv, delimiter="\t")
_read_parquet = partial(read_table, kind="parquet")
_SPARSE_TEXT = (".svmlight", ".libsvm", ".svm")
FORMATS = {
    "npz": Format(read_npz, write_npz, (".npz",), start=b"PK"),
    "npy-folder": Format(read_npy_folder, options=("mmap",)),
    "csv": Format(read_table, write_csv, (".csv",), (*_COLUMNS, "delimiter"), holds=_IN_TABLES),
    "tsv": Format(_read_tsv, _write_tsv, (".tsv",), _COLUMNS, holds=_IN_TABLES),
    "parquet": Format(
        _read_parquet, write_parquet, (".parquet", ".pq"), _COLUMNS, b"PAR1",
        holds=_IN_TABLES | {"texts"},
    ),
    "arff": Format(
        read_arff, write_arff, (".arff",), ("missing",), inside=b"@relation", holds=_IN_ARFF
    ),
    "mat": Format(read_mat, suffixes=(".mat",), start=b"MATLAB 5.0"),
    "svmlight": Format(
        read_svmlight, None, _SPARSE_TEXT, ("n_features", "zero_based"), inside=b" qid:"
    ),
}  # fmt: skip


def _special(record: BagRecord) -> list[str]:
    """The parts of a data set that not every format holds."""
    bags, names = record.bags, record.bag_names()
    target: Any = record.target
    text = holds_text(bags)
    values = bags.instances.data if bags.is_sparse else bags.instances
    is_real = target is not None and target.dtype.kind == "f"
    labels = [] if target is None or has_outcomes(target) else target.ravel().tolist()
    found = {
        **{name: name in record.fields for name in FIELDS if name != "bag_names"},
        **{name: getattr(bags, name) is not None for name in GRAPHS},
        "instance_data": bags.instance_data,
        "bag_data": bags.bag_data,
        "bag_data of several dimensions": any(v.ndim > 1 for v in bags.bag_data.values()),
        "sparse instances": bags.is_sparse,
        "texts": text,
        "infinite values": not text and np.isinf(values).any(),
        "no labels": target is None,
        "several labels per bag": target is not None and target.ndim != 1,
        "outcomes of survival analysis": has_outcomes(target),
        "infinite labels": is_real and np.isinf(target).any(),
        "texts as labels that read as numbers or missing": any(
            y in MISSING or as_numbers([y]) is not None for y in labels if isinstance(y, str)
        ),
        "bags of the same name": len(set(names)) < len(names),
    }
    return [part for part, is_there in found.items() if is_there]


SUFFIXES = {suffix: name for name, form in FORMATS.items() for suffix in form.suffixes}


def format_of(path: Path, asked: str | None, *, reading: bool) -> str:
    """The name of the format: the given one, by the suffix, or by the content of the file."""
    if asked is not None:
        check_choice("format", asked, FORMATS)
        return asked
    if reading and is_npy_folder(path):
        return "npy-folder"
    if path.suffix.lower() in SUFFIXES:
        return SUFFIXES[path.suffix.lower()]
    head = b""
    if reading:
        with open(path, "rb") as file:
            head = file.read(4096)
    for name, form in FORMATS.items():
        inside = form.inside and form.inside in head.lower()
        if inside or (form.start and head.startswith(form.start)):
            return name
    if reading and path.suffix.lower() in (".h5", ".hdf5", ".npy", ".pt"):
        raise ContentError("this is the file of one bag; read it by load_bag_folder.")
    raise ContentError(
        f"the format cannot be determined by the suffix {path.suffix!r}"
        f"{' or the content' if reading else ''}; pass format= as one of {', '.join(FORMATS)}."
    )


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of a path, and rename it at the end.

    If the block raises an error, the path is not changed and the temporary file is removed. Readers
    see the old file or the complete new one, and two writers do not interfere.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_bags(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    return_X_y: bool = False,
    dtype: Any = None,
    as_sparse: bool | None = None,
    bag: str | None = None,
    label: str | None = None,
    instance: str | None = None,
    instance_label: str | None = None,
    bag_data: Sequence[str] | None = None,
    classes: Any = None,
    missing: str | None = None,
    delimiter: str | None = None,
    n_features: int | None = None,
    zero_based: bool | str | None = None,
    mmap: bool = False,
) -> Any:
    """Read bags from a file, or from a folder of arrays.

    ========== ==================== ==============================================================
    format     suffix               content
    ========== ==================== ==============================================================
    npz        .npz                 the layout of :func:`save_bags`; supports everything
    npy-folder (a folder)           the same as .npy files, which can be memory-mapped
    csv, tsv   .csv, .tsv           one row per instance, a header line, a column with the bag
    parquet    .parquet, .pq        the same table, or one column of text
    arff       .arff                WEKA: the name of the bag, a relational attribute, the label
    mat        .mat                 Andrews' MATLAB files: features, bag_ids, labels
    svmlight   .svmlight, .libsvm,  ``label qid:bag index:value``, and Andrews'
               .svm                 ``instance:bag:label index:value``
    ========== ==================== ==============================================================

    Tables are read by pandas, so that a file gives the same bags as its data frame.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    path : path-like
        The file or folder.
    format : str, default=None
        One of the formats above; by default, it is determined by the suffix or the content.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    dtype : {float64, float32, float16}, default=None
        Type of the instances, float16 only for dense ones; by default, the type in the file
        (float64 for text).
    as_sparse : bool, default=None
        CSR instances (True), dense instances (False), or as stored in the file (None).
    bag, label, instance, instance_label : str, default=None
        For csv, tsv and parquet: names of the columns with the bag, its label, the name of the
        instance and its label. The default is the name of the parameter, in any case, such as
        ``Label``; all except ``bag`` may be absent.
    bag_data : sequence of str, default=None
        For csv, tsv and parquet: names of columns that are constant within each bag and become
        ``data.bag_data`` instead of features. Columns whose names start with ``bag_data:``, as
        :func:`save_bags` writes them, do so without being named. An empty cell is NaN in a column
        of numbers.
    classes : array-like of str or of numbers, default=None
        All classes in their order, of which every label must be one. Texts make texts of all
        labels. By default, labels are as in the file.
    missing : {"error", "nan"}, default="error"
        For csv, tsv, parquet and arff: whether a missing feature value is an error or becomes NaN.
        In csv and tsv empty cells, ``?``, and the words that :func:`pandas.read_csv` takes as
        missing, such as ``NA``, are missing, also in ``bag_data`` and, of parquet too, in labels
        (unless ``classes`` has the word). Estimators do not support NaN, so the data have to be
        imputed first.
    delimiter : str, default=","
        For csv.
    n_features : int, default=None
        For svmlight: number of columns, if the file does not contain it and the last columns are
        empty.
    zero_based : bool or "auto", default="auto"
        For svmlight: whether columns are counted from 0; "auto" checks whether a 0 occurs.
    mmap : bool, default=False
        For npy-folder: map the files into memory instead of loading them. Data are read when they
        are used, and then converted to ``dtype``. Worker processes share the files, and pickles of
        the bags refer to them by their path. The files must exist, unchanged, as long as the bags
        or their pickles are used. Not with ``as_sparse``, and not with ``dtype`` of sparse
        instances.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or (Bags, ndarray)
        ``data`` : :class:`~milearn.Bags`; ``target`` : ndarray of shape (n_bags,), (n_bags,
        n_labels), or None if the file has no labels. Labels are numbers (int64 for integers) or
        texts, as they are written; a missing label is NaN, among texts in an array of objects. If
        they are known: ``classes``, the sorted texts or what was declared, ``feature_names``,
        ``bag_names``, ``instance_names``, ``instance_labels``, ``split``, ``groups``,
        ``sample_weight``. Always ``DESCR`` and ``filename``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    BagFileError
        A ValueError: if the file is empty, truncated, of an unknown format, inconsistent, or
        contains a pickle. Pickles are never loaded.
    ImportError
        For csv and tsv without pandas, and for parquet without pandas or pyarrow.

    Warns
    -----
    UserWarning
        If some dense instances consist of zeros.

    See Also
    --------
    load_bag_folder : Read a folder with one file per bag.
    save_bags : Write bags to a file.

    Notes
    -----
    In ARFF, a nominal attribute of the instances whose values are all numbers is read as these
    numbers; any other nominal attribute becomes a 0/1 column for each value, named
    ``attribute=value``.

    Examples
    --------
    >>> import os, tempfile
    >>> from milearn.datasets import load_bags
    >>> text = "bag,label,width,height\\nbox,1,2.5,3\\nbox,1,4,1\\ncan,0,0,7\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "things.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write(text)
    ...     things = load_bags(path)
    >>> things.data
    Bags(n_bags=2, n_instances=3, n_features=2, sizes=1..2, dtype=float64)
    >>> things.target, things.bag_names
    (array([1, 0]), array(['box', 'can'], dtype='<U3'))
    """
    path = Path(path)
    if path.is_dir() and format != "npy-folder" and not is_npy_folder(path):
        raise FileNotFoundError(
            f"{path}: this is a folder without the head of saved bags; read a folder with one file "
            "per bag by milearn.datasets.load_bag_folder."
        )
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file; check the path.")
    check_choice("missing", missing or "error", ("error", "nan"))
    declared = declared_classes(classes)
    given = {
        "bag": bag,
        "label": label,
        "instance": instance,
        "instance_label": instance_label,
        "bag_data": None if bag_data is None else list(bag_columns(bag_data)),
        "classes": declared,
        "missing": missing,
        "delimiter": delimiter,
        "n_features": n_features,
        "zero_based": zero_based,
        "mmap": mmap or None,
    }
    options = {name: value for name, value in given.items() if value is not None}
    with file_name_in_errors(path):
        if path.is_file() and not path.stat().st_size:
            raise ContentError("the file is empty; if a download was interrupted, fetch it again.")
        form = format_of(path, format, reading=True)
        if "classes" not in FORMATS[form].options:
            options.pop("classes", None)
        for name in options:
            if name not in FORMATS[form].options:
                raise ContentError(
                    f"{name}= means nothing for the format {form!r}; leave it out, or pass format= "
                    "if this is another format."
                )
    with file_name_in_errors(path, form):
        record = FORMATS[form].read(path, **options)
        if len(record.bags) == 0:
            raise ContentError("there is not a single instance in it; check the file.")
        if declared is not None and record.target is not None:
            if record.target.ndim > 1 or has_outcomes(record.target):
                raise ContentError("classes= is for one label per bag; leave it out.")
            record.set_labels(record.target.tolist(), declared)
    bags = record.bags
    if holds_text(bags) and (dtype is not None or as_sparse):
        raise ValueError("The instances are text: leave dtype and as_sparse out.")
    becomes_sparse = bags.is_sparse if as_sparse is None else as_sparse
    if dtype is not None and float_type(dtype) == np.float16 and becomes_sparse:
        raise ValueError("dtype=float16 is for dense instances; choose float32 or float64.")
    new_type = dtype is not None and np.dtype(dtype) != bags.dtype
    new_layout = becomes_sparse != bags.is_sparse
    if mmap and (new_layout or (new_type and bags.is_sparse)):
        raise ValueError(
            "mmap=True keeps sparse instances, and the layout, as they are in the files: leave "
            "mmap out, or leave dtype and as_sparse out."
        )
    if new_layout:
        matrix = bags.instances
        matrix = sparse.csr_array(matrix) if becomes_sparse else matrix.toarray()
        bags = bags.with_instances(matrix, feature_names=bags.feature_names)
    if new_type and isinstance(bags.instance_rows, LazyRows):
        bags = bags._changed(instances=bags.instance_rows.changed_by(None, dtype))
    elif new_type:
        bags = converted(bags, dtype)
    record.bags = bags
    bunch = record.to_bunch(path)
    if not mmap:
        warn_of_zeros(bunch["data"])
    return (bunch["data"], record.target) if return_X_y else bunch


def save_bags(
    path: str | os.PathLike[str],
    X: Any,
    y: Any = None,
    *,
    format: str | None = None,
    classes: Any = None,
    bag_names: Any = None,
    instance_names: Any = None,
    instance_labels: Any = None,
    split: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    descr: str = "",
) -> None:
    """Write bags to a file or folder, which is created only when it is complete.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    path : path-like
        The file; for npy-folder a folder that does not exist.
    X : Bags, Bunch, or sequence of 2-D arrays
        The bags. A Bunch of :func:`load_bags` also provides the labels and all fields.
    y : array-like of shape (n_bags,) or (n_bags, n_labels), default=None
        Labels, which are read as they are; NaN is missing. Outcomes of survival analysis only for
        npz and npy-folder.
    format : str, default=None
        One of the formats of :func:`load_bags` except mat and svmlight, which are only read. By
        default, it is determined by the suffix. A folder needs ``format="npy-folder"``.
    classes : array-like of str or of numbers, default=None
        All classes in their order, if it is not that of the sorted texts, or ``y`` lacks one; by
        default those of ordered categories. Tables do not hold it.
    bag_names : array-like of shape (n_bags,), default=None
        Names of the bags.
    instance_names : array-like of shape (n_instances,), default=None
        Names of the instances.
    instance_labels : array-like of shape (n_instances,), default=None
        True labels of the instances, if they are known.
    split, groups : array-like of shape (n_bags,), default=None
        Published part (0 = training, 1 = test), and groups such as patients.
    sample_weight : array-like of shape (n_bags,), default=None
        Weights of the bags, which ARFF also supports.
    descr : str, default=""
        Free text, only for npz and npy-folder.

    Raises
    ------
    BagFileError
        If the format cannot store all of the data. An existing file is then not changed. Only npz
        and npy-folder store everything with exact values and types, also infinite ones; csv, tsv
        and parquet only support dense instances, and text only npz, npy-folder and parquet.
    FileExistsError
        For npy-folder, if the folder exists.
    ImportError
        For csv and tsv without pandas, and for parquet without pandas or pyarrow.

    See Also
    --------
    load_bags : Read bags from a file.

    Examples
    --------
    >>> import os, tempfile
    >>> from milearn.datasets import load_bags, make_bags, save_bags
    >>> X, y = make_bags(n_bags=6, n_features=3, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "bags.arff")
    ...     save_bags(path, X, y)
    ...     again = load_bags(path)
    >>> bool((again.data.instances == X.instances).all())
    True
    """
    path = Path(path)
    given = {
        "classes": classes,
        "bag_names": bag_names,
        "instance_names": instance_names,
        "instance_labels": instance_labels,
        "split": split,
        "groups": groups,
        "sample_weight": sample_weight,
    }
    with file_name_in_errors(path):
        name = format_of(path, format, reading=False)
        form, record = FORMATS[name], _record_of(X, y, given, descr)
        check_parent(path)
        if name == "npy-folder":
            write_npy_folder(path, record)
            return
        if form.write is None:
            raise ContentError(f"the format {name!r} is only read; save as .npz.")
        wrong = [] if form.holds is None else [p for p in _special(record) if p not in form.holds]
        if wrong:
            raise ContentError(
                f"the format {name!r} cannot hold {', '.join(wrong)}; leave that out or save as "
                ".npz."
            )
        with writing(path) as file:
            form.write(path, record, file)


def _record_of(X: Any, y: Any, given: dict[str, Any], descr: str) -> BagRecord:
    bags = X
    if isinstance(X, Bunch):
        for name in FIELDS:
            if given[name] is None:
                given[name] = X.get(name)
        y = X.get("target") if y is None else y
        bags = X["data"]
    if not isinstance(bags, Bags):
        bags = Bags.from_list(bags)
    if given["bag_names"] is None:
        given["bag_names"] = bags.names
    of_bags = {name: given[name] for name in BAG_FIELDS if name != "bag_names"}
    check_order(bags, y=y, **of_bags)
    if len(bags) == 0:
        raise ContentError("there are no bags to write; pass at least one.")
    target: Any = None if y is None else np.asarray(y)
    if given["classes"] is None:
        given["classes"] = ordered_categories(y)
    classes = declared_classes(given["classes"])
    is_text = target is not None and target.dtype.kind in "OUS"
    if target is not None and target.ndim == 1 and (is_text or classes is not None):
        # Of a list NumPy makes texts of gaps, too.
        labels = list(y) if isinstance(y, (list, tuple)) else target.tolist()
        if classes is None and any(isinstance(label, (str, bytes)) for label in labels):
            # Texts stay texts, also those of numbers.
            classes = np.unique([label_text(label) for label in labels if not is_gap(label)])
        target, given["classes"] = as_labels(labels, classes)
    fields = {name: _plain(value) for name, value in given.items() if value is not None}
    record = BagRecord(bags, target, fields, descr)
    record.check_lengths()
    return record


def _plain(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array.astype(str) if array.dtype.hasobject else array
