"""More instances than the number up to which kernels look at all pairs: the sample has no order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import is_regressor

from milearn import Bags
from milearn.svm import BagSVC, BagSVR
from milearn.utils._checks import reordered
from tests.bags import random_bags
from tests.common.common_checks import OF_MANY_FITS
from tests.common.few_trees import MIClassifier, MIRegressor

KERNELS = ["mean", "mind", "miles_rows", "set_median", "graph"]


@pytest.mark.parametrize(
    "estimator",
    [
        BagSVC(bag_kernel=KERNELS, scaling=None),
        BagSVR(bag_kernel=KERNELS, scaling=None),
        MIClassifier(**OF_MANY_FITS["MIClassifier"]),
        MIRegressor(**OF_MANY_FITS["MIRegressor"]),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("sparse", [False, True])
def test_instances_in_another_order_give_the_same_fit(estimator, sparse):
    bags = random_bags(3, n_bags=110, d=3, largest=10, zeros=0.3)
    assert bags.n_instances > 600
    y = np.random.default_rng(0).integers(0, 2, len(bags))
    if is_regressor(estimator):
        y = y + np.linspace(0.0, 1.0, len(bags))
    if sparse:
        bags = Bags(csr_array(bags.instances), bags.offsets)
    moved, _ = reordered(bags)
    estimator.set_params(random_state=0)
    scores = "predict" if is_regressor(estimator) else "decision_function"
    expected, found = (getattr(estimator.fit(each, y), scores)(bags) for each in (bags, moved))
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
