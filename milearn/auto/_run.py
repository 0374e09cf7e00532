"""One fit of an automatic estimator: candidates prepared and scored within a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone, is_regressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import RidgeCV

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.distinct import MergedBags
from .._compat import FitTask
from .._fit.warn import warn_user
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
from ._calibration import not_calibrated
from ._candidates import (
    BagCandidate,
    Candidate,
    FoldFit,
    InstanceCandidate,
    LandmarkFeatures,
    ScaledStatistics,
    Scaling,
    ScoreFunction,
    StatisticsCandidate,
    Training,
    Way,
)
from ._folds import Folds
from ._judgement import CombinedFunction, Judge, Scored, clearly_worse
from ._plan import require_statistics, size_plan

__all__ = ["INSTANCE", "LINEAR", "RIDGE", "TREES", "Run"]

INSTANCE, LINEAR, TREES, RIDGE = "instance", "linear", "trees", "ridge"
# Cost of the linear model of the highest instance, per mean squared norm of the instances.
_LINEAR_COST = 10.0
_STATISTICS = ("mean", "min", "max", "std")
_SMALLEST_LEAF = 2
_PENALTIES = tuple(10.0**power for power in range(-2, 6))

# Number of directions from which on one of them can agree best with the others.
_FEWEST_DIRECTIONS = 3

# Ratio of the times of a fit on all training bags and on a subset of them.
_WHOLE_FIT = 1.5


Wanted = Callable[[Way, Scored], bool]


class Run:
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

    Attributes
    ----------
    limits : SizeLimits
    size : SizePlan
    training : Training
    skipped : list of str
        Skipped steps and the reasons.
    dropped : set of Way
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
    ) -> None:
        self.name, self.task = type(estimator).__name__, task
        self.budget, self.n_jobs = estimator.time_limit, estimator.n_jobs
        self.verbose = bool(estimator.verbose)
        self.merged, self.seed = merged, seed
        self.limits = estimator._size_limits
        self.size = size_plan(merged.bags, self.limits)
        self.training = Training(
            targets, n_columns, is_regressor(estimator), merged.weights, self.size.cost
        )
        self._check_memory()
        self.skipped = list(self.size.notes)
        self.start, self.stopped = time.perf_counter(), False
        self.candidates: dict[Way, Candidate] = {}
        # Of the linear models of inner folds.
        self.directions: dict[Way, list[np.ndarray]] = {}
        self.dropped: set[Way] = set()
        # Scores of classes by kernel, see InstanceCandidate.
        self._shared: dict[str, dict[Any, np.ndarray]] = {}

    def _check_memory(self) -> None:
        """Refuse instances in blocks whose statistics do not fit, and name what is left out."""
        if not self.size.in_blocks:
            return
        n_bags, n_features = self.merged.bags.shape
        require_statistics(n_bags, n_features)
        if self.size.left_out:
            size = 8e-9 * self.merged.bags.n_instances * n_features
            warn_user(
                f"{self.name} leaves out {' and '.join(self.size.left_out)}, which need all "
                f"instances in float64 in memory, {size:.2g} GB: reduce the features, for instance "
                "by IncrementalPCA in an InstanceTransformer, to compare all.",
                UserWarning,
            )

    def fitted(self, way: str, scores: dict[str, Any], function: ScoreFunction) -> dict[str, Any]:
        """The fitted attributes of both estimators, after fitting a model on all bags."""
        self._step(f"{way!r} fitted on all bags")
        return {
            "paradigm_": way,
            "scores_": scores,
            "skipped_": self.skipped,
            "n_bags_": len(self.merged.bags),
            "_function": function,
        }

    # -- time ------------------------------------------------------------------------------

    @property
    def _elapsed(self) -> float:
        return time.perf_counter() - self.start

    def _step(self, what: str) -> None:
        """Report a completed step."""
        if self.verbose:
            print(f"[{self.name}] {self._elapsed:.1f} s: {what}", flush=True)
        self.stopped = self.task.step() or self.stopped

    def _allows(self, seconds: float) -> bool:
        """Whether at least ``seconds`` remain, and no callback requested to stop."""
        return not self.stopped and (self.budget is None or self._elapsed + seconds <= self.budget)

    def _skip(self, what: str) -> None:
        """Record a skipped step."""
        reason = "a callback asked to stop" if self.stopped else f"time_limit={self.budget} s"
        self.skipped.append(f"{what} ({reason})")
        if self.verbose:
            print(f"[{self.name}] left out: {self.skipped[-1]}", flush=True)

    # -- candidates ------------------------------------------------------------------------

    def bag_candidate(self, kernels: tuple[str, ...]) -> BagCandidate:
        """The average of kernels, learnt on the distinct bags or on landmarks among them."""
        merged, size = self.merged, self.size
        plan = plan_of(list(kernels), "auto", 1.0, size.text)
        distinct = merged.distinct
        if size.n_components is not None and size.n_components < len(merged.distinct_positions):
            distinct = merged.bags[random_landmarks(merged, size.n_components, self.seed)]
        distinct = as_kind(distinct, size.text)
        if self.budget is not None or effective_n_jobs(self.n_jobs) == 1:
            average, matrix = self._one_by_one(plan, distinct)
        else:
            average, matrix = learn_average(plan, distinct, self.n_jobs, self.seed)
            self._step("bag kernels learnt")
        return BagCandidate(*bag_rows(average, matrix, merged), self.training)

    def _one_by_one(self, plan: Any, bags: Bags) -> tuple[KernelAverage, np.ndarray]:
        found: list[Any] = []
        took = 0.0
        for number, scaling in enumerate(plan.scalings):
            # Use half of the time: folds and the final fit follow.
            if found and not self._allows(took + self._elapsed):
                self._skip(f"scaling {number + 1} of {len(plan.scalings)}")
                continue
            begun = self._elapsed
            found.append(learn_scaled(plan, scaling, bags, self.n_jobs, self.seed))
            took = self._elapsed - begun
            self._step(f"bag kernels learnt over scaling {number + 1} of {len(plan.scalings)}")
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

    def instance_candidate(
        self, kind: type, without: int | None = None, **settings: Any
    ) -> InstanceCandidate:
        """MISVC or CoupledMISVR on scaled instances."""
        given = {"C": self.size.cost, "kernel": self.size.instance_kernel, **settings}
        parts: tuple[Any, Bags] = self._scaled
        if given["kernel"] == "rbf" and self.size.instance_components is not None:
            # The features of all inner folds; the model over them is linear.
            parts, given["kernel"] = self._featured, "linear"
        model = kind(random_state=self.seed, **given)
        shared = self._shared.setdefault(given["kernel"] + type(parts[0]).__name__, {})
        if self.training.n_columns == 1:
            shared = {}
        return InstanceCandidate(model, *parts, self.training, without, shared)

    def linear_candidate(self, kind: type, **settings: Any) -> InstanceCandidate:
        """The linear model, with a cost that means the same for any number of features."""
        bags, chosen = self._scaled[1], self.merged.distinct_positions
        distinct = bags if len(chosen) == len(bags) else bags[chosen]
        norm = sum(distinct.source().map(_squares, in_parts=True)) / distinct.n_instances
        C = _LINEAR_COST / norm if norm > 0 else _LINEAR_COST
        return self.instance_candidate(kind, kernel="linear", C=C, **settings)

    def trees_candidate(self) -> StatisticsCandidate:
        """Trees on statistics of the scaled bags."""
        settings: dict[str, Any] = {
            "n_estimators": self.limits.trees,
            "min_samples_leaf": _SMALLEST_LEAF,
            "random_state": self.seed,
        }
        model: Any = ExtraTreesClassifier(**settings)
        if self.training.regression:
            n_considered = self._considered()
            model = ExtraTreesRegressor(**settings, max_features=n_considered)
        return self._statistics(model, _STATISTICS)

    def _considered(self) -> int:
        """Number of the statistics that a split of a regression tree considers: all of small data.

        Otherwise as many as ``limits.tree_values`` allows, but at least their square root, as in
        classification.
        """
        n_bags, n_features = self.merged.bags.shape
        n_columns = len(_STATISTICS) * n_features
        n_allowed = max(int(self.limits.tree_values / n_bags), int(n_columns**0.5))
        if n_allowed < n_columns:
            self.skipped.append(f"splits of trees on more than {n_allowed} of {n_columns} columns")
        return min(n_allowed, n_columns)

    def ridge_candidate(self) -> StatisticsCandidate:
        """Ridge regression on the means of the scaled bags."""
        return self._statistics(RidgeCV(_PENALTIES), ("mean",))

    def _statistics(self, model: Any, names: tuple[str, ...]) -> StatisticsCandidate:
        scale, bags = self._scaled
        rows = ScaledStatistics(scale, names)
        return StatisticsCandidate(model, rows, rows.of_scaled(bags), self.training)

    # -- scores ----------------------------------------------------------------------------

    def whole(self, way: Way) -> ScoreFunction:
        """A prepared candidate, fitted on all training bags.

        With few bags, the fit of "linear" often ends in a poor minimum. Its scores are averaged
        with those of a second fit, which starts from the inner folds.
        """
        candidate, directions = self.candidates[way], self.directions.get(way, [])
        function, second = candidate.whole(), None
        few = len(self.merged.bags) < self.limits.agreeing_bags
        if few and way.name == LINEAR and len(directions) >= _FEWEST_DIRECTIONS:
            assert isinstance(candidate, InstanceCandidate)
            second = candidate.started(directions)
        if second is None:
            return function
        return CombinedFunction([function, second.whole()], [not_calibrated(1)] * 2, np.ones(2))

    def _kept(self, way: Way, fit: FoldFit) -> np.ndarray:
        """The scores of a fit on a fold, whose direction is kept."""
        if fit.direction is not None:
            self.directions.setdefault(way, []).append(fit.direction)
        return fit.scores

    def fold_scores(
        self,
        makers: dict[Way, Callable[[], Candidate]],
        folds: Folds,
        judge: Judge,
        wanted: Wanted = lambda way, scored: True,
    ) -> Scored:
        """Scores of the test bags of each fold.

        The candidates are prepared here, in their order. One that is clearly worse than another on
        its first folds is ``dropped``. ``wanted(way, scored)`` tells whether a candidate is needed,
        given the scores of those before it. If the time is not sufficient, candidates are skipped
        or have fewer folds. The first candidate is always prepared, and has at least one fold, if
        there are folds.
        """
        if self.budget is not None:
            return self._within_budget(makers, folds, judge, wanted)
        self.candidates = {way: make() for way, make in makers.items()}
        found: Scored = {}
        asked: list[Way] = []
        for is_last in (False, True):
            # The kernel follows the linear model.
            ways = [way for way in makers if folds and (way.name == INSTANCE) == is_last]
            ways = [way for way in ways if wanted(way, found)]
            asked += ways
            for part in (slice(0, 1), slice(1, 2), slice(2, None)):
                self._score(ways, found, folds, part)
                self.dropped |= clearly_worse(found, folds, judge, self.dropped)
        self._report(asked, found, len(folds))
        return found

    def _score(self, ways: list[Way], found: Scored, folds: Folds, part: slice) -> None:
        """Score candidates on the next folds; none but the very first one after a stop."""
        ways, parts = [way for way in ways if way not in self.dropped], folds[part]
        if self.stopped:
            ways = [] if found else ways[:1]
        fits = iter(
            Parallel(n_jobs=self.n_jobs)(
                delayed(self.candidates[way].fold)(*each) for way in ways for each in parts
            )
        )
        for way in ways if parts else []:
            found.setdefault(way, []).extend(self._kept(way, next(fits)) for _ in parts)
            self._step(f"{way} scored on fold {len(found[way])} of {len(folds)}")

    def _within_budget(
        self,
        makers: dict[Way, Callable[[], Candidate]],
        folds: Folds,
        judge: Judge,
        wanted: Wanted,
    ) -> Scored:
        """One fold of every candidate, then a second one, and so on."""
        first = next(iter(makers))
        self.candidates[first] = makers[first]()
        found: Scored = {}
        took: dict[Way, float] = {}
        unwanted: set[Way] = set()
        for number, fold in enumerate(folds):
            for way in makers if number == 0 else list(found):
                if number == 0 and not wanted(way, found):
                    unwanted.add(way)
                    continue
                # Fits of all candidates on all bags follow.
                needed = took.get(way, 0.0) + _WHOLE_FIT * sum(took.values())
                complete = len(found.get(way, [])) == number and way not in self.dropped
                if found and not (complete and self._allows(needed)):
                    continue
                begun = self._elapsed
                if way not in self.candidates:
                    self.candidates[way] = makers[way]()
                scores = self._kept(way, self.candidates[way].fold(*fold))
                took[way] = self._elapsed - begun
                self._step(f"{way} scored on fold {number + 1} of {len(folds)}")
                if number == 0 and found and not self._allows(_WHOLE_FIT * sum(took.values())):
                    del took[way]
                    continue
                found.setdefault(way, []).append(scores)
            worse = clearly_worse(found, folds, judge, self.dropped)
            self.dropped |= worse
            took = {way: seconds for way, seconds in took.items() if way not in worse}
        self._report([way for way in makers if way not in unwanted], found, len(folds))
        return found

    def _report(self, ways: list[Way], found: Scored, n_folds: int) -> None:
        """Record what the time, or a callback, left out."""
        for way, scores in found.items():
            if len(scores) < n_folds and way not in self.dropped:
                self._skip(f"inner folds {len(scores) + 1} to {n_folds} of {way}")
        missing = [str(way) for way in ways if found and way not in found]
        for name in missing:
            self._skip(name)
        if missing and not self.stopped:
            warn_user(
                f"time_limit={self.budget} left out {', '.join(missing)}: raise it to compare all.",
                UserWarning,
            )


def _squares(block: Block) -> float:
    """Sum of the squares of all values."""
    rows = block.instances
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
