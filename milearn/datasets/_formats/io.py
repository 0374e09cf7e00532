"""Bags in a file or a folder of arrays: ``load_bags`` and ``save_bags``."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.canonical import check_choice
from ..._bags.constructors import warn_of_zeros
from ..._bags.kinds import as_labels, column, ids, ordered_categories
from ..._bags.names import canonical_ids
from ..._bags.rows_on_disk import LazyRows, converted
from ..._fit.outcomes import has_outcomes
from ..._fit.validation import check_order
from ..._version import removed
from .._errors import ContentError, file_name_in_errors
from .npy_folder import HEAD, check_parent, new_folder, read_npy_folder, write_arrays
from .record import (
    BAG_FIELDS,
    FIELDS,
    BagRecord,
    declared_classes,
    float_type,
    make_bags_of,
    read_npz,
    write_npz,
)
from .table import chosen_columns, frame_of_file, kind_of_table

_FORMATS = ("npz", "npy-folder")
_ONE_BAG = (".h5", ".hdf5", ".npy", ".pt")


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
    return_X_y: bool = False,
    dtype: Any = None,
    as_sparse: bool | None = None,
    bag: str | None = None,
    label: Any = None,
    bag_data: Any = None,
    instance_data: Any = None,
    classes: Any = None,
    missing: str | None = None,
    mmap: bool = False,
    **read_options: Any,
) -> Any:
    """Read bags from a file, or from a folder of arrays.

    ==================== =====================================================================
    path                 content
    ==================== =====================================================================
    ``.npz``             the layout of :func:`save_bags`; it holds everything
    a folder             the same as .npy files, which can be memory-mapped
    ``.csv``, ``.tsv``   a table with one row per instance and a column with the bag, read by
                         :func:`pandas.read_csv`, also compressed (``.csv.gz``)
    ``.parquet, .pq``    the same, read by :func:`pandas.read_parquet`
    ==================== =====================================================================

    A table gives the bags that :meth:`milearn.Bags.from_frame` makes of its frame.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    path : path-like
        The file or folder.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    dtype : {float64, float32, float16}, default=None
        Type of the instances, float16 only for dense ones; by default, the type in the file.
    as_sparse : bool, default=None
        CSR instances (True), dense instances (False), or as stored in the file (None).
    bag, label : str, default=None
        Of a table: the columns with the bag and with its label, as in
        :meth:`~milearn.Bags.from_frame`. None takes the first of ``bag``, ``bag_name``, ``bag_id``,
        ``slide_id``, ``repertoire_id``, ``filename``, and of ``label``, ``bag_label``, in any case;
        without a column of labels ``target`` is None. Bags of .csv and .tsv files are read as text:
        "007" is not 7.
    bag_data, instance_data : list or mapping, default=None
        Of a table: the columns that are no features, as in :meth:`~milearn.Bags.from_frame`.
    classes : array-like of str or of numbers, default=None
        All classes in their order, of which every label must be one. If they are texts, labels of
        .csv and .tsv files are read as texts. By default, labels are as in the file.
    missing : {"nan", "error", "drop"}, default=None
        Of a table: what happens to bags without a label, as in :meth:`~milearn.Bags.from_frame`.
    mmap : bool, default=False
        Of a folder: map the instances into memory instead of loading them. Data are read when they
        are used, and then converted to ``dtype``. Worker processes share the files, and pickles of
        the bags refer to them by their path. The files must exist, unchanged, as long as the bags
        or their pickles are used. Not with ``as_sparse``, and not with ``dtype`` of sparse
        instances.
    **read_options
        Of a table: options of the function of pandas, such as ``sep``, ``decimal``, ``thousands``,
        ``encoding``, ``na_values`` and ``keep_default_na``.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or (Bags, ndarray)
        ``data`` : :class:`~milearn.Bags`; ``target`` : ndarray of shape (n_bags,), (n_bags,
        n_labels), or None if the file has no labels. A missing label is NaN, among texts in an
        array of objects. If they are known: ``classes``, the sorted texts or what was declared,
        ``feature_names``, ``bag_names``, ``instance_names``, ``instance_labels``, ``split``,
        ``groups``, ``sample_weight``. Always ``DESCR`` and ``filename``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    BagFileError
        A ValueError: if the file is empty, truncated, of another format, inconsistent, or contains
        a pickle. Pickles are never loaded.
    TypeError
        For an option that pandas does not have.
    ImportError
        For parquet without pyarrow.

    Warns
    -----
    UserWarning
        If some dense instances consist of zeros.

    See Also
    --------
    load_bag_folder : Read a folder with one file per bag.
    save_bags : Write bags to a file.

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
    >>> things.target.tolist(), things.bag_names.tolist()
    ([1, 0], ['box', 'can'])
    """
    removed("load_bags", read_options)
    path, classes = Path(path), declared_classes(classes)
    if path.is_dir() and not (path / HEAD).is_file():
        raise FileNotFoundError(
            f"{path}: this is a folder without the head of saved bags; read a folder with one file "
            "per bag by milearn.datasets.load_bag_folder."
        )
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file; check the path.")
    columns = {"bag": bag, "label": label}
    given = {"bag_data": bag_data, "instance_data": instance_data, "missing": missing}
    options = {name: value for name, value in given.items() if value is not None}
    with file_name_in_errors(path):
        form = _format_of(path)
        for name, value in {**columns, **options, **read_options}.items():
            if form != "table" and value is not None:
                raise ContentError(f"{name}= is for tables, and this is {form}; leave it out.")
        if mmap and form != "npy-folder":
            raise ContentError(
                "only a folder of save_bags(..., format='npy-folder') is read as a memory map."
            )
        if form == "table":
            frame = frame_of_file(path, columns, classes, **read_options)
    with file_name_in_errors(path, form):
        if form == "table":
            chosen = chosen_columns(frame, columns)
            found = make_bags_of(Bags.from_frame, frame, **chosen, **options)
            record = BagRecord(*found) if isinstance(found, tuple) else BagRecord(found)
            if classes is None and record.target is not None:
                classes = ordered_categories(frame[chosen["label"]])
        else:
            record = read_npz(path) if form == "npz" else read_npy_folder(path, mmap=mmap)
        if len(record.bags) == 0:
            raise ContentError("there is not a single instance in it; check the file.")
        if record.target is not None and (classes is not None or form == "table"):
            if record.target.ndim > 1 or has_outcomes(record.target):
                raise ContentError("classes= is for one label per bag; leave it out.")
            record.set_labels(record.target, classes)
    record.bags = _as_asked(record.bags, dtype, as_sparse, mmap)
    bunch = record.to_bunch(path)
    if not mmap:
        warn_of_zeros(bunch["data"])
    return (bunch["data"], record.target) if return_X_y else bunch


def _format_of(path: Path) -> str:
    if path.is_dir():
        return "npy-folder"
    if not path.stat().st_size:
        raise ContentError("the file is empty; if a download was interrupted, fetch it again.")
    if kind_of_table(path):
        return "table"
    with open(path, "rb") as file:
        if path.suffix.lower() == ".npz" or file.read(2) == b"PK":
            return "npz"
    if path.suffix.lower() in _ONE_BAG:
        raise ContentError("this is the file of one bag; read it by load_bag_folder.")
    raise ContentError(
        f"the suffix {path.suffix!r} is not one of .npz, .csv, .tsv and .parquet; for ARFF, MATLAB "
        "and svmlight files see the recipes of the guide."
    )


def _as_asked(bags: Bags, dtype: Any, as_sparse: bool | None, mmap: bool) -> Bags:
    """The bags with instances of the type and layout that is asked for."""
    if bags.dtype == object and (dtype is not None or as_sparse):
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
        return bags._changed(instances=bags.instance_rows.changed_by(None, dtype))
    return converted(bags, dtype) if new_type else bags


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

    Both formats hold everything: values, types, gaps, names, and the order of columns and classes.
    A table of the instances is written by ``X.to_frame(y=y).to_csv(path, index=False)``.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    path : path-like
        The file; for npy-folder a folder that does not exist.
    X : Bags, Bunch, or sequence of 2-D arrays
        The bags. A Bunch of :func:`load_bags` also provides the labels and all fields.
    y : array-like of shape (n_bags,) or (n_bags, n_labels), default=None
        Labels, which are read as they are, or outcomes of survival analysis; NaN is missing.
    format : {"npz", "npy-folder"}, default=None
        A compressed file, or a folder of .npy files, which :func:`load_bags` maps into memory. By
        default, npz for a path that ends in ``.npz``.
    classes : array-like of str or of numbers, default=None
        All classes in their order, if it is not that of the sorted texts, or ``y`` lacks one; by
        default those of ordered categories.
    bag_names : array-like of shape (n_bags,), default=None
        Names of the bags; by default ``X.names``.
    instance_names : array-like of shape (n_instances,), default=None
        Names of the instances.
    instance_labels : array-like of shape (n_instances,), default=None
        True labels of the instances, if they are known.
    split, groups : array-like of shape (n_bags,), default=None
        Published part (0 = training, 1 = test), and groups such as patients.
    sample_weight : array-like of shape (n_bags,), default=None
        Weights of the bags.
    descr : str, default=""
        Free text.

    Raises
    ------
    BagFileError
        If the data hold Python objects other than text and numbers. An existing file is then not
        changed.
    FileExistsError
        For npy-folder, if the folder exists.

    See Also
    --------
    load_bags : Read bags from a file.
    milearn.Bags.to_frame : A data frame of the instances.

    Examples
    --------
    >>> import os, tempfile
    >>> from milearn.datasets import load_bags, make_bags, save_bags
    >>> X, y = make_bags(n_bags=6, n_features=3, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "bags.npz")
    ...     save_bags(path, X, y)
    ...     again = load_bags(path)
    >>> bool((again.data.instances == X.instances).all())
    True
    """
    path = Path(path)
    given = (split, groups, sample_weight, instance_names, instance_labels, classes)
    with file_name_in_errors(path):
        if format is not None:
            check_choice("format", format, _FORMATS)
        elif path.suffix.lower() != ".npz":
            raise ContentError(
                "save_bags writes .npz, or a folder with format='npy-folder'; a table is written "
                "by X.to_frame(y=y).to_csv(path, index=False)."
            )
        record = _record_of(X, y, bag_names, dict(zip(FIELDS, given, strict=True)), descr)
        check_parent(path)
        if format == "npy-folder":
            with new_folder(path) as folder:
                write_arrays(folder, record)
            return
        with writing(path) as file:
            write_npz(record, file)


def _record_of(X: Any, y: Any, names: Any, given: dict[str, Any], descr: str) -> BagRecord:
    bags = X
    if isinstance(X, Bunch):
        for name in FIELDS:
            if given[name] is None:
                given[name] = X.get(name)
        y = X.get("target") if y is None else y
        bags = X["data"]
    if not isinstance(bags, Bags):
        bags = Bags.from_list(bags)
    if names is not None:
        bags = bags._changed(names=canonical_ids(names, len(bags)))
    check_order(bags, y=y, **{name: given[name] for name in BAG_FIELDS})
    if len(bags) == 0:
        raise ContentError("there are no bags to write; pass at least one.")
    classes = given.pop("classes")
    fields: dict[str, Any] = {
        name: ids(values, name) if name == "groups" else as_labels(column(values, name))
        for name, values in given.items()
        if values is not None
    }
    if classes is not None:
        fields["classes"] = declared_classes(classes)
    record = BagRecord(bags, fields=fields, descr=descr)
    if y is not None:
        record.target = np.asarray(y)
        if record.target.ndim == 1 and not has_outcomes(record.target):
            record.set_labels(y, classes)
    record.check_lengths()
    return record
