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
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import pandas as pd

from milearn.datasets import BagFileError, load_bags, save_bags
from tests.datasets._formats.test_formats import ROUND_TRIPS

_MAX_SIZE = 1 << 16
_MEMORY = 1 << 33
# Limits of the types that readers convert to, one beyond them, and what only looks like a number.
_EXTREMES = (
    "0", "-1", "-0", "127", "128", "255", "256", "32767", "65536", "2147483647", "2147483648",
    "-2147483649", "4294967296", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "18446744073709551616", "1e308", "1e309", "-1e309", "5e-324", "1e-400",
    "nan", "NaN", "inf", "-Infinity", "?", "", "0x10", "1_0", "1,5", "\u0663", "9" * 5000, "None",
)  # fmt: skip
_PIECES = [
    value.to_bytes(width, order, signed=value < 0)
    for width in (2, 4, 8)
    for order in ("little", "big")
    for value in (0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1)))
] + [
    text.encode("utf-8", "surrogatepass")
    for text in (
        *",:;'\"\\\n\r\0\t{}[]%#|. \ufeff\u2028\ud800", "\\u0041", "null", "category:", "index:",
    )
]  # fmt: skip


# -- valid files -------------------------------------------------------------------------------

FORMATS = ("npz", "npy-folder", "csv", "tsv", "parquet")
FRAME = pd.DataFrame(
    {
        "bag": ["p", "q r", "p", "007"],
        "label": [1, 0, 1, None],
        "x": [0.5, -2e10, 1 / 3, 4.0],
        "count": [1, 2, 3, 4],
    }
)


def valid_files(folder):
    """Small valid files of every format: for each some sets of file name to content."""
    found = {form: [] for form in FORMATS}
    for bags, y, fields in ROUND_TRIPS.values():
        for form in ("npz", "npy-folder"):
            path = folder / f"x.{form}"
            save_bags(path, bags, y, format=form, **fields)
            files = [*path.iterdir()] if path.is_dir() else [path]
            found[form].append({file.name: file.read_bytes() for file in files})
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    found["csv"].append({"x.csv": FRAME.to_csv(index=False).encode()})
    found["tsv"].append({"x.tsv": FRAME.to_csv(index=False, sep="\t").encode()})
    # Without compression a changed byte is not just a broken stream.
    options = {"compression": None, "use_dictionary": False}
    found["parquet"].append({"x.parquet": FRAME.to_parquet(**options)})
    return found


# -- mutations ---------------------------------------------------------------------------------


def mutate(data, rng):
    """One to four small damages, in a member of the archive where ``data`` is a zip archive."""
    if data[:2] == b"PK" and rng.random() < 0.6:
        return _mutate_member(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice((_flip, _replace, _replace, _truncate, _extreme))(data, rng)[:_MAX_SIZE]
    return data


def _mutate_member(data, rng):
    """The archive with one array changed and every checksum right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, other = rng.choice(sorted(members)), rng.choice(sorted(members))
    members[name] = rng.choice((members[other], *(mutate(members[name], rng) for _ in range(8))))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for member, content in members.items():
            archive.writestr(zipfile.ZipInfo(member), content)
    return packed.getvalue()


def _flip(data, rng):
    at = rng.randrange(len(data) or 1)
    return (
        data[:at] + bytes(b ^ (1 << rng.randrange(8)) for b in data[at : at + 1]) + data[at + 1 :]
    )


def _replace(data, rng):
    """Insert a piece, overwrite with it, or delete or repeat a few bytes."""
    at, start = rng.randint(0, len(data)), rng.randint(0, len(data))
    repeated = data[start : start + rng.randint(1, 64)]
    drawn = rng.randbytes(rng.randint(1, 8))
    piece = rng.choice((b"", drawn, rng.choice(_PIECES), rng.choice(_PIECES), repeated))
    return data[:at] + piece + data[at + rng.choice((0, len(piece) or rng.randint(1, 16))) :]


def _truncate(data, rng):
    return data[: rng.randint(0, len(data))]


def _extreme(data, rng):
    numbers = [*re.finditer(rb"-?\d+(?:\.\d+)?", data)]
    if not numbers:
        return _replace(data, rng)
    chosen = rng.choice(numbers)
    return data[: chosen.start()] + rng.choice(_EXTREMES).encode() + data[chosen.end() :]


# -- the run -----------------------------------------------------------------------------------


def run(folder, *, seed, files=math.inf, seconds=math.inf):
    """Counts and failures of mutated files, until one of the limits; the last one stays."""
    folder.mkdir(exist_ok=True)
    valid, rng, counts, failures = valid_files(folder), random.Random(seed), Counter(), []
    end, number = time.monotonic() + seconds, 0
    while number < files and time.monotonic() < end:
        form = FORMATS[number % len(FORMATS)]
        content = dict(rng.choice(valid[form]))
        damaged = rng.choice(sorted(content))
        content[damaged] = mutate(content[damaged], rng)
        options = {"mmap": True} if form == "npy-folder" and rng.random() < 0.5 else {}
        shutil.rmtree(folder)
        folder.mkdir()
        for name, data in content.items():
            (folder / name).write_bytes(data)
        path = folder if form == "npy-folder" else folder / damaged
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                # What is damaged may be zero.
                warnings.filterwarnings("ignore", ".* instances consist of zeros", UserWarning)
                data = load_bags(path, **options).data
                # What is mapped is read at last.
                pickle.dumps(data), data.instances.copy(), data[::-1].instances
            outcome = "read"
        except BagFileError:
            outcome = "refused"
        except Exception:
            outcome = "failed"
            said = traceback.format_exc(limit=-4)
            failures.append(f"{form}, seed {seed}, file {number}, options {options}:\n{said}")
        counts[form, outcome] += 1
        number += 1
    return counts, failures


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.datasets.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="stop after this time")
    parser.add_argument("--files", type=float, default=math.inf, help="stop after so many files")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    given = parser.parse_args()
    # What would fill the memory of the computer is an error of the file.
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    # What ends the whole process leaves the folder, and in it the file that did.
    folder = Path(tempfile.mkdtemp())
    print(f"seed {given.seed}, files in {folder}", flush=True)
    counts, failures = run(folder, seed=given.seed, files=given.files, seconds=given.seconds)
    shutil.rmtree(folder)
    for (form, outcome), number in sorted(counts.items()):
        print(f"{form:10} {outcome:8} {number:8}")
    print("\n".join(failures[:20]), file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
