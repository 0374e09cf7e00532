"""MIClassifier: the classifier of bags that needs no settings."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.distinct import merge_bags
from .._compat import CallbackSupport, Interval, StrOptions, with_callbacks
from .._fit.threads import fit_context
from .._fit.validation import encode_classes, validate_labels, validate_sample_weight
from ..base import BagClassifier
from ..svm import MISVC
from ._calibration import Calibration, probabilities
from ._candidates import Candidate, ScoreFunction, Training
from ._folds import checked_groups, class_folds
from ._judgement import chosen_way, function_of, judge_all
from ._run import INSTANCE, Run

__all__ = ["MIClassifier"]


class MIClassifier(CallbackSupport, BagClassifier):
    """Classifier of bags that needs no settings.

    Two kinds of ways to learn are fitted and compared:

    * "average": a support vector machine on an average of kernels between whole bags
      (:class:`~milearn.svm.BagSVC`), for data where all of a bag counts; of texts, "mean" and
      "minmax_laplacian", one on each of two kernels;
    * "instance": MI-SVM (:class:`~milearn.svm.MISVC`), for data where one instance decides.

    Inner folds of the training bags give out-of-fold scores of all; the way with the highest sum of
    ``scoring`` and AUC is fitted on all training bags. Of texts the ways are "combined" by the mean
    of their log odds, unless one alone is better by more than a standard error. The out-of-fold
    scores also calibrate the probabilities and set the threshold. Instances are scaled inside, by
    what the training bags alone say: nothing has to be done before, and no parameter has to be set.

    Parameters
    ----------
    scoring : {"accuracy", "balanced_accuracy", "roc_auc"}, default="accuracy"
        Measure that is added to the AUC in the comparison. It also decides the threshold:
        with "balanced_accuracy" classes weigh the same however many bags they have, else the
        likeliest class is predicted. The probabilities are the same in all three cases.
    time_limit : float, default=None
        Seconds of wall time that the fit should take. Cheap steps come first, and what would
        exceed the budget is left out and listed in ``skipped_``: scalings, inner folds, the way
        "instance". The smallest possible fit is made in any case. Without a budget nothing is left
        out but by size.
    pos_label : label, default=None
        The class of which one instance makes a bag, for the way "instance" and ``witness``;
        ``classes_[1]`` when None. With three or more classes each is positive in turn.
    {random_state: the inner folds, and the landmarks where bags are many}
    {n_jobs: scalings and inner folds}
    {verbose: a line after each step}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    paradigm_ : {"average", "instance", "mean", "minmax_laplacian", "combined"}
        The way that was chosen.
    scores_ : dict of dict
        Out-of-fold "accuracy", "balanced_accuracy" and "roc_auc" of each way, and of the
        combination where there is one; empty where a class has too few bags for inner folds.
    skipped_ : list of str
        What was left out because of the size of the data, of ``time_limit`` or of a callback.
    n_bags_ : int
        Number of bags that were learnt from; equal bags with equal labels count once.
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    MemoryError
        Before the fit, where kernel matrices do not fit into the available memory.
    ValueError
        For bad bags, labels or parameters.

    Warns
    -----
    UserWarning
        Where ``groups``, or a class with a single bag among 40 or more, leave no inner folds:
        nothing is then compared or calibrated.

    See Also
    --------
    MIRegressor : The same for regression.
    milearn.svm.BagSVC : The way "average", with settings.
    milearn.svm.MISVC : The way "instance", with settings.

    Notes
    -----
    The average is that of seven kernels over four clipped scalings of the instances, see
    :class:`~milearn.svm.BagSVC`, with C = 10; MISVC has an RBF kernel over z-scores that are
    clipped at 3, and C = 10. Instances of which at most one entry in twenty is not zero count as
    texts: cosines between the bags' means and between their extremes, and a linear MISVC over rows
    of unit length, each with C = 1. Kernels never see a label, so that all inner folds are parts of
    one matrix.

    There are five inner folds, three below 40 bags, and fewer where a class has fewer bags. They
    depend on ``random_state`` and on the bags, not on their order, and equal bags with equal labels
    are merged first: weights and repetitions are the same, and no bag is on both sides of a fold.
    With one bag of a class the first way is taken as it is.

    Large data: where comparisons between all pairs of instances would take minutes, kernels of
    means and extremes are left; above 3,000 bags 500 of them are landmarks (Nystroem's
    approximation); above 8,000 instances MISVC is linear, and takes passes over the instances where
    these are quicker; from 2,000 bags on one inner fold is scored. Each is listed in ``skipped_``.

    ``decision_function`` is the log odds of the calibrated probability less those of the threshold.
    Of bags with three or more classes each class is calibrated against the rest, and the
    probabilities are divided by their sum.

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
    >>> model.paradigm_ in ("average", "instance")
    True
    >>> model.predict_proba(bags[40:]).shape
    (20, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "scoring": [StrOptions({"accuracy", "balanced_accuracy", "roc_auc"})],
        "time_limit": [Interval(Real, 0.0, None, closed="neither"), None],
        "pos_label": "no_validation",
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    _function: ScoreFunction
    _calibration: Calibration

    def __init__(
        self,
        *,
        scoring: str = "accuracy",
        time_limit: float | None = None,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.scoring = scoring
        self.time_limit = time_limit
        self.pos_label = pos_label
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
            Factor on C by bag, and weight in the comparison; a weight of two equals a bag that is
            there twice.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group, such as those of a patient, stay in one inner fold.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_fit(X)
        labels = validate_labels(self, y, bags)
        weights = validate_sample_weight(sample_weight, bags)
        classes, codes, positive = encode_classes(labels[weights > 0], self.pos_label)
        all_codes = np.zeros(len(bags), dtype=np.intp)
        all_codes[weights > 0] = codes if positive != 0 else 1 - codes
        merged = merge_bags(bags, all_codes, weights, checked_groups(groups, bags))
        codes = all_codes[merged.positions]
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        folds = class_folds(merged, codes, rng)
        task = self._start_task(None, X=bags, y=labels, sample_weight=sample_weight)
        run = Run(self, task, merged, codes, 1 if len(classes) == 2 else len(classes), seed)
        candidates: dict[str, Candidate] = {
            name: run.bag_candidate(kernels) for name, kernels in run.size.bag_ways.items()
        }
        if folds:
            candidates[INSTANCE] = run.instance_candidate(MISVC)
        folds = folds[: run.size.n_scored_folds]
        scored = run.fold_scores(candidates, folds)
        judged = judge_all(scored, folds, run.training, self.scoring, combine=run.size.text)
        paradigm = chosen_way(judged) if judged else next(iter(candidates))
        function = function_of(paradigm, judged, lambda name: candidates[name].whole())
        measures = {name: each.measures for name, each in judged.items()}
        calibration = judged[paradigm].calibration if judged else _as_they_are(run.training)
        self._replace_fitted(
            {
                **noted,
                **run.fitted(paradigm, measures, function),
                "classes_": classes,
                "_calibration": calibration,
                "_positive_sign": -1 if positive == 0 else 1,
                "_bag_score_is_max": paradigm == INSTANCE,
            }
        )
        task.end()
        return self

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
        bags = self._checked(X)
        scores = self._function.bag_scores(bags)
        found = probabilities(self._calibration.log_odds(scores))
        return found[:, ::-1] if self._positive_sign < 0 else found

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return self._signed(self._function.bag_scores(bags))

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._signed(self._function.instance_scores(bags))

    def _signed(self, scores: np.ndarray) -> np.ndarray:
        decisions = self._calibration.decisions(scores)
        return self._positive_sign * decisions[:, 0] if decisions.shape[1] == 1 else decisions


def _as_they_are(training: Training) -> Calibration:
    ones = np.ones(training.n_columns)
    return Calibration(ones, 0.0 * ones, 0.0 * ones)
