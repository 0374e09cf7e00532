"""The table that notebooks show, read back from its HTML."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from scipy import sparse

from milearn import Bags


def shown(bags):
    """The cells of the table, which is valid XML."""
    table = ElementTree.fromstring(bags._repr_html_())
    assert {each.tag for each in table.iter()} == {"table", "caption", "tbody", "tr", "th", "td"}
    return {name.text: value.text for name, value in table.iter("tr")}


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
    assert found["memory"] == f"{bags.nbytes / 1e6:.3g} MB"


def test_sparse_bags_no_bags_and_many_names():
    matrix = sparse.csr_array(np.eye(4))
    found = shown(Bags(matrix, [0, 1, 4], instance_graph=matrix))
    assert found["dtype"] == "float64, CSR"
    found = shown(Bags(np.empty((0, 100)), [0], feature_names=[f"f{i}" for i in range(100)]))
    assert found["feature names"] == "f0, f1, f2, f3, f4, f5, f6, f7, ... (92 more)"
