"""Damaged files of every format: reading ends in success or in ``BagFileError``, in nothing else.

Run as ``python -m tests.datasets.fuzz --seconds 30``. Small valid files are mutated, read by
``load_bags``, and counted by format and outcome. Any other exception, and any warning, is printed,
and the exit status is 1. ``--seed S --files N`` makes the same files again.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import math
import pickle
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy import io as matlab
from scipy import sparse

from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.datasets._formats.io import FORMATS
from tests.datasets._formats.test_formats import DENSE, ROUND_TRIPS, SPARSE

_MISSING_ALLOWED = ("csv", "tsv", "parquet", "arff")
_MAX_SIZE = 1 << 16

# Limits of the types that readers convert to, one beyond them, and what only looks like a number.
_EXTREMES = (
    "0", "-1", "-0", "127", "128", "255", "256", "32767", "65536", "2147483647", "2147483648",
    "-2147483649", "4294967296", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "18446744073709551616", "1e308", "1e309", "-1e309", "5e-324", "1e-400",
    "nan", "NaN", "inf", "-Infinity", "?", "", "0x10", "1_0", "1,5", "\u0663", "9" * 5000, "None",
)  # fmt: skip
_BYTES = tuple(
    value.to_bytes(width, order, signed=value < 0)
    for width in (2, 4, 8)
    for order in ("little", "big")
    for value in (0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1)))
)
_WORDS = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (
        ",", ":", ";", "'", '"', "\\", "\n", "\r", "\0", "\t", "{", "}", "%", "#", "|", ".", " ",
        "\ufeff", "\u2028", "\ud800", "\\u0041", "qid:", "# n_features: ", "@end", "@data",
        "@attribute x numeric", "relational",
    )
)  # fmt: skip


@dataclass
class Report:
    """Counts of ``(format, outcome)``, and the failures."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


# -- valid files -------------------------------------------------------------------------------

_ARFF = rb"""% nominal attributes, quotes, escapes, missing values, weights
@relation 'a b'
@attribute 'bag id' {p,'q r',s}
@attribute bag relational
  @attribute x numeric
  @attribute colour {red,'light blue',?}
  @attribute level {1,2,3}
@end bag
@attribute class {yes,no}
@data
p,"1,red,1\n-2.5,'light blue',2",yes,{2.5}
'q r','?,red,3',no
s,"{0 4,1 'light blue'}\n{2 3}",?
"""
_ANDREWS = b"0:7:1 1:0.5 3:2\n1:7:1 2:-1\n2:9:-1 1:1e3\n"
_SVMLIGHT = b"# n_features: 4\n1 qid:3 1:0.5 3:2 # first\n1 qid:3 2:-1\n-1 qid:5 4:1e3\n"


def valid_files(folder: Path) -> dict[str, list[dict[str, bytes]]]:
    """Small valid files of every format: for each some sets of file name to content."""
    found: dict[str, list[dict[str, bytes]]] = {form: [] for form in FORMATS}
    for bags, y, fields, forms in ROUND_TRIPS.values():
        for form in forms:
            path = folder / f"x.{form}"
            save_bags(path, bags, y, format=form, **fields)
            if form == "npy-folder":
                found[form].append({file.name: file.read_bytes() for file in path.iterdir()})
                shutil.rmtree(path)
            else:
                found[form].append({path.name: path.read_bytes()})
    found["arff"].append({"x.arff": _ARFF})
    found["svmlight"] += [{"x.svmlight": _ANDREWS}, {"x.svmlight": _SVMLIGHT}]
    for bags in (DENSE, SPARSE):
        found["mat"] += [{"x.mat": _plain_mat(bags, version)} for version in ("4", "5")]
    found["parquet"].append({"x.parquet": _plain_parquet(DENSE)})
    return found


def _plain_mat(X: Any, version: str) -> bytes:
    """A file without compression, in which a changed byte is not just a broken stream."""
    buffer = io.BytesIO()
    matrix = sparse.csc_array(X.instances) if sparse.issparse(X.instances) else X.instances
    content = {"features": matrix, "bag_ids": X.bag_index, "labels": X.bag_index % 2}
    content |= {"comment": ["one", "two"]} if version == "5" else {}
    matlab.savemat(buffer, content, format=version)
    return buffer.getvalue()


def _plain_parquet(X: Any) -> bytes:
    import pyarrow
    import pyarrow.parquet

    columns = {"bag": X.bag_index, "label": X.bag_index % 2, "x": X.instances[:, 0]}
    buffer = io.BytesIO()
    options = {"compression": "none", "use_dictionary": False}
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer, **options)
    return buffer.getvalue()


# -- mutations ---------------------------------------------------------------------------------


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to four small damages, in a member of the archive where ``data`` is a zip archive."""
    if data[:2] == b"PK" and rng.random() < 0.6:
        return _mutate_member(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_MUTATIONS)(data, rng)[:_MAX_SIZE]
    return data


def _mutate_member(data: bytes, rng: random.Random) -> bytes:
    """The archive with one array changed and every checksum right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    if rng.random() < 0.1:
        del members[name]
    elif rng.random() < 0.1:
        members[name] = members[rng.choice(sorted(members))]
    else:
        members[name] = rng.choice(_MUTATIONS)(members[name], rng)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for member, content in members.items():
            archive.writestr(zipfile.ZipInfo(member), content)
    return packed.getvalue()


def damage(form: str, content: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    """The files with one of them mutated; of a folder also with two of them exchanged."""
    content = dict(content)
    damaged = rng.choice(sorted(content))
    if form == "npy-folder" and rng.random() < 0.15:
        other = rng.choice(sorted(content))
        content[damaged], content[other] = content[other], content[damaged]
        return content
    content[damaged] = mutate(content[damaged], rng)
    return content


def _flip(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) or 1)
    flipped = bytes(byte ^ (1 << rng.randrange(8)) for byte in data[at : at + 1])
    return data[:at] + flipped + data[at + 1 :]


def _replace(data: bytes, rng: random.Random) -> bytes:
    """Insert a piece, overwrite with it, or delete or repeat a few bytes."""
    at, start = rng.randint(0, len(data)), rng.randint(0, len(data))
    piece = rng.choice(
        (
            b"",
            rng.randbytes(rng.randint(1, 8)),
            rng.choice(_WORDS),
            rng.choice(_BYTES),
            data[start : start + rng.randint(1, 64)],
        )
    )
    return data[:at] + piece + data[at + rng.choice((0, len(piece) or rng.randint(1, 16))) :]


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def _extreme(data: bytes, rng: random.Random) -> bytes:
    numbers = list(re.finditer(rb"-?\d+(?:\.\d+)?", data))
    if not numbers:
        return _replace(data, rng)
    chosen = rng.choice(numbers)
    return data[: chosen.start()] + rng.choice(_EXTREMES).encode() + data[chosen.end() :]


_MUTATIONS = (_flip, _replace, _replace, _truncate, _extreme)


# -- the run -----------------------------------------------------------------------------------


def run(folder: Path, *, seed: int, files: float = math.inf, seconds: float = math.inf) -> Report:
    """Read mutated files until one of the two limits is met; the last one stays in the folder."""
    valid, rng, report = valid_files(folder), random.Random(seed), Report()
    end, number = time.monotonic() + seconds, 0
    while number < files and time.monotonic() < end:
        form = [*FORMATS][number % len(FORMATS)]
        content = damage(form, rng.choice(valid[form]), rng)
        options: dict[str, Any] = {}
        if form in _MISSING_ALLOWED and rng.random() < 0.5:
            options["missing"] = "nan"
        if form == "npy-folder":
            # A damaged head must not hide that this is such a folder.
            options = {"format": form, "mmap": rng.random() < 0.5}
        path = _placed(folder, form, content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                data = load_bags(path, **options).data
                # What is mapped is read at last.
                pickle.dumps(data), data.instances.copy(), data[::-1].instances
            outcome = "read"
        except BagFileError:
            outcome = "refused"
        except Exception:
            outcome = "failed"
            report.failures.append(
                f"{form}, seed {seed}, file {number}, options {options}:\n"
                f"{traceback.format_exc(limit=-4)}"
            )
        report.counts[form, outcome] += 1
        number += 1
    return report


def _placed(folder: Path, form: str, content: dict[str, bytes]) -> Path:
    """Write the files in place of those before, and return the path to read."""
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    inside = folder / "x" if form == "npy-folder" else folder
    inside.mkdir(exist_ok=True)
    for name, data in content.items():
        (inside / name).write_bytes(data)
    return inside if form == "npy-folder" else folder / next(iter(content))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.datasets.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="stop after this time")
    parser.add_argument("--files", type=float, default=math.inf, help="stop after so many files")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    given = parser.parse_args(arguments)
    # What ends the whole process leaves the folder, and in it the file that did.
    folder = Path(tempfile.mkdtemp())
    print(f"seed {given.seed}, files in {folder}", flush=True)
    report = run(folder, seed=given.seed, files=given.files, seconds=given.seconds)
    shutil.rmtree(folder)
    for (form, outcome), number in sorted(report.counts.items()):
        print(f"{form:10} {outcome:8} {number:8}")
    for failure in report.failures[:20]:
        print(f"\n{failure}", file=sys.stderr)
    return 1 if report.failures else 0


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
