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
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from ..._bags import Bags
from ..._bags.segments import offsets_of
from ..._compat import arff
from .._errors import ContentError
from .record import BagRecord, as_numbers, label_text, make_bags_of
from .text import check_values, number_text

_DATA = re.compile(r"^\s*@data\b.*$", re.IGNORECASE | re.MULTILINE)
_RELATION = re.compile(
    r"^\s*@attribute\s[^\n]*\srelational\s*$(.*?)^\s*@end\b[^\n]*$",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
# liac-arff would cut the decimals off.
_INTEGER = re.compile(r"\s+integer\s*$", re.IGNORECASE | re.MULTILINE)
_WEIGHT = re.compile(r",\s*\{\s*([0-9.eE+-]+)\s*\}\s*$")
_NUMERIC = ("NUMERIC", "REAL", "INTEGER")
_UNDERSCORE = re.compile(r"[^\s,{}]*\d_\d[^\s,{}]*")
# The name of the relational attribute, which liac-arff reads as text.
_INSTANCES = "milearn:instances"
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_NEEDS_QUOTES = re.compile(r"""[\s,{}%'"\\]|^\??$""")


def read_arff(path: Path, *, missing: str = "error") -> BagRecord:
    """Read bags from an ARFF file with exactly one relational attribute.

    An attribute before it is the name of the bag, and one after it the label.
    """
    head, data = _DATA.split(path.read_text(encoding="utf-8-sig"), maxsplit=1)
    before, *parts = _RELATION.split(_INTEGER.sub(" numeric", head.replace("\t", " ")))
    if len(parts) != 2:
        raise ContentError(
            f"the header declares {len(parts) // 2} relational attributes but bags need exactly "
            "one; for one row per instance save the table as .csv."
        )
    lines = [line for line in data.split("\n") if line.strip()[:1] not in ("", "%")]
    weights = [1.0 if found is None else float(found[1]) for found in map(_WEIGHT.search, lines)]
    header = [before, f"@attribute {_INSTANCES} string", parts[1], "@data"]
    outer = arff.loads("\n".join([*header, *(_WEIGHT.sub("", line) for line in lines)]))
    names = [name for name, _ in outer["attributes"]]
    at = names.index(_INSTANCES)
    if at > 1 or len(names) > at + 2:
        names.remove(_INSTANCES)
        raise ContentError(
            f"the attributes {', '.join(map(repr, names))} are more than the name of the bag and "
            "its label; remove the others."
        )
    columns = [list(cells) for cells in zip(*outer["data"], strict=True)]
    bags = [str(name) for name in columns[0] if at] or [*map(str, range(len(lines)))]
    record = BagRecord(_decoded_bags(columns[at], parts[0], missing, bags))
    if at:
        record.fields["bag_names"] = np.array(bags)
    if set(weights) != {1.0}:
        record.fields["sample_weight"] = np.array(weights)
    if at + 1 < len(names):
        kind = outer["attributes"][-1][1]
        nominal = not isinstance(kind, str) and as_numbers(kind) is None
        if kind in _NUMERIC:
            _check_numbers([_WEIGHT.sub("", line).rsplit(",", 1)[-1] for line in lines], bags)
        record.set_labels(columns[-1], np.array(kind) if nominal else None)
    return record


def _check_numbers(texts: list[str], bags: list[str]) -> None:
    """Raise an error for underscores, which Python and liac-arff accept in numbers."""
    for bag, text in zip(bags, texts, strict=True):
        if found := _UNDERSCORE.search(text):
            raise ContentError(f"bag {bag!r}: {found[0]!r} is not a number; correct it.")


def _decoded_bags(texts: list[str], declarations: str, missing: str, bags: list[str]) -> Bags:
    """The bags of the texts of the relational attribute.

    A numeric attribute is a column, and so is a nominal attribute whose values are numbers. Any
    other nominal attribute becomes one 0/1 column per value, named ``attribute=value``.
    """
    blocks = [[row for row in text.split("\n") if row.strip()] for text in texts]
    offsets = offsets_of([len(rows) for rows in blocks])
    rows = list(chain.from_iterable(blocks))
    is_sparse = rows[0].lstrip().startswith("{")
    text = "\n".join(["@relation x", declarations, "@data", *rows])
    content = arff.loads(text, return_type=arff.LOD if is_sparse else arff.DENSE)
    if all(kind in _NUMERIC for _, kind in content["attributes"]):
        _check_numbers(texts, bags)
    names: list[str] = []
    starts: list[int] = []
    one_hot: dict[int, list[str]] = {}
    defaults: dict[int, str] = {}  # of attributes that are not in a sparse row
    for at, (quoted, kind) in enumerate(content["attributes"]):
        starts.append(len(names))
        name = _ESCAPE.sub(r"\1", quoted)
        if not isinstance(kind, str):
            defaults[at] = kind[0]
            if as_numbers(kind) is None:
                one_hot[at] = kind
        names += [f"{name}={value}" for value in one_hot[at]] if at in one_hot else [name]
    entries: list[tuple[int, int, float]] = []
    for number, row in enumerate(content["data"]):
        for at, cell in sorted((defaults | row).items()) if is_sparse else enumerate(row):
            values = [cell == value for value in one_hot[at]] if at in one_hot else [cell]
            for column, value in enumerate(values, starts[at]):
                entries.append((number, column, np.nan if cell is None else float(value)))
    numbers, columns, data = np.array(entries).reshape(-1, 3).T
    place_of = numbers.astype(np.intp), columns.astype(np.intp)

    def place(at: int) -> str:
        row, column = place_of[0][at], place_of[1][at]
        bag = np.searchsorted(offsets, row, side="right") - 1
        return f"bag {bags[bag]!r}, instance {row - offsets[bag] + 1}, column {names[column]!r}"

    check_values(data, missing, place)
    shape = len(rows), len(names)
    instances: Any
    if is_sparse:
        instances = sparse.csr_array((data, place_of), shape=shape)
        instances.eliminate_zeros()
    else:
        instances = np.zeros(shape)
        instances[place_of] = data
    return make_bags_of(Bags, instances, offsets, feature_names=names)


def _quoted(text: str) -> str:
    return f"'{text.translate(_ESCAPED)}'" if _NEEDS_QUOTES.search(text) else text


def write_arff(path: Path, record: BagRecord, file: BinaryIO) -> None:
    """Write bags in the format of WEKA's multi-instance learners.

    The class is nominal for whole numbers and names, numeric for real numbers. CSR instances are
    written in the sparse syntax.
    """
    target: Any = record.target
    names = [_quoted(name) for name in record.bag_names()]
    classes = record.fields.get("classes")
    labels = [_quoted(label_text(y)) for y in (np.unique(target) if classes is None else classes)]
    kind = "numeric" if classes is None and target.dtype.kind == "f" else f"{{{','.join(labels)}}}"
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
