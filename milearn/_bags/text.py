"""Texts as instances: parts of documents, until a transformer encodes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .segments import offsets_of

__all__ = ["bags_of_texts", "column_of_texts", "holds_text", "parts_of_documents"]

# A blank line, or the end of a sentence with the first letter of the next one.
_SENTENCE = re.compile(
    r"""\n\s*\n\s*|[.!?\u2026]["'\u201d\u2019)\]]*\s+(?=["'\u201c\u2018(\[]*(.))|[\u3002\uff01\uff1f]\s*"""
)
_PARAGRAPH = re.compile(r"\n\s*\n\s*")


def holds_text(bags: Any) -> bool:
    """Whether the instances are strings, which have to be encoded."""
    return bool(bags.dtype == object)


def column_of_texts(texts: list[str]) -> np.ndarray:
    """A matrix of one column of Python strings.

    Strings of NumPy would have the memory of the longest one.
    """
    column = np.empty((len(texts), 1), dtype=object)
    column[:, 0] = texts
    return column


def bags_of_texts(bags: Any, texts: list[str]) -> Any:
    """The bags with texts in the place of their instances, as their only feature."""
    return bags._changed(instances=column_of_texts(texts))


def parts_of_documents(
    documents: Iterable[Any], split: str | Callable[[str], Iterable[str]] | None
) -> tuple[list[str], np.ndarray, np.ndarray | None]:
    """The parts of all documents, the offsets, and where the parts start in their document.

    Raises
    ------
    TypeError, ValueError
        See :meth:`milearn.Bags.from_documents`.
    """
    if isinstance(documents, (str, bytes)):
        raise TypeError("documents is a string: pass a list of documents.")
    if not (split is None or callable(split) or split in ("sentences", "paragraphs")):
        raise ValueError(
            f"split={split!r} is unknown: use 'sentences', 'paragraphs', a function, or None for "
            "documents that are divided already."
        )
    texts: list[str] = []
    starts: list[int] = []
    sizes: list[int] = []
    for position, document in enumerate(documents):
        before = len(texts)
        for start, part in _parts(document, position, split):
            stripped = part.strip()
            if stripped:
                texts.append(str(stripped))
                starts.append(start + len(part) - len(part.lstrip()))
        sizes.append(len(texts) - before)
        if not sizes[-1]:
            raise ValueError(f"Document {position} has no text: leave it out.")
    if not sizes:
        raise ValueError("No documents were given: pass at least one.")
    return texts, offsets_of(sizes), np.array(starts) if isinstance(split, str) else None


def _parts(document: Any, position: int, split: Any) -> Iterator[tuple[int, str]]:
    """The parts of a document and their positions in it."""
    if split is not None and not isinstance(document, str):
        raise TypeError(
            f"Document {position} is {document!r:.40}, which is not a string"
            + (": documents that are divided already need split=None." if split else ".")
        )
    if isinstance(split, str):
        yield from _pieces(document, _SENTENCE if split == "sentences" else _PARAGRAPH)
        return
    if split is None and isinstance(document, str):
        raise TypeError(
            f"Document {position} is a string, and split=None is for documents that are divided "
            "already: pass split='sentences', or a list of strings for each document."
        )
    for part in document if split is None else split(document):
        if not isinstance(part, str):
            raise TypeError(f"A part of document {position} is {part!r:.40}, not a string.")
        yield 0, part


def _pieces(document: str, boundary: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    start = 0
    for found in boundary.finditer(document):
        following = found[1] if found.re.groups else None
        if following is not None and following.islower():
            continue
        yield start, document[start : found.end()]
        start = found.end()
    yield start, document[start:]
