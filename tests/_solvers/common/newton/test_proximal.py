"""Proximal rounds over stacks of rows."""

from __future__ import annotations

import numpy as np

from milearn._solvers.common.newton.proximal import ProximalTerm
from milearn._solvers.common.row_stack import RowStack


def test_parts_without_rows_have_no_largest_entry():
    parts = [np.zeros((0, 2), np.float32), np.array([[1.0, -3.0], [2.0, 0.5]], np.float32)]
    proximal = ProximalTerm.towards(np.zeros(2), RowStack(parts), 1.0)
    np.testing.assert_array_equal(proximal.largest, [2.0, 3.0])
    np.testing.assert_array_equal(
        ProximalTerm.towards(np.zeros(2), RowStack(parts[:1]), 1.0).largest, 0.0
    )
