"""LPBoost: a linear program over weak learners, supervised."""

from __future__ import annotations

from typing import Any

from .._constraints import Constraints
from ._base import BoostedBags


class LPBoost(BoostedBags):
    r"""Boosting by a linear program, on instances that inherit the label of their bag.

    The ensemble :math:`F(x) = \sum_k \alpha_k h_k(x)` of weak learners :math:`h_k(x) \in \{-1, 1\}`
    solves [1]_

    .. math::

        \min_{\alpha \ge 0} \; \sum_k \alpha_k
        + C \sum_i c_i \sum_j [1 - y_i F(x_{ij})]_+ ,

    where :math:`c_i` is the weight of a bag. Learners are added by column generation. With stumps
    and balls, the result is the optimum over all learners.

    On a plain matrix this is supervised LPBoost. On bags it ignores that instances of a positive
    bag can be negative.

    Read more in the :ref:`User Guide <methods_trees>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=1.0
        Cost of an instance's slack relative to the sum of the weights. Must be positive.
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
    tol : float, default=1e-4
        Learners with a score above 1 + tol are added. The relative distance of ``objective_`` from
        the optimum is at most tol.
    time_limit : float, default=None
        Time limit per class in seconds. The best solution so far is returned.
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
    objective_history_ : ndarray of shape (n_iter_,), or list of ndarray
        Value when there were no more learners to add.
    feature_importances_ : ndarray of shape (n_features,)
        Fraction of the weights of stumps that belongs to each feature; not set for balls.
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each training bag.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of rounds.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether there were no more learners to add.
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
        If ``n_estimators``, ``time_limit``, a callback, rounding or the size of the program ended
        the search.

    See Also
    --------
    DPBoost : Requires only one positive instance in each positive bag.
    Stump, Ball, FittedClassifier : The weak learners.
    milearn.baselines.SingleInstance : Any scikit-learn estimator on inherited labels.

    Notes
    -----
    Learners are generated at the iterates of an interior point method [2]_. With more than two
    million coefficients (instances times learners) the number of its steps is limited.

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

    _inherited = True
    _parameter_constraints = Constraints()

    def __init__(
        self,
        C: float = 1.0,
        *,
        estimator: Any = "stump",
        n_estimators: int | str = "auto",
        n_prototypes: int = 1000,
        max_bins: int | str | None = "auto",
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
        self.tol = tol
        self.time_limit = time_limit
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.verbose = verbose
