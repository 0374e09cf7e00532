"""One fit of an automatic estimator: candidates prepared and scored on inner folds.

Inner folds depend on the bags, but not on their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from joblib import delayed, effective_n_jobs
from sklearn.base import clone, is_regressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
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
from ..model_selection._inner import Folds
from ..svm import MISVC, MISVR, CoupledMISVR
from ..svm._bag_svm import bag_rows, plan_of, random_landmarks
from ..svm._kernel_average import (
    KernelAverage,
    as_kind,
    check_range,
    combined,
    default_scalings,
    learn_average,
    learn_scaled,
)
from ._candidates import (
    Candidate,
    CandidateName,
    FitData,
    FittedShares,
    FoldModels,
    InstanceCandidate,
    LandmarkFeatures,
    RowCandidate,
    ScaledStatistics,
    Scaling,
    ShareCandidate,
    bag_model,
    in_parts,
)
from ._judgement import (
    COMBINED,
    Calibration,
    CombinedFunction,
    Judged,
    Scored,
    class_judge,
    clearly_worse,
    judge_candidates,
    members,
    value_judge,
    weights_of,
    weights_of_folds,
)
from ._plan import AVERAGE, SizeLimits, SizePlan, size_plan

INSTANCE, LINEAR, TREES, RIDGE = "instance", "linear", "trees", "ridge"
LOGISTIC, SHARE = "logistic", "share"
# Cost of the linear model of the highest instance, per mean squared norm of the instances.
_LINEAR_COST = 10.0
_LOGISTIC = LogisticRegression(C=10.0, tol=1e-6, max_iter=1000)
_STATISTICS = ("mean", "min", "max", "std")
_SMALLEST_LEAF = 2
_PENALTIES = tuple(10.0**power for power in range(-2, 6))
# Statistics of each feature of each bag that are in memory: seven of each of four scalings for bag
# kernels, and four for trees with a copy in folds.
_PER_FEATURE = 36

# Samples of the bags on which the time of a model is measured, as inverse shares, and fewest bags.
_SAMPLES, _FEWEST_BAGS = (64, 16, 4), 64


class Automatic(CallbackSupport):
    """Prediction of both estimators, by the models that were chosen."""

    # Small bags are converted to float64 in ``fit``, and parts of bags in prediction.
    _dtypes = STORED_FLOATS
    _size_limits: ClassVar[SizeLimits] = SizeLimits()
    # It is a mean of scores of several models.
    _bag_score_is_max = False
    _function: FoldModels | FittedShares | CombinedFunction
    _calibration: Calibration
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
        best = self._function
        if isinstance(best, CombinedFunction):
            best = best.functions[int(np.argmax(best.weights))]
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
    """A fit on merged bags: candidates, time, messages of ``verbose`` and skipped steps.

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
    seed : int
    folds, parts : list of (train, test)
        The model "share" also finds directions on parts.
    start : float
        When the fit began, by ``time.perf_counter``.
    size : SizePlan, default=None
        By default, that of the bags.

    Attributes
    ----------
    limits : SizeLimits
    size : SizePlan
    data : FitData
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
        seed: int,
        folds: Folds,
        parts: Folds,
        start: float,
        size: SizePlan | None = None,
    ) -> None:
        self.estimator, self.name, self.task = estimator, type(estimator).__name__, task
        self.time_limit, self.n_jobs = estimator.time_limit, estimator.n_jobs
        self.verbose = bool(estimator.verbose)
        self.merged, self.seed = merged, seed
        self.limits = estimator._size_limits
        self.size = size or size_plan(merged.bags, self.limits)
        self.folds, self.parts = folds[: self.size.n_scored_folds], parts
        regression, scoring = is_regressor(estimator), getattr(estimator, "scoring", "")
        self.data = FitData(targets, n_columns, regression, merged.weights, self.size.cost)
        self.judge = value_judge(self.data) if regression else class_judge(self.data, scoring)
        if size is None:
            self._check_memory()
        self.skipped = list(self.size.notes)
        self.start, self.stopped = start, False
        self._prepared: dict[CandidateName, Candidate] = {}
        self.scored: Scored = {}
        self.dropped: set[CandidateName] = set()
        # Seconds of the last fold of each candidate.
        self._took: dict[CandidateName, float] = {}
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

    def fitted(self, judged: dict[str, Judged], unit: float = 1.0) -> dict[str, Any]:
        """The fitted attributes of both estimators, by the models of the folds.

        Measures are multiplied by ``unit``.
        """
        parts = members(judged)
        functions = [self._function(each.candidate) for each in parts]
        chosen = parts[0].candidate.name
        function: FoldModels | FittedShares | CombinedFunction = functions[0]
        if len(parts) > 1:
            chosen = COMBINED
            calibrations = [each.calibration for each in parts]
            function = CombinedFunction(functions, calibrations, weights_of(parts))
        self._step(f"{chosen!r} predicts")
        return {
            "paradigm_": chosen,
            "scores_": {
                name: {measure: unit * value for measure, value in each.measures.items()}
                for name, each in judged.items()
                if each.measures
            },
            "_calibration": judged[chosen].calibration,
            "skipped_": self.skipped,
            "n_bags_": len(self.merged.bags),
            "_function": function,
        }

    def _function(self, name: CandidateName) -> FoldModels | FittedShares:
        """The function of a candidate; without folds it is fitted on all bags."""
        candidate = self.candidate(name)
        if name in self.scored:
            weights = weights_of_folds(self.scored[name], self.folds, self.data)
            return candidate.function(self._models[name], weights)
        everything = np.arange(len(self.data.targets))
        models = candidate.fold(everything, everything)[1]
        return candidate.function([models], np.ones((1, self.data.n_columns)))

    # -- time ------------------------------------------------------------------------------

    @property
    def _elapsed(self) -> float:
        return time.perf_counter() - self.start

    def _step(self, what: str) -> None:
        """Report a completed step."""
        self._say(what)
        self.stopped = self.task.step() or self.stopped

    def _say(self, what: str) -> None:
        if self.verbose:
            print(f"[{self.name}] {self._elapsed:.1f} s: {what}", flush=True)

    def _allows(self, seconds: float) -> bool:
        """Whether at least ``seconds`` remain, and no callback requested to stop."""
        limit = np.inf if self.time_limit is None else self.time_limit
        return not self.stopped and self._elapsed + seconds <= limit

    def _skip(self, what: str) -> None:
        """Record a skipped step."""
        reason = "a callback asked to stop" if self.stopped else f"time_limit={self.time_limit} s"
        self.skipped.append(f"{what} ({reason})")
        if self.verbose:
            print(f"[{self.name}] left out: {self.skipped[-1]}", flush=True)

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
        if self._one_by_one:
            average, matrix = self._average_in_time(plan, distinct)
        else:
            average, matrix = learn_average(plan, distinct, self.n_jobs, self.seed)
            self._step("bag kernels learnt")
        rows, values = bag_rows(average, matrix, merged)
        is_kernel = rows.projection is None
        model = bag_model(self.data, is_kernel=is_kernel)
        return RowCandidate(model, rows, values, self.data, is_kernel, not self.data.regression)

    def _average_in_time(self, plan: Any, distinct: Bags) -> tuple[KernelAverage, np.ndarray]:
        """The average over as many scalings as there is time for."""
        found: list[Any] = []
        took, n_scalings = 0.0, len(plan.scalings)
        for number, scaling in enumerate(plan.scalings):
            # Use half of the time: folds follow.
            if found and not self._allows(took + self._elapsed):
                self._skip(f"scaling {number + 1} of {n_scalings}")
                continue
            begun = self._elapsed
            found.append(learn_scaled(plan, scaling, distinct, self.n_jobs, self.seed))
            took = self._elapsed - begun
            self._step(f"bag kernels learnt over scaling {number + 1} of {n_scalings}")
        return combined(plan, found)

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
        return self._statistics(kind(**settings), _STATISTICS)

    def share_candidate(self, _: CandidateName) -> ShareCandidate:
        """The model of a share, of as many parts as half of the time is sufficient for."""
        in_time = self._in_time if self._one_by_one else iter
        return ShareCandidate(*self._scaled, self.data, self.folds, self.parts, in_time)

    def _in_time(self, parts: Folds) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The parts until half of the time is over."""
        took = 0.0
        for number, part in enumerate(parts):
            if not self._allows(took + self._elapsed):
                self._skip(f"parts {number + 1} to {len(parts)} of {SHARE!r}")
                return
            begun = self._elapsed
            yield part
            took = self._elapsed - begun

    def _statistics(self, model: Any, names: tuple[str, ...]) -> RowCandidate:
        scale, bags = self._scaled
        if self.size.text:
            bags = as_kind(self.merged.bags, True)
        statistics = ScaledStatistics(scale, names)
        return RowCandidate(model, statistics, statistics.of_scaled(bags), self.data)

    # -- scores ----------------------------------------------------------------------------

    @property
    def _one_by_one(self) -> bool:
        """Whether steps are in turn, so that the time and callbacks are asked between them."""
        return self.time_limit is not None or effective_n_jobs(self.n_jobs) == 1

    def candidate(self, name: CandidateName) -> Candidate:
        """A candidate, which is prepared when it is first asked for."""
        if name not in self._prepared:
            makers: dict[str, Callable[[CandidateName], Candidate]] = {
                INSTANCE: self.instance_candidate,
                LINEAR: self.linear_candidate,
                TREES: self.trees_candidate,
                RIDGE: lambda _: self._statistics(RidgeCV(_PENALTIES), ("mean",)),
                LOGISTIC: lambda _: self._statistics(_LOGISTIC, ("mean",)),
                SHARE: self.share_candidate,
            }
            self._prepared[name] = makers.get(name.name, self.bag_candidate)(name)
        return self._prepared[name]

    def judged(self, names: list[CandidateName]) -> dict[str, Judged]:
        """Evaluate candidates by their scores of the test bags of each fold.

        A candidate that is clearly worse than another on its first folds is ``dropped``. If the
        time is not sufficient, candidates are skipped or have fewer folds. The first candidate has
        at least one fold, if there are folds.
        """
        # The kernel follows the linear model.
        last = [name for name in names if name.name == INSTANCE]
        parts = [[name for name in names if name not in last], last]
        rounds = [(number, part) for part in parts for number in range(len(self.folds))]
        if self.time_limit is not None:
            # Each candidate has a fold before any has a second one.
            rounds.sort(key=lambda each: each[0])
        for number, part in rounds:
            if number == 0:
                part[:] = [name for name in part if self._is_wanted(name)]
            for together in [[name] for name in part] if self._one_by_one else [part]:
                self._score(together, number)
            self.dropped |= clearly_worse(self.scored, self.folds, self.judge, self.dropped)
        constant = {
            name
            for name, scores in self.scored.items()
            if not any(np.ptp(each, axis=0).any() for each in scores)
        }
        if constant | self.dropped != self.scored.keys():
            self.dropped |= constant
        self._report([name for part in parts for name in part])
        if self.scored:
            return judge_candidates(self.scored, self.folds, self.judge, self.dropped)
        zeros = np.zeros(self.data.n_columns)
        calibration = Calibration(zeros + 1.0, zeros, zeros)
        return {name.name: Judged(0.0, 0.0, {}, calibration, 0.0, name) for name in names}

    def _fits(self, name: CandidateName) -> bool:
        """Whether there is time for the first fold of a candidate.

        A new model is measured on larger and larger samples of many bags, until a larger sample
        would take too long. Its time grows by a power of the number of bags, as samples show.
        """
        like = [each for each in self.scored if each.name == name.name]
        if self.time_limit is None or not self.scored or like:
            return self._allows(sum(self._took[each] for each in like[:1]))
        n_bags = len(self.merged.bags)
        # Each class, or part of the values, has the same share of a sample as of all bags.
        ordered = np.argsort(self.data.targets, kind="stable")
        before: tuple[int, float] | None = None
        for part in _SAMPLES:
            if n_bags < part * _FEWEST_BAGS or not self._allows(0.0):
                continue
            places = np.linspace(0, n_bags - 1, n_bags // part).round().astype(np.intp)
            sample = self._on_sample(np.sort(ordered[places]))
            if not sample.can_be_fitted:
                continue
            seconds, power = sample.seconds_of(name), 1.0
            self._say(f"{name} takes {seconds:.1f} s for one bag of {part}")
            if before is not None:
                power = max(power, np.log(seconds / before[1]) / np.log(before[0] / part))
            # A small sample hides how the time grows: it is enough where even the square fits.
            if self._allows(seconds * part**2.0):
                return True
            if not self._allows(seconds * 4.0**power):
                return False
            before = part, seconds
        return self._allows(0.0)

    @property
    def can_be_fitted(self) -> bool:
        """Whether folds test bags and train on every class; those of a sample may lack a class."""
        targets = self.data.targets
        parts = [targets[train] for train, test in self.folds if len(test)]
        if self.data.regression or len(parts) < len(self.folds):
            return len(parts) == len(self.folds)
        n_classes = max(2, self.data.n_columns)
        return all(len(np.unique(part)) == n_classes for part in parts)

    def seconds_of(self, name: CandidateName) -> float:
        """Seconds of the first fold of a candidate."""
        begun = self._elapsed
        self.candidate(name).fold(*self.folds[0])
        return self._elapsed - begun

    def _on_sample(self, rows: np.ndarray) -> Search:
        """A search with this plan on a sample of the bags, which says and leaves out nothing."""
        quiet, every = copy(self.estimator), np.arange(len(rows))
        quiet.set_params(time_limit=None, n_jobs=1, verbose=False)
        merged = replace(
            self.merged,
            bags=self.merged.bags[rows],
            positions=self.merged.positions[rows],
            weights=self.merged.weights[rows],
            order=every,
            distinct_positions=every,
            inverse=every,
            groups=None,
        )
        folds, parts = (
            [
                (np.flatnonzero(np.isin(rows, train)), np.flatnonzero(np.isin(rows, test)))
                for train, test in given
            ]
            for given in (self.folds, self.parts)
        )
        targets, n_columns = self.data.targets[rows], self.data.n_columns
        task = FitTask(None, None, {})
        return Search(
            quiet, task, merged, targets, n_columns, self.seed, folds, parts, self.start, self.size
        )

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

    def _score(self, names: list[CandidateName], number: int) -> None:
        """Score candidates on a fold, as far as there is time; the very first one in any case."""
        due = [
            name
            for name in names
            if name not in self.dropped
            and len(self.scored.get(name, [])) == number
            and (self._allows(self._took[name]) if number else self._fits(name))
        ]
        due = due or ([] if self.scored else names[:1])
        begun = self._elapsed
        # Prepared here: a candidate uses joblib itself, which would wait for this call.
        for name in due:
            about = f", about {self._took[name]:.1f} s" if number else ""
            self._say(f"{name} on fold {number + 1} of {len(self.folds)} starts{about}")
        steps = [self.candidate(name).fold for name in due]
        fits = Parallel(n_jobs=1 if self._one_by_one else self.n_jobs)(
            delayed(step)(*self.folds[number]) for step in steps
        )
        for name, (scores, models) in zip(due, fits, strict=True):
            self._took[name] = (self._elapsed - begun) / len(due)
            self._step(f"{name} scored on fold {number + 1} of {len(self.folds)}")
            self.scored.setdefault(name, []).append(_without_rounding(scores))
            self._models.setdefault(name, []).append(models)

    def _report(self, names: list[CandidateName]) -> None:
        """Record what the time, or a callback, left out."""
        n_folds = len(self.folds)
        for name, scores in self.scored.items():
            if len(scores) < n_folds and name not in self.dropped:
                self._skip(f"inner folds {len(scores) + 1} to {n_folds} of {name}")
        missing = [str(name) for name in names if self.scored and name not in self.scored]
        for each in missing:
            self._skip(each)
        if missing and not self.stopped:
            warn_user(
                f"time_limit={self.time_limit} left out {', '.join(missing)}: raise it to compare "
                "all.",
                UserWarning,
            )


def _without_rounding(scores: np.ndarray) -> np.ndarray:
    """Scores, of which those of a constant function are the same."""
    constant = np.ptp(scores, axis=0) <= RELATIVE_TIE * np.abs(scores).max()
    return np.where(constant, scores[0], scores)


def _squares(block: Block) -> float:
    """Sum of the squares of all values."""
    rows = block.instances
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
