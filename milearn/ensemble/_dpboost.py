"""DPBoost: boosting with ambiguous labels by disjunctive programming."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

from .._compat import Interval, with_callbacks
from .._fit.multi_start import attributes_of
from .._fit.threads import fit_context
from .._solvers.ensemble.column_generation import BoostingOptions
from .._solvers.ensemble.dpboost import DPResult
from .._solvers.ensemble.points import disjunctive_problem
from ._base import BoostedBags

__all__ = ["DPBoost"]


class DPBoost(BoostedBags):
    r"""Boosting of bags by disjunctive programming: one instance of a positive bag has to be right.

    The ensemble :math:`F(x) = \sum_k \alpha_k h_k(x)` of weak learners
    :math:`h_k(x) \in \{-1, 1\}` is sought that solves

    .. math::

        \min_{\alpha \ge 0} \; \sum_k \alpha_k
        + C \sum_{y_i = 1} c_i \, [1 - \max_j F(x_{ij})]_+
        + C \sum_{y_i = -1} c_i \sum_j [1 + F(x_{ij})]_+ ,

    where :math:`c_i` is the weight of a bag. A positive bag of two or more instances is a
    disjunction of linear constraints. Its relaxation replaces the union by a convex hull, after
    each disjunct was intersected with every constraint that is no disjunction: a linear program
    whose value is a lower bound. Learners (columns) and intersections (rows, "reductions") are
    generated as they are needed. Upper bounds are values of the problem itself.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a slack against the sum of the weights. Above zero.
    estimator : {"stump", "rbf"} or classifier, default="stump"
        Weak learners: thresholds on a feature; thresholds on the distance from a training
        instance, which are thresholded RBF features of any width; or a scikit-learn classifier
        that takes ``sample_weight``, fitted anew in each round.
    n_estimators : int, default=1000
        Maximum number of learners in the program at a time.
    n_prototypes : int, default=1000
        Maximum number of training instances that are centres for ``estimator="rbf"``; of more, a
        fixed pseudo-random choice is taken.
    branch : bool, default=False
        Whether to close the gap by branch and bound: for small data.
    max_nodes : int, default=1000
        Maximum number of nodes of the search tree.
    tol : float, default=1e-4
        A learner with a score above 1 + tol is added, and a reduction that is violated by more
        than tol. With ``branch=True`` the bounds meet up to ``2 * tol``, relatively.
    time_limit : float, default=None
        Seconds per class, after which the best found is returned, with its gap.
    {pos_label}
    n_jobs : int, default=None
        Number of jobs that run in parallel, one per class. None means 1 unless in a
        :class:`joblib.parallel_config` context; -1 means all processors.
    {verbose: the bounds after each round}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, sorted.
    alpha_ : ndarray of shape (n_learners,), or list of them, one per class
        Weights above zero, in descending order.
    learners_ : list, or list of lists
        The learners of these weights: :class:`Stump`, :class:`Ball` or :class:`FittedClassifier`.
        ``learners_[k].predict(bags.instances)`` gives the values of the k-th.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above: an upper bound of its minimum.
    lower_bound_ : float or ndarray of shape (n_classes,)
        Lower bound of the minimum: over all learners for stumps and balls, over those that were
        generated for a classifier.
    optimality_gap_ : float or ndarray of shape (n_classes,)
        ``objective_ - lower_bound_``.
    relaxation_value_ : float or ndarray of shape (n_classes,)
        Value of the linear program before branching.
    objective_history_, lower_bound_history_ : ndarray, or list of ndarray
        The bounds after each round: the first never rises.
    n_generated_ : int or ndarray of shape (n_classes,)
        Learners in the last linear program, with and without weight.
    n_reductions_, n_active_reductions_ : int or ndarray of shape (n_classes,)
        Reductions in the last linear program, and those with a dual variable above zero.
    n_active_margins_ : int or ndarray of shape (n_classes,)
        Dual variables above zero of all other margin constraints.
    n_nodes_ : int or ndarray of shape (n_classes,)
        Nodes of the search tree; 1 without branching.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the weights of stumps; absent for balls.
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of rounds.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether no learner and no reduction was left to add (with ``branch=True``: whether the
        bounds met); the gap may still be open.
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    TypeError
        For a learner that is no classifier or takes no weights.
    milearn.exceptions.SolverError
        When a linear program is not solved; the message names the status.

    Warns
    -----
    ConvergenceWarning
        When ``n_estimators``, ``max_nodes``, ``time_limit`` or a callback ended the search. There
        is no warning when the relaxation has all of its hundred reductions and more are violated:
        ``converged_`` is False then, and ``optimality_gap_`` shows what they may be worth.

    See Also
    --------
    LPBoost : The same program with labels for all instances.
    Stump, Ball, FittedClassifier : The weak learners.

    Notes
    -----
    What differs from Algorithm 1 of [1]_:

    * Copies of the weights are made only for instances that need them. The others of a bag share
      one disjunct, whose hull is known in closed form; the value of the linear program is the
      same. Constraints of single instances stay in it, as in [1]_.
    * In a large problem constraints of single instances that an interior solution leaves far from
      tight have no row until a solution violates them, which changes no value.
    * A reduction counts as violated when the slack that all instances of its bag share does not
      cover it; score (10) of [1]_ leaves slacks out.
    * Up to twenty learners and a hundred reductions are added at a time, and learners without
      weight and with a score below 1 are taken out again. They are scored between the dual
      solution and the best one that is feasible for all learners; with more than two hundred
      constraints, first at the iterates of an interior point method, as in :class:`LPBoost`.
    * [1]_ returns the weights of the relaxation. Here the witnesses that these name are fixed and
      the linear program that is left is solved, as long as that lowers the value of the problem.
      In a large problem the first witnesses are those of a solution inside the relaxation rather
      than in a corner of it.
    * Negative bags may have several instances, each with a constraint and a slack of its own.

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

    _problem = staticmethod(disjunctive_problem)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BoostedBags._parameter_constraints,
        "branch": ["boolean"],
        "max_nodes": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        estimator: Any = "stump",
        n_estimators: int = 1000,
        n_prototypes: int = 1000,
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
        self.branch = branch
        self.max_nodes = max_nodes
        self.tol = tol
        self.time_limit = time_limit
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DPBoost:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C of each bag; a weight of two equals a repetition of the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight)

    def _options(self) -> BoostingOptions:
        return BoostingOptions(
            tol=self.tol,
            n_estimators=self.n_estimators,
            branch=self.branch,
            max_nodes=self.max_nodes,
        )

    def _more_attributes(self, results: list[DPResult]) -> dict[str, Any]:
        bounds = attributes_of(results, "relaxation_value", "lower_bound_history", "n_nodes")
        rows = attributes_of(results, "n_reductions", "n_active_reductions", "n_active_margins")
        return bounds | rows | attributes_of(results, n_generated="n_learners")
