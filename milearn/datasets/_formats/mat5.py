"""Check of the structure of MATLAB 5 files, without which SciPy's parser may crash the process.

A variable is an element with tagged parts: flags, dimensions, name and values. SciPy uses the type
of a part as an index into a table of pointers without a check, so that one damaged byte may lead to
a segmentation fault instead of an error.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

__all__ = ["variables"]

_MATRIX, _COMPRESSED = 14, 15
_CHAR, _SPARSE, _NUMERIC = 4, 5, range(6, 16)
_COMPLEX = 0x0800
_NUMBERS = frozenset((1, 2, 3, 4, 5, 6, 7, 9, 12, 13))
_TEXTS = frozenset((1, 2, 4, 16, 17, 18))
_MAX_BYTES = 1 << 32  # a larger variable is treated as a decompression bomb


def variables(raw: bytes) -> dict[str, bool]:
    """The variables of a file by name, and whether SciPy may read it: a sound matrix or text.

    Raises
    ------
    ValueError
        For a file with a damaged element, or with two variables of the same name.
    """
    order = "<" if raw[126:128] == b"IM" else ">"
    found: dict[str, bool] = {}
    for kind, body in _parts(raw[128:], order, alignment=1):
        if kind == _COMPRESSED:
            ((kind, body),) = _parts(_inflated(body), order)
        if kind != _MATRIX:
            raise ValueError(f"an element has the type {kind} where a variable is expected")
        (_, flags), (_, shape), (_, name), *values = _parts(body, order)
        text = name.decode("latin1")
        if text in found:
            raise ValueError(f"two variables have the name {text!r}")
        found[text] = _is_sound(struct.unpack(f"{order}I", flags[:4])[0], shape, values, order)
    return found


def _is_sound(flags: int, shape: bytes, values: list[tuple[int, bytes]], order: str) -> bool:
    kind, types = flags & 0xFF, {kind for kind, _ in values}
    if kind == _CHAR:
        n_rows, n_columns = struct.unpack(f"{order}2I", shape)
        return types <= _TEXTS and n_rows * n_columns <= sum(len(part) for _, part in values)
    if kind != _SPARSE and kind not in _NUMERIC:
        return False  # cells, structures and objects, which are not inspected
    needed = (3 if kind == _SPARSE else 1) + bool(flags & _COMPLEX)
    if len(shape) != 8 or len(values) != needed or not types <= _NUMBERS:
        raise ValueError("the values of a matrix are damaged")
    return True


def _inflated(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    content = stream.decompress(body, _MAX_BYTES)
    if not stream.eof:
        raise ValueError("a compressed variable is cut off or too large")
    return content


def _parts(raw: bytes, order: str, alignment: int = 8) -> Iterator[tuple[int, bytes]]:
    """The type and the bytes of each part of an element."""
    at = 0
    while at < len(raw):
        (kind, size), tag = struct.unpack_from(f"{order}II", raw, at), 8
        # A part of at most four bytes is inside its tag, with its size in the upper half.
        if kind >> 16:
            kind, size, tag = kind & 0xFFFF, kind >> 16, 4
        body = raw[at + tag : at + tag + size]
        if len(body) < size or (tag == 4 and size > 4):
            raise ValueError("a part of a variable is cut off")
        yield kind, body
        at += 8 if tag == 4 else 8 + -(-size // alignment) * alignment
