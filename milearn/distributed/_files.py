"""Distributed bags from files that workers read, with many bags or one bag per file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client
from sklearn.utils import Bunch

from .._bags import Bags
from .._bags.segments import bag_ranges, offsets_of
from ..datasets import load_bags
from ..datasets._errors import BagFileError
from ..datasets._formats.folder import FoundBag, labels_of, read_found, survey
from ..datasets._formats.npy_folder import is_npy_folder
from ._bags import LOCAL_BYTES, PARTITION_BYTES, DistributedBags, Partitions
from ._tasks import bare, check_memory, current_client, described, in_files, name_of, put, results

# Fields with one entry per bag that are concatenated over files.
_PER_BAG = ("bag_names", "sample_weight", "split")


def scan_bags(
    paths: Any,
    *,
    dtype: Any = None,
    partition_bytes: int = PARTITION_BYTES,
    local_bytes: int = LOCAL_BYTES,
    client: Client | None = None,
    **options: Any,
) -> Bunch:
    """Distributed bags of files with many bags each, in any format of ``load_bags``.

    Every worker must be able to read the files at the same path. Folders of .npy files are memory
    mapped: their partitions do not need memory, and are read in blocks in every pass. Other files
    are loaded completely and kept by the workers, with one partition per file.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        The files, in the order of the bags.
    dtype : {float64, float32, float16}, default=None
        Type of the instances of files that are not mapped. By default, the type in the files.
    partition_bytes : int, default=67108864
        Size of a partition of a folder of .npy files, as stored.
    local_bytes : int, default=16777216
        Size up to which selected bags are brought to this process for passes over them.
    client : distributed.Client, default=None
        By default, the client of the process.
    **options : dict
        Further arguments of :func:`milearn.datasets.load_bags`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        ``data`` : :class:`DistributedBags`; ``target`` : ndarray of shape (n_bags,), or None if
        a file has no labels; and ``target_names``, ``bag_names``, ``sample_weight`` and ``split``
        if all files contain them.

    Raises
    ------
    FileNotFoundError
        If a worker does not find a file.
    BagFileError
        If a file cannot be read, or the files are not compatible. This is a ValueError.

    See Also
    --------
    scan_bag_folder : One file per bag.
    milearn.datasets.save_bags : Writes such files.

    Examples
    --------
    >>> from milearn.distributed import scan_bags
    >>> parts = ["part-0", "part-1"]  # folders that save_bags(format="npy-folder") has written
    >>> shards = scan_bags(parts)  # doctest: +SKIP
    >>> shards.data, shards.target  # doctest: +SKIP
    """
    client = current_client(client)
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = [str(Path(path).absolute()) for path in given]
    if not files:
        raise ValueError("paths is empty: name at least one file.")
    options = {"dtype": dtype, **options}
    shards = [client.submit(_shard, file, options, key=name_of("shard")) for file in files]
    heads = results(client, [client.submit(_head, shard, key=name_of("head")) for shard in shards])
    _check_alike(files, heads)
    futures, sizes = [], []
    for shard, head in zip(shards, heads, strict=True):
        ranges: Iterable[tuple[int, int]] = [(0, len(head["sizes"]))]
        if head["mapped"]:
            row_bytes = head["dtype"].itemsize * head["n_features"]
            ranges = bag_ranges(offsets_of(head["sizes"]), max(1, partition_bytes // row_bytes))
        for first, last in ranges:
            futures.append(client.submit(_bags_of, shard, first, last, key=name_of("bags")))
            sizes.append(head["sizes"][first:last])
    targets = [head["target"] for head in heads]
    bunch = Bunch(
        data=DistributedBags(Partitions(client, futures, sizes, local_bytes), heads[0]),
        target=None if any(part is None for part in targets) else np.concatenate(targets),
    )
    if heads[0]["target_names"] is not None:
        bunch["target_names"] = np.asarray(heads[0]["target_names"])
    for name in _PER_BAG:
        if all(name in head["fields"] for head in heads):
            bunch[name] = np.concatenate([head["fields"][name] for head in heads])
    return bunch


def _shard(path: str, options: dict[str, Any]) -> Bunch:
    if is_npy_folder(Path(path)):
        options = {**options, "mmap": True, "dtype": None}
    return load_bags(path, **options)


def _head(shard: Bunch) -> dict[str, Any]:
    names = shard.get("target_names")
    return {
        **described(shard["data"]),
        "mapped": in_files(shard["data"]),
        "target": shard["target"],
        "target_names": None if names is None else [str(name) for name in names],
        "fields": {name: shard[name] for name in _PER_BAG if name in shard},
    }


def _bags_of(shard: Bunch, first: int, last: int) -> Bags:
    bags = bare(shard["data"])
    return bags if (first, last) == (0, len(bags)) else bags[first:last]


def _check_alike(files: Sequence[str], heads: Sequence[dict[str, Any]]) -> None:
    for file, head in zip(files, heads, strict=True):
        for name in ("n_features", "dtype", "is_sparse", "target_names"):
            if head[name] != heads[0][name]:
                raise BagFileError(
                    f"{file}: {name} is {head[name]} but {heads[0][name]} in {files[0]}; save the "
                    "files in one form, or pass dtype= and as_sparse=."
                )


def scan_bag_folder(
    path: str | os.PathLike[str],
    table: Any = None,
    *,
    bag: str | None = None,
    label: str | tuple[str, str] | None = None,
    group: str | None = None,
    split: str | None = None,
    key: str = "features",
    dtype: Any = None,
    empty: str = "raise",
    partition_bytes: int = PARTITION_BYTES,
    local_bytes: int = LOCAL_BYTES,
    client: Client | None = None,
) -> Bunch:
    """Distributed bags of a folder with one file per bag.

    This process reads the headers of the files. The workers read the instances of the bags of a
    partition and keep them in memory. Every worker must be able to read the files at the same path.

    Parameters
    ----------
    path : path-like
        The folder, in any layout supported by :func:`milearn.datasets.load_bag_folder`.
    table : path-like or data frame, default=None
        One row per bag with its label, see :func:`~milearn.datasets.load_bag_folder`.
    bag, label, group, split : str, default=None
        Columns of the table; for ``label`` also a tuple of two, the event and the time.
    key : str, default="features"
        Name of the array of the instances in files with named arrays.
    dtype : {float16, float32, float64}, default=None
        Type of the instances. By default, the widest type of the files.
    empty : {"raise", "drop"}, default="raise"
        Whether files without instances raise an error or are skipped.
    partition_bytes : int, default=67108864
        Size of a partition as stored. A bag is in one partition.
    local_bytes : int, default=16777216
        Size up to which selected bags are brought to this process for passes over them.
    client : distributed.Client, default=None
        By default, the client of the process.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        ``data`` : :class:`DistributedBags`; ``target``, ``bag_names``, ``target_names``,
        ``groups``, ``group_names``, ``split`` and ``dropped`` as
        :func:`~milearn.datasets.load_bag_folder` returns them. Positions and labels of instances
        are not read.

    Raises
    ------
    FileNotFoundError
        If the folder or the table does not exist.
    BagFileError
        If files are missing, unreadable or have the wrong shape; the message lists all of them.
        This is a ValueError.
    MemoryError
        If a partition takes more than half of the memory of a worker.

    See Also
    --------
    scan_bags : Files with many bags.

    Examples
    --------
    >>> from milearn.distributed import scan_bag_folder
    >>> slides = scan_bag_folder("slides", "labels.csv")  # doctest: +SKIP
    >>> slides.data, slides.target  # doctest: +SKIP
    """
    client = current_client(client)
    columns = {"bag": bag, "label": label, "group": group, "split": split}
    folder = Path(path).absolute()
    bags, kept_dtype, dropped = survey(
        folder,
        table,
        columns,
        arrays=(key, None),
        dtype=dtype,
        empty=empty,
        progress=(None, False),
    )
    all_sizes = np.array([one.size for one in bags])
    row_bytes = max(1, kept_dtype.itemsize * bags[0].width)
    offsets = offsets_of(all_sizes)
    ranges = list(bag_ranges(offsets, max(1, partition_bytes // row_bytes)))
    rows = max(offsets[last] - offsets[first] for first, last in ranges)
    check_memory(client, int(rows) * row_bytes)
    futures, sizes = [], []
    for first, last in ranges:
        files = put(client, bags[first:last], "files")
        futures.append(client.submit(_read, str(folder), files, kept_dtype, key=name_of("bags")))
        sizes.append(all_sizes[first:last])
    description = {
        "n_features": bags[0].width,
        "dtype": kept_dtype,
        "is_sparse": False,
        "feature_names": None,
    }
    made = Partitions(client, futures, sizes, local_bytes)
    bunch = Bunch(data=DistributedBags(made, description))
    bunch.update(labels_of(bags))
    bunch["dropped"] = dropped
    return bunch


def _read(path: str, bags: Sequence[FoundBag], dtype: np.dtype) -> Bags:
    return bare(read_found(Path(path), bags, dtype))
