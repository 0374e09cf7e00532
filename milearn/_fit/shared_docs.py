"""Descriptions of the parameters and attributes that many estimators share.

The docstring of an estimator names such a description in braces, on a line of its own::

    Parameters
    ----------
    C : float, default=1.0
        Cost of a loss.
    {class_weight: C}
    {pos_label}
    {n_jobs: classes and starts}

The base class of all estimators puts the text in place when a class is defined, so that ``help``
and the documentation show it. The part after the colon replaces the braces in the text below.
"""

from __future__ import annotations

import re
import textwrap

__all__ = ["with_shared_docs"]

_TEXTS = {
    "kernel": (
        'str or callable, default="rbf"',
        'Kernel between instances, by scikit-learn\'s name ("linear", "poly", "rbf", "laplacian", '
        '"chi2", "cosine", "sigmoid", ...); a callable takes two matrices and returns the matrix '
        "of shape (n_left, n_right). The negative part of an indefinite kernel matrix is dropped, "
        'with a warning; "sigmoid", "additive_chi2" and callables need the whole matrix of '
        'training instances for that. "poly" has degree 3, and "poly" and "sigmoid" have the '
        "constant 0, as in scikit-learn's SVC; pass a callable for other values.",
    ),
    "gamma": (
        '{"scale", "auto"} or float, default="scale"',
        'Coefficient of "rbf", "poly", "laplacian", "chi2" and "sigmoid". "scale" is '
        '1 / (n_features * variance of the instances), "auto" is 1 / n_features.',
    ),
    "class_weight": ('dict, "balanced" or None, default=None', "Factor on {} by class."),
    "pos_label": (
        "label, default=None",
        "The positive class, of which one instance makes a bag; ``classes_[1]`` when None. With "
        "three or more classes each is positive in turn (one-vs-rest).",
    ),
    "random_state": (
        "int, RandomState instance or None, default=None",
        "Determines {}. Pass an int for reproducible results.",
    ),
    "n_jobs": (
        "int, default=None",
        "Number of jobs that run in parallel, over {}. None means 1 unless in a "
        ":obj:`joblib.parallel_config` context; -1 means using all processors.",
    ),
    "verbose": ("bool or int, default=False", "Whether to print {}."),
    "n_features_in_": ("int", "Number of features of an instance."),
    "feature_names_in_": (
        "ndarray of shape (n_features_in_,)",
        "Names of the features. Set only when the bags have names.",
    ),
}
_PLACEHOLDER = re.compile(r"^( *)\{(\w+)(?:: (.+))?\}$", re.MULTILINE)
_WIDTH = 100


def with_shared_docs(docstring: str | None) -> str | None:
    """The docstring with each placeholder replaced; None with ``python -OO``."""
    return docstring and _PLACEHOLDER.sub(_described, docstring)


def _described(found: re.Match[str]) -> str:
    indent, name, subject = found.groups()
    kind, text = _TEXTS[name]
    if ("{}" in text) != (subject is not None):
        raise ValueError(f"The description of {name} takes a subject, or takes none: {found[0]}")
    inner = indent + 4 * " "
    lines = textwrap.fill(
        text.format(subject), _WIDTH, initial_indent=inner, subsequent_indent=inner
    )
    return f"{indent}{name} : {kind}\n{lines}"
