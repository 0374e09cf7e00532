"""The ``.Z`` format of the Unix program compress, used by the oldest files of the UCI archive.

Codes of 9 to 16 bits, least significant bit first, are indices of a dictionary of byte strings that
grows by the last string plus the first byte of the current string (Welch 1984). In files of
compress, codes are written in groups of eight, and whenever the code width changes or the
dictionary is cleared, the rest of the group is padding.
"""

from __future__ import annotations

__all__ = ["unlzw"]

_MAGIC = b"\x1f\x9d"
_CLEAR = 256


def unlzw(packed: bytes, *, limit: int | None = None) -> bytes:
    """Decompress the content of a ``.Z`` file.

    Raises
    ------
    ValueError
        If it is not such a file, is damaged, or unpacks to more than ``limit`` bytes.

    References
    ----------
    T. A. Welch (1984). A technique for high-performance data compression. Computer 17(6).
    """
    if packed[:2] != _MAGIC or len(packed) < 3:
        raise ValueError("not a .Z file")
    widest, clears = packed[2] & 0x1F, bool(packed[2] & 0x80)
    if not 9 <= widest <= 16:
        raise ValueError("damaged .Z file")
    start = [bytes([value]) for value in range(256)] + ([b""] if clears else [])
    table, width, last = list(start), 9, b""
    out: list[bytes] = []
    size, at, run, end = 0, 24, 24, 8 * len(packed)
    while at + width <= end:
        low = at >> 3
        code = int.from_bytes(packed[low : low + 4], "little") >> (at & 7) & ((1 << width) - 1)
        at += width
        if clears and code == _CLEAR:
            at = _next_group(at, run, width)
            table, width, last, run = list(start), 9, b"", at
            continue
        if code < len(table):
            entry = table[code]
        elif last and code == len(table):
            entry = last + last[:1]
        else:
            raise ValueError("damaged .Z file")
        out.append(entry)
        size += len(entry)
        if limit is not None and size > limit:
            raise ValueError("too large when unpacked")
        if last and len(table) < 1 << widest:
            table.append(last + entry[:1])
            if len(table) == 1 << width and width < widest:
                at = _next_group(at, run, width)
                width, run = width + 1, at
        last = entry
    return b"".join(out)


def _next_group(at: int, run: int, width: int) -> int:
    group = 8 * width
    return run + -(-(at - run) // group) * group
