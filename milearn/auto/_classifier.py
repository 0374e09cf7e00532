"""MIClassifier: the classifier of bags that needs no settings."""

from __future__ import annotations

import time
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from .._bags import Bags
from .._compat import Interval, StrOptions, with_callbacks
from .._fit.threads import fit_context
from .._fit.validation import (
    unknown_label,
    validate_labels,
    validate_sample_weight,
)
from ..base import BagClassifier
from ..model_selection._inner import merged_classes
from ._candidates import CandidateName, in_parts
from ._judgement import probabilities
from ._plan import prepared
from ._run import (
    INSTANCE,
    LINEAR,
    LOGISTIC,
    LOGISTIC_STATISTICS,
    SHARE,
    TREES,
    Automatic,
    Search,
)


class MIClassifier(Automatic, BagClassifier):
    r"""Bag classifier that works without tuning.

    It combines these candidates, on scaled instances:

    * "logistic": logistic regression on the means of bags;
    * "logistic_statistics": the same on mean, minimum, maximum and deviation; not for text;
    * "trees": extremely randomised trees on these statistics;
    * "average": a support vector machine on an average of kernels between bags
      (:class:`~milearn.svm.BagSVC`); for text, "mean" and "minmax_laplacian" have one each;
    * "linear": :class:`~milearn.svm.MISVC` with a linear kernel; not for text;
    * "share": :class:`~milearn.discriminant_analysis.ShareDiscriminant`; not for text;
    * "instance": :class:`~milearn.svm.MISVC` with an RBF kernel, or linear for text.

    Inner folds judge and calibrate them. Convex candidates are then fitted on all bags, the others
    are weighted means of their fits on folds, or parts of the bags. A logistic regression on the
    calibrated scores of the folds combines them. Its coefficients are not negative, and shrunk to
    equal ones.

    Read more in the :ref:`User Guide <guide_choose>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    scoring : {"accuracy", "balanced_accuracy", "roc_auc"}, default="accuracy"
        Measure that is added to the AUC in the comparison. It also sets the threshold: with
        "balanced_accuracy" all classes have the same weight, otherwise the most likely class is
        predicted.
    time_limit : float, default=None
        Seconds after which no further candidate is started.
    pos_label : label, default=None
        The class of which one instance decides in "instance" and "linear", and that of ``witness``.
        By default, both of two are tried, and ``witness`` is of ``classes_[1]``.
    neg_label : label, default=None
        The class without deciding instances, such as "normal". By default, each of three or more
        classes is tried.
    random_state : int, RandomState instance or None, default=None
        Determines the inner folds, and the landmarks if there are many bags.
    n_jobs : int, default=None
        Number of parallel jobs over scalings and inner folds. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print a line after each step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    paradigm_ : str
        "combined", or the name of the only model whose coefficient is not zero.
    deciding_class_ : label or None
        The class of which one instance decides: ``pos_label``, or the better one of two. None if
        neither "linear" nor "instance" predicts.
    neg_label_ : label or None
        The class without deciding instances, or None.
    scores_ : dict of dict
        Out-of-fold "accuracy", "balanced_accuracy" and "roc_auc" of each model, and of the
        combination, which is optimistic.
    skipped_ : list of str
        Steps that were skipped because of the size of the data, ``time_limit`` or a callback.
    n_bags_ : int
        Number of training bags after merging equal bags with equal labels.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    MemoryError
        If kernel matrices do not fit into the memory.
    ValueError
        If bags, labels or parameters are invalid.

    Warns
    -----
    UserWarning
        If ``time_limit`` leaves out a model, or inner folds are not possible.

    See Also
    --------
    MIRegressor : The corresponding regressor.
    milearn.svm.BagSVC : The model "average".
    milearn.svm.MISVC : The models "instance" and "linear".
    milearn.discriminant_analysis.ShareDiscriminant : The model "share".

    Notes
    -----
    There are five inner folds, or three for fewer than 40 bags, and one of 2,000 bags or more is
    scored. Folds depend on the units and the order of the features. A candidate that is worse than
    the best one by two standard errors on the first folds is not combined. In a mean of folds, a
    fit has the weight :math:`1 - \exp(-(n - 1) r^2 / 2)` by the rank correlation r of labels and
    scores of its n unseen bags.

    The regression of m candidates has the penalty :math:`2 |v - 1/m|^2` and :math:`v \ge 0`; each
    of several classes has one. C of "logistic" has the highest likelihood
    on the other folds, and is 10 for text. ``decision_function`` is log odds minus those of the
    threshold.

    Equal bags with equal labels are merged, so a weight of 2 is equivalent to duplicating the bag.
    In texts at most one entry in twenty is not zero.

    Large data have cheaper steps, which :ref:`guide_sizes` lists. Bags of Dask have no kernels.

    References
    ----------
    J. C. Platt. Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized
    Likelihood Methods. Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> from milearn import MIClassifier
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=50, n_features=4, bag_size=4, random_state=0)
    >>> model = MIClassifier(random_state=0).fit(bags[:30], y[:30])
    >>> list(model.scores_)[:4]
    ['logistic', 'logistic_statistics', 'trees', 'average']
    >>> list(model.scores_)[4:]
    ['linear', 'share', 'instance', 'combined']
    >>> model.predict_proba(bags[30:]).shape
    (20, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "scoring": [StrOptions({"accuracy", "balanced_accuracy", "roc_auc"})],
        "time_limit": [Interval(Real, 0.0, None, closed="neither"), None],
        "pos_label": "no_validation",
        "neg_label": "no_validation",
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    _treats_classes_alike = True

    def __init__(
        self,
        *,
        scoring: str = "accuracy",
        time_limit: float | None = None,
        pos_label: Any = None,
        neg_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.scoring = scoring
        self.time_limit = time_limit
        self.pos_label = pos_label
        self.neg_label = neg_label
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MIClassifier:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C for each bag, and weight in the comparison. A weight of two is equivalent
            to duplicating the bag.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group, such as those of a patient, stay in one inner fold.

        Returns
        -------
        self
            The fitted estimator.
        """
        start = time.perf_counter()
        bags, noted = self._validate_fit(X)
        bags = prepared(bags, self._size_limits)
        labels = validate_labels(self, y, bags)
        weights = validate_sample_weight(sample_weight, bags)
        merged, codes, classes, positive = merged_classes(
            bags, labels, weights, groups, self.pos_label
        )
        given = self._given_orientation(classes, positive)
        task = self._start_task(None, X=bags, y=labels, sample_weight=sample_weight)
        n_columns = 1 if len(classes) == 2 else len(classes)
        run = Search(self, task, merged, codes, n_columns, start)
        attributes, used = run.fitted(run.judged(self._candidates(run, given)))
        named = [each for each in used if each.candidate.name in (LINEAR, INSTANCE)]
        assumed = max(named, key=lambda each: each.key).candidate if named else given
        deciding, negative = assumed.positive, assumed.without
        if deciding is not None:
            negative = 1 - deciding
            run._say(f"one instance of class {classes[deciding]} decides in models of the highest")
        self._replace_fitted(
            {
                **noted,
                **attributes,
                "classes_": classes,
                "deciding_class_": None if deciding is None else classes[deciding],
                "neg_label_": None if negative is None else classes[negative],
                # Scores are those of the user's class, not of the class that fits better.
                "_positive_sign": -1 if given.positive == 0 else 1,
            }
        )
        task.end()
        return self

    def _given_orientation(self, classes: np.ndarray, positive: int) -> CandidateName:
        """What ``pos_label`` and ``neg_label`` say of the classes."""
        if self.neg_label is None:
            return CandidateName("", positive if self.pos_label is not None else None)
        hits = np.flatnonzero(classes == self.neg_label)
        if len(hits) == 0:
            raise unknown_label(f"neg_label={self.neg_label!r} is", classes)
        if len(classes) > 2:
            return CandidateName("", None, int(hits[0]))
        if self.pos_label is not None and positive == hits[0]:
            raise ValueError(
                f"pos_label and neg_label are both {self.pos_label!r}: pass one of them, or "
                "different labels."
            )
        return CandidateName("", 1 - int(hits[0]))

    def _candidates(self, run: Search, given: CandidateName) -> list[CandidateName]:
        """The candidates, cheap ones first; one without inner folds."""
        size, n_columns = run.size, run.data.n_columns
        if n_columns > 1:
            codes = (None, *range(n_columns)) if given.without is None else (given.without,)
            assumed = [CandidateName("", None, code) for code in codes]
        else:
            both = (1, 0) if given.positive is None else (given.positive,)
            assumed = [CandidateName("", code) for code in both]
        kernels = [CandidateName(name) for name in size.bag_models]
        linear = [replace(each, name=LINEAR) for each in assumed]
        instance = [replace(each, name=INSTANCE) for each in assumed if size.instance_kernel]
        if not run.folds:
            return (kernels or instance or linear)[:1]
        trees = [CandidateName(TREES)]
        logistic = [CandidateName(LOGISTIC)]
        if size.text:
            return logistic + kernels + trees + instance
        statistics = [CandidateName(LOGISTIC_STATISTICS)]
        # The kernel follows the linear model, which tells its orientation.
        share = [CandidateName(SHARE)]
        return logistic + statistics + trees + kernels + linear + share + instance

    # -- prediction ---------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes of each bag.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Columns in the order of ``classes_``; rows sum to 1.
        """
        return self._of_bags(X, self._probabilities)

    def _probabilities(self, bags: Bags) -> np.ndarray:
        scores = in_parts(self._function.bag_scores, bags)
        return probabilities(scores)

    def _stated(self, scores: np.ndarray) -> np.ndarray:
        decisions = scores - self._shift
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions
