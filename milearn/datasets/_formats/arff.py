"""WEKA's relational ARFF: a row is a bag, its instances stand quoted in one cell.

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

A row may end in its weight, as in ``{2.5}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from .._errors import BagFileError
from .record import (
    BagRecord,
    check_distinct,
    encode_labels,
    feature_names_of,
    label_texts,
    make_bags_of,
    names_of_bags,
    need_labels,
    number_text,
    parse_cells,
    read_text,
    refuse_fields,
)

# Possessive quantifiers: an unterminated quote in a line of megabytes must fail at once.
_CELL = re.compile(
    r"""\s*(?:'((?:[^'\\]++|\\.)*+)'|"((?:[^"\\]++|\\.)*+)"|([^,'"]*+))\s*+(,|$)""", re.DOTALL
)
_WORD = re.compile(r"""\s*(?:'((?:[^'\\]++|\\.)*+)'|"((?:[^"\\]++|\\.)*+)"|([^\s{'"]++))\s*""")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r"}
_WEIGHT = re.compile(r"\{\s*([0-9.eE+-]+)\s*\}")
_NEEDS_QUOTES = re.compile(r"""[\s,{}%'"\\]|^\??$""")


@dataclass
class _Attribute:
    """One ``@attribute`` line: ``kind`` is numeric, nominal, string, date or relational."""

    name: str
    kind: str
    values: list[str] = field(default_factory=list)
    inner: list[_Attribute] = field(default_factory=list)


def read_arff(
    path: Path, *, bag: str | None = None, label: str | None = None, missing: str = "error"
) -> BagRecord:
    """Read bags from an ARFF file with exactly one relational attribute."""
    lines = enumerate(read_text(path).split("\n"), start=1)
    attributes = _header(path, lines)
    bag_at, cell_at, label_at = _roles(path, attributes, bag, label)
    encoder = _Encoder(path, attributes[cell_at], missing)
    names: list[str] = []
    labels: list[str] = []
    weights: dict[int, float] = {}
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("%"):
            continue
        cells = _cells(path, line, number)
        weight = _WEIGHT.fullmatch(cells[-1]) if len(cells) == len(attributes) + 1 else None
        if weight is not None:
            weights[len(names)] = float(weight[1])
            cells.pop()
        if len(cells) != len(attributes):
            raise BagFileError(
                f"{path}: line {number} has {len(cells)} columns but the header declares "
                f"{len(attributes)}; the line is damaged or the file truncated."
            )
        name = cells[bag_at] if bag_at is not None else str(len(names))
        names.append(name)
        encoder.add(cells[cell_at], name, number)
        if label_at is not None:
            _check_class(path, attributes[label_at], cells[label_at], number)
            labels.append(cells[label_at])
    if not names:
        raise BagFileError(f"{path}: there is not a single bag after @data; check the file.")
    instances, offsets = encoder.matrix()
    bags = make_bags_of(path, instances, offsets, feature_names=encoder.feature_names)
    fields: dict[str, Any] = {} if bag_at is None else {"bag_names": np.array(names)}
    if weights:
        fields["sample_weight"] = np.array([weights.get(row, 1.0) for row in range(len(names))])
    target = None
    if label_at is not None:
        declared = attributes[label_at].values or None
        target, classes = encode_labels(labels, declared)
        if classes is not None:
            fields["target_names"] = classes
    return BagRecord(bags, target, fields)


def _header(path: Path, lines: Iterator[tuple[int, str]]) -> list[_Attribute]:
    attributes: list[_Attribute] = []
    relational: _Attribute | None = None
    for number, line in lines:
        stripped = line.strip()
        keyword = stripped.split(None, 1)[0].lower() if stripped else ""
        if not keyword or keyword.startswith("%") or keyword == "@relation":
            continue
        if keyword == "@attribute":
            attribute = _declaration(path, stripped[len("@attribute") :], number)
            if relational is None:
                attributes.append(attribute)
                if attribute.kind == "relational":
                    relational = attribute
            elif attribute.kind == "relational":
                raise BagFileError(
                    f"{path}: line {number} declares a relation inside a relation, but a bag holds "
                    "plain instances; flatten the file first."
                )
            else:
                relational.inner.append(attribute)
        elif keyword == "@end":
            relational = None
        elif keyword == "@data":
            return attributes
        else:
            raise BagFileError(
                f"{path}: line {number} ({stripped[:30]!r}) is no declaration of an ARFF header; "
                "check that the file is ARFF, or pass format=."
            )
    raise BagFileError(f"{path}: the file ends before @data; it is truncated, fetch it again.")


def _declaration(path: Path, text: str, number: int) -> _Attribute:
    match = _WORD.match(text)
    kind = text[match.end() :].strip() if match else ""
    if match is None or not kind:
        raise BagFileError(
            f"{path}: line {number} is not of the form '@attribute name type'; correct it."
        )
    name = _value(match)
    if kind.startswith("{"):
        if not kind.endswith("}"):
            raise BagFileError(
                f"{path}: line {number} does not close the list of values of {name!r} with '}}'; "
                "the line is damaged or the file truncated."
            )
        inside = kind[1:-1]
        values = _cells(path, inside, number) if inside.strip() else []
        return _Attribute(name, "nominal", values)
    word = kind.split(None, 1)[0].lower()
    if word in ("numeric", "real", "integer"):
        return _Attribute(name, "numeric")
    if word in ("string", "date", "relational"):
        return _Attribute(name, word)
    raise BagFileError(
        f"{path}: line {number} gives {name!r} the unknown type {word!r}; ARFF knows numeric, "
        "real, integer, string, date, relational and a list of values."
    )


def _roles(
    path: Path, attributes: list[_Attribute], bag: str | None, label: str | None
) -> tuple[int | None, int, int | None]:
    relations = [at for at, attribute in enumerate(attributes) if attribute.kind == "relational"]
    if len(relations) != 1:
        raise BagFileError(
            f"{path}: the header declares {len(relations)} relational attributes but bags need "
            "exactly one; for one row per instance save the table as .csv."
        )
    cell_at = relations[0]
    plain = {attribute.name: at for at, attribute in enumerate(attributes) if at != cell_at}
    for part, asked in (("bag", bag), ("label", label)):
        if asked is not None and asked not in plain:
            raise BagFileError(
                f"{path}: there is no attribute {asked!r} for {part}= among "
                f"{', '.join(repr(name) for name in plain)}; name another."
            )
    before = [at for at in plain.values() if at < cell_at and attributes[at].name != label]
    after = [at for at in plain.values() if at > cell_at and attributes[at].name != bag]
    bag_at = plain[bag] if bag is not None else (before[0] if before else None)
    label_at = plain[label] if label is not None else (after[-1] if after else None)
    rest = [attributes[at].name for at in plain.values() if at not in (bag_at, label_at)]
    if rest:
        raise BagFileError(
            f"{path}: the attribute {rest[0]!r} describes a bag as a whole, which bags of "
            "instances cannot hold; remove it, or choose the roles with bag= and label=."
        )
    return bag_at, cell_at, label_at


def _value(match: re.Match[str]) -> str:
    single, double, bare = match.group(1), match.group(2), match.group(3)
    if bare is not None:
        return bare.strip()
    quoted = single if single is not None else double
    return _unescape(quoted)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(
        lambda m: chr(int(m[1], 16)) if m[1] else _CONTROL.get(m[2], m[2]),
        text,
    )


def _cells(path: Path, line: str, number: int) -> list[str]:
    if not ("'" in line or '"' in line):
        return [cell.strip() for cell in line.split(",")]
    cells, at = [], 0
    while True:
        match = _CELL.match(line, at)
        if match is None:
            raise BagFileError(
                f"{path}: line {number} has a quote that is not closed, or text after a quote; the "
                "line is damaged or the file truncated."
            )
        cells.append(_value(match))
        if not match.group(4):
            return cells
        at = match.end()


def _check_class(path: Path, attribute: _Attribute, text: str, number: int) -> None:
    if attribute.values and text not in attribute.values and text != "?":
        raise BagFileError(
            f"{path}: line {number} has the class {text!r}, which is not among "
            f"{', '.join(attribute.values)}; correct the header or the line."
        )


class _Encoder:
    """Turns the text of a bag into rows of numbers.

    A numeric attribute is a column. So is a nominal one whose values are numbers; any other
    nominal attribute becomes one 0/1 column per value, named ``attribute=value``.
    """

    def __init__(self, path: Path, relation: _Attribute, missing: str) -> None:
        self.path, self.missing = path, missing
        self.attributes = relation.inner
        if not self.attributes:
            raise BagFileError(
                f"{path}: the relational attribute {relation.name!r} declares no attribute of an "
                "instance; correct the header."
            )
        self.feature_names: list[str] = []
        self.starts: list[int] = []
        self.one_hot: dict[int, dict[str, int]] = {}
        for at, attribute in enumerate(self.attributes):
            self.starts.append(len(self.feature_names))
            if attribute.kind in ("string", "date"):
                raise BagFileError(
                    f"{path}: the attribute {attribute.name!r} of an instance is a "
                    f"{attribute.kind}, which is no feature; convert or remove it."
                )
            if attribute.kind == "nominal" and not _all_numbers(attribute.values):
                self.one_hot[at] = {value: code for code, value in enumerate(attribute.values)}
                self.feature_names += [f"{attribute.name}={value}" for value in attribute.values]
            else:
                self.feature_names.append(attribute.name)
        self.defaults = {
            at: attribute.values[0]
            for at, attribute in enumerate(self.attributes)
            if attribute.kind == "nominal" and attribute.values
        }
        self.blocks: list[Any] = []
        self.sizes: list[int] = []

    def add(self, text: str, name: str, number: int) -> None:
        rows = [row for row in text.split("\n") if row.strip()]
        if not rows:
            raise BagFileError(
                f"{self.path}: line {number}: the bag {name!r} is empty; every bag needs at least "
                "one instance, remove it."
            )

        def where(row: int) -> str:
            return f"line {number}, bag {name!r}, instance {row + 1}"

        if rows[0].lstrip().startswith("{"):
            self.blocks.append(self._sparse(rows, number, where))
        else:
            self.blocks.append(self._dense(rows, number, where))
        self.sizes.append(len(rows))

    def _dense(self, rows: list[str], number: int, where: Any) -> np.ndarray:
        table = [_cells(self.path, row, number) for row in rows]
        for row, cells in enumerate(table):
            if len(cells) != len(self.attributes):
                raise BagFileError(
                    f"{self.path}: {where(row)} has {len(cells)} values but the relation declares "
                    f"{len(self.attributes)}; the line is damaged or the file truncated."
                )
        if self.one_hot:
            table = [self._spread(cells, row, where) for row, cells in enumerate(table)]
        return parse_cells(self.path, table, self.feature_names, self.missing, where)

    def _spread(self, cells: list[str], row: int, where: Any) -> list[str]:
        out: list[str] = []
        for at, cell in enumerate(cells):
            codes = self.one_hot.get(at)
            if codes is None:
                out.append(cell)
            elif cell == "?":
                out += ["?"] * len(codes)
            else:
                chosen = self._code(at, cell, row, where)
                out += ["1" if code == chosen else "0" for code in range(len(codes))]
        return out

    def _code(self, at: int, cell: str, row: int, where: Any) -> int:
        if cell not in self.one_hot[at]:
            raise BagFileError(
                f"{self.path}: {where(row)}: {cell!r} is no declared value of "
                f"{self.attributes[at].name!r}; correct the header or the line."
            )
        return self.one_hot[at][cell]

    def _sparse(self, rows: list[str], number: int, where: Any) -> sparse.csr_array:
        values: list[str] = []
        places: list[tuple[int, int]] = []
        for row, text in enumerate(rows):
            text = text.strip()
            if not (text.startswith("{") and text.endswith("}")):
                raise BagFileError(
                    f"{self.path}: {where(row)} does not stand in braces as the instance before it "
                    "does; the line is damaged or the file truncated."
                )
            given = self._pairs(text[1:-1], row, number, where)
            # What a sparse row leaves out is the first declared value, not nothing.
            for at, value in self.defaults.items():
                given.setdefault(at, value)
            for at, cell in sorted(given.items()):
                if at in self.one_hot and cell != "?":
                    places.append((row, self.starts[at] + self._code(at, cell, row, where)))
                    values.append("1")
                elif at in self.one_hot:
                    for code in range(len(self.one_hot[at])):
                        places.append((row, self.starts[at] + code))
                        values.append("?")
                else:
                    places.append((row, self.starts[at]))
                    values.append(cell)
        index = np.array(places, dtype=np.intp).reshape(-1, 2)
        numbers = self._sparse_numbers(values, places, where)
        shape = (len(rows), len(self.feature_names))
        matrix = sparse.coo_array((numbers, (index[:, 0], index[:, 1])), shape=shape).tocsr()
        matrix.eliminate_zeros()
        return matrix

    def _pairs(self, text: str, row: int, number: int, where: Any) -> dict[int, str]:
        given: dict[int, str] = {}
        for item in _split_pairs(text):
            # Python refuses to convert texts of thousands of digits.
            match = re.match(r"\s*(\d{1,18})\s+", item)
            if match is None or int(match[1]) >= len(self.attributes):
                raise BagFileError(
                    f"{self.path}: {where(row)}: {item.strip()[:30]!r} is not an attribute number "
                    f"below {len(self.attributes)} and a value; the line is damaged."
                )
            given[int(match[1])] = _cells(self.path, item[match.end() :], number)[0]
        return given

    def _sparse_numbers(
        self, values: list[str], places: list[tuple[int, int]], where: Any
    ) -> np.ndarray:
        try:
            numbers = np.array(values, dtype=np.float64)
            if np.isfinite(numbers).all():
                return numbers
        except ValueError:
            pass
        # Something is wrong with one of them: one by one, so that the message names it.
        found = np.empty(len(values))
        for at, (value, (row, column)) in enumerate(zip(values, places, strict=True)):
            found[at] = parse_cells(
                self.path,
                [[value]],
                [self.feature_names[column]],
                self.missing,
                lambda _, row=row: where(row),
            ).item()
        return found

    def matrix(self) -> tuple[Any, np.ndarray]:
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        if any(sparse.issparse(block) for block in self.blocks):
            blocks = [sparse.csr_array(block) for block in self.blocks]
            return sparse.vstack(blocks, format="csr"), offsets
        return np.concatenate(self.blocks), offsets


def _split_pairs(text: str) -> list[str]:
    if not text.strip():
        return []
    if not ("'" in text or '"' in text):
        return text.split(",")
    return re.findall(r"""(?:'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+"|[^,'"]++)++""", text)


def _all_numbers(values: list[str]) -> bool:
    try:
        return bool(values) and bool(np.isfinite([float(value) for value in values]).all())
    except ValueError:
        return False


def _quoted(text: str) -> str:
    if not _NEEDS_QUOTES.search(text):
        return text
    for char, escaped in (
        ("\\", "\\\\"),
        ("'", "\\'"),
        ("\n", "\\n"),
        ("\t", "\\t"),
        ("\r", "\\r"),
    ):
        text = text.replace(char, escaped)
    return f"'{text}'"


def write_arff(path: Path, file: BinaryIO, record: BagRecord) -> None:
    """Write bags as WEKA's multi-instance learners read them.

    The class is nominal for whole numbers and names, numeric for real numbers. CSR instances are
    written in the sparse syntax.
    """
    refuse_fields(path, record, "arff", ("bag_names", "target_names", "sample_weight"))
    target = need_labels(path, record, "arff")
    names = names_of_bags(record)
    check_distinct(path, names)
    labels = label_texts(record)
    weights = record.fields.get("sample_weight")
    classes = record.fields.get("target_names")
    if classes is not None:
        kind = "{" + ",".join(_quoted(str(name)) for name in classes) + "}"
    elif target.dtype.kind == "f":
        kind = "numeric"
    else:
        kind = "{" + ",".join(number_text(value) for value in np.unique(target)) + "}"
    head = [f"@relation {_quoted(path.stem)}", ""]
    head.append("@attribute bag_id {" + ",".join(_quoted(name) for name in names) + "}")
    head.append("@attribute bag relational")
    head += [f"  @attribute {_quoted(name)} numeric" for name in feature_names_of(record)]
    head += ["@end bag", f"@attribute class {kind}", "", "@data", ""]
    file.write("\n".join(head).encode())
    for position, block in enumerate(record.bags):
        # The rows hold digits and braces only, so that \n is the one escape inside the quotes.
        cell = "\\n".join(_rows_of(block))
        label = labels[position] if labels[position] == "?" else _quoted(labels[position])
        weight = "" if weights is None else f",{{{number_text(weights[position])}}}"
        file.write(f'{_quoted(names[position])},"{cell}",{label}{weight}\n'.encode())


def _rows_of(block: Any) -> list[str]:
    if not sparse.issparse(block):
        return [",".join(_number(value) for value in row) for row in block]
    rows = []
    for row in range(block.shape[0]):
        start, stop = block.indptr[row], block.indptr[row + 1]
        pairs = zip(block.indices[start:stop], block.data[start:stop], strict=True)
        rows.append("{" + ",".join(f"{at} {_number(value)}" for at, value in pairs) + "}")
    return rows


def _number(value: Any) -> str:
    return "?" if np.isnan(value) else number_text(value)
