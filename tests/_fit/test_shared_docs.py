"""Shared descriptions: what takes the place of a name in braces."""

from __future__ import annotations

import inspect
import re

import pytest

from milearn._fit.shared_docs import with_shared_docs
from milearn.base import BagEstimator
from milearn.utils import all_estimators


class Documented(BagEstimator):
    r"""A model of :math:`x_{ij}`.

    Parameters
    ----------
    {class_weight: C}
    {n_jobs: classes and starts}

    Attributes
    ----------
    {n_features_in_}
    {objective_: float}
    """


def test_the_text_takes_the_place_of_its_name():
    assert inspect.getdoc(Documented) == inspect.cleandoc(r"""
        A model of :math:`x_{ij}`.

        Parameters
        ----------
        class_weight : dict, "balanced" or None, default=None
            Factor on C for each class.
        n_jobs : int, default=None
            Number of parallel jobs over classes and starts. None means 1 unless in a
            :obj:`joblib.parallel_config` context; -1 means all processors.

        Attributes
        ----------
        n_features_in_ : int
            Number of features of an instance.
        objective_ : float
            Value of the problem above.
        """)
    assert max(map(len, Documented.__doc__.splitlines())) <= 100


@pytest.mark.parametrize(
    ("placeholder", "hanging", "start"),
    [
        ("rows_or_dual: bags", 0, "The linear kernel on many bags"),
        ("cheung2006: 2", 3, ".. [2] P.-M. "),
    ],
)
def test_paragraphs_and_references_are_indented_like_their_placeholder(placeholder, hanging, start):
    first, *others = with_shared_docs(f"    {{{placeholder}}}").splitlines()
    assert first.startswith(f"    {start}")
    assert {len(line) - len(line.lstrip()) for line in others} == {4 + hanging}


@pytest.mark.parametrize("line", ["{n_jobs}", "{pos_label: C}"])
def test_a_subject_too_few_or_too_many_is_refused(line):
    with pytest.raises(ValueError, match="takes a subject, or takes none"):
        with_shared_docs(f"    {line}")


def test_no_estimator_shows_a_placeholder():
    shown = {name for name, each in all_estimators() if re.search(r"^ *\{", each.__doc__, re.M)}
    assert shown == set()
