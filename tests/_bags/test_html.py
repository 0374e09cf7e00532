"""The table that notebooks show, read back from its HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags


class _Rows(HTMLParser):
    """Cells of a table, row by row; every tag must be closed in order."""

    def __init__(self):
        super().__init__()
        self.rows, self.open, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


def shown(bags):
    parser = _Rows()
    parser.feed(bags._repr_html_())
    parser.close()
    assert parser.open == []
    assert parser.tags == {"table", "caption", "tbody", "tr", "th", "td"}
    assert all(len(row) == 2 for row in parser.rows)
    return dict(parser.rows)


def test_what_is_shown():
    sizes = [1, 2, 3, 4, 1000]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n = int(offsets[-1])
    bags = Bags(
        np.zeros((n, 2), dtype=np.float32),
        offsets,
        bag_graph=np.eye(5),
        instance_data={"coords": np.zeros((n, 2), dtype=np.int64), "<b>": ["x"] * n},
        feature_names=["<script>alert(1)</script>", "b & c"],
    )
    found = shown(bags)
    assert found == {
        "bags": "5",
        "instances": "1,010",
        "features": "2",
        "sizes: min, quartiles, max": "1, 2, 3, 4, 1,000",
        "dtype": "float32",
        "memory": found["memory"],
        "bag_graph": "5 entries",
        "instance_data['coords']": "int64, shape (1010, 2)",
        "instance_data['<b>']": "<U1, shape (1010,)",
        "feature names": "<script>alert(1)</script>, b & c",
    }
    number, unit = found["memory"].split()
    assert unit == "kB"
    assert float(number) == pytest.approx(bags.nbytes / 1000, rel=0.01)


def test_sparse_bags_no_bags_and_many_names():
    matrix = sparse.csr_array(np.eye(4))
    found = shown(Bags(matrix, [0, 1, 4], instance_graph=matrix))
    assert found["dtype"] == "float64, CSR"
    assert found["instance_graph"] == "4 entries"
    assert "feature names" not in found
    found = shown(Bags(np.empty((0, 100)), [0], feature_names=[f"f{i}" for i in range(100)]))
    assert found["bags"] == "0"
    assert "sizes: min, quartiles, max" not in found
    assert found["feature names"] == "f0, f1, f2, f3, f4, f5, f6, f7, ... (92 more)"
    assert len(Bags(np.empty((0, 1)), [0])._repr_html_()) < 2000


def test_rows_of_a_map_are_not_read(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 2), dtype=np.float32))
    bags = Bags(np.load(tmp_path / "x.npy", mmap_mode="r"), [0, 1, 2, 4])[[2, 0]]
    assert shown(bags)["dtype"] == "float32"
    assert bags._instances is None
