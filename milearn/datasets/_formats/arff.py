"""WEKA's relational ARFF: a row is a bag, and its instances are quoted in one cell.

The layout is an identifier of the bag, one relational attribute and the class::

    @relation example
    @attribute id {a,b}
    @attribute bag relational
      @attribute x numeric
      @attribute y numeric
    @end bag
    @attribute class {0,1}
    @data
    a,"1,2\\n3,4",1
    b,"5,6",0

The last entry of a row may be its weight, as in ``{2.5}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from ..._bags import Bags
from ..._bags.canonical import stack_matrices
from ..._bags.segments import offsets_of
from .._errors import ContentError
from .record import BagRecord, as_numbers, encode_labels, make_bags_of
from .text import check_width, number_text, parse_numbers, read_text

# Possessive quantifiers, so that an unterminated quote in a very long line fails immediately.
_CELL = re.compile(
    r"""\s*(?:'((?:[^'\\]++|\\.)*+)'|"((?:[^"\\]++|\\.)*+)"|([^,'"]*+))\s*+(,|$)""", re.DOTALL
)
_WORD = re.compile(r"""\s*(?:'((?:[^'\\]++|\\.)*+)'|"((?:[^"\\]++|\\.)*+)"|([^\s{'"]++))\s*""")
_PAIR = re.compile(r"""(?:'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+"|[^,'"]++)++""")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r"}
_WEIGHT = re.compile(r"\{\s*([0-9.eE+-]+)\s*\}")
_ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_KINDS = {
    **dict.fromkeys(("numeric", "real", "integer"), "numeric"),
    **{word: word for word in ("string", "date", "relational")},
}
_NEEDS_QUOTES = re.compile(r"""[\s,{}%'"\\]|^\??$""")


@dataclass
class _Attribute:
    """One ``@attribute`` line: ``kind`` is numeric, nominal, string, date or relational."""

    name: str
    kind: str
    values: list[str] = field(default_factory=list)
    inner: list[_Attribute] = field(default_factory=list)


def read_arff(path: Path, *, missing: str = "error") -> BagRecord:
    """Read bags from an ARFF file with exactly one relational attribute.

    An attribute before it is the name of the bag, and one after it the label.
    """
    lines = enumerate(read_text(path).split("\n"), start=1)
    attributes = _header(lines)
    at = _relation(attributes)
    encoder = _Encoder(attributes[at], missing)
    declared = attributes[-1].values or None
    names: list[str] = []
    labels: list[str] = []
    weights: list[str] = []
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("%"):
            continue
        cells = _cells(line, number)
        weight = _WEIGHT.fullmatch(cells[-1]) if len(cells) == len(attributes) + 1 else None
        weights.append("1" if weight is None else weight[1])
        if weight is not None:
            cells.pop()
        check_width(cells, len(attributes), f"line {number}", "columns but the header declares")
        names.append(cells[0] if at else str(len(names)))
        encoder.add(cells[at], names[-1], number)
        if at + 1 < len(attributes):
            if declared and cells[-1] not in (*declared, "?"):
                raise ContentError(
                    f"line {number} has the class {cells[-1]!r}, which is not among "
                    f"{', '.join(declared)}; correct the header or the line."
                )
            labels.append(cells[-1])
    if not names:
        raise ContentError("there is not a single bag after @data; check the file.")
    record = BagRecord(encoder.bags())
    if at:
        record.fields["bag_names"] = np.array(names)
    if set(weights) != {"1"}:
        found = parse_numbers(weights, "error", lambda row: f"bag {names[row]!r}, weight")
        record.fields["sample_weight"] = found
    if at + 1 < len(attributes):
        record.target, classes = encode_labels(labels, declared)
        if classes is not None:
            record.fields["target_names"] = classes
    return record


def _header(lines: Iterator[tuple[int, str]]) -> list[_Attribute]:
    attributes: list[_Attribute] = []
    relation: _Attribute | None = None
    for number, line in lines:
        stripped = line.strip()
        keyword = stripped.split(None, 1)[0].lower() if stripped else "%"
        if keyword == "@data":
            return attributes
        if keyword == "@end":
            relation = None
        elif keyword == "@attribute":
            attribute = _declaration(stripped[len("@attribute") :], number)
            (attributes if relation is None else relation.inner).append(attribute)
            if attribute.kind == "relational":
                if relation is not None:
                    raise ContentError(
                        f"line {number} declares a relation inside a relation, but a bag holds "
                        "plain instances; flatten the file first."
                    )
                relation = attribute
        elif not keyword.startswith("%") and keyword != "@relation":
            raise ContentError(
                f"line {number} ({stripped[:30]!r}) is not a declaration of an ARFF header; check "
                "that the file is ARFF, or pass format=."
            )
    raise ContentError("the file ends before @data; it is truncated, fetch it again.")


def _declaration(text: str, number: int) -> _Attribute:
    match = _WORD.match(text)
    kind = text[match.end() :].strip() if match else ""
    if match is None or not kind:
        raise ContentError(f"line {number} is not of the form '@attribute name type'; correct it.")
    name = _value(match)
    if kind.startswith("{"):
        if not kind.endswith("}"):
            raise ContentError(
                f"line {number} does not close the list of values of {name!r} with '}}'; the line "
                "is damaged or the file truncated."
            )
        inside = kind[1:-1]
        return _Attribute(name, "nominal", _cells(inside, number) if inside.strip() else [])
    word = kind.split(None, 1)[0].lower()
    if word not in _KINDS:
        raise ContentError(
            f"line {number} gives {name!r} the unknown type {word!r}; ARFF knows "
            f"{', '.join(_KINDS)} and a list of values."
        )
    return _Attribute(name, _KINDS[word])


def _relation(attributes: list[_Attribute]) -> int:
    """The position of the relational attribute."""
    found = [at for at, attribute in enumerate(attributes) if attribute.kind == "relational"]
    if len(found) != 1:
        raise ContentError(
            f"the header declares {len(found)} relational attributes but bags need exactly one; "
            "for one row per instance save the table as .csv."
        )
    if found[0] > 1 or len(attributes) > found[0] + 2:
        names = ", ".join(repr(attribute.name) for attribute in attributes)
        raise ContentError(
            f"the attributes {names} are more than the name of the bag, its instances and its "
            "label; remove the others."
        )
    return found[0]


def _value(match: re.Match[str]) -> str:
    single, double, bare = match.group(1), match.group(2), match.group(3)
    if bare is not None:
        return bare.strip()
    return _ESCAPE.sub(
        lambda m: chr(int(m[1], 16)) if m[1] else _CONTROL.get(m[2], m[2]),
        single if single is not None else double,
    )


def _cells(line: str, number: int) -> list[str]:
    if not ("'" in line or '"' in line):
        return [cell.strip() for cell in line.split(",")]
    cells, at = [], 0
    while True:
        match = _CELL.match(line, at)
        if match is None:
            raise ContentError(
                f"line {number} has a quote that is not closed, or text after a quote; the line "
                "is damaged or the file truncated."
            )
        cells.append(_value(match))
        if not match.group(4):
            return cells
        at = match.end()


class _Encoder:
    """Converts the text of a bag to rows of numbers.

    A numeric attribute is a column, and so is a nominal attribute whose values are numbers. Any
    other nominal attribute becomes one 0/1 column per value, named ``attribute=value``.
    """

    def __init__(self, relation: _Attribute, missing: str) -> None:
        self.missing = missing
        self.attributes = relation.inner
        if not self.attributes:
            raise ContentError(
                f"the relational attribute {relation.name!r} declares no attribute of an instance; "
                "correct the header."
            )
        self.feature_names: list[str] = []
        self.starts: list[int] = []
        # The values of attributes with several columns.
        self.one_hot: dict[int, list[str]] = {}
        # The value of attributes that are not in a sparse row, which is the first declared value.
        self.defaults: dict[int, str] = {}
        for at, attribute in enumerate(self.attributes):
            self.starts.append(len(self.feature_names))
            if attribute.kind in ("string", "date"):
                raise ContentError(
                    f"the attribute {attribute.name!r} of an instance is a {attribute.kind}, which "
                    "is not a feature; convert or remove it."
                )
            if attribute.values:
                self.defaults[at] = attribute.values[0]
            if attribute.kind == "nominal" and as_numbers(attribute.values) is None:
                self.one_hot[at] = attribute.values
                self.feature_names += [f"{attribute.name}={value}" for value in attribute.values]
            else:
                self.feature_names.append(attribute.name)
        self.blocks: list[Any] = []

    def add(self, text: str, name: str, number: int) -> None:
        rows = [row.strip() for row in text.split("\n") if row.strip()]
        if not rows:
            raise ContentError(
                f"line {number}: the bag {name!r} is empty; every bag needs at least one instance, "
                "remove it."
            )
        is_sparse, width = rows[0].startswith("{"), len(self.feature_names)
        texts: list[str] = []
        places: list[tuple[int, int]] = []  # of the texts of sparse rows
        for row, line in enumerate(rows):
            here = f"line {number}, bag {name!r}, instance {row + 1}"
            if is_sparse:
                for at, cell in sorted((self.defaults | self._pairs(line, number, here)).items()):
                    for column, value in enumerate(self._columns(at, cell, here), self.starts[at]):
                        if value != "0":
                            places.append((row, column))
                            texts.append(value)
                continue
            cells = _cells(line, number)
            check_width(cells, len(self.attributes), here, "values but the relation declares")
            if self.one_hot:
                columns = [self._columns(at, cell, here) for at, cell in enumerate(cells)]
                cells = [value for values in columns for value in values]
            texts += cells

        def place(at: int) -> str:
            row, column = places[at] if is_sparse else divmod(at, width)
            feature = self.feature_names[column]
            return f"line {number}, bag {name!r}, instance {row + 1}, column {feature!r}"

        numbers = parse_numbers(texts, self.missing, place)
        if not is_sparse:
            self.blocks.append(numbers.reshape(len(rows), width))
            return
        index = np.array(places, dtype=np.intp).reshape(-1, 2).T
        block = sparse.coo_array((numbers, tuple(index)), shape=(len(rows), width)).tocsr()
        block.eliminate_zeros()
        self.blocks.append(block)

    def bags(self) -> Bags:
        offsets = offsets_of([block.shape[0] for block in self.blocks])
        return make_bags_of(
            Bags, stack_matrices(self.blocks), offsets, feature_names=self.feature_names
        )

    def _columns(self, at: int, cell: str, place: str) -> Sequence[str]:
        """The texts of the columns of an attribute, one or several."""
        values = self.one_hot.get(at)
        if values is None:
            return (cell,)
        if cell != "?" and cell not in values:
            raise ContentError(
                f"{place}: {cell!r} is not a declared value of {self.attributes[at].name!r}; "
                "correct the header or the line."
            )
        return ["?" if cell == "?" else str(int(value == cell)) for value in values]

    def _pairs(self, text: str, number: int, place: str) -> dict[int, str]:
        """The values of a sparse row by the positions of their attributes."""
        if not (text.startswith("{") and text.endswith("}")):
            raise ContentError(
                f"{place} is not in braces as the instance before it is; the line is damaged or "
                "the file truncated."
            )
        given: dict[int, str] = {}
        for item in _PAIR.findall(text[1:-1]) if text[1:-1].strip() else ():
            # Python does not convert texts with thousands of digits.
            match = re.match(r"\s*(\d{1,18})\s+", item)
            if match is None or int(match[1]) >= len(self.attributes):
                raise ContentError(
                    f"{place}: {item.strip()[:30]!r} is not an attribute number below "
                    f"{len(self.attributes)} and a value; the line is damaged."
                )
            given[int(match[1])] = _cells(item[match.end() :], number)[0]
        return given


def _quoted(text: str) -> str:
    return f"'{text.translate(_ESCAPED)}'" if _NEEDS_QUOTES.search(text) else text


def write_arff(path: Path, record: BagRecord, file: BinaryIO) -> None:
    """Write bags in the format of WEKA's multi-instance learners.

    The class is nominal for whole numbers and names, numeric for real numbers. CSR instances are
    written in the sparse syntax.
    """
    target: Any = record.target
    names = [_quoted(name) for name in record.bag_names()]
    classes = record.fields.get("target_names")
    if classes is not None:
        kind = "{" + ",".join(_quoted(str(name)) for name in classes) + "}"
    elif target.dtype.kind == "f":
        kind = "numeric"
    else:
        kind = "{" + ",".join(map(number_text, np.unique(target))) + "}"
    head = [
        f"@relation {_quoted(path.stem)}",
        "",
        "@attribute bag_id {" + ",".join(names) + "}",
        "@attribute bag relational",
        *(f"  @attribute {_quoted(name)} numeric" for name in record.feature_names()),
        "@end bag",
        f"@attribute class {kind}",
        "",
        "@data",
    ]
    file.write("".join(f"{line}\n" for line in head).encode())
    weights = record.fields.get("sample_weight")
    for position, (block, label) in enumerate(zip(record.bags, record.label_texts(), strict=True)):
        # The rows contain only digits and braces, so that \n is the only escape inside the quotes.
        cell = "\\n".join(_rows_of(block))
        cells = [names[position], f'"{cell}"', label if label == "?" else _quoted(label)]
        if weights is not None:
            cells.append(f"{{{number_text(weights[position])}}}")
        file.write((",".join(cells) + "\n").encode())


def _rows_of(block: Any) -> Iterator[str]:
    if not sparse.issparse(block):
        yield from (",".join(map(_number, row)) for row in block)
        return
    for row in range(block.shape[0]):
        entries = slice(*block.indptr[row : row + 2])
        pairs = zip(block.indices[entries], block.data[entries], strict=True)
        yield "{" + ",".join(f"{at} {_number(value)}" for at, value in pairs) + "}"


def _number(value: Any) -> str:
    return "?" if np.isnan(value) else number_text(value)
