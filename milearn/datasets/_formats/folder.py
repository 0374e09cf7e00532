"""Reading of folders with one file per bag: ``load_bag_folder``."""

from __future__ import annotations

import os
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.annotations import bag_columns
from ..._bags.segments import offsets_of
from ..._fit.validation import survival_outcomes
from .._errors import BagFileError, ContentError, naming
from .bag_files import ArrayHeader, read_array
from .folder_layout import BagFiles, BagRow, Place, find_bags, read_bag_table
from .npy_folder import read_npy_folder, write_npy_folder
from .record import (
    BagRecord,
    column_of,
    encode_labels,
    float_type,
    make_bags_of,
    read_numbers,
)
from .text import check_column

_SHOWN = 20  # maximum number of bags in an error message
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
    bag_data: Sequence[str] | None = None,
    key: str = "features",
    coords: str | None = "coords",
    dtype: Any = None,
    empty: str = "raise",
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

    Parameters
    ----------
    path : path-like
        The folder.
    table : path-like or data frame, default=None
        A .csv, .tsv or .parquet file, or a pandas or polars frame, with one row per bag. The bags
        are in the order of its rows, or in the order of their names without a table. A row without
        a file and a file without a row are errors; an empty label means that the bag has no label.
    bag, label, group, split : str, default=None
        Columns of the table: the bag, which is the name of its file with or without suffix; its
        label; the group that splitters keep together, such as a patient; the published part. When
        None they are recognised by their names: ``bag``, ``bag_name``, ``slide_id``, ...;
        ``label``, ``bag_label``, ``target``; ``group``, ``case_id``, ``patient_id``, ``patient``,
        ...; ``split``. A tuple of two columns for ``label``, whether the event was observed (0 or
        1, true or false, yes or no) and the time, makes outcomes of survival analysis, see
        :func:`milearn.survival.survival_outcomes`.
    bag_data : sequence of str, default=None
        Further columns of the table, such as age or site, which become ``data.bag_data``. An empty
        cell is NaN in a column of numbers.
    key : str, default="features"
        Name of the array of the instances in files with named arrays.
    coords : str, default="coords"
        Name of the array of the positions of the instances, which becomes
        ``data.instance_data["coords"]`` if it exists; None ignores positions.
    dtype : {float16, float32, float64}, default=None
        Type of the instances. None keeps float16, float32 and float64, the widest if files differ;
        integers of up to two bytes become float32 and others float64.
    empty : {"raise", "drop"}, default="raise"
        Whether a file without instances is an error, or is ignored and listed in ``dropped``.
    mmap : path-like, default=False
        A new folder. The instances are written to a file in this folder and mapped into memory on
        demand; :func:`load_bags` opens the folder again with ``mmap=True``. False reads into
        memory.
    n_jobs : int, default=None
        Number of threads that read files. None means 1 unless in a :func:`joblib.parallel_config`
        context, -1 means one per processor. The HDF5 library always reads one file at a time.
    verbose : bool, default=False
        Whether to show a progress bar on stderr, for which tqdm has to be installed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        As in :func:`load_bags`: ``data`` (:class:`~milearn.Bags`), ``target`` (None without labels)
        and ``bag_names``; ``target_names`` for text labels, ``groups`` and ``group_names``,
        ``split`` (0 = training, 1 = test, 2 = validation if the table contains these words,
        otherwise its values) and ``instance_labels`` if they are known; and ``dropped``, the names
        of the bags that were ignored.

    Raises
    ------
    FileNotFoundError
        If there is no such folder or table.
    BagFileError
        A ValueError with every file that is missing, without a row, unreadable, empty, of the wrong
        shape, or of a different width than most files.
    ImportError
        For a file whose library (h5py, torch, pyarrow) is not installed. A .pt file is a pickle;
        torch reads it with ``weights_only=True``, which does not execute code in the file.

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
    >>> slides.bag_names, slides.target, slides.target_names
    (array(['slide_2', 'slide_1'], dtype='<U7'), array([1, 0]), array(['normal', 'tumour'],
    dtype='<U6'))
    """
    further = list(bag_columns(bag_data))
    mapped = _place_of_map(mmap)
    columns: dict[str, Any] = {"bag": bag, "label": label, "group": group, "split": split}
    path, progress = Path(path), (n_jobs, verbose)
    bags, kept_dtype, dropped = survey(
        path, table, columns, arrays=(key, coords), dtype=dtype, empty=empty, progress=progress
    )
    # Next to the folder of the map, of which it becomes a part.
    scratch = mapped and mapped.with_name(f".{mapped.name}.{secrets.token_hex(8)}.part.npy")
    try:
        record = _filled(path, bags, kept_dtype, scratch, *progress)
        if further:
            with naming(path):
                record.bags = record.bags.with_bag_data(_bag_data(bags, table, further))
        record.fields |= labels_of(bags)
        record.target = record.fields.pop("target")
        if len(dropped):
            names = ", ".join(dropped)
            record.descr = f"{record.describe(path)} Left out because they are empty: {names}."
        if mapped is None or scratch is None:
            bunch = record.to_bunch(path)
        else:
            with naming(mapped):
                write_npy_folder(mapped, record, {"instances": scratch})
                del record  # Windows cannot remove a mapped file
                bunch = read_npy_folder(mapped, mmap=True).to_bunch(mapped)
    finally:
        if scratch is not None:
            scratch.unlink(missing_ok=True)
    bunch["dropped"] = dropped
    return bunch


def survey(
    path: Path,
    table: Any,
    columns: dict[str, Any],
    *,
    arrays: tuple[str, str | None],
    dtype: Any,
    empty: str,
    progress: tuple[int | None, bool],
) -> tuple[list[FoundBag], np.dtype, np.ndarray]:
    """The bags of a folder that are not empty, their type, and the names of the empty ones.

    Only headers of files are read. The parameters are those of :func:`load_bag_folder`: ``arrays``
    contains ``key`` and ``coords``, and ``progress`` contains ``n_jobs`` and ``verbose``.
    """
    if path.is_file():
        raise FileNotFoundError(f"{path}: this is a file; read it by load_bags.")
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: there is no such folder.")
    if empty not in ("raise", "drop"):
        raise ValueError(f"empty={empty!r} is unknown; choose 'raise' or 'drop'.")
    wanted = None if dtype is None else float_type(dtype)
    files, splits = find_bags(path, *arrays)
    table = splits if table is None else table
    asked = [f"{part}=" for part, column in columns.items() if column is not None]
    rows = {one.name: BagRow({}, {}) for one in files}
    problems: list[tuple[str, str]] = []
    if table is not None:
        rows, problems = read_bag_table(table, [*rows], columns, path)
    elif asked:
        raise ValueError(f"{', '.join(asked)} without a table: pass the table that has the column.")
    by_name = {one.name: one for one in files}
    pairs = [(by_name[name], row) for name, row in rows.items()]
    found = _in_threads(_found_bag, pairs, "sizes", *progress)
    problems += _problems(found, empty)
    _check_readable(path, problems, {*rows, *(name for name, _ in problems)})
    bags = [bag for bag in found if bag.size]
    if not bags:
        raise BagFileError(f"{path}: every file is empty; there is no bag to read.")
    if wanted is None:
        wanted = np.result_type(*{_kept(bag.parts["features"].dtype) for bag in bags})
    dropped = np.array([bag.name for bag in found if not bag.size], dtype=str)
    return bags, wanted, dropped


def read_found(path: Path, bags: Sequence[FoundBag], dtype: np.dtype) -> Bags:
    """Some of the bags found by :func:`survey`, in memory."""
    return _filled(path, bags, dtype, None, 1, False).bags


def _place_of_map(mmap: Any) -> Path | None:
    if mmap is False or mmap is None:
        return None
    if mmap is True:
        raise ValueError(
            "mmap=True does not define where to write the instances: pass the path of a "
            "folder, mmap='folder', which stays and can be opened again."
        )
    place = Path(mmap)
    if place.exists():
        raise FileExistsError(
            f"{place}: this exists already; remove it, or open it by load_bags(path, mmap=True) if "
            "it holds the bags."
        )
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{place.parent}: there is no such folder; create it first.")
    return place


# -- first pass: the headers of the files --------------------------------------------------------


class _Part(NamedTuple):
    place: Place
    dtype: np.dtype
    width: int  # values per instance


@dataclass
class FoundBag:
    """The headers of a bag's files, or the problem with them, and its row in the table."""

    name: str
    row: BagRow
    size: int = 0
    parts: dict[str, _Part] = field(default_factory=dict)
    label: Any = None
    problem: str | None = None

    @property
    def width(self) -> int:
        return self.parts["features"].width


def _found_bag(given: tuple[BagFiles, BagRow]) -> FoundBag:
    files, row = given
    bag = FoundBag(files.name, row)
    try:
        for part, places in files.parts.items():
            found = ((p, read_array(p.path, p.name, sure=p.sure)) for p in places)
            place, header = next((each for each in found if each[1] is not None), (None, None))
            if place is None or header is None:
                continue
            if part == "label":
                label = np.empty(header.shape, header.dtype)
                read_array(place.path, place.name, label)
                if label.size != 1:
                    raise ContentError(
                        f"the label has the shape {label.shape} instead of one number"
                    )
                bag.label = label.item()
            elif part == "features":
                bag.size, width = _instances(header)
                bag.parts[part] = _Part(place, header.dtype, width)
            elif bag.size:
                width = _row_width(part, header, bag.size)
                bag.parts[part] = _Part(place, header.dtype, width)
    except ContentError as error:
        bag.problem = str(error)
    return bag


def _instances(header: ArrayHeader) -> tuple[int, int]:
    """Numbers of instances and of features."""
    shape = _without_first(header.shape)
    if header.dtype.kind not in "biuf":
        raise ContentError(f"it holds {header.dtype} values, which are not numbers")
    if shape == (0,):
        return 0, 0
    if len(shape) != 2 or shape[1] == 0:
        raise ContentError(
            f"the instances have the shape {header.shape} instead of (n, d) or (1, n, d)"
        )
    return int(shape[0]), int(shape[1])


def _row_width(part: str, header: ArrayHeader, size: int) -> int:
    """Values per instance of an array (n,), (n, k) or (1, n, k)."""
    n, *rest = _without_first(header.shape) or (0,)
    width = rest[0] if rest else 1
    wrong_width = part == "instance_labels" and width != 1
    if n != size or len(rest) > 1 or header.dtype.kind not in "biuf" or wrong_width:
        raise ContentError(
            f"{part} have the shape {header.shape} for {size} instances, type {header.dtype}"
        )
    return width


def _without_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[1:] if len(shape) == 3 and shape[0] == 1 else shape


def _problems(bags: Sequence[FoundBag], empty: str) -> list[tuple[str, str]]:
    """All problems of the files, first of single files, then between files."""
    found = [(bag.name, bag.problem) for bag in bags if bag.problem is not None]
    full = [bag for bag in bags if bag.problem is None and bag.size]
    if empty == "raise":
        found += [
            (bag.name, "it has no instances (empty='drop' leaves such files out)")
            for bag in bags
            if not bag.size and bag.problem is None
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


def _check_readable(path: Path, problems: Sequence[tuple[str, str]], bags: Collection[Any]) -> None:
    if not problems:
        return
    n_wrong = len({name for name, _ in problems})
    lines = [f"  {name}: {what}" for name, what in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        lines.append(f"  and {len(problems) - _SHOWN} more")
    raise BagFileError(
        f"{path}: {n_wrong} of {len(bags)} bags cannot be read; correct or remove their files or "
        "rows:\n" + "\n".join(lines)
    )


# -- second pass: one array, filled in place -------------------------------------------------------


def _filled(
    path: Path,
    bags: Sequence[FoundBag],
    dtype: np.dtype,
    scratch: Path | None,
    n_jobs: int | None,
    verbose: bool,
) -> BagRecord:
    """All instances, in memory or in a new file."""
    offsets = offsets_of([bag.size for bag in bags])
    shape: Any = (int(offsets[-1]), bags[0].width)
    features = (
        np.empty(shape, dtype)
        if scratch is None
        else np.lib.format.open_memmap(scratch, mode="w+", dtype=dtype, shape=shape)
    )
    arrays = {"features": features}
    for part, (_, _, width) in list(bags[0].parts.items())[1:]:
        types = {bag.parts[part].dtype.newbyteorder("=") for bag in bags}
        shape = (len(features), width) if part == "coords" else len(features)
        arrays[part] = np.empty(shape, np.result_type(*types))

    def fill(at: int) -> str | None:
        try:
            for part, array in arrays.items():
                place = bags[at].parts[part].place
                read_array(place.path, place.name, array[offsets[at] : offsets[at + 1]])
        except ContentError as error:
            return str(error)
        return None

    found = _in_threads(fill, range(len(bags)), "bags", n_jobs, verbose)
    problems = [(bag.name, what) for bag, what in zip(bags, found, strict=True) if what is not None]
    _check_readable(path, problems, bags)
    data = {"coords": arrays["coords"]} if "coords" in arrays else None
    with naming(path):
        record = BagRecord(make_bags_of(arrays["features"], offsets, instance_data=data))
    if "instance_labels" in arrays:
        record.fields["instance_labels"] = arrays["instance_labels"]
    return record


def _kept(dtype: np.dtype) -> np.dtype:
    """The default type of values."""
    if dtype.kind == "f" and dtype.itemsize in (2, 4, 8):
        return dtype.newbyteorder("=")
    return np.dtype(np.float32 if dtype.kind in "biu" and dtype.itemsize <= 2 else np.float64)


def labels_of(bags: Sequence[FoundBag]) -> dict[str, Any]:
    """Labels, names, groups and splits of the bags found by :func:`survey`, for a Bunch."""
    parts = {part: [bag.row.parts[part] for bag in bags] for part in bags[0].row.parts}
    label, group, split = (parts.get(part) for part in ("label", "group", "split"))
    if label is None and all(bag.label is not None for bag in bags):
        label = [bag.label for bag in bags]
    names = np.array([bag.name for bag in bags], dtype=str)
    fields: dict[str, Any] = {"target": None, "bag_names": names}
    if label and isinstance(label[0], tuple):
        fields["target"] = survival_outcomes(*zip(*label, strict=True))
    elif label is not None:
        fields["target"], classes = encode_labels(label)
        if classes is not None:
            fields["target_names"] = classes
    if group is not None:
        named = np.unique([str(value) for value in group], return_inverse=True)
        fields["group_names"], fields["groups"] = named
    if split is not None:
        words = [str(value).strip().lower() for value in split]
        if all(word in _SPLITS for word in words):
            fields["split"] = np.array([_SPLITS[word] for word in words])
        else:
            codes, classes = encode_labels(split)
            texts = np.array([str(value) for value in split])
            fields["split"] = codes if classes is None else texts
    return fields


def _bag_data(bags: Sequence[FoundBag], table: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of the table for the bags that are kept."""
    known = bags[0].row.columns
    if not known:
        raise ContentError("bag_data= without a table: pass the table that has the columns.")
    typed = hasattr(table, "columns") or Path(table or "").suffix.lower() in (".parquet", ".pq")
    chosen = {}
    for name in names:
        check_column(name, "bag_data", list(known))
        cells = [bag.row.columns[name] for bag in bags]
        chosen[name] = column_of(cells if typed else read_numbers(cells))
    return chosen


def _in_threads(
    function: Callable[[Any], Any],
    items: Collection[Any],
    label: str,
    n_jobs: int | None,
    verbose: bool,
) -> list[Any]:
    """``function(item)`` for every item, with a progress bar."""
    parallel = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")
    results = parallel(delayed(function)(item) for item in items)
    if verbose:
        from tqdm import tqdm

        results = tqdm(results, total=len(items), desc=label, file=sys.stderr)
    return list(results)
