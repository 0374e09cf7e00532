"""MI-SVM for ordered classes: one function and all thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from .._bags import Bags
from .._bags.kinds import ordered_categories
from .._bags.segments import segment_argmax, segment_max
from .._compat import CallbackSupport, with_callbacks
from .._constraints import AUTO_OR_POSITIVE, Constraints
from .._fit.multi_start import drawn_rows
from .._fit.threads import fit_context
from .._fit.validation import STORED_FLOATS, TrainingLabels
from .._solvers.common.descent import PassSolution
from .._solvers.common.passes import instance_scores
from .._solvers.svm.losses import Hinge
from .._solvers.svm.mi_svm_rows import Start, solve_from, starts_of
from .._solvers.svm.objectives import MISVMProblem
from ..base import BagClassifier
from ._fit import Fit, Report
from ._functions import InstanceFunction, linear_expansion


class OrdinalMISVC(CallbackSupport, BagClassifier):
    r"""Support vector classification of bags into ordered classes (MI-SVM with all thresholds).

    Grades and stages are classes with an order. One linear function scores the instances, the score
    of a bag is its highest instance score, :math:`f(B_i) = \max_j \langle w, x_{ij} \rangle`, and
    thresholds :math:`b_0 \le \dots \le b_{K-2}` separate the classes :math:`0, \dots, K - 1`. The
    problem is

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i c_i \Bigl(
        \sum_{t < y_i} [1 - (f(B_i) - b_t)]_+ + \sum_{t \ge y_i} [1 + (f(B_i) - b_t)]_+ \Bigr) ,

    where :math:`c_i` is the weight of a bag. These are the all-thresholds constraints of ordinal
    regression [1]_ [2]_ on the bags of MI-SVM [3]_. One instance of a high class is enough for a
    bag of a high class, and a prediction costs more if it is more classes away. The
    :term:`CCCP` finds a stationary point, which depends on ``init``.

    Read more in the :ref:`User Guide <methods_svm>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    C : float, default=1.0
        Cost of a slack relative to the norm of w. Must be positive.
    categories : array-like of shape (n_classes,), default=None
        The classes from the lowest to the highest. By default, the order is that of numbers, of an
        ordered :class:`pandas.Categorical` or of an ``Enum`` of polars; other text has no order.
        :class:`~sklearn.ensemble.StackingClassifier`, :class:`~sklearn.ensemble.VotingClassifier`
        and cross-validated scores replace text by numbers in alphabetical order; pass these numbers
        there.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        Instance that represents each bag in the first step: the mean of the bag, a random instance,
        or a given row of ``X.instances``. "auto" compares the mean with the highest instances under
        a screened direction, see :class:`MISVC`, and keeps the lower objective.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float or "auto", default="auto"
        Relative decrease and duality gap at which to stop. "auto" is 1e-6; for rows with over two
        million numbers, 5e-4.
    max_iter : int, default=100
        Maximum number of steps.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    random_state : int, RandomState instance or None, default=None
        Determines random starts.
    n_jobs : int, default=None
        Number of parallel jobs over starts. None means 1 unless in a :obj:`joblib.parallel_config`
        context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    categories_ : ndarray of shape (n_classes,)
        The classes of the training bags in their order. Scorers of scikit-learn need a sorted
        ``classes_``.
    coef_ : ndarray of shape (1, n_features)
        Weights; only for the linear kernel.
    thresholds_ : ndarray of shape (n_classes - 1,)
        The thresholds, increasing.
    witnesses_ : ndarray of shape (n_bags,)
        Row of the highest instance of each training bag.
    objective_ : float
        Value of the problem above.
    objective_history_ : ndarray of shape (n_iter_,)
        The value after each step; it never increases.
    start_objectives_ : ndarray of shape (n_starts,)
        The value that each start reached.
    dual_gap_ : float
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether the procedure converged.
    n_passes_ : int
        Number of passes over the instances.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        In ``fit``, for fewer than two classes, text without an order, or a label that is not in
        ``categories``.
    milearn.exceptions.SolverError
        If a dual problem is not solved: scale the features.

    Warns
    -----
    UserWarning
        If all training bags have the same score.
    ConvergenceWarning
        If and only if ``converged_`` is False.

    See Also
    --------
    MISVC : Classes without an order, one-vs-rest.
    MISVR : Values of bags, whose rounding also predicts ordered classes.

    Notes
    -----
    Scale the features first. For a kernel, put explicit features before the estimator, such as
    ``InstanceTransformer(Nystroem())``. Instances may be a memory map or distributed.

    For three or more classes, the decision value of class k is :math:`\sum_{t < k} (f - b_t)`, in
    the order of ``classes_``; the class with the highest value is predicted. For two classes, the
    decision value is positive for ``classes_[1]``. :meth:`latent_function` returns :math:`f`.

    References
    ----------
    .. [1] A. Shashua, A. Levin. Ranking with large margin principle: two approaches. NIPS 2002.
    .. [2] W. Chu, S. S. Keerthi. Support vector ordinal regression. Neural Computation 19(3), 2007.
    .. [3] S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for Multiple-Instance
       Learning. NIPS 15, 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.datasets import make_affinity
    >>> from milearn.svm import OrdinalMISVC
    >>> X, values = make_affinity(n_bags=80, random_state=0)
    >>> grade = np.digitize(values, np.quantile(values, [0.25, 0.5, 0.75]))
    >>> model = OrdinalMISVC().fit(X[:60], grade[:60])
    >>> model.thresholds_.shape
    (3,)
    >>> bool(np.abs(model.predict(X[60:]) - grade[60:]).mean() < 1)
    True
    """

    _parameter_constraints = Constraints(categories=["array-like", None], tol=AUTO_OR_POSITIVE)
    _dtypes = STORED_FLOATS

    def __init__(
        self,
        C: float = 1.0,
        *,
        categories: Any = None,
        init: Any = "auto",
        n_init: int = 1,
        tol: float | str = "auto",
        max_iter: int = 100,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.categories = categories
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Classes whose order is not that of a direction cannot be separated.
        tags.classifier_tags.poor_score = True
        return tags

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OrdinalMISVC:
        """Fit on bags and their classes.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_fit(X)
        labels = TrainingLabels.of(self, y, bags, sample_weight)
        place = _ranks_of_classes(labels.classes, self.categories, ordered_categories(y))
        # The ranks of bags take the place of their signs.
        loss = Hinge(place[labels.codes], self.C * labels.weights)
        stored = {
            **noted,
            "classes_": labels.classes,
            "categories_": labels.classes[np.argsort(place)],
            "_place": place,
        }
        given = {"X": bags, "y": labels.all_labels, "sample_weight": sample_weight}
        fit = Fit(self, labels.used, labels.sample_weights, [loss], stored, **given)
        runs = fit.best(_starts, _solve)
        [result] = runs[0]
        expansion, attributes = linear_expansion(fit, result.w[None], np.zeros(1))
        shift = attributes.pop("intercept_")
        attributes["thresholds_"] = -shift - result.v
        attributes["n_passes_"] = result.n_passes
        attributes["_positive_sign"] = -1 if len(place) == 2 and place[0] == 1 else 1
        return fit.store(runs, InstanceFunction(expansion, np.zeros(1)), attributes)

    # -- scores --------------------------------------------------------------------------------

    def _latent(self, bags: Bags) -> np.ndarray:
        return instance_scores(bags.source(), self.coef_)[:, 0]

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        scores = self._latent(bags)
        if len(self.thresholds_) == 1:
            return self._positive_sign * (scores - self.thresholds_[0])
        excess = scores[:, None] - self.thresholds_
        values = np.column_stack([np.zeros(len(scores)), np.cumsum(excess, axis=1)])
        return values[:, self._place]

    def latent_function(self, X: Any) -> np.ndarray:
        """Score of each bag, which the thresholds divide into classes.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Highest score of the instances of each bag.
        """
        return self._of_bags(X, self._highest_latent)

    def instance_latent_function(self, X: Any) -> np.ndarray:
        """Score of each instance, in the order of ``X.instances``.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags whose instances to score.

        Returns
        -------
        ndarray of shape (n_instances,)
            Scores, which have the thresholds of the bags.
        """
        return self._of_bags(X, self._latent)

    def witness(self, X: Any) -> np.ndarray:
        """Row of the instance that determines the score of each bag, the highest one.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Positions in ``X.instances``.
        """
        return self._of_bags(X, self._highest_rows, gives_rows=True)

    def _highest_latent(self, bags: Bags) -> np.ndarray:
        return segment_max(self._latent(bags), bags.offsets)

    def _highest_rows(self, bags: Bags) -> np.ndarray:
        return segment_argmax(self._latent(bags), bags.offsets)


def _problem(fit: Fit, loss: Hinge) -> MISVMProblem:
    return MISVMProblem(fit.source(), loss.signs, loss.weights)


def _starts(fit: Fit, loss: Hinge) -> list[Start]:
    """First witnesses of the used bags above a threshold; None for their means."""
    init, upper = fit.estimator.init, loss.signs > 0
    drawn = [drawn_rows(fit.offsets, fit.rng)[upper] for _ in range(fit.estimator.n_init)]
    if not isinstance(init, str):
        return [fit.given_witnesses(init)[upper], *drawn[1:]]
    if init == "random":
        return [*drawn]
    return [*(starts_of(_problem(fit, loss)) if init == "auto" else [None]), *drawn[1:]]


def _solve(fit: Fit, loss: Hinge, start: Start, on_iteration: Report) -> PassSolution:
    return solve_from(_problem(fit, loss), start, fit.options(on_iteration))


def _ranks_of_classes(
    classes: np.ndarray, categories: Any, of_labels: np.ndarray | None = None
) -> np.ndarray:
    """The rank of each class in the order of the categories, or else that of the labels."""
    if categories is None:
        categories = of_labels
    elif of_labels is not None:
        first, second = (_ranks_of_classes(classes, each) for each in (categories, of_labels))
        if not np.array_equal(first, second):
            raise ValueError(
                f"categories={list(categories)} and the categories of y, {of_labels.tolist()}, "
                "have different orders: pass only one of them."
            )
    if categories is None:
        names = classes.tolist()
        if any(isinstance(label, str) for label in names):
            raise ValueError(
                f"The classes {names} are text, which has no order: pass them by categories= from "
                "the lowest to the highest, or y as numbers or as an ordered pandas Categorical."
            )
        return np.arange(len(names))
    listed = column_or_1d(categories).tolist()
    if len(set(listed)) < len(listed):
        raise ValueError("categories contains a class twice.")
    unknown = [label for label in classes.tolist() if label not in listed]
    if unknown:
        raise ValueError(f"y contains the class {unknown[0]!r}, which is not in categories.")
    return np.argsort(np.argsort([listed.index(label) for label in classes.tolist()]))
