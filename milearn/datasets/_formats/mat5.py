"""Structure of MATLAB 5 files: a check without which SciPy's parser may crash the process.

A variable is an element of tagged parts: flags, dimensions, name and values. SciPy takes the type
of the values for an index into a table of pointers without looking at it, so that one damaged
byte ends in a segmentation fault instead of an error. What passes here has parts of known types,
as many as the class of the variable needs, which fill their element exactly.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

__all__ = ["checked_variables"]

_MATRIX, _COMPRESSED = 14, 15
_INT8 = 1
_CHAR, _SPARSE = 4, 5
_NUMERIC = range(6, 16)
_COMPLEX = 0x08  # in the second byte of the flags
_INT32 = 5
# Bytes of a number of each type.
_NUMBERS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
_TEXTS = frozenset((1, 2, 4, 16, 17, 18))
_MAX_BYTES = 1 << 32  # a variable that inflates beyond is a decompression bomb, not a data set


def checked_variables(raw: bytes) -> dict[str, bool]:
    """The variables of a file by name: whether a variable is a matrix or text, and well-formed.

    Cells, structures and objects are False, because they are not looked into.

    Raises
    ------
    ValueError
        For a file in which some element is damaged, or two variables have one name.
    """
    order = "<" if raw[126:128] == b"IM" else ">"
    found: dict[str, bool] = {}
    at = 128
    while at < len(raw):
        kind, size = _full_tag(raw, at, order)
        body = raw[at + 8 : at + 8 + size]
        if len(body) < size or size == 0:
            raise ValueError("an element is cut off")
        if kind == _COMPRESSED:
            kind, body = _inflated(body, order)
        if kind != _MATRIX:
            raise ValueError(f"an element has the type {kind} where a variable is expected")
        name, sound = _variable(body, order)
        if name in found:
            raise ValueError(f"two variables have the name {name!r}")
        found[name] = sound
        at += 8 + size
    return found


def _full_tag(raw: bytes, at: int, order: str) -> tuple[int, int]:
    if at + 8 > len(raw):
        raise ValueError("an element is cut off")
    kind, size = struct.unpack_from(f"{order}II", raw, at)
    return kind, size


def _inflated(body: bytes, order: str) -> tuple[int, bytes]:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(body, _MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"a compressed variable is damaged ({error})") from error
    if not stream.eof:
        raise ValueError("a compressed variable is cut off or too large")
    kind, size = _full_tag(content, 0, order)
    if size != len(content) - 8:
        raise ValueError("a compressed variable has another size than it says")
    return kind, content[8:]


def _variable(body: bytes, order: str) -> tuple[str, bool]:
    parts = list(_parts(body, order))
    kinds = [part for part, _ in parts]
    if len(parts) < 3 or len(parts[0][1]) != 8 or kinds[1:3] != [_INT32, _INT8]:
        raise ValueError("a variable lacks flags, dimensions or a name")
    (flags,) = struct.unpack(f"{order}I", parts[0][1][:4])
    kind, is_complex = flags & 0xFF, bool(flags >> 8 & _COMPLEX)
    name = parts[2][1].decode("latin1")
    if kind != _CHAR and kind != _SPARSE and kind not in _NUMERIC:
        return name, False
    if len(parts[1][1]) != 8:
        raise ValueError(f"{name!r} has not two dimensions")
    n_rows, n_columns = struct.unpack(f"{order}2i", parts[1][1])
    if n_rows < 0 or n_columns < 0:
        raise ValueError(f"{name!r} has a negative dimension")
    types, values = kinds[3:], [content for _, content in parts[3:]]
    if kind == _CHAR:
        return name, len(types) == 1 and types[0] in _TEXTS and n_rows * n_columns <= len(values[0])
    needed = (3 if kind == _SPARSE else 1) + is_complex
    if len(types) != needed or not _NUMBERS.keys() >= set(types):
        raise ValueError(f"the values of {name!r} are damaged")
    counts = [len(content) // _NUMBERS[part] for part, content in zip(types, values, strict=True)]
    # Of a sparse matrix, the second part points to the start of each column and behind the last.
    wanted = n_columns + 1 if kind == _SPARSE else n_rows * n_columns
    if (counts[1:2] if kind == _SPARSE else sorted(set(counts))) != [wanted]:
        raise ValueError(f"{name!r} has another number of values than its dimensions say")
    return name, True


def _parts(body: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The type and the bytes of each part, all of which fill the element together."""
    at = 0
    while at < len(body):
        if at + 4 > len(body):
            raise ValueError("a part of a variable is cut off")
        (first,) = struct.unpack_from(f"{order}I", body, at)
        # A part of at most four bytes stands in its tag, with its size in the upper half.
        if first >> 16:
            kind, size, start = first & 0xFFFF, first >> 16, at + 4
            if size > 4:
                raise ValueError("a part of a variable has a wrong size")
            end = at + 8
        else:
            kind, size = _full_tag(body, at, order)
            start = at + 8
            end = start + -(-size // 8) * 8
        if start + size > len(body):
            raise ValueError("a part of a variable is cut off")
        yield kind, body[start : start + size]
        at = end
