"""The table of the file formats: suffixes, reader, writer, options and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..._bags.rows_on_disk import holds_text
from ..._fit.validation import has_outcomes
from .._errors import ContentError
from .arff import read_arff, write_arff
from .mat import read_mat, write_mat
from .npy_folder import is_npy_folder, read_npy_folder, write_npy_folder
from .record import FIELDS, BagRecord, read_npz, write_npz
from .svmlight import read_svmlight, write_svmlight
from .table import read_csv, read_parquet, write_csv, write_parquet
from .text import check_distinct


@dataclass(frozen=True)
class Format:
    """Reader, writer, options and limits of a format."""

    read: Callable[..., BagRecord]
    # Called with the path, the record, and an open file for the path.
    write: Callable[..., None]
    suffixes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of load_bags
    start: bytes | None = None  # of the files; of an npy-folder, which is none, None
    inside: bytes | None = None  # of text, somewhere in the first kilobytes
    holds: tuple[str, ...] | None = None  # fields; None for everything
    dense_only: bool = False
    holds_text: bool = False
    needs_labels: bool = False
    needs_names: bool = False  # which tell the bags apart

    def check(self, name: str, record: BagRecord) -> None:
        """Raise an error for a record that the format cannot store completely."""
        if self.holds is None:
            return
        bags, target = record.bags, record.target
        extra = [field for field in FIELDS if field in record.fields and field not in self.holds]
        graphs = ("bag_graph", "instance_graph")
        extra += [graph for graph in graphs if getattr(bags, graph) is not None]
        extra += [f"instance_data[{data!r}]" for data in bags.instance_data]
        if "bag_data" not in self.holds:
            extra += [f"bag_data[{data!r}]" for data in bags.bag_data]
        for wrong, what in (
            (extra, f"cannot hold {', '.join(extra)}; leave that out or save as .npz"),
            (has_outcomes(target), "cannot hold outcomes of survival analysis; save as .npz"),
            (
                target is not None and target.ndim != 1,
                "holds one label per bag but y has shape "
                f"{getattr(target, 'shape', ())}; save as .npz",
            ),
            (
                holds_text(bags) and not self.holds_text,
                "cannot hold text; save as .npz or .parquet, or encode the text first",
            ),
            (
                self.dense_only and bags.is_sparse,
                "holds dense instances only; save as .npz, .arff, .mat or .svmlight, or make the "
                "instances dense first",
            ),
            (
                self.needs_labels and target is None,
                "needs one label per bag; pass y, or save as .npz or .csv",
            ),
        ):
            if wrong:
                raise ContentError(f"the format {name!r} {what}.")
        if self.needs_names:
            check_distinct(
                record.bag_names(),
                "two bags have the name {!r}, so that they would become one in this format; make "
                "bag_names distinct or save as .npz.",
            )


_TABLE_OPTIONS = ("bag", "label", "instance", "instance_label", "bag_data", "missing")
_table = partial(
    Format,
    options=_TABLE_OPTIONS,
    holds=("bag_names", "target_names", "instance_names", "instance_labels", "bag_data"),
    dense_only=True,
    needs_names=True,
)
FORMATS = {
    "npz": Format(read_npz, write_npz, (".npz",), start=b"PK"),
    "npy-folder": Format(read_npy_folder, write_npy_folder, options=("mmap",)),
    "csv": _table(read_csv, write_csv, (".csv",), options=(*_TABLE_OPTIONS, "delimiter")),
    "tsv": _table(partial(read_csv, delimiter="\t"), partial(write_csv, delimiter="\t"), (".tsv",)),
    "parquet": _table(
        read_parquet, write_parquet, (".parquet", ".pq"), start=b"PAR1", holds_text=True
    ),
    "arff": Format(
        read_arff,
        write_arff,
        (".arff",),
        ("missing",),
        inside=b"@relation",
        holds=("bag_names", "target_names", "sample_weight"),
        needs_labels=True,
        needs_names=True,
    ),
    "mat": Format(
        read_mat, write_mat, (".mat",), start=b"MATLAB 5.0", holds=("bag_names",), needs_labels=True
    ),
    "svmlight": Format(
        read_svmlight,
        write_svmlight,
        (".svmlight", ".libsvm", ".svm"),
        ("n_features", "zero_based"),
        inside=b" qid:",
        holds=("bag_names",),
        needs_labels=True,
    ),
}
SUFFIXES = {suffix: name for name, form in FORMATS.items() for suffix in form.suffixes}


def format_of(path: Path, asked: str | None, *, reading: bool) -> str:
    """The name of the format: the given one, by the suffix, or by the content of the file."""
    if asked is not None:
        if asked not in FORMATS:
            raise ValueError(f"format={asked!r} is unknown; choose one of {', '.join(FORMATS)}.")
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
    raise ContentError(
        f"the format cannot be determined by the suffix {path.suffix!r}"
        f"{' or the content' if reading else ''}; pass format= as one of {', '.join(FORMATS)}."
    )
