"""One fit of an automatic estimator: candidates prepared and scored on inner folds.

Inner folds depend on the bags, but not on their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from joblib import delayed
from sklearn.base import clone, is_regressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.distinct import MergedBags
from .._bags.threads import Parallel
from .._compat import CallbackSupport, FitTask
from .._fit.validation import STORED_FLOATS
from .._fit.warn import warn_user
from .._kernels.memory import require_memory
from .._solvers.common.cccp import RELATIVE_TIE
from ..discriminant_analysis import ShareDiscriminant, ShareRegressor
from ..model_selection._inner import class_folds, parts_of, value_folds
from ..svm import MISVC, MISVR, CoupledMISVR
from ..svm._bag_svm import bag_rows, plan_of, random_landmarks
from ..svm._kernel_average import (
    as_kind,
    check_range,
    default_scalings,
    learn_average,
)
from ._candidates import (
    Candidate,
    CandidateName,
    FitData,
    FittedShares,
    FoldModels,
    InstanceCandidate,
    LandmarkFeatures,
    LogisticCandidate,
    RowCandidate,
    ScaledStatistics,
    Scaling,
    ShareCandidate,
    bag_model,
    in_parts,
)
from ._judgement import (
    FEWEST_TEST_BAGS,
    CombinedFunction,
    Judge,
    Judged,
    Scored,
    bags_tested,
    clearly_worse,
    judge_candidates,
    regressed,
    weights_of_folds,
)
from ._plan import AVERAGE, SizeLimits, size_plan

INSTANCE, LINEAR, TREES, SHARE, COMBINED = "instance", "linear", "trees", "share", "combined"
LOGISTIC, RIDGE = "logistic", "ridge"
LOGISTIC_STATISTICS, RIDGE_STATISTICS = "logistic_statistics", "ridge_statistics"
OF_STATISTICS = (LOGISTIC, RIDGE, LOGISTIC_STATISTICS, RIDGE_STATISTICS)
# Cost of the linear model of the highest instance, per mean squared norm of the instances.
_LINEAR_COST = 10.0
_LOGISTIC = LogisticRegression(C=10.0, tol=1e-6, max_iter=1000)
_STATISTICS = ("mean", "min", "max", "std")
_SMALLEST_LEAF = 2
_PENALTIES = tuple(10.0**power for power in range(-2, 6))
# Statistics of each feature of each bag that are in memory: seven of each of four scalings for bag
# kernels, four for trees and five for linear models, with copies in folds.
_PER_FEATURE = 46


class Automatic(CallbackSupport):
    """Prediction of both estimators, by the models that were chosen."""

    # Small bags are converted to float64 in ``fit``, and parts of bags in prediction.
    _dtypes = STORED_FLOATS
    _size_limits: ClassVar[SizeLimits] = SizeLimits()
    # It is a mean of scores of several models.
    _bag_score_is_max = False
    _function: CombinedFunction
    # Log odds of the classes of equal weight, which are subtracted for decisions; or zero.
    _shift: np.ndarray
    paradigm_: str
    classes_: np.ndarray
    n_features_in_: int

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return self._stated(in_parts(self._function.bag_scores, bags))

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._stated(in_parts(self._function.instance_scores, bags))

    def _stated(self, scores: np.ndarray) -> np.ndarray:
        """Decisions or values for scores of shape (n, n_columns)."""
        raise NotImplementedError

    def _share_step(self, bags: Bags) -> tuple[Any, Bags]:
        """The model "share" as an estimator, and the bags that it sees, if it is the best one."""
        check_is_fitted(self)
        weights = self._function.weights.sum(axis=1)
        best = self._function.functions[int(np.argmax(weights))]
        kind = ShareRegressor if is_regressor(self) else ShareDiscriminant
        if not isinstance(best, FittedShares):
            raise TypeError(
                f"The best model of this {type(self).__name__} does not select a share of the "
                f"instances (paradigm_={self.paradigm_!r}): fit {kind.__name__} for shares."
            )
        fitted = best.attributes() | {"n_features_in_": self.n_features_in_}
        if not is_regressor(self):
            fitted |= {"classes_": self.classes_, "_positive_sign": self._positive_sign}
        model = kind()
        model._replace_fitted(fitted)
        return model, best.scale.when_read(bags)


class Search:
    """A fit on merged bags: candidates, messages of ``verbose`` and skipped steps.

    Parameters
    ----------
    estimator : MIClassifier or MIRegressor
        Its parameters ``time_limit``, ``n_jobs`` and ``verbose``, and its limits are read.
    task : FitTask
    merged : MergedBags
    targets : ndarray of shape (n_merged,)
        Class numbers or values.
    n_columns : int
        Columns of scores.
    start : float
        When the fit began, by ``time.perf_counter``.

    Attributes
    ----------
    limits : SizeLimits
    size : SizePlan
    data : FitData
    seed : int
    folds, parts : list of (train, test)
        The model "share" also finds directions on parts.
    scored : dict of list of ndarray
        Scores of each candidate on its folds.
    skipped : list of str
        Skipped steps and the reasons.
    dropped : set of CandidateName
        Candidates that were clearly worse than another one on their first folds.
    """

    def __init__(
        self,
        estimator: Any,
        task: FitTask,
        merged: MergedBags,
        targets: np.ndarray,
        n_columns: int,
        start: float,
    ) -> None:
        self.estimator, self.name, self.task = estimator, type(estimator).__name__, task
        self.n_jobs = estimator.n_jobs
        self.merged, self.limits = merged, estimator._size_limits
        self.size = size_plan(merged.bags, self.limits)
        regression, scoring = is_regressor(estimator), getattr(estimator, "scoring", "")
        rng = check_random_state(estimator.random_state)
        self.seed = int(rng.randint(2**31 - 1))
        given = (merged, rng) if regression else (merged, targets, rng)
        new = partial(value_folds if regression else class_folds, *given)
        folds = new(test_bags=self.limits.test_bags)
        self.folds = folds[: self.size.n_scored_folds]
        self.parts = parts_of(folds, new, merged.bags, self.limits.n_parts)
        self.data = FitData(targets, n_columns, regression, merged.weights, self.size.cost)
        self.judge = Judge(self.data, scoring)
        self._check_memory()
        self.skipped = list(self.size.notes)
        self.start, self.stopped = start, False
        self._prepared: dict[CandidateName, Candidate] = {}
        self.scored: Scored = {}
        self.dropped: set[CandidateName] = set()
        # Models of each candidate on its folds.
        self._models: dict[CandidateName, list[Any]] = {}
        # Scores of classes by kernel, see InstanceCandidate.
        self._shared: dict[str, dict[Any, np.ndarray]] = {}

    def _check_memory(self) -> None:
        """Refuse instances in blocks whose statistics do not fit, and name what is left out."""
        if not self.size.in_blocks:
            return
        n_bags, n_features = self.merged.bags.shape
        remedy = "reduce the features, for instance by IncrementalPCA in an InstanceTransformer"
        what = f"The statistics of {n_bags} bags with {n_features} features"
        require_memory(8.0 * _PER_FEATURE * n_bags * n_features, what, remedy)
        if self.size.left_out:
            size = 8e-9 * self.merged.bags.n_instances * n_features
            warn_user(
                f"{self.name} leaves out {' and '.join(self.size.left_out)}, which need all "
                f"instances in float64 in memory, {size:.2g} GB: {remedy}, to compare all.",
                UserWarning,
            )

    def fitted(
        self, judged: dict[str, Judged], unit: float = 1.0
    ) -> tuple[dict[str, Any], list[Judged]]:
        """The fitted attributes of both estimators, and the models that predict.

        Measures are multiplied by ``unit``.
        """
        parts = [each for each in judged.values() if not each.dropped]
        every, chosen = dict(judged), parts[0].candidate.name
        coef = np.ones((len(parts), self.data.n_columns))
        constant = np.zeros(self.data.n_columns)
        if self.scored:
            rows = bags_tested(self.folds)
            stated = [
                each.slope * np.concatenate(self.scored[each.candidate]) + each.constant
                for each in parts
            ]
            coef, constant = regressed(stated, rows, self.data)
            # If no model tells anything, the first one has the coefficient zero.
            used = np.flatnonzero(coef.any(axis=1)) if coef.any() else np.arange(1)
            if len(used) > 1:
                combined = np.einsum("mc,mnc->nc", coef, stated) + constant
                every[COMBINED] = self.judge(CandidateName(COMBINED), combined, rows, (1.0, 0.0))
            chosen = COMBINED if len(used) > 1 else parts[used[0]].candidate.name
            parts, coef = [parts[place] for place in used], coef[used]
        slopes = coef * [each.slope for each in parts]
        constant = constant + (coef * [each.constant for each in parts]).sum(axis=0)
        functions = [self._function(each.candidate) for each in parts]
        function = CombinedFunction(functions, slopes, constant, coef)
        self._step(f"{chosen!r} predicts")
        attributes = {
            "paradigm_": chosen,
            "scores_": {
                name: {measure: unit * value for measure, value in each.measures.items()}
                for name, each in every.items()
                if each.measures
            },
            "skipped_": self.skipped,
            "n_bags_": len(self.merged.bags),
            "_function": function,
            "_shift": self.judge.shift,
        }
        return attributes, parts

    def _function(self, name: CandidateName) -> FoldModels | FittedShares:
        """The function of a candidate; one that is not convex has the models of its folds."""
        if name not in self.scored:
            return self.candidate(name).function([], np.ones((1, self.data.n_columns)))
        weights = weights_of_folds(self.scored[name], self.folds, self.data)
        return self.candidate(name).function(self._models[name], weights)

    def _step(self, what: str) -> None:
        """Report a completed step."""
        self._say(what)
        self.stopped = self.task.step() or self.stopped

    def _say(self, what: str) -> None:
        if self.estimator.verbose:
            elapsed = time.perf_counter() - self.start
            print(f"[{self.name}] {elapsed:.1f} s: {what}", flush=True)

    # -- candidates ------------------------------------------------------------------------

    def bag_candidate(self, name: CandidateName) -> RowCandidate:
        """A kernel or the average, learnt on the distinct bags or on landmarks among them."""
        merged, size = self.merged, self.size
        kernels = list(size.kernels) if name.name == AVERAGE else [name.name]
        plan = plan_of(kernels, "auto", 1.0, size.text)
        distinct = merged.distinct
        if size.n_components is not None and size.n_components < len(merged.distinct_positions):
            distinct = merged.bags[random_landmarks(merged, size.n_components, self.seed)]
        distinct = as_kind(distinct, size.text)
        average, matrix = learn_average(plan, distinct, self.n_jobs, self.seed)
        self._step("bag kernels learnt")
        rows, values = bag_rows(average, matrix, merged)
        is_kernel = rows.projection is None
        model = bag_model(self.data, is_kernel=is_kernel)
        return RowCandidate(model, rows, values, self.data, is_kernel, not self.data.regression)

    @cached_property
    def _scaled(self) -> tuple[Scaling, Bags]:
        """The scaling of the candidates other than bag kernels, and the scaled training bags."""
        text = self.size.text
        distinct = as_kind(self.merged.distinct, text)
        check_range(distinct)
        scale = Scaling.of(distinct, text, clone(default_scalings()[0]))
        bags = self.merged.bags
        return scale, scale.when_read(bags) if self.size.in_blocks else scale(bags)

    @cached_property
    def _featured(self) -> tuple[LandmarkFeatures, Bags]:
        """Landmark features of the RBF kernel, and those of the training bags."""
        scale, bags = self._scaled
        assert self.size.instance_components is not None
        features = LandmarkFeatures.of(
            scale, bags, self.merged.weights, self.size.instance_components, self.seed
        )
        return features, features.of_scaled(bags)

    def instance_candidate(self, name: CandidateName, **settings: Any) -> InstanceCandidate:
        """MISVC, MISVR or CoupledMISVR on scaled instances."""
        given = {"C": self.size.cost, "kernel": self.size.instance_kernel, **settings}
        parts: tuple[Any, Bags] = self._scaled
        if given["kernel"] == "rbf" and self.size.instance_components is not None:
            # The features of all inner folds; the model over them is linear.
            parts, given["kernel"] = self._featured, "linear"
        kind: Any = MISVC
        sign = 1
        if self.data.regression:
            kind = MISVR if name.name == LINEAR else CoupledMISVR
            sign = 1 if name.positive else -1
        elif name.positive is not None:
            given["pos_label"] = name.positive
        model = kind(random_state=self.seed, **given)
        shared: dict[Any, np.ndarray] = {}
        if self.data.n_columns > 1:
            shared = self._shared.setdefault(given["kernel"] + type(parts[0]).__name__, shared)
        return InstanceCandidate(model, *parts, self.data, name.without, sign, shared)

    def linear_candidate(self, name: CandidateName) -> InstanceCandidate:
        """The linear model, with a cost that means the same for any number of features."""
        bags, chosen = self._scaled[1], self.merged.distinct_positions
        distinct = bags if len(chosen) == len(bags) else bags[chosen]
        norm = sum(distinct.source().map(_squares, in_parts=True)) / distinct.n_instances
        C = _LINEAR_COST / norm if norm > 0 else _LINEAR_COST
        return self.instance_candidate(name, kernel="linear", C=C)

    def trees_candidate(self, _: CandidateName) -> RowCandidate:
        """Trees on statistics of the scaled bags."""
        settings: dict[str, Any] = {
            "n_estimators": self.limits.trees,
            "min_samples_leaf": _SMALLEST_LEAF,
            "random_state": self.seed,
        }
        if self.data.regression:
            # Splits consider all statistics of small data. Otherwise as many as
            # ``limits.tree_values`` allows, but at least the square root, as in classification.
            n_bags, n_features = self.merged.bags.shape
            n_columns = len(_STATISTICS) * n_features
            n_allowed = max(int(self.limits.tree_values / n_bags), int(n_columns**0.5))
            if n_allowed < n_columns:
                self.skipped.append(
                    f"splits of trees on more than {n_allowed} of {n_columns} columns"
                )
            settings["max_features"] = min(n_allowed, n_columns)
        kind = ExtraTreesRegressor if self.data.regression else ExtraTreesClassifier
        statistics = ScaledStatistics(self._scaled[0], _STATISTICS)
        return RowCandidate(kind(**settings), statistics, self._statistics, self.data)

    @cached_property
    def _statistics(self) -> Any:
        """The statistics of the scaled training bags, the means first."""
        scale, bags = self._scaled
        bags = as_kind(self.merged.bags, True) if self.size.text else bags
        return ScaledStatistics(scale, _STATISTICS).of_scaled(bags)

    def linear_of_statistics(self, name: CandidateName) -> RowCandidate:
        """Logistic or ridge regression on standardised statistics of the bags, or on their means.

        Those of texts have unit length.
        """
        kind: Any = RowCandidate
        model, given = RidgeCV(_PENALTIES) if self.data.regression else _LOGISTIC, {}
        names = _STATISTICS[:1] if name.name in (LOGISTIC, RIDGE) else _STATISTICS
        statistics = ScaledStatistics(self._scaled[0], names)
        if self.size.text:
            rows = statistics.of_scaled(as_kind(self.merged.bags, True))
            return RowCandidate(model, statistics, rows, self.data)
        if not self.data.regression:
            kind, given = LogisticCandidate, {"folds": self.folds}
        rows = self._statistics[:, : len(names) * self.merged.bags.shape[1]]
        unit = StandardScaler().fit(rows, sample_weight=self.merged.weights)
        statistics = replace(statistics, standardise=unit)
        return kind(model, statistics, unit.transform(rows), self.data, **given)

    # -- scores ----------------------------------------------------------------------------

    def candidate(self, name: CandidateName) -> Candidate:
        """A candidate, which is prepared when it is first asked for."""
        if name not in self._prepared:
            makers: dict[str, Callable[[CandidateName], Candidate]] = {
                INSTANCE: self.instance_candidate,
                LINEAR: self.linear_candidate,
                TREES: self.trees_candidate,
                SHARE: lambda _: ShareCandidate(*self._scaled, self.data, self.folds, self.parts),
                **dict.fromkeys(OF_STATISTICS, self.linear_of_statistics),
            }
            self._prepared[name] = makers.get(name.name, self.bag_candidate)(name)
        return self._prepared[name]

    def judged(self, names: list[CandidateName]) -> dict[str, Judged]:
        """Evaluate candidates by their scores of the test bags of each fold.

        The orientations of a candidate follow each other. One that is clearly worse than another
        candidate on its first folds is ``dropped``. After ``time_limit``, or if a callback asks to
        stop, further candidates are skipped, but never all.
        """
        sizes = np.cumsum([len(test) for _, test in self.folds])
        first = 1 + int(np.searchsorted(sizes, FEWEST_TEST_BAGS))
        rounds = [
            range(len(sizes))[part]
            for part in (slice(first), slice(first, 3), slice(max(first, 3), 5))
        ]
        missing: list[str] = []
        for _, group in groupby(names if self.folds else [], key=lambda each: each.name):
            wanted = [name for name in group if self._is_wanted(name)]
            if self.scored and self._is_over():
                missing += map(str, wanted)
                continue
            for numbers in rounds:
                self._score([name for name in wanted if name not in self.dropped], numbers)
                self.dropped |= clearly_worse(self.scored, self.folds, self.judge, self.dropped)
        if missing:
            self._report(missing)
        constant = {
            name
            for name, scores in self.scored.items()
            if not any(np.ptp(each, axis=0).any() for each in scores)
        }
        if constant | self.dropped != self.scored.keys():
            self.dropped |= constant
        if self.scored:
            return judge_candidates(self.scored, self.folds, self.judge, self.dropped)
        given = np.ones(self.data.n_columns), np.zeros(self.data.n_columns)
        return {name.name: Judged(name, *given) for name in names}

    def _is_over(self) -> bool:
        limit = self.estimator.time_limit
        return self.stopped or (limit and time.perf_counter() - self.start > limit)

    def _report(self, missing: list[str]) -> None:
        """Record what the time, or a callback, left out."""
        limit = f"time_limit={self.estimator.time_limit}"
        reason = "a callback asked to stop" if self.stopped else f"{limit} s"
        self.skipped += [f"{each} ({reason})" for each in missing]
        self._say(f"left out: {', '.join(missing)} ({reason})")
        if not self.stopped:
            message = f"{limit} left out {', '.join(missing)}: raise it to compare all."
            warn_user(message, UserWarning)

    def _is_wanted(self, candidate: CandidateName) -> bool:
        """Whether to score a candidate: "instance" only as "linear" leaves it open."""
        linear = {name: scores for name, scores in self.scored.items() if name.name == LINEAR}
        if candidate.name != INSTANCE or len(linear) < 2:
            return True
        left = [name for name in linear if name not in self.dropped]
        many = self.size.instance_components is not None or self.data.n_columns > 1
        if many or len(left) == 1:
            judged = judge_candidates(linear, self.folds, self.judge, self.dropped)
            left = [judged[LINEAR].candidate]
        assumed = [(name.positive, name.without) for name in left]
        return not left or (candidate.positive, candidate.without) in assumed

    def _score(self, names: list[CandidateName], numbers: range) -> None:
        """Score candidates on some folds."""
        # Prepared here: a candidate uses joblib itself, which would wait for this call.
        steps = [(name, number, self.candidate(name).fold) for number in numbers for name in names]
        fits = Parallel(n_jobs=self.n_jobs)(
            delayed(fold)(*self.folds[number]) for _, number, fold in steps
        )
        for (name, number, _), (scores, models) in zip(steps, fits, strict=True):
            self._step(f"{name} scored on fold {number + 1} of {len(self.folds)}")
            self.scored.setdefault(name, []).append(_without_rounding(scores))
            self._models.setdefault(name, []).append(models)


def _without_rounding(scores: np.ndarray) -> np.ndarray:
    """Scores, of which those of a constant function are the same."""
    constant = np.ptp(scores, axis=0) <= RELATIVE_TIE * np.abs(scores).max()
    return np.where(constant, scores[0], scores)


def _squares(block: Block) -> float:
    """Sum of the squares of all values."""
    rows = block.instances
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
