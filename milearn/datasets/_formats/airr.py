"""Folders with one table of receptors per person, in the AIRR standard: ``load_airr``."""

from __future__ import annotations

import csv
import mmap
import os
import zlib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.kinds import listed
from ..._bags.segments import offsets_of
from ..._fit.warn import warn_user
from .._errors import BagFileError, ContentError, file_name_in_errors
from .folder import (
    FoundBag,
    add_table,
    check_readable,
    described,
    files_of,
    for_each_bag,
    rows_of_bags,
)
from .record import BagRecord, declared_classes, make_bags_of
from .table import quoted_names

_SUFFIXES = (".tsv", ".tsv.gz")
_SEQUENCE, _GENES, _COUNT = "junction_aa", ("v_call", "j_call"), "duplicate_count"
_PRODUCTIVE, _FALSE = "productive", ["F", "f", "False", "false", "FALSE", "0"]
# Words for a missing sequence or gene, those of pandas.
_GAPS = ["", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
_VALID = "[ACDEFGHIKLMNPQRSTVWY]+"
# Whole numbers below are exact in double precision.
_MOST_COPIES = 2**53
_ROWS_AT_ONCE = 100_000
# Why a row is left out. A row with several reasons is counted for the first one.
_REASONS = (
    "not productive",
    f"without {_SEQUENCE}",
    "with characters other than the 20 amino acids",
    f"with a {_COUNT} that is not a whole number above zero",
)
# Lines of damaged rows that are named for a file, and files that are named.
_SHOWN_LINES, _SHOWN_FILES = 3, 5
_FILE_ERRORS = (OSError, EOFError, UnicodeError, zlib.error)


@dataclass
class _Repertoire:
    """The distinct receptors of a person in the order of their lengths, then of their letters.

    Names of the same length take no more memory than their letters.
    """

    by_length: dict[int, np.ndarray]
    # Sums over the rows of each receptor.
    counts: np.ndarray | None
    # Number of damaged rows for each reason, and the first lines.
    n_dropped: np.ndarray
    lines: list[int]


def load_airr(
    path: str | os.PathLike[str],
    metadata: Any = None,
    *,
    bag: str | None = None,
    label: str | tuple[str, str] | None = None,
    group: str | None = None,
    split: str | None = None,
    bag_data: Any = None,
    classes: Any = None,
    missing: str = "error",
    genes: bool = False,
    receptors: np.ndarray | None = None,
    verbose: bool = False,
) -> Bunch:
    """Read the immune repertoires of a folder: one AIRR table per person, and their metadata.

    A table is a file ``*.tsv`` or ``*.tsv.gz`` with one row per rearrangement and the column names
    of the AIRR standard: ``junction_aa``, and optionally ``duplicate_count``, ``v_call`` and
    ``j_call``. Further columns are ignored. Rows of a person with the same receptor are merged, and
    their counts are added.

    A person becomes a bag, and a receptor an instance. Features are receptors, too: the row of an
    instance has a 1 in the column of its receptor, and zeros elsewhere, which are not stored.

    Read more in the :ref:`User Guide <tutorial_receptors>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    path : path-like
        The folder. It may contain the metadata, which are not read as a repertoire.
    metadata : path-like or data frame, default=None
        A .csv, .tsv or .parquet file, or a pandas or polars frame, with one row per person, as the
        table of :func:`load_bag_folder`. People are in the order of its rows. Without metadata they
        are in the order of their files.
    bag, label, group, split : str, default=None
        Columns of the metadata, as in :func:`load_bag_folder`. ``bag`` has the file of a person,
        with or without suffix.
    bag_data : list of str, or mapping of str to str, default=None
        Further columns of the metadata, such as age or sequencing run, which become
        ``data.bag_data``.
    classes : array-like of str or of numbers, default=None
        As in :func:`load_bag_folder`.
    missing : {"error", "nan", "drop"}, default="error"
        As in :func:`load_bag_folder`.
    genes : bool, default=False
        Whether receptors with the same ``junction_aa`` and different V or J genes are different.
        The first gene of a call is used, without its allele.
    receptors : ndarray of bytes of shape (n_receptors,), default=None
        ``receptors`` of the training data, for people that a fitted model predicts, with the same
        ``genes``. A receptor that is not among them is an instance of zeros. By default, the
        features are all receptors of the folder, of which models of motifs count k-mers.
    verbose : bool, default=False
        Whether to show a progress bar on stderr, for which tqdm has to be installed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        As in :func:`load_bag_folder`: ``data`` (:class:`~milearn.Bags` of sparse float32 rows, with
        ``instance_data["duplicate_count"]`` if the files have it), ``target`` (None without
        labels), ``bag_names``, ``dropped``, and ``classes``, ``groups`` and ``split`` if
        they are known. ``receptors``, of shape (n_receptors,), has the name of each feature, the
        shortest first:
        ``b"CASSLGF"``, or ``b"CASSLGF TRBV7-9 TRBJ1-2"`` with ``genes=True``. ``n_dropped``, of
        shape (n_people,), has the number of rows of each person that were left out.

    Raises
    ------
    FileNotFoundError
        If there is no such folder or metadata.
    BagFileError
        A ValueError with every file that is missing or without a row, before any repertoire is
        read, or with every file that is unreadable, without a required column, or without a single
        receptor; or with the columns of the metadata, if one that was asked for is not among them.
    ValueError
        If ``receptors`` are not those of :func:`load_airr`, or have genes and ``genes`` is False,
        or the other way round.

    Warns
    -----
    UserWarning
        If rows were left out, with their number for each reason and the first files and lines:
        those with a ``productive`` that is false, without ``junction_aa``, with characters other
        than the 20 amino acids, such as a stop codon, or with a ``duplicate_count`` that is not a
        whole number above zero. If instances are zeros, because their receptors are not among
        ``receptors``, with their number. If the metadata of training people have no column that is
        known to hold labels, with its columns.

    See Also
    --------
    milearn.baselines.SequenceAbundanceClassifier : Counts associated receptors.
    load_bag_folder : Read a folder with one file of features per bag.

    Notes
    -----
    Files are read in blocks, and only distinct receptors are kept. The bags of 200 people with
    100,000 receptors each take 0.3 GB, and the names of 20 million receptors 0.6 GB.

    Estimators do not use ``duplicate_count``. It is there for selections, such as receptors with at
    least two copies, and for tables of counts. As each instance has one feature, the offsets of the
    bags are the row pointers of the table of people and receptors, see the example.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from scipy import sparse
    >>> from milearn.datasets import load_airr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, rows in (("p1", "CASSLGF\\t3\\nCASSPGF\\t1"), ("p2", "CASSLGF\\t2")):
    ...         file = pathlib.Path(folder, f"{name}.tsv")
    ...         _ = file.write_text(f"junction_aa\\tduplicate_count\\n{rows}\\n")
    ...     metadata = pathlib.Path(folder, "metadata.csv")
    ...     _ = metadata.write_text("filename,label\\np1.tsv,healthy\\np2.tsv,ill\\n")
    ...     people = load_airr(folder, metadata)
    >>> people.data
    Bags(n_bags=2, n_instances=3, n_features=2, sizes=1..2, dtype=float32, sparse,
    instance_data=['duplicate_count'])
    >>> people.receptors, people.target.tolist()
    (array([b'CASSLGF', b'CASSPGF'], dtype='|S7'), ['healthy', 'ill'])
    >>> X, counts = people.data, people.data.instance_data["duplicate_count"]
    >>> sparse.csr_array((counts, X.instances.indices, X.offsets), shape=X.shape).toarray()
    array([[3, 1],
           [2, 0]], dtype=int32)
    """
    path = Path(path)

    columns: dict[str, Any] = {"bag": bag, "label": label, "group": group, "split": split}
    needed = [_SEQUENCE, *(_GENES if genes else ())]
    declared = declared_classes(classes)
    files = _files(path, metadata)
    rows, problems, dropped = rows_of_bags(metadata, [*files], columns, path, missing, declared)
    check_readable(path, problems, {*rows, *(name for name, _ in problems)})
    if not rows:
        raise BagFileError(f"{path}: no repertoire has a row of the metadata and all its entries.")
    given = None
    if receptors is not None:
        given = _known_receptors(np.asarray(receptors, dtype=bytes), genes)

    found, problems = for_each_bag(
        lambda name: _read(files[name], needed), [*rows], "repertoires", 1, verbose
    )
    check_readable(path, problems, rows)
    without = [name for name, each in zip(rows, found, strict=True) if each.counts is None]
    if len(without) < len(rows):
        lacking = f"there is no column {_COUNT!r}, which other files have"
        check_readable(path, [(name, lacking) for name in without], rows)
    people = [FoundBag(name, row) for name, row in rows.items()]
    n_dropped = np.array([repertoire.n_dropped.sum() for repertoire in found])
    _warn_of_rows({files[name]: r for name, r in zip(rows, found, strict=True) if r.lines})
    with file_name_in_errors(path):
        bags, known = _one_hot_bags(found, given)
        record = BagRecord(bags)
        add_table(record, people, bag_data, declared)
    record.descr = described(record, path, dropped)
    bunch = record.to_bunch(path)
    if given is not None:
        _warn_of_zeros(bags)
    elif metadata is not None and bunch["target"] is None:
        warn_user(
            "target is None: the metadata have no column of labels among "
            f"{quoted_names(list(people[0].row.table.columns))}; name it as label=.",
            UserWarning,
        )
    bunch["receptors"], bunch["n_dropped"], bunch["dropped"] = known, n_dropped, dropped
    return bunch


def _known_receptors(receptors: np.ndarray, genes: bool) -> dict[int, np.ndarray]:
    longer = np.diff(np.char.str_len(receptors))
    ordered = (longer > 0) | ((longer == 0) & (receptors[1:] > receptors[:-1]))
    if not (len(receptors) and ordered.all()):
        raise ValueError("receptors are not in the order of load_airr: pass its receptors.")
    if (b" " in receptors[0]) != genes:
        raise ValueError(
            f"receptors have {'no' if genes else 'V and J'} genes, such as {receptors[0]!r}, and "
            f"genes={genes}: pass genes={not genes}, as for the training people."
        )
    return _by_length(receptors)


def _files(path: Path, metadata: Any) -> dict[str, Path]:
    """The file of each person."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such folder.")
    files = files_of(path, _SUFFIXES)
    if metadata is not None and not hasattr(metadata, "columns"):
        place = Path(metadata).resolve()
        files = {name: file for name, file in files.items() if file.resolve() != place}
    if not files:
        raise BagFileError(
            f"{path}: there is no repertoire ({', '.join(_SUFFIXES)}) in this folder; check it."
        )
    return files


# -- repertoires ---------------------------------------------------------------------------------


def _read(file: Path, needed: list[str]) -> _Repertoire:
    import pandas

    names: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    lines: list[int] = []
    n_dropped = np.zeros(len(_REASONS), dtype=np.intp)
    table = {"sep": "\t", "quoting": csv.QUOTE_NONE, "encoding": "utf-8-sig"}
    try:
        header = pandas.read_csv(file, nrows=0, **table).columns
        for column in needed:
            if column not in header:
                raise ContentError(f"there is no column {column!r} among {quoted_names(header)}")
        has_counts = _COUNT in header
        blocks = pandas.read_csv(
            file,
            usecols=lambda name: name in (*needed, _COUNT, _PRODUCTIVE),
            # The first field is no index where the first row has more fields than the header.
            index_col=False,
            dtype=str,
            keep_default_na=False,
            na_values=dict.fromkeys((_SEQUENCE, *_GENES), _GAPS),
            skip_blank_lines=False,
            chunksize=_ROWS_AT_ONCE,
            **table,
        )
        with blocks:
            for block in blocks:
                # One row for each of the reasons.
                faults = np.zeros((len(_REASONS), len(block)), dtype=bool)
                if _PRODUCTIVE in block:
                    faults[0] = block[_PRODUCTIVE].isin(_FALSE)
                faults[1] = block[_SEQUENCE].isna()
                faults[2] = ~block[_SEQUENCE].fillna("A").str.fullmatch(_VALID).to_numpy(dtype=bool)
                if has_counts:
                    copies = pandas.to_numeric(block[_COUNT], errors="coerce")
                    whole = (copies > 0) & (copies < _MOST_COPIES) & (copies % 1 == 0)
                    faults[3] = ~whole.to_numpy(dtype=bool)
                valid = ~faults.any(axis=0)
                if has_counts:
                    counts.append(copies.to_numpy(dtype=np.float64)[valid])
                bad = np.flatnonzero(~valid)
                n_dropped += np.bincount(faults[:, bad].argmax(axis=0), minlength=len(_REASONS))
                # The header is line 1.
                lines += [int(block.index[at]) + 2 for at in bad[: _SHOWN_LINES + 1 - len(lines)]]
                names.append(_names(block[valid], needed))
    except (*_FILE_ERRORS, pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise ContentError(f"it cannot be read ({error})") from error
    if not any(map(len, names)):
        raise ContentError(f"it has no receptor: {_reasons(n_dropped) or 'there is no row'}")
    distinct, places = np.unique(np.concatenate(names), return_inverse=True)
    sums = np.bincount(places, np.concatenate(counts)) if has_counts else None
    if sums is not None:
        sums = sums.astype(np.int32 if sums.max() < 2**31 else np.int64)
        sums = sums[np.argsort(np.char.str_len(distinct), kind="stable")]
    return _Repertoire(_by_length(distinct), sums, n_dropped, lines)


def _by_length(names: np.ndarray) -> dict[int, np.ndarray]:
    """Sorted names of each length, in memory that the system gets back when it is released."""
    lengths, found, end = np.char.str_len(names), {}, 0
    memory = np.frombuffer(mmap.mmap(-1, int(lengths.sum())), dtype=np.uint8)
    for length in np.unique(lengths).tolist():
        some = names[lengths == length]
        start, end = end, end + length * len(some)
        found[length] = memory[start:end].view(f"S{length}")
        found[length][:] = np.sort(some)
    return found


def _names(block: Any, needed: list[str]) -> np.ndarray:
    """Receptors as bytes: the sequence, and the genes without alleles."""
    names = block[_SEQUENCE]
    for column in needed[1:]:
        names = names + " " + block[column].fillna("").str.replace("[*,].*", "", regex=True)
    return np.char.encode(names.to_numpy(dtype=str), "utf-8") if len(names) else np.empty(0, "S1")


def _distinct(parts: list[np.ndarray]) -> np.ndarray:
    """The sorted names of all people; each part is sorted."""
    names = np.concatenate(parts)
    names.sort(kind="stable")  # merges sorted parts
    first = np.ones(len(names), dtype=bool)
    np.not_equal(names[1:], names[:-1], out=first[1:])
    return np.asarray(names[first])


def _one_hot_bags(
    found: list[_Repertoire], given: dict[int, np.ndarray] | None
) -> tuple[Bags, np.ndarray]:
    """A row per receptor with a 1 in its column, and the names of the columns.

    The repertoires are released as soon as they are not needed.
    """
    offsets = offsets_of([sum(map(len, each.by_length.values())) for each in found])
    columns = np.full(offsets[-1], -1, dtype=np.int32)
    starts, n_known = offsets[:-1].copy(), 0
    lengths = sorted({*(given or {}), *chain(*(each.by_length for each in found))})
    # As many as there could be: the memory of those that are not needed is never touched.
    most = offsets[-1] if given is None else sum(map(len, given.values()))
    known = np.empty(most, f"S{max(given or lengths)}")
    for length in lengths:
        parts = [each.by_length.pop(length, np.empty(0, f"S{length}")) for each in found]
        names = _distinct(parts) if given is None else given.get(length, parts[0][:0])
        for at, part in enumerate(parts):
            if len(part) and len(names):
                places = np.minimum(np.searchsorted(names, part), len(names) - 1)
                rows = columns[starts[at] : starts[at] + len(part)]
                rows[:] = np.where(names[places] == part, n_known + places, -1)
            starts[at] += len(part)
        known[n_known : n_known + len(names)] = names
        n_known += len(names)
    data = None
    if found[0].counts is not None:
        data = {_COUNT: np.concatenate([each.counts for each in found])}
    found.clear()
    in_known = columns >= 0
    rows = np.zeros(len(columns) + 1, dtype=np.int32)
    np.cumsum(in_known, out=rows[1:])
    if not in_known.all():
        columns = columns[in_known]
    ones = np.ones(len(columns), dtype=np.float32)
    instances = sparse.csr_array((ones, columns, rows), shape=(offsets[-1], n_known))
    return make_bags_of(Bags, instances, offsets, instance_data=data), known[:n_known]


def _warn_of_rows(damaged: dict[Path, _Repertoire]) -> None:
    if not damaged:
        return
    shown = [
        f"{file.name} (line {listed(each.lines, _SHOWN_LINES)})"
        for file, each in [*damaged.items()][:_SHOWN_FILES]
    ]
    more = f" and {len(damaged) - len(shown)} more files" if len(damaged) > len(shown) else ""
    n_dropped = np.sum([each.n_dropped for each in damaged.values()], axis=0)
    warn_user(
        f"Rows were left out: {_reasons(n_dropped)}, in {', '.join(shown)}{more}.", UserWarning
    )


def _reasons(n_dropped: np.ndarray) -> str:
    counts = zip(n_dropped.tolist(), _REASONS, strict=True)
    return ", ".join(f"{n:,} {reason}" for n, reason in counts if n)


def _warn_of_zeros(bags: Bags) -> None:
    n = bags.n_instances
    n_zeros = n - bags.instances.nnz
    if n_zeros:
        warn_user(
            f"{n_zeros:,} of {n:,} instances ({n_zeros / n:.0%}) are zeros: their receptors are "
            "not among receptors=. Models of motifs need all receptors: read new people without "
            "receptors=, as on the page Immune repertoires.",
            UserWarning,
        )
