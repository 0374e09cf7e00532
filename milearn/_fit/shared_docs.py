"""Descriptions of parameters and attributes, and notes, that many estimators share.

The docstring of an estimator names such a description in braces, on a line of its own::

    Parameters
    ----------
    C : float, default=1.0
        Cost of a loss.
    {class_weight: C}
    {pos_label}
    {n_jobs: classes and starts}

    Attributes
    ----------
    {objective_: float or ndarray of shape (n_classes,)}

The base class of all estimators puts the text in place when a class is defined, so that ``help``
and the documentation show it. The part after the colon replaces the empty braces in the text below.
"""

from __future__ import annotations

import re
import textwrap

# Entries of sections, and paragraphs, which have a name and no indented text.
_TEXTS = """
bag_kernel : {"normalized_set", "set", "mean_set", "minmax"}, default="normalized_set"
    Kernel between bags, computed from ``kernel``, see :func:`milearn.metrics.bag_kernel`.

class_weight : dict, "balanced" or None, default=None
    Factor on {} for each class.

coupling : float, default=0.1
    Weight of the coupling loss relative to the first loss (the lambda of [1]_).

coupling_loss = loss : {"l1", "l2", "epsilon_insensitive"}, default="l1"
    Loss between the score of a bag and its highest instance score.

gamma : {"scale", "auto"} or float, default="scale"
    Coefficient of the kernel, as in :class:`~sklearn.svm.SVC`.

kernel : str or callable, default="rbf"
    Kernel between instances: a name of scikit-learn ("linear", "rbf", "poly", ...) or a callable.
    The negative part of an indefinite kernel is dropped with a warning.

landmarks = n_components : int, "auto" or None, default="auto"
    Number of landmarks that approximate the kernel (Nystroem); None is the exact kernel. "auto" is
    None for up to 8,000 instances in up to 2,000 bags, and 300 otherwise.

max_iter : int, default=100
    Maximum number of steps.

n_init : int, default=1
    Number of starts; those after the first are random. The lowest objective is kept.

n_jobs : int, default=None
    Number of parallel jobs over {}. None means 1 unless in a :obj:`joblib.parallel_config`
    context; -1 means all processors.

pos_label : label, default=None
    The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
    warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes are
    each positive in turn.

random_state : int, RandomState instance or None, default=None
    Determines {}.

step_tol = tol : float or "auto", default="auto"
    Relative decrease and duality gap at which to stop. "auto" is 1e-6; for rows with over two
    million numbers, 5e-4.

verbose : bool or int, default=False
    Whether to print {}.

classes_ : ndarray of shape (n_classes,)
    The class labels, sorted.

coef_ : ndarray of shape {}
    Weights; only for the linear kernel.

converged_ : {}
    Whether the procedure converged.

dual_coef_ : ndarray of shape {}
    Coefficients of the support vectors; only for other kernels.

dual_gap_ : {}
    Duality gap of the last convex step, in units of the objective.

feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the features, if any.

gamma_ : float
    Resolved value of ``gamma``; not set for {}.

intercept_ : ndarray of shape {}
    The constant b.

n_components_ : int or None
    Number of landmarks; None if the kernel is exact.

n_features_in_ : int
    Number of features of an instance.

n_iter_ : {}
    Number of steps.

n_passes_ : {}
    Number of passes over the instances.

objective_ : {}
    Value of the problem above.

objective_history_ : {}
    The value after each step; it never increases.

start_objectives_ : ndarray of shape {}
    The value that each start reached.

support_ : ndarray of shape (n_support,)
    Rows of the support vectors, or of the landmarks.

support_vectors_ : ndarray or CSR of shape (n_support, n_features)
    The support vectors; not set for {}.

tube_half_width_ : float
    Half the width of the tube, the epsilon of the problem.

witnesses_ : ndarray of shape {}
    Row of the highest instance of each training bag.

SolverError = milearn.exceptions.SolverError
    If a dual problem is not solved: scale the features.

MemoryError
    Before the fit, if the kernel values exceed scikit-learn's ``working_memory``.

MemoryError_if_indefinite = MemoryError
    If the matrix of an indefinite kernel exceeds scikit-learn's ``working_memory``.

ConvergenceWarning
    If and only if ``converged_`` is False.

rows_or_dual = The linear kernel and landmarks are fitted in passes over blocks of instances. Other
kernels are solved in the dual over kernel values.

andrews2003 = .. [{}] S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for
Multiple-Instance Learning. NIPS 15, 2003.

cheung2006 = .. [{}] P.-M. Cheung, J. T. Kwok. A Regularization Framework for Multiple-Instance
Learning. ICML 2006.
"""
_PLACEHOLDER = re.compile(r"^( *)\{(\w+)(?:: (.+))?\}$", re.MULTILINE)
_WIDTH = 100


# The name of a block is its first word, unless "name = " precedes the block.
_BLOCKS = {
    name or word: block
    for name, block, word in re.findall(r"^(?:(\w+) = )?((\S+).*\n(?:.+\n)*)", _TEXTS, re.MULTILINE)
}


def with_shared_docs(docstring: str | None) -> str | None:
    """The docstring with each placeholder replaced; None with ``python -OO``."""
    return docstring and _PLACEHOLDER.sub(_described, docstring)


def _described(found: re.Match[str]) -> str:
    indent, name, subject = found.groups()
    block = _BLOCKS[name]
    if ("{}" in block) != (subject is not None):
        raise ValueError(f"The description of {name} takes a subject, or takes none: {found[0]}")
    block = block.replace("{}", subject or "")
    head, entry, text = block.partition("\n    ")
    if not entry:
        hanging = indent + 3 * " " * block.startswith(".. ")
        return textwrap.fill(block, _WIDTH, initial_indent=indent, subsequent_indent=hanging)
    inner = indent + 4 * " "
    text = " ".join(text.split())
    lines = textwrap.fill(text, _WIDTH, initial_indent=inner, subsequent_indent=inner)
    return f"{indent}{head}\n{lines}"
