"""Columns of bags as rows and as features of the instances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from milearn import Bags
from milearn.preprocessing import AppendBagData, BagData, BagStatistics, InstanceTransformer
from milearn.svm import MISVC


def drawn(n_bags=24, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    data = {"age": rng.normal(size=n_bags), "site": rng.choice(["a", "b", "c"], size=n_bags)}
    return Bags(rng.normal(size=(offsets[-1], 3)), offsets, bag_data=data)


def test_rows_are_the_columns():
    bags = drawn()
    age, site = bags.bag_data["age"], bags.bag_data["site"]
    rows = BagData(["age"]).fit_transform(bags)
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows[:, 0], age)
    both = BagData().fit(bags)
    assert both.get_feature_names_out().tolist() == ["age", "site"]
    np.testing.assert_array_equal(both.transform(bags[::-1])[:, 1], site[::-1])
    assert BagData().fit_transform(bags.with_bag_data(None)).shape == (24, 0)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_columns_of_a_data_frame_have_their_own_types(container):
    bags = drawn()
    model = BagData().set_output(transform=container)
    frame = model.fit_transform(bags)
    assert list(frame.columns) == ["age", "site"]
    np.testing.assert_array_equal(frame["age"].to_numpy(), bags.bag_data["age"])
    assert frame["age"].to_numpy().dtype == np.float64
    assert frame["site"].to_list() == bags.bag_data["site"].tolist()
    encoder = make_column_transformer(
        (OneHotEncoder(), make_column_selector("site")),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    )
    if container == "pandas":
        assert make_pipeline(model, encoder).fit_transform(bags).shape == (24, 4)


def test_a_column_that_is_missing_or_of_another_kind():
    bags = drawn()
    fitted = BagData(["age"]).fit(bags)
    message = r"bag_data has no column 'age': its columns are \['site'\]"
    with pytest.raises(ValueError, match=message):
        fitted.transform(bags.with_bag_data({"site": bags.bag_data["site"]}))
    with pytest.raises(ValueError, match=r"bag_data\['age'\] is a category, but BagData was"):
        fitted.transform(bags.with_bag_data({"age": bags.bag_data["site"]}))
    with pytest.raises(TypeError, match="bag_data must be a list of names of columns"):
        BagData("age").fit(bags)


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "mapped"])
def test_columns_are_appended_to_every_instance(kind, tmp_path):
    bags = drawn()
    if kind == "float32":
        bags = bags.with_instances(bags.instances.astype(np.float32))
    if kind == "sparse":
        bags = bags.with_instances(sparse.csr_array(bags.instances))
    if kind == "mapped":
        np.save(tmp_path / "x.npy", bags.instances)
        matrix = np.load(tmp_path / "x.npy", mmap_mode="r")
        bags = Bags(matrix, bags.offsets, bag_data=bags.bag_data)
    found = AppendBagData(["age"]).fit_transform(bags)
    matrix, before = found.instances, bags.instances
    assert sparse.issparse(matrix) == (kind == "sparse")
    assert found.dtype == bags.dtype
    if kind == "sparse":
        matrix, before = matrix.toarray(), before.toarray()
    np.testing.assert_array_equal(matrix[:, :-1], before)
    np.testing.assert_array_equal(matrix[:, -1], bags.bag_data["age"][bags.bag_index]
                                  .astype(bags.dtype))  # fmt: skip
    assert list(found.bag_data) == ["age", "site"]


def test_texts_and_gaps_need_a_transformer():
    bags = drawn()
    with pytest.raises(ValueError, match=r"bag_data\['site'\] is a category: pass transf"):
        AppendBagData(["site"]).fit_transform(bags)
    age = bags.bag_data["age"].copy()
    age[5] = np.nan
    gaps = bags.with_bag_data({"age": age, "site": bags.bag_data["site"]})
    with pytest.raises(ValueError, match=r"bag_data\['age'\] of bag 5 is not finite: impute it"):
        AppendBagData(["age"]).fit_transform(gaps)
    each = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), [0]), (OneHotEncoder(), [1])
    )
    found = AppendBagData(["age", "site"], each).fit_transform(gaps)
    assert found.shape == (24, 3 + 1 + 3)
    encoded = found.instances[found.offsets[:-1], 4:]
    np.testing.assert_array_equal(
        np.array(["a", "b", "c"])[encoded.argmax(axis=1)], bags.bag_data["site"]
    )


def test_it_is_a_fixed_effect_of_a_linear_model():
    bags = drawn()
    y = (bags.bag_data["age"] > 0).astype(int)
    model = make_pipeline(AppendBagData(["age"]), MISVC(kernel="linear", init="mean")).fit(bags, y)
    *weights, effect = model[-1].coef_.ravel()
    # The score of a bag: the highest instance score without the column, plus its effect.
    highest = np.maximum.reduceat(bags.instances @ weights, bags.offsets[:-1])
    expected = highest + effect * bags.bag_data["age"] + model[-1].intercept_
    np.testing.assert_allclose(model.decision_function(bags), expected, rtol=1e-6, atol=1e-8)
    assert effect > 0


def test_instances_may_hold_nan_as_they_are_not_read():
    bags = drawn()
    gaps = bags.instances.copy()
    gaps[3, 1] = np.nan
    rows = BagData(["age"]).fit_transform(bags.with_instances(gaps))
    np.testing.assert_array_equal(rows[:, 0], bags.bag_data["age"])
    imputed = make_pipeline(InstanceTransformer(SimpleImputer()), BagStatistics("mean"))
    assert make_union(imputed, BagData(["age"])).fit_transform(bags.with_instances(gaps)).shape == (
        24,
        4,
    )
