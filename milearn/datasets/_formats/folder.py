"""Folders with one file per bag, their layouts, and the tables of labels: ``load_bag_folder``."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from joblib import delayed
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.annotations import PATCH_SIZE, bag_columns
from ..._bags.canonical import check_choice
from ..._bags.constructors import warn_of_zeros
from ..._bags.kinds import as_ids, as_labels, column, id_text, ids, is_missing, labels, listed
from ..._bags.segments import offsets_of
from ..._bags.threads import Parallel
from ..._compat import need_module
from ..._fit.outcomes import survival_outcomes
from ..._fit.warn import warn_user
from .._errors import BagFileError, ContentError, file_name_in_errors
from .npy_folder import new_folder, read_npy_folder, write_arrays
from .record import (
    BagRecord,
    declared_classes,
    float_type,
    make_bags_of,
    npz_header,
)
from .table import check_column, chosen_columns, frame_of_file, quoted_names

# The folders of each part of the bags. A part in its own folder has a file for each bag.
_TORCHMIL = {
    "features": ("features", "features/*/"),
    "label": ("labels",),
    "coords": ("coords",),
    "instance_labels": ("inst_labels", "patch_labels", "instance_labels"),
}
_CLAM = {"features": ("h5_files", "pt_files"), "coords": ("h5_files",)}
_PLAIN = {"features": ("",), "coords": ("",)}


class ArrayInFile(NamedTuple):
    """A file and the name of an array in it; ``required`` if its absence is an error."""

    path: Path
    name: str
    required: bool = True


# The possible places of each part of each bag, of which the first existing one is used.
BagFiles = dict[str, dict[str, list[ArrayInFile]]]


class BagRow(NamedTuple):
    """The row of a bag in the table, and the columns of "bag", "label", "group" and "split"."""

    table: Any = None
    at: int = 0
    chosen: Mapping[str, Any] = MappingProxyType({})


def find_bags(path: Path, key: str, coords: str | None) -> BagFiles:
    """The bags of a folder or file, sorted by name."""
    layouts = (_TORCHMIL, _CLAM)
    layout = next((o for o in layouts if any((path / f).is_dir() for f in o["features"])), _PLAIN)
    found: dict[str, list[dict[str, Path]]] = {}
    for part, patterns in layout.items():
        folders = [f for pattern in patterns for f in (path.glob(pattern) if pattern else [path])]
        found[part] = [files for folder in folders if (files := files_of(folder, SUFFIXES))]
    if not found["features"] or (layout is _TORCHMIL and len(found["features"]) > 1):
        inside = [
            f.name for f in path.glob(layout["features"][-1] or "*/") if files_of(f, SUFFIXES)
        ]
        remedy = (
            f"pass one of its folders: {quoted_names(sorted(inside))}" if inside else "check it"
        )
        raise BagFileError(
            f"{path}: there is no file of a bag ({', '.join(SUFFIXES)}) in this folder; {remedy}."
        )
    names = {"features": key, "coords": coords, "label": "labels"}

    def places(part: str, bag: str) -> list[ArrayInFile]:
        files = [folder[bag] for folder in found[part] if bag in folder]
        some, own = next(iter(found[part][0].values())), part == "features" or layout is _TORCHMIL
        if own and not files:  # a path that does not exist is in the message
            files = [some.with_name(bag + some.suffix)]
        array = names.get(part) or some.parent.name
        return [ArrayInFile(file, array, own and file == files[-1]) for file in files]

    parts = [part for part, folders in found.items() if folders and names.get(part, part)]
    bags = sorted({bag for files in found["features"] for bag in files})
    return {bag: {part: places(part, bag) for part in parts} for bag in bags}


def files_of(folder: Path, suffixes: Collection[str]) -> dict[str, Path]:
    """Files with one of the suffixes in a folder, or the file, by the name of the bag."""
    found: dict[str, Path] = {}
    names = []
    if folder.is_file():
        folder, names = folder.parent, [folder.name]
    elif folder.is_dir():
        with os.scandir(folder) as entries:
            names = sorted(e.name for e in entries if not e.name.startswith(".") and e.is_file())
    for file in map(folder.joinpath, names):
        suffix = next((end for end in suffixes if file.name.lower().endswith(end)), None)
        if suffix is None:
            continue
        name = file.name[: -len(suffix)]
        if name in found:
            raise BagFileError(
                f"{folder}: {found[name].name!r} and {file.name!r} are two files for one bag; keep "
                "the files of one format in a folder."
            )
        found[name] = file
    return found


# -- the table ---------------------------------------------------------------------------------


def rows_of_bags(
    table: Any,
    names: Sequence[str],
    asked: dict[str, Any],
    folder: Path,
    missing: str = "error",
    classes: np.ndarray | None = None,
) -> tuple[dict[str, BagRow], list[tuple[str, str]], dict[str, str]]:
    """The rows of a table for the bags ``names``, problems of bags, and the bags to leave out.

    Parameters
    ----------
    table : path-like, data frame or None
        Without a table the bags are in the order of ``names``.
    names : sequence of str
        Names of the files without suffix.
    asked : dict
        The column for each of "bag", "label", "group" and "split", None for a known name; for
        "label" also two columns, the event and the time of an outcome.
    folder : Path
        The folder of the bags, for error messages if the table has no path, or the file of a bag,
        which needs only its row.
    missing, classes
        Those of :func:`load_bag_folder`.

    Returns
    -------
    rows : dict of BagRow
        In the order of the table.
    problems : list of tuple of str
        The bag, or the row of the table, and what is wrong with it.
    dropped : dict of str
        What is missing, by the same names; empty unless ``missing="drop"``.
    """
    check_choice("missing", missing, ("error", "nan", "drop"))
    if table is None:
        if given := [f"{part}=" for part, column in asked.items() if column is not None]:
            raise ValueError(f"{', '.join(given)} without a table: pass the table with the column.")
        return {name: BagRow() for name in names}, [], {}
    is_frame = hasattr(table, "columns")
    with file_name_in_errors(f"{folder}: the table" if is_frame else table):
        frame = as_frame(table) if is_frame else frame_of_file(Path(table), asked, classes)
        chosen = chosen_columns(frame, asked)
        bags = _bag_of_each_row(frame[chosen["bag"]].tolist(), names, chosen["bag"])
    rows: dict[str, BagRow] = {}
    problems: list[tuple[str, str]] = []
    gaps: dict[str, str] = {}
    label = chosen["label"]
    labels = label if isinstance(label, tuple) else [label] if missing != "nan" else []
    needed = [name for name in (*labels, chosen["group"], chosen["split"]) if name is not None]
    empty, known = {name: frame[name].isna().to_numpy() for name in needed}, {*names}
    for at, bag in enumerate(bags):
        if bag is None:
            gaps[f"row {at + 1} of the table"] = _NO_NAME
        elif bag in rows:
            problems.append((bag, "the table has two rows for it"))
        elif bag in known:
            rows[bag] = BagRow(frame, at, chosen)
            for name in (name for name in needed if empty[name][at]):
                gaps[bag] = f"the column {name!r} is empty"
        elif not folder.is_file():
            gaps[bag] = _NO_FILE
    gaps |= {name: _NO_ROW for name in names if name not in rows}
    if missing != "drop":
        return rows, [*problems, *gaps.items()], {}
    return {name: row for name, row in rows.items() if name not in gaps}, problems, gaps


def as_frame(table: Any) -> Any:
    """A frame of pandas or polars as one of pandas, whose columns are its only names."""
    if not hasattr(table, "iloc"):
        import pandas

        return pandas.DataFrame({n: column(table[n], f"column {n!r}") for n in table.columns})
    return table if table.index.names == [None] else table.reset_index()


def _bag_of_each_row(cells: Sequence[Any], names: Sequence[str], name: Any) -> list[str | None]:
    """The bag of each row, by its name or by a path to its file."""
    files = {id_text(name): name for name in names}
    bags: list[str | None] = []
    for cell in cells:
        text = id_text(cell)
        # A path of Windows or of Linux. A compressed file has two suffixes.
        path = Path(text.replace("\\", "/"))
        shorter = (files.get(each) for each in (text, path.name, path.stem, Path(path.stem).stem))
        bags.append(None if is_missing(cell) else next(filter(None, shorter), text))
    if not {*names}.intersection(bags):
        raise ContentError(
            f"no value of {name!r} ({listed(cells, 2)}) is the name of a file "
            f"({listed(names, 2)}); name the column of the bags with bag=, or correct the names."
        )
    return bags


class ArrayHeader(NamedTuple):
    """Shape and type of an array, which are read before its values.

    ``patch_size`` is the side of the patches in the unit of their coordinates, which TRIDENT keeps
    with them.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    patch_size: float = np.nan


def read_array(place: ArrayInFile, out: np.ndarray | None = None) -> ArrayHeader | None:
    """Shape and type of an array of a file, whose values are copied to ``out`` if it is given.

    ``out`` has as many values. If an array that is not required is missing, the result is None.
    The message of the library of the file becomes a ContentError that names the file.
    """
    path, name, required = place
    try:
        with _arrays_in(path) as found:
            names = [] if hasattr(found, "dtype") else list(found)
            if not hasattr(found, "dtype"):
                found = found.get(name)
            elif not required:  # its only array has another meaning
                return None
            if getattr(found, "shape", None) is None:
                if not required:
                    return None
                raise ContentError(f"no array {name!r} among {quoted_names(names) or 'none'}")
            if out is not None:
                out[...] = np.asarray(found).reshape(out.shape)
            size = np.ravel(getattr(found, "attrs", {}).get(PATCH_SIZE, np.nan))
            return ArrayHeader(found.shape, found.dtype, float(size[0]))
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        # The libraries raise exceptions of any kind for damaged files: OSError, KeyError,
        # UnpicklingError, zlib.error, EOFError.
        said = str(error)
        if not isinstance(error, ContentError):
            text = said.strip().splitlines()
            said = f"cannot be read ({text[0][:160] if text else type(error).__name__})"
        raise ContentError(f"{path.parent.name}/{path.name}: {said}") from error


@contextlib.contextmanager
def _arrays_in(path: Path) -> Iterator[Any]:
    """The arrays of a file by name, or the array of a format with one array without a name."""
    suffix = path.suffix.lower()
    if suffix in (".h5", ".hdf5"):
        # Names may be paths, such as "20x/features".
        with need_module("h5py", str(path), "milearn[hdf5]").File(path, "r") as file:
            yield file
    elif suffix == ".npy":
        # As a memory map: the length of the file is checked, and a file in Fortran order needs no
        # extra copy.
        yield np.load(path, mmap_mode="r", allow_pickle=False)
    elif suffix == ".npz":
        # NumPy does not close a file that it cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            yield {name: _Member(archive, name) for name in archive.files}
    else:
        yield _tensors_in(path)


class _Member:
    """An array in an archive, whose values are read on demand."""

    def __init__(self, archive: Any, name: str) -> None:
        self._archive, self._name = archive, name
        self.shape, self.dtype = npz_header(archive, name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._archive[self._name], dtype=dtype)


def _tensors_in(path: Path) -> Any:
    # A pickle, which nothing but torch reads without running it.
    torch = need_module("torch", str(path), "torch")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:
        # Files of torch before version 1.6 cannot be mapped.
        found = torch.load(path, map_location="cpu", weights_only=True)

    def array(tensor: Any) -> np.ndarray:
        # NumPy does not have bfloat16; float32 represents all of its values.
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()

    if isinstance(found, torch.Tensor):
        return array(found)
    if not isinstance(found, dict):
        raise ContentError(f"it holds {type(found).__name__}, not a tensor")
    return {str(name): array(each) for name, each in found.items() if torch.is_tensor(each)}


SUFFIXES = (".h5", ".hdf5", ".npy", ".npz", ".pt")


_SHOWN = 20  # maximum number of bags in an error message
_NO_FILE, _NO_ROW = "there is no file for this row", "the table has no row for this file"
_NO_NAME = "it names no bag"
_GAPS = (_NO_FILE, _NO_ROW, _NO_NAME)
_SPLITS = {"train": 0, "training": 0, "test": 1, "testing": 1}
_SPLITS |= dict.fromkeys(("val", "valid", "validation"), 2)


def load_bag_folder(
    path: str | os.PathLike[str],
    table: Any = None,
    *,
    bag: str | None = None,
    label: str | tuple[str, str] | None = None,
    group: str | None = None,
    split: str | None = None,
    bag_data: Any = None,
    classes: Any = None,
    key: str = "features",
    coords: str | None = "coords",
    dtype: Any = None,
    empty: str = "raise",
    missing: str = "error",
    mmap: str | os.PathLike[str] | bool = False,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Bunch:
    """Read a folder with one file per bag, and a table of their labels.

    ==============================  ==============================================================
    folder                          content
    ==============================  ==============================================================
    ``*.h5``, ``*.hdf5``            arrays ``features`` (n, d) or (1, n, d) and ``coords`` (n, 2),
                                    as written by TRIDENT (needs h5py)
    ``*.npy``                       one array (n, d)
    ``*.npz``                       arrays ``features`` and optionally ``coords``
    ``*.pt``                        a tensor (n, d) or a dict of tensors (needs torch)
    ``h5_files/``, ``pt_files/``    CLAM: features in either folder, coordinates in the first
    ``features/``, ``labels/``,     torchmil: files of the same names in each folder, of which only
    ``inst_labels/``, ``coords/``   the first is required; ``splits.csv`` next to them is the
                                    table by default
    ==============================  ==============================================================

    The headers of all files are read first. Then one array is allocated and filled, so that the
    required memory is that of the bags plus one file per job.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    path : path-like
        The folder, or the file of one bag, for which the table may have other rows.
    table : path-like or data frame, default=None
        A pandas or polars frame with one row per bag, or a .csv, .tsv or .parquet file, which
        pandas reads: pass the frame of :func:`pandas.read_csv` for another separator, encoding or
        words for missing values. The bags are in the order of its rows, or in the order of their
        names without a table.
    bag, label, group, split : str, default=None
        Columns of the table: the bag, which is the name of its file with or without suffix; its
        label; the group that splitters keep together, such as a patient; the published part. None
        takes the first of these names, in any case: ``bag``, ``bag_name``, ``bag_id``,
        ``slide_id``, ``repertoire_id``, ``filename``; ``label``, ``bag_label``; ``group``,
        ``patient``, ``patient_id``, ``case_id``, ``donor``; ``split``. A tuple of two columns for
        ``label``, whether the event was observed and the time, makes outcomes of survival analysis,
        see :func:`milearn.survival.survival_outcomes`.
    bag_data : list of str, or mapping of str to str, default=None
        Further columns of the table, such as age or site, which become ``data.bag_data``.
    classes : array-like of str or of numbers, default=None
        All classes in their order, of which every label must be one. If they are texts, labels of
        .csv and .tsv files are read as texts. By default, ordered categories are the classes, or
        else the sorted texts.
    key : str, default="features"
        Name of the array of the instances in files with named arrays.
    coords : str, default="coords"
        Name of the array of the positions of the instances, which becomes the columns ``coords_0``
        and ``coords_1`` of ``data.instance_data`` if it exists; None ignores positions. Its
        attribute ``patch_size_level0``, which TRIDENT writes, becomes a column too.
    dtype : {float16, float32, float64}, default=None
        Type of the instances. None keeps float16, float32 and float64, the widest if files differ;
        integers of up to two bytes become float32 and others float64.
    empty : {"raise", "drop"}, default="raise"
        Whether a file without instances is an error, or is ignored and listed in ``dropped``.
    missing : {"error", "nan", "drop"}, default="error"
        Whether bags without a file, a row, a label, a group or a split are an error, or are left
        out and listed in ``dropped``. "nan" keeps bags without a label, which is NaN; all else that
        is missing remains an error.
    mmap : path-like, default=False
        A new folder. The instances are written to a file in this folder and mapped into memory on
        demand; :func:`load_bags` opens the folder again with ``mmap=True``. False reads into
        memory.
    n_jobs : int, default=None
        Number of threads that read files. None means 1 unless in a :func:`joblib.parallel_config`
        context; -1 means one per processor. The HDF5 library always reads one file at a time.
    verbose : bool, default=False
        Whether to show a progress bar on stderr, for which tqdm has to be installed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        As in :func:`load_bags`: ``data`` (:class:`~milearn.Bags`), ``target`` (the labels, None
        without them) and ``bag_names``; ``classes`` of text labels, or as declared, ``groups``,
        ``split`` (0 = training, 1 = test, 2 = validation if the table contains these words,
        otherwise its values) and ``instance_labels`` if they are known; and ``dropped``, a dict
        with the reason for each bag that was left out.

    Raises
    ------
    FileNotFoundError
        If there is no such folder or table.
    BagFileError
        A ValueError with every file that is missing, without a row, unreadable, empty, of the wrong
        shape, or of a different width than most files.
    ImportError
        For a file whose library (h5py, torch) is not installed, or a .parquet table without
        pyarrow. A .pt file is a pickle; torch reads it with ``weights_only=True``, which does not
        execute code in the file.

    Warns
    -----
    UserWarning
        If bags were left out, with their number, or if some instances consist of zeros.

    See Also
    --------
    load_bags : Read one file with all bags.
    milearn.structured.spatial_graph : Graph of near instances by their positions.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from milearn.datasets import load_bag_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, size in (("slide_1", 3), ("slide_2", 5)):
    ...         np.save(pathlib.Path(folder, name), np.ones((size, 4), dtype=np.float32))
    ...     table = pathlib.Path(folder, "labels.csv")
    ...     _ = table.write_text("slide_id,case_id,label\\nslide_2,a,tumour\\nslide_1,b,normal\\n")
    ...     slides = load_bag_folder(folder, table)
    >>> slides.data
    Bags(n_bags=2, n_instances=8, n_features=4, sizes=3..5, dtype=float32)
    >>> slides.bag_names.tolist(), slides.target.tolist()
    (['slide_2', 'slide_1'], ['tumour', 'normal'])
    """
    if isinstance(path, (list, tuple)):
        raise TypeError("path is a list: read each folder, and join them by Bags.concatenate.")
    if mmap is True:
        raise ValueError(
            "mmap=True does not define where to write the instances: pass the path of a "
            "folder, mmap='folder', which stays and can be opened again."
        )
    declared, mapped = declared_classes(classes), Path(mmap) if mmap else None
    how = {"dtype": dtype, "empty": empty, "missing": missing, "classes": declared}
    columns: dict[str, Any] = {"bag": bag, "label": label, "group": group, "split": split}
    path, progress = Path(path), (n_jobs, verbose)
    with contextlib.ExitStack() as stack:
        folder = None if mapped is None else stack.enter_context(new_folder(mapped))
        bags, kept_dtype, dropped = read_headers(
            path, table, columns, arrays=(key, coords), progress=progress, **how
        )
        record = _filled(path, bags, kept_dtype, folder, progress)
        with file_name_in_errors(path):
            add_table(record, bags, bag_data, declared)
        record.descr = described(record, path, dropped)
        if folder is not None:
            write_arrays(folder, record)
            del record  # Windows cannot move a mapped file
    if mapped is None:
        bunch = record.to_bunch(path)
        warn_of_zeros(bunch["data"])
    else:
        bunch = read_npy_folder(mapped, mmap=True).to_bunch(mapped)
    bunch["dropped"] = dropped
    return bunch


def read_headers(
    path: Path,
    table: Any,
    columns: dict[str, Any],
    *,
    arrays: tuple[str, str | None],
    dtype: Any,
    empty: str,
    missing: str,
    classes: np.ndarray | None,
    progress: tuple[int | None, bool],
) -> tuple[list[FoundBag], np.dtype, dict[str, str]]:
    """The bags of a folder, their type, and those that were left out.

    Only headers of files are read. The parameters are those of :func:`load_bag_folder`: ``arrays``
    contains ``key`` and ``coords``, and ``progress`` contains ``n_jobs`` and ``verbose``.
    """
    if not path.is_dir() and not files_of(path, SUFFIXES):
        raise FileNotFoundError(
            f"{path}: there is no such folder or file of a bag ({', '.join(SUFFIXES)}); load_bags "
            "reads a file of many bags."
        )
    check_choice("empty", empty, ("raise", "drop"))
    wanted = None if dtype is None else float_type(dtype)
    files = find_bags(path, *arrays)
    splits = [folder / "splits.csv" for folder in (path, path.parent)]
    if table is None and (path / "features").is_dir():
        table = next((file for file in splits if file.is_file()), None)
    rows, problems, dropped = rows_of_bags(table, [*files], columns, path, missing, classes)
    for name in [*rows] if missing == "drop" else []:
        if not all(place.path.is_file() for place in files[name].get("label", ())):
            dropped[name] = "there is no file of its label"
            del rows[name]

    def header(name: str) -> FoundBag:
        return _found_bag(name, files[name], rows[name])

    found, wrong = for_each_bag(header, [*rows], "sizes", *progress)
    problems += wrong + _unlike(found, empty)
    check_readable(path, problems, {*rows, *(name for name, _ in problems)})
    bags = [bag for bag in found if bag.size]
    dropped |= {bag.name: "it has no instances" for bag in found if not bag.size}
    if not bags:
        raise BagFileError(f"{path}: no bag is left. {_counted(dropped, 0)}")
    if wanted is None:
        wanted = np.result_type(*{_kept(bag.parts["features"].dtype) for bag in bags})
    return bags, wanted, dropped


def described(record: BagRecord, path: Path, dropped: dict[str, str]) -> str:
    """The description of the data set, which names the bags that were left out."""
    warn_of_dropped(dropped, len(record.bags))
    return record.describe(path) + (" " + _counted(dropped, len(record.bags)) if dropped else "")


def warn_of_dropped(dropped: dict[str, str], n_bags: int) -> None:
    if dropped:
        warn_user(f"{_counted(dropped, n_bags)} See data.dropped.", UserWarning)


def _counted(dropped: dict[str, str], n_bags: int) -> str:
    reasons: dict[str, list[str]] = {}
    for name, reason in dropped.items():
        reasons.setdefault(reason, []).append(name)
    counts = [f"{len(names)} ({names[0]}): {reason}" for reason, names in reasons.items()]
    return f"{len(dropped)} of {len(dropped) + n_bags} bags are left out. {'. '.join(counts)}."


def read_found(path: Path, bags: Sequence[FoundBag], dtype: np.dtype) -> Bags:
    """Some of the bags found by :func:`read_headers`, in memory."""
    return _filled(path, bags, dtype, None, (1, False)).bags


# -- first pass: the headers of the files --------------------------------------------------------


class _Part(NamedTuple):
    place: ArrayInFile
    dtype: np.dtype
    width: int  # values per instance


@dataclass
class FoundBag:
    """The headers of a bag's files, and its row in the table."""

    name: str
    row: BagRow
    size: int = 0
    patch_size: float = np.nan
    parts: dict[str, _Part] = field(default_factory=dict)
    label: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # Workers read files; the whole table would go to each of them.
        return {**self.__dict__, "row": BagRow()}

    @property
    def width(self) -> int:
        return self.parts["features"].width


def _found_bag(name: str, files: dict[str, list[ArrayInFile]], row: BagRow) -> FoundBag:
    bag = FoundBag(name, row)
    for part, places in files.items():
        found = ((place, read_array(place)) for place in places)
        place, header = next((each for each in found if each[1] is not None), (None, None))
        if place is None or header is None:
            continue
        if part == "label":
            label = np.empty(header.shape, header.dtype)
            read_array(place, label)
            if label.size != 1:
                raise ContentError(f"the label has the shape {label.shape} instead of one number")
            bag.label = label.item()
        elif part == "features" or bag.size:
            bag.size, width = _size_and_width(part, header, bag.size)
            bag.patch_size = header.patch_size if part == "coords" else bag.patch_size
            bag.parts[part] = _Part(place, header.dtype, width)
    return bag


def _size_and_width(part: str, header: ArrayHeader, size: int) -> tuple[int, int]:
    """Numbers of instances and of values per instance of an array (n,), (n, k) or (1, n, k)."""
    shape = header.shape
    n, *rest = (shape[1:] if len(shape) == 3 and shape[0] == 1 else shape) or (0,)
    width = rest[0] if rest else 1
    wrong = header.dtype.kind not in "biuf" or len(rest) > 1
    if part == "features":
        wrong |= n > 0 and (not rest or width == 0)
        wanted = "(n, d) or (1, n, d)"
    else:
        wrong |= n != size or (part == "instance_labels" and width != 1)
        wanted = f"that of {size} instances"
    if wrong:
        raise ContentError(
            f"{part} have the type {header.dtype} and the shape {shape} instead of {wanted}"
        )
    return int(n), int(width)


def _unlike(bags: Sequence[FoundBag], empty: str) -> list[tuple[str, str]]:
    """Bags without instances, and those with other parts than most."""
    full = [bag for bag in bags if bag.size]
    found = [
        (bag.name, "it has no instances (empty='drop' leaves such files out)")
        for bag in bags
        if not bag.size and empty == "raise"
    ]
    for part in ("features", "coords", "instance_labels") if full else ():
        widths = [bag.parts[part].width if part in bag.parts else None for bag in full]
        usual, times = Counter(widths).most_common(1)[0]
        remedy = " (coords=None leaves them out)" if part == "coords" else ""
        found += [
            (bag.name, f"it has {width or 'no'} {part} but {times} of {len(full)} bags have "
             f"{usual or 'none'}{remedy}")
            for bag, width in zip(full, widths, strict=True)
            if width != usual
        ]  # fmt: skip
    return found


def check_readable(path: Path, problems: Sequence[tuple[str, str]], bags: Collection[Any]) -> None:
    if not problems:
        return
    n_wrong = len({name for name, _ in problems})
    lines = [f"  {name}: {what}" for name, what in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        lines.append(f"  and {len(problems) - _SHOWN} more")
    if any(what.startswith(_GAPS) or what.endswith("is empty") for _, what in problems):
        lines.append(
            "Pass missing='drop' to leave out what has no file, no row or an empty cell, or "
            "missing='nan' to keep bags whose label is an empty cell."
        )
    if any(": no array " in what for _, what in problems):
        lines.append("If the arrays have other names, pass them as key and coords.")
    raise BagFileError(
        f"{path}: {n_wrong} of {len(bags)} bags cannot be read; correct or remove their files or "
        "rows:\n" + "\n".join(lines)
    )


# -- second pass: one array, filled in place -------------------------------------------------------


def _filled(
    path: Path, bags: Sequence[FoundBag], dtype: np.dtype, folder: Path | None, progress: Any
) -> BagRecord:
    """All instances, in memory or in a new file."""
    offsets = offsets_of([bag.size for bag in bags])
    shape: Any = (int(offsets[-1]), bags[0].width)
    if folder is None:
        features = np.empty(shape, dtype)
    else:
        place = folder / "instances.npy"
        features = np.lib.format.open_memmap(place, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):
            # Otherwise a disk that becomes full would end the process, without an exception.
            with open(place, "rb+") as file:
                try:
                    os.posix_fallocate(file.fileno(), 0, place.stat().st_size)
                except OSError as error:
                    # Some file systems cannot reserve room.
                    if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                        raise
    arrays = {"features": features}
    for part, (_, _, width) in list(bags[0].parts.items())[1:]:
        types = {bag.parts[part].dtype.newbyteorder("=") for bag in bags}
        shape = (len(features), width) if part == "coords" else len(features)
        arrays[part] = np.empty(shape, np.result_type(*types))

    places = {bag.name: (bag, slice(*offsets[at : at + 2])) for at, bag in enumerate(bags)}

    def fill(name: str) -> None:
        bag, rows = places[name]
        for part, array in arrays.items():
            read_array(bag.parts[part].place, array[rows])

    _, problems = for_each_bag(fill, [*places], "bags", *progress)
    check_readable(path, problems, bags)
    data = {"coords": arrays["coords"]} if "coords" in arrays else {}
    sizes = np.array([bag.patch_size for bag in bags])
    if not np.isnan(sizes).all():
        data[PATCH_SIZE] = np.repeat(sizes, np.diff(offsets))
    with file_name_in_errors(path):
        record = BagRecord(make_bags_of(Bags, arrays["features"], offsets, instance_data=data))
    if "instance_labels" in arrays:
        record.fields["instance_labels"] = arrays["instance_labels"]
    return record


def _kept(dtype: np.dtype) -> np.dtype:
    """The default type of values."""
    if dtype.kind == "f" and dtype.itemsize in (2, 4, 8):
        return dtype.newbyteorder("=")
    return np.dtype(np.float32 if dtype.kind in "biu" and dtype.itemsize <= 2 else np.float64)


def fields_of(bags: Sequence[FoundBag], classes: np.ndarray | None) -> dict[str, Any]:
    """Labels, names, groups and splits of the bags found by :func:`read_headers`, for a Bunch."""
    record = BagRecord(Bags(np.zeros((len(bags), 1)), range(len(bags) + 1)))
    add_table(record, bags, None, classes)
    return {**record.fields, "target": record.target, "bag_names": record.bags.names}


def add_table(
    record: BagRecord, bags: Sequence[FoundBag], bag_data: Any, classes: np.ndarray | None
) -> None:
    """Add what the table says of the bags: names, labels, and columns of ``bag_data``."""
    record.bags = record.bags._changed(names=as_ids([bag.name for bag in bags]))
    table, chosen, columns = bags[0].row.table, bags[0].row.chosen, bag_columns(bag_data)
    if table is None:
        if columns:
            raise ContentError("bag_data= without a table: pass the table that has the columns.")
        if all(bag.label is not None for bag in bags):
            record.set_labels([bag.label for bag in bags], classes)
        return
    for name in columns.values():
        check_column(name, "bag_data", list(table.columns))
    table = table.iloc[[bag.row.at for bag in bags]].set_axis(record.bags.names)
    data = {name: table[own] for name, own in columns.items()}
    record.bags = make_bags_of(record.bags.with_bag_data, data or None)
    label, group, split = (chosen[part] for part in ("label", "group", "split"))
    if isinstance(label, tuple):
        record.target = make_bags_of(survival_outcomes, *(table[name] for name in label))
    elif label is not None or all(bag.label is not None for bag in bags):
        values = [bag.label for bag in bags] if label is None else table[label]
        make_bags_of(labels, values, "label", classes)
        record.set_labels(values, classes)
    if group is not None:
        record.fields["groups"] = make_bags_of(ids, table[group], f"column {group!r}")
    if split is not None:
        known = [_SPLITS.get(str(word).strip().lower()) for word in table[split]]
        parts = table[split] if None in known else known
        record.fields["split"] = as_labels(make_bags_of(column, parts, f"column {split!r}"))


def for_each_bag(
    function: Callable[[str], Any], names: Sequence[str], label: str, n_jobs: Any, verbose: bool
) -> tuple[list[Any], list[tuple[str, str]]]:
    """``function(name)`` for the bags that can be read, and the problems of the others."""

    def attempt(name: str) -> tuple[Any, str | None]:
        try:
            return function(name), None
        except ContentError as error:
            return None, str(error)

    parallel = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")
    results = parallel(delayed(attempt)(name) for name in names)
    if verbose:
        from tqdm import tqdm

        results = tqdm(results, total=len(names), desc=label, file=sys.stderr)
    found = list(results)
    problems = [(name, what) for name, (_, what) in zip(names, found, strict=True) if what]
    return [value for value, what in found if what is None], problems
