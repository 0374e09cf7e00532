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
    Coefficient of "rbf", "poly", "laplacian", "chi2" and "sigmoid". "scale" is
    1 / (n_features * variance of the instances), "auto" is 1 / n_features.

kernel : str or callable, default="rbf"
    Kernel between instances, by scikit-learn's name ("linear", "poly", "rbf", "laplacian", "chi2",
    "cosine", "sigmoid", ...); a callable takes two matrices and returns the matrix of shape
    (n_left, n_right). The negative part of an indefinite kernel matrix is dropped with a warning;
    this requires the whole matrix of the training instances for "sigmoid", "additive_chi2" and
    callables. "poly" has degree 3, and "poly" and "sigmoid" have the constant 0, as in
    scikit-learn's SVC; pass a callable for other values.

precomputed = With "precomputed" each row of ``X.instances`` has the kernel values of an instance
with all training instances, in their order. In ``fit`` this matrix is square, so cross-validation
cannot slice it.

landmarks = n_components : int, "auto" or None, default="auto"
    Number of landmarks, drawn from the training instances: w is sought in the span of their images
    (Nystroem's approximation of the kernel). The problem is then solved over explicit features,
    which are computed in blocks, without a kernel matrix. For the linear kernel the features are
    the instances. None uses the exact kernel. "auto" is None for up to 8,000 instances in up to
    2,000 bags, and 300 otherwise, without a warning; it is also None where landmarks do not apply,
    such as for a precomputed kernel.

max_iter : int, default=100
    Maximum number of steps of the concave-convex procedure.

n_init : int, default=1
    Number of starts; those after the first are random. The lowest objective is kept.

n_jobs : int, default=None
    Number of jobs that run in parallel, over {}. None means 1 unless in a
    :obj:`joblib.parallel_config` context; -1 means using all processors.

pos_label : label, default=None
    The positive class: one positive instance makes a bag positive. By default, ``classes_[1]``,
    with a warning if the classes are strings. Decision values, instance scores and ``coef_`` belong
    to ``classes_[1]`` in both cases.
    With three or more classes each class is positive in turn (one-vs-rest).

random_state : int, RandomState instance or None, default=None
    Determines {}. Pass an int for reproducible results.

step_tol = tol : float, default=1e-6
    Relative decrease of the objective at which to stop. The convex steps are solved to a tenth of
    it.

verbose : bool or int, default=False
    Whether to print {}.

classes_ : ndarray of shape (n_classes,)
    The class labels, sorted.

coef_ : ndarray of shape {}
    Weights; set only for the linear kernel. A single row of a classifier belongs to
    ``classes_[1]``, whatever ``pos_label`` is.

converged_ : {}
    Whether the procedure converged within ``max_iter`` steps.

dual_coef_ : ndarray of shape {}
    Coefficients of the support vectors in the function; not set for the linear kernel.

dual_gap_ : {}
    Duality gap of the last convex step, in units of the objective.

feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the features. Set only if the features have names.

gamma_ : float
    Resolved value of ``gamma``; not set for {}.

intercept_ : ndarray of shape {}
    The constant b.

n_components_ : int or None
    Number of landmarks; None if the kernel is exact.

n_features_in_ : int
    Number of features of an instance.

n_iter_ : {}
    Number of steps of the concave-convex procedure.

n_passes_ : {}
    Number of passes over the instances, 0 if the problem was solved in the dual. Set only for the
    linear kernel and explicit features.

objective_ : {}
    Value of the problem above at the solution.

objective_history_ : {}
    The value after each step; it never increases.

start_objectives_ : ndarray of shape {}
    The value that each start reached. ``objective_`` is the lowest of them.

support_ : ndarray of shape (n_support,)
    Rows of the support vectors in the training instances; with ``n_components``, rows of the
    landmarks. Not set for the linear kernel.

support_vectors_ : ndarray or CSR of shape (n_support, n_features)
    The support vectors; not set for {}.

tube_half_width_ : float
    Half the width of the tube, the epsilon of the problem.

witnesses_ : ndarray of shape {}
    Row of the highest instance of each training bag. Of instances that tie up to rounding, it is
    the one that the last convex problem used.

SolverError = milearn.exceptions.SolverError
    If a dual problem is not solved, or its weights are not precise enough: scale the features.

MemoryError
    Before the fit, if the kernel values exceed scikit-learn's ``working_memory``; the message
    advises what to do.

MemoryError_if_indefinite = MemoryError
    For a kernel that may be indefinite, if its whole matrix exceeds scikit-learn's
    ``working_memory``.

ConvergenceWarning
    If the procedure has not converged after ``max_iter`` steps, or a convex step misses its
    precision.

rows_or_dual = With the linear kernel the problem is solved over rows, by Newton's method in blocks
and without a copy of the instances, if these are distributed, if there are more than 20,000 of them
or more than 5,000 in more than 500 bags, or if there are more than two bags per feature and more
than 150 {}. With ``n_components`` it is always solved over rows. The relative precision is ``tol``
or, for many instances, 5e-4. All other problems are solved in the dual over kernel values.

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
