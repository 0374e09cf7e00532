"""Models of the size, depth and covariates of bags: they name what was planted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import Bags
from milearn.model_selection import StratifiedBagKFold, confounder_baseline
from milearn.preprocessing import BagStatistics

pytestmark = pytest.mark.usefixtures("no_intervals")

MEANS = make_pipeline(BagStatistics(("mean",)), StandardScaler(), LogisticRegression())


def counts(rates, sizes, seed=0, **columns):
    rng = np.random.default_rng(seed)
    rows = rng.poisson(np.repeat(rates, sizes)[:, None], size=(sizes.sum(), 6)).astype(float)
    return Bags(rows, np.append(0, sizes.cumsum()), bag_data=columns or None)


@pytest.mark.parametrize("planted", ["depth", "batch", "age"])
def test_a_planted_effect_is_named(planted):
    rng, y = np.random.default_rng(1), np.arange(60) % 2
    hit = {name: y * (name == planted) for name in ("depth", "bag size", "batch", "age")}
    sizes = rng.integers(10, 20, 60) * (1 + 2 * hit["bag size"])
    batch = np.array(["A", "B", "C", "D"])[rng.integers(0, 2, 60) + 2 * hit["batch"]]
    age = rng.normal(50, 5, 60) + 40 * hit["age"]
    age[:5] = np.nan
    X = counts(1.0 + 2 * hit["depth"], sizes, batch=batch, age=age)
    names = ["batch", "age"]
    given = {"depth": True, "cv": 3}
    found = confounder_baseline(X, y, estimator=MEANS, covariates=names, **given)
    assert found.estimators == ("model", "bag size", "depth", "batch", "age", "all of these")
    table = dict(zip(found.estimators, found.table()[0], strict=True))
    assert table[planted] > 0.9
    assert table["all of these"] > 0.9
    others = {"bag size", "depth", "batch", "age"} - {planted}
    assert max(table[name] for name in others) < 0.75
    assert table["model"] == pytest.approx(
        cross_val_score(MEANS, X, y, cv=StratifiedBagKFold(3), scoring="roc_auc").mean()
    )
    if planted != "depth":
        return
    sparse_bags = X.with_instances(sparse.csr_array(X.instances))
    frame = {name: X.bag_data[name] for name in names}
    again = confounder_baseline(sparse_bags, y, covariates=frame, **given)
    np.testing.assert_allclose(again.table(), found.table()[:, 1:])


OLD = pytest.mark.skipif(np.__version__ < "2", reason="polars needs columns with NumPy 1")


@pytest.mark.parametrize("choice", ["pandas", pytest.param("polars", marks=OLD)])
def test_the_models_do_not_depend_on_the_output_of_transformers(choice):
    X = counts(
        np.ones(12), np.arange(12) + 2, age=np.r_[np.nan, np.arange(11.0)], site=list("ab") * 6
    )
    given = {"y": np.arange(12) // 6, "covariates": ["age", "site"], "cv": 2}
    expected = confounder_baseline(X, **given)
    with config_context(transform_output=choice):
        np.testing.assert_array_equal(confounder_baseline(X, **given).table(), expected.table())


def test_values_groups_and_scores():
    sizes = np.random.default_rng(0).integers(5, 50, 40)
    X, donor = counts(np.ones(40), sizes), np.arange(40) // 2
    ridge = make_pipeline(BagStatistics(("mean",)), Ridge())
    found = confounder_baseline(X, np.log(sizes), estimator=ridge, groups=donor, cv=4)
    assert found.estimators == ("model", "bag size")
    assert found.table()[0, 1] > 0.9 > found.table()[0, 0]
    several = confounder_baseline(X, sizes > 25, scoring=["accuracy", "roc_auc"])
    assert several.scores == ("accuracy", "roc_auc")
    assert several.table("roc_auc")[0, 0] == 1.0
    # Three classes are scored by their accuracy.
    assert confounder_baseline(X, np.digitize(sizes, [20, 35])).table()[0, 0] > 0.8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"covariates": ["site"]}, "^The bag_data has no column 'site': its columns"),
        ({"covariates": {"age": [1.0]}}, r"^covariates\['age'\] has 1 entries for 12 bags"),
        ({"covariates": {"model": [1.0] * 12}}, r"^A covariate cannot be named 'model': rename"),
        ({"depth": True}, r"^depth=True needs counts, but X has the number -1\.$"),
    ],
)
def test_what_is_refused(given, message):
    X = counts(np.ones(12), np.full(12, 3), age=np.arange(12.0))
    X = X.with_instances(np.where(X.instances > 2, -1.0, X.instances))
    with pytest.raises(ValueError, match=message):
        confounder_baseline(X, np.arange(12) % 2, cv=2, **given)


def test_a_batch_that_is_kept_together_is_no_covariate():
    y, batch = np.arange(40) % 2, np.arange(40) // 4
    names = [f"batch {each}" for each in batch]
    X = Bags(np.zeros((40, 1)), np.arange(41), bag_data={"batch": names})
    message = r"^No fold has a category of 'batch' in its training and in its test bags"
    with pytest.warns(UserWarning, match=message):
        confounder_baseline(X, y, covariates=["batch"], groups=batch)
    confounder_baseline(X, y, covariates=["batch"])
