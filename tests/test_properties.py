"""Properties that hold for all bags: of the container and the files.

Hypothesis draws the bags: bags of one, repeated instances, zeros of both signs, values of huge and
tiny scales, dense and CSR.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis
import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from milearn import Bags
from milearn.datasets import load_bags, save_bags
from tests._bags.kinds import dense

# The draws are the same in every run: a failure is a change of the code.
few = hypothesis.settings(max_examples=15, deadline=None, derandomize=True, database=None)
VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 7.25, -3e5, 1e-7, 2.0**40])


EITHER = st.booleans()


@st.composite
def bags(draw, min_bags=1, values=VALUES, csr=EITHER):
    sizes = draw(st.lists(st.integers(1, 5), min_size=min_bags, max_size=9))
    width = draw(st.integers(1, 4))
    rows = draw(st.lists(values, min_size=sum(sizes) * width, max_size=sum(sizes) * width))
    matrix = np.array(rows).reshape(-1, width)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(sparse.csr_array(matrix) if draw(csr) else matrix, offsets)


# -- container -------------------------------------------------------------------------------------


@few
@hypothesis.given(some=bags(), n_bytes=st.integers(1, 400))
def test_blocks_of_a_source_hold_whole_bags_in_order(some, n_bytes):
    blocks = list(some.source(block_bytes=n_bytes).blocks())
    starts = {int(start) for start in some.offsets}
    found = np.concatenate([dense(block.instances) for block in blocks])
    np.testing.assert_array_equal(found, dense(some.instances))
    assert all(block.rows.start in starts and block.rows.stop in starts for block in blocks)


# -- files -----------------------------------------------------------------------------------------


@few
@hypothesis.given(some=bags(), form=st.sampled_from(["npz", "npy-folder"]), data=st.data())
def test_a_file_gives_back_what_was_saved(some, form, data):
    y = data.draw(st.lists(st.integers(-3, 3), min_size=len(some), max_size=len(some)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.bags"
        save_bags(path, some, np.array(y), format=form)
        again = load_bags(path)
    np.testing.assert_array_equal(again.data.offsets, some.offsets)
    np.testing.assert_array_equal(dense(again.data.instances), dense(some.instances))
    np.testing.assert_array_equal(again.target, y)
