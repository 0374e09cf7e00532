"""MIClassifier: the classifier of bags that needs no settings."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from ..base import BagClassifier
from ..svm import MISVC
from ..svm._distinct import merge_bags
from ..utils._sklearn import CallbackSupport, Interval, StrOptions, fit_context, with_callbacks
from ..utils.validation import encode_classes, validate_labels, validate_sample_weight
from ._calibration import Calibration, calibrate, class_measures, probabilities
from ._candidates import ScoreFunction, Training
from ._folds import class_folds
from ._plan import size_plan
from ._run import AVERAGE, INSTANCE, Progress, Scored, bag_candidate, instance_candidate, score

__all__ = ["MIClassifier"]


class MIClassifier(CallbackSupport, BagClassifier):
    """Placeholder."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "scoring": [StrOptions({"accuracy", "balanced_accuracy", "roc_auc"})],
        "time_budget": [Interval(Real, 0.0, None, closed="neither"), None],
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
        time_budget: float | None = None,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.scoring = scoring
        self.time_budget = time_budget
        self.pos_label = pos_label
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MIClassifier:
        """Fit on bags and their labels."""
        bags, noted = self._validate_fit(X)
        labels = validate_labels(self, y, bags)
        weights = validate_sample_weight(sample_weight, bags)
        classes, codes, positive = encode_classes(labels[weights > 0], self.pos_label)
        all_codes = np.zeros(len(bags), dtype=np.intp)
        all_codes[weights > 0] = codes if positive != 0 else 1 - codes
        merged = merge_bags(bags, all_codes, weights, groups)
        codes = all_codes[merged.positions]
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        folds = class_folds(merged, codes, merged.bags.sizes, rng)
        size = size_plan(merged.bags)
        scored_folds = folds[: size.n_scored_folds]
        training = Training(
            codes, 1 if len(classes) == 2 else len(classes), False, merged.weights, size.cost
        )
        task = self._start_task(None, X=bags, y=labels, sample_weight=sample_weight)
        progress = Progress(type(self).__name__, task, self.time_budget, bool(self.verbose))
        progress.skipped += size.notes
        average = bag_candidate(merged, training, size, progress, self.n_jobs, seed)
        scored = {AVERAGE: score(AVERAGE, average, scored_folds, progress, self.n_jobs, True)}
        if folds:
            model = MISVC(C=size.cost, kernel=size.instance_kernel, random_state=seed)
            single = instance_candidate(merged, training, size, model)
            scored[INSTANCE] = score(INSTANCE, single, scored_folds, progress, self.n_jobs, False)
        judged = self._judged(scored, scored_folds, training)
        paradigm = max(judged, key=lambda name: judged[name][0]) if judged else AVERAGE
        function = scored[paradigm].candidate.whole()
        progress.step(f"candidate {paradigm!r} fitted")
        calibration = judged[paradigm][2] if judged else _as_they_are(training)
        self._replace_fitted(
            {
                **noted,
                "classes_": classes,
                "paradigm_": paradigm,
                "scores_": {name: measures for name, (_, measures, _) in judged.items()},
                "skipped_": progress.skipped,
                "n_bags_": len(merged.bags),
                "_function": function,
                "_calibration": calibration,
                "_positive_sign": -1 if positive == 0 else 1,
                "_bag_score_is_max": paradigm == INSTANCE,
            }
        )
        task.end()
        return self

    def _judged(self, scored: dict[str, Scored | None], folds: Any, training: Training) -> dict:
        tried = {name: each for name, each in scored.items() if each is not None and each.scores}
        if not tried:
            return {}
        n_common = min(len(each.scores) for each in tried.values())
        balanced = self.scoring == "balanced_accuracy"
        judged = {}
        for name, each in tried.items():
            rows = np.concatenate([test for _, test in folds[: len(each.scores)]])
            values = np.concatenate(each.scores)
            codes, weights = training.targets[rows], training.weights[rows]
            calibration = calibrate(values, codes, weights, balanced)
            n = sum(len(part) for part in each.scores[:n_common])
            decisions = calibration.decisions(values[:n])
            measures = class_measures(decisions, codes[:n], weights[:n])
            judged[name] = measures[self.scoring] + measures["roc_auc"], measures, calibration
        return judged

    # -- prediction ---------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes of each bag."""
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
