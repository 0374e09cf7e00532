"""Formulas as MathML that wraps.

Every current browser draws MathML by itself: the usual script would be fetched from the network by
everyone who opens a page. But no browser breaks a long ``<math>`` element over lines. A formula is
therefore written as several elements, divided before relations and binary operators that stand
outside brackets, and after wide spaces; the lines between them are the browser's to choose.
"""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError

_OPENING, _CLOSING, _BARS = set("([{⟨⌈⌊"), set(")]}⟩⌉⌋"), set("|‖")
_OPERATORS = set("=≤≥<>∈⪰→+−")
_STYLES = ("displaystyle", "scriptlevel")
_WIDE_SPACE = 1.0  # in em; \quad
_LONG_FIRST = 12  # characters in a column of a formula up to which a telephone has room beside it
_LONG_INLINE = 12  # parts of a formula in running text up to which it stays in one piece


def _children(source: str) -> list[Element]:
    """Convert TeX and return the children of the ``math`` element."""
    # Common TeX that the converter does not know; in text an underscore needs no escape in HTML.
    source = re.sub(r"\\([td]?frac)(\d)(\d)", r"\\\1{\2}{\3}", source).replace(r"\dots", r"\ldots")
    source = re.sub(r"\\text\{[^}]*\}", lambda found: found[0].replace(r"\_", "_"), source)
    try:
        text = tex2mathml(source, as_block=True)
    except MathError as error:
        raise ExtensionError(f"A formula cannot be drawn ({error}): {source}") from error
    # The namespace is implied in HTML; without it the tags are plain names.
    text = re.sub(r' xmlns="[^"]*"', "", text, count=1)
    # XML has no names such as &nbsp; but these three.
    text = re.sub(r"&(?!amp;|lt;|gt;)\w+;", lambda found: html.unescape(found[0]), text)
    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.tail = None
        if len(element):
            element.text = None
        if element.tag == "mo" and element.text in _BARS:
            # A bar has no direction; as an operator between two terms it would get space around.
            element.set("lspace", "0")
            element.set("rspace", "0")
        if element.tag in {"msub", "msup", "msubsup"} and element[0].text in _BARS:
            # Of another height than the opening bar, it would be drawn below the line.
            element[0].set("stretchy", "false")
    _move_styles(root)
    return list(root)


def _move_styles(parent: Element) -> None:
    """Size of a fraction around it instead of on it, where HTML checkers want it."""
    for place, child in enumerate(list(parent)):
        _move_styles(child)
        found = {key: child.attrib.pop(key) for key in _STYLES if key in child.attrib}
        if found and child.tag == "mfrac":
            style = Element("mstyle", found)
            style.append(child)
            parent[place] = style
        else:
            child.attrib.update(found)


class _Depth:
    """Brackets and bars that are open."""

    def __init__(self) -> None:
        self.brackets = 0
        self.open_bars: list[str] = []

    @property
    def outside(self) -> bool:
        return self.brackets == 0 and not self.open_bars

    def read(self, element: Element) -> None:
        if element.tag == "mo":
            symbol = element.text or ""
            self.brackets += (symbol in _OPENING) - (symbol in _CLOSING)
            if symbol in _BARS:
                if self.open_bars and self.open_bars[-1] == symbol:
                    self.open_bars.pop()
                else:
                    self.open_bars.append(symbol)
        elif element.tag in {"msub", "msup", "msubsup"}:
            self.read(element[0])
        elif element.tag == "mrow":
            for child in element:
                self.read(child)


def _pieces(elements: list[Element]) -> list[list[Element]]:
    """Divide a row of MathML elements where a line may be broken."""
    pieces: list[list[Element]] = [[]]
    depth = _Depth()
    for element in elements:
        previous = pieces[-1][-1] if pieces[-1] else None
        if element.tag == "mo" and element.text in _OPERATORS and depth.outside:
            after_operand = previous is not None and previous.tag not in {"mo", "mspace"}
            after_bracket = (
                previous is not None
                and previous.tag == "mo"
                and (previous.text or "") in _CLOSING | _BARS
            )
            if after_operand or after_bracket:
                pieces.append([])
                element.set("form", "infix")  # first in its piece, it would count as a sign
        pieces[-1].append(element)
        depth.read(element)
        if element.tag == "mspace" and depth.outside:
            width = re.fullmatch(r"([\d.]+)em", element.get("width", ""))
            if width and float(width[1]) >= _WIDE_SPACE:
                pieces.append([])
    return [piece for piece in pieces if piece]


def _written(pieces: list[list[Element]], display: bool) -> str:
    style = ' displaystyle="true"' if display else ""
    return "<wbr>".join(
        f"<math{style}>"
        + "".join(ElementTree.tostring(part, "unicode", short_empty_elements=False) for part in one)
        + "</math>"
        for one in pieces
    )


def inline_formula(source: str) -> str:
    """HTML of a formula in running text."""
    elements = _children(source)
    pieces = _pieces(elements) if len(elements) > _LONG_INLINE else [elements]
    return _written(pieces, display=False)


def displayed_formula(source: str, number: int | str | None = None) -> str:
    """HTML of a formula in a paragraph of its own."""
    outside = re.sub(r"\\begin\{(\w+)\}.*?\\end\{\1\}", "", source, flags=re.DOTALL)
    if r"\\" in outside:  # lines of the formula itself, not rows of a matrix in it
        source = rf"\begin{{aligned}}{source}\end{{aligned}}"
    elements = _children(source)
    if len(elements) == 1 and elements[0].tag == "mtable":
        rows = [[list(cell) for cell in row] for row in elements[0]]
    else:
        rows = [[elements]]
    columns = max(len(row) for row in rows)
    # A narrow screen shows these columns one below the other: the last would not be seen.
    long_first = any(_n_characters(cell) > _LONG_FIRST for row in rows for cell in row[:-1])
    stacked = " formula-stacked" if long_first else ""
    cells = [
        f'<div class="formula-cell">{_written(_pieces(cell), display=True)}</div>'
        for row in rows
        for cell in row + [[]] * (columns - len(row))
    ]
    shown = f'<div class="formula-number">({number})</div>' if number is not None else ""
    return (
        f'<div class="formula"><div class="formula-rows formula-columns-{columns}{stacked}">'
        + "".join(cells)
        + f"</div>{shown}</div>\n"
    )


def _n_characters(elements: list[Element]) -> int:
    return sum(len("".join(element.itertext())) for element in elements)


def _visit_inline(writer: Any, node: Any) -> None:
    writer.body.append(inline_formula(node.astext()))
    raise nodes.SkipNode


def _visit_displayed(writer: Any, node: Any) -> None:
    # Without the anchor a reference to a numbered formula would lead nowhere.
    anchors = "".join(f'<span id="{name}"></span>' for name in node.get("ids", []))
    writer.body.append(anchors + displayed_formula(node.astext(), node.get("number")))
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
