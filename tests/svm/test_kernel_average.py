"""Which instances an average of kernels between bags compares by their angles."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from milearn import Bags
from milearn.svm._kernel_average import is_text


def test_texts_are_told_by_their_zeros_whatever_the_storage():
    rng = np.random.default_rng(0)
    words = sparse.random(200, 100, density=0.04, random_state=rng, format="csr")
    dense = rng.normal(size=(200, 100))
    for matrix, expected in ((words, True), (dense, False), (np.zeros((200, 100)), False)):
        for stored in (sparse.csr_array(matrix), np.asarray(sparse.csr_array(matrix).toarray())):
            assert is_text(Bags.singletons(stored)) is expected
