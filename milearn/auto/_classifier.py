"""MIClassifier: the classifier of bags that needs no settings."""

from __future__ import annotations

import time
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from .._bags.remote import over_blocks
from .._compat import Interval, StrOptions, with_callbacks
from .._fit.threads import fit_context
from .._fit.validation import (
    unknown_label,
    validate_labels,
    validate_sample_weight,
)
from ..base import BagClassifier
from ..model_selection._inner import class_folds, merged_classes
from ._candidates import CandidateName, in_parts
from ._judgement import best_candidate, probabilities
from ._plan import prepared
from ._run import INSTANCE, LINEAR, LOGISTIC, SHARE, TREES, Automatic, Search


class MIClassifier(Automatic, BagClassifier):
    """Classifier of bags that does not require any settings.

    These models are fitted and compared:

    * "average": a support vector machine on an average of kernels between whole bags
      (:class:`~milearn.svm.BagSVC`), for data where the class depends on the whole bag; for text,
      there are two such models, "mean" and "minmax_laplacian", with one kernel each;
    * "instance": MI-SVM (:class:`~milearn.svm.MISVC`), for data where the class depends on one
      instance, with an RBF kernel, or linear for text;
    * "linear": MI-SVM with a linear kernel, for data where rare instances decide; not for text;
    * "share": a linear score of instances whose mean over the highest scores of a bag decides
      (:class:`~milearn.discriminant_analysis.ShareDiscriminant`), for data where one class has more
      instances of some kind; not for text;
    * "trees": extremely randomised trees on the mean, minimum, maximum and standard deviation of
      each feature;
    * "logistic": logistic regression on the means of bags, for text.

    All models are scored on inner folds of the training bags by the sum of ``scoring`` and AUC. The
    best model and those that are worse by at most two standard errors are "combined" by a weighted
    mean of their log odds; the weight of a model that is worse by d standard errors is exp(-d). The
    models are fitted on all training bags. A model that is worse by more than two standard errors
    on its first folds is not scored on the others. The out-of-fold scores are also used to
    calibrate the probabilities and to set the threshold. Instances are scaled internally, based on
    the training bags only. You do not have to preprocess the data or to set any parameter.

    With two classes, "instance" and "linear" are scored with each class as the one of which a
    single instance suffices, and the better orientation is used, see ``pos_label_``.

    Parameters
    ----------
    scoring : {"accuracy", "balanced_accuracy", "roc_auc"}, default="accuracy"
        Measure that is added to the AUC in the comparison. It also determines the threshold: with
        "balanced_accuracy" all classes have the same weight, otherwise the most likely class is
        predicted. The probabilities do not depend on it.
    time_limit : float, default=None
        Wall time in seconds that the fit should take, the last fit on all bags included. Each model
        is scored on one inner fold, cheap ones first, before any is scored on a second one. The
        time of a model is first measured on samples of many bags. Steps that would exceed the limit
        are skipped and listed in ``skipped_``: scalings, inner folds and models. The first model is
        always fitted. Without a limit, steps are only skipped because of the size of the data.
    pos_label : label, default=None
        The positive class of two for the models "instance" and "linear" and for ``witness``: one
        instance of this class makes a bag positive. By default, both classes are tried.
    neg_label : label, default=None
        The class without instances that decide, such as "normal": a bag is of this class unless one
        of its instances is of another class. Of two classes, the other one is ``pos_label``. With
        three or more classes, there is one problem per class (one-vs-rest), and by default "linear"
        and "instance" also try each class as ``neg_label``.
    {random_state: the inner folds, and the landmarks if there are many bags}
    {n_jobs: scalings and inner folds}
    {verbose: a line after each step}

    Attributes
    ----------
    {classes_}
    paradigm_ : str
        The selected model, by its name above, or "combined" for more than one.
    pos_label_ : label or None
        The class of which one instance suffices: ``pos_label``, or that of the best of the models
        "instance" and "linear", or ``classes_[1]`` if neither was scored. It is the class of
        ``witness``. None with three or more classes.
    neg_label_ : label or None
        The class without instances that decide: ``neg_label``, or that of the best of the models
        "instance" and "linear". None if three or more classes all have such instances.
    scores_ : dict of dict
        Out-of-fold "accuracy", "balanced_accuracy" and "roc_auc" of each model, in its better
        orientation, and of the combination if there is more than one model in it; empty if a class
        has too few bags for inner folds. Models that are clearly worse are measured on fewer folds.
        Those of the selected model are optimistic, because it was selected by them.
    skipped_ : list of str
        Steps that were skipped because of the size of the data, ``time_limit`` or a callback.
    n_bags_ : int
        Number of training bags after merging equal bags with equal labels.
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    MemoryError
        If kernel matrices do not fit into the available memory. This is checked before the fit.
    ValueError
        If bags, labels or parameters are invalid.

    Warns
    -----
    UserWarning
        If ``time_limit`` leaves out a model. If inner folds are not possible because of ``groups``,
        or because a class has a single bag among 40 or more bags; models are then neither compared
        nor calibrated.

    See Also
    --------
    MIRegressor : The corresponding regressor.
    milearn.svm.BagSVC : The model "average", with settings.
    milearn.svm.MISVC : The models "instance" and "linear", with settings.
    milearn.discriminant_analysis.ShareDiscriminant : The model "share".
    milearn.preprocessing.BagStatistics : The features of "trees".

    Notes
    -----
    The average contains seven kernels over four clipped scalings of the instances, see
    :class:`~milearn.svm.BagSVC`, with C = 10. The other models use z-scores that are clipped at 3.
    "instance" has an RBF kernel and C = 10. "linear" has C = 10 divided by the mean squared norm of
    the instances, so its meaning does not depend on the number of features. "trees" are 100 trees
    with at least two bags per leaf; the log odds are those of their mean vote. "share" is scored on
    all inner folds at once; its share, pooling and orientation for a fold are those that are best
    on the other folds. Data are treated as
    text if at most one entry in twenty is not zero. The models for text use cosines between the
    means and between the extremes of bags, and a linear MISVC on rows of unit length, each with C =
    1; "logistic" with C = 10 and "trees" use statistics of unit length. Kernels do not depend on
    labels, so all inner folds use submatrices of one matrix.

    There are five inner folds, or three for fewer than 40 bags, and fewer if a class has fewer
    bags. They depend on ``random_state`` and on the bags, but not on their order. Equal bags with
    equal labels are merged first, so weights are equivalent to duplicates, and duplicates are in
    the same fold. If a class has only one bag, the kernels of bags are used without a comparison.
    Orientations with the same sum are compared by their likelihood. The result does not depend on
    the names of the classes.

    For large data, steps are replaced by cheaper ones, which are listed in ``skipped_``. If
    comparing all pairs of instances would take minutes, only kernels of means and extremes are
    used. Above 3,000 bags, 500 of them are landmarks (Nystroem's approximation). Above 2,500
    instances, 150 of them are landmarks of "instance", which has only the orientation of "linear",
    and above 220,000 there is no such model, except for text. Inner folds are scored until 400 bags
    have been tested. More than 2**25 numbers in float16, in float32 or in a memory map are not
    converted to float64 in memory: instances are scaled when they are read, and models that need
    all of them are left out with a warning. Bags of a Dask cluster
    (:class:`~milearn.distributed.DistributedBags`) have the models "linear", "trees" and "share"
    only, and text "logistic", "instance" and "trees". Their scaled instances are kept on the
    workers during the fit.

    ``decision_function`` is the log odds of the calibrated probability minus that of the threshold.
    With three or more classes, each class is calibrated against the rest, and the probabilities are
    divided by their sum.

    With three or more classes, "linear" and "instance" score class k by the highest score of an
    instance, except for ``neg_label_``, whose score is minus the highest score for any other class.
    "instance" has the ``neg_label_`` that is best for "linear".

    References
    ----------
    J. C. Platt. Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized
    Likelihood Methods. Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> from milearn import MIClassifier
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=60, random_state=0)
    >>> model = MIClassifier(random_state=0).fit(bags[:40], y[:40])
    >>> sorted(model.scores_)
    ['average', 'combined', 'instance', 'linear', 'share', 'trees']
    >>> model.predict_proba(bags[40:]).shape
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
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        folds = class_folds(merged, codes, rng)
        task = self._start_task(None, X=bags, y=labels, sample_weight=sample_weight)
        n_columns = 1 if len(classes) == 2 else len(classes)
        run = Search(self, task, merged, codes, n_columns, seed, folds, start)
        judged = run.judged(self._candidates(run, given))
        assumed = best_candidate(judged, (LINEAR, INSTANCE)) or given
        negative = assumed.without
        if len(classes) == 2:
            positive = positive if assumed.positive is None else assumed.positive
            negative = 1 - positive
        fitted = run.fitted(judged)
        self._replace_fitted(
            {
                **noted,
                **fitted,
                "classes_": classes,
                "pos_label_": None if positive < 0 else classes[positive],
                "neg_label_": None if negative is None else classes[negative],
                "_positive_sign": -1 if positive == 0 else 1,
                "_bag_score_is_max": fitted["paradigm_"] in (INSTANCE, LINEAR)
                and (len(classes) == 2 or negative is None),
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
            raise unknown_label(f"neg_label={self.neg_label!r} is", self.neg_label, classes)
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
        if size.text:
            return [CandidateName(LOGISTIC)] + kernels + trees + instance
        return linear + trees + [CandidateName(SHARE)] + kernels + instance

    # -- prediction ---------------------------------------------------------------------------

    @over_blocks()
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
        bags = self._checked(X)
        scores = in_parts(self._function.bag_scores, bags)
        return probabilities(self._calibration.calibrated(scores))

    def _stated(self, scores: np.ndarray) -> np.ndarray:
        decisions = self._calibration.decisions(scores)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions
