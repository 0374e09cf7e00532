"""Bags of texts: how documents are divided, and what happens until the texts are encoded."""

from __future__ import annotations

import pickle
from itertools import chain

import joblib
import numpy as np
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
    'It is good. "Is it?" Yes! 3 of 4 say so.\nThe rest e.g. me, not.',
    "One\n\n  Two lines\nof text \n \nThree.",
    "Only one",
]


def texts_of(bags):
    return [bag[:, 0].tolist() for bag in bags]


def test_sentences_and_paragraphs():
    bags = Bags.from_documents(DOCUMENTS)
    assert texts_of(bags) == [
        ["It is good.", '"Is it?"', "Yes!", "3 of 4 say so.", "The rest e.g. me, not."],
        ["One", "Two lines\nof text", "Three."],
        ["Only one"],
    ]
    paragraphs = Bags.from_documents(DOCUMENTS, split="paragraphs")
    assert texts_of(paragraphs)[0] == [DOCUMENTS[0]]
    assert texts_of(paragraphs)[1:] == texts_of(bags)[1:]
    for each in (bags, paragraphs):
        starts = np.split(each.instance_data["start"], each.offsets[1:-1])
        for document, texts, begins in zip(DOCUMENTS, texts_of(each), starts, strict=True):
            for text, start in zip(texts, begins, strict=True):
                assert document[start : start + len(text)] == text
    assert texts_of(Bags.from_documents(["好。很好！ 是"]))[0] == ["好。", "很好！", "是"]


def test_parts_of_other_functions_and_libraries():
    lines = Bags.from_documents(["a\nb\n\n", "c"], split=str.splitlines)
    assert texts_of(lines) == [["a", "b"], ["c"]]
    assert lines.instance_data == {}
    assert texts_of(Bags.from_documents([["a. b", " c "], np.array(["d"])], split=None)) == [
        ["a. b", "c"],
        ["d"],
    ]


@pytest.mark.parametrize(
    ("documents", "split", "error", "match"),
    [
        ("text", "sentences", TypeError, "documents is a string: pass a list"),
        ([], "sentences", ValueError, "No documents"),
        (["a", " \n "], "sentences", ValueError, "Document 1 has no text: leave it out"),
        (["a", float("nan")], "sentences", TypeError, "Document 1 is nan, which is not a string"),
        ([["a", "b"]], "sentences", TypeError, "divided already need split=None"),
        (["a"], None, TypeError, "Document 0 is a string, and split=None"),
        ([["a", 3]], None, TypeError, "A part of document 0 is 3, not a string"),
        (["a"], "words", ValueError, "split='words' is unknown"),
    ],
)
def test_refuses(documents, split, error, match):
    with pytest.raises(error, match=match):
        Bags.from_documents(documents, split)


def test_texts_are_selected_joined_merged_pickled_and_hashed():
    bags = Bags.from_documents(DOCUMENTS)
    assert texts_of(bags[[2, 0]]) == [texts_of(bags)[2], texts_of(bags)[0]]
    assert texts_of(bags[1:][:, ["text"]]) == texts_of(bags)[1:]
    assert texts_of(Bags.concatenate([bags[2:], bags[:2]])) == texts_of(bags[[2, 0, 1]])
    assert texts_of(bags.merge([0, 1, 0]))[0] == texts_of(bags)[0] + texts_of(bags)[2]
    again = pickle.loads(pickle.dumps(bags))
    assert texts_of(again) == texts_of(bags)
    assert joblib.hash(again) == joblib.hash(bags) == joblib.hash(Bags.from_documents(DOCUMENTS))
    assert joblib.hash(bags[::-1]) != joblib.hash(bags)
    assert bags.to_frame()["text"].tolist() == list(chain(*texts_of(bags)))
    rows = bags.to_arrow()["instances"].to_pylist()
    assert [[text for (text,) in row] for row in rows] == texts_of(bags)
    with pytest.raises(ValueError, match="read-only"):
        bags.instances[0, 0] = "other"


def test_text_that_meets_numbers_is_an_error_with_the_remedy():
    bags = Bags.from_documents(DOCUMENTS)
    remedy = "needs numbers; encode the text .* InstanceTransformer"
    with pytest.raises(ValueError, match=f"The instances are text: MISVC {remedy}"):
        MISVC().fit(bags, [0, 1, 0])
    with pytest.raises(ValueError, match=f"The instances are text: this function {remedy}"):
        bag_kernel(bags)
    with pytest.raises(ValueError, match=r"or pass the step and bags of .*final_step\(pipeline, X"):
        WitnessDisplay.from_estimator(MISVC(), bags)
    with pytest.raises(ValueError, match=r"TfidfVectorizer needs text, .* Bags\.from_documents"):
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
    bags = Bags.from_documents(DOCUMENTS)
    parts = list(chain(*texts_of(bags)))
    encoded = InstanceTransformer(inner).fit_transform(bags)
    expected = inner.fit_transform(parts)
    np.testing.assert_array_equal(encoded.instances.toarray(), expected.toarray())
    np.testing.assert_array_equal(encoded.feature_names, inner.get_feature_names_out())
    np.testing.assert_array_equal(encoded.offsets, bags.offsets)
    assert list(encoded.instance_data) == ["start"]


def test_other_transformers_get_a_column():
    bags = Bags.from_documents([["red", "blue"], ["red"]], split=None)
    found = InstanceTransformer(OneHotEncoder(sparse_output=False)).fit_transform(bags)
    np.testing.assert_array_equal(found.instances, [[0, 1], [1, 0], [0, 1]])
    lengths = FunctionTransformer(lambda texts: np.char.str_len(texts.astype(str)))
    found = InstanceTransformer(lengths).fit_transform(bags)
    np.testing.assert_array_equal(found.instances, [[3], [4], [3]])


def test_the_vectoriser_is_fitted_inside_of_the_folds():
    documents = [f"Some word{i}. {'Good' if i % 2 else 'Bad'} end." for i in range(12)]
    bags, y = Bags.from_documents(documents), np.arange(12) % 2
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


def test_data_of_parts_follow_them():
    counts = {"count": [[3, 1, 2], [5]], "place": [np.eye(3), [[0, 0, 9]]]}
    bags = Bags.from_documents([["a", " ", "b"], ["c"]], split=None, instance_data=counts)
    assert bags.sizes.tolist() == [2, 1]
    assert bags.instance_data["count"].tolist() == [3, 2, 5]
    assert bags.instance_data["place"].tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 9]]
    both = Bags.from_documents(["a\n\nb"], split="paragraphs", instance_data={"count": [[3, 1]]})
    assert {name: entry.tolist() for name, entry in both.instance_data.items()} == {
        "start": [0, 3],
        "count": [3, 1],
    }
    message = r"^instance_data\['count'\] of bag 0 has shape \(1,\) for 2 instances: give one"
    with pytest.raises(ValueError, match=message):
        Bags.from_documents([["a", " "]], split=None, instance_data={"count": [[3]]})
