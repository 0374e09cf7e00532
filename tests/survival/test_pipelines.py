"""Estimators of scikit-survival and MICoxPH behind bags: pipelines, searches, scorers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import Bags
from milearn.embedding import BagOfWords, FisherVector
from milearn.metrics import concordance_index
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import BagStatistics, InstanceTransformer
from milearn.survival import MICoxPH

linear = pytest.importorskip("sksurv.linear_model", reason="needs the extra survival")
util = pytest.importorskip("sksurv.util", reason="needs the extra survival")

SCORER = make_scorer(concordance_index)


def case(n_bags=60, seed=0):
    """Bags whose mean first feature sets the hazard, and outcomes as scikit-survival makes them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, n_bags)
    risks = rng.normal(size=n_bags)
    rows = rng.normal(size=(sizes.sum(), 3))
    rows[:, 0] += np.repeat(risks, sizes)
    time, end = rng.exponential(np.exp(-2 * risks)), rng.exponential(2.0, size=n_bags)
    y = util.Surv.from_arrays(time <= end, np.minimum(time, end))
    return Bags(rows, np.r_[0, np.cumsum(sizes)]), y


def pipelines():
    cox = linear.CoxPHSurvivalAnalysis(alpha=1.0)
    return {
        "statistics": make_pipeline(BagStatistics(), StandardScaler(), cox),
        "fisher": make_pipeline(FisherVector(n_components=2, random_state=0), cox),
        "words": make_pipeline(BagOfWords(n_words=4, random_state=0), cox),
        "instances": make_pipeline(InstanceTransformer(StandardScaler()), MICoxPH()),
    }


@pytest.mark.parametrize("name", ["statistics", "fisher", "words", "instances"])
def test_cross_validation(name):
    bags, y = case()
    model, cv = pipelines()[name], StratifiedBagKFold(3)
    own = cross_val_score(model, bags, y, cv=cv)
    assert own.mean() > 0.6
    # The scorer is Harrell's c, which is the score of these estimators.
    np.testing.assert_allclose(cross_val_score(model, bags, y, cv=cv, scoring=SCORER), own)
