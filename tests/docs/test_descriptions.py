"""Descriptions that many estimators share, which each docstring writes out."""

from __future__ import annotations

import re

import pytest

from milearn.utils import all_estimators

ClassDoc = pytest.importorskip("numpydoc.docscrape", reason="numpydoc is not installed").ClassDoc

WORDS = {
    "class_weight": r"Factor on (C|the weights of the bags) for each class\.",
    "classes_": r"The class labels(, sorted|; only set for classifiers)\.",
    "dual_gap_": r"Duality gap of the last (convex step|SVM|problem), in units of the objective\.",
    "feature_names_in_": r"Names of the features, if any\.|Only when the bags have .* strings\.",
    "gamma_": r"Resolved value of ``gamma``(; not set for the linear kernel)?\.",
    "n_features_in_": r"Number of features of an instance\.",
    "n_jobs": r"Number of (parallel jobs|threads) (over|for) .*\. None means 1 unless in a "
    r":obj:`joblib\.parallel_config` context; -1 means all processors\.",
    "random_state": r"Determines .*\.",
    "start_objectives_": r"The value that each (start|run) reached\.",
    "verbose": r"Whether to print .*\.",
}


def entries(estimator: type) -> list[tuple[str, str]]:
    document = ClassDoc(estimator, config={"show_class_members": False})
    return [
        (entry.name, " ".join(entry.desc))
        for section in ("Parameters", "Attributes")
        for entry in document[section]
    ]


def test_shared_parameters_and_attributes_have_the_same_words():
    found = [(name, *each) for name, kind in all_estimators() for each in entries(kind)]
    documented = [entry for _, entry, _ in found]
    assert {name for name in WORDS if documented.count(name) < 4} == set()
    assert [
        each for each in found if each[1] in WORDS and not re.fullmatch(WORDS[each[1]], each[2])
    ] == []


def test_no_docstring_has_a_placeholder():
    shown = {name for name, each in all_estimators() if re.search(r"^ *\{", each.__doc__, re.M)}
    assert shown == set()
