"""Warnings point at the line of the user, where Python can skip the files of libraries."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from milearn import Bags
from milearn.preprocessing import InstanceTransformer
from milearn.svm import MISVC

rng = np.random.default_rng(0)
Y = np.arange(24) % 2
X = Bags.from_list([rng.normal(size=(4, 2)) for _ in Y])
MODEL = MISVC(max_iter=1, init="mean")
CALLS = {
    "fit": lambda: MODEL.fit(X, Y),
    "a pipeline": lambda: make_pipeline(InstanceTransformer(), MODEL).fit(X, Y),
    "a search": lambda: cross_val_score(MODEL, X, Y, cv=2),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_line_of_a_warning(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[call]()
    found = [each for each in caught if issubclass(each.category, ConvergenceWarning)]
    assert found
    if sys.version_info >= (3, 12):
        assert {each.filename for each in found} == {__file__}
