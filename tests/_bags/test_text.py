"""Bags of texts: what becomes one, and what happens until the texts are encoded."""

from __future__ import annotations

import pickle
from itertools import chain

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from milearn import MISVC, Bags
from milearn.inspection import InstanceScoresDisplay, WitnessDisplay
from milearn.metrics import bag_kernel
from milearn.preprocessing import BagStatistics, InstanceTransformer

DOCUMENTS = [
    ["It is good.", "Is it?", "The rest e.g. me, not."],
    ["One", "Two\nlines"],
    ["Only one"],
]
PASSAGES = [*chain(*DOCUMENTS)]
OFFSETS = [0, 3, 5, 6]


def texts_of(bags):
    return [bag[:, 0].tolist() for bag in bags]


def of_numpy(documents):
    return [np.array(document) for document in documents]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bags.from_list(DOCUMENTS),
        lambda: Bags.from_list([tuple(document) for document in DOCUMENTS]),
        lambda: Bags.from_list(of_numpy(DOCUMENTS)),
        lambda: Bags.from_list(pd.Series(DOCUMENTS)),
        lambda: Bags.from_list([pd.Series(document) for document in DOCUMENTS]),
        lambda: Bags.from_list(Bags.from_list(DOCUMENTS).to_list()),
        lambda: Bags(PASSAGES, OFFSETS),
        lambda: Bags(np.array(PASSAGES, dtype=object)[:, np.newaxis], OFFSETS),
        lambda: Bags.from_ids(pd.Series(PASSAGES), [0, 0, 0, 1, 1, 2]),
    ],
)
def test_lists_of_strings_are_bags_of_text(make):
    bags = make()
    assert texts_of(bags) == DOCUMENTS
    assert bags.feature_names.tolist() == ["text"]
    assert {type(text) for text in bags.instances[:, 0]} == {str}
    assert joblib.hash(bags.instances) == joblib.hash(Bags.from_list(DOCUMENTS).instances)


def test_texts_that_look_like_numbers_stay_texts():
    assert texts_of(Bags.from_list([["1", "2"], ["3"]])) == [["1", "2"], ["3"]]


@pytest.mark.parametrize("documents", [["One.", "Two."], [["a", 3], ["b"]], [["a", float("nan")]]])
def test_what_is_no_list_of_strings_is_refused(documents):
    with pytest.raises(
        ValueError, match=r"^Bag 0 (holds strings|is a text).*: .* list of strings without gaps"
    ):
        Bags.from_list(documents)


def test_masked_texts_are_refused():
    with pytest.raises(TypeError, match="Bag 0 is a masked array"):
        Bags.from_list([np.ma.array(["a", "b"], mask=[False, True])])


def test_texts_are_selected_joined_merged_pickled_and_hashed():
    bags = Bags.from_list(DOCUMENTS)
    assert texts_of(bags[[2, 0]]) == [texts_of(bags)[2], texts_of(bags)[0]]
    assert texts_of(bags[1:][:, ["text"]]) == texts_of(bags)[1:]
    assert texts_of(Bags.concatenate([bags[2:], bags[:2]])) == texts_of(bags[[2, 0, 1]])
    assert texts_of(bags.merge([0, 1, 0]))[0] == texts_of(bags)[0] + texts_of(bags)[2]
    again = pickle.loads(pickle.dumps(bags))
    assert texts_of(again) == texts_of(bags)
    assert joblib.hash(again) == joblib.hash(bags) == joblib.hash(Bags.from_list(DOCUMENTS))
    assert joblib.hash(bags[::-1]) != joblib.hash(bags)
    assert bags.to_frame()["text"].tolist() == list(chain(*texts_of(bags)))
    with pytest.raises(ValueError, match="read-only"):
        bags.instances[0, 0] = "other"


def test_text_that_meets_numbers_is_an_error_with_the_remedy():
    bags = Bags.from_list(DOCUMENTS)
    remedy = "needs numbers; encode the text .* InstanceTransformer"
    for X in (bags, DOCUMENTS, pd.Series(DOCUMENTS)):
        with pytest.raises(ValueError, match=f"The instances are text: MISVC {remedy}"):
            MISVC().fit(X, [0, 1, 0])
    with pytest.raises(ValueError, match=f"The instances are text: this function {remedy}"):
        bag_kernel(bags)
    with pytest.raises(ValueError, match=r"or pass the step and bags of .*final_step\(pipeline, X"):
        WitnessDisplay.from_estimator(MISVC(), bags)
    with pytest.raises(ValueError, match=r"TfidfVectorizer needs text, .* Bags\.from_list"):
        InstanceTransformer(TfidfVectorizer()).fit(Bags.singletons([[1.0]]))
    with pytest.raises(ValueError, match="cannot be joined: encode the text"):
        Bags.concatenate([bags, Bags.singletons([[1.0]])])


# -- encoding --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inner",
    [
        TfidfVectorizer(),
        make_pipeline(CountVectorizer(binary=True)),
        make_union(TfidfVectorizer(), CountVectorizer()),
    ],
    ids=["vectoriser", "pipeline", "union"],
)
def test_vectorisers_get_a_list_of_all_parts(inner):
    bags = Bags.from_list(DOCUMENTS)
    parts = list(chain(*texts_of(bags)))
    encoded = InstanceTransformer(inner).fit_transform(bags)
    expected = inner.fit_transform(parts)
    # fit_transform and transform add in different orders.
    np.testing.assert_allclose(encoded.instances.toarray(), expected.toarray(), rtol=1e-15)
    np.testing.assert_array_equal(encoded.feature_names, inner.get_feature_names_out())
    np.testing.assert_array_equal(encoded.offsets, bags.offsets)
    listed = InstanceTransformer(inner).fit_transform(DOCUMENTS)
    assert listed.equals(encoded)


def test_other_transformers_get_a_column():
    bags = Bags.from_list([["red", "blue"], ["red"]])
    found = InstanceTransformer(OneHotEncoder(sparse_output=False)).fit_transform(bags)
    np.testing.assert_array_equal(found.instances, [[0, 1], [1, 0], [0, 1]])
    lengths = FunctionTransformer(lambda texts: np.char.str_len(texts.astype(str)))
    found = InstanceTransformer(lengths).fit_transform(bags)
    np.testing.assert_array_equal(found.instances, [[3], [4], [3]])


def test_the_vectoriser_is_fitted_inside_of_the_folds():
    documents = [[f"Some word{i}.", f"{'Good' if i % 2 else 'Bad'} end."] for i in range(12)]
    bags, y = Bags.from_list(documents), np.arange(12) % 2
    seen = []

    class Noting(CountVectorizer):
        def fit(self, texts, y=None):
            seen.append(len(texts))
            return super().fit(texts, y)

    model = make_pipeline(InstanceTransformer(Noting()), MISVC(kernel="linear"))
    assert cross_val_score(model, bags, y, cv=3).tolist() == [1.0] * 3
    assert seen == [16] * 3
    grid = {"instancetransformer__transformer__binary": [False, True]}
    search = GridSearchCV(model, grid, cv=2).fit(bags, y)
    assert search.best_score_ == 1.0
    display = InstanceScoresDisplay.from_estimator(search, bags, bag=1)
    assert display.witness == 1  # "Good end."
    mean = make_pipeline(InstanceTransformer(TfidfVectorizer()), BagStatistics(("mean",)))
    assert mean.fit_transform(bags).shape[0] == 12
