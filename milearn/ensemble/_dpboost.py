"""DPBoost: boosting with ambiguous labels by disjunctive programming."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .._constraints import AT_LEAST_ONE, Constraints
from .._solvers.ensemble.dpboost import BoostingOptions
from ._base import BoostedBags


class DPBoost(BoostedBags):
    r"""Boosting of bags by disjunctive programming: one positive instance per bag.

    The ensemble :math:`F(x) = \sum_k \alpha_k h_k(x)` of weak learners :math:`h_k(x) \in \{-1, 1\}`
    solves [1]_

    .. math::

        \min_{\alpha \ge 0} \; \sum_k \alpha_k
        + C \sum_{y_i = 1} c_i \, [1 - \max_j F(x_{ij})]_+
        + C \sum_{y_i = -1} c_i \sum_j [1 + F(x_{ij})]_+ ,

    where :math:`c_i` is the weight of a bag. The relaxation replaces the disjunction of each
    positive bag by its convex hull. It is a linear program, whose value is a lower bound. Learners
    are added to it as columns, and facets of the hull ("reductions") as rows.

    Read more in the :ref:`User Guide <methods_trees>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=1.0
        Cost of a slack relative to the sum of the weights. Must be positive.
    estimator : {"stump", "rbf"} or classifier, default="stump"
        Weak learners: thresholds on a feature, thresholds on the distance from a training instance,
        or a classifier that accepts ``sample_weight`` and is refitted in each round.
    n_estimators : int or "auto", default="auto"
        Maximum number of learners in the program. "auto" is 1,000 for up to 2,147 instances and
        decreases with their square root, to at least 50.
    n_prototypes : int, default=1000
        Maximum number of centres for ``estimator="rbf"``.
    max_bins : int, "auto" or None, default="auto"
        Maximum number of bins of a feature or distance. "auto" is 256 above 10,000 distinct
        instances; None, and "auto" for fewer instances, uses all distinct values.
    branch : bool, default=False
        Whether to close the gap by branch and bound; for small data only.
    max_nodes : int, default=1000
        Maximum number of nodes of the search tree.
    tol : float, default=1e-4
        Tolerance of the scores of learners and of violated reductions.
    time_limit : float, default=None
        Time limit per class in seconds. The best solution so far is returned with its gap.
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.
    n_jobs : int, default=None
        Number of parallel jobs over classes. None means 1 unless in a :obj:`joblib.parallel_config`
        context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print the bounds after each round.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    alpha_ : ndarray of shape (n_learners,), or list of them, one per class
        Positive weights, in descending order.
    learners_ : list, or list of lists
        The learners: :class:`Stump`, :class:`Ball` or :class:`FittedClassifier`.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above.
    lower_bound_ : float or ndarray of shape (n_classes,)
        Lower bound of the minimum, over all stumps or balls, or over the fitted classifiers.
    optimality_gap_ : float or ndarray of shape (n_classes,)
        ``objective_ - lower_bound_``.
    relaxation_value_ : float or ndarray of shape (n_classes,)
        Lower bound before branching: the value of the linear program.
    objective_history_ : ndarray of shape (n_iter_,), or list of ndarray
        The value after each round; it never increases.
    lower_bound_history_ : ndarray of shape (n_iter_,), or list of ndarray
        Lower bound after each round.
    n_generated_ : int or ndarray of shape (n_classes,)
        Number of learners in the last linear program.
    n_reductions_, n_active_reductions_ : int or ndarray of shape (n_classes,)
        Number of reductions in the last linear program, and of those with a positive dual variable.
    n_active_margins_ : int or ndarray of shape (n_classes,)
        Number of margin constraints with a positive dual variable.
    n_nodes_ : int or ndarray of shape (n_classes,)
        Number of nodes of the search tree.
    feature_importances_ : ndarray of shape (n_features,)
        Fraction of the weights of stumps that belongs to each feature; not set for balls.
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of rounds.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether there was nothing to add (at most 50 reductions), or, with ``branch=True``, the gap
        is closed.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    TypeError
        If ``estimator`` is not a classifier or does not accept sample weights.

    Warns
    -----
    ConvergenceWarning
        If ``converged_`` is False, with the reason.

    See Also
    --------
    LPBoost : The same program with labels for all instances.
    Stump, Ball, FittedClassifier : The weak learners.

    Notes
    -----
    [1]_ returns the weights of the relaxation. Here the witnesses under these weights are fixed and
    the resulting linear program is solved, until the value no longer decreases. If
    instances tie for the highest score, the first and the last are tried. Of weights with the same
    value, a last linear program chooses few.
    Linear programs are solved by an interior point method, to a relative gap of 1e-6, or ``tol`` if
    it is smaller, at least 1e-7. Negative bags can have several instances. Programs with more
    than two million coefficients are solved without reductions.

    References
    ----------
    .. [1] S. Andrews, T. Hofmann. Multiple Instance Learning via Disjunctive Programming
       Boosting. NIPS 16, 2003.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.ensemble import DPBoost
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = DPBoost(C=1.0).fit(bags, y)
    >>> bool(model.score(bags, y) > 0.9)
    True
    >>> bool(model.lower_bound_ <= model.objective_)
    True
    """

    _stored = (
        *BoostedBags._stored,
        "relaxation_value",
        "lower_bound_history",
        "n_nodes",
        "n_generated",
        "n_reductions",
        "n_active_reductions",
        "n_active_margins",
    )
    _parameter_constraints = Constraints(branch=["boolean"], max_nodes=[AT_LEAST_ONE])

    def __init__(
        self,
        C: float = 1.0,
        *,
        estimator: Any = "stump",
        n_estimators: int | str = "auto",
        n_prototypes: int = 1000,
        max_bins: int | str | None = "auto",
        branch: bool = False,
        max_nodes: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        pos_label: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.n_prototypes = n_prototypes
        self.max_bins = max_bins
        self.branch = branch
        self.max_nodes = max_nodes
        self.tol = tol
        self.time_limit = time_limit
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _options(self, n_estimators: int) -> BoostingOptions:
        return replace(super()._options(n_estimators), branch=self.branch, max_nodes=self.max_nodes)
