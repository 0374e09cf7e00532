"""LPBoost: a linear program over weak learners, supervised."""

from __future__ import annotations

from typing import Any

from .._compat import with_callbacks
from .._fit.threads import fit_context
from .._solvers.ensemble.column_generation import BoostingOptions
from .._solvers.ensemble.points import inherited_problem
from ._base import BoostedBags

__all__ = ["LPBoost"]


class LPBoost(BoostedBags):
    r"""Boosting by a linear program, on instances that inherit the label of their bag.

    The ensemble :math:`F(x) = \sum_k \alpha_k h_k(x)` of weak learners
    :math:`h_k(x) \in \{-1, 1\}` solves

    .. math::

        \min_{\alpha \ge 0} \; \sum_k \alpha_k
        + C \sum_i c_i \sum_j [1 - y_i F(x_{ij})]_+ ,

    where :math:`c_i` is the weight of a bag. Learners are generated: one is added while its score
    under the dual variables, :math:`\sum_{ij} u_{ij} y_i h(x_{ij})`, exceeds 1, and the program is
    solved again from the last basis. With stumps and with balls the best of all learners is found
    each time, so that the result is the optimum over all of them.

    On a plain matrix (bags of one instance) this is supervised LPBoost. On bags it ignores that
    instances of a positive bag may be negative: the naive counterpart of :class:`DPBoost`.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an instance's slack against the sum of the weights. Above zero.
    estimator : {"stump", "rbf"} or classifier, default="stump"
        Weak learners: thresholds on a feature; thresholds on the distance from a training
        instance, which are thresholded RBF features of any width; or a scikit-learn classifier
        that takes ``sample_weight``, fitted anew in each round.
    n_estimators : int, default=1000
        Maximum number of learners in the program at a time.
    n_prototypes : int, default=1000
        Maximum number of training instances that are centres for ``estimator="rbf"``; of more, a
        fixed pseudo-random choice is taken.
    tol : float, default=1e-4
        A learner with a score above 1 + tol is added. The optimum is no further below
        ``objective_`` than by this share of it.
    time_limit : float, default=None
        Seconds per class, after which the best found is returned.
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
        Value of the problem above.
    lower_bound_ : float or ndarray of shape (n_classes,)
        Bound of the problem: over all learners for stumps and balls, over those that were
        generated for a classifier.
    optimality_gap_ : float or ndarray of shape (n_classes,)
        ``objective_ - lower_bound_``.
    objective_history_ : ndarray, or list of ndarray
        Best value after each time that no learner was left to add.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the weights of stumps; absent for balls.
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of rounds.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether no learner was left to add.
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
        When ``n_estimators``, ``time_limit`` or a callback ended it.

    See Also
    --------
    DPBoost : Asks for one instance of a positive bag only.
    Stump, Ball, FittedClassifier : The weak learners.
    milearn.baselines.SingleInstance : Any scikit-learn estimator on inherited labels.

    Notes
    -----
    [1]_ adds one learner per round and stops by the same rule; here up to twenty are added, the
    best of each feature. The constant learners 1 and -1 belong to the stumps, in place of an
    intercept. Corners of the dual are poor guides to learners: with stumps and balls and more than
    two hundred instances, learners are first sought along the path of an interior point method
    [2]_, one Newton step between two searches, and the simplex method starts from where it ends.

    References
    ----------
    .. [1] A. Demiriz, K. P. Bennett, J. Shawe-Taylor. Linear Programming Boosting via Column
       Generation. Machine Learning 46, 2002.
    .. [2] J. Gondzio, P. Gonzalez-Brevis, P. Munari. New developments in the primal-dual column
       generation technique. European Journal of Operational Research 224, 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from milearn.ensemble import LPBoost
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LPBoost(C=0.1).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _problem = staticmethod(inherited_problem)

    def __init__(
        self,
        C: float = 1.0,
        *,
        estimator: Any = "stump",
        n_estimators: int = 1000,
        n_prototypes: int = 1000,
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
        self.tol = tol
        self.time_limit = time_limit
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LPBoost:
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
        return BoostingOptions(tol=self.tol, n_estimators=self.n_estimators)
